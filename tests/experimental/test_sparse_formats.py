"""`BCSR`, the operators of all formats, and Jacobians, against SciPy and dense arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse

import effx
import effx.numpy as enp
from effx.errors import DTypeError, EffxError, ShapeError, TransformError
from effx.experimental import sparse
from effx.experimental.sparse import BCOO, BCSR, COO, CSC, CSR

DENSE = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 0]], "f4")
STACK = np.stack([DENSE, np.roll(DENSE, 1, 1)])
VECTOR = np.arange(1, 5, dtype="f4")


def messy() -> BCSR:
    """DENSE with duplicates, unsorted columns, padding behind the last row and in a column out of bounds."""
    data, columns = np.array([2, 1, 9, 3, 3, 1, 9], "f4"), np.array([3, 1, 7, 2, 0, 2, 1], "i4")
    return BCSR((data, columns, np.array([0, 3, 3, 6], "i4")), shape=(3, 4))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "complex64"])
def test_scipy(dtype: str) -> None:
    """The arrays are those of SciPy's CSR, and its products."""
    want = scipy.sparse.csr_matrix(DENSE.astype("f4" if dtype == "float16" else dtype))
    for m in (BCSR.fromdense(DENSE.astype(dtype)), BCSR.from_scipy_sparse(want)):
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(m, name), getattr(want, name))
        np.testing.assert_array_equal(m @ VECTOR.astype(dtype), want @ VECTOR.astype(want.dtype))
    assert (m.nse, m.shape, m.ndim, m.n_batch, m.n_sparse, m.n_dense) == (4, (3, 4), 2, 0, 2, 0)


@pytest.mark.parametrize(("n_batch", "n_dense"), [(0, 0), (1, 0), (0, 1)])
def test_layouts(n_batch: int, n_dense: int) -> None:
    """Batch and dense axes, from and to coordinates, through jit."""
    x = STACK if n_batch + n_dense else DENSE
    x = np.moveaxis(x, 0, 2) if n_dense else x
    m = sparse.bcsr_fromdense(x, n_batch=n_batch, n_dense=n_dense, nse=8)
    assert (m.shape, m.nse, m.n_batch, m.n_dense) == (x.shape, 8, n_batch, n_dense)

    @effx.jit
    def several(m: BCSR) -> list[Any]:
        back = BCSR.from_bcoo(m.to_bcoo())
        return [
            sparse.bcsr_todense(m), back.todense(), sparse.bcsr_sum_duplicates(m, nse=8).todense(), (-m).todense(),
            sparse.todense(m + m), sparse.bcsr_extract(m.indices, m.indptr, 2 * x),
        ]  # fmt: skip

    dense, back, distinct, negative, double, elements = several(m)
    for got, want in [(dense, x), (back, x), (distinct, x), (negative, -x), (double, 2 * x)]:
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(elements, 2 * np.asarray(m.data))
    if n_batch:
        np.testing.assert_array_equal(effx.vmap(lambda m: m @ VECTOR)(m), x @ VECTOR)


def test_padding_and_duplicates() -> None:
    """Padding stands for nothing, and duplicates are added."""
    m = messy()
    found = effx.jit(
        lambda m: [
            m, m.T, m + m, m * 2, m.sum_duplicates(5), m[1:], m @ VECTOR, m.sum(1), m * m, BCSR.from_bcoo(m.to_bcoo())
        ]
    )(m)  # fmt: skip
    wanted = [
        DENSE, DENSE.T, 2 * DENSE, 2 * DENSE, DENSE, DENSE[1:], DENSE @ VECTOR, DENSE.sum(1), DENSE**2, DENSE
    ]  # fmt: skip
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(sparse.todense(cast("Any", got)), want)
    assert m.sum_duplicates().nse == 4
    zero = BCSR((np.zeros(1, "f4"), np.zeros(1, "i4"), np.array([0, 1], "i4")), shape=(1, 2))
    assert [zero.sum_duplicates(remove_zeros=r).nse for r in (True, False)] == [0, 1]


def test_functions() -> None:
    """Broadcasts, concatenations and contractions."""
    m, batch = BCSR.fromdense(DENSE), BCSR.fromdense(STACK, n_batch=1)
    wide = sparse.bcsr_broadcast_in_dim(m, shape=(2, 3, 4, 5), broadcast_dimensions=(1, 2))
    np.testing.assert_array_equal(wide.todense(), np.broadcast_to(DENSE[None, ..., None], (2, 3, 4, 5)))
    assert (wide.nse, wide.n_batch, wide.n_dense) == (4, 1, 1)
    row = BCSR.fromdense(DENSE[:1])
    repeated = sparse.bcsr_broadcast_in_dim(row, shape=(3, 4), broadcast_dimensions=(0, 1))
    np.testing.assert_array_equal(repeated.todense(), np.broadcast_to(DENSE[:1], (3, 4)))
    for x, y, axis in [(m, DENSE, 0), (batch, STACK, 2)]:
        joined = effx.jit(lambda x, axis=axis: sparse.bcsr_concatenate([x, x], dimension=axis).todense())(x)
        np.testing.assert_array_equal(joined, np.concatenate([y, y], axis))
    numbers = (((1,), (0,)), ((), ()))
    dense = sparse.bcsr_dot_general(m, DENSE.T, dimension_numbers=numbers)
    both = sparse.bcsr_dot_general(m, BCSR.fromdense(DENSE.T), dimension_numbers=numbers)
    assert isinstance(both, BCSR)
    for got in (
        dense,
        both.todense(),
        sparse.bcsr_dot_general(DENSE, cast("BCSR", m.T), dimension_numbers=numbers),
    ):
        np.testing.assert_array_equal(cast("Any", got), DENSE @ DENSE.T)
    batched = sparse.bcsr_dot_general(batch, STACK, dimension_numbers=(((2,), (2,)), ((0,), (0,))))
    np.testing.assert_array_equal(cast("Any", batched), np.einsum("bij,bkj->bik", STACK, STACK))
    for made, want in [
        (sparse.eye(3, 4, 1, sparse_format="bcsr"), np.eye(3, 4, 1)),
        (sparse.empty((2, 3, 4), sparse_format="bcsr", n_batch=1, nse=2), np.zeros((2, 3, 4))),
    ]:
        assert isinstance(made, BCSR)
        np.testing.assert_array_equal(made.todense(), want)


@pytest.mark.parametrize("kind", [BCSR, COO, CSR, CSC])
def test_operators(kind: type[BCSR | COO | CSR | CSC]) -> None:
    """Each gives its own format where the result is a matrix."""
    m, t = kind.fromdense(DENSE), kind.fromdense(DENSE.T)
    other = BCOO.fromdense(DENSE[::-1])
    of_kind: list[tuple[Any, Any]] = [
        (-m, -DENSE), (+m, DENSE), (m + m, 2 * DENSE), (m + other, DENSE + DENSE[::-1]), (m - other, DENSE - DENSE[::-1]),
        (m * 3, 3 * DENSE), (3 * m, 3 * DENSE), (m * VECTOR, DENSE * VECTOR), (m * other, DENSE * DENSE[::-1]),
        (m @ t, DENSE @ DENSE.T), (m[1:, ::2], DENSE[1:, ::2]), (m.sum(0, keepdims=True), DENSE.sum(0, keepdims=True)),
    ]  # fmt: skip
    for got, want in of_kind:
        assert isinstance(got, kind)
        np.testing.assert_array_equal(got.todense(), want)
    others: list[tuple[Any, Any]] = [
        (m.T, DENSE.T), (m + DENSE, 2 * DENSE), (DENSE + m, 2 * DENSE), (1 + DENSE - m, 1 + 0 * DENSE),
        (m @ VECTOR, DENSE @ VECTOR), (VECTOR[:3] @ m, VECTOR[:3] @ DENSE), (m.sum(), DENSE.sum()), (m.sum(1), DENSE.sum(1)),
        (m[2], DENSE[2]), (m[None], DENSE[None]), (other + m, DENSE + DENSE[::-1]), (m[np.array([2, 0])], DENSE[[2, 0]]),
    ]  # fmt: skip
    for got, want in others:
        np.testing.assert_array_equal(sparse.todense(got), want)
    gradient = sparse.grad(lambda m: ((m * 2 + m) @ VECTOR).sum())(m)
    assert isinstance(gradient, kind)
    np.testing.assert_array_equal(gradient.todense(), np.where(DENSE == 0, 0, 3 * VECTOR))


@pytest.mark.parametrize("jacobian", [sparse.jacfwd, sparse.jacrev, sparse.jacobian])
def test_jacobians(jacobian: Callable[..., Any]) -> None:
    """Of sparse and dense arguments, in the structure of the result, with what is stored."""

    def f(m: Any, v: Any) -> Any:
        return {"y": enp.sin(sparse.todense(m @ v)), "z": m.sum()}

    want = effx.jacfwd(f, (0, 1))(DENSE, VECTOR)
    for m in (BCOO.fromdense(DENSE, n_batch=1), CSR.fromdense(DENSE)):
        found = effx.jit(jacobian(f, (0, 1)))(m, VECTOR)
        for name in ("y", "z"):
            by_m, by_v = found[name]
            assert isinstance(by_m, BCOO)
            np.testing.assert_allclose(by_m.todense(), np.where(DENSE == 0, 0, want[name][0]), rtol=1e-6)
            np.testing.assert_allclose(by_v, want[name][1], rtol=1e-6)
    tree, aux = jacobian(lambda d: (d["m"] @ VECTOR, 7), has_aux=True)({"m": BCOO.fromdense(DENSE)})
    assert (tree["m"].shape, int(aux)) == ((3, 3, 4), 7)


WRONG: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: BCSR((np.ones(2, "f4"), np.zeros(2, "i4"), np.zeros(2, "i4")), shape=(3, 4)), ShapeError,
        "BCSR: data, indices and indptr do not fit shape (3, 4), got f32[2], i32[2], i32[2]",
    ),
    (
        lambda: BCSR((np.ones(2, "f4"), np.zeros(2, "f4"), np.zeros(4, "i4")), shape=(3, 4)), DTypeError,
        "BCSR: indices and indptr must be integers, got f32[2], f32[2], i32[4]",
    ),
    (
        lambda: BCSR.fromdense(STACK), ShapeError,
        "BCSR.fromdense: must leave two sparse axes, got n_batch=0, n_dense=0 for f32[2,3,4]",
    ),
    (
        lambda: BCSR.from_bcoo(BCOO.fromdense(VECTOR)), ShapeError,
        "BCSR.from_bcoo: the array must have two sparse axes, got BCOO(float32[4], nse=4)",
    ),
    (
        lambda: BCSR.from_scipy_sparse(DENSE), DTypeError,
        "BCSR.from_scipy_sparse: takes a sparse matrix of SciPy, got ndarray",
    ),
    (
        lambda: BCSR.from_scipy_sparse(scipy.sparse.csr_matrix(DENSE), n_batch=1), ShapeError,
        "BCSR.from_scipy_sparse: a matrix of SciPy has no batch or dense axes, got n_batch=1, n_dense=0",
    ),
    (
        lambda: sparse.bcsr_broadcast_in_dim(messy(), shape=(3, 2, 4), broadcast_dimensions=(0, 2)), ShapeError,
        ("bcsr_broadcast_in_dim: BCSR(float32[3, 4], nse=7) does not fit shape (3, 2, 4) with broadcast_dimensions (0, 2), "
        "or an axis is new between rows and columns"),
    ),
    (
        lambda: sparse.bcsr_dot_general(DENSE, DENSE.T, dimension_numbers=(((1,), (0,)), ((), ()))), DTypeError,
        "bcsr_dot_general: one operand must be a BCSR",
    ),
    (
        lambda: sparse.jacrev(lambda m: m * 2)(BCOO.fromdense(DENSE)), TransformError,
        ("jacrev: the function must return dense arrays, got BCOO(float32[3, 4], nse=4); sparse.todense makes it one"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_wrong_inputs(call: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The whole text of errors."""
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).split("\n")[0] == text
