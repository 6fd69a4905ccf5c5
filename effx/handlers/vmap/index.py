"""Batching of gather and scatter.

The batch axis of x alone is one more axis of the slices, taken whole. That of the indices alone is one more
axis of start vectors. Where both are batched, it is a batch axis of the operation.
"""

from effx.array import Array
from effx.handlers.vmap.handler import Axis, Vmap, beside, insert, materialize, rule, to_front
from effx.ir.ops.index import Gather, Scatter

Ints = tuple[int, ...]


@rule(Gather)
def gather(
    handler: Vmap, op: Gather, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x, indices), (axis, indices_axis) = values, axes
    if indices_axis is None:
        assert axis is not None
        kept = _others(x.type.ndim - 1, op.collapsed + op.operand_batch)
        place = _opening(op.offset_dims, _count_before(axis, kept))
        whole = Gather(
            _with(beside(op.offset_dims, place), place),
            beside(op.collapsed, axis),
            beside(op.start_index_map, axis),
            insert(op.slice_sizes, axis, handler.size),
            beside(op.operand_batch, axis),
            op.indices_batch,
            op.sorted,
            op.unique,
            op.drops,
        )
        return whole(x, indices), place
    indices, indices_axis = _off_the_end(indices, indices_axis)
    ndim = indices.type.ndim - 2 + len(op.offset_dims)
    place = _opening(_others(ndim, op.offset_dims), indices_axis)
    offset_dims = beside(op.offset_dims, place)
    indices_batch = beside(op.indices_batch, indices_axis)
    # `sorted` and `unique` are about all start vectors together. The batch axis in x separates batch
    # elements, so uniqueness holds there; the order restarts with each batch element.
    if axis is None:
        more = Gather(
            offset_dims,
            op.collapsed,
            op.start_index_map,
            op.slice_sizes,
            op.operand_batch,
            indices_batch,
            drops=op.drops,
        )
        return more(x, indices), place
    pairs = _with_pair(beside(op.operand_batch, axis), indices_batch, axis, indices_axis)
    both = Gather(
        offset_dims,
        beside(op.collapsed, axis),
        beside(op.start_index_map, axis),
        insert(op.slice_sizes, axis, min(1, handler.size)),
        *pairs,
        unique=op.unique,
        drops=op.drops,
    )
    return both(x, indices), place


@rule(Scatter)
def scatter(
    handler: Vmap, op: Scatter, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x, indices, updates), (axis, indices_axis, updates_axis) = values, axes
    if indices_axis is None:
        return _scatter_windows(handler, op, values, axes)
    indices, indices_axis = _off_the_end(indices, indices_axis)
    scattered = _others(indices.type.ndim - 2 + len(op.window_dims), op.window_dims)
    updates, place = _fitted(handler, updates, updates_axis, scattered, indices_axis)
    if axis is None:
        axis = 0
        x = materialize(handler, x, None)
    pairs = _with_pair(
        beside(op.operand_batch, axis), beside(op.indices_batch, indices_axis), axis, indices_axis
    )
    both = Scatter(
        beside(op.window_dims, place),
        beside(op.inserted, axis),
        beside(op.start_index_map, axis),
        op.combiner,
        *pairs,
        unique=op.unique,
    )
    return both(x, indices, updates), axis


def _scatter_windows(
    handler: Vmap, op: Scatter, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    """Scatters to the same indices in all batch elements: the batch axis is one more axis of the windows."""
    (x, indices, updates), (axis, _, updates_axis) = values, axes
    removed = op.inserted + op.operand_batch
    if axis is None:
        # Where x gets its batch axis is free, so the updates keep theirs.
        assert updates_axis is not None
        axis = _opening(_others(x.type.ndim, removed), _count_before(updates_axis, op.window_dims))
        x = materialize(handler, x, None, axis)
    kept_before = _count_before(axis, _others(x.type.ndim - 1, removed))
    updates, place = _fitted(handler, updates, updates_axis, op.window_dims, kept_before)
    whole = Scatter(
        _with(beside(op.window_dims, place), place),
        beside(op.inserted, axis),
        beside(op.start_index_map, axis),
        op.combiner,
        beside(op.operand_batch, axis),
        op.indices_batch,
        op.sorted,
        op.unique,
    )
    return whole(x, indices, updates), axis


def _others(ndim: int, axes: Ints) -> Ints:
    return tuple([i for i in range(ndim) if i not in axes])


def _count_before(place: int, axes: Ints) -> int:
    """Returns how many of the other axes are before a batch axis at `place`."""
    return sum([a < place for a in axes])


def _opening(axes: Ints, count: int) -> int:
    """Returns the first index for a batch axis with `count` of `axes` before it."""
    return axes[count - 1] + 1 if count else 0


def _fitted(handler: Vmap, x: Array, axis: Axis, axes: Ints, count: int) -> tuple[Array, int]:
    """Returns x with a batch axis that has `count` of the increasing `axes` before it, and its index."""
    if axis is not None and _count_before(axis, axes) == count:
        return x, axis
    place = _opening(axes, count)
    return materialize(handler, x, axis, place), place


def _off_the_end(indices: Array, axis: int) -> tuple[Array, int]:
    # The last axis holds the start vectors.
    return (to_front(indices, axis), 0) if axis == indices.type.ndim - 1 else (indices, axis)


def _with(axes: Ints, axis: int) -> Ints:
    return tuple(sorted((*axes, axis)))


def _with_pair(operand_batch: Ints, indices_batch: Ints, axis: int, indices_axis: int) -> tuple[Ints, Ints]:
    """Adds a pair of axes; StableHLO wants those of x increasing."""
    pairs = sorted([*zip(operand_batch, indices_batch, strict=True), (axis, indices_axis)])
    return tuple([i for i, _ in pairs]), tuple([j for _, j in pairs])
