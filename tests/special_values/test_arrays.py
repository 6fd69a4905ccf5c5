"""Reductions, rounding and spacing at the ends of each dtype's range."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import nn

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
FLOATS = [np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)]
MANY = 65_543  # more than the largest float16, 65504


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_of_16_bits_do_not_overflow(dtype: np.dtype[Any]) -> None:
    """Sums inside of functions are those of f32, where the function's value is in range."""
    zeros, ones = enp.zeros(MANY, dtype), enp.ones(MANY, dtype)
    log = math.log(MANY)
    near = 2 * float(enp.finfo(dtype).eps)
    for got, want in (
        (nn.log_softmax(zeros)[0], -log),
        (nn.logsumexp(zeros), log),
        (nn.softmax(zeros)[0], 1 / MANY),
        (nn.logmeanexp(zeros), 0.0),
        (nn.logsumexp(zeros, b=ones), log),
        (enp.mean(ones), 1.0),
        (enp.average(ones, weights=ones), 1.0),
        (enp.var(ones), 0.0),
        (enp.linalg.norm(ones), math.sqrt(MANY)),
        (enp.linalg.norm(enp.full(3, 300, dtype)), 300 * math.sqrt(3)),
        (enp.linalg.norm(enp.full((2, 2), 300, dtype)), 600.0),
        (enp.linalg.norm(enp.full(3, 300, dtype), 3), 300 * 3 ** (1 / 3)),
        (enp.std(enp.array([0, 60000], dtype)), 30000.0),
        (enp.nanstd(enp.array([0, 60000, math.nan], dtype)), 30000.0),
    ):
        assert got.dtype == dtype
        np.testing.assert_allclose(float(got), want, rtol=near, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_slopes_of_sums_of_16_bits(dtype: np.dtype[Any]) -> None:
    slope = effx.grad(lambda x: nn.logsumexp(x).astype("float32"))(enp.zeros(MANY, dtype))
    np.testing.assert_allclose(np.asarray(slope, np.float32), 1 / MANY, rtol=1e-2)
    slope = effx.grad(lambda x: nn.log_softmax(x)[0].astype("float32"))(enp.zeros(MANY, dtype))
    np.testing.assert_allclose(float(slope[0]), 1 - 1 / MANY, rtol=1e-2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("ddof", [2, 3, 2.5])
def test_no_variance_is_left(dtype: np.dtype[Any], ddof: float) -> None:
    """NaN where no degree of freedom is left, under jit and with a mask too; infinite or negative before."""
    with effx.enable_x64(dtype.itemsize == 8):
        x, all_of_them = np.array([1.0, 2.0], dtype), np.array([True, True])
        for function in (enp.var, enp.std, enp.nanvar, enp.nanstd):
            assert np.isnan(function(x, ddof=ddof))
            assert np.isnan(effx.jit(lambda x, f=function: f(x, ddof=ddof))(x))
            assert np.isnan(
                function(np.array([*x, 5.0], dtype), ddof=ddof, where=np.array([True, True, False]))
            )
            assert float(function(x, ddof=1, where=all_of_them)) == pytest.approx(
                0.5 ** (1 if "var" in function.__name__ else 0.5), rel=1e-3
            )
        assert np.isnan(enp.var(np.zeros(0, dtype)))
        assert np.isnan(enp.cov(x, ddof=int(ddof)))
    assert np.isnan(enp.var(x, ddof=2, axis=0, keepdims=True)).shape == (1,)


@pytest.mark.parametrize("dtype", [*FLOATS, HALVES[1]], ids=str)
@pytest.mark.parametrize("decimals", [-400, -40, -38, -1, 1, 5, 38, 44, 310])
def test_round_to_any_number_of_decimals(dtype: np.dtype[Any], decimals: int) -> None:
    """The result is the number that is nearest to Python's, which is exact, and x where it has no such digits."""
    info = enp.finfo(dtype)
    values = [
        0.0,
        -0.0,
        1.5,
        -2.5,
        0.285,
        123.456,
        6e4,
        float(info.max),
        float(info.tiny) * 4,
        math.inf,
        -math.inf,
        math.nan,
    ]
    x = np.array(values, dtype)
    with effx.enable_x64(dtype.itemsize == 8):
        got = np.asarray(enp.round(x, decimals)).astype(np.float64)
    for value, result in zip(x.astype(np.float64), got, strict=True):
        if not math.isfinite(value):
            assert result == value or (math.isnan(result) and math.isnan(value))
            continue
        want = round(float(value), decimals)
        if abs(want) > float(info.max):  # what is nearest to it is no float of the dtype
            continue
        step = 10.0**-decimals if -308 < decimals < 308 else math.inf if decimals < 0 else 0.0
        # Halves of a step, as 0.285 nearly is, may be rounded to either side: x is scaled by a rounded product.
        close = (
            abs(abs(value / step) % 1 - 0.5) < 1e-2
            if 0 < step < math.inf and abs(value) < step * 1e3
            else False
        )
        bound = abs(want) * 4 * float(info.eps) + 2 * float(info.tiny) + (step if close else 0.0)
        assert abs(result - want) <= bound, (value, result, want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("decimals", [0, 3, -1, -2, -4, -9, -25])
def test_round_integers_exactly(dtype: str, decimals: int) -> None:
    info = np.iinfo(dtype)
    values = [
        v
        for v in (0, 4, 5, 6, 15, 25, 35, 49, 50, 51, 99, 150, 250, 16777219, 2**53 + 15)
        if v < info.max // 2
    ]
    values += [-v for v in values if info.min < 0]
    with effx.enable_x64(True):
        got = enp.round(np.array(values, dtype), decimals)
    assert got.dtype == dtype
    assert got.tolist() == [round(v, decimals) for v in values]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_spacing(dtype: np.dtype[Any]) -> None:
    """The smallest subnormal number at 0 and near it, as NumPy's."""
    info = np.finfo(dtype)
    tiny, most = float(info.tiny), float(info.max)
    values = [
        0.0,
        -0.0,
        float(info.smallest_subnormal),
        -float(info.smallest_subnormal),
        tiny / 2,
        -tiny / 2,
        tiny,
        -tiny,
        tiny * 8,
        tiny / float(info.eps),
    ]
    values += [1e-3, 0.75, 1.0, -1.0, most / 2, most, math.inf, -math.inf, math.nan]
    x = np.array(values, dtype)
    with effx.enable_x64(dtype.itemsize == 8), np.errstate(all="ignore"):
        got, compiled = np.asarray(enp.spacing(x)), np.asarray(effx.jit(enp.spacing)(x))
        want = np.spacing(x)
        if dtype.itemsize == 2:  # NumPy's float16 has the distance towards infinity
            negative = x < 0
            want[negative] = -np.spacing(-x[negative])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(compiled, want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nextafter(dtype: np.dtype[Any]) -> None:
    info = np.finfo(dtype)
    values = [
        0.0,
        -0.0,
        float(info.smallest_subnormal),
        float(info.tiny),
        -float(info.tiny),
        1.0,
        float(info.max),
        math.inf,
    ]
    x, y = [
        v.ravel()
        for v in np.meshgrid(np.array(values, dtype), np.array([-math.inf, 0.0, 1.0, math.inf], dtype))
    ]
    with effx.enable_x64(dtype.itemsize == 8), np.errstate(all="ignore"):
        np.testing.assert_array_equal(enp.nextafter(x, y), np.nextafter(x, y))
