"""Batching of collectives: along this batch's name they become reductions of the batch axis.

Never: take a name of another handler's; such a collective goes outward with the batch axis in place.
"""

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.promotion import scalar
from effx.errors import ShapeError
from effx.handlers.vmap.handler import Axis, Vmap, materialize, rule
from effx.ir.ops.collective import AllGather, AxisIndex, Collective, PMax, PMin, PSum
from effx.ir.ops.elementwise import Mul
from effx.ir.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from effx.ir.ops.shape import Iota, Reshape
from effx.ir.types import array_type

Values = tuple[Array, ...]
Axes = tuple[Axis, ...]


def is_ours(handler: Vmap, op: Collective) -> bool:
    """Says whether the collective runs along this batch."""
    return handler.axis_name is not None and op.axis_name == handler.axis_name


@rule(PSum)
def psum(handler: Vmap, op: PSum, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if not is_ours(handler, op):
        return op(x), axis
    if axis is not None:
        return ReduceSum((axis,))(x), None
    # All members hold x. Integers wrap around, and so must the size.
    t = x.type
    size = int(np.asarray(handler.size).astype(t.dtype)) if t.kind in "iu" else handler.size
    return Mul()(x, scalar(size, t.dtype)), None


@rule(PMax)
def pmax(handler: Vmap, op: PMax, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if not is_ours(handler, op):
        return op(x), axis
    return (x if axis is None else ReduceMax((axis,))(x)), None


@rule(PMin)
def pmin(handler: Vmap, op: PMin, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if not is_ours(handler, op):
        return op(x), axis
    return (x if axis is None else ReduceMin((axis,))(x)), None


@rule(AllGather)
def all_gather(handler: Vmap, op: AllGather, values: Values, axes: Axes) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    if is_ours(handler, op):
        if op.size != handler.size:
            raise ShapeError(
                f"all_gather: size is {op.size}, but the axis {op.axis_name!r} has {handler.size} members"
            )
        y = materialize(handler, x, axis, op.axis)
        if op.tiled:
            shape = y.type.shape
            y = Reshape((*shape[: op.axis], op.size * shape[op.axis + 1], *shape[op.axis + 2 :]))(y)
        return y, None
    if axis is None:
        return op(x), None
    if op.tiled:
        return AllGather(op.axis_name, op.axis + (op.axis >= axis), op.size, True)(x), axis
    # The new axis is the member result's axis `op.axis`: behind the batch axis if more than
    # `axis` axes of the member precede it, else before it, which moves the batch axis up.
    behind = op.axis > axis
    return AllGather(op.axis_name, op.axis + behind, op.size)(x), axis + (not behind)


@rule(AxisIndex)
def axis_index(handler: Vmap, op: AxisIndex, values: Values, axes: Axes) -> tuple[Array, Axis]:
    if not is_ours(handler, op):
        return op(), None
    return Iota(array_type(dtypes.int32, (handler.size,)), 0)(), 0
