"""Conversions between elements with coordinates and dense arrays, and the order and uniqueness of coordinates."""

from __future__ import annotations

import math

import numpy as np

import effx.numpy as enp
from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.errors import ConcretizationError, ShapeError, name_user_call
from effx.experimental.sparse.coordinates import M, Shape, append_unit_axes, batch_and_coordinates
from effx.lax.operands import check_int
from effx.transforms.jit.jit import jit

__all__ = ["bcoo_extract", "bcoo_sort_indices", "bcoo_sum_duplicates", "bcoo_todense"]


def bcoo_todense(mat: M) -> Array:
    """Return the array with its zeros; elements with equal coordinates are added.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_todense(BCOO((enp.array([1.0, 2.0]), enp.array([[2], [2]])), shape=(3,))).tolist()
    [0.0, 0.0, 3.0]
    """
    data, indices = mat.clean()
    return scatter_entries(data, indices, mat.sparse_shape).reshape(mat.shape)


@jit(static_argnames=("sizes",), inline=True)
def scatter_entries(data: Array, indices: Array, sizes: Shape) -> Array:
    """Returns dense arrays [p, *sizes, *dense]."""
    out = enp.zeros((data.shape[0], *sizes, *data.shape[2:]), data.dtype)
    if 0 in out.shape or not data.size:
        return out
    target = out.at[batch_and_coordinates(indices)]
    return target.max(data, mode="drop") if data.dtype.kind == "b" else target.add(data, mode="drop")


def bcoo_extract(sparr: M, arr: Operand, *, assume_unique: bool | None = None) -> M:
    """Return the elements of a dense array at the coordinates of a sparse one.

    Args:
        sparr: the coordinates.
        arr: an array of the same shape.
        assume_unique: True to give every coordinate its element, so that those that occur twice count twice; False to
            give it to the first of equal coordinates, and 0 to the others. By default `sparr.unique_indices`.

    Raises:
        ShapeError: the shapes differ.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_extract(BCOO.fromdense(enp.eye(2)), enp.array([[1, 2], [3, 4]])).data.tolist()
    [1, 4]
    """
    x = enp.asarray(arr)
    if x.shape != sparr.shape:
        raise ShapeError(f"bcoo_extract: the array must have shape {sparr.shape}, got {x.type!r}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    indices = sparr.clean()[1]
    data = _gather_entries(x.reshape((indices.shape[0], *x.shape[sparr.n_batch :])), indices, not unique)
    batch = sparr.batch_shape
    return sparr.with_data(data.reshape(batch + data.shape[1:]))


@jit(static_argnames=("first_only",), inline=True)
def _gather_entries(x: Array, indices: Array, first_only: bool) -> Array:
    n, dense = indices.shape[-1], x.shape[1 + indices.shape[-1] :]
    if not x.size or not indices.shape[1]:
        return enp.zeros((*indices.shape[:2], *dense), x.dtype)
    entry = x.at[batch_and_coordinates(indices)].get(mode="fill", fill_value=0)
    if not n or not first_only:
        return (
            entry
            if n or not first_only
            else entry * append_unit_axes(enp.arange(indices.shape[1]) == 0, entry.ndim - 1)
        )
    order = sort_order(indices)
    rows = enp.arange(indices.shape[0])[:, None]
    first = enp.zeros(order.shape, bool).at[rows, order].set(_differs_from_previous(indices[rows, order]))
    return enp.where(append_unit_axes(first, entry.ndim), entry, enp.zeros((), x.dtype))


def sort_order(indices: Array) -> Array:
    """Returns the stable order of coordinates by rows, i32[p, nse]."""
    if not indices.shape[-1]:
        return enp.broadcast_to(enp.arange(indices.shape[1]), indices.shape[:2])
    return enp.lexsort(enp.moveaxis(indices, -1, 0)[::-1])


def _differs_from_previous(indices: Array) -> Array:
    """Says where sorted coordinates differ from those before."""
    differs = (indices[:, 1:] != indices[:, :-1]).any(-1)
    return enp.concatenate([enp.ones((indices.shape[0], min(indices.shape[1], 1)), bool), differs], 1)


def bcoo_sort_indices(mat: M) -> M:
    """Return the array with its elements in the order of their coordinates, padding last.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_sort_indices(BCOO((enp.array([1, 2]), enp.array([[1], [0]])), shape=(2,))).data.tolist()
    [2, 1]
    """
    return restore_batch(mat, *_sort_entries(*mat.clean()), unique=mat.unique_indices)


def restore_batch(mat: M, data: Array, indices: Array, *, unique: bool) -> M:
    """Returns the array with other entries, in order, given with its batch axes as one."""
    batch = mat.batch_shape
    return mat.with_entries(
        data.reshape(batch + data.shape[1:]), indices.reshape(batch + indices.shape[1:]), mat.sparse_shape,
        ordered=True, unique=unique,
    )  # fmt: skip


@jit(inline=True)
def _sort_entries(data: Array, indices: Array) -> tuple[Array, Array]:
    order, rows = sort_order(indices), enp.arange(indices.shape[0])[:, None]
    return data[rows, order], indices[rows, order]


def bcoo_sum_duplicates(mat: M, nse: int | None = None) -> M:
    """Return the array with sorted coordinates that occur once; elements with equal ones are added.

    Args:
        mat: a sparse array.
        nse: how many elements to store; by default as many as there are coordinates, which must not be traced then.
            What is beyond is dropped, the rest padded.

    Raises:
        ConcretizationError: `nse` is not given where the coordinates are abstract.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_sum_duplicates(BCOO((enp.array([1, 2]), enp.array([[1], [1]])), shape=(2,))).data.tolist()
    [3]
    """
    return sum_duplicate_entries(mat, nse, remove_zeros=False)


def sum_duplicate_entries(mat: M, nse: int | None, *, remove_zeros: bool) -> M:
    """Returns `bcoo_sum_duplicates`, without the stored zeros if they are to be removed."""
    data, indices = mat.clean()
    sizes = mat.sparse_shape
    if nse is None:
        count = _count_distinct(data, indices, sizes, remove_zeros).max(initial=0)
        try:
            nse = int(count)
        except ConcretizationError as error:
            raise ConcretizationError(
                f"{name_user_call()}: nse must be given where the coordinates {mat.indices.type!r} are abstract"
            ) from error
    summed_data, at = _sum_duplicates(data, indices, sizes, check_int("nse", nse), remove_zeros)
    return restore_batch(mat, summed_data, at, unique=True)


def _without_zeros(data: Array, indices: Array, sizes: Shape) -> Array:
    stored = (data != 0).any(tuple(range(2, data.ndim)))
    return enp.where(stored[..., None], indices, np.asarray(sizes, indices.dtype))


def is_in_bounds(indices: Array, sizes: Shape) -> Array:
    """Says which of clean coordinates are no padding: bool[p, nse]."""
    return (indices < np.asarray(sizes, indices.dtype)).all(-1)


@jit(static_argnames=("sizes", "remove_zeros"), inline=True)
def _count_distinct(data: Array, indices: Array, sizes: Shape, remove_zeros: bool) -> Array:
    """Returns the number of distinct coordinates of each batch element: i32[p]."""
    if remove_zeros:
        indices = _without_zeros(data, indices, sizes)
    _, at = _sort_entries(indices[..., 0] if indices.shape[-1] else indices.sum(-1), indices)
    return (_differs_from_previous(at) & is_in_bounds(at, sizes)).sum(1)


@jit(static_argnames=("sizes", "nse", "remove_zeros"), inline=True)
def _sum_duplicates(
    data: Array, indices: Array, sizes: Shape, nse: int, remove_zeros: bool
) -> tuple[Array, Array]:
    if remove_zeros:
        indices = _without_zeros(data, indices, sizes)
    x, at = _sort_entries(data, indices)
    number = enp.where(is_in_bounds(at, sizes), enp.cumsum(_differs_from_previous(at), 1) - 1, nse)
    rows = enp.arange(at.shape[0])[:, None]
    out = enp.zeros((x.shape[0], nse, *x.shape[2:]), x.dtype)
    ends = enp.broadcast_to(np.asarray(sizes, at.dtype), (at.shape[0], nse, at.shape[-1]))
    if not at.shape[1] or not nse:
        return out, ends
    target = out.at[rows, number]
    combined = target.max(x, mode="drop") if x.dtype.kind == "b" else target.add(x, mode="drop")
    return combined, ends.at[rows, number].set(at, mode="drop") if at.shape[-1] else ends


def limit_nse(mat: M) -> M:
    """Returns the array with no more stored elements than its sparse axes have."""
    most = math.prod(mat.sparse_shape)
    return mat if mat.nse <= most else sum_duplicate_entries(mat, most, remove_zeros=False)


def check_axis_counts(n_batch: int, n_dense: int, ndim: int, of: object) -> None:
    """Refuses numbers of batch and dense axes that an array, shown in the error, does not have."""
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > ndim:
        raise ShapeError(
            f"{name_user_call()}: n_batch + n_dense must be from 0 to the number of axes, "
            f"got {n_batch} + {n_dense} for {of!r}"
        )


def entries_from_dense(
    mat: Operand, nse: int | None, n_batch: int, n_dense: int, index_dtype: DTypeLike
) -> tuple[Array, Array, Shape]:
    """Returns data, indices and shape of a dense array; a row of dense elements is stored if one is not 0."""
    x = enp.asarray(mat)
    batch, dense = check_int("n_batch", n_batch), check_int("n_dense", n_dense)
    check_axis_counts(batch, dense, x.ndim, x.type)
    sizes = x.shape[batch : x.ndim - dense]
    flat = x.reshape((math.prod(x.shape[:batch]), math.prod(sizes), *x.shape[x.ndim - dense :]))
    mask = (flat != 0).any(tuple(range(2, flat.ndim)))
    if nse is None:
        try:
            nse = int(mask.sum(1).max(initial=0))
        except ConcretizationError as error:
            raise ConcretizationError(
                f"{name_user_call()}: nse must be given where the array {x.type!r} is abstract"
            ) from error
    data, indices = _select_entries(flat, mask, check_int("nse", nse), sizes)
    at = indices.astype(index_dtype)
    return (
        data.reshape(x.shape[:batch] + data.shape[1:]), at.reshape(x.shape[:batch] + at.shape[1:]), x.shape
    )  # fmt: skip


@jit(static_argnames=("nse", "sizes"), inline=True)
def _select_entries(flat: Array, mask: Array, nse: int, sizes: Shape) -> tuple[Array, Array]:
    count, n = mask.shape
    if not n or not nse:
        ends = enp.broadcast_to(np.asarray(sizes, np.int32), (count, nse, len(sizes)))
        return enp.zeros((count, nse, *flat.shape[2:]), flat.dtype), ends
    rows = enp.arange(count)[:, None]
    number = enp.where(mask, enp.cumsum(mask, 1) - 1, nse)
    start = enp.full((count, nse), n, np.int32)
    position = start.at[rows, number].set(enp.arange(n, dtype=np.int32), mode="drop")
    data = flat.at[rows, position].get(mode="fill", fill_value=0)
    return data, unravel_positions(position, sizes)


def unravel_positions(position: Array, sizes: Shape) -> Array:
    """Returns the coordinates of numbers in row-major order; all are one past the end from the last number on."""
    columns, rest = [], position
    for size in reversed(sizes):
        columns.append(rest % max(size, 1))
        rest = rest // max(size, 1)
    at = enp.stack(columns[::-1], -1) if columns else enp.zeros((*position.shape, 0), position.dtype)
    known = (position < math.prod(sizes))[..., None]
    return enp.where(known, at, np.asarray(sizes, at.dtype))
