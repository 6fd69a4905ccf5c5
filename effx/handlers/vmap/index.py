"""Batching of gather and scatter.

If only x is batched, the batch axis is one more axis of the slices, taken whole. If only the indices are, it is one
more axis of start vectors. If both are batched, it is a batch axis of the operation.
"""

from effx.array import Array
from effx.handlers.vmap.handler import Axis, Vmap, insert_entry, materialize, move_to_front, rule, shift_axes
from effx.ir.ops.index import Gather, Scatter

Ints = tuple[int, ...]


@rule(Gather)
def batch_gather(
    handler: Vmap, op: Gather, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x, indices), (axis, indices_axis) = values, axes
    if indices_axis is None:
        assert axis is not None
        kept_axes = _other_axes(x.type.ndim - 1, op.collapsed + op.operand_batch)
        result_axis = _batch_axis_after(op.offset_dims, _count_before(axis, kept_axes))
        batched_gather = Gather(
            _add_axis(shift_axes(op.offset_dims, result_axis), result_axis),
            shift_axes(op.collapsed, axis),
            shift_axes(op.start_index_map, axis),
            insert_entry(op.slice_sizes, axis, handler.size),
            shift_axes(op.operand_batch, axis),
            op.indices_batch,
            op.sorted,
            op.unique,
            op.drops,
        )
        return batched_gather(x, indices), result_axis
    indices, indices_axis = _move_off_last_axis(indices, indices_axis)
    ndim = indices.type.ndim - 2 + len(op.offset_dims)
    result_axis = _batch_axis_after(_other_axes(ndim, op.offset_dims), indices_axis)
    offset_dims = shift_axes(op.offset_dims, result_axis)
    indices_batch = shift_axes(op.indices_batch, indices_axis)
    # `sorted` and `unique` are about all start vectors together. The batch axis in x separates batch
    # elements, so uniqueness holds there; the order restarts with each batch element.
    if axis is None:
        indices_gather = Gather(
            offset_dims,
            op.collapsed,
            op.start_index_map,
            op.slice_sizes,
            op.operand_batch,
            indices_batch,
            drops=op.drops,
        )
        return indices_gather(x, indices), result_axis
    pairs = _add_axis_pair(shift_axes(op.operand_batch, axis), indices_batch, axis, indices_axis)
    paired_gather = Gather(
        offset_dims,
        shift_axes(op.collapsed, axis),
        shift_axes(op.start_index_map, axis),
        insert_entry(op.slice_sizes, axis, min(1, handler.size)),
        *pairs,
        unique=op.unique,
        drops=op.drops,
    )
    return paired_gather(x, indices), result_axis


@rule(Scatter)
def batch_scatter(
    handler: Vmap, op: Scatter, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x, indices, updates), (axis, indices_axis, updates_axis) = values, axes
    if indices_axis is None:
        return _scatter_windows(handler, op, values, axes)
    indices, indices_axis = _move_off_last_axis(indices, indices_axis)
    scattered = _other_axes(indices.type.ndim - 2 + len(op.window_dims), op.window_dims)
    updates, fitted_axis = _fit_batch_axis(handler, updates, updates_axis, scattered, indices_axis)
    if axis is None:
        axis = 0
        x = materialize(handler, x, None)
    pairs = _add_axis_pair(
        shift_axes(op.operand_batch, axis), shift_axes(op.indices_batch, indices_axis), axis, indices_axis
    )
    paired_scatter = Scatter(
        shift_axes(op.window_dims, fitted_axis),
        shift_axes(op.inserted, axis),
        shift_axes(op.start_index_map, axis),
        op.combiner,
        *pairs,
        unique=op.unique,
    )
    return paired_scatter(x, indices, updates), axis


def _scatter_windows(
    handler: Vmap, op: Scatter, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    """Scatters to the same indices in all batch elements: the batch axis is one more axis of the windows."""
    (x, indices, updates), (axis, _, updates_axis) = values, axes
    removed = op.inserted + op.operand_batch
    if axis is None:
        # x may get its batch axis at any index, so the updates keep theirs.
        assert updates_axis is not None
        axis = _batch_axis_after(
            _other_axes(x.type.ndim, removed), _count_before(updates_axis, op.window_dims)
        )
        x = materialize(handler, x, None, axis)
    kept_before = _count_before(axis, _other_axes(x.type.ndim - 1, removed))
    updates, window_axis = _fit_batch_axis(handler, updates, updates_axis, op.window_dims, kept_before)
    batched_scatter = Scatter(
        _add_axis(shift_axes(op.window_dims, window_axis), window_axis),
        shift_axes(op.inserted, axis),
        shift_axes(op.start_index_map, axis),
        op.combiner,
        shift_axes(op.operand_batch, axis),
        op.indices_batch,
        op.sorted,
        op.unique,
    )
    return batched_scatter(x, indices, updates), axis


def _other_axes(ndim: int, axes: Ints) -> Ints:
    return tuple([i for i in range(ndim) if i not in axes])


def _count_before(batch_axis: int, axes: Ints) -> int:
    """Returns how many of the other axes are before a batch axis at `batch_axis`."""
    return sum([a < batch_axis for a in axes])


def _batch_axis_after(axes: Ints, count: int) -> int:
    """Returns the first index for a batch axis with `count` of `axes` before it."""
    return axes[count - 1] + 1 if count else 0


def _fit_batch_axis(handler: Vmap, x: Array, axis: Axis, axes: Ints, count: int) -> tuple[Array, int]:
    """Returns x with a batch axis that has `count` of the increasing `axes` before it, and its index."""
    if axis is not None and _count_before(axis, axes) == count:
        return x, axis
    batch_axis = _batch_axis_after(axes, count)
    return materialize(handler, x, axis, batch_axis), batch_axis


def _move_off_last_axis(indices: Array, axis: int) -> tuple[Array, int]:
    # The last axis holds the start vectors.
    return (move_to_front(indices, axis), 0) if axis == indices.type.ndim - 1 else (indices, axis)


def _add_axis(axes: Ints, axis: int) -> Ints:
    return tuple(sorted((*axes, axis)))


def _add_axis_pair(
    operand_batch: Ints, indices_batch: Ints, axis: int, indices_axis: int
) -> tuple[Ints, Ints]:
    """Adds a pair of axes; StableHLO requires those of x in increasing order."""
    pairs = sorted([*zip(operand_batch, indices_batch, strict=True), (axis, indices_axis)])
    return tuple([i for i, _ in pairs]), tuple([j for _, j in pairs])
