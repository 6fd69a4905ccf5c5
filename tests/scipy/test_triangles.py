"""Functions of Hermitian matrices read the triangle that `lower` names, and have no derivative by the other one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import effx
from effx.scipy import linalg

Matrix = Any
"""A NumPy array here, an effx array there."""


def random_positive(seed: int, complex_numbers: bool) -> Matrix:
    """Returns positive definite matrices `[2, 3, 3]` whose upper triangles belong to another matrix than the lower."""
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(2, 3, 3)) + 1j * complex_numbers * rng.normal(size=(2, 3, 3))
    m = m if complex_numbers else m.real
    return m + 8.0 * np.eye(3)


FUNCTIONS: dict[str, Callable[[Any, Matrix, Matrix, bool], Any]] = {
    "cholesky": lambda la, a, _, lower: la.cholesky(a, lower=lower),
    "cho_solve": lambda la, a, b, lower: la.cho_solve(la.cho_factor(a, lower=lower), b),
    "solve": lambda la, a, b, lower: la.solve(a, b, lower=lower, assume_a="pos"),
    "eigh": lambda la, a, _, lower: la.eigh(a, lower=lower, eigvals_only=True),
    "eigh of a pair": lambda la, a, b, lower: la.eigh(a, b, lower=lower, eigvals_only=True),
    "eigh of a pair, type 3": lambda la, a, b, lower: la.eigh(a, b, lower=lower, eigvals_only=True, type=3),
}


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("complex_numbers", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_reads_one_triangle(name: str, complex_numbers: bool, lower: bool) -> None:
    function = FUNCTIONS[name]
    a, b = random_positive(0, complex_numbers), random_positive(1, complex_numbers)
    if complex_numbers:  # a Hermitian matrix has a real diagonal; LAPACK does not read its imaginary part
        a, b = (x - 1j * np.eye(3) * x.imag for x in (a, b))
    want = np.stack([function(scipy.linalg, x, y, lower) for x, y in zip(a, b, strict=True)])
    with effx.enable_x64():
        for transform in (lambda f: f, effx.jit, effx.vmap):
            result = transform(lambda x, y: function(linalg, x, y, lower))(a, b)
            np.testing.assert_allclose(result, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_is_that_of_one_triangle(name: str, lower: bool) -> None:
    """By central differences of SciPy's own values, entry by entry."""
    function, step = FUNCTIONS[name], 1e-6
    a, b = random_positive(2, False)[0], random_positive(3, False)[0]
    weights = np.cos(np.arange(9.0)).reshape(3, 3)

    def loss(la: Any, x: Matrix, y: Matrix) -> Any:
        result = function(la, x, y, lower)
        return (result * weights[: result.shape[0]] if result.ndim == 2 else result * weights[0]).sum()

    def difference(position: int, i: int, j: int) -> float:
        moved = []
        for sign in (1.0, -1.0):
            x, y = a.copy(), b.copy()
            (x, y)[position][i, j] += sign * step
            moved.append(loss(scipy.linalg, x, y))
        return float((moved[0] - moved[1]) / (2.0 * step))

    with effx.enable_x64():
        slopes = effx.grad(lambda x, y: loss(linalg, x, y), (0, 1))(a, b)
    for position, slope in enumerate(slopes):
        want = np.array([[difference(position, i, j) for j in range(3)] for i in range(3)])
        np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-7)
