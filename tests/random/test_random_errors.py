"""Samplers refuse what they cannot take, and say why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import effx
from effx import random
from effx.errors import DTypeError, EffxError, ShapeError

KEY = random.PRNGKey(0)

ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: random.uniform(0),
        DTypeError,
        "uniform: takes a key as random.key gives it, or its words u32[2], got i32[]~",
    ),
    (
        lambda: random.bits(np.zeros(3, np.uint32)),
        DTypeError,
        "bits: takes a key as random.key gives it, or its words u32[2], got u32[3]",
    ),
    (
        lambda: random.normal(random.split(KEY)),
        DTypeError,
        "normal: takes one key u32[2], got u32[2,2]; use vmap for many keys",
    ),
    (lambda: random.uniform(KEY, (2,), int), DTypeError, "uniform: the dtype must be floating, got int32"),
    (
        lambda: random.normal(KEY, (2,), int),
        DTypeError,
        "normal: the dtype must be floating or complex, got int32",
    ),
    (
        lambda: random.bits(KEY, (2,), int),
        DTypeError,
        "bits: the dtype must be an unsigned integer of 8 to 64 bits, got int32",
    ),
    (lambda: random.normal(KEY, (-1,)), ShapeError, "normal: sizes must not be negative, got [-1]"),
    (
        lambda: random.normal(KEY, 1.5),  # type: ignore[arg-type]
        ShapeError,
        "normal: a shape must be an int or a sequence of ints, got 1.5",
    ),
    (
        lambda: random.uniform(KEY, (2,), minval=np.zeros(3, np.float32)),
        ShapeError,
        "uniform: parameters f32[3], f32[]~ do not broadcast to shape [2]",
    ),
    (
        lambda: random.truncated_normal(KEY, 0.0, 1j),
        DTypeError,
        "truncated_normal: bounds must be real, got c64[]~",
    ),
    (lambda: random.randint(KEY, (), 0.5, 3), DTypeError, "randint: bounds must be integers, got f32[]~"),
    (
        lambda: random.randint(KEY, (), 0, 3, float),
        DTypeError,
        "randint: the dtype must be an integer of 8 to 64 bits, got float32",
    ),
    (lambda: random.bernoulli(KEY, 1), DTypeError, "bernoulli: the probability must be floating, got i32[]~"),
    (
        lambda: random.bernoulli(KEY, np.zeros((3, 4), np.float32), (4,)),
        ShapeError,
        "bernoulli: parameters f32[3,4] do not broadcast to shape [4]",
    ),
    (
        lambda: random.rademacher(KEY, (), "uint8"),
        DTypeError,
        "rademacher: the dtype must be signed integer, floating or complex, got uint8",
    ),
    (
        lambda: random.categorical(KEY, np.zeros((3, 4), np.float32), shape=(5,)),
        ShapeError,
        "categorical: shape [5] does not end in [3], the batch axes of f32[3,4]",
    ),
    (
        lambda: random.categorical(KEY, np.zeros(4, np.float32), shape=(5,), replace=False),
        ShapeError,
        "categorical: cannot draw 5 different categories from the 4 of f32[4]",
    ),
    (
        lambda: random.categorical(KEY, np.zeros((3, 0))),
        ShapeError,
        "categorical: axis 1 of f32[3,0] holds no categories",
    ),
    (
        lambda: random.permutation(KEY, 1.5),
        DTypeError,
        "permutation: x must be an integer or have an axis, got f32[]~",
    ),
    (lambda: random.permutation(KEY, -2), ShapeError, "permutation: x must not be negative, got -2"),
    (
        lambda: random.permutation(KEY, np.zeros(3), axis=1),
        ShapeError,
        "permutation: axis 1 is out of range for the 1 axes of f32[3]",
    ),
    (
        lambda: random.choice(KEY, 5, (7,), replace=False),
        ShapeError,
        "choice: cannot draw 7 of 5 elements without replacement",
    ),
    (
        lambda: random.choice(KEY, 0, (7,)),
        ShapeError,
        "choice: there is nothing to draw from: a has 0 elements",
    ),
    (
        lambda: random.choice(KEY, 3, p=np.ones(2, np.float32)),
        ShapeError,
        "choice: p must have shape [3], one chance for each element, got f32[2]",
    ),
    (lambda: random.PRNGKey(1.5), DTypeError, "PRNGKey: the seed must be an integer scalar, got f32[]~"),
    (
        lambda: random.PRNGKey(1, impl="mersenne"),
        DTypeError,
        "PRNGKey: impl must be one of threefry2x32, rbg, unsafe_rbg, or a dtype of keys, got 'mersenne'",
    ),
    (
        lambda: random.fold_in(KEY, 1.5),
        DTypeError,
        "fold_in: the number must be an integer scalar, got f32[]~",
    ),
    (
        lambda: random.key_data(np.zeros(2)),
        DTypeError,
        "key_data: takes typed keys, or the words u32[..., 2], got f32[2]",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS, ids=[m[:40] for _, _, m in ERRORS])
def test_errors(call: Callable[[], object], kind: type[EffxError], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.at is not None
    assert "test_random_errors.py" in caught.value.at


def test_numbers_out_of_range() -> None:
    with pytest.raises(OverflowError, match="python int 9223372036854775808 is out of bounds for i64"):
        random.PRNGKey(2**63)
    with pytest.raises(OverflowError, match="python int -1 is out of bounds for u32"):
        random.fold_in(KEY, -1)


def test_keys_wrap_and_unwrap() -> None:
    keys = random.split(KEY, 3)
    wrapped = random.wrap_key_data(random.key_data(keys))
    assert wrapped.shape == (3,)
    np.testing.assert_array_equal(random.key_data(wrapped), keys)


def test_samplers_run_under_transformations() -> None:
    """Under jit and vmap the values are the eager ones."""
    np.testing.assert_array_equal(
        effx.jit(lambda: random.normal(random.PRNGKey(3), (2,)))(), random.normal(random.PRNGKey(3), (2,))
    )
    shifted = effx.vmap(lambda m: random.normal(KEY, (2,)) + m)(np.arange(3.0))
    np.testing.assert_allclose(shifted[2] - shifted[0], 2.0, rtol=1e-6)


def test_modes() -> None:
    """ "high" draws small probabilities, and large Gumbel numbers, that one word of bits cannot."""
    rare = [random.bernoulli(KEY, np.float16(2.0**-13), (2**20,), mode=m).sum() for m in ("high", "low")]
    assert 80 < int(rare[0]) < 180  # 128 are expected; 10 bits make it 1024
    assert int(rare[1]) > 800
    for mode in ("high", "highest"):
        drawn = np.asarray(random.gumbel(KEY, (20_000,), mode=mode))
        assert stats.kstest(drawn, stats.gumbel_r.cdf).pvalue > 1e-3
    calls: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: random.bernoulli(KEY, mode="fine"), "bernoulli"),
        (lambda: random.gumbel(KEY, mode="fine"), "gumbel"),
        (lambda: random.categorical(KEY, np.zeros(2), mode="fine"), "categorical"),
        (lambda: random.choice(KEY, 3, mode="fine"), "choice"),
    )
    for call, name in calls:
        with pytest.raises(DTypeError) as caught:
            call()
        known = "'high' or 'low'" if name == "bernoulli" else "'highest', 'high' or 'low'"
        assert caught.value.message == f"{name}: mode must be {known}, got 'fine'"
