"""The largest elements of long rows, which a CPU looks for in blocks: values, order of equal ones, derivatives, maps."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.families.topk import (
    FLOATS_IN_BLOCKS_FROM,
    SORTED_IN_BLOCKS_FROM,
    choose_block_length,
    is_found_by_bits,
)
from effx.handling import array_type

DTYPES = [
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    np.float64,
    np.int8,
    np.int32,
    np.uint32,
    np.int64,
    np.bool_,
]


def draw_rows(dtype: Any, shape: tuple[int, int]) -> list[np.ndarray[Any, Any]]:
    """Returns rows of numbers, and of so few different ones that most are equal; with special values if there are any."""
    rng = np.random.default_rng(shape[1])
    if dtype == np.bool_:
        return [rng.random(shape) < 0.001, rng.random(shape) < 0.5]
    few = rng.integers(0, 3, shape).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        ends = np.iinfo(dtype)
        return [few, rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)]
    special = rng.choice(
        np.array([0.0, -0.0, -np.inf, np.nan, 1.0]), shape, p=[0.3, 0.3, 0.3, 0.0001, 0.0999]
    )
    return [
        few,
        rng.normal(size=shape).astype(dtype),
        special.astype(dtype),
        np.full(shape, -np.inf, dtype),
        draw_subnormal(dtype, shape),
    ]


def draw_subnormal(dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Returns numbers below the smallest normal one, which XLA:CPU compares as zeros."""
    smallest = np.array(float(enp.finfo(dtype).smallest_subnormal), dtype)
    multiples = np.random.default_rng(shape[-1]).integers(-60, 60, shape)
    numbers: np.ndarray[Any, Any] = multiples.astype(dtype) * smallest
    return numbers


def find_largest(x: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    """Returns the indices: NaN first, of equal elements the earlier."""
    if x.dtype.kind in "iu":
        return np.argsort(-x.astype(object), axis=-1, kind="stable")[..., :k]
    exact = x.astype(np.float64)
    return np.lexsort((-np.where(np.isnan(exact), np.inf, exact), ~np.isnan(exact)), axis=-1)[..., :k]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(("rows", "k"), [(1, 1), (1, 7), (3, 40), (60, 2)])
def test_values_and_order(rows: int, k: int, dtype: Any) -> None:
    with effx.enable_x64():
        by_bits = is_found_by_bits(array_type(np.dtype(dtype), ()))
        least = FLOATS_IN_BLOCKS_FROM if by_bits else SORTED_IN_BLOCKS_FROM
        n = least // rows + 13
        assert choose_block_length(array_type(np.dtype(dtype), (rows, n)), k)
        f = effx.jit(lambda x: (lax.top_k(x, k), lax.top_k(x[:, ::-1], k)))
        for x in draw_rows(dtype, (rows, n)):
            for (values, indices), data in zip(f(x), (x, x[:, ::-1]), strict=True):
                expected = find_largest(data, k)
                np.testing.assert_array_equal(np.asarray(indices), expected)
                largest = np.take_along_axis(data, expected, -1)
                np.testing.assert_array_equal(
                    np.asarray(values).astype(np.float64), largest.astype(np.float64)
                )
                if data.dtype.kind == "f":
                    np.testing.assert_array_equal(np.signbit(np.asarray(values)), np.signbit(largest))


@pytest.mark.parametrize(
    "dtype", [d for d in DTYPES if np.dtype(d).kind in "fV"], ids=lambda d: np.dtype(d).name
)
def test_subnormal_numbers_of_short_rows(dtype: Any) -> None:
    x = draw_subnormal(dtype, (3, 40))
    assert len(np.unique(x.astype(np.float64))) > 20
    with effx.enable_x64():
        for run in (lax.top_k, effx.jit(lax.top_k, static_argnums=1)):
            values, indices = run(x, 7)
            np.testing.assert_array_equal(indices, find_largest(x, 7))
            np.testing.assert_array_equal(
                np.asarray(values).view(f"u{x.itemsize}"),
                np.take_along_axis(x, find_largest(x, 7), -1).view(f"u{x.itemsize}"),
            )


def test_no_blocks_where_they_find_nothing_out() -> None:
    """Of few elements, of a large part of a row, and of none."""
    f32 = np.dtype(np.float32)
    for shape, k in (((1000,), 3), ((1 << 20,), 1 << 19), ((1 << 20,), 0), ((1 << 18, 8), 4)):
        assert choose_block_length(array_type(f32, shape), k) == 0
    assert choose_block_length(array_type(f32, (1 << 20,)), 1) == 1024
    assert choose_block_length(array_type(f32, (1 << 20,)), 1 << 10) == 32


def test_derivatives_and_maps() -> None:
    x = np.random.default_rng(0).normal(size=FLOATS_IN_BLOCKS_FROM + 5).astype(np.float32)
    weights = np.array([1.0, 10.0, 100.0], np.float32)
    places = np.argsort(-x)[:3]
    gradient = np.zeros_like(x)
    gradient[places] = weights
    np.testing.assert_array_equal(effx.grad(lambda x: (lax.top_k(x, 3)[0] * weights).sum())(x), gradient)
    _, tangent = effx.jvp(lambda x: lax.top_k(x, 3)[0], (x,), (2 * x,))
    np.testing.assert_array_equal(tangent, 2 * x[places])
    both = np.stack([x, -x])
    np.testing.assert_array_equal(
        effx.vmap(lambda x: lax.top_k(x, 3)[1])(both), [places, np.argsort(x, kind="stable")[:3]]
    )
    columns = enp.asarray(both.T)
    np.testing.assert_array_equal(lax.top_k(columns, 3, axis=0)[1].T, lax.top_k(both, 3)[1])
    chosen = lax.scan(lambda c, row: (c, lax.top_k(row, 3)[1]), None, both)[1]
    np.testing.assert_array_equal(chosen, lax.top_k(both, 3)[1])
