"""Linear algebra as TPUs get it: XLA expands the same calls on a CPU, where the values are compared with NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import BackendError
from effx.families.linalg.eigen import Eig, derive_left_vectors
from effx.families.linalg.polar import compute_halley_weights, compute_polar_factor
from effx.families.linalg.qr import Geqp3
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
    """Compares with a tolerance of some roundings of a norm; integers are equal."""
    if x.dtype.kind == "i":
        np.testing.assert_array_equal(x, y)
        return
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


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_eigenvalues_of_large_matrices(dtype: Any, lower: bool) -> None:
    """Those of Jacobi's iteration are 2e-6 of the largest one away."""
    a = draw((150, 150), dtype)
    whole = a + adjoint(a)
    _, w = run_form_of_tpu(lambda a: linalg.eigh(a, lower=lower), whole)
    wanted = np.linalg.eigvalsh(whole.astype(np.complex128))
    assert np.abs(w - wanted).max() < 7e-7 * np.abs(wanted).max()
    assert (np.diff(w) >= 0).all()


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
    norm = float(np.max(np.linalg.norm(a, axis=(-2, -1)))) if a.size else 1.0
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


@every_dtype
@pytest.mark.parametrize("shape", RECTANGULAR)
def test_qr_with_pivots(shape: tuple[int, ...], dtype: Any) -> None:
    """The same reflections and exchanges as LAPACK's."""
    a = draw(shape, dtype)
    for got, want in zip(
        run_form_of_tpu(factorize_with_pivots, a), factorize_with_pivots(enp.asarray(a)), strict=True
    ):
        assert_equal_to(got, np.asarray(want), 4.0)


@pytest.mark.parametrize("other", [1e25, 1e-25, np.nan])
def test_pivots_do_not_depend_on_other_matrices(other: float) -> None:
    """Nor on a matrix' own size."""
    a = draw((5, 5), np.float32)
    *_, alone = run_form_of_tpu(factorize_with_pivots, a)
    *_, order = run_form_of_tpu(factorize_with_pivots, np.stack([a, a * np.float32(other)]))
    np.testing.assert_array_equal(order[0], alone)
    if not np.isnan(other):
        np.testing.assert_array_equal(order[1], alone)


def factorize_with_pivots(a: Any) -> Any:
    return effx.scipy.linalg.qr(a, mode="economic", pivoting=True)


@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (3, 5)])
@pytest.mark.parametrize("first", [(0, 1, 1, 0, 1), (1, 0, 0, 1, 0), (1, 1, 1, 1, 1)])
def test_columns_that_come_first(shape: tuple[int, int], first: tuple[int, ...]) -> None:
    a, columns = draw(shape, np.float32), np.array(first[: shape[1]], np.int32)
    got = run_form_of_tpu(Geqp3(), a, columns)
    for x, want in zip(got, Geqp3()(enp.asarray(a), enp.asarray(columns)), strict=True):
        assert_equal_to(x, np.asarray(want), 4.0)


@every_dtype
@pytest.mark.parametrize("shape", SQUARE)
def test_hessenberg(shape: tuple[int, ...], dtype: Any) -> None:
    """The same reflections as LAPACK's."""
    a = draw(shape, dtype)
    for got, want in zip(
        run_form_of_tpu(linalg.hessenberg, a), linalg.hessenberg(enp.asarray(a)), strict=True
    ):
        assert_equal_to(got, np.asarray(want), 4.0)


@every_dtype
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("shape", SQUARE)
def test_tridiagonal(shape: tuple[int, ...], lower: bool, dtype: Any) -> None:
    """Of one triangle, the same reflections as LAPACK's."""
    a = draw(shape, dtype)

    def reduce(a: Any) -> Any:
        return linalg.tridiagonal(a, lower=lower)

    for got, want in zip(run_form_of_tpu(reduce, a), reduce(enp.asarray(a)), strict=True):
        assert_equal_to(got, np.asarray(want), 4.0)


@pytest.mark.parametrize("shape", [(1, 1), (2, 4, 4), (2, 0, 0), (30, 30)])
def test_schur(shape: tuple[int, ...]) -> None:
    """a = z t z^H with unitary z and upper triangular t."""
    a = draw(shape, np.complex64)
    t, z = run_form_of_tpu(linalg.schur, a)
    assert_orthonormal(z)
    assert_equal_to(z @ t @ adjoint(z), a, np.sqrt(a.size))
    np.testing.assert_array_equal(np.tril(t, -1), 0)


def test_schur_of_real_matrices_is_refused() -> None:
    with pytest.raises(
        BackendError, match=r"schur: real matrices have Schur's form on CPUs only, got f32\[3,3\]"
    ):
        run_form_of_tpu(linalg.schur, draw((3, 3), np.float32))


def assert_eigenvectors(a: Data, w: Data, r: Data) -> None:
    """a r = w r, with vectors of length 1 whose largest element is real."""
    size = max(1.0, float(np.abs(a).max(initial=0)) * a.shape[-1])
    assert_equal_to(a @ r, r * w[..., None, :], size)
    assert_equal_to(np.linalg.norm(r, axis=-2), np.ones(w.shape, np.float32))
    if r.size:
        largest = np.take_along_axis(r, np.abs(r).argmax(-2)[..., None, :], -2)
        assert_equal_to(largest.imag, np.zeros_like(largest.imag))


@every_dtype
@pytest.mark.parametrize("shape", [(1, 1), (2, 4, 4), (2, 0, 0), (30, 30)])
def test_eig(shape: tuple[int, ...], dtype: Any) -> None:
    a = draw(shape, dtype)
    w, r = run_form_of_tpu(enp.linalg.eig, a)
    assert_eigenvectors(a, w, r)
    want = np.linalg.eigvals(a.astype(np.complex128))
    for index in np.ndindex(shape[:-2]):
        left = list(want[index])
        for value in w[index]:
            nearest = left.pop(int(np.argmin(np.abs(np.array(left) - value))))
            assert abs(nearest - value) < 1e-4 * max(1.0, np.abs(a).max())


@every_dtype
@pytest.mark.parametrize("shape", [(1, 1), (2, 4, 4), (12, 12)])
def test_left_vectors(shape: tuple[int, ...], dtype: Any) -> None:
    """Those of the adjoint, as LAPACK gives them: by that their derivatives are defined.

    Not as a TPU's program, whose factors of matrices a CPU does not have.
    """
    a = draw(shape, dtype)
    w, left = map(np.asarray, derive_left_vectors(Eig(left=True, right=False), enp.asarray(a)))
    assert_eigenvectors(adjoint(a), w.conj(), left)
    largest = np.take_along_axis(left, np.abs(left).argmax(-2)[..., None, :], -2)
    assert (largest.real > 0).all()


MATRICES = {
    "unit": np.eye(4),
    "zero": np.zeros((3, 3)),
    "one block": np.diag(np.ones(8), 1) + 2 * np.eye(9),
    "a permutation": np.roll(np.eye(5), 1, 0),
    "nilpotent": np.array([[0, 1], [0, 0]]),
    "large": np.array([[1e20, 2e20], [3e20, 4e20]]),
    "small": np.array([[1e-25, 2e-25], [3e-25, 4e-25]]),
    "1 to 4": np.array([[10, -35, 50, -24], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_eig_of_special_matrices(name: str) -> None:
    """Multiple eigenvalues without as many vectors, all of one size, numbers whose squares are out of range."""
    a = MATRICES[name].astype(np.float32)
    w, r = run_form_of_tpu(enp.linalg.eig, a)
    size = float(np.abs(a).max()) or 1.0
    assert_eigenvectors(a / np.float32(size), w / np.float32(size), r)


def test_real_eigenvalues_of_real_matrices_are_real() -> None:
    """As many as LAPACK finds, with real vectors."""
    a = draw((50, 6, 6), np.float32)
    w, r = run_form_of_tpu(enp.linalg.eig, a)
    is_real = w.imag == 0
    assert is_real.sum() == (np.linalg.eigvals(a).imag == 0).sum()
    np.testing.assert_array_equal(np.swapaxes(r, -1, -2)[is_real].imag, 0)


def test_rows_that_are_not_coupled_keep_their_values() -> None:
    """A diagonal is its own eigenvalues to the last bit, and a small block is as exact as if it stood alone."""
    w, _ = run_form_of_tpu(enp.linalg.eig, np.diag([1, 41, 3]).astype(np.float32))
    np.testing.assert_array_equal(w, [1, 41, 3])
    w, _ = run_form_of_tpu(enp.linalg.eig, np.array([[1, 2, 0], [3, 4, 0], [0, 0, 1e-12]], np.float32))
    assert w[2] == np.float32(1e-12)
    small = np.array([[1e-10, 1e-10, 0], [0, 2e-10, 0], [0, 0, 1]], np.float32)
    _, r = run_form_of_tpu(enp.linalg.eig, small)
    np.testing.assert_allclose(np.abs(r[:, 1]), [0.5**0.5, 0.5**0.5, 0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [1e32, 1e-35])
def test_multiple_eigenvalues_of_extreme_sizes(size: float) -> None:
    """All vectors are the only one there is."""
    a = (size * (np.eye(3) + np.diag([1, 1], 1))).astype(np.float32)
    w, r = run_form_of_tpu(enp.linalg.eig, a)
    np.testing.assert_allclose(w, np.full(3, size), rtol=1e-6)
    np.testing.assert_allclose(r, np.eye(3)[:, :1] * np.ones((1, 3)), rtol=0, atol=1e-6)


def test_eig_of_nan_is_nan() -> None:
    w, r = run_form_of_tpu(enp.linalg.eig, np.full((3, 3), np.nan, np.float32))
    assert np.isnan(w).all()
    assert np.isnan(r).all()


def test_gradients_go_through_the_same_forms() -> None:
    def sum_of_cubes(a: Any) -> Any:
        return (linalg.svd(a)[1] ** 3).sum()

    a = draw((5, 5), np.float32)
    (gradient,) = run_form_of_tpu(effx.grad(sum_of_cubes), a)
    u, s, vh = np.linalg.svd(a)
    assert_equal_to(gradient, (u * 3 * s**2) @ vh, 1000)
