"""`BCSR`: batched sparse matrices stored row by row, with NumPy's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

import numpy as np

import effx.numpy as enp
from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError
from effx.experimental.sparse.base import JAXSparse, check_scipy_matrix
from effx.experimental.sparse.bcoo import BCOO
from effx.experimental.sparse.compressed import row_numbers, row_starts
from effx.experimental.sparse.entries import bcoo_extract
from effx.experimental.sparse.layout import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_update_layout,
    parse_broadcast,
)
from effx.experimental.sparse.products import DimensionNumbers, bcoo_dot_general, with_user_sharding
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.lax.products import PrecisionLike
from effx.lax.shape import broadcast_in_dim
from effx.transforms.placement.out_sharding import OutSharding
from effx.tree_util import register_pytree_node_class

__all__ = [
    "BCSR", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense",
    "bcsr_sum_duplicates", "bcsr_todense",
]  # fmt: skip

Shape = tuple[int, ...]


@register_pytree_node_class
class BCSR(JAXSparse):
    """Sparse matrices stored row by row, with batch axes before them and dense axes behind them.

    Args:
        args: data [*batch, nse, *dense], columns i32[*batch, nse], and where rows start and the last one ends,
            i32[*batch, rows + 1]. Elements of equal coordinates are added; those behind the last row, or in columns out
            of bounds, are padding.
        shape: (*batch, rows, columns, *dense).
        indices_sorted: True to promise sorted columns in each row.
        unique_indices: True to promise coordinates that occur once.

    Raises:
        ShapeError: the arrays do not fit the shape.
        DTypeError: columns or starts are no integers.

    >>> import effx.numpy as enp
    >>> x = BCSR.fromdense(enp.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> x
    BCSR(float32[2, 2], nse=2)
    >>> (x @ enp.array([1.0, 10.0])).tolist()
    [10.0, 2.0]
    """

    data: Array
    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool
    _columns: int

    def __init__(
        self,
        args: tuple[Operand, Operand, Operand],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        data, indices, indptr = [enp.asarray(x) for x in args]
        sizes = tuple(map(int, shape))
        shown = f"{data.type!r}, {indices.type!r}, {indptr.type!r}"
        if any([x.dtype.kind not in "iu" for x in (indices, indptr)]):
            raise DTypeError(f"BCSR: indices and indptr must be integers, got {shown}")
        b = indices.ndim - 1
        batch = sizes[: max(b, 0)]
        fits = (
            b >= 0
            and len(sizes) >= b + 2
            and data.shape[b : b + 1] == indices.shape[b:]
            and data.shape[b + 1 :] == sizes[b + 2 :]
            and indptr.shape[b:] == (sizes[b] + 1,)
            and all([x.shape[:b] == batch for x in (data, indices, indptr)])
        )
        if not fits:
            raise ShapeError(f"BCSR: data, indices and indptr do not fit shape {sizes}, got {shown}")
        self.data, self.indices, self.indptr, self._columns = data, indices, indptr, sizes[b + 1]
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)

    @classmethod
    def fromdense(
        cls,
        mat: Operand,
        *,
        nse: int | None = None,
        index_dtype: DTypeLike = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> Self:
        """Returns a dense array's elements that are not 0; see `bcsr_fromdense`."""
        x = enp.asarray(mat)
        if x.ndim - n_batch - n_dense != 2:
            raise ShapeError(
                f"BCSR.fromdense: must leave two sparse axes, got n_batch={n_batch}, n_dense={n_dense} for {x.type!r}"
            )
        return cls.from_bcoo(
            BCOO.fromdense(x, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: object, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
    ) -> Self:
        """Returns SciPy's sparse matrix.

        Raises:
            ShapeError: batch or dense axes are requested.
            DTypeError: `mat` is no sparse matrix of SciPy.
        """
        csr, dtype = check_scipy_matrix(cls.__name__, mat, "csr", index_dtype, (n_batch, n_dense))
        return cls((csr.data, csr.indices.astype(dtype), csr.indptr.astype(dtype)), shape=csr.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> Self:
        """Returns an array with two sparse axes row by row, its elements in the order of their coordinates.

        Raises:
            ShapeError: it has another number of sparse axes.
        """
        if arr.n_sparse != 2:
            raise ShapeError(f"BCSR.from_bcoo: the array must have two sparse axes, got {arr!r}")
        m = arr if arr.indices_sorted else arr.sort_indices()
        data, at = m.entries()
        indptr = row_starts(at[..., 0], m.sparse_shape[0])
        return cls(
            (data, at[..., 1], indptr),
            shape=arr.shape,
            indices_sorted=True,
            unique_indices=arr.unique_indices,
        )

    def to_bcoo(self) -> BCOO:
        """Returns the array with the coordinates of both axes."""
        at = enp.stack([row_numbers(self.indptr, self.nse), self.indices.astype(self.indptr.dtype)], -1)
        return BCOO(
            (self.data, at),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes: 2."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - self.indices.ndim

    @property
    def nse(self) -> int:
        """The number of stored elements of each batch element."""
        return int(self.indices.shape[-1])

    @property
    def shape(self) -> Shape:
        """Of the array that is stood for."""
        b = self.n_batch
        rows = self.indptr.shape[-1] - 1
        return (*self.indices.shape[:b], rows, self._columns, *self.data.shape[b + 1 :])

    def tree_flatten(self) -> tuple[tuple[Array, ...], tuple[int, bool, bool]]:
        """Returns the three arrays, and what is static."""
        return (self.data, self.indices, self.indptr), (
            self._columns, self.indices_sorted, self.unique_indices
        )  # fmt: skip

    @classmethod
    def tree_unflatten(cls, aux_data: object, children: Sequence[Array]) -> Self:
        """Returns what `tree_flatten` took apart; the children need not be arrays."""
        new = object.__new__(cls)
        new.data, new.indices, new.indptr = children
        static = cast("tuple[int, bool, bool]", aux_data)
        new._columns, new.indices_sorted, new.unique_indices = static
        return new

    def _coordinates(self) -> BCOO:
        return self.to_bcoo()

    def _of(self, result: JAXSparse | Array) -> JAXSparse | Array:
        return self.from_bcoo(result) if isinstance(result, BCOO) and result.n_sparse == 2 else result

    def todense(self) -> Array:
        """Returns the array with its zeros."""
        return self.to_bcoo().todense()

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> Self:
        """Returns the array with coordinates that occur once, without stored zeros if they are to be removed;
        see `bcsr_sum_duplicates`.
        """
        return self.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def transpose(self, axes: Sequence[int] | None = None) -> Self:
        """Returns the array with its axes permuted, reversed by default; batch and dense axes stay such."""
        return self.from_bcoo(self.to_bcoo().transpose(axes))


def bcsr_fromdense(
    mat: Operand,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: DTypeLike = np.int32,
) -> BCSR:
    """Return a dense array's elements that are not 0, row by row.

    Args:
        mat: an array.
        nse: how many elements to store for each batch element; by default as many as are not 0, which must not be
            traced then. What is beyond is dropped, the rest padded.
        n_batch: the number of batch axes, the first ones.
        n_dense: the number of dense axes, the last ones; two axes must remain.
        index_dtype: of columns and starts.

    Raises:
        ShapeError: there are not two axes left.
        ConcretizationError: `nse` is not given where the array is abstract.

    >>> import effx.numpy as enp
    >>> x = bcsr_fromdense(enp.eye(3), nse=4)
    >>> x.indices.tolist(), x.indptr.tolist()
    ([0, 1, 2, 3], [0, 1, 2, 3])
    """
    return BCSR.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcsr_todense(mat: BCSR) -> Array:
    """Return the array with its zeros; elements with equal coordinates are added.

    >>> import effx.numpy as enp
    >>> bcsr_todense(BCSR.fromdense(enp.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return mat.todense()


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Return the array with sorted coordinates that occur once; elements with equal ones are added.

    Args:
        mat: a sparse array.
        nse: how many elements to store; by default as many as there are coordinates, which must not be traced then.
            What is beyond is dropped, the rest padded.

    Raises:
        ConcretizationError: `nse` is not given where the coordinates are abstract.

    >>> import effx.numpy as enp
    >>> bcsr_sum_duplicates(BCSR((enp.array([1, 2]), enp.array([1, 1]), enp.array([0, 2])), shape=(1, 2))).data.tolist()
    [3]
    """
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcsr_extract(indices: Operand, indptr: Operand, mat: Operand) -> Array:
    """Return the elements of a dense array at the coordinates of a sparse one.

    Args:
        indices: columns i32[*batch, nse].
        indptr: where rows start and the last one ends, i32[*batch, rows + 1].
        mat: an array [*batch, rows, columns, *dense].

    Returns:
        `data` [*batch, nse, *dense] of a `BCSR` with these coordinates; 0 for padding.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import effx.numpy as enp
    >>> bcsr_extract(enp.array([1, 0]), enp.array([0, 1, 2]), enp.array([[1, 2], [3, 4]])).tolist()
    [2, 3]
    """
    x, at = enp.asarray(mat), enp.asarray(indices)
    data = enp.zeros((*at.shape, *x.shape[at.ndim + 1 :]), x.dtype)
    return bcoo_extract(BCSR((data, at, indptr), shape=x.shape).to_bcoo(), x, assume_unique=True).data


def bcsr_broadcast_in_dim(mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> BCSR:
    """Return the array repeated along new axes and axes of size 1; new axes are batch axes or dense ones.

    Args:
        mat: a sparse array.
        shape: of the result.
        broadcast_dimensions: for each axis of `mat`, its axis of the result, in ascending order.

    Raises:
        ShapeError: the shapes do not fit, or an axis is new between rows and columns.

    >>> import effx.numpy as enp
    >>> bcsr_broadcast_in_dim(BCSR.fromdense(enp.eye(2)), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float32[3, 2, 2], nse=2, n_batch=1)
    """
    sizes, axes, fits = parse_broadcast(mat.shape, shape, broadcast_dimensions)
    b = mat.n_batch
    if not fits or axes[b] + 1 != axes[b + 1]:
        raise ShapeError(
            f"bcsr_broadcast_in_dim: {mat!r} does not fit shape {sizes} with broadcast_dimensions {tuple(axes)}, or an "
            "axis is new between rows and columns"
        )
    first = axes[b]
    if sizes[first : first + 2] != mat.shape[b : b + 2]:  # elements are repeated along rows or columns
        wide = tuple([sizes[k] if j in (b, b + 1) else mat.shape[j] for j, k in enumerate(axes)])
        m = bcoo_broadcast_in_dim(mat.to_bcoo(), shape=wide, broadcast_dimensions=range(mat.ndim))
        mat = BCSR.from_bcoo(bcoo_update_layout(m, n_batch=b, n_dense=mat.n_dense, on_inefficient=None))
    batch, dense = sizes[:first], sizes[first + 2 :]
    along = (*axes[:b], first)
    data = broadcast_in_dim(mat.data, (*batch, mat.nse, *dense), (*along, *[k - 1 for k in axes[b + 2 :]]))
    indices = broadcast_in_dim(mat.indices, (*batch, mat.nse), along)
    indptr = broadcast_in_dim(mat.indptr, (*batch, mat.indptr.shape[-1]), along)
    return BCSR(
        (data, indices, indptr),
        shape=sizes,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Return arrays joined along an axis.

    Raises:
        ShapeError: there is none, or the shapes or numbers of batch and dense axes differ.

    >>> import effx.numpy as enp
    >>> bcsr_concatenate([BCSR.fromdense(enp.eye(2))] * 2, dimension=0)
    BCSR(float32[4, 2], nse=4)
    """
    return BCSR.from_bcoo(bcoo_concatenate([m.to_bcoo() for m in operands], dimension=dimension))


def bcsr_dot_general(
    lhs: BCSR | Operand,
    rhs: BCSR | Operand,
    *,
    dimension_numbers: DimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array | BCSR | BCOO:
    """Contract axes of two arrays, one or both of them sparse, as `lax.dot_general`.

    Args:
        lhs: an array; a sparse one may contract and batch any of its axes.
        rhs: an array.
        dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
        precision: of the products of dense axes.
        preferred_element_type: the result's dtype; by default that of the operands.
        out_sharding: the sharding of a dense result; by default inferred from the operands'.

    Returns:
        An array whose axes are the batch axes, then the others of lhs, then those of rhs; that of two sparse arrays is
        sparse, a `BCSR` where it has two sparse axes.

    Raises:
        ShapeError: axes do not fit, or the product of two sparse arrays has dense axes.
        DTypeError: neither operand is sparse.
        ShardingError: `out_sharding` is given for the product of two sparse arrays.

    >>> import effx.numpy as enp
    >>> x = BCSR.fromdense(enp.array([[1, 0], [2, 3]]))
    >>> bcsr_dot_general(x, enp.array([1, 10]), dimension_numbers=(((1,), (0,)), ((), ()))).tolist()
    [1, 32]
    """
    if out_sharding is not None:
        with allow_unresolved(True):
            product = bcsr_dot_general(
                lhs, rhs, dimension_numbers=dimension_numbers, precision=precision,
                preferred_element_type=preferred_element_type,
            )  # fmt: skip
        return with_user_sharding(product, out_sharding)
    if not isinstance(lhs, BCSR) and not isinstance(rhs, BCSR):
        raise DTypeError("bcsr_dot_general: one operand must be a BCSR")
    x, y = [m.to_bcoo() if isinstance(m, BCSR) else m for m in (lhs, rhs)]
    result: BCOO | Array = bcoo_dot_general(
        cast("BCOO", x), cast("Array", y), dimension_numbers=dimension_numbers, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip
    if isinstance(result, BCOO):
        return BCSR.from_bcoo(result) if result.n_sparse == 2 else result
    return result
