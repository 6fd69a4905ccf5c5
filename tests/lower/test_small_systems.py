"""Many small matrices at once, on CPUs: solutions, factors, determinants and their derivatives."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.families.linalg.small_systems import BATCH, LARGEST

Data: TypeAlias = np.ndarray[Any, Any]
MANY = BATCH + 3
SIZES = list(range(2, LARGEST + 1))


def draw(n: int, kind: str, dtype: Any) -> Data:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((MANY, n, n))
    if kind == "graded":
        a *= 10.0 ** -rng.integers(0, 5, (MANY, n, 1)) * 10.0 ** -rng.integers(0, 5, (MANY, 1, n))
    if kind == "nearly singular":
        u, s, v = np.linalg.svd(a)
        s[:, -1] = s[:, 0] * np.finfo(dtype).eps ** 0.7
        a = (u * s[:, None]) @ v
    return a.astype(dtype)


@pytest.mark.parametrize("kind", ["normal", "graded", "nearly singular"])
@pytest.mark.parametrize("n", SIZES)
def test_residuals_are_of_the_size_of_rounding(n: int, kind: str) -> None:
    """Of solutions, relative to the sizes of matrix and solution, as LAPACK's are."""
    for dtype in (np.float32, np.float64):
        a = draw(n, kind, dtype)
        for k in (1, n):
            b: Data = np.random.default_rng(k).standard_normal((MANY, n, k)).astype(dtype)
            with effx.enable_x64():
                x = np.asarray(effx.jit(enp.linalg.solve)(a, b)).astype(np.float64)
            residual = np.abs(np.asarray(a.astype(np.float64) @ x) - b).max((1, 2))
            bound = np.abs(a).max((1, 2)) * np.abs(x).max((1, 2)) * np.finfo(dtype).eps
            assert (residual <= 2 * n * bound).all()


@pytest.mark.parametrize("n", [2, 5, 8])
def test_factors_are_those_of_lapack(n: int) -> None:
    """With the same pivots; l u is the matrix with its rows exchanged."""
    a = draw(n, "normal", np.float32)
    factors, pivots, permutation = [np.asarray(y) for y in effx.jit(lax.linalg.lu)(a)]
    one = [
        np.stack([np.asarray(y) for y in results])
        for results in zip(*map(lax.linalg.lu, a[:20]), strict=True)
    ]
    np.testing.assert_allclose(factors[:20], one[0], 2e-3, 2e-5)
    np.testing.assert_array_equal(pivots[:20], one[1])
    np.testing.assert_array_equal(permutation[:20], one[2])
    lower = np.tril(factors, -1) + np.eye(n, dtype=np.float32)
    exchanged = np.take_along_axis(a, permutation[..., None], 1)
    np.testing.assert_allclose(lower @ np.triu(factors), exchanged, 0, 1e-5)
    assert (np.abs(np.tril(factors, -1)) <= 1).all()
    determinants = np.asarray(effx.jit(enp.linalg.det)(a))
    np.testing.assert_allclose(determinants, np.linalg.det(a.astype(np.float64)), 2e-4, 1e-4)


def test_singular_matrices_give_what_they_give_alone() -> None:
    """Infinities and NaN, and determinants of 0; and each matrix for itself."""
    singular = [np.zeros((3, 3)), np.ones((3, 3)), np.diag([1, 0, 2]), np.eye(3, k=1), np.diag([1, 2, 0])]
    a = np.tile(np.eye(3, dtype=np.float32), (MANY, 1, 1))
    a[: len(singular)] = singular
    a[7, 1, 2] = np.nan
    b = np.tile(np.array([[1], [2], [0]], np.float32), (MANY, 1, 1))
    x = np.asarray(effx.jit(enp.linalg.solve)(a, b))
    for i in range(len(singular)):
        np.testing.assert_array_equal(x[i], np.asarray(enp.linalg.solve(a[i], b[i])))
    assert np.isnan(x[7]).any()
    np.testing.assert_array_equal(x[8:], b[8:])
    assert (np.asarray(effx.jit(lambda a: enp.linalg.slogdet(a)[0])(a))[: len(singular)] == 0).all()


@pytest.mark.parametrize("n", [3, 6])
def test_derivatives_and_batches(n: int) -> None:
    """Gradients are those of single matrices; vmap makes many of one, and several batch axes are one."""
    a = draw(n, "normal", np.float32) + 3 * np.eye(n, dtype=np.float32)
    gradient = effx.jit(effx.grad(lambda a: (enp.linalg.inv(a) ** 2).sum() + enp.linalg.det(a).sum()))
    single = effx.jit(effx.grad(lambda a: (enp.linalg.inv(a) ** 2).sum() + enp.linalg.det(a)))
    many = np.asarray(gradient(a))
    for i in range(5):
        np.testing.assert_allclose(many[i], np.asarray(single(a[i])), 2e-3, 2e-3)
    inverses = np.asarray(enp.linalg.inv(a))
    np.testing.assert_array_equal(np.asarray(effx.vmap(enp.linalg.inv)(a)), inverses)
    pairs = np.asarray(enp.linalg.inv(a[: MANY - 1].reshape(2, -1, n, n)))
    np.testing.assert_array_equal(pairs.reshape(-1, n, n), inverses[: MANY - 1])
