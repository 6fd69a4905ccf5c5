"""Batching of reductions and cumulative reductions."""

import attrs

from effx.array import Array
from effx.handlers.vmap.handler import Axis, Vmap, rule, shift_axes
from effx.ir.ops.reduce import ArgReduction, Cumulative, Reduction


@rule(Reduction)
def batch_reduction(
    handler: Vmap, op: Reduction, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    reduced = shift_axes(op.axes, axis)
    return attrs.evolve(op, axes=reduced)(x), axis - sum([r < axis for r in reduced])


@rule(ArgReduction)
def batch_arg_reduction(
    handler: Vmap, op: ArgReduction, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    reduced = op.axis + (op.axis >= axis)
    return attrs.evolve(op, axis=reduced)(x), axis - (reduced < axis)


@rule(Cumulative)
def batch_cumulative(
    handler: Vmap, op: Cumulative, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    return attrs.evolve(op, axis=op.axis + (op.axis >= axis))(x), axis
