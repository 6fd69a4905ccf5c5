"""Keys, bits and samples are those of JAX's threefry2x32."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

import effx
from effx import random
from effx.random.generators import random_bits
from effx.random.threefry import position_words
from tests.random.jax_values import BITS, KEYS, SAMPLES, SPLITS


def flags(x64: bool, partitionable: bool) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(effx.enable_x64(x64))
    stack.enter_context(effx.threefry_partitionable(partitionable))
    return stack


@pytest.mark.parametrize(("seed", "x64", "words"), KEYS)
def test_keys(seed: int, x64: bool, words: list[int]) -> None:
    """A Python int, a NumPy integer and a traced one give the same key."""
    with effx.enable_x64(x64):
        assert random.PRNGKey(seed).tolist() == words
        assert random.key_data(random.key(seed)).tolist() == words
        if x64:
            assert random.PRNGKey(np.int64(seed)).tolist() == words
            assert effx.jit(random.PRNGKey)(np.int64(seed)).tolist() == words


@pytest.mark.parametrize(("num", "partitionable", "words"), SPLITS)
def test_splits(num: int | tuple[int, ...] | str, partitionable: bool, words: list[int]) -> None:
    with effx.threefry_partitionable(partitionable):
        key = random.PRNGKey(17)
        if isinstance(num, str):
            assert random.fold_in(key, 5).tolist() == words
            assert random.fold_in(key, np.int32(5)).tolist() == words
            assert effx.jit(random.fold_in)(key, 5).tolist() == words
        else:
            keys = random.split(key, num)
            assert keys.shape == (*((num,) if isinstance(num, int) else num), 2)
            assert keys.ravel().tolist() == words


@pytest.mark.parametrize(("width", "shape", "partitionable", "values"), BITS)
def test_bits(width: int, shape: tuple[int, ...], partitionable: bool, values: list[int]) -> None:
    with flags(True, partitionable):
        found = random.bits(random.PRNGKey(1234567), shape, f"uint{width}")
        assert (found.shape, found.dtype) == (shape, np.dtype(f"uint{width}"))
        assert found.ravel().tolist() == values


@pytest.mark.parametrize(
    ("name", "arguments", "x64", "partitionable", "values"),
    SAMPLES,
    ids=[f"{i}-{s[0]}" for i, s in enumerate(SAMPLES)],
)
def test_samples(
    name: str, arguments: dict[str, object], x64: bool, partitionable: bool, values: list[object]
) -> None:
    given = {n: np.asarray(v, np.float32) if isinstance(v, list) else v for n, v in arguments.items()}
    with flags(x64, partitionable):
        found = np.asarray(getattr(random, name)(random.PRNGKey(42), **given))
    want = np.asarray(values).reshape(*found.shape, -1)
    if found.dtype.kind == "c":
        np.testing.assert_allclose(np.stack([found.real, found.imag], -1), want, rtol=1e-6)
    elif found.dtype.kind in "biu":
        np.testing.assert_array_equal(found.ravel(), want.ravel())
    else:
        # A few units in the last place: processors differ in how they fuse multiplications and additions.
        rtol = {2: 1e-2, 4: 2e-6, 8: 1e-14}[found.dtype.itemsize]
        np.testing.assert_allclose(found.astype(np.float64).ravel(), want.ravel(), rtol=rtol)


def test_arrays_of_many_elements_count_with_64_bits() -> None:
    """Positions from 2**32 on have a high word; asked for without making the array."""
    types = effx.eval_shape(lambda: position_words((3, 2**31)))
    assert [t.shape for t in types] == [(3, 2**31)] * 2
    small = position_words((2, 3))
    assert np.asarray(small[1]).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_flag_changes_what_a_compiled_sampler_gives() -> None:
    """The compiled function for one setting does not serve the other."""
    key = random.PRNGKey(3)
    draw = effx.jit(lambda k: random_bits(k, 32, (3,)))
    new = draw(key).tolist()
    with effx.threefry_partitionable(False):
        old = draw(key).tolist()
        assert random.bits(key, (3,)).tolist() == old
    assert new != old
    assert draw(key).tolist() == new == random.bits(key, (3,)).tolist()


@pytest.mark.parametrize("partitionable", [True, False])
def test_vmap_over_keys_is_a_loop(partitionable: bool) -> None:
    with effx.threefry_partitionable(partitionable):
        keys = random.split(random.PRNGKey(5), 4)
        for draw in (
            lambda k: random.normal(k, (3,)),
            lambda k: random.randint(k, (2,), 0, 9),
            lambda k: random.permutation(k, 6),
            random.split,
            lambda k: random.fold_in(k, 1),
        ):
            batched = effx.vmap(draw)(keys)
            np.testing.assert_array_equal(batched, np.stack([draw(k) for k in keys]))


def test_vmap_over_seeds() -> None:
    keys = effx.vmap(random.PRNGKey)(np.arange(3))
    np.testing.assert_array_equal(keys, np.stack([random.PRNGKey(i) for i in range(3)]))
