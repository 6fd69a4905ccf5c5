"""det has its derivatives at matrices of any rank: adj(a)^T, from minors."""

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp


def adjugate(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    n = a.shape[0]
    minors = [[np.linalg.det(np.delete(np.delete(a, j, 0), i, 1)) for j in range(n)] for i in range(n)]
    return np.array(minors) * (-1.0) ** np.add.outer(np.arange(n), np.arange(n))


def matrices(n: int, rank: int, seed: int) -> list[np.ndarray[Any, Any]]:
    """Returns a full matrix, a diagonal one with zeros in any place, and one of small integers, with ties of pivots."""
    rng = np.random.default_rng(seed)
    full = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
    on_diagonal = np.diag(np.where(rng.permutation(n) < rank, rng.normal(size=n), 0.0))
    integers = rng.integers(-1, 2, (n, rank)) @ rng.integers(-1, 2, (rank, n))
    return [full, on_diagonal, integers.astype(float)]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_gradient(n: int) -> None:
    with effx.enable_x64():
        gradient: Any = effx.jit(effx.vmap(effx.grad(enp.linalg.det)))
        stack = np.array([a for rank in range(n + 1) for a in matrices(n, rank, rank)])
        want = np.array([adjugate(a).T for a in stack])
        scale = np.maximum(np.abs(stack).max((1, 2), keepdims=True), 1e-3) ** (n - 1)
        np.testing.assert_allclose(np.asarray(gradient(stack)) / scale, want / scale, rtol=1e-8, atol=1e-9)
    single = np.asarray(effx.grad(enp.linalg.det)(np.diag(np.array([1.0, 2.0, 0.0, 3.0], "f4"))))
    np.testing.assert_array_equal(single, np.diag([0.0, 0.0, 6.0, 0.0]))
    none = np.asarray(effx.grad(enp.linalg.det)(np.diag(np.array([1.0, 2.0, 0.0, 0.0], "f4"))))
    np.testing.assert_array_equal(none, np.zeros((4, 4)))


def test_of_complex_matrices_and_the_second_derivative() -> None:
    rng = np.random.default_rng(3)
    with effx.enable_x64():
        a = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
        np.testing.assert_allclose(effx.grad(enp.linalg.det, holomorphic=True)(a), adjugate(a).T, rtol=1e-9)
        b, step = rng.normal(size=(4, 4)), 1e-5
        hessian = np.asarray(effx.hessian(enp.linalg.det)(b))
        for i, j in ((0, 0), (1, 3), (3, 2)):
            moved = np.zeros((4, 4))
            moved[i, j] = step
            want = (adjugate(b + moved) - adjugate(b - moved)).T / (2 * step)
            np.testing.assert_allclose(hessian[:, :, i, j], want, rtol=1e-5, atol=1e-7)
