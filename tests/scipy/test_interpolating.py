"""Interpolation on grids, the trapezoidal rule and vector quantization give SciPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.cluster import vq as scipy_vq
from scipy.integrate import trapezoid as scipy_trapezoid
from scipy.interpolate import RegularGridInterpolator as ScipyInterpolator

import effx
from effx.errors import EffxError
from effx.scipy import integrate
from effx.scipy.cluster import vq
from effx.scipy.interpolate import RegularGridInterpolator

RNG = np.random.default_rng(0)
GRID = np.sort(RNG.uniform(-2, 2, 5)), np.array([3.0, 1.0, 0.5, -1.0])
VALUES = RNG.normal(size=(5, 4, 2))
PLACES = RNG.uniform(-2.5, 3.5, size=(3, 20, 2))


@pytest.mark.parametrize(("method", "fill"), [("linear", np.nan), ("nearest", 7.0), ("linear", None)])
def test_interpolation(method: str, fill: float | None) -> None:
    """Points may fall; values may be arrays; places out of the grid are filled or continued."""
    places = np.concatenate([PLACES.reshape(-1, 2), [[np.nan, 0.0], [GRID[0][0], 3.0], [GRID[0][-1], -1.0]]])
    there = ScipyInterpolator(GRID, VALUES, method=method, bounds_error=False, fill_value=fill)
    with effx.enable_x64(True):
        here = RegularGridInterpolator(GRID, VALUES, method, fill_value=fill)
        np.testing.assert_allclose(here(places), there(places), atol=1e-12)
        np.testing.assert_allclose(here((0.3, places[:4, 1])), there((0.3, places[:4, 1])), atol=1e-12)
        other = "nearest" if method == "linear" else "linear"
        np.testing.assert_allclose(here(PLACES, method=other), there(PLACES, method=other), atol=1e-12)
        one = RegularGridInterpolator((np.array([1.0]), GRID[1]), VALUES[:1], method, fill_value=fill)
        np.testing.assert_allclose(one(np.array([1.0, 1.0])), VALUES[0, 1])


def test_transformations() -> None:
    """The gradient by values and places; places inside pass where others are refused."""
    with effx.enable_x64(True):
        inside = PLACES.reshape(-1, 2) * 0.2

        def total(values: Any, places: Any) -> Any:
            return (RegularGridInterpolator(GRID, values)(places) ** 2).sum()

        by_values, by_places = effx.jit(effx.grad(total, (0, 1)))(VALUES, inside)
        h = np.zeros_like(VALUES)
        h[2, 1, 0] = 1e-6
        want = (total(VALUES + h, inside) - total(VALUES - h, inside)) / 2e-6
        np.testing.assert_allclose(by_values[2, 1, 0], want, rtol=1e-6, atol=1e-8)
        h = np.zeros_like(inside)
        h[3] = 1e-6, 0
        want = (total(VALUES, inside + h) - total(VALUES, inside - h)) / 2e-6
        np.testing.assert_allclose(by_places[3, 0], want, rtol=1e-6)
        f = RegularGridInterpolator(GRID, VALUES, bounds_error=True)
        np.testing.assert_allclose(f(inside), RegularGridInterpolator(GRID, VALUES)(inside))
        np.testing.assert_allclose(effx.vmap(RegularGridInterpolator(GRID, VALUES))(inside), f(inside))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_trapezoid(dtype: str) -> None:
    y = RNG.normal(size=(3, 4)).astype(dtype)
    x = np.cumsum(RNG.uniform(size=4)).astype(dtype)
    with effx.enable_x64(dtype == "f8"):
        for kwargs in ({}, {"x": x}, {"dx": 0.5, "axis": 0}, {"x": np.broadcast_to(x, (3, 4))}):
            got = integrate.trapezoid(y, **kwargs)
            assert got.dtype == y.dtype
            np.testing.assert_allclose(got, scipy_trapezoid(y, **kwargs), rtol=1e-5)
        slopes = effx.grad(lambda y: integrate.trapezoid(y, x))(y[0])
        gaps = np.diff(x, prepend=x[0], append=x[-1])
        np.testing.assert_allclose(slopes, (gaps[1:] + gaps[:-1]) / 2, rtol=1e-5)
        many = effx.jit(effx.vmap(lambda y: integrate.trapezoid(y, x)))(y)
        np.testing.assert_allclose(many, scipy_trapezoid(y, x), rtol=1e-5)
    assert integrate.trapezoid(np.array([1, 2])).tolist() == 1.5


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_quantization(dtype: str) -> None:
    x, book = RNG.normal(size=(30, 3)).astype(dtype), RNG.normal(size=(5, 3)).astype(dtype)
    x[0] = book[3]
    with effx.enable_x64(dtype == "f8"):
        for a, b in ((x, book), (x[:, 0], book[:, 0])):
            codes, distances = vq.vq(a, b, check_finite=False)
            want = scipy_vq.vq(a, b)
            assert codes.dtype == np.int32
            np.testing.assert_array_equal(codes, want[0])
            np.testing.assert_allclose(distances, want[1], rtol=1e-5)
        slopes = effx.grad(lambda x: vq.vq(x, book)[1].sum())(x)
        codes, distances = vq.vq(x, book)
        gaps = x - book[np.asarray(codes)]
        lengths = np.where(np.asarray(distances) == 0, 1, distances)[:, None]
        np.testing.assert_allclose(slopes, gaps / lengths, rtol=1e-4, atol=1e-6)
        many = effx.vmap(lambda x: vq.vq(x, book)[0])(x.reshape(2, 15, 3))
        np.testing.assert_array_equal(many.ravel(), codes)
    assert vq.vq(np.arange(3), np.array([1, 2]))[0].tolist() == [0, 0, 1]
    assert vq.vq(np.zeros((0, 2)), np.ones((1, 2)))[0].shape == (0,)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: RegularGridInterpolator(GRID, VALUES, "cubic"),
         "RegularGridInterpolator: method must be one of linear, nearest, got 'cubic'"),
        (lambda: RegularGridInterpolator(GRID[::-1], VALUES),
         "RegularGridInterpolator: the points of axis 0 must be one for each of the values f32[5,4,2], got f32[4]"),
        (lambda: RegularGridInterpolator((np.array([0.0, 2.0, 1.0]),), np.ones(3)),
         "RegularGridInterpolator: the points of axis 0 must rise or fall"),
        (lambda: RegularGridInterpolator((GRID[0],) * 4, VALUES),
         "RegularGridInterpolator: 4 axes of points for values f32[5,4,2]"),
        (lambda: RegularGridInterpolator(GRID, VALUES)(np.ones(3)),
         "RegularGridInterpolator: places must have 2 coordinates, got 3"),
        (lambda: RegularGridInterpolator(GRID, VALUES)(1.0),
         "RegularGridInterpolator: places must have 2 coordinates, got f32[]~"),
        (lambda: RegularGridInterpolator(GRID, VALUES, bounds_error=True)(np.full(2, 9.0)),
         "RegularGridInterpolator: a place is out of the grid, and bounds_error is set"),
        (lambda: effx.jit(RegularGridInterpolator(GRID, VALUES, bounds_error=True))(np.full(2, 9.0)),
         "RegularGridInterpolator: bounds_error needs concrete places"),
        (lambda: vq.vq(np.ones((3, 2)), np.ones(4)),
         "vq: obs and code_book must both be [count, features] or [count], got f32[3,2] and f32[4]"),
        (lambda: vq.vq(np.ones((3, 2)), np.ones((0, 2))), "vq: code_book must have a code, got f32[0,2]"),
        (lambda: vq.vq(np.ones(3) * 1j, np.ones(2)), "vq: takes real numbers, got c64[3]"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
