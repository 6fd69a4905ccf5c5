"""Parts of sparse arrays: slices, dynamic slices, gathered slices and reversed axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import effx.numpy as enp
from effx.array import Array, Operand
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.experimental.sparse.coordinates import M
from effx.experimental.sparse.entries import limit_nse
from effx.experimental.sparse.layout import bcoo_broadcast_in_dim, bcoo_squeeze, check_distinct_axes
from effx.lax.operands import check_int
from effx.lax.slicing import dynamic_slice_in_dim

__all__ = ["bcoo_dynamic_slice", "bcoo_rev", "bcoo_slice"]


def bcoo_slice(
    mat: M,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> M:
    """Return the part of an array between two corners, with a stride along each axis.

    Raises:
        ShapeError: the corners are not in the array, or in the wrong order, or a stride is not positive.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_slice(BCOO.fromdense(enp.arange(5)), start_indices=[1], limit_indices=[5], strides=[2]).todense().tolist()
    [1, 3]
    """
    starts = [check_int("start_indices", k) for k in start_indices]
    limits = [check_int("limit_indices", k) for k in limit_indices]
    steps = [1] * mat.ndim if strides is None else [check_int("strides", k) for k in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim or not all(
        [0 <= a <= z <= n and k > 0 for a, z, n, k in zip(starts, limits, mat.shape, steps, strict=True)]
    ):
        raise ShapeError(
            f"{name_user_call()}: must have 0 <= start <= limit <= size and stride > 0 for each axis, got starts "
            f"{starts}, limits "
            f"{limits} and strides {steps} for {mat!r}"
        )
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    cuts = [slice(a, z, k) for a, z, k in zip(starts, limits, steps, strict=True)]
    data, indices = mat.entries()
    data = data[(*cuts[:b], slice(None), *cuts[s:])]
    indices = indices[tuple(cuts[:b])] if b else indices
    sparse = tuple([len(range(*c.indices(n))) for c, n in zip(cuts[b:s], mat.sparse_shape, strict=True)])
    if sparse == mat.sparse_shape:
        return mat.with_entries(data, indices, sparse, ordered=mat.indices_sorted, unique=mat.unique_indices)
    dtype = indices.dtype
    shifted = indices - np.asarray(starts[b:s], dtype)
    step = np.asarray(steps[b:s], dtype)
    keep = ((shifted >= 0) & (indices < np.asarray(limits[b:s], dtype)) & (shifted % step == 0)).all(-1)
    at = enp.where(keep[..., None], shifted // step, np.asarray(sparse, dtype))
    return limit_nse(mat.with_entries(data, at, sparse, unique=mat.unique_indices))


def bcoo_dynamic_slice(mat: M, start_indices: Sequence[Operand], slice_sizes: Sequence[int]) -> M:
    """Return a slice of fixed size from a start that may be computed, and is clamped so that the slice fits.

    Raises:
        ShapeError: there is not one start and one size for each axis, or a size is larger than the axis.
        DTypeError: a start is no integer.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_dynamic_slice(BCOO.fromdense(enp.arange(5)), [4], [2]).todense().tolist()
    [3, 4]
    """
    sizes = [check_int("slice_sizes", n) for n in slice_sizes]
    starts = [enp.asarray(k) for k in start_indices]
    if not len(starts) == len(sizes) == mat.ndim or not all(
        [0 <= n <= m for n, m in zip(sizes, mat.shape, strict=True)]
    ):
        raise ShapeError(
            f"{name_user_call()}: needs one start and a size from 0 to that of the axis for each axis of {mat!r}, got "
            f"{len(starts)} starts and sizes {sizes}"
        )
    if any([k.ndim or k.dtype.kind not in "iu" for k in starts]):
        raise DTypeError(
            f"{name_user_call()}: starts must be integers, got {', '.join([repr(k.type) for k in starts])}"
        )
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = mat.entries()
    dtype = indices.dtype
    first = [enp.clip(k, 0, m - n).astype(dtype) for k, n, m in zip(starts, sizes, mat.shape, strict=True)]
    for k, n in enumerate(sizes):
        if n != mat.shape[k] and k < b:
            data, indices = [dynamic_slice_in_dim(x, first[k], n, k) for x in (data, indices)]
        elif n != mat.shape[k] and k >= s:
            data = dynamic_slice_in_dim(data, first[k], n, k - mat.n_sparse + 1)
    sparse = tuple(sizes[b:s])
    if sparse == mat.sparse_shape:
        return mat.with_entries(data, indices, sparse, unique=mat.unique_indices)
    shifted = indices - enp.stack(first[b:s])
    ends = np.asarray(sparse, dtype)
    # Padding has coordinates one past the end of the whole array, which may be inside of the slice.
    inside = (indices < np.asarray(mat.sparse_shape, dtype)).all(-1)
    keep = ((shifted >= 0) & (shifted < ends)).all(-1) & inside
    at = enp.where(keep[..., None], shifted, ends)
    return limit_nse(mat.with_entries(data, at, sparse, unique=mat.unique_indices))


def bcoo_rev(operand: M, dimensions: Sequence[int]) -> M:
    """Return the array with some axes reversed.

    Raises:
        ShapeError: there is no such axis.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_rev(BCOO.fromdense(enp.arange(3)), (0,)).todense().tolist()
    [2, 1, 0]
    """
    over = check_distinct_axes(operand, dimensions)
    b, s = operand.n_batch, operand.n_batch + operand.n_sparse
    data, indices = operand.entries()
    batch = [k for k in over if k < b]
    data = enp.flip(data, (*batch, *[k - operand.n_sparse + 1 for k in over if k >= s]))
    indices = enp.flip(indices, batch) if batch else indices
    ends = np.asarray(operand.sparse_shape, indices.dtype)
    is_reversed = np.array([k + b in over for k in range(operand.n_sparse)], bool)
    known = (indices < ends).all(-1, keepdims=True)
    at = enp.where(known & is_reversed, ends - 1 - indices, indices)
    return operand.with_entries(data, at, operand.sparse_shape, unique=operand.unique_indices)


def index_sparse(mat: M, index: object) -> M:
    """Returns `mat[index]` for ints, slices, None and an ellipsis.

    Raises:
        ShapeError: there are too many, or one is out of bounds.
        DTypeError: there is something else.
    """
    items: list[object] = [*index] if isinstance(index, tuple) else [index]
    used = len([i for i in items if i is not None and i is not Ellipsis])
    if used > mat.ndim or len([i for i in items if i is Ellipsis]) > 1:
        raise ShapeError(f"getitem: {mat!r} has no {used} axes for the index {index!r}")
    if not any([i is Ellipsis for i in items]):
        items.append(Ellipsis)
    where = next(k for k, i in enumerate(items) if i is Ellipsis)
    items[where : where + 1] = [slice(None)] * (mat.ndim - used)
    starts: list[Operand] = []
    sizes, cuts, reversed_axes, dropped, fresh = [], [], [], [], []
    axis = 0
    dynamic = False
    for i in items:
        if i is None:
            fresh.append(axis)
            continue
        n = mat.shape[axis]
        if isinstance(i, slice):
            selected = range(*i.indices(n))
            up = selected if selected.step > 0 else selected[::-1]
            cuts.append((up.start, max(up.stop, up.start), up.step) if len(up) else (0, 0, 1))
            starts.append(0)
            sizes.append(n)
            if selected.step < 0:
                reversed_axes.append(axis)
        elif (isinstance(i, Array) and i.ndim == 0 and i.dtype.kind in "iu") or isinstance(
            i, int | np.integer
        ):
            if isinstance(i, Array):
                dynamic = True
                starts.append(enp.where(i < 0, i + n, i))
                cuts.append((0, 1, 1))
            else:
                k = int(i) + n if i < 0 else int(i)
                if not 0 <= k < n:
                    raise ShapeError(f"getitem: index {int(i)} is out of bounds for axis {axis} of {mat!r}")
                cuts.append((k, k + 1, 1))
                starts.append(0)
            sizes.append(1 if isinstance(i, Array) else n)
            dropped.append(axis)
        else:
            raise DTypeError(
                f"getitem: an index of a sparse array is an int, a slice, None, ... or an array, got {i!r}"
            )
        axis += 1
    if dynamic:
        mat = bcoo_dynamic_slice(mat, starts, sizes)
    if [(0, n, 1) for n in mat.shape] != cuts:
        low, high, steps = zip(*cuts, strict=True)
        mat = bcoo_slice(
            mat,
            start_indices=low,
            limit_indices=[min(e, n) for e, n in zip(high, mat.shape, strict=True)],
            strides=steps,
        )
    if reversed_axes:
        mat = bcoo_rev(mat, reversed_axes)
    if dropped:
        mat = bcoo_squeeze(mat, dimensions=dropped)
    if fresh:
        new_axes = [f - len([d for d in dropped if d < f]) for f in fresh]
        shape, at = [], []
        for k in range(mat.ndim + 1):
            shape += [1] * new_axes.count(k)
            if k < mat.ndim:
                at.append(len(shape))
                shape.append(mat.shape[k])
        mat = bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=at)
    return mat
