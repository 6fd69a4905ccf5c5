"""Batching of reductions and cumulative reductions."""

import attrs

from effx.array import Array
from effx.handlers.vmap.handler import Axis, Vmap, beside, rule
from effx.ir.ops.reduce import ArgReduction, Cumulative, Reduction


@rule(Reduction)
def reduction(
    handler: Vmap, op: Reduction, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    reduced = beside(op.axes, axis)
    return attrs.evolve(op, axes=reduced)(x), axis - sum([r < axis for r in reduced])


@rule(ArgReduction)
def arg_reduction(
    handler: Vmap, op: ArgReduction, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    reduced = op.axis + (op.axis >= axis)
    return attrs.evolve(op, axis=reduced)(x), axis - (reduced < axis)


@rule(Cumulative)
def cumulative(
    handler: Vmap, op: Cumulative, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    return attrs.evolve(op, axis=op.axis + (op.axis >= axis))(x), axis
