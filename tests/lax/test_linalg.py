"""Factorisations: what defines them holds, in each dtype; their derivatives where phases are free; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.errors import BackendError, DTypeError, EffxError, NoRuleError, ShapeError
from effx.handlers.oracle import evaluate
from effx.lax import linalg
from effx.test_util import check_grads

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128]
EPS = {2: 3e-2, 4: 2e-5, 8: 1e-12, 16: 1e-12}
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)


def matrices(dtype: Any, *shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    data = rng.normal(size=shape)
    return (data + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else data).astype(dtype)


def hermitian(dtype: Any, *shape: int, seed: int = 0) -> Any:
    a = matrices(dtype, *shape, seed=seed)
    return a + np.conj(np.swapaxes(a, -1, -2))


def wide(x: Any) -> Any:
    data = np.asarray(x)
    return data if data.dtype.kind == "c" else data.astype(np.float64)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def same(got: Any, want: Any, dtype: Any) -> None:
    eps = 1e-5 if np.dtype(dtype) == np.complex64 else EPS[np.dtype(dtype).itemsize]
    np.testing.assert_allclose(wide(got), wide(want), rtol=eps, atol=5 * eps)


@every_dtype
def test_triangular_factors(dtype: Any) -> None:
    """Products of the factors are the matrices, and the factors have their form and dtype."""
    with effx.enable_x64(True):
        a = matrices(dtype, 2, 4, 3)
        factors, pivots, permutation = linalg.lu(a)
        assert factors.dtype == dtype
        lower = np.tril(wide(factors), -1) + np.eye(4, 3)
        rows = np.take_along_axis(wide(a), np.asarray(permutation)[..., None], -2)
        same(lower @ np.triu(wide(factors)[:, :3]), rows, dtype)
        np.testing.assert_array_equal(linalg.lu_pivots_to_permutation(pivots, 4), permutation)
        for full in (False, True):
            q, r = linalg.qr(a, full_matrices=full)
            assert q.shape == (2, 4, 4 if full else 3)
            same(wide(q) @ wide(r), a, dtype)
            same(
                adjoint(wide(q)) @ wide(q),
                np.broadcast_to(np.eye(q.shape[-1]), (2, *q.shape[-1:] * 2)),
                dtype,
            )
            np.testing.assert_array_equal(wide(r), np.triu(wide(r)))
        q, r, columns = linalg.qr(a, pivoting=True, full_matrices=False)
        same(wide(q) @ wide(r), np.take_along_axis(wide(a), np.asarray(columns)[:, None], -1), dtype)
        sizes = np.abs(np.diagonal(wide(r), 0, -2, -1))
        assert (np.diff(sizes) <= 1e-2).all()
        positive = wide(a) @ adjoint(wide(a)) + 3 * np.eye(4)
        factor = linalg.cholesky(positive.astype(dtype))
        assert factor.dtype == dtype
        same(wide(factor) @ adjoint(wide(factor)), positive, dtype)
        np.testing.assert_array_equal(wide(factor), np.tril(wide(factor)))


@every_dtype
def test_eigenvalues_and_singular_values(dtype: Any) -> None:
    """Vectors are orthonormal, or of length 1, and values belong to them, in order."""
    real = np.real(np.zeros((), dtype)).dtype
    with effx.enable_x64(True):
        h = hermitian(dtype, 2, 3, 3)
        for lower in (True, False):
            v, w = linalg.eigh(h, lower=lower, symmetrize_input=False)
            assert (v.dtype, w.dtype) == (dtype, real)
            same(wide(h) @ wide(v), wide(v) * wide(w)[:, None], dtype)
            same(adjoint(wide(v)) @ wide(v), np.broadcast_to(np.eye(3), (2, 3, 3)), dtype)
            assert (np.diff(wide(w)) >= 0).all()
        for shape, full, how in product([(2, 4, 3), (3, 4)], [False, True], [None, linalg.SvdAlgorithm.QR]):
            a = matrices(dtype, *shape)
            u, s, vh = linalg.svd(a, full_matrices=full, algorithm=how)
            assert (u.dtype, s.dtype) == (dtype, real)
            assert u.shape[-1] == (shape[-2] if full else 3)
            same((wide(u)[..., :3] * wide(s)[..., None, :]) @ wide(vh)[..., :3, :], a, dtype)
            same(adjoint(wide(u)) @ wide(u), np.eye(u.shape[-1]) + 0 * wide(u)[..., :1, :1], dtype)
            assert (np.diff(wide(s)) <= 0).all()
            same(linalg.svd(a, compute_uv=False), s, dtype)
        a = matrices(dtype, 2, 3, 3)
        w, left, right = linalg.eig(a)
        assert w.dtype == left.dtype == right.dtype == (np.complex64 if real.itemsize <= 4 else np.complex128)
        same(
            wide(a) @ wide(right), wide(right) * wide(w)[:, None], np.float16 if real.itemsize == 2 else dtype
        )
        same(adjoint(wide(left)) @ wide(a), wide(w)[..., None] * adjoint(wide(left)), dtype)
        same(np.linalg.norm(wide(left), axis=-2), np.ones((2, 3)), dtype)


@pytest.mark.parametrize("left_side", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("conjugate_a", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_triangular_solve(
    left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> None:
    """Each option is a change of the matrix; the other triangle is not read."""
    a = matrices(np.complex64, 3, 3) + 3 * np.eye(3, dtype=np.complex64)
    b = matrices(np.complex64, *((3, 2) if left_side else (2, 3)))
    x = linalg.triangular_solve(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )
    m = np.tril(a) if lower else np.triu(a)
    m = m - np.diag(np.diag(m)) + np.eye(3) if unit_diagonal else m
    m = m.T if transpose_a else m
    m = m.conj() if conjugate_a else m
    same(m @ np.asarray(x) if left_side else np.asarray(x) @ m, b, np.complex64)


def test_vectors_and_batches_of_triangular_systems() -> None:
    """b may have one axis less than a; one matrix for a batch solves all its sides together."""
    a = np.asarray([[2.0, 0.0], [1.0, 1.0]], np.float32)
    b = matrices(np.float32, 3, 2)
    want = np.linalg.solve(a, b.T).T
    got = effx.vmap(lambda v: linalg.triangular_solve(a, v, left_side=True, lower=True))(b)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    program = effx.make_jaxpr(effx.vmap(lambda v: linalg.triangular_solve(a, v, left_side=True, lower=True)))(
        b
    )
    assert "f32[2,3] = triangular_solve" in str(program)
    got = effx.vmap(lambda v: linalg.triangular_solve(a.T, v))(b)
    np.testing.assert_allclose(got, np.linalg.solve(a, b.T).T, rtol=1e-5)


def test_parts_of_spectra() -> None:
    """subset_by_index chooses values and their vectors."""
    h, a = hermitian(np.float32, 4, 4), matrices(np.float32, 4, 3)
    v, w = linalg.eigh(h)
    some_v, some_w = linalg.eigh(h, subset_by_index=(1, 3))
    np.testing.assert_array_equal(some_w, w[1:3])
    np.testing.assert_array_equal(some_v, v[:, 1:3])
    u, s, vh = linalg.svd(a, full_matrices=False)
    some_u, some_s, some_vh = linalg.svd(a, full_matrices=False, subset_by_index=(0, 2))
    for got, want in ((some_u, u[:, :2]), (some_s, s[:2]), (some_vh, vh[:2])):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(linalg.svd(a, compute_uv=False, subset_by_index=(1, 2)), s[1:2], rtol=1e-5)


def test_matrices_without_a_factor_are_nan() -> None:
    """One of a batch spoils no other, and what is NaN is triangular still."""
    a = np.stack([np.eye(2), -np.eye(2), 4 * np.eye(2)]).astype(np.float32)
    for factors in (linalg.cholesky(a), evaluate(linalg.cholesky, a)):
        got = np.asarray(factors)
        np.testing.assert_array_equal(got[1], [[np.nan, 0.0], [np.nan, np.nan]])
        np.testing.assert_array_equal(got[[0, 2]], np.stack([np.eye(2), 2 * np.eye(2)]))


def polar(x: Array) -> Array:
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u @ vh


def directions(x: Array) -> Array:
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u[:, :1] @ vh[:1]


def projections(x: Array) -> Array:
    v = linalg.eigh(x + adj(x))[0]
    return v[:, :1] @ adj(v[:, :1])


GRADIENTS: list[tuple[str, Callable[[Array], Array], tuple[int, ...]]] = [
    ("projections", projections, (3, 3)),
    ("eigenvalues", lambda x: linalg.eigh(x + adj(x))[1], (3, 3)),
    ("polar", polar, (4, 3)),
    ("wide polar", polar, (2, 3)),
    ("directions", directions, (3, 3)),
    ("right eigenvectors", lambda x: enp.abs(linalg.eig(x, compute_left_eigenvectors=False)[1]), (3, 3)),
    ("eig", lambda x: linalg.eig(x, compute_left_eigenvectors=False)[0], (3, 3)),
]


def adj(x: Array) -> Array:
    return enp.conj(enp.matrix_transpose(x))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(("name", "f", "shape"), GRADIENTS, ids=[g[0] for g in GRADIENTS])
def test_gradients_that_do_not_depend_on_phases(
    name: str, f: Callable[[Array], Array], shape: tuple[int, ...], dtype: Any
) -> None:
    """By finite differences in both modes."""
    with effx.enable_x64(True):
        check_grads(f, (matrices(dtype, *shape),), order=1, atol=1e-5, rtol=1e-5)


def test_equal_values_have_no_derivatives_of_vectors() -> None:
    """The eigenvalues' own are defined, those of vectors are not finite."""
    a = np.eye(2, dtype=np.float32)
    da = np.asarray([[1.0, 2.0], [2.0, 3.0]], np.float32)
    (_, w), (dv, dw) = effx.jvp(lambda x: linalg.eigh(x), (a,), (da,))
    np.testing.assert_array_equal(w, [1, 1])
    assert float(enp.sum(dw)) == pytest.approx(4.0)
    assert not np.isfinite(np.asarray(dv)).all()


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (
            lambda x: linalg.qr(x)[0],
            "jvp: qr: not all columns of a square q are determined by f32[3,2]; use full_matrices=False",
        ),
        (
            lambda x: linalg.svd(x)[0],
            "jvp: svd: not all vectors of square factors are determined by f32[3,2]; use full_matrices=False",
        ),
    ],
)
def test_what_has_no_derivative(f: Callable[[Array], Array], text: str) -> None:
    """It is refused, and the error names operations that have one."""
    with pytest.raises(NoRuleError) as raised:
        effx.jvp(f, (matrices(np.float32, 3, 2),), (matrices(np.float32, 3, 2),))
    assert raised.value.message == text


@pytest.mark.parametrize("sides", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives_of_eigenvectors(dtype: type, sides: tuple[bool, bool]) -> None:
    """They are those of the vectors that LAPACK returns: of length 1, with a real largest element."""
    left, right = sides
    with effx.enable_x64():
        a, da = matrices(dtype, 4, 4), matrices(dtype, 4, 4)[::-1]

        def vectors(a: Any) -> Any:
            return linalg.eig(a, compute_left_eigenvectors=left, compute_right_eigenvectors=right)

        moved = effx.jvp(vectors, (a,), (da,))[1]
        step = 1e-6
        ahead, behind = vectors(a + step * da), vectors(a - step * da)
        assert len(moved) == 1 + left + right
        for dv, x, y in zip(moved, ahead, behind, strict=True):
            np.testing.assert_allclose(dv, (x - y) / (2 * step), rtol=1e-5, atol=1e-6)


def whole(lower: Any, main: Any, upper: Any) -> np.ndarray[Any, Any]:
    """The matrices of three diagonals."""
    n = main.shape[-1]
    a, i = np.zeros((*main.shape, n), main.dtype), np.arange(n)
    a[..., i, i], a[..., i[1:], i[:-1]], a[..., i[:-1], i[1:]] = main, lower[..., 1:], upper[..., :-1]
    return a


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (2, 3, 4), (0,)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_perturbed_tridiagonal_systems(dtype: type, shape: tuple[int, ...]) -> None:
    """Systems that are not singular have their solution, whatever stands at the ends that are not read."""
    lower, main, upper = [matrices(dtype, *shape, seed=seed) for seed in (1, 2, 3)]
    b = matrices(dtype, *shape, 2)
    solve = partial(linalg.tridiagonal_solve, perturb_singular=True)
    x = solve(lower, main, upper, b)
    assert (x.shape, x.dtype) == (b.shape, np.dtype(dtype))
    np.testing.assert_allclose(whole(lower, main, upper) @ x, b, atol=2e-4)
    np.testing.assert_allclose(effx.jit(solve)(lower, main, upper, b), x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("lower", "main", "upper"), [([0, 0, 0], [0, 0, 0], [0, 0, 0]), ([0, 1, 0], [1, 3, 5], [3, 0, 0])]
)
def test_singular_tridiagonal_systems(lower: Any, main: Any, upper: Any) -> None:
    """Their solutions are large and finite."""
    diagonals = [np.array(d, np.float32) for d in (lower, main, upper)]
    solve: Any = partial(linalg.tridiagonal_solve, perturb_singular=True)
    x = solve(*diagonals, np.array([[1.0], [4.0], [2.0]], np.float32))
    assert 1e6 < np.abs(x).max() < np.inf
    assert not np.isnan(x).any()


def test_derivatives_of_perturbed_tridiagonal_systems() -> None:
    """They are those of the solution of the whole system."""
    rng = np.random.default_rng(0)
    lower, upper, main = rng.normal(size=5), rng.normal(size=5), 3 + rng.normal(size=5)
    b = rng.normal(size=(5, 2))
    with effx.enable_x64():

        def total(solve: Any, *arrays: Any) -> Any:
            return (solve(*arrays) ** 3).sum()

        def dense(lower: Any, main: Any, upper: Any, b: Any) -> Any:
            return enp.linalg.solve(enp.diag(main) + enp.diag(lower[1:], -1) + enp.diag(upper[:-1], 1), b)

        tridiagonal = partial(linalg.tridiagonal_solve, perturb_singular=True)
        gradients = [
            effx.grad(partial(total, solve), (0, 1, 2, 3))(lower, main, upper, b)
            for solve in (tridiagonal, dense)
        ]
        for x, y in zip(*gradients, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


F, H = np.ones((2, 3), np.float32), np.eye(2, dtype=np.float32)
ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: linalg.cholesky(F),
        ShapeError,
        "cholesky: operand must be square in its last two axes, got f32[2,3]",
    ),
    (lambda: linalg.lu(F[0]), ShapeError, "lu: operand must have at least two axes, got f32[3]"),
    (
        lambda: linalg.qr(np.ones((2, 2), np.int32)),
        DTypeError,
        "qr: operand must be f32, f64, c64 or c128, got i32[2,2]",
    ),
    (
        lambda: linalg.qr(F, use_magma=True),
        BackendError,
        "qr: use_magma=True asks for MAGMA, which effx does not call",
    ),
    (
        lambda: linalg.eigh(H, implementation=linalg.EighImplementation.QDWH),
        BackendError,
        "eigh: there is no implementation QDWH here; use QR or None",
    ),
    (
        lambda: linalg.svd(F, algorithm=linalg.SvdAlgorithm.POLAR),
        BackendError,
        "svd: there is no algorithm POLAR here; use QR, DIVIDE_AND_CONQUER or None",
    ),
    (
        lambda: linalg.svd(F, subset_by_index=(0, 1)),
        ShapeError,
        "svd: subset_by_index chooses singular vectors, so it needs full_matrices=False",
    ),
    (
        lambda: linalg.eigh(H, subset_by_index=(1, 3)),
        ShapeError,
        "eigh: subset_by_index must be (start, end) with 0 <= start <= end <= 2, got (1, 3)",
    ),
    (
        lambda: linalg.eig(H, use_magma=True),
        BackendError,
        "eig: there is no implementation MAGMA here; use LAPACK or None",
    ),
]


@pytest.mark.parametrize(("f", "kind", "text"), ERRORS)
def test_errors(f: Callable[[], object], kind: type[EffxError], text: str) -> None:
    """The whole text."""
    with pytest.raises(kind) as raised:
        f()
    assert raised.value.message == text


@every_dtype
def test_reductions_by_similarity(dtype: Any) -> None:
    """The forms are similar to the matrices, by the unitary matrices that come with them."""
    with effx.enable_x64(True):
        a, h = matrices(dtype, 2, 3, 3), hermitian(dtype, 3, 3)
        t, z = linalg.schur(a)
        assert t.dtype == z.dtype == dtype
        same(wide(z) @ wide(t) @ adjoint(wide(z)), a, dtype)
        same(np.tril(wide(t), -1 if wide(t).dtype.kind == "c" else -2), 0 * wide(t), dtype)
        form, taus = linalg.hessenberg(a)
        q = np.zeros((2, 3, 3), wide(a).dtype)
        q[:, 0, 0] = 1
        q[:, 1:, 1:] = wide(linalg.householder_product(form[:, 1:, :-1], taus))
        same(q @ np.triu(wide(form), -1) @ adjoint(q), a, dtype)
        _, main, beside, _ = linalg.tridiagonal(h)
        tridiagonal = np.diag(wide(main)) + np.diag(wide(beside), 1) + np.diag(wide(beside), -1)
        same(np.linalg.eigvalsh(tridiagonal), np.linalg.eigvalsh(wide(h)), dtype)


def test_products_and_updates_of_factors() -> None:
    """Against NumPy, with gradients where they are defined."""
    a, c, w = matrices(np.float32, 4, 2), hermitian(np.float32, 4, 4), matrices(np.float32, 3)
    same(linalg.symmetric_product(a, c, alpha=2.0, beta=0.5), 2 * a @ a.T + 0.5 * c, np.float32)
    r = np.triu(matrices(np.float32, 3, 3)) + 3 * np.eye(3, dtype=np.float32)
    same(linalg.cholesky_update(r, w), np.linalg.cholesky(r.T @ r + np.outer(w, w)).T, np.float32)
    a = matrices(np.complex64, 4, 2)
    q, _ = linalg.qr(a)
    vectors, taus = enp.linalg.qr(a, "raw")
    c = matrices(np.complex64, 4, 4)
    for left in (True, False):
        for transpose in (True, False):
            square = adjoint(np.asarray(q)) if transpose else np.asarray(q)
            got = linalg.ormqr(vectors.T, taus, c, left=left, transpose=transpose)
            same(got, square @ c if left else c @ square, np.complex64)
    with effx.enable_x64(True):
        check_grads(
            lambda r, w: linalg.cholesky_update(enp.triu(r), w), (r.astype(float), w.astype(float)), order=1
        )
        diagonals = [matrices(np.float64, 3, seed=i) + (4 if i == 1 else 0) for i in range(3)]
        check_grads(linalg.tridiagonal_solve, (*diagonals, matrices(np.float64, 3, 2)), order=1)


def test_kernels_inside_loops() -> None:
    """A compiled loop calls its kernel in each iteration."""
    a = hermitian(np.float32, 3, 3)

    def step(x: Array, _: None) -> tuple[Array, Array]:
        v, w = linalg.eigh(x)
        return v @ enp.diag(w) @ v.T, w[0]

    x, lows = effx.jit(lambda x: lax.scan(step, x, None, 3))(a)
    np.testing.assert_allclose(x, a, atol=1e-5)
    np.testing.assert_allclose(lows, np.full(3, np.linalg.eigvalsh(a)[0]), rtol=1e-4)


@every_dtype
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (6, 4)])
def test_qdwh(dtype: Any, shape: tuple[int, int]) -> None:
    """x = u h, where u has orthonormal columns and h no negative eigenvalue."""
    x = matrices(dtype, *shape)
    with effx.enable_x64(np.dtype(dtype).itemsize > 8 or dtype is np.float64):
        u, h, _, converged = linalg.qdwh(x)
        assert u.dtype == h.dtype == np.dtype(dtype)
    tolerance = 10 * EPS.get(
        np.dtype(dtype).itemsize if np.dtype(dtype).kind != "c" else np.dtype(dtype).itemsize // 2, 1e-12
    )
    assert converged
    np.testing.assert_allclose(wide(u) @ wide(h), wide(x), atol=tolerance)
    np.testing.assert_allclose(np.conj(wide(u).T) @ wide(u), np.eye(shape[1]), atol=tolerance)
    assert np.linalg.eigvalsh(wide(h)).min() > -tolerance


def test_qdwh_of_a_part() -> None:
    """What is outside of the part is 0; a Hermitian u; too few iterations; what is refused."""
    x = matrices(np.float32, 3, 2)
    u, h, _, _ = linalg.qdwh(np.pad(x, ((0, 2), (0, 1)), constant_values=7), dynamic_shape=(3, 2))
    want = linalg.qdwh(x)
    np.testing.assert_allclose(u, np.pad(want[0], ((0, 2), (0, 1))), atol=1e-5)
    np.testing.assert_allclose(h, np.pad(want[1], ((0, 1), (0, 1))), atol=1e-5)
    u = linalg.qdwh(hermitian(np.float32, 3, 3), is_hermitian=True)[0]
    np.testing.assert_array_equal(u, np.asarray(u).T)
    _, _, count, converged = linalg.qdwh(x, max_iterations=1)
    assert (int(count), bool(converged)) == (1, False)
    assert int(linalg.qdwh(x, eps=1e-3)[2]) <= int(want[2])
    with pytest.raises(
        ShapeError, match=r"qdwh: x must be one matrix with at least as many rows as columns, got f32\[2,3\]"
    ):
        linalg.qdwh(x.T)
    with pytest.raises(ShapeError, match=r"qdwh: dynamic_shape must fit into x f32\[3,2\], got 4 for axis 0"):
        linalg.qdwh(x, dynamic_shape=(4, 2))
