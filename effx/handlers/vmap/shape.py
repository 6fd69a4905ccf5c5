"""Batching of operations that move, repeat or slice elements."""

from math import prod

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert
from effx.handlers.vmap.handler import Axis, Vmap, insert_entry, materialize, move_to_front, rule, shift_axes
from effx.ir.ops.base import ArrayOperation
from effx.ir.ops.convert import Convert
from effx.ir.ops.elementwise import Clamp, Select
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.shape import (
    BroadcastInDim,
    Concatenate,
    DynamicSlice,
    DynamicUpdateSlice,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from effx.ir.ops.sizes import SizeValue
from effx.ir.types import Shape
from effx.ir.values.scalars import scalar

Values = tuple[Array, ...]
Axes = tuple[Axis, ...]


@rule(BroadcastInDim)
def batch_broadcast_in_dim(
    handler: Vmap, op: BroadcastInDim, values: Values, axes: Axes
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    # Right behind the axis that precedes it in x, so that dims remain increasing.
    result_axis = op.dims[axis - 1] + 1 if axis else 0
    dims = insert_entry(shift_axes(op.dims, result_axis), axis, result_axis)
    return BroadcastInDim(insert_entry(op.shape, result_axis, handler.size), dims)(x), result_axis


@rule(Reshape)
def batch_reshape(handler: Vmap, op: Reshape, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    # A reshape splits at the batch axis in row-major order: it stays between the same numbers of elements.
    before = prod(x.type.shape[:axis])
    for result_axis in range(len(op.shape) + 1):
        if prod(op.shape[:result_axis]) == before:
            return Reshape(insert_entry(op.shape, result_axis, handler.size))(x), result_axis
    return Reshape((handler.size, *op.shape))(move_to_front(x, axis)), 0


@rule(Transpose)
def batch_transpose(handler: Vmap, op: Transpose, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    return Transpose(insert_entry(shift_axes(op.perm, axis), axis, axis))(x), axis


@rule(Reverse)
def batch_reverse(handler: Vmap, op: Reverse, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    return Reverse(shift_axes(op.axes, axis))(x), axis


@rule(Concatenate)
def batch_concatenate(handler: Vmap, op: Concatenate, values: Values, axes: Axes) -> tuple[Array, Axis]:
    result_axis = next(a for a in axes if a is not None)
    aligned = [materialize(handler, x, a, result_axis) for x, a in zip(values, axes, strict=True)]
    return Concatenate(op.axis + (op.axis >= result_axis))(*aligned), result_axis


@rule(Pad)
def batch_pad(handler: Vmap, op: Pad, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x, value), (axis, value_axis) = values, axes
    if value_axis is None:
        assert axis is not None
        return _pad_beside(op, x, value, axis), axis
    # The padding value is batched: pad with zeros, and insert the values by a mask.
    result_axis = 0 if axis is None else axis
    shape = x.type.shape if axis is None else x.type.shape[:axis] + x.type.shape[axis + 1 :]
    inside = op(BroadcastInDim(shape, ())(scalar(True, dtypes.bool_)), scalar(False, dtypes.bool_))
    zero = scalar(0, x.type.dtype)
    padded = op(x, zero) if axis is None else _pad_beside(op, x, zero, axis)
    if x.type.weak:  # only x's weak type makes the result weak
        value = convert(value, x.type.dtype, True)
    full = insert_entry(inside.type.shape, result_axis, handler.size)
    filling = BroadcastInDim(full, (result_axis,))(value)
    padded = materialize(handler, padded, axis, result_axis)
    return Select()(materialize(handler, inside, None, result_axis), filling, padded), result_axis


def _pad_beside(op: Pad, x: Array, value: Array, axis: int) -> Array:
    return Pad(
        insert_entry(op.low, axis, 0), insert_entry(op.high, axis, 0), insert_entry(op.interior, axis, 0)
    )(x, value)


@rule(Slice)
def batch_slice(handler: Vmap, op: Slice, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    limit = insert_entry(op.limit, axis, handler.size)
    return Slice(insert_entry(op.start, axis, 0), limit, insert_entry(op.strides, axis, 1))(x), axis


@rule(DynamicSlice)
def batch_dynamic_slice(handler: Vmap, op: DynamicSlice, values: Values, axes: Axes) -> tuple[Array, Axis]:
    x, axis = values[0], axes[0]
    shape = x.type.shape if axis is None else x.type.shape[:axis] + x.type.shape[axis + 1 :]
    free = _free_axes(op.sizes, shape)
    if all([axes[1 + i] is None for i in free]):
        starts = _plain_starts(values[1:], free)
        if axis is None:
            return op(x, *starts), None
        zero = scalar(0, starts[0].type.dtype if starts else dtypes.int32)
        return DynamicSlice(insert_entry(op.sizes, axis, handler.size))(
            x, *starts[:axis], zero, *starts[axis:]
        ), axis
    # Gather clamps starts as DynamicSlice does.
    indices = _start_vectors(handler, [(values[1 + i], axes[1 + i]) for i in free])
    offset_dims = tuple(range(1, len(shape) + 1))
    if axis is None:
        return Gather(offset_dims, (), free, op.sizes)(x, indices), 0
    sizes = insert_entry(op.sizes, axis, min(1, handler.size))
    return Gather(offset_dims, (), shift_axes(free, axis), sizes, (axis,), (0,), unique=True)(x, indices), 0


@rule(DynamicUpdateSlice)
def batch_dynamic_update_slice(
    handler: Vmap, op: DynamicUpdateSlice, values: Values, axes: Axes
) -> tuple[Array, Axis]:
    (x, update), (axis, update_axis) = values[:2], axes[:2]
    shape = x.type.shape if axis is None else x.type.shape[:axis] + x.type.shape[axis + 1 :]
    block = update.type.shape
    if update_axis is not None:
        block = block[:update_axis] + block[update_axis + 1 :]
    free = _free_axes(block, shape)
    if all([axes[2 + i] is None for i in free]):
        starts = _plain_starts(values[2:], free)
        result_axis = axis if axis is not None else update_axis
        if result_axis is None:
            return op(x, update, *starts), None
        zero = scalar(0, starts[0].type.dtype if starts else dtypes.int32)
        x = materialize(handler, x, axis, result_axis)
        update = materialize(handler, update, update_axis, result_axis)
        return op(x, update, *starts[:result_axis], zero, *starts[result_axis:]), result_axis
    # Scatter drops updates out of bounds, so the starts are clamped here.
    pairs = [(_clamp_start(values[2 + i], shape[i] - block[i]), axes[2 + i]) for i in free]
    indices = _start_vectors(handler, pairs)
    if x.type.weak and not update.type.weak:
        x = convert(x, x.type.dtype, False)
    result_axis = 0 if axis is None else axis
    batched_scatter = Scatter(
        tuple(range(1, len(shape) + 1)),
        (),
        shift_axes(free, result_axis),
        "set",
        (result_axis,),
        (0,),
        unique=True,
    )
    x = materialize(handler, x, axis, result_axis)
    return batched_scatter(x, indices, materialize(handler, update, update_axis)), result_axis


def _free_axes(block: Shape, shape: Shape) -> tuple[int, ...]:
    """Returns the axes along which a block can move; along the others its start is clamped to 0."""
    return tuple([i for i, (b, n) in enumerate(zip(block, shape, strict=True)) if b != n])


def _plain_starts(starts: Values, free: tuple[int, ...]) -> list[Array]:
    return [s if i in free else scalar(0, s.type.dtype) for i, s in enumerate(starts)]


def _clamp_start(start: Array, last: int) -> Array:
    if dtypes.bits(start.type.dtype) < 32:  # `last` may not fit
        start = Convert(dtypes.int32)(start)
    dtype = start.type.dtype
    return Clamp()(scalar(0, dtype), start, scalar(last, dtype))


def _start_vectors(handler: Vmap, starts: list[tuple[Array, Axis]]) -> Array:
    """Stacks scalar starts, batched or not, into one vector for each batch element."""
    columns = [BroadcastInDim((handler.size, 1), () if a is None else (0,))(s) for s, a in starts]
    return columns[0] if len(columns) == 1 else Concatenate(1)(*columns)


@rule(Iota, SizeValue)
def batch_without_operands(
    handler: Vmap, op: ArrayOperation, values: Values, axes: Axes
) -> tuple[Array, Axis]:
    return op(), None
