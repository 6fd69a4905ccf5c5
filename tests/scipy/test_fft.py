"""effx.scipy.fft gives SciPy's cosine transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import fft as scipy

import effx
from effx.errors import EffxError
from effx.scipy import fft

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 5, 8))


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_values(kind: int, norm: str | None) -> None:
    with effx.enable_x64(True):
        for n, axis in ((None, -1), (6, 1), (3, 1)):
            for name in ("dct", "idct"):
                got = getattr(fft, name)(X, kind, n, axis, norm)
                want = getattr(scipy, name)(X, kind, n, axis, norm)
                np.testing.assert_allclose(got, want, atol=1e-12)
        for name in ("dctn", "idctn"):
            got = getattr(fft, name)(X, kind, (4, 6), (-1, 0), norm)
            np.testing.assert_allclose(got, getattr(scipy, name)(X, kind, (4, 6), (-1, 0), norm), atol=1e-12)


def test_axes_and_inverses() -> None:
    with effx.enable_x64(True):
        np.testing.assert_allclose(fft.dctn(X), scipy.dctn(X), atol=1e-11)
        np.testing.assert_allclose(fft.dctn(X, s=(4,)), scipy.dctn(X, s=(4,)), atol=1e-12)
        np.testing.assert_allclose(fft.idctn(fft.dctn(X)), X, atol=1e-12)
        np.testing.assert_allclose(fft.idct(fft.dct(X, norm="ortho"), norm="ortho"), X, atol=1e-12)
        z = X + 1j * X[::-1]
        np.testing.assert_allclose(fft.dct(z), scipy.dct(z), atol=1e-12)


def test_dtypes_and_sizes() -> None:
    for dtype, wanted in (("f2", "f4"), ("i4", "f4"), ("f4", "f4")):
        got = fft.dct((4 * X[0, 0]).astype(dtype))
        assert got.dtype == np.dtype(wanted)
        np.testing.assert_allclose(
            got, scipy.dct((4 * X[0, 0]).astype(dtype).astype("f8")), rtol=1e-4, atol=1e-4
        )
    assert fft.dct(np.array([3.0])).tolist() == [6.0]
    assert fft.dct(np.zeros((0, 4))).shape == (0, 4)
    assert np.isnan(fft.dct(np.array([np.nan, 1.0]))).all()


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_transformations(kind: int) -> None:
    """The transform is linear; its transpose is its gradient."""
    with effx.enable_x64(True):
        matrix = scipy.dct(np.eye(8), kind, axis=0)

        def transformed(x: Any) -> Any:
            return fft.dct(x, kind)

        np.testing.assert_allclose(effx.jit(effx.jacrev(transformed))(X[0, 0]), matrix, atol=1e-12)
        got = effx.vmap(lambda x: fft.dct(x, kind, axis=0), in_axes=1, out_axes=1)(X[0])
        np.testing.assert_allclose(got, scipy.dct(X[0], kind, axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fft.dct(X, 5), "dct: type must be 1, 2, 3 or 4, got 5"),
        (
            lambda: fft.idct(X, norm="no"),
            "idct: norm must be one of backward, ortho, forward or None, got 'no'",
        ),
        (lambda: fft.dct(X, n=0), "dct: axis 2 of f32[3,5,8] must have at least 1 points, got 0"),
        (lambda: fft.dct(X, 1, n=1), "dct: axis 2 of f32[3,5,8] must have at least 2 points, got 1"),
        (lambda: fft.dctn(X, s=[2, 2], axes=[0]), "dctn: 2 sizes for 1 axes"),
        (lambda: fft.idctn(X, axes=(0, -3)), "idctn: axes (0, -3) repeat an axis"),
    ],
)
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
