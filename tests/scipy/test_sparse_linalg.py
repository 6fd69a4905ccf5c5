"""Iterative solvers reach the exact solution, and have its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
from effx.errors import EffxError
from effx.scipy.sparse import linalg

RNG = np.random.default_rng(0)
N = 6
SQUARE = RNG.normal(size=(N, N))
POSITIVE = SQUARE @ SQUARE.T / N + np.eye(N)
ANY = SQUARE / 2 + 3 * np.eye(N)
B = RNG.normal(size=N)
SOLVERS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "cg": (linalg.cg, POSITIVE),
    "bicgstab": (linalg.bicgstab, ANY),
    "restarted": (partial(linalg.gmres, restart=4), ANY),
    "incremental": (partial(linalg.gmres, restart=4, solve_method="incremental"), ANY),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_values_and_slopes(name: str) -> None:
    """The gradient solves the transposed system, with and without a preconditioner."""
    solve, A = SOLVERS[name]
    with effx.enable_x64(True):
        for M in (None, np.diag(1 / np.diag(A))):

            def length(A: Any, b: Any, M: Any = M) -> Any:
                return (solve(A, b, tol=1e-12, M=M)[0] ** 2).sum()

            x = np.linalg.solve(A, B)
            np.testing.assert_allclose(solve(A, B, tol=1e-12, M=M)[0], x, rtol=1e-10)
            if M is None:
                continue
            by_A, by_b = effx.grad(length, (0, 1))(A, B)
            y = np.linalg.solve(A.T, 2 * x)
            np.testing.assert_allclose(by_b, y, rtol=1e-9)
            np.testing.assert_allclose(by_A, -np.outer(y, x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_functions_of_pytrees(name: str) -> None:
    """Complex systems in two arrays, of a function; under jit and vmap; from a guess."""
    solve, real = SOLVERS[name]
    A = real + (0.3j * (SQUARE - SQUARE.T) if name == "cg" else 0.3j * SQUARE)
    rights = np.stack([B + 1j, 2j * B])

    def apply(v: Any) -> Any:
        y = A @ effx.numpy.concatenate([v["a"].ravel(), v["b"]])
        return {"a": y[:4].reshape(2, 2), "b": y[4:]}

    with effx.enable_x64(True):

        def solved(c: Any) -> Any:
            b = {"a": c[:4].reshape(2, 2), "b": c[4:]}
            guess = effx.tree.map(lambda v: v * 0.1, b)
            x = solve(apply, b, guess, tol=1e-12, M=lambda v: effx.tree.map(lambda u: u / 3, v))[0]
            return effx.numpy.concatenate([x["a"].ravel(), x["b"]])

        got = effx.jit(effx.vmap(solved))(rights)
        np.testing.assert_allclose(got, np.linalg.solve(A, rights.T).T, rtol=1e-9)
        np.testing.assert_allclose(got[1], solved(rights[1]), rtol=1e-9)


class Doubling:
    """What multiplies by `@` alone."""

    def __matmul__(self, x: Any) -> Any:
        return 2 * x


@pytest.mark.parametrize("name", SOLVERS)
def test_limits(name: str) -> None:
    """It ends by the absolute bound, and by the number of iterations; dtypes are those of b and A."""
    solve, A = SOLVERS[name]
    assert solve(A, B, atol=1e9)[0].tolist() == [0] * N
    assert solve(A, B, B, maxiter=0)[0].tolist() == B.astype("f4").tolist()
    assert solve(A, np.zeros(N))[0].tolist() == [0] * N
    rough = np.linalg.norm(A @ np.asarray(solve(A, B, maxiter=1)[0]) - B)
    exact = np.linalg.norm(A @ np.asarray(solve(A, B)[0]) - B)
    assert exact < 1e-4 < np.linalg.norm(B)
    assert exact <= rough
    got = solve(Doubling(), np.array([2, 4]))[0]
    assert (got.dtype.name, got.tolist()) == ("float32", [1, 2])
    assert solve(lambda x: x, [])[0] == []
    assert solve(lambda x: 4 * x, 8.0)[0] == 2


def test_information() -> None:
    assert linalg.cg(POSITIVE, B)[1] is None
    assert linalg.bicgstab(ANY, B)[1] is None
    assert linalg.gmres(ANY, B)[1] == 0
    assert linalg.gmres(ANY * np.nan, B)[1] in (0, -1)
    assert linalg.gmres(ANY, B * np.nan, B * np.nan)[1] == -1


def test_singular_systems_with_solutions() -> None:
    """Minimal residuals find the solution in a space that has one, though the matrix has no inverse."""
    A = np.diag([1.0, 2.0, 0.0])
    for method in ("batched", "incremental"):
        x = linalg.gmres(A, np.array([1.0, 1.0, 0.0]), solve_method=method)[0]
        np.testing.assert_allclose(x, [1, 0.5, 0], atol=1e-6)


def test_second_derivatives() -> None:
    with effx.enable_x64(True):

        def root(t: Any) -> Any:
            return linalg.cg(lambda x: POSITIVE @ x + t * x, B, tol=1e-13)[0].sum()

        inverse = np.linalg.inv(POSITIVE + np.eye(N))
        want = 2 * np.ones(N) @ inverse @ inverse @ inverse @ B
        np.testing.assert_allclose(effx.grad(effx.grad(root))(1.0), want, rtol=1e-8)
        np.testing.assert_allclose(
            effx.jvp(root, (1.0,), (1.0,))[1], -np.ones(N) @ inverse @ inverse @ B, rtol=1e-8
        )


WRONG: Any = "matrix"


def rotated(x: Any) -> Any:
    return x * 1j


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: linalg.cg(np.ones((2, 3)), B), "cg: A must be a square matrix, got f32[2,3]"),
        (lambda: linalg.cg(WRONG, B), "cg: A must be a matrix or a function of a vector, got 'matrix'"),
        (lambda: linalg.cg(lambda x: x, B, B[:2]), "cg: x0 must have the shapes of b, f32[6], got f32[2]"),
        (lambda: linalg.cg(lambda x: x, B, [B]),
         "cg: x0 must have the structure of b, PyTreeDef(*), got PyTreeDef([*])"),
        (lambda: linalg.bicgstab(lambda x: x[:2], B),
         "bicgstab: the result of A must have the shapes of b, f32[6], got f32[2]"),
        (lambda: linalg.bicgstab(rotated, B),
         "bicgstab: the result of A must be real as b is, got c64[6]"),
        (lambda: linalg.gmres(ANY, B, restart=0), "gmres: restart must be positive, got 0"),
        (lambda: linalg.gmres(ANY, B, maxiter=-1), "gmres: maxiter must not be negative, got -1"),
        (lambda: linalg.gmres(ANY, B, solve_method="no"),
         "gmres: solve_method must be 'batched' or 'incremental', got 'no'"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
