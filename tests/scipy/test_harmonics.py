"""Spherical harmonics are SciPy's, with derivatives of all orders."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special as scipy

import effx
from effx.errors import ConcretizationError, DTypeError, ShapeError
from effx.scipy import special

N, M = [x.ravel() for x in np.meshgrid(np.arange(6), np.arange(-6, 7), indexing="ij")]
THETA = np.linspace(0.0, np.pi, len(N))
PHI = np.linspace(-3.0, 5.0, len(N))


def test_values() -> None:
    """Of all orders, beyond the degree too, at the poles, and of high degrees."""
    for dtype, exact in (("f8", 1e-13), ("f4", 1e-5)):
        with effx.enable_x64(dtype == "f8"):
            theta, phi = THETA.astype(dtype), PHI.astype(dtype)
            got = special.sph_harm_y(N, M, theta, phi)
            want = scipy.sph_harm_y(N, M, theta.astype("f8"), phi.astype("f8"))
            np.testing.assert_allclose(got, want, atol=exact, rtol=0)
            assert got.dtype == np.dtype("c16" if dtype == "f8" else "c8")
            high = special.sph_harm_y(
                100, np.array([-60, 0, 3, 100]), (dtype == "f8" and 1.1) or np.float32(1.1), 0.3
            )
            want = scipy.sph_harm_y(100, [-60, 0, 3, 100], 1.1, 0.3)
            np.testing.assert_allclose(high, want, atol=1e-12 if dtype == "f8" else 1e-4, rtol=0)
    assert special.sph_harm_y(np.zeros((2, 1), int), 0, np.ones((1, 3)), 0.5).shape == (2, 3)
    assert special.sph_harm_y(np.zeros(0, int), 0, 1.0, 0.5).shape == (0,)
    np.testing.assert_array_equal(
        np.isnan(special.sph_harm_y(np.array([2, 3]), 0, 1.0, 0.5, n_max=2)), [False, True]
    )


def test_derivatives() -> None:
    """As SciPy gives them, and as forward and reverse mode do."""
    with effx.enable_x64(True):
        want = scipy.sph_harm_y(N, M, THETA, PHI, diff_n=2)
        got = special.sph_harm_y(N, M, THETA, PHI, diff_n=2)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
        two = special.sph_harm_y(N, M, THETA, PHI, diff_n=1)
        np.testing.assert_allclose(two[1], want[1], atol=1e-12)

        def parts(n: effx.Array, m: effx.Array, theta: effx.Array, phi: effx.Array) -> effx.Array:
            y = special.sph_harm_y(n, m, theta, phi, n_max=5)
            return y.real + 2 * y.imag

        columns = [effx.numpy.asarray(x) for x in (N, M, THETA, PHI)]
        value, slopes = effx.jit(effx.vmap(effx.value_and_grad(parts, (2, 3))))(*columns)
        np.testing.assert_allclose(value, want[0].real + 2 * want[0].imag, atol=1e-12)
        exact = want[1].real + 2 * want[1].imag
        np.testing.assert_allclose(np.stack(slopes, -1), exact, atol=1e-12)
        curved = effx.jit(effx.vmap(effx.grad(effx.grad(parts, 2), 2)))(*columns)
        np.testing.assert_allclose(curved, (want[2].real + 2 * want[2].imag)[:, 0, 0], atol=1e-12)


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (
        lambda: special.sph_harm_y(1.0, 0, 0.1, 0.2),
        DTypeError,
        "sph_harm_y: degrees and orders must be integers, got f32[]~",
    ),
    (lambda: special.sph_harm_y(1, 0, 0.1, 1j), DTypeError, "sph_harm_y: expected real numbers, got c64[]~"),
    (
        lambda: special.sph_harm_y(1, 0, 0.1, 0.2, 3),  # type: ignore[call-overload]
        ShapeError,
        "sph_harm_y: diff_n must be 0, 1 or 2, got 3",
    ),
    (
        lambda: special.sph_harm_y(1, 0, 0.1, 0.2, n_max=-1),
        ShapeError,
        "sph_harm_y: n_max must be an int >= 0, got -1",
    ),
    (
        lambda: effx.jit(lambda n: special.sph_harm_y(n, 0, 0.1, 0.2))(effx.numpy.asarray(2)),
        ConcretizationError,
        "sph_harm_y: the largest degree of the abstract i32[]~ is not known while it is traced; give n_max",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text) + r"(\n|$)"):
        call()
