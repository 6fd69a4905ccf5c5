"""Bounds of matrix products, reductions, cumulative reductions and collectives.

The order in which XLA sums n terms is unknown; the error is at most n eps times the sum of the absolute
values of the terms (Higham 2002, section 4.2).
"""

import math
from collections.abc import Callable

import attrs

import effx.numpy as enp
from effx import Array
from effx.handling import ArrayOperation, Operation, ops
from effx.library.intervals.arithmetic import multiplied
from effx.library.intervals.enclosures import (
    Interval,
    Intervals,
    arithmetic,
    bound_by_default,
    exactly,
    increasing,
    is_plain,
    magnitude,
    outward,
    top,
    where,
)
from effx.library.intervals.structural import all_exact

# Up to this many products of elements are bounded one by one, which is exact.
FEW = 1 << 16


def widen_sum(op: Operation[Array], y: Interval, x: Interval, terms: int) -> Interval:
    """Widens sums y of elements of x by their rounding error."""
    if y.low.type.kind != "f":
        return y
    size = op(magnitude(x).high)
    return outward(y, 1.0, size * ((terms + 1) * float(enp.finfo(y.low.dtype).eps)))


@Intervals.rule(ops.ReduceSum)
def total(op: ops.ReduceSum, x: Interval) -> Interval:
    terms = math.prod([x.low.shape[i] for i in op.axes])
    return widen_sum(op, arithmetic(op, increasing, x, ulps=0.0), x, terms)


@Intervals.rule(ops.CumSum)
def running_total(op: ops.CumSum, x: Interval) -> Interval:
    return widen_sum(op, arithmetic(op, increasing, x, ulps=0.0), x, x.low.shape[op.axis])


@Intervals.rule(ops.ReduceMax, ops.ReduceMin, ops.CumMax, ops.CumMin, ops.PMax, ops.PMin)
def extreme(op: ArrayOperation, x: Interval) -> Interval:
    return increasing(op, x)


@Intervals.rule(ops.ReduceAnd, ops.ReduceOr, ops.ReduceXor)
def bits(op: ops.Reduction, x: Interval) -> Interval:
    if x.low.type.kind == "b" and type(op) is not ops.ReduceXor:
        return increasing(op, x)
    known = enp.all(exactly(x), axis=op.axes)
    return where(known, increasing(op, Interval(x.low, x.low)), top(op, (x,)))


def _multiply_bounds(x: Interval, y: Interval) -> Interval:
    return arithmetic(ops.Mul(), multiplied, x, y)


@Intervals.rule(ops.ReduceProd)
def product(op: ops.ReduceProd, x: Interval) -> Interval:
    # The two halves are multiplied until one element is left.
    y = _merge_axes_in_front(x, op.axes)
    if y.low.shape[0] == 0:
        return increasing(op, x)
    while (n := y.low.shape[0]) > 1:
        half = n // 2
        z = _multiply_bounds(_slice_bounds(y, 0, half), _slice_bounds(y, half, 2 * half))
        y = _combine_bounds(z, _slice_bounds(y, 2 * half, n))
    return _map(lambda a: a[0], y)


def _slice_bounds(x: Interval, start: int, stop: int) -> Interval:
    return Interval(x.low[start:stop], x.high[start:stop])


def _combine_bounds(x: Interval, y: Interval) -> Interval:
    return Interval(enp.concatenate([x.low, y.low]), enp.concatenate([x.high, y.high]))


def _map(f: Callable[[Array], Array], x: Interval) -> Interval:
    return Interval(f(x.low), f(x.high))


def _merge_axes_in_front(x: Interval, axes: tuple[int, ...]) -> Interval:
    """Moves some axes to the front and merges them."""
    remaining_axes = [i for i in range(x.low.ndim) if i not in axes]
    shape = tuple([x.low.shape[i] for i in remaining_axes])
    size = math.prod([x.low.shape[i] for i in axes])
    return _map(lambda a: enp.reshape(enp.transpose(a, (*axes, *remaining_axes)), (size, *shape)), x)


@Intervals.rule(ops.CumProd)
def running_product(op: ops.CumProd, x: Interval) -> Interval:
    # Doubling: after each step an element is the product of twice as many (Hillis & Steele 1986).
    y = _map(lambda a: enp.moveaxis(enp.flip(a, op.axis) if op.reverse else a, op.axis, 0), x)
    by, n = 1, y.low.shape[0]
    while by < n:
        y = _combine_bounds(
            _slice_bounds(y, 0, by), _multiply_bounds(_slice_bounds(y, by, n), _slice_bounds(y, 0, n - by))
        )
        by *= 2
    y = _map(lambda a: enp.moveaxis(a, 0, op.axis), y)
    return _map(lambda a: enp.flip(a, op.axis), y) if op.reverse else y


@Intervals.rule(ops.ArgMax, ops.ArgMin)
def bound_arg_reduction(op: ops.ArgReduction, x: Interval) -> Interval:
    # The result is between the first and the last index that can be the extreme one.
    if type(op) is ops.ArgMax:
        possible = x.high >= enp.max(x.low, axis=op.axis, keepdims=True)
    else:
        possible = x.low <= enp.min(x.high, axis=op.axis, keepdims=True)
    # Among known values it is the first extreme one.
    point = op(x.low)
    known = enp.all(exactly(x), axis=op.axis)
    first = ops.ArgMax(op.axis, op.index_dtype)
    last = x.low.shape[op.axis] - 1 - first(enp.flip(possible, op.axis))
    return where(known, Interval(point, point), Interval(first(possible), last.astype(point.dtype)))


@Intervals.rule(ops.DotGeneral)
def dot(op: ops.DotGeneral, x: Interval, y: Interval) -> Interval:
    if x.low.type.kind != "f":
        # Where other operands are integers, real intervals are computed in floats.
        return arithmetic(op, _dot, x, y)
    size = op(magnitude(x).high, magnitude(y).high)
    terms = math.prod([x.low.shape[i] for i in op.lhs_contract])
    eps = float(enp.finfo(size.dtype).eps)
    return outward(_dot(op, x, y), 1.0, size * ((3 * terms + 8) * eps))


def _dot(op: ops.DotGeneral, x: Interval, y: Interval) -> Interval:
    if x.low.type.kind == "f" and op.preferred is not None and not enp.issubdtype(op.preferred, enp.floating):
        op = attrs.evolve(op, preferred=None)
    t = op.infer(x.low.type, y.low.type)
    inner = math.prod([x.low.shape[i] for i in op.lhs_contract])
    is_exact = t.size * inner <= FEW or x.low.type.kind != "f"
    if is_exact and not (is_plain(x) or is_plain(y)):
        return _dot_by_elements(op, x, y, t.shape)
    return bilinear(op, x, y)


def bilinear(op: Operation[Array], x: Interval, y: Interval) -> Interval:
    """The bounds of an operation that is linear in each operand, without rounding; for two intervals floats only.

    They are exact where an operand is plain. For two intervals they are those of midpoints and radii (Rump 1999): at
    most 1.5 times as wide as the exact ones.
    """
    if is_plain(y):
        more, less = enp.maximum(y.low, 0), enp.minimum(y.low, 0)
        return Interval(op(x.low, more) + op(x.high, less), op(x.high, more) + op(x.low, less))
    if is_plain(x):
        more, less = enp.maximum(x.low, 0), enp.minimum(x.low, 0)
        return Interval(op(more, y.low) + op(less, y.high), op(more, y.high) + op(less, y.low))
    (mx, rx), (my, ry) = _midpoint_and_radius(x), _midpoint_and_radius(y)
    middle = op(mx, my)
    radius = op(enp.abs(mx), ry) + op(rx, enp.abs(my) + ry)
    return Interval(middle - radius, middle + radius)


def _midpoint_and_radius(x: Interval) -> tuple[Array, Array]:
    middle = x.low * 0.5 + x.high * 0.5
    return middle, enp.maximum(middle - x.low, x.high - middle)


def _dot_by_elements(op: ops.DotGeneral, x: Interval, y: Interval, shape: tuple[int, ...]) -> Interval:
    a = _map(lambda v: _to_three_axes(v, op.lhs_batch, op.lhs_contract)[:, :, None, :], x)
    b = _map(lambda v: _to_three_axes(v, op.rhs_batch, op.rhs_contract)[:, None, :, :], y)
    z = multiplied(op, a, b)
    return _map(lambda v: _accumulation_error(v, op).reshape(shape), z)


def _accumulation_error(v: Array, op: ops.DotGeneral) -> Array:
    return ops.ReduceSum((3,))(v if op.preferred is None else v.astype(op.preferred))


def _to_three_axes(x: Array, batch: tuple[int, ...], contract: tuple[int, ...]) -> Array:
    """Returns x with three axes: batch, free, contracted."""
    free = tuple([i for i in range(x.ndim) if i not in batch and i not in contract])
    sizes = [math.prod([x.shape[i] for i in axes]) for axes in (batch, free, contract)]
    return enp.reshape(enp.transpose(x, (*batch, *free, *contract)), tuple(sizes))


@Intervals.rule(ops.AllGather, ops.AllToAll, ops.PPermute)
def bound_collective(op: ops.Collective, x: Interval) -> Interval:
    return increasing(op, x)


@Intervals.rule(ops.PSum, ops.PSumScatter)
def sum_over_members(op: ops.Grouped, x: Interval) -> Interval:
    y = increasing(op, x)
    if y.low.type.kind != "f":
        return where(all_exact(x), y, top(op, (x,)))
    count = op(enp.ones_like(x.low)) + 1.0
    return outward(y, 1.0, op(magnitude(x).high) * count * float(enp.finfo(y.low.dtype).eps))


@Intervals.rule(ops.PSumShared)
def sum_if_shared(op: ops.PSumShared, y: Interval, x: Interval) -> Interval:
    return bound_by_default(op, y, x)
