"""`jax.extend.random`: generators as objects, and Threefry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx.compat.modules.extend import random as extend_random
from effx.errors import EffxError

IMPLEMENTATIONS = {
    "threefry2x32": extend_random.threefry_prng_impl,
    "rbg": extend_random.rbg_prng_impl,
    "unsafe_rbg": extend_random.unsafe_rbg_prng_impl,
}


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_generators(name: str) -> None:
    """An object stands for the generator of its name, wherever a name is taken."""
    impl = IMPLEMENTATIONS[name]
    named = effx.random.key(7, impl=name)
    assert impl.name == name
    assert effx.random.key_data(named).shape == impl.key_shape
    same: list[Any] = [effx.random.key(7, impl=impl), extend_random.seed_with_impl(impl, 7)]
    for key in (*same, extend_random.random_seed(7, impl), extend_random.random_seed(np.int32(7), impl)):
        assert key.dtype == named.dtype
        np.testing.assert_array_equal(effx.random.key_data(key), effx.random.key_data(named))
    seeds = np.arange(6).reshape(2, 3)
    keys = extend_random.random_seed(seeds, impl)
    assert keys.shape == (2, 3)
    for i in np.ndindex(2, 3):
        one = effx.random.key(int(seeds[i]), impl=name)
        np.testing.assert_array_equal(effx.random.key_data(keys[i]), effx.random.key_data(one))


# Key, numbers and result, from the known answers of Random123, the authors' library.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("words", "numbers", "expected"), KNOWN)
def test_known_answers_of_threefry(words: Any, numbers: Any, expected: Any) -> None:
    """Of 20 rounds."""
    pair = (np.uint32(words[0]), np.uint32(words[1]))
    assert extend_random.threefry_2x32(pair, np.uint32(numbers)).tolist() == list(expected)


def test_shapes_of_threefry() -> None:
    """Numbers may have any shape; an odd number of them is padded by 0."""
    pair = (np.uint32(3), np.uint32(4))
    for n in (0, 1, 5, 6):
        numbers = np.arange(n, dtype=np.uint32)
        padded = extend_random.threefry_2x32(pair, np.append(numbers, np.uint32(0)) if n % 2 else numbers)
        np.testing.assert_array_equal(extend_random.threefry_2x32(pair, numbers), padded[:n])
    grid = np.arange(6, dtype=np.uint32).reshape(2, 3)
    np.testing.assert_array_equal(
        extend_random.threefry_2x32(pair, grid), extend_random.threefry_2x32(pair, grid.ravel()).reshape(2, 3)
    )


def test_what_threefry_refuses() -> None:
    """Each with the whole text."""
    word = np.uint32(1)
    calls: list[tuple[Callable[[], object], str]] = [
        (
            lambda: extend_random.threefry_2x32((word, word), np.arange(2)),
            "threefry_2x32: words and numbers must be u32, got i32[2]",
        ),
        (
            lambda: extend_random.threefry_2x32((word, np.ones(1, np.uint32)), np.ones(1, np.uint32)),
            "threefry_2x32: a key is two scalars, got u32[] and u32[1]",
        ),
    ]
    for call, text in calls:
        with pytest.raises(EffxError) as caught:
            call()
        assert caught.value.message == text
