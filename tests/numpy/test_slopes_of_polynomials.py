"""The derivatives of polyval are polynomials, by the point and by the coefficients."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp

P, X = np.array([0.5, -1.0, 2.0, 0.25, 3.0]), np.array([-2.0, 0.0, 0.3, 1.5])


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with effx.enable_x64(True):
        yield


def test_by_points() -> None:
    """Of every order; one polynomial for each point too."""
    derivative: Any = lambda x: enp.polyval(P, x)  # noqa: E731
    for order in range(1, 6):
        derivative = effx.grad(derivative)
        np.testing.assert_allclose(
            effx.vmap(derivative)(X), np.polyval(np.polyder(P, order), X), atol=1e-14, err_msg=str(order)
        )
    several = np.stack([P, 2 * P, P[::-1], -P], 1)
    expected = [np.polyval(np.polyder(several[:, i]), x) for i, x in enumerate(X)]
    np.testing.assert_allclose(effx.grad(lambda x: enp.polyval(several, x).sum())(X), expected)


def test_by_coefficients() -> None:
    np.testing.assert_allclose(effx.grad(lambda p: enp.polyval(p, X).sum())(P), np.vander(X, 5).sum(0))


def test_by_both() -> None:
    """The tangent is linear in both, and the mixed second derivative symmetric."""
    _, tangent = effx.jvp(enp.polyval, (P, X), (P, X))
    np.testing.assert_allclose(tangent, np.polyval(P, X) + X * np.polyval(np.polyder(P), X))
    (pp, px), (xp, xx) = effx.hessian(lambda p, x: enp.polyval(p, x), (0, 1))(P, X[3])
    np.testing.assert_array_equal(pp, np.zeros((5, 5)))
    np.testing.assert_allclose(px, [*(np.arange(4, 0, -1) * X[3] ** np.arange(3, -1, -1)), 0.0])
    np.testing.assert_array_equal(px, xp)
    np.testing.assert_allclose(xx, np.polyval(np.polyder(P, 2), X[3]))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_of_few_coefficients(n: int) -> None:
    slope = effx.grad(lambda x: enp.polyval(P[:n], x).sum())(X)
    np.testing.assert_array_equal(slope, np.full(4, P[0] if n == 2 else 0.0))


def test_nothing_is_kept_of_the_steps() -> None:
    """The gradient by points holds no value of each step: all its arrays are as large as the points or coefficients."""
    program = str(effx.make_jaxpr(effx.grad(lambda x: enp.polyval(P, x).sum()))(X))
    assert "custom_call" in program
    assert set(re.findall(r"f64\[([^\]]*)\]", program)) == {"", "4", "5"}
