"""Batching of elementwise operations, comparisons, conversions and random bits."""

from effx.array import Array
from effx.array.shaping import moveaxis
from effx.effects import perform
from effx.handlers.vmap.handler import Axis, Vmap, rule
from effx.ir.ops.base import Elementwise
from effx.ir.ops.convert import Bitcast, OptimizationBarrier
from effx.ir.ops.elementwise import Clamp
from effx.ir.ops.random import Threefry2x32
from effx.ir.ops.shape import BroadcastInDim


@rule(Elementwise)
def batch_elementwise(
    handler: Vmap, op: Elementwise, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    if len(values) == 1:
        return perform(op, values), axes[0]
    if len(values) == 2:
        # The usual cases of two operands: both batched along one axis, or one an unbatched scalar.
        (x, y), (a, b) = values, axes
        if a == b and x.type.ndim == y.type.ndim:
            return perform(op, values), a
        if b is None and not y.type.shape:
            return perform(op, values), a
        if a is None and not x.type.shape:
            return perform(op, values), b
    aligned, axis = align_operands(handler, values, axes)
    return op(*aligned), axis


def align_operands(
    handler: Vmap, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[list[Array], int]:
    """Broadcasts operands to one shape, including the batch axis, except unbatched scalars, which the operation
    itself broadcasts.
    """
    # The rank of a batch element, and a batched operand of that rank, whose axis is used.
    ndim = 0
    for x, a in zip(values, axes, strict=True):
        ndim = max(ndim, x.type.ndim - (a is not None))
    axis = 0
    for x, a in zip(values, axes, strict=True):
        if a is not None and x.type.ndim - 1 == ndim:
            axis = a
            break
    element_shape: tuple[int, ...] = ()
    for x, a in zip(values, axes, strict=True):
        shape = x.type.shape if a is None else x.type.shape[:a] + x.type.shape[a + 1 :]
        if len(shape) == ndim:
            element_shape = shape
            break
    batch_shape = element_shape[:axis] + (handler.size,) + element_shape[axis:]
    result: list[Array] = []
    for x, a in zip(values, axes, strict=True):
        if a is None:
            if x.type.shape:
                x = BroadcastInDim(batch_shape, tuple([i for i in range(ndim + 1) if i != axis]))(x)
        elif x.type.ndim - 1 == ndim:
            if a != axis:
                x = moveaxis(x, a, axis)
        else:  # a batched scalar beside arrays
            x = BroadcastInDim(batch_shape, (axis,))(x)
        result.append(x)
    return result, axis


@rule(Clamp)
def batch_clamp(
    handler: Vmap, op: Clamp, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    # Bounds of rank 0 are broadcast, x is not.
    (low, x, high), axis = align_operands(handler, values, axes)
    if not x.type.shape:
        x = BroadcastInDim((handler.size,), ())(x)
    return op(low, x, high), axis


@rule(Bitcast)
def batch_bitcast(
    handler: Vmap, op: Bitcast, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    # A change of width uses the last axis, which must not be the batch axis.
    if axis == x.type.ndim - 1:
        x, axis = moveaxis(x, axis, 0), 0
    return op(x), axis


@rule(OptimizationBarrier)
def batch_optimization_barrier(
    handler: Vmap, op: OptimizationBarrier, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    return op(*values), axes


@rule(Threefry2x32)
def batch_threefry2x32(
    handler: Vmap, op: Threefry2x32, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    aligned, axis = align_operands(handler, values, axes)
    return op(*aligned), (axis, axis)
