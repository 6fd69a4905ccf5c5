"""Prefix sums in blocks, at powers of two and beside them."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.lower.text.stablehlo.reduce import (
    CACHE_LINE,
    CACHE_SETS,
    FEW,
    SCANNED_IN_LOOP,
    _spread_over_cache,
)

SHAPES: list[tuple[int, ...]] = [(n + beside,) for n in (512, 4096, 1 << 16) for beside in (-1, 0, 1)]
SHAPES += [(rows, n) for rows in (1, 17, 64) for n in (511, 512, 1024, 1025)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    """Along each axis, of integers, floats and complex numbers; reversed and under vmap too."""
    rng = np.random.RandomState(0)
    integers = rng.randint(-9, 9, shape).astype(np.int32)
    floats = rng.rand(*shape).astype(np.float32)
    for axis in range(len(shape)):
        total = effx.jit(lambda x, axis=axis: enp.cumsum(x, axis))
        np.testing.assert_array_equal(np.asarray(total(integers)), np.cumsum(integers, axis))
        np.testing.assert_allclose(np.asarray(total(floats)), np.cumsum(floats, axis), 2e-5)
        np.testing.assert_allclose(np.asarray(total(floats * 1j)), np.cumsum(floats * 1j, axis), 2e-5)
    behind = effx.lax.cummax(enp.asarray(integers), len(shape) - 1, reverse=True)
    np.testing.assert_array_equal(
        np.asarray(behind), np.maximum.accumulate(integers[..., ::-1], -1)[..., ::-1]
    )
    stacked = np.stack([integers, -integers])
    np.testing.assert_array_equal(
        np.asarray(effx.vmap(enp.cumsum)(stacked)), np.cumsum(stacked.reshape(2, -1), 1)
    )


@pytest.mark.parametrize("width", [1, 4, 8, 16, 400, 4096, 8192])
def test_blocks_share_no_sets_of_a_cache(width: int) -> None:
    """Unless what lies behind one element fills lines that do."""
    for length in (1, 2, 500, 512, 1024, 4096):
        spread = _spread_over_cache(length, width)
        assert length <= spread <= length + max(1, CACHE_LINE // width)
        assert math.gcd(spread * width, CACHE_SETS) <= max(CACHE_LINE, math.gcd(width, CACHE_SETS))


LENGTHS = [
    1,
    2,
    7,
    8,
    9,
    15,
    16,
    17,
    24,
    33,
    63,
    64,
    65,
    511,
    512,
    513,
    1000,
    4096,
    4103,
    (1 << 16) + 1,
    (1 << 17) + 5,
    (1 << 18) + 133,
]
Data: TypeAlias = np.ndarray[Any, Any]
DTYPES: list[Any] = [np.int8, np.uint32, np.int32, np.float16, np.float32, np.float64, np.complex64]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_eight(length: int, reverse: bool) -> None:
    """Along the last axis, pairs of rows and what is beyond them: whole numbers, whose sums are exact."""
    rng = np.random.default_rng(length)
    # So many that a loop does not scan them.
    shape = (SCANNED_IN_LOOP // length + 2, length)

    def turn(x: Data) -> Data:
        return x[..., ::-1] if reverse else x

    # Two dtypes for each length: 7 and 22 have no common divisor.
    for dtype in (DTYPES[LENGTHS.index(length) % 7], DTYPES[(LENGTHS.index(length) + 3) % 7]):
        data = rng.integers(0, 2, shape).astype(dtype)
        if dtype == np.float16:
            data[:, 1000:] = 0
        with effx.enable_x64():
            total = np.asarray(lax.cumsum(enp.asarray(data), 1, reverse=reverse))
            product = (
                np.asarray(lax.cumprod(enp.asarray(1 + data), 1, reverse=reverse)) if length < 8 else None
            )
        np.testing.assert_array_equal(total, turn(np.cumsum(turn(data), 1, dtype=dtype)))
        if product is not None:
            np.testing.assert_array_equal(product, turn(np.cumprod(turn(1 + data), 1, dtype=dtype)))
        if dtype != np.complex64:
            wide = (rng.standard_normal(shape) * 50).astype(dtype)
            for scan, accumulate in ((lax.cummax, np.maximum), (lax.cummin, np.minimum)):
                extreme = turn(accumulate.accumulate(turn(wide), 1))
                with effx.enable_x64():
                    np.testing.assert_array_equal(
                        np.asarray(scan(enp.asarray(wide), 1, reverse=reverse)), extreme
                    )


@pytest.mark.parametrize("shape", [(1, (1 << 20) + 5), (1001, 1001), (7001, 143), (57, 1 << 14)])
def test_rows_of_totals(shape: tuple[int, int]) -> None:
    """Totals of so many rows are scanned in rows themselves."""
    assert math.prod(shape) // 8 > FEW
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.int32)
    total = effx.jit(lambda x: (lax.cumsum(2 * x, 1), lax.cummax(x, 1, reverse=True)))(x)
    np.testing.assert_array_equal(total[0], np.cumsum(2 * x, 1))
    np.testing.assert_array_equal(total[1], np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1])


@pytest.mark.parametrize("length", [512, 1001, 1 << 17, 1 << 18])
def test_special_values_stay_where_they_are(length: int) -> None:
    """A term is not part of sums before it, be it NaN or infinite; sums of negative zeros are negative zeros."""
    x = np.ones(length, np.float32)
    x[300], x[400] = np.inf, -np.inf
    total = np.asarray(enp.cumsum(x))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(total, np.cumsum(x))
    assert np.isposinf(total[300:400]).all()
    assert np.isnan(total[400:]).all()
    zeros = np.full(length, -0.0, np.float32)
    assert np.signbit(np.asarray(enp.cumsum(zeros))).all()
    both = np.asarray(enp.cumsum(np.full(length, complex(-0.0, -0.0), np.complex64)))
    assert np.signbit(both.real).all()
    assert np.signbit(both.imag).all()
    for shape, axis in (((2,), 0), ((70,), 0), ((length, 3), 0), ((3, length), 1)):
        for reverse in (False, True):
            running = lax.cumsum(np.broadcast_to(zeros[0], shape), axis, reverse=reverse)
            assert np.signbit(np.asarray(running)).all()
    largest = np.asarray(lax.cummax(enp.asarray(np.where(np.arange(length) == 77, np.nan, x)), 0))
    assert not np.isnan(largest[:77]).any()
    assert np.isnan(largest[77:]).all()


def test_sums_are_more_accurate_than_in_turn() -> None:
    """Rounding errors grow with the additions behind one another, not with the elements."""
    x = np.random.default_rng(0).random(1 << 18, dtype=np.float32)
    exact = np.cumsum(x, dtype=np.float64)
    errors = [np.abs(total - exact).max() for total in (np.asarray(enp.cumsum(x)), np.cumsum(x))]
    assert errors[0] * 20 < errors[1]
    # Errors of a loop's additions go both ways: they stay within what levels of eight allow at worst.
    bound = 2.0**-24 * exact * (7 * math.log(x.size, 8) + 7)
    assert (np.abs(np.asarray(enp.cumsum(x)) - exact) <= bound).all()


SHORT_FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]


@pytest.mark.parametrize("size", [100, 1000, SCANNED_IN_LOOP + 9])
@pytest.mark.parametrize("dtype", SHORT_FLOATS)
def test_short_floats_are_rounded_once(dtype: str, size: int) -> None:
    """They are added as float32: in 8 bits 256 + 1 is 256, and rows of eight compiled for more than a minute."""
    data = np.resize(np.array([1, -2, 3, -2], np.float32), size)
    x = enp.asarray(data, dtype)
    extreme = effx.jit(lambda x: lax.cummax(x, 0))(x)
    np.testing.assert_array_equal(np.asarray(extreme).astype(np.float32), np.maximum.accumulate(data))
    for terms in (x, enp.abs(x)):
        exact = np.cumsum(np.asarray(terms).astype(np.float64))
        for total, expected in (
            (effx.jit(lambda x: lax.cumsum(x))(terms), exact),
            (lax.cumsum(terms, reverse=True), np.cumsum(np.asarray(terms).astype(np.float64)[::-1])[::-1]),
        ):
            rounded = np.asarray(enp.asarray(expected.astype(np.float32)).astype(dtype))
            np.testing.assert_array_equal(np.asarray(total).astype(np.float32), rounded.astype(np.float32))
