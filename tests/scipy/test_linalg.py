"""effx.scipy.linalg gives what SciPy gives; gradients, batches and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import effx
import effx.numpy as enp
from effx.array import Array
from effx.errors import BackendError, EffxError, OptionError, ShapeError
from effx.scipy import linalg
from effx.test_util import check_grads
from tests.numpy.expressions import agree, rows

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 3)).astype(np.float32)
G = (A @ A.T + 3 * np.eye(3)).astype(np.float32)
C = (A + 1j * RNG.normal(size=(3, 3))).astype(np.complex64)
H = (C @ C.conj().T + np.eye(3)).astype(np.complex64)
B = RNG.normal(size=(4, 3)).astype(np.float32)
V = RNG.normal(size=3).astype(np.float32)
W = RNG.normal(size=(3, 2)).astype(np.float32)
P = np.array([1, -6, 11, -6, 2], np.float32)
J = np.array([1, 2, 3], np.int32)
Z = (V + 1j * V[::-1]).astype(np.complex64)
T = np.triu(A).astype(np.float32)
NAMES = {
    "A": A,
    "G": G,
    "C": C,
    "H": H,
    "B": B,
    "V": V,
    "W": W,
    "P": P,
    "J": J,
    "Z": Z,
    "T": T,
    "np": np,
    "E": enp,
    "SP": scipy.linalg,
}

ROWS = rows(
    "la.block_diag(A, 5, V, W); la.block_diag(J, A); la.cho_factor(G, lower=True)[1]; la.cho_solve((G, True), V); "
    "la.cho_solve((H, False), W); la.cho_solve((H, True), V); la.cholesky(G); la.cholesky(H, lower=True); la.circulant(J); "
    "la.companion(P); la.convolution_matrix(J, 4); la.convolution_matrix(V, 2, 'same'); "
    "la.convolution_matrix(V, 5, 'same'); "
    "la.convolution_matrix(V, 2, 'valid'); la.convolution_matrix(V, 5, 'valid'); la.det(A); la.dft(4); la.dft(3, 'sqrtn'); "
    "la.dft(3, 'n'); la.eigh(G, eigvals_only=True); la.eigh(A + A.T, G, eigvals_only=True); "
    "la.eigh(C + C.conj().T, H, type=2, eigvals_only=True); la.eigh(A + A.T, G, type=3, eigvals_only=True); la.expm(A); "
    "la.expm(20 * A); la.expm(C); la.expm(0.01 * A); la.fiedler(J); la.fiedler(V); la.fiedler_companion(P); "
    "la.fiedler_companion(P[:4]); la.fiedler_companion(P[:3]); la.fiedler_companion(P[:2]); la.hadamard(1); la.hadamard(8); "
    "la.hankel(J); la.hankel(V, P); la.helmert(4); la.helmert(3, full=True); la.helmert(1, True); la.hilbert(4); la.inv(A); "
    "la.inv(C); la.invhilbert(4); la.invpascal(4); la.invpascal(4, 'lower'); la.invpascal(3, 'upper'); "
    "la.leslie(V, V[:2]); la.lu(A); la.lu(B); la.lu(B.T); la.lu(C, permute_l=True); la.lu_factor(A); "
    "la.lu_solve(la.lu_factor(A), V); la.lu_solve(la.lu_factor(A), W, 1); la.lu_solve(la.lu_factor(C), V, 2); la.pascal(5); "
    "la.pascal(4, 'lower'); la.pascal(4, 'upper'); la.polar(A); la.polar(B); la.polar(B, 'left'); la.polar(C, side='left'); "
    "la.polar(B.T); la.qr(B); la.qr(B, mode='economic'); la.qr(B, mode='r'); la.qr(B, mode='r', pivoting=True); "
    "la.qr(A, pivoting=True); la.solve(A, V); la.solve(C, W); la.solve(G, V, assume_a='pos'); "
    "la.solve(H, V, assume_a='pos', lower=True); la.solve(G, W, assume_a='sym'); la.solve_triangular(A, V); "
    "la.solve_triangular(A, W, lower=True); la.solve_triangular(C, W, 'C'); la.solve_triangular(C, V, 1, lower=True); "
    "la.solve_triangular(A, V, unit_diagonal=True); la.svd(B, compute_uv=False); "
    "la.svd(C, compute_uv=False, lapack_driver='gesvd'); "
    "la.expm_frechet(A, A.T); la.expm_frechet(A, G, compute_expm=False); la.hessenberg(A); la.hessenberg(C, calc_q=True); "
    "la.hessenberg(G, calc_q=True); la.hessenberg(A[:1, :1], calc_q=True); la.schur(A); la.schur(C); "
    "la.schur(G, 'complex'); "
    "la.qr_multiply(B, np.ones((2, 4), 'f4')); la.qr_multiply(B, A, 'left'); la.qr_multiply(A, V, pivoting=True); "
    "la.qr_multiply(C, C, conjugate=True); "
    "la.sqrtm(G); la.sqrtm(H); la.sqrtm(C); la.funm(A, E.exp); la.funm(G, E.cos); "
    "la.solve_sylvester(G, A, W @ W.T); la.solve_sylvester(C, H, C); la.solve_sylvester(G, np.eye(2, dtype='f4'), W); "
    "la.eigh_tridiagonal(V, W[:2, 0], eigvals_only=True); "
    "la.eigh_tridiagonal(V, W[:2, 0], eigvals_only=True, select='i', select_range=(1, 2)); "
    "la.toeplitz(J); la.toeplitz(Z); la.toeplitz(V, P); la.toeplitz(5)"
)  # fmt: skip


def test_every_name_has_a_row() -> None:
    """A public name without a row would escape the comparison; rsf2csf is determined up to phases."""
    tested = {name for name in dir(linalg) if any([f"la.{name}(" in row for row in ROWS])} | {"rsf2csf"}
    assert set(dir(linalg)) == tested


@pytest.mark.parametrize("row", ROWS)
def test_value(row: str) -> None:
    """The result has SciPy's shape and values."""
    want = eval(row, {**NAMES, "la": scipy.linalg, "E": np})
    agree(eval(row, {**NAMES, "la": linalg, "E": enp}), want, 3e-4, 1e-4)


def test_expm_of_other_forms() -> None:
    """Triangular matrices, batches, matrices without elements, f64, and norms that need too many squarings."""
    agree(linalg.expm(T, upper_triangular=True), scipy.linalg.expm(T), 1e-4, 1e-5)
    stack = np.stack([A, 10 * A, 0 * A])
    agree(linalg.expm(stack), scipy.linalg.expm(stack), 1e-3, 1e-4)
    assert linalg.expm(np.zeros((0, 0), np.float32)).shape == (0, 0)
    assert np.isnan(
        np.asarray(linalg.expm(A, max_squarings=0) * 0 + linalg.expm(100 * A, max_squarings=1))
    ).all()
    with effx.enable_x64(True):
        wide = A.astype(np.float64)
        np.testing.assert_allclose(linalg.expm(7 * wide), scipy.linalg.expm(7 * wide), rtol=1e-11)


def test_eigenvectors_of_pairs() -> None:
    """Each type's equation holds, and its normalisation."""
    for a, b in ((A + A.T, G), (C + C.conj().T, H)):
        for kind, left, right, product in (
            (1, a, b, b),
            (2, a @ b, np.eye(3), b),
            (3, b @ a, np.eye(3), np.linalg.inv(b)),
        ):
            w, v = (np.asarray(x) for x in linalg.eigh(a, b, type=kind))
            np.testing.assert_allclose(left @ v, right @ v * w, atol=2e-3)
            np.testing.assert_allclose(v.conj().T @ product @ v, np.eye(3), atol=1e-3)


def test_schurs_forms() -> None:
    """The complex form and its vectors make the matrix that the real ones make."""
    t, z = linalg.rsf2csf(*linalg.schur(A))
    np.testing.assert_allclose(z @ t @ enp.conj(z.T), A, atol=1e-5)
    np.testing.assert_allclose(z @ enp.conj(z.T), np.eye(3), atol=1e-5)
    np.testing.assert_array_equal(np.tril(t, -1), np.zeros((3, 3)))


def test_estimates_and_singular_systems() -> None:
    """funm's error is small for distinct eigenvalues; systems without a solution are NaN."""
    value, error = linalg.funm(G, enp.exp, disp=False)
    np.testing.assert_allclose(value, scipy.linalg.expm(G), rtol=1e-3)
    assert 0 < float(error) < 1e-4
    assert np.isnan(
        np.asarray(linalg.solve_sylvester(np.eye(2, dtype="f4"), -np.eye(2, dtype="f4"), W[:2]))
    ).all()
    w, v = linalg.eigh_tridiagonal(V, W[:2, 0])
    whole = np.diag(V) + np.diag(W[:2, 0], 1) + np.diag(W[:2, 0], -1)
    np.testing.assert_allclose(whole @ v, v * w, atol=1e-5)


def test_batches() -> None:
    """Batch axes broadcast, and vmap is a loop."""
    stack = np.stack([G, 2 * G])
    functions: list[Callable[[Array], Array]] = [
        lambda x: linalg.cho_solve((linalg.cholesky(x, lower=True), True), V),
        lambda x: linalg.lu_solve(linalg.lu_factor(x), V, 1),
        lambda x: linalg.solve_triangular(x, W, lower=True),
        lambda x: linalg.lu(x)[0],
        lambda x: linalg.polar(x)[1],
        lambda x: linalg.toeplitz(x[0]),
    ]
    for f in functions:
        want = np.stack([np.asarray(f(enp.asarray(x))) for x in stack])
        np.testing.assert_allclose(effx.vmap(f)(stack), want, atol=1e-5)
    agree(linalg.cho_solve((stack, True), W), np.stack([scipy.linalg.cho_solve((x, True), W) for x in stack]))


SMOOTH: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("expm", linalg.expm, (A,)),
    ("large expm", linalg.expm, (5 * A,)),
    ("complex expm", linalg.expm, (C,)),
    ("polar", linalg.polar, (B,)),
    ("cho_solve", lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), (H, V)),
    ("lu_solve", lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 2), (C, V)),
    ("solve", lambda a, b: linalg.solve(a, b, assume_a="pos"), (G, V)),
    ("toeplitz", linalg.toeplitz, (V, P)),
    ("sylvester", linalg.solve_sylvester, (G, A, A.T)),
    ("tridiagonal", lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True), (V, V[:2])),
    ("generalized eigh", lambda a, b: linalg.eigh(a + a.T, b, eigvals_only=True), (A, G)),
]


@pytest.mark.parametrize(("name", "f", "operands"), SMOOTH, ids=[s[0] for s in SMOOTH])
def test_gradients(name: str, f: Callable[..., Any], operands: tuple[Any, ...]) -> None:
    """Both modes agree with finite differences."""
    with effx.enable_x64(True):
        wide = [x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in operands]
        check_grads(f, tuple(wide), order=1, atol=1e-4, rtol=1e-4)


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (lambda: linalg.expm(B), ShapeError, "expm: A must be square in its last two axes, got f32[4,3]"),
    (
        lambda: linalg.expm_frechet(A, C[:2, :2]),
        ShapeError,
        "expm_frechet: A and E must have the same shape, got c64[3,3] and c64[2,2]",
    ),
    (lambda: linalg.sqrtm(A, 2), BackendError, "sqrtm: there are no blocks; use blocksize=1, got 2"),
    (
        lambda: linalg.solve_sylvester(A, A, A, method="x"),
        ShapeError,
        "solve_sylvester: method must be 'schur' or 'eigen', got 'x'",
    ),
    (
        lambda: linalg.solve_sylvester(A, A, B),
        ShapeError,
        "solve_sylvester: C must be [3, 3] in its last two axes, got f32[4,3]",
    ),
    (
        lambda: linalg.eigh_tridiagonal(V, V),
        ShapeError,
        "eigh_tridiagonal: d must be a real vector and e one element shorter, got f32[3] and f32[3]",
    ),
    (
        lambda: linalg.eigh_tridiagonal(V, V[:2], select="v", select_range=(0, 1)),
        ShapeError,
        "eigh_tridiagonal: select must be 'a', or 'i' with a select_range, got 'v' and (0, 1)",
    ),
    (lambda: linalg.schur(A, "x"), ShapeError, "schur: output must be 'real' or 'complex', got 'x'"),
    (
        lambda: linalg.qr_multiply(A, A, "x"),
        ShapeError,
        "qr_multiply: mode must be 'right' or 'left', got 'x'",
    ),
    (lambda: linalg.polar(A, "up"), ShapeError, "polar: side must be 'right' or 'left', got 'up'"),
    (lambda: linalg.polar(A, method="x"), ShapeError, "polar: method must be 'qdwh' or 'svd', got 'x'"),
    (
        lambda: linalg.cho_solve((A, True), B),
        ShapeError,
        "cho_solve: b must have 3 rows, as a: a is f32[3,3], b is f32[4,3]",
    ),
    (lambda: linalg.lu_solve((A, J), V, 3), ShapeError, "lu_solve: trans must be 0, 1 or 2, got 3"),
    (
        lambda: linalg.solve_triangular(A, V, "X"),
        ShapeError,
        "solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got 'X'",
    ),
    (
        lambda: linalg.solve(A, V, assume_a="x"),
        ShapeError,
        "solve: assume_a must be 'gen', 'sym', 'her' or 'pos', got 'x'",
    ),
    (
        lambda: linalg.svd(A, lapack_driver="x"),
        ShapeError,
        "svd: lapack_driver must be 'gesdd' or 'gesvd', got 'x'",
    ),
    (lambda: linalg.qr(A, mode="x"), ShapeError, "qr: mode must be 'full', 'economic' or 'r', got 'x'"),
    (lambda: linalg.eigh(A, type=4), ShapeError, "eigh: type must be 1, 2 or 3, got 4"),
    (
        lambda: linalg.eigh(A, eigvals=(0, 1)),  # type: ignore[arg-type]  # wrong on purpose
        ShapeError,
        "eigh: eigvals must be None, got (0, 1); all eigenvalues are computed",
    ),
    (lambda: linalg.companion(V[:1]), ShapeError, "companion: a must have at least 2 elements, got f32[1]"),
    (
        lambda: linalg.fiedler_companion(A[:0, 0]),
        ShapeError,
        "fiedler_companion: a must have at least 1 elements, got f32[0]",
    ),
    (lambda: linalg.leslie(V[:1], V[:0]), ShapeError, "leslie: f must have at least 2 elements, got f32[1]"),
    (lambda: linalg.dft(4, dtype="float32"), OptionError, "dft: dtype must be complex, got float32"),
    (
        lambda: linalg.rsf2csf(A, A[:2, :2]),
        ShapeError,
        "rsf2csf: T and Z must have equal sizes, got f32[3,3] and f32[2,2]",
    ),
    (
        lambda: linalg.convolution_matrix(V, 0),
        ShapeError,
        "convolution_matrix: n must be at least 1, got 0",
    ),
    (
        lambda: linalg.convolution_matrix(V, 2, "x"),
        ShapeError,
        "convolution_matrix: mode must be 'full', 'same' or 'valid', got 'x'",
    ),
    (
        lambda: linalg.leslie(V, V),
        ShapeError,
        "leslie: s must have one element less than f: f is f32[3], s is f32[3]",
    ),
    (
        lambda: linalg.block_diag(A, A[None]),
        ShapeError,
        "block_diag: operand 1 must have at most two axes, got f32[1,3,3]",
    ),
    (lambda: linalg.dft(2, "x"), ShapeError, "dft: scale must be None, 'sqrtn' or 'n', got 'x'"),
    (lambda: linalg.hadamard(3), ShapeError, "hadamard: n must be a power of 2, got 3"),
    (lambda: linalg.hilbert(-1), ShapeError, "hilbert: n must be at least 0, got -1"),
    (
        lambda: linalg.pascal(2, "x"),
        ShapeError,
        "pascal: kind must be 'symmetric', 'lower', 'upper' or None, got 'x'",
    ),
]


@pytest.mark.parametrize(("f", "kind", "text"), ERRORS)
def test_errors(f: Callable[[], object], kind: type[EffxError], text: str) -> None:
    """The whole text."""
    with pytest.raises(kind) as raised:
        f()
    assert raised.value.message == text


def test_edge_sizes_of_special_matrices() -> None:
    """Vectors of no and one element, and batches of vectors."""
    assert linalg.circulant(np.zeros(0)).shape == (0, 0)
    assert linalg.circulant(np.zeros((2, 0))).shape == (2, 0, 0)
    for n in range(1, 8):
        rows = np.random.default_rng(n).normal(size=(2, 3, n)).astype(np.float32)
        batch = linalg.fiedler_companion(rows)
        assert batch.shape == (2, 3, n - 1, n - 1)
        for x, y in zip(rows.reshape(6, n), np.asarray(batch).reshape(6, n - 1, n - 1), strict=True):
            np.testing.assert_allclose(
                y, scipy.linalg.fiedler_companion(x) if n > 1 else np.zeros((0, 0)), rtol=1e-5
            )


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_complex_forms_of_real_ones(dtype: Any, n: int) -> None:
    """rsf2csf is SciPy's, of a form and of any other matrix; so is what is made of it, on both sides of a cut."""
    rng = np.random.default_rng(n)
    a = (
        (rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))).astype(dtype)
        if dtype is np.complex128
        else rng.normal(size=(n, n))
    )
    with effx.enable_x64():
        for t, z in (scipy.linalg.schur(a), (a, a.T)):
            for mine, scipys in zip(linalg.rsf2csf(t, z), scipy.linalg.rsf2csf(t, z), strict=True):
                np.testing.assert_allclose(mine, scipys, rtol=1e-9, atol=1e-9)
        power = linalg.funm(a, lambda x: x**-2.5)
        expected = scipy.linalg.funm(a, lambda x: x**-2.5)
        np.testing.assert_allclose(power, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
        root = np.asarray(linalg.sqrtm(a))
        np.testing.assert_allclose(root @ root, a, atol=1e-10)


def test_roots_of_negative_numbers() -> None:
    """Real eigenvalues stay real: the root of a negative one is on the upper side of the cut."""
    a = np.array([[1.0, 2.0, 0.5], [0.0, -4.0, 1.0], [0.0, 0.0, -9.0]], np.float32)
    similar = np.linalg.inv(A) @ a @ A
    roots = np.linalg.eigvals(np.asarray(linalg.sqrtm(similar)))
    # By their size: the real parts of two are roundings.
    np.testing.assert_allclose(roots[np.argsort(np.abs(roots))], [1, 2j, 3j], atol=1e-3)


def test_batches_of_complex_forms() -> None:
    """Batch axes broadcast."""
    t = np.stack([scipy.linalg.schur(A * k)[0] for k in (1, 2)])
    form, vectors = linalg.rsf2csf(t, np.eye(3, dtype=np.float32))
    assert form.shape == vectors.shape == (2, 3, 3)
    np.testing.assert_allclose(vectors @ form @ np.conj(np.swapaxes(vectors, -1, -2)), t, atol=1e-4)
    assert linalg.rsf2csf(np.zeros((0, 0)), np.zeros((0, 0)))[0].shape == (0, 0)
