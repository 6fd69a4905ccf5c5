"""effx.numpy.linalg gives what NumPy gives, in all dtypes; gradients, batches and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.array import Array
from effx.errors import DTypeError, EffxError, ShapeError
from effx.numpy import linalg
from effx.test_util import check_grads
from tests.numpy.expressions import agree, leaves, rows

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 3)).astype(np.float32)
G = (A @ A.T + 3 * np.eye(3)).astype(np.float32)
B = RNG.normal(size=(2, 4, 3)).astype(np.float32)
T = RNG.normal(size=(2, 3, 3)).astype(np.float32)
C = (A + 1j * RNG.normal(size=(3, 3))).astype(np.complex64)
H = (C @ C.conj().T + np.eye(3)).astype(np.complex64)
V = RNG.normal(size=3).astype(np.float32)
W = RNG.normal(size=(3, 2)).astype(np.float32)
I = np.array([[2, 1], [1, 3]], np.int32)  # noqa: E741 - integers
Z = np.zeros((2, 2), np.float32)
N: Any = np.zeros((0, 0), np.float32)
LOW = np.array([[1, 2], [2, 4], [3, 6]], np.float32)
NAMES = {"A": A, "G": G, "B": B, "T": T, "C": C, "H": H, "V": V, "W": W, "I": I, "Z": Z, "N": N, "LOW": LOW}

# `la` is the namespace. A name may stand in several rows.
ROWS = [
    *rows(
        "la.cholesky(G); la.cholesky(H); la.cholesky(G, upper=True); la.cholesky(H, upper=True); la.cholesky(I); "
        "la.cholesky(N); la.cond(A); la.cond(B); la.cond(A, 'fro'); la.cond(A, 1); la.cond(A, -1); la.cond(A, np.inf); "
        "la.cond(A, -np.inf); la.cond(A, -2); la.cond(T, 'nuc'); la.cond(I); la.cross(V, A); la.cross(A, A[::-1], axis=0); "
        "la.det(A); la.det(T); la.det(C); la.det(I); la.det(Z); la.det(N); la.det(LOW[:2]); "
        "la.det(B[0] @ B[1].T + np.eye(4)); la.det(A[:1, :1]); "
        "la.diagonal(T); la.diagonal(B, offset=1); la.eigvalsh(G); la.eigvalsh(H, 'U'); la.eigvalsh(I); la.eigvalsh(N); "
        "la.eigh(G).eigenvalues; la.eigh(H, 'U').eigenvalues; la.inv(A); la.inv(T); la.inv(C); la.inv(I); la.inv(N); "
        "la.lstsq(B[0], B[1])[0]; la.lstsq(B[0], B[1, :, 0])[0]; la.lstsq(B[0].T, W)[0]; la.lstsq(LOW, LOW[:, 0], 1e-5)[0]; "
        "la.lstsq(B[0], B[1])[1:]; la.lstsq(LOW, LOW[:, :1], 1e-5)[2]; la.matmul(A, W); la.matmul(T, V); "
        "la.matrix_norm(T); la.matrix_norm(B, ord='nuc', keepdims=True); la.matrix_norm(C, ord=2); "
        "la.matrix_power(A, 5); la.matrix_power(T, 0); la.matrix_power(A, -2); la.matrix_power(I, 3); "
        "la.matrix_power(C, 1); "
        "la.matrix_rank(A); la.matrix_rank(LOW); la.matrix_rank(T); la.matrix_rank(V); la.matrix_rank(Z); "
        "la.matrix_rank(G, hermitian=True); la.matrix_rank(LOW, rtol=1e-3); la.matrix_rank(B); la.matrix_transpose(B); "
        "la.multi_dot([A, W]); la.multi_dot([V, A, T[0], W]); la.multi_dot([V, A, V]); la.multi_dot([A, A, V]); "
        "la.norm(V); la.norm(B); la.norm(C); la.norm(I); la.norm(A, 'fro'); la.norm(A, 'nuc'); la.norm(A, 2); "
        "la.norm(A, -2); "
        "la.norm(A, 1); la.norm(A, -1); la.norm(A, np.inf); la.norm(A, -np.inf); la.norm(V, 3); la.norm(V, 0); "
        "la.norm(V, 1); la.norm(V, np.inf); la.norm(V, -np.inf); la.norm(V, -1.5); la.norm(B, axis=1); "
        "la.norm(B, 1, axis=0); "
        "la.norm(B, 2, axis=(0, 2)); la.norm(B, 'nuc', axis=(2, 0), keepdims=True); la.norm(B, axis=(1, 2)); "
        "la.norm(B, keepdims=True); la.norm(B, 1, axis=(-1, 0)); la.norm(B, -np.inf, axis=(-1, 0)); la.norm(C, 3, axis=0); "
        "la.outer(V, W[:, 0]); la.outer(C[0], V); la.pinv(A); la.pinv(B); la.pinv(C); la.pinv(LOW, 1e-5); la.pinv(I); "
        "la.pinv(G, hermitian=True); la.pinv(Z); la.slogdet(A); la.slogdet(T); la.slogdet(C); la.slogdet(I); "
        "la.slogdet(Z); la.slogdet(-G); la.solve(A, V); la.solve(A, W); la.solve(T, W); la.solve(A, T); "
        "la.solve(T, T[::-1]); "
        "la.solve(C, V); la.solve(I, I); la.solve(T, V); la.solve(N, N); la.svdvals(A); la.svdvals(B); la.svdvals(C); "
        "la.svd(B, compute_uv=False); la.svd(G, compute_uv=False, hermitian=True); la.svd(-G, hermitian=True).S; "
        "la.tensordot(A, A); la.tensordot(A, W, axes=1); la.tensordot(B, B, axes=([0, 1], [0, 1])); "
        "la.tensorinv(np.eye(6, dtype='f4').reshape(2, 3, 6) * 2, 2); la.tensorinv(A, 1); "
        "la.tensorsolve(np.eye(6, dtype='f4').reshape(2, 3, 6) * 2, W.T); "
        "la.tensorsolve(np.eye(6, dtype='f4').reshape(6, 2, 3) * 2, np.arange(6, dtype='f4')); "
        "la.tensorsolve(np.eye(6, dtype='f4').reshape(2, 6, 3), np.arange(6, dtype='f4'), axes=(0, 2)); "
        "la.trace(B); la.trace(T, offset=1); la.trace(I, dtype='float32'); la.vecdot(A, V); la.vecdot(C, C, axis=0); "
        "la.vector_norm(B); la.vector_norm(B, axis=(0, 2)); la.vector_norm(B, axis=1, ord=1, keepdims=True); "
        "la.vector_norm(V, ord=np.inf); la.vector_norm(V, ord=0)"
    ),
]  # fmt: skip
# What is determined up to a phase has a test of its own.
BY_PROPERTIES = {"eig", "eigvals", "qr", "svd", "eigh"}


def test_every_name_has_a_row() -> None:
    """A public name without a row would escape the comparison."""
    tested = {name for name in dir(linalg) if any([f"la.{name}(" in row for row in ROWS])}
    assert set(dir(linalg)) == tested | BY_PROPERTIES


@pytest.mark.parametrize("row", ROWS)
def test_value(row: str) -> None:
    """The result has NumPy's shape and values, and jit's is the same."""
    names: dict[str, Any] = {"np": np, **NAMES}
    with np.errstate(all="ignore"):
        want = eval(row, {**names, "la": np.linalg})
    agree(eval(row, {**names, "la": linalg}), want, 3e-4, 1e-4)


JITTED = [row for row in ROWS if "la.lstsq" not in row and "N)" not in row][::6]


@pytest.mark.parametrize("row", JITTED)
def test_jit(row: str) -> None:
    """Compiled functions give the same."""
    want = leaves(eval(row, {"np": np, "la": linalg, **NAMES}))
    arrays = {name: x for name, x in NAMES.items() if name != "N"}
    got = leaves(effx.jit(lambda xs: eval(row, {"np": np, "la": linalg, **xs}))(arrays))
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def test_factors() -> None:
    """Products of the factors give the operand, in the order and with the names that NumPy has."""
    for a in (B, C, T, I.astype(np.float32)):
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(a, mode)
            want = np.linalg.qr(a, mode)
            assert (q.shape, r.shape) == (want.Q.shape, want.R.shape)
            np.testing.assert_allclose(q @ r, a, atol=1e-5)
        np.testing.assert_allclose(linalg.qr(a, "r"), linalg.qr(a).R)
        for full in (False, True):
            u, s, vh = linalg.svd(a, full)
            assert (u.shape, vh.shape) == tuple([x.shape for x in np.linalg.svd(a, full)[::2]])
            k = s.shape[-1]
            np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=1e-5)
    h, taus = linalg.qr(B[0], "raw")
    want_h, want_taus = np.linalg.qr(B[0], "raw")
    np.testing.assert_allclose(h, want_h, atol=1e-5)
    np.testing.assert_allclose(taus, want_taus, atol=1e-5)
    for a in (G, H, -T - np.swapaxes(T, -1, -2)):
        found = linalg.eigh(a)
        np.testing.assert_allclose(
            a @ found.eigenvectors, found.eigenvectors * found.eigenvalues[..., None, :], atol=1e-4
        )
        u, s, vh = linalg.svd(a, hermitian=True)
        np.testing.assert_allclose((u * s[..., None, :]) @ vh, a, atol=1e-4)
        assert (enp.diff(s) <= 0).all()
    equal = np.diag(np.array([2.0, -2.0, 1.0, 2.0], np.float32))
    ours, numpys = linalg.svd(equal, hermitian=True), np.linalg.svd(equal, hermitian=True)
    for factor, wanted in zip(ours, numpys, strict=True):
        np.testing.assert_array_equal(factor, wanted)
    for a in (A, C, T):
        w, v = linalg.eig(a)
        np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-4)
        np.testing.assert_allclose(np.sort(linalg.eigvals(a)), np.sort(np.linalg.eigvals(a)), atol=1e-4)
    np.testing.assert_allclose(
        linalg.svd(B, False, subset_by_index=(0, 2)).S, np.linalg.svd(B)[1][:, :2], rtol=1e-4
    )
    np.testing.assert_allclose(linalg.svd(G, hermitian=True, compute_uv=False, subset_by_index=(1, 2)),
                               np.linalg.svd(G)[1][1:2], rtol=1e-4)  # fmt: skip


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128]
)
def test_results_keep_the_dtype(dtype: Any) -> None:
    """Values are those of f64; dtypes are the operand's, or its real part's."""
    with effx.enable_x64(True):
        a = (A + 3 * np.eye(3)).astype(dtype)
        real = np.real(np.zeros((), dtype)).dtype
        rough = real.itemsize == 2
        wide = np.asarray(a).astype(np.complex128 if real.itemsize < a.dtype.itemsize else np.float64)
        for name, want in (
            ("inv", dtype),
            ("det", dtype),
            ("pinv", dtype),
            ("cond", real),
            ("norm", real),
            ("svdvals", real),
        ):
            got = getattr(linalg, name)(a)
            assert got.dtype == want, name
            data = np.asarray(got).astype(np.complex128 if want == dtype else np.float64)
            np.testing.assert_allclose(
                data, getattr(np.linalg, name)(wide), rtol=0.1 if rough else 1e-3, atol=0.02
            )
        assert linalg.solve(a, a).dtype == linalg.slogdet(a).sign.dtype == dtype
        assert linalg.slogdet(a).logabsdet.dtype == real
    assert linalg.inv(I).dtype == np.float32
    assert linalg.matrix_power(I, 2).dtype == np.int32


def test_other_parameters() -> None:
    """Names that JAX adds to NumPy's."""
    np.testing.assert_allclose(linalg.slogdet(A, method="qr"), linalg.slogdet(A), rtol=1e-4)
    np.testing.assert_allclose(linalg.slogdet(T, method="qr"), linalg.slogdet(T), rtol=1e-4)
    np.testing.assert_allclose(linalg.pinv(LOW, rcond=1e-5), linalg.pinv(LOW, 1e-5))
    assert int(linalg.matrix_rank(LOW, tol=0.9)) == 1
    assert linalg.lstsq(LOW, LOW, 1e-5, numpy_resid=True)[1].shape == (0,)
    assert linalg.lstsq(B[0], B[1], numpy_resid=True)[1].shape == (3,)
    lower = np.tril(G) + np.triu(np.full((3, 3), 99, np.float32), 1)
    np.testing.assert_allclose(
        linalg.cholesky(lower, symmetrize_input=False), np.linalg.cholesky(G), rtol=1e-5
    )
    np.testing.assert_allclose(
        linalg.eigvalsh(lower, symmetrize_input=False), np.linalg.eigvalsh(G), rtol=1e-4
    )
    np.testing.assert_allclose(linalg.eigh(lower.T, "U", False).eigenvalues, np.linalg.eigvalsh(G), rtol=1e-4)


SMOOTH: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("det", linalg.det, (T,)),
    ("singular det", linalg.det, (np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1]], np.float32),)),
    ("slogdet", lambda x: linalg.slogdet(x).logabsdet, (T,)),
    ("slogdet by qr", lambda x: linalg.slogdet(x, method="qr").logabsdet, (T,)),
    ("complex slogdet", lambda x: linalg.slogdet(x), (C,)),
    ("inv", linalg.inv, (G,)),
    ("solve", linalg.solve, (G, V)),
    ("solve batches", linalg.solve, (T + 3 * np.eye(3), W)),
    ("solve sides", linalg.solve, (G, T)),
    ("cholesky", linalg.cholesky, (G,)),
    ("upper cholesky", lambda x: linalg.cholesky(x, upper=True), (H,)),
    ("pinv", linalg.pinv, (B,)),
    ("pinv of equal values", linalg.pinv, (np.eye(3, 2),)),
    ("hermitian pinv", lambda x: linalg.pinv(x + x.T, hermitian=True), (G,)),
    ("lstsq", lambda a, b: linalg.lstsq(a, b)[0], (B[0], B[1])),
    ("norm", linalg.norm, (B,)),
    ("nuclear norm", lambda x: linalg.norm(x, "nuc"), (A,)),
    ("spectral norm", lambda x: linalg.norm(x, 2), (C,)),
    ("p norm", lambda x: linalg.norm(x, 3), (V,)),
    ("cond", linalg.cond, (A,)),
    ("qr", lambda x: tuple(linalg.qr(x)), (B,)),
    ("power", lambda x: linalg.matrix_power(x, -3), (G,)),
    ("multi_dot", lambda *xs: linalg.multi_dot(xs), (V, A, W)),
    ("svd hermitian", lambda x: linalg.svd(x + x.T, hermitian=True).S, (G,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "f", "operands"), SMOOTH, ids=[s[0] for s in SMOOTH])
def test_gradients(name: str, f: Callable[..., Any], operands: tuple[Any, ...]) -> None:
    """Both modes agree with finite differences."""
    with effx.enable_x64(True):
        wide = [x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in operands]
        check_grads(f, tuple(wide), order=1, atol=1e-4, rtol=1e-4)


LOOPS: list[Callable[[Array], Any]] = [
    linalg.det, linalg.inv, linalg.cholesky, linalg.norm, linalg.cond, linalg.pinv, linalg.matrix_rank, linalg.svdvals,
    linalg.slogdet, linalg.eigvalsh, lambda x: linalg.solve(x, x[:, 0]), lambda x: linalg.solve(G, x[:, 0]),
    lambda x: linalg.lstsq(x, x)[0], lambda x: linalg.matrix_power(x, 3), lambda x: linalg.qr(x).R,
]  # fmt: skip


@pytest.mark.parametrize("f", LOOPS)
def test_vmap_is_a_loop(f: Callable[[Array], Any]) -> None:
    """Of batch elements along the last axis."""
    xs = np.stack([G, G + A @ A.T, 2 * G], -1)
    got = leaves(effx.vmap(f, in_axes=2)(xs))
    wants = [leaves(f(enp.asarray(xs[..., i]))) for i in range(3)]
    for i, want in enumerate(wants):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a[i], b, rtol=2e-3, atol=1e-4)


def test_one_matrix_for_a_batch_is_factorised_once() -> None:
    """The batch becomes columns."""
    for axis in (0, 1):
        b = np.ones((5, 3) if axis == 0 else (3, 5), np.float32)
        program = effx.make_jaxpr(effx.vmap(lambda b: linalg.solve(G, b), in_axes=axis))(b)
        assert "f32[3,5] = solve" in str(program)
    program = effx.make_jaxpr(lambda b: linalg.solve(G, b))(np.ones((5, 3, 2), np.float32))
    assert "f32[3,10] = solve" in str(program)


F = np.ones((2, 3), np.float32)
SQUARE = "operand must be square in its last two axes, got f32[2,3]"
ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (lambda: linalg.inv(F), ShapeError, f"inv: {SQUARE}"),
    (lambda: linalg.det(V), ShapeError, "det: operand must have at least two axes, got f32[3]"),
    (lambda: linalg.solve(F, V), ShapeError, "solve: a must be square in its last two axes, got f32[2,3]"),
    (lambda: linalg.solve(A, V[:2]), ShapeError, "solve: b must have 3 rows, as a: a is f32[3,3], b is f32[2]"),
    (
        lambda: linalg.inv([[1.0]]),  # type: ignore[arg-type]  # wrong on purpose
        DTypeError,
        "inv: expected an array or a number, got a list; lists are converted only by array and asarray",
    ),
    (lambda: linalg.cholesky(F, upper=True), ShapeError, f"cholesky: {SQUARE}"),
    (lambda: linalg.eigh(A, "X"), ShapeError, "eigh: UPLO must be 'L', 'U' or None, got 'X'"),
    (lambda: linalg.qr(A, "thin"), ShapeError, "qr: mode must be 'reduced', 'complete', 'r', 'raw' or 'full', got 'thin'"),
    (lambda: linalg.slogdet(A, method="x"), ShapeError, "slogdet: method must be 'lu', 'qr' or None, got 'x'"),
    (
        lambda: linalg.slogdet(C, method="qr"),
        DTypeError,
        "slogdet: method 'qr' is for real matrices, got c64[3,3]; use 'lu'",
    ),
    (lambda: linalg.pinv(A, 1e-3, rcond=1e-3), ShapeError, "pinv: rtol and rcond are the same parameter; give one"),
    (
        lambda: linalg.matrix_rank(A, 1e-3, tol=1e-3),
        ShapeError,
        "matrix_rank: rtol and tol are the same parameter; give one",
    ),
    (
        lambda: linalg.lstsq(F, V),
        ShapeError,
        "lstsq: a must be a matrix, and b a vector or matrix of as many rows: a is f32[2,3], b is f32[3]",
    ),
    (lambda: linalg.matrix_power(F, 2), ShapeError, f"matrix_power: {SQUARE}"),
    (lambda: linalg.multi_dot([A]), ShapeError, "multi_dot: needs at least two arrays, got 1"),
    (lambda: linalg.multi_dot([A, V, A]), ShapeError, "multi_dot: array 1 must be a matrix, got f32[3]"),
    (
        lambda: linalg.tensorinv(B, 1),
        ShapeError,
        "tensorinv: the first ind=1 sizes must have the same product as the others, got f32[2,4,3]",
    ),
    (
        lambda: linalg.tensorsolve(B, V),
        ShapeError,
        "tensorsolve: a must have b's sizes first and then sizes of the same product: a is f32[2,4,3], b is f32[3]",
    ),
    (lambda: linalg.norm(B, 1), ShapeError, "norm: axis must be one or two axes, got (0, 1, 2) for f32[2,4,3]"),
    (lambda: linalg.norm(V, "fro"), ShapeError, "norm: ord of vectors must be a number or infinity, got 'fro'"),
    (
        lambda: linalg.norm(A, 3),
        ShapeError,
        "norm: ord of matrices must be 'fro', 'nuc', infinity, 1 or 2, or a negative of these, got 3",
    ),
    (lambda: linalg.matrix_norm(V), ShapeError, "matrix_norm: operand must have at least two axes, got f32[3]"),
    (lambda: linalg.cond(V), ShapeError, "cond: operand must have at least two axes, got f32[3]"),
    (
        lambda: linalg.cross(F[:, :2], F),
        ShapeError,
        "cross: vectors need 3 components along axis -1, got f32[2,2] and f32[2,3]",
    ),
    (lambda: linalg.outer(A, V), ShapeError, "outer: operands must be vectors, got f32[3,3] and f32[3]; use numpy.outer"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "kind", "text"), ERRORS)
def test_errors(f: Callable[[], object], kind: type[EffxError], text: str) -> None:
    """The whole text."""
    with pytest.raises(kind) as raised:
        f()
    assert raised.value.message == text
