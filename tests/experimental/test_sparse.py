"""Sparse arrays are what their dense forms are: values, gradients, under jit and vmap, with padding and duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import ConcretizationError, DTypeError, EffxError, NoRuleError, ShapeError
from effx.experimental import sparse
from effx.experimental.sparse import BCOO, COO, CSC, CSR

DENSE = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 0]], "f4")
CUBE = (np.arange(24).reshape(2, 3, 4) % 5 * (np.arange(24).reshape(2, 3, 4) % 3 == 1)).astype("f4")
LAYOUTS = [(0, 0), (1, 1)]


def messy() -> BCOO:
    """DENSE with duplicates, padding of which one axis alone is out of bounds, and no order."""
    at = np.array([[2, 2], [0, 3], [0, 1], [2, 2], [3, 0], [0, 4], [2, 0], [-1, 1]], "i4")
    return BCOO((np.array([1, 2, 1, 3, 9, 9, 3, 9], "f4"), at), shape=(3, 4))


SHAPES: dict[str, tuple[Callable[[BCOO], Any], Callable[[np.ndarray], Any]]] = {
    "transpose": (lambda m: sparse.bcoo_transpose(m, permutation=(0, 1, 2)), lambda x: x),
    "todense": (sparse.bcoo_todense, lambda x: x),
    "sort": (sparse.bcoo_sort_indices, lambda x: x),
    "sum_duplicates": (lambda m: sparse.bcoo_sum_duplicates(m, nse=9), lambda x: x),
    "reduce_sum": (lambda m: sparse.bcoo_reduce_sum(m, axes=(0, 2)), lambda x: x.sum((0, 2))),
    "sum": (lambda m: m.sum(), lambda x: x.sum()),
    "sum_keepdims": (lambda m: m.sum(1, keepdims=True), lambda x: x.sum(1, keepdims=True)),
    "slice": (
        lambda m: sparse.bcoo_slice(m, start_indices=(0, 1, 0), limit_indices=(2, 3, 4), strides=(1, 1, 3)),
        lambda x: x[0:2, 1:3, ::3],
    ),
    "dynamic_slice": (lambda m: sparse.bcoo_dynamic_slice(m, (0, 9, 1), (1, 2, 2)), lambda x: x[:1, 1:, 1:3]),
    "rev": (lambda m: sparse.bcoo_rev(m, (0, 1, 2)), lambda x: x[::-1, ::-1, ::-1]),
    "getitem": (lambda m: m[..., None, -1, ::-2], lambda x: x[..., None, -1, ::-2]),
    "concatenate": (
        lambda m: sparse.bcoo_concatenate([sparse.bcoo_concatenate([m, m], dimension=k) for k in (0, 0)], dimension=1),
        lambda x: np.concatenate([np.concatenate([x, x])] * 2, 1),
    ),
    "concatenate_last": (lambda m: sparse.bcoo_concatenate([m, m], dimension=2), lambda x: np.concatenate([x, x], 2)),
    "broadcast": (
        lambda m: sparse.bcoo_broadcast_in_dim(m, shape=(2, 2, 3, 4), broadcast_dimensions=(1, 2, 3)),
        lambda x: np.broadcast_to(x, (2, 2, 3, 4)),
    ),
    "squeeze": (
        lambda m: sparse.bcoo_squeeze(
            sparse.bcoo_broadcast_in_dim(m, shape=(2, 1, 3, 4), broadcast_dimensions=(0, 2, 3)), dimensions=(1,)
        ),
        lambda x: x,
    ),
    "reshape": (lambda m: m.reshape(2, 1, -1, 4), lambda x: x.reshape(2, 1, 3, 4)),
    "add": (lambda m: m + m[:, ::-1], lambda x: x + x[:, ::-1]),
    "subtract_dense": (lambda m: CUBE + 1 - m, lambda x: CUBE + 1 - x),
    "multiply": (lambda m: m * m[:, ::-1], lambda x: x * x[:, ::-1]),
    "multiply_row": (lambda m: m * np.arange(4.0, dtype="f4"), lambda x: x * np.arange(4, dtype="f4")),
    "divide": (lambda m: -m / 2, lambda x: -x / 2),
    "power": (lambda m: abs(m) ** 2, lambda x: x**2),
    "matmul": (lambda m: m @ np.arange(8, dtype="f4").reshape(4, 2), lambda x: x @ np.arange(8).reshape(4, 2)),
    "matmul_batched": (
        lambda m: m @ np.arange(16, dtype="f4").reshape(2, 4, 2),
        lambda x: x @ np.arange(16).reshape(2, 4, 2),
    ),
    "rmatmul": (lambda m: np.arange(3, dtype="f4") @ m, lambda x: np.arange(3) @ x),
    "dot_general": (
        lambda m: sparse.bcoo_dot_general(CUBE, m, dimension_numbers=(((1,), (1,)), ((0,), (0,)))),
        lambda x: np.einsum("bij,bik->bjk", CUBE, x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_functions(name: str) -> None:
    """Of every layout, and gradients by the elements."""
    function, reference = SHAPES[name]
    for n_batch, n_dense in LAYOUTS:
        mat = BCOO.fromdense(CUBE, n_batch=n_batch, n_dense=n_dense)
        got = effx.jit(lambda m: sparse.todense(function(m)))(mat)
        np.testing.assert_allclose(got, reference(CUBE), rtol=1e-6)
    mat = BCOO.fromdense(CUBE, nse=12)

    @effx.jit
    def objective(m: BCOO) -> Any:
        y = sparse.todense(function(m))
        return (y * enp.cos(enp.arange(y.size)).reshape(y.shape)).sum()

    found = sparse.grad(objective)(mat)
    step = np.cos(np.arange(mat.nse))[:, None] * np.ones(1)
    moved = [objective(mat.with_data(mat.data + s * 0.25 * step[:, 0].astype("f4"))) for s in (1, -1)]
    np.testing.assert_allclose(
        (found.data * step[:, 0]).sum(), (moved[0] - moved[1]) / 0.5, rtol=2e-3, atol=2e-3
    )


def test_duplicates_and_padding() -> None:
    """Padding represents no element, at any index; duplicates are added first where a function is not linear."""
    m = messy()
    other = BCOO.fromdense(DENSE[:, ::-1])

    def several(m: BCOO, other: BCOO) -> list[tuple[Any, Any]]:
        return [
            (m, DENSE), (m.T, DENSE.T), (m.sum(0), DENSE.sum(0)), (m.sum(1), DENSE.sum(1)), (m.sum(), DENSE.sum()),
            (m * m, DENSE**2), (m * other, DENSE * DENSE[:, ::-1]), (m**2, DENSE**2), (m @ m.T, DENSE @ DENSE.T),
            (m @ np.ones(4, "f4"), DENSE.sum(1)), (m.reshape(2, 6), DENSE.reshape(2, 6)), (m[1:], DENSE[1:]),
            (sparse.bcoo_dynamic_slice(m, (1, 2), (2, 2)), DENSE[1:, 2:]), (m + other, DENSE + DENSE[:, ::-1]),
            (m[None], DENSE[None]), (sparse.bcoo_rev(m, (0, 1)), DENSE[::-1, ::-1]), (m / (DENSE + 1), DENSE / (DENSE + 1)),
            (m.update_layout(n_dense=1, on_inefficient=None), DENSE), (m.sum_duplicates(6), DENSE),
            (sparse.bcoo_concatenate([m, m], dimension=0), np.concatenate([DENSE, DENSE])),
            (sparse.bcoo_concatenate([m, m], dimension=1), np.concatenate([DENSE, DENSE], 1)),
            (sparse.bcoo_extract(m, DENSE), DENSE),
        ]  # fmt: skip

    # Compiled together, as that is faster than one by one.
    expected: list[Any] = []

    def compute(m: BCOO, other: BCOO) -> list[Any]:
        pairs = several(m, other)
        expected.extend(want for _, want in pairs)
        return [got for got, _ in pairs]

    for got, want in zip(effx.jit(compute)(m, other), expected, strict=True):
        np.testing.assert_allclose(sparse.todense(got), want, rtol=1e-6)
    assert m.sum_duplicates().nse == 4
    assert sparse.bcoo_sum_duplicates(m).indices.tolist() == [[0, 1], [0, 3], [2, 0], [2, 2]]
    zeros = BCOO((np.zeros(2, "f4"), np.array([[0], [1]])), shape=(3,))
    assert [zeros.sum_duplicates(remove_zeros=r).nse for r in (True, False)] == [0, 2]
    assert [len(x.todense()) for x in messy()] == [4, 4, 4]
    infinite = np.where(DENSE == 0, np.inf, 1).astype("f4")
    assert np.isfinite(sparse.bcoo_multiply_dense(m, infinite)).all()


def test_nothing() -> None:
    """No elements, and no places."""
    for shape in [(0,), (0, 3), (3, 0), (2, 3)]:
        x = np.zeros(shape, "f4")
        m = BCOO.fromdense(x)
        assert m.nse == 0
        for got, want in [
            (m, x),
            (m.T, x.T),
            (m + m, x),
            (m * m, x),
            (m * 2, x),
            (m.sum(0), x.sum(0)),
            (m[:0], x[:0]),
        ]:
            assert sparse.todense(got).tolist() == want.tolist()
        assert (m @ np.ones(shape[-1], "f4")).tolist() == (x @ np.ones(shape[-1])).tolist()


def test_vmap_and_jit() -> None:
    """vmap takes a batch axis away; jit keeps the number of stored elements."""
    m, v = BCOO.fromdense(CUBE, n_batch=1), np.arange(4, dtype="f4")
    np.testing.assert_allclose(effx.vmap(lambda a: a @ v)(m), CUBE @ v)
    found = effx.vmap(lambda a: a.T)(m)
    assert found.shape == (2, 4, 3)
    np.testing.assert_allclose(found.todense(), CUBE.transpose(0, 2, 1))
    made = effx.jit(effx.vmap(lambda x: sparse.bcoo_fromdense(x, nse=5)))(CUBE)
    np.testing.assert_allclose(made.todense(), CUBE)
    assert (made.nse, made.n_batch, repr(made)) == (5, 1, "BCOO(float32[2, 3, 4], nse=5, n_batch=1)")
    np.testing.assert_allclose(effx.jit(lambda a, k: a[k])(m, 1).todense(), CUBE[1])
    hess = effx.hessian(lambda d: (messy().with_data(d).todense() ** 2).sum())(messy().data)
    assert hess[0, 3] == 2


def test_sampled_product() -> None:
    """A product of dense arrays at some coordinates."""
    a, b = np.arange(24, dtype="f4").reshape(2, 3, 4), np.arange(40, dtype="f4").reshape(2, 4, 5)
    numbers: Any = (((2,), (1,)), ((0,), (0,)))
    whole = np.asarray(lax.dot_general(a, b, numbers))
    for n_batch, n_dense in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 3)]:
        m = BCOO.fromdense(np.arange(30).reshape(2, 3, 5) % 4, n_batch=n_batch, n_dense=n_dense)
        got = sparse.bcoo_dot_general_sampled(a, b, m.indices, dimension_numbers=numbers)
        want = sparse.bcoo_extract(m, whole, assume_unique=True)
        known = (m.indices < np.array(m.sparse_shape)).all(-1)
        known = known.reshape(known.shape + (1,) * n_dense)
        np.testing.assert_allclose(enp.where(known, got, 0), want.data)


MATRICES: list[tuple[Any, Any, Any, Any, Any]] = [
    (COO, sparse.coo_fromdense, sparse.coo_todense, sparse.coo_matvec, sparse.coo_matmat),
    (CSR, sparse.csr_fromdense, sparse.csr_todense, sparse.csr_matvec, sparse.csr_matmat),
    (CSC, CSC.fromdense, CSC.todense, None, None),
]


@pytest.mark.parametrize(("kind", "of", "to", "matvec", "matmat"), MATRICES)
def test_matrices(kind: Any, of: Any, to: Any, matvec: Any, matmat: Any) -> None:
    """COO, CSR and CSC against SciPy, with padding, under jit and grad."""
    m = of(DENSE, nse=6)
    v, w = np.arange(4, dtype="f4"), np.arange(8, dtype="f4").reshape(4, 2)
    for got, want in [
        (to(m), DENSE), (m.T.todense(), DENSE.T), (m.T.T.todense(), DENSE), (m @ v, DENSE @ v), (m @ w, DENSE @ w),
        (v[:3] @ m, v[:3] @ DENSE), (effx.jit(lambda m: m @ v)(m), DENSE @ v),
    ]:  # fmt: skip
        np.testing.assert_allclose(got, want)
    if matvec is not None:
        np.testing.assert_allclose(matvec(m, v[:3], transpose=True), v[:3] @ DENSE)
        np.testing.assert_allclose(matmat(m, w), DENSE @ w)
    found = sparse.grad(lambda m: (m @ v).sum())(of(DENSE))
    np.testing.assert_allclose(found.todense(), np.where(DENSE == 0, 0, v))
    (reference,) = [getattr(scipy.sparse, f"{kind.__name__.lower()}_matrix")(DENSE)]
    for name in kind.names:
        np.testing.assert_array_equal(getattr(of(DENSE), name), getattr(reference, name))
    assert repr(m) == f"{kind.__name__}(float32[3, 4], nse=6)"
    assert (m.nse, m.size, m.ndim, len(m), m.dtype) == (6, 12, 2, 3, np.float32)
    assert (
        sparse.empty((2, 3), sparse_format=kind.__name__.lower()).todense().tolist()
        == np.zeros((2, 3)).tolist()
    )
    for n, k in [(3, 1), (2, -1), (3, 5)]:
        eye = sparse.eye(n, 4, k, sparse_format=kind.__name__.lower())
        assert eye.todense().tolist() == np.eye(n, 4, k).tolist()


def test_creation() -> None:
    """Identities, arrays of zeros, random arrays, and SciPy's."""
    assert sparse.eye(3, n_batch=1).todense().tolist() == np.eye(3).tolist()
    assert sparse.eye(3, 4, n_dense=1, k=-1).todense().tolist() == np.eye(3, 4, -1).tolist()
    made = sparse.empty((2, 3, 4), "int32", n_batch=1, n_dense=1, nse=2)
    assert (made.nse, made.dtype, made.todense().tolist()) == (
        2,
        np.dtype("i4"),
        np.zeros((2, 3, 4)).tolist(),
    )
    key = effx.random.key(0)
    forms: list[dict[str, Any]] = [
        {},
        {"n_batch": 1, "n_dense": 1},
        {"nse": 3, "sorted_indices": True},
        {"unique_indices": False},
    ]
    for kwds in forms:
        m: Any = sparse.random_bcoo(key, (3, 4, 2), dtype="float32", **kwds)
        assert m.shape == (3, 4, 2)
        distinct = m.sum_duplicates(m.nse, remove_zeros=False)
        if kwds.get("unique_indices", True):
            np.testing.assert_array_equal(np.sort(distinct.data, None), np.sort(m.data, None))
        np.testing.assert_allclose(distinct.todense(), m.todense(), rtol=1e-6)
    np.testing.assert_array_equal(BCOO.from_scipy_sparse(scipy.sparse.csr_matrix(DENSE)).todense(), DENSE)
    assert messy().astype("int32").dtype == np.int32
    assert messy().block_until_ready().T.shape == (4, 3)


def test_gradients() -> None:
    """Sparse, dense and several arguments, with auxiliary results."""
    m, v = BCOO.fromdense(DENSE), np.arange(4, dtype="f4")

    def f(m: Any, v: Any) -> Any:
        return (sparse.todense(m @ v) ** 2).sum()

    want = effx.grad(f, (0, 1))(DENSE, v)
    (value, (by_m, by_v)) = sparse.value_and_grad(f, (0, 1))(m, v)
    assert value == f(DENSE, v)
    np.testing.assert_allclose(by_m.todense(), np.where(DENSE == 0, 0, want[0]))
    np.testing.assert_allclose(by_v, want[1])
    found, aux = sparse.grad(lambda m: (f(m, v), 7), has_aux=True)(m)
    assert (found.nse, aux) == (4, 7)


WRONG: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: BCOO((np.ones(2, "f4"), np.zeros((3, 1), "i4")), shape=(5,)), ShapeError,
        "BCOO: data f32[2] and indices i32[3,1] do not fit shape (5,)",
    ),
    (
        lambda: BCOO((np.ones(2, "f4"), np.zeros((2, 1), "f4")), shape=(5,)), DTypeError,
        "BCOO: indices must be integers, got f32[2,1]",
    ),
    (
        lambda: BCOO.fromdense(DENSE).update_layout(n_batch=1), sparse.SparseEfficiencyError,
        ("BCOO.update_layout: BCOO(float32[3, 4], nse=4) with n_batch=1 and n_dense=0 stores 24 numbers, more than 12; "
        "on_inefficient=None allows it"),
    ),
    (
        lambda: messy() + 1, ShapeError,
        ("add: a dense operand must have the result's shape, so that no sparse array becomes dense unseen, got i32[]~ "
        "with BCOO(float32[3, 4], nse=8); use todense"),
    ),
    (
        lambda: messy() ** 0, NoRuleError,
        ("integer_pow: the result is not 0 wherever an operand is, got BCOO(float32[3, 4], nse=8); sparse.todense makes "
        "an operand dense"),
    ),
    (
        lambda: 1 / messy(), ShapeError,
        ("divide: a dense operand must have the result's shape, so that no sparse array becomes dense unseen, got i32[]~ "
        "with BCOO(float32[3, 4], nse=8); use todense"),
    ),
    (
        lambda: messy()[[0]], DTypeError,
        "getitem: an index of a sparse array is an int, a slice, None, ... or an array, got [0]",
    ),
    (
        lambda: messy()[5], ShapeError,
        "getitem: index 5 is out of bounds for axis 0 of BCOO(float32[3, 4], nse=8)",
    ),
    (
        lambda: effx.jit(sparse.bcoo_fromdense)(DENSE), ConcretizationError,
        "bcoo_fromdense: nse must be given where the array f32[3,4] is abstract",
    ),
    (
        lambda: BCOO.fromdense(CUBE, n_dense=1).transpose(), ShapeError,
        ("bcoo_transpose: batch, sparse and dense axes must stay such, got permutation (2, 1, 0) of "
        "BCOO(float32[2, 3, 4], nse=5, n_dense=1); bcoo_update_layout changes them"),
    ),
    (
        lambda: sparse.bcoo_concatenate([messy(), messy().T], dimension=0), ShapeError,
        ("bcoo_concatenate: shapes may differ along dimension 0 alone, and numbers of batch and dense axes may not, got "
        "BCOO(float32[3, 4], nse=8), BCOO(float32[4, 3], nse=8)"),
    ),
    (
        lambda: messy() @ np.ones(3, "f4"), ShapeError,
        ("matmul: the last axis of the first and the last but one of the second must agree, got "
        "BCOO(float32[3, 4], nse=8), f32[3]"),
    ),
    (
        lambda: sparse.csr_matvec(CSR.fromdense(DENSE), np.ones(3, "f4")), ShapeError,
        "csr_matvec: needs a vector with a first axis of size 4, got f32[3]",
    ),
    (
        lambda: CSR.fromdense(CUBE), ShapeError, "CSR.fromdense: takes a matrix, got f32[2,3,4]",
    ),
    (
        lambda: sparse.eye(2, sparse_format="dia"), ShapeError,
        "eye: sparse_format must be 'bcoo', 'bcsr', 'coo', 'csr' or 'csc', got 'dia'",
    ),
    (
        lambda: sparse.bcoo_multiply_dense(messy(), np.ones(3, "f4")), ShapeError,
        "bcoo_multiply_dense: f32[3] does not broadcast to the shape of BCOO(float32[3, 4], nse=8)",
    ),
    (
        lambda: sparse.bcoo_multiply_sparse(messy(), messy().T), ShapeError,
        ("bcoo_multiply_sparse: shapes and numbers of batch and dense axes must agree, got "
        "BCOO(float32[3, 4], nse=8) and BCOO(float32[4, 3], nse=8)"),
    ),
    (
        lambda: sparse.bcoo_reshape(messy(), new_sizes=(5,)), ShapeError,
        "bcoo_reshape: new_sizes must have 12 elements as BCOO(float32[3, 4], nse=8), got (5,)",
    ),
    (
        lambda: sparse.bcoo_update_layout(messy(), n_batch=1, on_inefficient="no"), ShapeError,
        "bcoo_update_layout: on_inefficient must be 'error', 'warn' or None, got 'no'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_wrong_inputs(call: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The whole text of errors."""
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).split("\n")[0] == text


def test_warning() -> None:
    """A layout that stores more may be asked for with a warning."""
    with pytest.warns(sparse.SparseEfficiencyWarning, match="stores 24 numbers, more than 12"):
        BCOO.fromdense(DENSE).update_layout(n_batch=1, on_inefficient="warn")
