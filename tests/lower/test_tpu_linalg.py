"""Linear algebra as TPUs get it: XLA expands the same calls on a CPU, where the values are compared with NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.families.linalg.polar import compute_halley_weights, compute_polar_factor
from effx.lax import linalg
from tests.lower.forms import run_form_of

# TPUs have no other floating dtypes for these.
DTYPES = (np.float32, np.complex64)
SQUARE = ((1, 1), (5, 5), (2, 4, 4), (0, 4, 4), (2, 0, 0))
RECTANGULAR = (*SQUARE, (6, 4), (2, 3, 5), (5, 1), (4, 0), (0, 4))

Data = np.ndarray[Any, Any]


def run_form_of_tpu(fun: Callable[..., Any], *operands: Data) -> list[Data]:
    """Lowers a function for a TPU, and runs the text on a CPU."""
    return run_form_of("tpu", fun, *operands)


def draw(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Data:
    rng = np.random.default_rng([seed, *shape])
    data = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        data = data + 1j * rng.normal(size=shape)
    return data.astype(dtype)


def adjoint(x: Data) -> Data:
    return np.conj(np.swapaxes(x, -1, -2))


def assert_equal_to(x: Data, y: Data, scale: float = 1.0) -> None:
    """Compares with a tolerance of some roundings of a norm."""
    eps = np.finfo(x.dtype).eps
    assert x.shape == y.shape
    np.testing.assert_allclose(x, y, rtol=0, atol=100 * eps * max(scale, 1.0))


def assert_orthonormal(q: Data) -> None:
    assert_equal_to(
        adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *(q.shape[-1],) * 2))
    )


every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)


@every_dtype
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", RECTANGULAR, ids=str)
def test_qr(shape: tuple[int, ...], full: bool, dtype: Any) -> None:
    a = draw(shape, dtype)
    q, r = run_form_of_tpu(lambda a: linalg.qr(a, full_matrices=full), a)
    assert_orthonormal(q)
    assert_equal_to(q @ r, a, 10)
    assert not np.tril(r, -1).any()


@every_dtype
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eigh(shape: tuple[int, ...], lower: bool, dtype: Any) -> None:
    """Ascending eigenvalues, from one triangle."""
    a = draw(shape, dtype)
    whole = a + adjoint(a)
    read = np.tril(whole) if lower else np.triu(whole)
    v, w = run_form_of_tpu(lambda a: linalg.eigh(a, lower=lower, symmetrize_input=False), read)
    assert_orthonormal(v)
    assert_equal_to(w, np.linalg.eigvalsh(whole), 30)
    assert_equal_to((v * w[..., None, :]) @ adjoint(v), whole, 30)


def test_eigh_reads_one_triangle() -> None:
    """NaN and large numbers in the other one are nothing to it."""
    a = draw((5, 5), np.float32)
    whole = a + a.T
    for lower, other in (
        (True, np.triu(np.full((5, 5), np.nan), 1)),
        (False, np.tril(np.full((5, 5), 1e30), -1)),
    ):
        read = (np.tril(whole) if lower else np.triu(whole)) + other.astype(np.float32)
        _, w = run_form_of_tpu(
            lambda a, lower=lower: linalg.eigh(a, lower=lower, symmetrize_input=False), read
        )
        assert_equal_to(w, np.linalg.eigvalsh(whole), 30)


def assert_svd(a: Data, full: bool) -> Data:
    """Checks the factors; returns the singular values."""
    u, s, vh = run_form_of_tpu(lambda a: linalg.svd(a, full_matrices=full), a)
    k = min(a.shape[-2:])
    norm = float(np.linalg.norm(a, axis=(-2, -1)).max()) if a.size else 1.0
    assert u.shape[-1] == (a.shape[-2] if full else k)
    assert vh.shape[-2] == (a.shape[-1] if full else k)
    assert_orthonormal(u)
    assert_orthonormal(adjoint(vh))
    assert_equal_to((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, norm)
    assert_equal_to(s, np.linalg.svd(a, compute_uv=False) if a.size else np.zeros(s.shape), norm)
    (values,) = run_form_of_tpu(lambda a: linalg.svd(a, compute_uv=False), a)
    assert_equal_to(values, s, norm)
    return s


@pytest.mark.parametrize("shape", RECTANGULAR, ids=str)
def test_svd(shape: tuple[int, ...]) -> None:
    assert_svd(draw(shape, np.float32), False)


@every_dtype
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4)], ids=str)
def test_svd_with_square_factors(shape: tuple[int, ...], dtype: Any) -> None:
    assert_svd(draw(shape, dtype), True)


@pytest.mark.parametrize(("shape", "rank"), [((6, 6), 3), ((8, 5), 0), ((4, 7), 1)], ids=str)
def test_svd_of_lower_rank(shape: tuple[int, int], rank: int) -> None:
    """The vectors for singular values of 0 are orthonormal too."""
    a = draw((shape[0], rank), np.float32) @ draw((rank, shape[1]), np.float32, 1)
    s = assert_svd(a, True)
    assert_equal_to(s[rank:], np.zeros(min(shape) - rank), 10)


@pytest.mark.parametrize("scale", [0.0, 1e-25, 1e20])
def test_large_and_small_numbers(scale: float) -> None:
    """Squares of which are no numbers of float32."""
    a = draw((5, 5), np.float32)
    scaled = (a * scale).astype(np.float32)
    s = run_form_of_tpu(linalg.svd, scaled)[1]
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False) * scale, rtol=1e-4)
    w = run_form_of_tpu(linalg.eigh, scaled + scaled.T)[1]
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a + a.T) * scale, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_polar_factor(dtype: Any) -> None:
    """It is unitary, and what remains is Hermitian and positive."""
    a = draw((2, 6, 6), dtype)
    with effx.enable_x64(True):
        u = np.asarray(effx.jit(compute_polar_factor)(enp.asarray(a)))
    assert_orthonormal(u)
    h = adjoint(u) @ a
    assert_equal_to(h, adjoint(h), 10)
    assert (np.linalg.eigvalsh(h) > 0).all()


@pytest.mark.parametrize("smallest", [1.0, 0.5, 1e-3, 2.0**-23, 2.0**-52])
def test_weights(smallest: float) -> None:
    """They map every number from the smallest to 1 to about 1, and never beyond."""
    x = np.geomspace(smallest, 1, 1000)
    for a, b, c in compute_halley_weights(smallest, 1e-12):
        x = x * (a + b * x * x) / (1 + c * x * x)
    np.testing.assert_allclose(x, 1, atol=1e-9)
    assert len(compute_halley_weights(smallest, 1e-12)) <= 6


@every_dtype
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 2), (64, 1), (3, 9, 2), (0, 2), (4, 0)], ids=str)
def test_tridiagonal_solve(shape: tuple[int, ...], dtype: Any) -> None:
    b = draw(shape, dtype)
    lower, main, upper = [draw(shape[:-1], dtype, seed) for seed in (1, 2, 3)]
    main = main + 8
    x = run_form_of_tpu(lambda *operands: lax.linalg.tridiagonal_solve(*operands), lower, main, upper, b)[0]
    n = shape[-2]
    matrix = np.zeros((*shape[:-1], n), dtype)
    i = np.arange(n)
    matrix[..., i, i] = main
    matrix[..., i[1:], i[:-1]] = lower[..., 1:]
    matrix[..., i[:-1], i[1:]] = upper[..., :-1]
    assert_equal_to(matrix @ x, b, 10)


def test_gradients_go_through_the_same_forms() -> None:
    def sum_of_cubes(a: Any) -> Any:
        return (linalg.svd(a)[1] ** 3).sum()

    a = draw((5, 5), np.float32)
    (gradient,) = run_form_of_tpu(effx.grad(sum_of_cubes), a)
    u, s, vh = np.linalg.svd(a)
    assert_equal_to(gradient, (u * 3 * s**2) @ vh, 1000)
