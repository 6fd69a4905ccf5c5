"""`BCOO`: batched sparse arrays of elements with coordinates, with NumPy's operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Self, cast, overload

import numpy as np

import effx.numpy as enp
from effx import ports
from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.errors import ShapeError, name_user_call
from effx.experimental.sparse.base import JAXSparse, check_scipy_matrix
from effx.experimental.sparse.coordinates import CoordinateArray, M
from effx.experimental.sparse.entries import (
    bcoo_sort_indices,
    bcoo_todense,
    entries_from_dense,
    limit_nse,
    sum_duplicate_entries,
)
from effx.experimental.sparse.layout import (
    bcoo_broadcast_in_dim,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_transpose,
    bcoo_update_layout,
    check_distinct_axes,
)
from effx.experimental.sparse.products import bcoo_dot_general, bcoo_multiply_dense, bcoo_multiply_sparse
from effx.experimental.sparse.slicing import index_sparse
from effx.ir.values.array import Index
from effx.lax.operands import check_int
from effx.tree_util import register_pytree_node_class

__all__ = ["BCOO", "bcoo_fromdense"]


@register_pytree_node_class
class BCOO(CoordinateArray):
    """A sparse array of elements with coordinates.

    Args:
        args: data [*batch, nse, *dense], and indices i32[*batch, nse, n_sparse]. Elements of equal coordinates are
            added; those whose coordinates are out of bounds are padding. Batch axes of size 1 are repeated.
        shape: (*batch, *sparse, *dense).
        indices_sorted: True to promise coordinates in lexicographic order.
        unique_indices: True to promise coordinates that occur once.

    Raises:
        ShapeError: the arrays do not fit the shape.
        DTypeError: indices are no integers.

    >>> import effx.numpy as enp
    >>> x = BCOO.fromdense(enp.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> x
    BCOO(float32[2, 2], nse=2)
    >>> (x @ enp.array([1.0, 10.0])).tolist()
    [10.0, 2.0]
    """

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
        """Returns a dense array's elements that are not 0; see `bcoo_fromdense`."""
        data, indices, shape = entries_from_dense(mat, nse, n_batch, n_dense, index_dtype)
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def from_scipy_sparse(
        cls, mat: object, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
    ) -> Self:
        """Returns SciPy's sparse matrix.

        Raises:
            ShapeError: batch or dense axes are requested.
            DTypeError: `mat` is no sparse matrix of SciPy.
        """
        coo, dtype = check_scipy_matrix(cls.__name__, mat, "coo", index_dtype, (n_batch, n_dense))
        indices = np.stack([coo.row, coo.col], -1).astype(dtype)
        return cls((enp.asarray(coo.data), enp.asarray(indices)), shape=coo.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> Self:
        """Returns the array with its axes permuted, reversed by default; see `bcoo_transpose`."""
        return bcoo_transpose(self, permutation=range(self.ndim)[::-1] if axes is None else axes)

    @property
    def T(self) -> Self:
        """The array with its axes reversed."""
        return self.transpose()

    def todense(self) -> Array:
        """Returns the array with its zeros."""
        return bcoo_todense(self)

    def sort_indices(self) -> Self:
        """Returns the array with its elements in the order of their coordinates."""
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> Self:
        """Returns the array with coordinates that occur once, without stored zeros if they are to be removed;
        see `bcoo_sum_duplicates`.
        """
        return sum_duplicate_entries(self, nse, remove_zeros=remove_zeros)

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
    ) -> Self:
        """Returns the array with other numbers of batch and dense axes; see `bcoo_update_layout`."""
        return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def _coordinates(self) -> Self:
        return self

    def astype(self, dtype: DTypeLike) -> Self:
        """Returns the array with its elements converted."""
        return self.with_data(self.data.astype(dtype))

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Returns the array in another shape, of which one size may be -1; see `bcoo_reshape`."""
        new_shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        sizes = [check_int("shape", n) for n in new_shape]
        if sizes.count(-1) == 1:
            rest = math.prod([n for n in sizes if n != -1])
            sizes[sizes.index(-1)] = self.size // max(rest, 1)
        return bcoo_reshape(self, new_sizes=sizes)

    @overload  # type: ignore[override]  # narrows the type to one of the two
    def sum(self, axis: None = None, *, keepdims: bool = False) -> Array: ...
    @overload
    def sum(self, axis: int | Sequence[int], *, keepdims: bool = False) -> Self: ...
    def sum(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Self | Array:
        """Returns the sum over all axes, an array, or over some, a sparse array."""
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        over = check_distinct_axes(self, axes)
        result = bcoo_reduce_sum(self, axes=over)
        if axis is None:
            total = result.todense()
            return total.reshape((1,) * self.ndim) if keepdims else total
        if keepdims:
            sizes = [1 if k in over else n for k, n in enumerate(self.shape)]
            result = bcoo_broadcast_in_dim(
                result, shape=sizes, broadcast_dimensions=[k for k in range(self.ndim) if k not in over]
            )
        return result

    def __getitem__(self, index: Index) -> Self:
        items = index if isinstance(index, tuple) else (index,)
        if any([isinstance(i, Array | np.ndarray) and (i.ndim or i.dtype.kind == "b") for i in items]):
            return _apply_sparsely(self, lambda x: x[index])
        return index_sparse(self, index)

    def __iter__(self) -> Iterator[Self]:
        return iter([self[k] for k in range(len(self))])

    def __neg__(self) -> Self:
        return self.with_data(-self.data)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return _apply_sparsely(self, enp.abs)

    def __pow__(self, exponent: Operand) -> Self:
        return _apply_sparsely(self, lambda x: x**exponent)

    def __rpow__(self, base: Operand) -> Array:
        return apply_densely("power", self, base, lambda x, y: y**x)

    @overload
    def __add__(self, other: JAXSparse) -> Self: ...
    @overload
    def __add__(self, other: Operand) -> Array: ...
    def __add__(self, other: JAXSparse | Operand) -> Self | Array:
        if isinstance(other, JAXSparse):
            return cast("Self", add_sparse(self, as_bcoo(other)))
        return apply_densely("add", self, other, lambda x, y: x + y)

    def __radd__(self, other: Operand) -> Array:
        return apply_densely("add", self, other, lambda x, y: y + x)

    @overload
    def __sub__(self, other: JAXSparse) -> Self: ...
    @overload
    def __sub__(self, other: Operand) -> Array: ...
    def __sub__(self, other: JAXSparse | Operand) -> Self | Array:
        if isinstance(other, JAXSparse):
            return cast("Self", add_sparse(self, -as_bcoo(other)))
        return apply_densely("subtract", self, other, lambda x, y: x - y)

    def __rsub__(self, other: Operand) -> Array:
        return apply_densely("subtract", self, other, lambda x, y: y - x)

    def __mul__(self, other: JAXSparse | Operand) -> Self:
        if isinstance(other, JAXSparse):
            return cast("Self", bcoo_multiply_sparse(*unify_layouts(self, as_bcoo(other))))
        return _multiply(self, other)

    def __rmul__(self, other: Operand) -> Self:
        return _multiply(self, other)

    def __truediv__(self, other: Operand) -> Self:
        return _apply_sparsely(_broadcast(self, enp.asarray(other)), lambda x: x / other)

    def __rtruediv__(self, other: Operand) -> Array:
        return apply_densely("divide", self, other, lambda x, y: y / x)

    @overload
    def __matmul__(self, other: JAXSparse) -> Self: ...
    @overload
    def __matmul__(self, other: Operand) -> Array: ...
    def __matmul__(self, other: JAXSparse | Operand) -> Self | Array:
        y = as_bcoo(other) if isinstance(other, JAXSparse) else other
        return cast("Self | Array", multiply_matrices(self, y))

    def __rmatmul__(self, other: Operand) -> Array:
        return cast("Array", multiply_matrices(other, self))


def bcoo_fromdense(
    mat: Operand,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: DTypeLike = np.int32,
) -> BCOO:
    """Return a dense array's elements that are not 0, with their coordinates in order.

    Args:
        mat: an array.
        nse: how many elements to store for each batch element; by default as many as are not 0, which must not be
            traced then. What is beyond is dropped, the rest padded.
        n_batch: the number of batch axes, the first ones.
        n_dense: the number of dense axes, the last ones.
        index_dtype: of the coordinates.

    Raises:
        ShapeError: there are not so many axes.
        ConcretizationError: `nse` is not given where the array is abstract.

    >>> import effx.numpy as enp
    >>> bcoo_fromdense(enp.eye(3), nse=4).indices.tolist()
    [[0, 0], [1, 1], [2, 2], [3, 3]]
    """
    data, indices, shape = entries_from_dense(mat, nse, n_batch, n_dense, index_dtype)
    return BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)


def _apply_sparsely(mat: M, function: Callable[[Array], Array]) -> M:
    """Returns what the handler of sparse arrays makes of a function of an array."""
    return cast("M", ports.sparse.transform.on_sparse(function)(mat))


def as_bcoo(x: JAXSparse) -> BCOO:
    """Returns a sparse array of any format as one with coordinates."""
    return cast("BCOO", x._coordinates())


def is_stored(mat: CoordinateArray) -> Array:
    """Says which elements are no padding: bool[*batch, nse]."""
    return (mat.entries()[1] < np.asarray(mat.sparse_shape, mat.indices.dtype)).all(-1)


def unify_layouts(x: M, y: M) -> tuple[M, M]:
    """Returns arrays with one shape and layout."""
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError as error:
        raise ShapeError(f"BCOO: shapes do not broadcast, got {x!r} and {y!r}") from error
    b, d = min(x.n_batch, y.n_batch), min(x.n_dense, y.n_dense)
    if x.ndim != y.ndim:
        b = 0
    results = []
    for m in (x, y):
        m = bcoo_update_layout(m, n_batch=b, n_dense=d, on_inefficient=None)
        if m.shape != shape:
            m = bcoo_broadcast_in_dim(
                m, shape=shape, broadcast_dimensions=range(len(shape) - m.ndim, len(shape))
            )
        results.append(m)
    return results[0], results[1]


def add_sparse(x: M, y: M) -> M:
    """Returns the sum of arrays: the elements of both."""
    a, b = unify_layouts(x, y)
    dtype = enp.result_type(a.dtype, b.dtype)
    (u, at), (v, to) = a.entries(), b.entries()
    both = enp.result_type(at.dtype, to.dtype)
    n = a.n_batch
    return limit_nse(
        a.with_entries(
            enp.concatenate([u.astype(dtype), v.astype(dtype)], n),
            enp.concatenate([at.astype(both), to.astype(both)], n),
            a.sparse_shape,
        )
    )


def apply_densely(
    function_name: str, x: BCOO, other: Operand, function: Callable[[Array, Array], Array]
) -> Array:
    """Returns what a function makes of the array with its zeros and of a dense one.

    Raises:
        ShapeError: the dense one has not the shape of the result.
    """
    y = enp.asarray(other)
    try:
        fits = np.broadcast_shapes(x.shape, y.shape) == y.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{function_name}: a dense operand must have the result's shape, so that no sparse array becomes dense "
            "unseen, got "
            f"{y.type!r} with {x!r}; use todense"
        )
    return function(x.todense(), y)


def _multiply(x: M, other: Operand) -> M:
    y = enp.asarray(other)
    x = _broadcast(x, y)
    return x.with_data(bcoo_multiply_dense(x, y))


def _broadcast(x: M, y: Array) -> M:
    """Returns the array with the shape of its broadcast with a dense one."""
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError as error:
        raise ShapeError(f"{name_user_call()}: shapes do not broadcast, got {x!r} and {y.type!r}") from error
    if shape == x.shape:
        return x
    return bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=range(len(shape) - x.ndim, len(shape)))


@overload
def multiply_matrices(x: M, y: M) -> M: ...
@overload
def multiply_matrices(
    x: CoordinateArray | Operand, y: CoordinateArray | Operand
) -> CoordinateArray | Array: ...
def multiply_matrices(x: CoordinateArray | Operand, y: CoordinateArray | Operand) -> CoordinateArray | Array:
    """Returns the matrix product, with NumPy's rules for batches and vectors.

    Raises:
        ShapeError: an operand has no axes, or they do not fit.
    """
    a = x if isinstance(x, CoordinateArray) else enp.asarray(x)
    b = y if isinstance(y, CoordinateArray) else enp.asarray(y)
    shown = ", ".join([repr(m) if isinstance(m, CoordinateArray) else repr(m.type) for m in (a, b)])
    inner = max(b.ndim - 2, 0)
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[inner]:
        raise ShapeError(
            f"matmul: the last axis of the first and the last but one of the second must agree, got {shown}"
        )
    n = max(min(a.ndim, b.ndim) - 2, 0)
    if (
        a.shape[max(a.ndim - 2 - n, 0) : max(a.ndim - 2, 0)][:n]
        != b.shape[max(b.ndim - 2 - n, 0) : max(b.ndim - 2, 0)][:n]
    ):
        raise ShapeError(f"matmul: batch axes must agree, got {shown}")
    of_a = tuple(range(a.ndim - 2 - n, a.ndim - 2)) if n else ()
    of_b = tuple(range(b.ndim - 2 - n, b.ndim - 2)) if n else ()
    result = bcoo_dot_general(a, b, dimension_numbers=(((a.ndim - 1,), (inner,)), (of_a, of_b)))  # type: ignore[type-var]  # any mixture
    # Axes are now: common batch axes, the first's other axes, its rows, the second's other axes, its columns.
    extra_a, extra_b = max(a.ndim - 2 - n, 0), max(b.ndim - 2 - n, 0)
    rows, columns = int(a.ndim > 1), int(b.ndim > 1)
    first = list(range(n, n + extra_a))
    second = list(range(n + extra_a + rows, n + extra_a + rows + extra_b))
    row = list(range(n + extra_a, n + extra_a + rows))
    order = [*first, *second, *range(n), *row, *range(result.ndim - columns, result.ndim)]
    if order == list(range(result.ndim)):
        return result
    if isinstance(result, CoordinateArray):
        return bcoo_transpose(bcoo_update_layout(result, n_batch=0, on_inefficient=None), permutation=order)
    return result.transpose(order)
