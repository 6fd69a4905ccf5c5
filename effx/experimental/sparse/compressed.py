"""Matrices stored by rows or columns, named as in JAX: `COO`, `CSR`, `CSC`; each is a `BCOO` for its products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

import numpy as np

import effx.numpy as enp
from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.experimental.sparse.base import JAXSparse
from effx.experimental.sparse.bcoo import BCOO
from effx.experimental.sparse.entries import entries_from_dense
from effx.tree_util import register_pytree_node_class

__all__ = [
    "COO", "CSC", "CSR", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat",
    "csr_matvec", "csr_todense",
]  # fmt: skip


def row_numbers(indptr: Array, nse: int) -> Array:
    """Returns the row of each stored element, i32[*batch, nse], from where the rows start, i32[*batch, n + 1].

    Elements behind the last row have the number of rows.
    """
    flat = indptr.reshape((-1, indptr.shape[-1]))
    rows = enp.broadcast_to(enp.arange(flat.shape[0])[:, None], (flat.shape[0], flat.shape[1] - 1))
    ends = enp.zeros((flat.shape[0], nse), indptr.dtype).at[rows, flat[:, 1:]].add(1, mode="drop")
    return enp.cumsum(ends, 1).reshape((*indptr.shape[:-1], nse)).astype(indptr.dtype)


def row_starts(rows: Array, n: int) -> Array:
    """Returns where each of `n` rows starts and the last one ends, i32[*batch, n + 1], from sorted rows."""
    flat = (
        rows.reshape((-1, rows.shape[-1]))
        if rows.size
        else rows.reshape((int(np.prod(rows.shape[:-1])), rows.shape[-1]))
    )
    batch = enp.broadcast_to(enp.arange(flat.shape[0])[:, None], flat.shape)
    counts = enp.zeros((flat.shape[0], n + 1), rows.dtype)
    counts = counts.at[batch, flat + 1].add(1, mode="drop") if flat.size else counts
    return enp.cumsum(counts, 1).astype(rows.dtype).reshape((*rows.shape[:-1], n + 1))


class CompressedMatrix(JAXSparse):
    """A sparse matrix of three arrays. Its operators are those of a `BCOO`, and give this format where it fits."""

    _shape: tuple[int, ...]
    names: tuple[str, str, str]

    def __init__(self, args: tuple[Operand, Operand, Operand], *, shape: Sequence[int]) -> None:
        name, self._shape = type(self).__name__, tuple(map(int, shape))
        arrays = [enp.asarray(x) for x in args]
        shown = ", ".join([repr(x.type) for x in arrays])
        if any([x.dtype.kind not in "iu" for x in arrays[1:]]):
            raise DTypeError(f"{name}: {self.names[1]} and {self.names[2]} must be integers, got {shown}")
        if len(self._shape) != 2 or [x.shape for x in arrays] != self._shapes(arrays[0].size):
            raise ShapeError(
                f"{name}: {', '.join(self.names)} do not fit a matrix of shape {self._shape}, got {shown}"
            )
        self._set(arrays)

    def _shapes(self, nse: int) -> list[tuple[int, ...]]:
        """Returns the shapes that the arrays must have."""
        return [(nse,)] * 3

    def _set(self, arrays: Sequence[Array]) -> None:
        for name, x in zip(self.names, arrays, strict=True):
            setattr(self, name, x)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the matrix that is stood for."""
        return self._shape

    @property
    def nse(self) -> int:
        """The number of stored elements."""
        return int(self.data.shape[0])

    def tree_flatten(self) -> tuple[tuple[Array, ...], tuple[int, ...]]:
        """Returns the three arrays, and the shape."""
        return tuple([getattr(self, name) for name in self.names]), self._shape

    @classmethod
    def tree_unflatten(cls, aux_data: object, children: Sequence[Array]) -> Self:
        """Returns what `tree_flatten` took apart; the children need not be arrays."""
        new = object.__new__(cls)
        new._shape = cast("tuple[int, ...]", aux_data)
        new._set(children)
        return new

    def todense(self) -> Array:
        """Returns the matrix with its zeros."""
        return self._coordinates().todense()

    @classmethod
    def _stored(cls, m: BCOO) -> Self:
        """Returns a matrix of elements with coordinates in this format."""
        raise TypeError(cls.__name__)  # pragma: no cover  # subclasses say it

    def _of(self, result: JAXSparse | Array) -> JAXSparse | Array:
        is_matrix = isinstance(result, BCOO) and result.n_sparse == result.ndim == 2
        return self._stored(cast("BCOO", result)) if is_matrix else result

    def _axes(self, axes: Sequence[int] | None) -> bool:
        """Says whether a transposition changes anything."""
        axis_tuple = (1, 0) if axes is None else tuple(axes)
        if sorted(axis_tuple) != [0, 1]:
            raise ShapeError(f"transpose: axes must order the two of {self!r}, got {axis_tuple}")
        return axis_tuple == (1, 0)


@register_pytree_node_class
class COO(CompressedMatrix):
    """A sparse matrix of elements with rows and columns.

    Args:
        args: data [nse], rows i32[nse] and columns i32[nse]; those out of bounds are padding.
        shape: of the matrix.
        rows_sorted: True to promise sorted rows.
        cols_sorted: True to promise sorted columns.

    Raises:
        ShapeError: the arrays do not fit.
        DTypeError: rows or columns are no integers.

    >>> import effx.numpy as enp
    >>> COO.fromdense(enp.eye(2)) @ enp.array([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """

    names = ("data", "row", "col")
    row: Array
    col: Array
    _sorted: tuple[bool, bool]

    def __init__(
        self, args: tuple[Operand, Operand, Operand], *, shape: Sequence[int], rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(args, shape=shape)
        self._sorted = bool(rows_sorted), bool(cols_sorted)

    @classmethod
    def fromdense(cls, mat: Operand, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> Self:
        """Returns a matrix's elements that are not 0; see `coo_fromdense`."""
        data, at = _matrix(mat, nse, index_dtype)
        return cls((data, at[:, 0], at[:, 1]), shape=enp.shape(mat), rows_sorted=True)

    def tree_flatten(self) -> tuple[tuple[Array, ...], tuple[object, ...]]:  # type: ignore[override]  # what is promised, too
        """Returns the three arrays, and what is static."""
        return (self.data, self.row, self.col), (self._shape, self._sorted)

    @classmethod
    def tree_unflatten(cls, aux_data: object, children: Sequence[Array]) -> Self:
        """Returns what `tree_flatten` took apart; the children need not be arrays."""
        shape, ordered = cast("tuple[tuple[int, ...], tuple[bool, bool]]", aux_data)
        new = super().tree_unflatten(shape, children)
        new._sorted = ordered
        return new

    def _coordinates(self) -> BCOO:
        return BCOO((self.data, enp.stack([self.row, self.col], -1)), shape=self.shape)

    @classmethod
    def _stored(cls, m: BCOO) -> Self:
        return cls((m.data, m.indices[:, 0], m.indices[:, 1]), shape=m.shape, rows_sorted=m.indices_sorted)

    def transpose(self, axes: Sequence[int] | None = None) -> Self:
        """Returns the matrix with rows and columns exchanged."""
        if not self._axes(axes):
            return self
        rows, columns = self._sorted
        return type(self)(
            (self.data, self.col, self.row), shape=self.shape[::-1], rows_sorted=columns, cols_sorted=rows
        )


@register_pytree_node_class
class CSR(CompressedMatrix):
    """A sparse matrix stored row by row.

    Args:
        args: data [nse], columns i32[nse], and where rows start and the last one ends, i32[rows + 1]. Elements behind
            the last row are padding.
        shape: of the matrix.

    Raises:
        ShapeError: the arrays do not fit.
        DTypeError: columns or starts are no integers.

    >>> import effx.numpy as enp
    >>> CSR.fromdense(enp.eye(2)).indptr.tolist()
    [0, 1, 2]
    """

    names = ("data", "indices", "indptr")
    indices: Array
    indptr: Array

    def _shapes(self, nse: int) -> list[tuple[int, ...]]:
        return [(nse,), (nse,), (self._shape[0] + 1,)]

    @classmethod
    def fromdense(cls, mat: Operand, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> Self:
        """Returns a matrix's elements that are not 0; see `csr_fromdense`."""
        data, at = _matrix(mat, nse, index_dtype)
        shape = enp.shape(mat)
        return cls((data, at[:, 1], row_starts(at[:, 0], shape[0])), shape=shape)

    def _coordinates(self) -> BCOO:
        at = enp.stack([row_numbers(self.indptr, self.nse), self.indices.astype(self.indptr.dtype)], -1)
        return BCOO((self.data, at), shape=self.shape)

    @classmethod
    def _stored(cls, m: BCOO) -> Self:
        data, at = m.sort_indices().entries()
        return cls((data, at[:, 1], row_starts(at[:, 0], m.shape[0])), shape=m.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> Self | CSC:
        """Returns the transposed matrix, stored column by column."""
        return CSC(self.tree_flatten()[0], shape=self.shape[::-1]) if self._axes(axes) else self  # type: ignore[arg-type]  # three arrays


@register_pytree_node_class
class CSC(CompressedMatrix):
    """A sparse matrix stored column by column.

    Args:
        args: data [nse], rows i32[nse], and where columns start and the last one ends, i32[columns + 1]. Elements behind
            the last column are padding.
        shape: of the matrix.

    Raises:
        ShapeError: the arrays do not fit.
        DTypeError: rows or starts are no integers.

    >>> import effx.numpy as enp
    >>> CSC.fromdense(enp.array([[1, 2], [0, 3]])).data.tolist()
    [1, 2, 3]
    """

    names = ("data", "indices", "indptr")
    indices: Array
    indptr: Array

    def _shapes(self, nse: int) -> list[tuple[int, ...]]:
        return [(nse,), (nse,), (self._shape[1] + 1,)]

    @classmethod
    def fromdense(cls, mat: Operand, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> Self:
        """Returns a matrix's elements that are not 0."""
        x = enp.asarray(mat)
        data, at = _matrix(x.T, nse, index_dtype)
        return cls((data, at[:, 1], row_starts(at[:, 0], x.shape[1])), shape=x.shape)

    def _coordinates(self) -> BCOO:
        at = enp.stack([self.indices.astype(self.indptr.dtype), row_numbers(self.indptr, self.nse)], -1)
        return BCOO((self.data, at), shape=self.shape)

    @classmethod
    def _stored(cls, m: BCOO) -> Self:
        data, at = m.T.sort_indices().entries()
        return cls((data, at[:, 1], row_starts(at[:, 0], m.shape[1])), shape=m.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> Self | CSR:
        """Returns the transposed matrix, stored row by row."""
        return CSR(self.tree_flatten()[0], shape=self.shape[::-1]) if self._axes(axes) else self  # type: ignore[arg-type]  # three arrays


def _matrix(mat: Operand, nse: int | None, index_dtype: DTypeLike) -> tuple[Array, Array]:
    x = enp.asarray(mat)
    if x.ndim != 2:
        raise ShapeError(f"{name_user_call()}: takes a matrix, got {x.type!r}")
    return entries_from_dense(x, nse, 0, 0, index_dtype)[:2]


def coo_fromdense(mat: Operand, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> COO:
    """Return a matrix's elements that are not 0, with their rows and columns.

    Args:
        mat: a matrix.
        nse: how many elements to store; by default as many as are not 0, which must not be traced then.
        index_dtype: of rows and columns.

    Raises:
        ShapeError: it is no matrix.

    >>> import effx.numpy as enp
    >>> coo_fromdense(enp.eye(2))
    COO(float32[2, 2], nse=2)
    """
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


def coo_todense(mat: COO) -> Array:
    """Return the matrix with its zeros.

    >>> import effx.numpy as enp
    >>> coo_todense(COO.fromdense(enp.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return mat.todense()


def _multiply(mat: CompressedMatrix, x: Operand, ndim: int, transpose: bool) -> Array:
    y = enp.asarray(x)
    m = mat._coordinates()
    m = m.T if transpose else m
    if y.ndim != ndim or y.shape[0] != m.shape[1]:
        kind = "vector" if ndim == 1 else "matrix"
        raise ShapeError(
            f"{name_user_call()}: needs a {kind} with a first axis of size {m.shape[1]}, got {y.type!r}"
        )
    return cast("Array", m @ y)


def coo_matvec(mat: COO, v: Operand, transpose: bool = False) -> Array:
    """Return the product of a matrix, or of its transpose, with a vector.

    Raises:
        ShapeError: it is no vector of the right size.

    >>> import effx.numpy as enp
    >>> coo_matvec(COO.fromdense(enp.array([[0, 2]])), enp.array([5, 7])).tolist()
    [14]
    """
    return _multiply(mat, v, 1, transpose)


def coo_matmat(mat: COO, B: Operand, *, transpose: bool = False) -> Array:
    """Return the product of a matrix, or of its transpose, with a dense matrix.

    Raises:
        ShapeError: it is no matrix of the right size.

    >>> import effx.numpy as enp
    >>> coo_matmat(COO.fromdense(enp.array([[0, 2]])), enp.eye(2)).tolist()
    [[0.0, 2.0]]
    """
    return _multiply(mat, B, 2, transpose)


def csr_fromdense(mat: Operand, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> CSR:
    """Return a matrix's elements that are not 0, row by row.

    Args:
        mat: a matrix.
        nse: how many elements to store; by default as many as are not 0, which must not be traced then.
        index_dtype: of columns and starts.

    Raises:
        ShapeError: it is no matrix.

    >>> import effx.numpy as enp
    >>> csr_fromdense(enp.eye(2))
    CSR(float32[2, 2], nse=2)
    """
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


def csr_todense(mat: CSR) -> Array:
    """Return the matrix with its zeros.

    >>> import effx.numpy as enp
    >>> csr_todense(CSR.fromdense(enp.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return mat.todense()


def csr_matvec(mat: CSR, v: Operand, transpose: bool = False) -> Array:
    """Return the product of a matrix, or of its transpose, with a vector.

    Raises:
        ShapeError: it is no vector of the right size.

    >>> import effx.numpy as enp
    >>> csr_matvec(CSR.fromdense(enp.array([[0, 2]])), enp.array([5, 7])).tolist()
    [14]
    """
    return _multiply(mat, v, 1, transpose)


def csr_matmat(mat: CSR, B: Operand, *, transpose: bool = False) -> Array:
    """Return the product of a matrix, or of its transpose, with a dense matrix.

    Raises:
        ShapeError: it is no matrix of the right size.

    >>> import effx.numpy as enp
    >>> csr_matmat(CSR.fromdense(enp.array([[0, 2]])), enp.eye(2)).tolist()
    [[0.0, 2.0]]
    """
    return _multiply(mat, B, 2, transpose)
