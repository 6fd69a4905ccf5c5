"""Batching of collectives: those along this batch's axis name become operations on the batch axis."""

from typing import cast

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Box, HostArray
from effx.array.shaping import moveaxis
from effx.effects import handle
from effx.errors import ShapeError
from effx.handlers.vmap.handler import Axis, Batched, Vmap, materialize, rule
from effx.ir.ops.collective import (
    AllGather,
    AllToAll,
    AxisIndex,
    Collective,
    Grouped,
    PCast,
    PMax,
    PMin,
    PPermute,
    PSum,
    PSumScatter,
    PSumShared,
)
from effx.ir.ops.elementwise import Mul, Select
from effx.ir.ops.index import Gather
from effx.ir.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from effx.ir.ops.shape import BroadcastInDim, Iota, Reshape, Transpose
from effx.ir.types import array_type
from effx.ir.values.scalars import scalar

Values = tuple[Array, ...]
Axes = tuple[Axis, ...]


def is_along_batch(handler: Vmap, op: Collective) -> bool:
    """Returns whether the collective runs along this batch."""
    return handler.axis_name is not None and op.axis_name == handler.axis_name


def take_rows(x: Array, indices: list[int]) -> Array:
    """Returns x[indices]: rows along the leading axis."""
    if indices == list(range(x.type.shape[0])):
        return x
    t = x.type
    starts = HostArray(np.asarray(indices, np.int32)[:, None], array_type(dtypes.int32, (len(indices), 1)))
    return Gather(tuple(range(1, t.ndim)), (0,), (0,), (1, *t.shape[1:]))(x, starts)


def batch_in_groups(handler: Vmap, op: Grouped, x: Array, axis: Axis) -> tuple[Array, Axis]:
    """Runs a collective in groups: with the batch axis split into [g, k] it is one over k, batched over g."""
    assert op.groups is not None
    order = [i for group in op.groups for i in group]
    count, size = len(op.groups), len(op.groups[0])
    values = take_rows(materialize(handler, x, axis), order)
    values = Reshape((count, size, *values.type.shape[1:]))(values)
    t = values.type.with_shape(values.type.shape[2:])
    with handle(Vmap(count)) as outer, handle(Vmap(size, op.axis_name)) as inner:
        # The axes inside the frames: outer batch axis first, then the inner one.
        boxed_groups = Box(outer, Batched(values, 0), t.with_shape((size, *t.shape)))
        y = attrs.evolve(op, groups=None)(Box(inner, Batched(boxed_groups, 0), t))
        # The result belongs to the outer one of the two frames.
        group_axis = y.payload.axis if type(y) is Box and y.frame is inner else None
        shared = cast("Box", y.payload.value if type(y) is Box and y.frame is inner else y).payload
    if group_axis is None:  # equal in each group
        grouped = materialize(handler, shared.value, shared.axis)
        shape = grouped.type.shape
        grouped = BroadcastInDim((count, size, *shape[1:]), (0, *range(2, len(shape) + 1)))(grouped)
    else:
        grouped = moveaxis(moveaxis(shared.value, shared.axis, 0), group_axis + 1, 1)
    flat = Reshape((count * size, *grouped.type.shape[2:]))(grouped)
    inverse_order = [order.index(i) for i in range(len(order))]
    return take_rows(flat, inverse_order), 0


def reduce_over_batch(handler: Vmap, op: Grouped, x: Array, axis: Axis, over: type) -> tuple[Array, Axis]:
    """Batches a reduction over the batch axis."""
    if not is_along_batch(handler, op):
        return op(x), axis
    if op.groups is not None:
        return batch_in_groups(handler, op, x, axis)
    return (x if axis is None else over((axis,))(x)), None


@rule(PSum)
def batch_psum(handler: Vmap, op: PSum, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if axis is None and is_along_batch(handler, op) and op.groups is None:
        return multiply_by_size(x, handler.size), None
    return reduce_over_batch(handler, op, x, axis, ReduceSum)


def multiply_by_size(x: Array, size: int) -> Array:
    """Returns the sum of `size` copies of x."""
    # Integers wrap around, and so must the size.
    t = x.type
    count = int(np.asarray(size).astype(t.dtype)) if t.kind in "iu" else size
    return Mul()(x, scalar(count, t.dtype))


@rule(PMax)
def batch_pmax(handler: Vmap, op: PMax, values: Values, axes: Axes) -> tuple[Array, Axis]:
    return reduce_over_batch(handler, op, values[0], axes[0], ReduceMax)


@rule(PMin)
def batch_pmin(handler: Vmap, op: PMin, values: Values, axes: Axes) -> tuple[Array, Axis]:
    return reduce_over_batch(handler, op, values[0], axes[0], ReduceMin)


def check_axis_size(handler: Vmap, op: AllGather | AllToAll | PSumScatter) -> None:
    """Raises a ShapeError if the operation has another axis size."""
    if op.size != handler.size:
        raise ShapeError(
            f"{op.name}: size is {op.size}, but the axis {op.axis_name!r} has size {handler.size}"
        )


@rule(PSumShared)
def batch_psum_shared(handler: Vmap, op: PSumShared, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (y, x), (axis, other) = values, axes
    if is_along_batch(handler, op):
        return (y, axis) if other is not None else batch_psum(handler, PSum(op.axis_name), (y,), (axis,))
    return op(y, x), axis


@rule(AllGather)
def batch_all_gather(handler: Vmap, op: AllGather, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if is_along_batch(handler, op):
        if op.groups is not None:
            return batch_in_groups(handler, op, x, axis)
        check_axis_size(handler, op)
        y = materialize(handler, x, axis, op.axis)
        if op.tiled:
            shape = y.type.shape
            y = Reshape((*shape[: op.axis], op.size * shape[op.axis + 1], *shape[op.axis + 2 :]))(y)
        return y, None
    if axis is None:
        return op(x), None
    if op.tiled:
        return attrs.evolve(op, axis=op.axis + (op.axis >= axis))(x), axis
    # The new axis is axis `op.axis` of an element's result: after the batch axis if more than `axis` axes of
    # the element precede it, else before it, which shifts the batch axis.
    behind = op.axis > axis
    return attrs.evolve(op, axis=op.axis + behind)(x), axis + (not behind)


@rule(PSumScatter)
def batch_psum_scatter(handler: Vmap, op: PSumScatter, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if not is_along_batch(handler, op):
        return (
            (op(x), None) if axis is None else (attrs.evolve(op, axis=op.axis + (op.axis >= axis))(x), axis)
        )
    if op.groups is not None:
        return batch_in_groups(handler, op, x, axis)
    check_axis_size(handler, op)
    total = multiply_by_size(x, handler.size) if axis is None else ReduceSum((axis,))(x)
    shape = total.type.shape
    split_shape = (*shape[: op.axis], op.size, shape[op.axis] // op.size, *shape[op.axis + 1 :])
    return Reshape(split_shape)(total), op.axis


@rule(AllToAll)
def batch_all_to_all(handler: Vmap, op: AllToAll, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if not is_along_batch(handler, op):
        if axis is None:
            return op(x), None
        split, concat = op.split + (op.split >= axis), op.concat + (op.concat >= axis)
        return attrs.evolve(op, split=split, concat=concat)(x), axis
    if op.groups is not None:
        return batch_in_groups(handler, op, x, axis)
    check_axis_size(handler, op)
    y = materialize(handler, x, axis)
    # [j, ..., i * part, ...] -> [j, ..., i, part, ...]: j sends, i receives.
    shape = y.type.shape
    s = op.split + 1
    y = Reshape((*shape[:s], op.size, shape[s] // op.size, *shape[s + 1 :]))(y)
    # i comes to the front, j before the axis along which the parts are joined.
    rest = [a for a in range(1, y.type.ndim) if a != s]
    rest.insert(op.concat, 0)
    y = Transpose((s, *rest))(y)
    shape, c = y.type.shape, op.concat + 1
    return Reshape((*shape[:c], shape[c] * shape[c + 1], *shape[c + 2 :]))(y), 0


@rule(PPermute)
def batch_ppermute(handler: Vmap, op: PPermute, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if not is_along_batch(handler, op):
        return op(x), axis
    source = {d: s for s, d in op.perm}
    if axis is None and len(source) == handler.size:
        return x, None
    y = take_rows(materialize(handler, x, axis), [source.get(i, i) for i in range(handler.size)])
    if len(source) == handler.size:
        return y, 0
    t = array_type(dtypes.bool_, (handler.size,))
    receives = HostArray(np.asarray([i in source for i in range(handler.size)]), t)
    mask = BroadcastInDim(y.type.shape, (0,))(receives)
    return Select()(mask, BroadcastInDim(y.type.shape, ())(scalar(0, y.type.dtype)), y), 0


@rule(PCast)
def batch_pcast(handler: Vmap, op: PCast, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    return (x if is_along_batch(handler, op) else op(x)), axis


@rule(AxisIndex)
def batch_axis_index(handler: Vmap, op: AxisIndex, values: Values, axes: Axes) -> tuple[Array, Axis]:
    if not is_along_batch(handler, op):
        return op(), None
    return Iota(array_type(dtypes.int32, (handler.size,)), 0)(), 0
