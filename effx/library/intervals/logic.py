"""Bounds of comparisons, choices, bits and conversions."""

import effx.numpy as enp
from effx.errors import DTypeError
from effx.handling import ArrayType, ops
from effx.library.intervals.enclosures import (
    Here,
    Interval,
    Intervals,
    bound_by_default,
    exactly,
    full_interval,
    hull,
    increasing,
    is_same,
    limits_of,
    outward,
    where,
)

__all__ = ["convert", "select"]


@Intervals.rule(ops.Lt, ops.Le)
def less(op: ops.Lt | ops.Le, x: Interval, y: Interval) -> Interval:
    return Interval(op(x.high, y.low), op(x.low, y.high))


@Intervals.rule(ops.Gt, ops.Ge)
def greater(op: ops.Gt | ops.Ge, x: Interval, y: Interval) -> Interval:
    return Interval(op(x.low, y.high), op(x.high, y.low))


@Intervals.site_rule(ops.Eq)
def equal(site: Here, op: ops.Eq, x: Interval, y: Interval) -> Interval:
    return _equal(site, x, y)


def _equal(site: Here, x: Interval, y: Interval) -> Interval:
    if is_same(site):
        true = enp.ones_like(exactly(x))
        return Interval(true, true)
    return Interval(
        exactly(x) & exactly(y) & ops.Eq()(x.low, y.low),
        (ops.Le()(x.low, y.high)) & (ops.Le()(y.low, x.high)),
    )


@Intervals.site_rule(ops.Ne)
def not_equal(site: Here, op: ops.Ne, x: Interval, y: Interval) -> Interval:
    same = _equal(site, x, y)
    return Interval(~same.high, ~same.low)


@Intervals.rule(ops.And, ops.Or)
def both(op: ops.And | ops.Or, x: Interval, y: Interval) -> Interval:
    return increasing(op, x, y) if x.low.type.kind == "b" else bound_by_default(op, x, y)


@Intervals.rule(ops.Not)
def opposite(op: ops.Not, x: Interval) -> Interval:
    # The bitwise not of an integer is -x - 1, and of an unsigned one the greatest value less x.
    return Interval(op(x.high), op(x.low))


@Intervals.rule(ops.IsFinite)
def is_finite(op: ops.IsFinite, x: Interval) -> Interval:
    inside = op(x.low) & op(x.high)
    return Interval(inside, inside | (x.low != x.high))


@Intervals.rule(ops.Select)
def select(op: ops.Select, which: Interval, *cases: Interval) -> Interval:
    first, every = hull(*cases), increasing(op, Interval(which.low, which.low), *cases)
    known, shape = exactly(which), every.low.shape
    if known.shape != shape:
        known = enp.broadcast_to(known, shape)
    return where(known, every, first)


@Intervals.rule(ops.Convert)
def convert(op: ops.Convert, x: Interval) -> Interval:
    kind = op.infer(x.low.type).kind
    if kind == "c":
        raise DTypeError(
            f"intervals: complex numbers have no order, got a conversion of {x.low.type!r} to {op.dtype}"
        )
    if kind == "b":
        zero = (x.low <= 0) & (x.high >= 0)
        return Interval(~zero, (x.low != 0) | (x.high != 0)) if x.low.type.kind != "b" else x
    y = increasing(op, x)
    if x.low.type.kind == "b":
        return y
    if kind == "f":
        return _round_outward(y, x.low.type)
    # A value that does not fit into an integer type has an undefined result.
    least, most = limits_of(op.dtype)
    old_least, old_most = limits_of(x.low.dtype)
    fits = enp.ones_like(exactly(y))
    if old_least < least:
        fits = fits & (x.low >= least)
    if old_most > most:
        fits = fits & (x.high <= most if x.low.type.kind != "f" else x.high < most + 0.5)
    return where(fits, y, full_interval(y.low.type))


def _round_outward(y: Interval, source: ArrayType) -> Interval:
    if source.kind == "f" and source.dtype.itemsize <= y.low.dtype.itemsize and source.dtype != enp.float16:
        return y
    return outward(y)


@Intervals.rule(ops.Bitcast)
def bitcast(op: ops.Bitcast, x: Interval) -> Interval:
    t = op.infer(x.low.type)
    return bound_by_default(op, x) if t.shape == x.low.shape else full_interval(t)


@Intervals.rule(ops.Threefry2x32)
def random_bits(op: ops.Threefry2x32, *xs: Interval) -> tuple[Interval, ...]:
    known = exactly(xs[0])
    for x in xs[1:]:
        known = known & exactly(x)
    return tuple(
        [where(known, Interval(word, word), full_interval(word.type)) for word in op(*[x.low for x in xs])]
    )
