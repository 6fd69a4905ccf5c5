"""Functions of complex numbers near zeros, poles and cuts, against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import effx
from effx.scipy import special

PLANE = np.array(
    [
        complex(x, y)
        for x in (
            -30.5,
            -7.3,
            -2.001,
            -1.5,
            -0.5,
            -1e-3,
            0.0,
            1e-5,
            0.3,
            0.5,
            0.9,
            1.0,
            1.001,
            1.5,
            2.0,
            2.2,
            3.7,
            8.0,
            15.0,
        )
        for y in (0.0, 1e-4, 0.1, -0.5, 1.0, -3.0, 9.0, 12.0, -40.0)
        if (x, y) != (0.0, 0.0)
    ]
)


def evaluate(function: Any, z: Any) -> Any:
    with mpmath.workdps(40):
        return np.array([complex(function(mpmath.mpc(complex(v)))) for v in z])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("name", "function", "ulps", "floor"),
    [
        ("loggamma", mpmath.loggamma, 128, 0.0),
        ("gamma", mpmath.gamma, 400, 0.0),
        ("digamma", mpmath.digamma, 16, 0.3),
        ("erfcx", lambda z: mpmath.exp(z * z) * mpmath.erfc(z), 64, 0.0),
    ],
)
def test_values(name: str, function: Any, ulps: int, floor: float, dtype: str) -> None:
    """The error is one of the complex number, in roundings of its size; of exponentials it grows with the exponent."""
    z = PLANE.astype(dtype)
    if name == "erfcx":
        z = z[
            (z.real > -2) & (np.abs(z) < 20)
        ]  # on the left, where it grows as exp(z²), the error of z² counts
    want = evaluate(function, z)
    with effx.enable_x64(dtype == "complex128"):
        got = np.asarray(effx.jit(getattr(special, name))(z))
    assert got.dtype == dtype
    info = np.finfo(got.dtype)
    size = np.maximum(np.abs(want), max(floor, float(info.tiny)))
    error = np.abs(got - want) / size / info.eps
    error[np.abs(want) < float(info.tiny)] = 0.0
    assert error.max() < ulps, (z[error.argmax()], got[error.argmax()], want[error.argmax()], error.max())


def test_the_logarithm_has_one_cut() -> None:
    """It is seen from the side that the sign of the imaginary part says, and isn't the logarithm of the gamma function."""
    above, below = complex(-1.5, 0.0), complex(-1.5, -0.0)
    got = np.asarray(special.loggamma(np.array([above, below], np.complex64)))
    np.testing.assert_allclose(got, [0.8600470 - 6.2831853j, 0.8600470 + 6.2831853j], rtol=1e-6)
    z = np.complex64(2.0 + 20.0j)
    many_turns = complex(special.loggamma(z)).imag
    assert abs(many_turns - complex(mpmath.loggamma(2 + 20j)).imag) < 1e-4
    assert many_turns > 40


def test_poles_are_nan() -> None:
    poles = np.array([0.0, -1.0, -7.0], np.complex64)
    for function in (special.loggamma, special.gamma, special.digamma):
        assert np.isnan(np.asarray(function(poles))).all()


def test_derivatives() -> None:
    """The derivative of the logarithm is digamma, that of the function its product with it."""
    z = np.array([0.3 + 0.2j, -1.3 + 0.5j, 4.0 - 2.0j], np.complex64)
    slope = effx.vmap(effx.grad(special.loggamma, holomorphic=True))(z)
    np.testing.assert_allclose(slope, evaluate(mpmath.digamma, z), rtol=2e-6)
    slope = effx.vmap(effx.grad(special.gamma, holomorphic=True))(z)
    np.testing.assert_allclose(slope, evaluate(lambda x: mpmath.gamma(x) * mpmath.digamma(x), z), rtol=4e-6)
    slope = effx.vmap(effx.grad(special.digamma, holomorphic=True))(z)
    np.testing.assert_allclose(slope, evaluate(lambda x: mpmath.polygamma(1, x), z), rtol=4e-6)
