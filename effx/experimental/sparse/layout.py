"""Changes of layout and shape: which axes are batch, sparse or dense, their order and sizes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

import effx.numpy as enp
from effx.array import Array
from effx.errors import ShapeError, name_user_call
from effx.experimental.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning
from effx.experimental.sparse.coordinates import M, Shape, append_unit_axes
from effx.experimental.sparse.entries import check_axis_counts, limit_nse, unravel_positions
from effx.lax.operands import check_int

__all__ = [
    "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_reduce_sum", "bcoo_reshape", "bcoo_squeeze",
    "bcoo_transpose", "bcoo_update_layout",
]  # fmt: skip


def bcoo_transpose(mat: M, *, permutation: Sequence[int]) -> M:
    """Return the array with its axes permuted; batch, sparse and dense axes stay such.

    Raises:
        ShapeError: the axes are no permutation, or an axis would change its kind.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_transpose(BCOO.fromdense(enp.array([[0, 1]])), permutation=(1, 0)).todense().tolist()
    [[0], [1]]
    """
    axes = tuple([check_int("permutation", k) for k in permutation])
    if sorted(axes) != list(range(mat.ndim)):
        raise ShapeError(f"bcoo_transpose: permutation must order the axes of {mat!r}, got {axes}")
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    groups = axes[:b], axes[b:s], axes[s:]
    if any([sorted(g) != list(r) for g, r in zip(groups, (range(b), range(b, s)), strict=False)]):
        raise ShapeError(
            f"bcoo_transpose: batch, sparse and dense axes must stay such, got permutation {axes} of {mat!r}; "
            "bcoo_update_layout changes them"
        )
    data = mat.data.transpose((*groups[0], b, *[k - mat.n_sparse + 1 for k in groups[2]]))
    indices = mat.indices.transpose((*groups[0], b, b + 1))
    sparse = [k - b for k in groups[1]]
    ordered = sparse == list(range(mat.n_sparse))
    if not ordered:
        indices = indices[..., np.array(sparse)]
    return mat.with_entries(
        data, indices, [mat.sparse_shape[k] for k in sparse],
        ordered=mat.indices_sorted and ordered, unique=mat.unique_indices,
    )  # fmt: skip


def bcoo_update_layout(
    mat: M, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> M:
    """Return the same array with other numbers of batch and dense axes.

    Args:
        mat: a sparse array.
        n_batch: the number of batch axes; by default as before.
        n_dense: the number of dense axes; by default as before.
        on_inefficient: what happens where the result stores more numbers: "error", "warn", or None.

    Raises:
        ShapeError: there are not so many axes, or `on_inefficient` is something else.
        SparseEfficiencyError: the result stores more numbers.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_update_layout(BCOO.fromdense(enp.ones((2, 3))), n_batch=1)
    BCOO(float32[2, 3], nse=3, n_batch=1)
    """
    batch = mat.n_batch if n_batch is None else check_int("n_batch", n_batch)
    dense = mat.n_dense if n_dense is None else check_int("n_dense", n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ShapeError(
            f"{name_user_call()}: on_inefficient must be 'error', 'warn' or None, got {on_inefficient!r}"
        )
    check_axis_counts(batch, dense, mat.ndim, mat)
    if batch == mat.n_batch and dense == mat.n_dense:
        return mat
    rest = math.prod(mat.shape[batch : mat.ndim - dense])
    old, nse = mat.data.size + mat.indices.size, mat.nse
    nse *= math.prod(mat.shape[batch : mat.n_batch]) * math.prod(
        mat.shape[mat.ndim - mat.n_dense : mat.ndim - dense]
    )
    nse = min(nse, rest)
    new = (
        math.prod(mat.shape[:batch])
        * nse
        * (math.prod(mat.shape[mat.ndim - dense :]) + mat.ndim - batch - dense)
    )
    if new > old and on_inefficient is not None:
        text = (
            f"{name_user_call()}: {mat!r} with n_batch={batch} and n_dense={dense} stores {new} numbers, more than {old}; "
            "on_inefficient=None allows it"
        )
        if on_inefficient == "error":
            raise SparseEfficiencyError(text)
        warnings.warn(text, SparseEfficiencyWarning, stacklevel=2)
    if batch < mat.n_batch:
        mat = _batch_to_sparse(mat, mat.n_batch - batch)
    if dense < mat.n_dense:
        mat = _dense_to_sparse(mat, mat.n_dense - dense)
    if batch > mat.n_batch:
        mat = _sparse_to_batch(mat, batch - mat.n_batch)
    if dense > mat.n_dense:
        mat = _sparse_to_dense(mat, dense - mat.n_dense)
    return limit_nse(mat)


def grid_coordinates(sizes: Shape, dtype: np.dtype) -> np.ndarray:
    """Returns the coordinates of all elements in row-major order: i32[prod(sizes), len(sizes)]."""
    return (
        np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), -1).astype(dtype)
        if sizes
        else np.zeros((1, 0), dtype)
    )


def match_layouts(mats: Sequence[M]) -> list[M]:
    """Returns arrays with as few batch and dense axes as any of them has."""
    batch, dense = min([m.n_batch for m in mats]), min([m.n_dense for m in mats])
    return [bcoo_update_layout(m, n_batch=batch, n_dense=dense, on_inefficient=None) for m in mats]


def _batch_to_sparse(mat: M, k: int) -> M:
    data, indices = mat.entries()
    remaining_shape, moved = mat.batch_shape[: mat.n_batch - k], mat.batch_shape[mat.n_batch - k :]
    n = math.prod(moved)
    at = indices.reshape((*remaining_shape, n, mat.nse, mat.n_sparse))
    columns = grid_coordinates(moved, at.dtype)[:, None, :]
    joined = enp.concatenate([enp.broadcast_to(columns, (*at.shape[:-1], k)), at], -1)
    return mat.with_entries(
        data.reshape((*remaining_shape, n * mat.nse, *mat.dense_shape)),
        joined.reshape((*remaining_shape, n * mat.nse, k + mat.n_sparse)),
        moved + mat.sparse_shape,
        unique=mat.unique_indices,
    )


def _dense_to_sparse(mat: M, k: int) -> M:
    data, indices = mat.entries()
    moved, remaining_shape = mat.dense_shape[:k], mat.dense_shape[k:]
    n = math.prod(moved)
    at = enp.broadcast_to(indices[..., None, :], (*mat.batch_shape, mat.nse, n, mat.n_sparse))
    columns = enp.broadcast_to(grid_coordinates(moved, at.dtype), (*at.shape[:-1], k))
    return mat.with_entries(
        data.reshape((*mat.batch_shape, mat.nse * n, *remaining_shape)),
        enp.concatenate([at, columns], -1).reshape((*mat.batch_shape, mat.nse * n, mat.n_sparse + k)),
        mat.sparse_shape + moved,
        unique=mat.unique_indices,
    )


def _sparse_to_batch(mat: M, k: int) -> M:
    data, indices = mat.entries()
    b, moved, rest = mat.n_batch, mat.sparse_shape[:k], mat.sparse_shape[k:]
    shape = (*mat.batch_shape, math.prod(moved))
    keep = (indices[..., None, :, :k] == grid_coordinates(moved, indices.dtype)[:, None, :]).all(-1)
    at = enp.where(keep[..., None], indices[..., None, :, k:], np.asarray(rest, indices.dtype))
    x = enp.expand_dims(data, b)
    x = enp.where(append_unit_axes(keep, x.ndim), x, enp.zeros((), x.dtype))
    batch = (*mat.batch_shape, *moved)
    assert at.shape[: b + 1] == shape
    return limit_nse(
        mat.with_entries(
            x.reshape(batch + x.shape[b + 1 :]), at.reshape(batch + at.shape[b + 1 :]), rest,
            unique=mat.unique_indices and bool(rest),
        )
    )  # fmt: skip


def _sparse_to_dense(mat: M, k: int) -> M:
    data, indices = mat.entries()
    b, remaining_shape, moved = (
        mat.n_batch,
        mat.sparse_shape[: mat.n_sparse - k],
        mat.sparse_shape[mat.n_sparse - k :],
    )
    columns = indices[..., mat.n_sparse - k :]
    hit = (columns[..., None, :] == grid_coordinates(moved, indices.dtype)).all(-1)
    x = enp.expand_dims(data, b + 1)
    x = enp.where(append_unit_axes(hit, x.ndim), x, enp.zeros((), x.dtype))
    shape = (*mat.batch_shape, mat.nse, *moved, *mat.dense_shape)
    return mat.with_entries(x.reshape(shape), indices[..., : mat.n_sparse - k], remaining_shape)


def bcoo_reduce_sum(mat: M, *, axes: Sequence[int]) -> M:
    """Return the sum over some axes; elements whose coordinates become equal are stored apart.

    Raises:
        ShapeError: there is no such axis.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_reduce_sum(BCOO.fromdense(enp.eye(3)), axes=(0,)).todense().tolist()
    [1.0, 1.0, 1.0]
    """
    over = check_distinct_axes(mat, axes)
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = mat.entries()
    if data.dtype.kind == "b" and over:
        data = data.astype(int)
    data = data.sum(tuple([k - mat.n_sparse + 1 for k in over if k >= s]))
    batch = [k for k in over if k < b]
    remaining_batch_axes = [k for k in range(b) if k not in batch]
    data = data.transpose((*remaining_batch_axes, *batch, *range(b, data.ndim)))
    indices = indices.transpose((*remaining_batch_axes, *batch, b, b + 1))
    shape = tuple([mat.shape[k] for k in remaining_batch_axes])
    nse = math.prod([mat.shape[k] for k in batch]) * mat.nse
    columns = [k for k in range(mat.n_sparse) if k + b not in over]
    indices = indices.reshape((*shape, nse, mat.n_sparse))
    return mat.with_entries(
        data.reshape((*shape, nse, *data.shape[b + 1 :])),
        indices if len(columns) == mat.n_sparse else indices[..., np.array(columns, int)],
        [mat.sparse_shape[k] for k in columns],
    )


def check_distinct_axes(mat: M, axes: Sequence[int]) -> tuple[int, ...]:
    """Returns axes, counted from the front.

    Raises:
        ShapeError: there is no such axis, or one occurs twice.
    """
    axis_list = [check_int("axes", k) for k in axes]
    result = tuple([k + mat.ndim if k < 0 else k for k in axis_list])
    if any([not 0 <= k < mat.ndim for k in result]) or len({*result}) != len(result):
        raise ShapeError(f"{name_user_call()}: axes must be distinct ones of {mat!r}, got {tuple(axis_list)}")
    return result


def bcoo_squeeze(arr: M, *, dimensions: Sequence[int]) -> M:
    """Return the array without some axes of size 1.

    Raises:
        ShapeError: an axis has another size.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_squeeze(BCOO.fromdense(enp.ones((1, 3))), dimensions=(0,)).shape
    (3,)
    """
    over = check_distinct_axes(arr, dimensions)
    if any([arr.shape[k] != 1 for k in over]):
        raise ShapeError(f"bcoo_squeeze: dimensions must have size 1, got {over} of {arr!r}")
    b, s = arr.n_batch, arr.n_batch + arr.n_sparse
    data, indices = arr.entries()
    columns = [k for k in range(arr.n_sparse) if k + b not in over]
    batch = tuple([k for k in over if k < b])
    return arr.with_entries(
        enp.squeeze(data, batch + tuple([k - arr.n_sparse + 1 for k in over if k >= s])),
        enp.squeeze(indices, batch)[..., np.array(columns, int)],
        [arr.sparse_shape[k] for k in columns],
        ordered=arr.indices_sorted, unique=arr.unique_indices and bool(columns),
    )  # fmt: skip


def parse_broadcast(
    old_shape: Shape, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> tuple[Shape, list[int], bool]:
    """Returns the shape of a broadcast, the axis there of each old axis, and whether the old shape fits."""
    sizes = tuple([check_int("shape", n) for n in shape])
    axes = [check_int("broadcast_dimensions", k) for k in broadcast_dimensions]
    fits = (
        len(axes) == len(old_shape)
        and axes == sorted({*axes})
        and all([0 <= k < len(sizes) for k in axes])
        and all([n in (1, sizes[k]) for n, k in zip(old_shape, axes, strict=True)])
    )
    return sizes, axes, fits


def bcoo_broadcast_in_dim(mat: M, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> M:
    """Return the array repeated along new axes and axes of size 1.

    New axes before the last batch axis are batch axes, those behind the first dense axis are dense, others are
    sparse, along which elements are repeated.

    Args:
        mat: a sparse array.
        shape: of the result.
        broadcast_dimensions: for each axis of `mat`, its axis of the result, in ascending order.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_broadcast_in_dim(BCOO.fromdense(enp.ones(3)), shape=(2, 3), broadcast_dimensions=(1,)).nse
    6
    """
    sizes, axes, fits = parse_broadcast(mat.shape, shape, broadcast_dimensions)
    if not fits:
        raise ShapeError(
            f"bcoo_broadcast_in_dim: {mat!r} does not fit shape {sizes} with broadcast_dimensions {tuple(axes)}"
        )
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    batch = axes[b - 1] + 1 if b else 0
    dense = axes[s] if mat.n_dense else len(sizes)
    data, indices = mat.entries()
    old = {k: n for n, k in zip(mat.shape, axes, strict=True)}
    front = tuple([old.get(k, 1) for k in range(batch)])
    back = tuple([old.get(k, 1) for k in range(dense, len(sizes))])
    # Sparse axes along which each element is repeated.
    repeated = [k for k in range(batch, dense) if old.get(k, 1) != sizes[k] or k not in old]
    repeated_coordinates = grid_coordinates(tuple([sizes[k] for k in repeated]), indices.dtype)
    n = len(repeated_coordinates)
    at = indices.reshape((*front, mat.nse, 1, mat.n_sparse))
    at = enp.broadcast_to(at, (*sizes[:batch], mat.nse, n, mat.n_sparse))
    inside = (at < np.asarray(mat.sparse_shape, at.dtype)).all(-1)
    columns: list[Array] = []
    for k in range(batch, dense):
        if k in repeated:
            columns.append(
                enp.where(inside, repeated_coordinates[:, repeated.index(k)], np.asarray(sizes[k], at.dtype))
            )
        else:
            columns.append(at[..., axes.index(k) - b])
    sparse = sizes[batch:dense]
    joined = enp.stack(columns, -1) if columns else enp.zeros((*inside.shape, 0), at.dtype)
    x = enp.broadcast_to(
        data.reshape((*front, mat.nse, 1, *back)), (*sizes[:batch], mat.nse, n, *sizes[dense:])
    )
    return mat.with_entries(
        x.reshape((*sizes[:batch], mat.nse * n, *sizes[dense:])),
        joined.reshape((*sizes[:batch], mat.nse * n, len(sparse))),
        sparse,
        unique=mat.unique_indices,
    )


def bcoo_reshape(mat: M, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> M:
    """Return the array with the same elements in row-major order in another shape.

    Batch axes become batch axes, and dense axes dense axes.

    Args:
        mat: a sparse array.
        new_sizes: the shape of the result.
        dimensions: a permutation of the axes before; by default none.

    Raises:
        ShapeError: the shape has another number of elements, or mixes batch, sparse and dense axes.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_reshape(BCOO.fromdense(enp.eye(2)), new_sizes=(4,)).todense().tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    sizes = tuple([check_int("new_sizes", n) for n in new_sizes])
    if math.prod(sizes) != mat.size or min(sizes, default=0) < 0:
        raise ShapeError(
            f"{name_user_call()}: new_sizes must have {mat.size} elements as {mat!r}, got {sizes}"
        )
    b = _split_sizes(sizes, mat.batch_shape)
    d = _split_sizes(sizes[::-1], mat.dense_shape)
    if (
        b is None
        or d is None
        or b + d > len(sizes)
        or math.prod(sizes[b : len(sizes) - d]) != math.prod(mat.sparse_shape)
    ):
        raise ShapeError(
            f"{name_user_call()}: new_sizes must not mix batch, sparse and dense axes, got {sizes} for {mat!r}"
        )
    sparse, dense = sizes[b : len(sizes) - d], sizes[len(sizes) - d :]
    data, indices = mat.entries()
    position_count = math.prod(sparse)
    if position_count > np.iinfo(indices.dtype).max:
        raise ShapeError(
            f"{name_user_call()}: indices of dtype {indices.dtype.name} cannot number {position_count} places"
        )
    number = enp.zeros(indices.shape[:-1], indices.dtype)
    for k, n in enumerate(mat.sparse_shape):
        number = number * n + indices[..., k]
    inside = (indices < np.asarray(mat.sparse_shape, indices.dtype)).all(-1)
    at = unravel_positions(enp.where(inside, number, position_count), sparse)
    return mat.with_entries(
        data.reshape((*sizes[:b], mat.nse, *dense)), at.reshape((*sizes[:b], mat.nse, len(sparse))), sparse,
        ordered=mat.indices_sorted, unique=mat.unique_indices,
    )  # fmt: skip


def _split_sizes(sizes: Shape, old: Shape) -> int | None:
    """Returns how many of the first sizes have the product of the old ones; the old number if it does."""
    target_size = math.prod(old)
    if math.prod(sizes[: len(old)]) == target_size and len(sizes) >= len(old):
        return len(old)
    return next(
        (k for k in range(1 if old else 0, len(sizes) + 1) if math.prod(sizes[:k]) == target_size), None
    )


def bcoo_concatenate(operands: Sequence[M], *, dimension: int) -> M:
    """Return arrays joined along an axis.

    Raises:
        ShapeError: there is none, or the shapes or numbers of batch and dense axes differ.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_concatenate([BCOO.fromdense(enp.ones(2))] * 2, dimension=0).shape
    (4,)
    """
    function_name, mats = "bcoo_concatenate", [*operands]
    if not mats:
        raise ShapeError(f"{function_name}: needs at least one array")
    first = mats[0]
    axis = check_distinct_axes(first, (dimension,))[0]
    others = [m.shape[:axis] + m.shape[axis + 1 :] for m in mats]
    if any(
        [(m.n_batch, m.n_dense, m.ndim) != (first.n_batch, first.n_dense, first.ndim) for m in mats]
    ) or any([o != others[0] for o in others]):
        raise ShapeError(
            f"{function_name}: shapes may differ along dimension {axis} alone, and numbers of batch and dense axes may not, "
            f"got {', '.join(map(repr, mats))}"
        )
    b, s = first.n_batch, first.n_batch + first.n_sparse
    dtype = enp.result_type(*[m.dtype for m in mats])
    pairs = [m.entries() for m in mats]
    starts = [0, *np.cumsum([m.shape[axis] for m in mats]).tolist()]
    sizes = (*first.shape[:axis], starts[-1], *first.shape[axis + 1 :])
    sparse = sizes[b:s]
    columns, elements = [], []
    for m, start, (x, at) in zip(mats, starts, pairs, strict=False):
        offset = np.zeros(m.n_sparse, at.dtype)
        if b <= axis < s:
            offset[axis - b] = start
        inside = (at < np.asarray(m.sparse_shape, at.dtype)).all(-1, keepdims=True)
        moved = enp.where(inside, at + offset, np.asarray(sparse, at.dtype))
        x = x.astype(dtype)
        if axis >= s:
            index_axis = axis - m.n_sparse + 1
            x = enp.pad(
                x,
                [
                    (start, starts[-1] - start - m.shape[axis]) if k == index_axis else (0, 0)
                    for k in range(x.ndim)
                ],
            )
        elif axis < b:
            most = max([m.nse for m in mats]) - m.nse
            x = enp.pad(x, [(0, most) if k == b else (0, 0) for k in range(x.ndim)])
            fill = enp.broadcast_to(np.asarray(sparse, at.dtype), (*at.shape[:-2], most, at.shape[-1]))
            moved = enp.concatenate([moved, fill], b)
        columns.append(moved)
        elements.append(x)
    along = min(b, axis)
    return first.with_entries(enp.concatenate(elements, along), enp.concatenate(columns, along), sparse)
