"""effx.scipy.ndimage reads arrays between their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import ndimage as scipy

import effx
from effx.errors import EffxError
from effx.scipy import ndimage

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
PLACES = RNG.uniform(-9, 13, size=(2, 40))
# What SciPy calls them: there "constant" and "wrap" have other ends.
THERE = {"constant": "grid-constant", "wrap": "grid-wrap"}


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_values(mode: str, order: int) -> None:
    with effx.enable_x64(True):
        got = ndimage.map_coordinates(X, list(PLACES), order, mode, cval=2.5)
        want = scipy.map_coordinates(X, PLACES, order=order, mode=THERE.get(mode, mode), cval=2.5)
        np.testing.assert_allclose(got, want, atol=1e-12)
    one = ndimage.map_coordinates(np.array([3.0]), [np.array([-1.0, 0.0, 2.0])], order, mode, cval=3.0)
    assert one.tolist() == [3, 3, 3]


def test_dtypes_and_shapes() -> None:
    """Integers are rounded, halves away from 0; coordinates broadcast, and may be integers."""
    got = ndimage.map_coordinates(np.array([0, 1, -2, -3]), [np.array([0.5, 2.5, 1.4, 8.0])], 1, cval=3.7)
    assert (got.dtype.name, got.tolist()) == ("int32", [1, -3, 0, 4])
    got = ndimage.map_coordinates(X, [np.array([[0], [1]]), np.array([2, 3, -1])], 1, "nearest")
    np.testing.assert_allclose(got, X[:2][:, [2, 3, 0]], rtol=1e-6)
    z = ndimage.map_coordinates(X * 1j, [0.5, 1.0], 1)
    np.testing.assert_allclose(z, 1j * (X[0, 1] + X[1, 1]) / 2, rtol=1e-6)
    assert ndimage.map_coordinates(X.astype("f2"), [1.0, 1.0], 1).dtype == np.float16
    assert ndimage.map_coordinates(X, [np.zeros(0), np.zeros(0)], 1).shape == (0,)


def test_transformations() -> None:
    """Linear interpolation can be differentiated by the array and by the places."""
    with effx.enable_x64(True):

        def read(x: Any, p: Any) -> Any:
            return (ndimage.map_coordinates(x, [p[0], p[1]], 1, "reflect") ** 2).sum()

        places = PLACES[:, :6]
        by_x, by_p = effx.jit(effx.grad(read, (0, 1)))(X, places)
        for i, j in ((0, 0), (2, 3)):
            h = np.zeros_like(X)
            h[i, j] = 1e-6
            np.testing.assert_allclose(
                by_x[i, j], (read(X + h, places) - read(X - h, places)) / 2e-6, atol=1e-7
            )
        for i, j in ((0, 1), (1, 4)):
            h = np.zeros_like(places)
            h[i, j] = 1e-6
            np.testing.assert_allclose(
                by_p[i, j], (read(X, places + h) - read(X, places - h)) / 2e-6, atol=1e-7
            )
        got = effx.vmap(lambda p: ndimage.map_coordinates(X, [p[0], p[1]], 1))(PLACES.T)
        np.testing.assert_allclose(got, ndimage.map_coordinates(X, list(PLACES), 1))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ndimage.map_coordinates(X, [PLACES[0]], 1),
         "map_coordinates: coordinates must be one array for each axis of f32[4,5], got 1"),
        (lambda: ndimage.map_coordinates(X, list(PLACES), 2), "map_coordinates: order must be 0 or 1, got 2"),
        (lambda: ndimage.map_coordinates(X, list(PLACES), 1, "no"),
         "map_coordinates: mode must be one of constant, nearest, wrap, mirror, reflect, got 'no'"),
        (lambda: ndimage.map_coordinates(X, [1j, 1j], 1),
         "map_coordinates: coordinates must be real, got c64[]~"),
        (lambda: ndimage.map_coordinates(X[:0], [1.0, 1.0], 1),
         "map_coordinates: the input must have elements, got f32[0,5]"),
        (lambda: ndimage.map_coordinates(X, [1.0, 1.0], 1, cval=np.ones(2)),
         "map_coordinates: cval must be a number, got f32[2]"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
