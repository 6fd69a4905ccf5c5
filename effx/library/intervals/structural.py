"""Bounds of operations that move elements: applied to both bounds, with a hull over unknown indices."""

import math

import attrs

import effx.numpy as enp
from effx import Array
from effx.handling import Structural, ops
from effx.library.intervals.enclosures import (
    Interval,
    Intervals,
    exactly,
    hull,
    increasing,
    is_plain,
    magnitude,
    outward,
    top,
    where,
)

__all__ = ["all_exact", "over"]


@Intervals.rule(Structural, ops.Pad)
def move(op: Structural | ops.Pad, *xs: Interval) -> Interval:
    return increasing(op, *xs)


def over(x: Interval, axes: tuple[int, ...]) -> Interval:
    """Returns the hull along some axes, repeated along them; size 0 stays as it is."""
    if x.low.size == 0:
        return x
    low, high = enp.min(x.low, axis=axes, keepdims=True), enp.max(x.high, axis=axes, keepdims=True)
    return Interval(enp.broadcast_to(low, x.low.shape), enp.broadcast_to(high, x.low.shape))


def all_exact(x: Interval) -> Array:
    """Says whether x is a single array: bool[]."""
    return enp.all(exactly(x))


def _hull_along_axis(x: Interval, axis: int, known: Array) -> Interval:
    """Returns x where the index along an axis is known, else its hull along the axis."""
    return where(known, x, over(x, (axis,)))


@Intervals.rule(ops.DynamicSlice)
def dynamic_slice(op: ops.DynamicSlice, x: Interval, *starts: Interval) -> Interval:
    for axis, start in enumerate(starts):
        if not is_plain(start) and op.sizes[axis] < x.low.shape[axis]:
            x = _hull_along_axis(x, axis, exactly(start))
    return Interval(*[op(bound, *[s.low for s in starts]) for bound in (x.low, x.high)])


@Intervals.rule(ops.DynamicUpdateSlice)
def dynamic_update_slice(
    op: ops.DynamicUpdateSlice, x: Interval, update: Interval, *starts: Interval
) -> Interval:
    start_indices = [s.low for s in starts]
    result = Interval(op(x.low, update.low, *start_indices), op(x.high, update.high, *start_indices))
    unknown = [s for s in starts if not is_plain(s)]
    if not unknown or update.low.size == 0:
        return result
    known = exactly(unknown[0])
    for start in unknown[1:]:
        known = known & exactly(start)
    anywhere = Interval(enp.min(update.low), enp.max(update.high))
    return where(known, result, hull(x, anywhere))


@Intervals.rule(ops.Gather)
def gather(op: ops.Gather, x: Interval, indices: Interval) -> Interval:
    if not is_plain(indices):
        for k, axis in enumerate(op.start_index_map):
            x = _hull_along_axis(x, axis, enp.all(exactly(indices)[..., k]))
    return Interval(op(x.low, indices.low), op(x.high, indices.low))


@Intervals.rule(ops.Scatter)
def scatter(op: ops.Scatter, x: Interval, indices: Interval, updates: Interval) -> Interval:
    if updates.low.size == 0:
        return x
    bounds = _scatter_bounds(op, x, indices.low, updates)
    return (
        bounds
        if is_plain(indices)
        else where(all_exact(indices), bounds, _bounds_at_unknown_indices(op, x, updates))
    )


def _scatter_bounds(op: ops.Scatter, x: Interval, scatter_indices: Array, updates: Interval) -> Interval:
    plain = Interval(op(x.low, scatter_indices, updates.low), op(x.high, scatter_indices, updates.high))
    if op.combiner in ("set", "min", "max"):
        return plain
    if op.combiner == "add":
        if x.low.type.kind != "f":
            return where(
                _fits_in_operand(op, x, updates),
                plain,
                top(op, (x, Interval(scatter_indices, scatter_indices), updates)),
            )
        size = op(magnitude(x).high, scatter_indices, magnitude(updates).high)
        return outward(plain, 1.0, size * (_count(updates) * _eps(x)))
    # Products increase with their factors where none is negative; else only their magnitude is known.
    size = op(magnitude(x).high, scatter_indices, magnitude(updates).high)
    grows = enp.all(x.low >= 0) & enp.all(updates.low >= 0)
    if x.low.type.kind == "f":
        return outward(where(grows, plain, Interval(-size, size)), 2.0 * _count(updates))
    exact = all_exact(x) & all_exact(updates)
    return where(exact, plain, top(op, (x, Interval(scatter_indices, scatter_indices), updates)))


def _count(updates: Interval) -> float:
    return updates.low.size + 2.0


def _eps(x: Interval) -> float:
    return float(enp.finfo(x.low.dtype).eps)


def _fits_in_operand(op: ops.Scatter, x: Interval, updates: Interval) -> Array:
    # Integers: even if all updates have one index, nothing wraps around.
    if x.low.type.kind == "b":
        return enp.ones_like(enp.all(exactly(x)))
    limits = enp.iinfo(x.low.dtype)
    total = _sums(updates)
    least = enp.min(x.low).astype(enp.float32) + total.low
    most = enp.max(x.high).astype(enp.float32) + total.high
    return (least > limits.min * 0.99) & (most < limits.max * 0.99)


def _sums(updates: Interval) -> Interval:
    """Returns bounds of the sum of any of the updates, as floats."""
    low, high = [u.astype(enp.float32) for u in (updates.low, updates.high)]
    return Interval(enp.sum(enp.minimum(low, 0.0)) * 1.001, enp.sum(enp.maximum(high, 0.0)) * 1.001)


def _bounds_at_unknown_indices(op: ops.Scatter, x: Interval, updates: Interval) -> Interval:
    """Bounds for updates at unknown indices."""
    every = Interval(enp.min(updates.low), enp.max(updates.high))
    if op.combiner == "set":
        return hull(x, every)
    if op.combiner == "min":
        return Interval(enp.minimum(x.low, every.low), x.high)
    if op.combiner == "max":
        return Interval(x.low, enp.maximum(x.high, every.high))
    if op.combiner == "add" and x.low.type.kind == "f":
        zero = enp.zeros_like(updates.low)
        less, more = enp.sum(enp.minimum(updates.low, zero)), enp.sum(enp.maximum(updates.high, zero))
        size = enp.sum(magnitude(updates).high) + magnitude(x).high
        return outward(Interval(x.low + less, x.high + more), 1.0, size * (_count(updates) * _eps(x)))
    least, most = (-math.inf, math.inf) if x.low.type.kind == "f" else _limits(x)
    return Interval(enp.full_like(x.low, least), enp.full_like(x.low, most))


def _limits(x: Interval) -> tuple[int, int]:
    if x.low.type.kind == "b":
        return 0, 1
    return int(enp.iinfo(x.low.dtype).min), int(enp.iinfo(x.low.dtype).max)


@Intervals.rule(ops.Sort)
def sort(op: ops.Sort, *xs: Interval) -> tuple[Interval, ...]:
    # The k-th smallest element is no less than the k-th smallest lower bound. The order of the other operands
    # is known only where all keys of a row are known.
    key, *rest = xs
    alone = attrs.evolve(op, num_keys=1)
    (low,), (high,) = alone(key.low), alone(key.high)
    if not rest:
        return (Interval(low, high),)
    known = _along_known_axes(enp.all(_all(xs[: op.num_keys]), axis=op.axis, keepdims=True), key)
    moved = op(*[x.low for x in xs], *[x.high for x in rest])
    n = len(rest)
    others = [Interval(a, b) for a, b in zip(moved[1 : 1 + n], moved[1 + n :], strict=True)]
    return (
        Interval(low, high),
        *[where(known, y, over(x, (op.axis,))) for x, y in zip(rest, others, strict=True)],
    )


def _all(xs: tuple[Interval, ...]) -> Array:
    known = exactly(xs[0])
    for x in xs[1:]:
        known = known & exactly(x)
    return known


def _along_known_axes(known: Array, x: Interval) -> Array:
    return enp.broadcast_to(known, x.low.shape)
