"""Bounds of arithmetic, powers and elementary functions."""

import math

import effx.numpy as enp
from effx import Array
from effx.handling import ArrayOperation, Elementwise, Monotone, Unary, ops
from effx.library.intervals.enclosures import (
    LIBRARY_ULPS,
    Here,
    Interval,
    Intervals,
    arithmetic,
    bound_by_default,
    clip_interval,
    exactly,
    full_interval,
    increasing,
    is_plain,
    is_same,
    magnitude,
    outward,
    where,
)

__all__ = ["add", "multiplied"]

# The range of an operation, which no rounding leaves.
RANGES: dict[type[object], tuple[float, float]] = {
    ops.Exp: (0.0, math.inf),
    ops.Exp2: (0.0, math.inf),
    ops.Expm1: (-1.0, math.inf),
    ops.Tanh: (-1.0, 1.0),
    ops.Logistic: (0.0, 1.0),
}


@Intervals.rule(Elementwise)
def elementwise(op: Elementwise, *xs: Interval) -> Interval:
    # Serves operations without a rule of their own class: increasing functions, or any.
    if not isinstance(op, Monotone):
        return bound_by_default(op, *xs)
    y = outward(increasing(op, *xs), LIBRARY_ULPS)
    return clip_interval(y, *RANGES[type(op)]) if type(op) in RANGES else y


@Intervals.rule(ops.Floor, ops.Ceil, ops.RoundAwayFromZero, ops.RoundToEven, ops.ReducePrecision, ops.Sign)
@Intervals.rule(ops.Max, ops.Min, ops.Clamp, ops.StopGradient, ops.Copy, ops.Identity)
def without_rounding(op: ArrayOperation, *xs: Interval) -> Interval:
    return increasing(op, *xs)


@Intervals.rule(ops.Neg)
def negative(op: ops.Neg, x: Interval) -> Interval:
    return arithmetic(op, lambda op, x: Interval(op(x.high), op(x.low)), x, ulps=0.0)


@Intervals.rule(ops.Add)
def add(op: ops.Add, x: Interval, y: Interval) -> Interval:
    return arithmetic(op, increasing, x, y)


@Intervals.site_rule(ops.Sub)
def subtract(site: Here, op: ops.Sub, x: Interval, y: Interval) -> Interval:
    if is_same(site):
        zero = enp.zeros_like(x.low)
        return Interval(zero, zero)
    return arithmetic(op, lambda op, x, y: Interval(op(x.low, y.high), op(x.high, y.low)), x, y)


def hull_of_values(values: list[Array]) -> Interval:
    """Returns the hull of the values that are not NaN."""
    low = high = values[0]
    for v in values[1:]:
        low, high = enp.fmin(low, v), enp.fmax(high, v)
    return Interval(low, high)


def _product(x: Array, y: Array) -> Array:
    # 0 * inf is 0 here: the infinite bound is a limit, and 0 times each finite value is 0.
    z = x * y
    return enp.where(z != z, enp.zeros_like(z), z) if z.type.kind == "f" else z


def multiplied(op: object, x: Interval, y: Interval) -> Interval:
    """Returns the bounds of products, without rounding."""
    if is_plain(x):
        x, y = y, x
    if is_plain(y):
        return hull_of_values([_product(x.low, y.low), _product(x.high, y.low)])
    return hull_of_values([_product(a, b) for a in (x.low, x.high) for b in (y.low, y.high)])


@Intervals.site_rule(ops.Mul)
def multiply(site: Here, op: ops.Mul, x: Interval, y: Interval) -> Interval:
    # One value times itself is a square: it has no other sign.
    square = is_same(site) and x.low.type.kind != "b"
    return bound_even_function(ops.Square(), x) if square else arithmetic(op, multiplied, x, y)


@Intervals.rule(ops.Div)
def divide(op: ops.Div, x: Interval, y: Interval) -> Interval:
    across = (y.low <= 0) & (y.high >= 0)
    one = enp.ones_like(y.low)
    safe = where(across, Interval(one, one), y)
    result = arithmetic(op, _quotient, x, safe)
    return where(across, full_interval(op.infer(x.low.type, y.low.type)), result)


def _quotient(op: ops.Div, x: Interval, y: Interval) -> Interval:
    return hull_of_values([op(a, b) for a in (x.low, x.high) for b in (y.low, y.high)])


@Intervals.rule(ops.Rem)
def remainder(op: ops.Rem, x: Interval, y: Interval) -> Interval:
    # x rem y has the sign of x and is smaller than both in size. While x / y stays between two integers it is
    # x - n y, which grows with x. Of integers, x rem 0 is x; the least one has no size that fits.
    by, of = magnitude(x).high, magnitude(y).high
    most = enp.where((y.low <= 0) & (y.high >= 0), by, enp.minimum(by, of))
    zero = enp.zeros_like(most)
    wide = Interval(enp.where(x.low < 0, -most, zero), enp.where(x.high > 0, most, zero))
    a, b, width = op(x.low, y.low), op(x.high, y.low), x.width
    same = exactly(y) & ((x.low >= 0) | (x.high <= 0)) & (a <= b) & (width >= 0) & (width < of)
    bounds = where(same, Interval(a, b), wide)
    return where((by < 0) | (of < 0), full_interval(a.type), bounds)


@Intervals.rule(ops.Abs)
def absolute(op: ops.Abs, x: Interval) -> Interval:
    return arithmetic(op, lambda op, x: magnitude(x), x, ulps=0.0) if x.low.type.kind == "i" else magnitude(x)


@Intervals.rule(ops.Square, ops.Cosh)
def bound_even_function(op: ops.Square | ops.Cosh, x: Interval) -> Interval:
    """Functions of |x| that increase with it."""
    ulps = 1.0 if type(op) is ops.Square else LIBRARY_ULPS
    y = arithmetic(op, lambda op, x: increasing(op, magnitude(x)), x, ulps=ulps)
    return Interval(enp.maximum(y.low, 0 if type(op) is ops.Square else 1), y.high)


@Intervals.rule(ops.OneMinusSquare)
def bound_one_minus_square(op: ops.OneMinusSquare, x: Interval) -> Interval:
    """Decreases with |x|, from 1."""
    y = arithmetic(op, lambda op, x: Interval(op(magnitude(x).high), op(magnitude(x).low)), x, ulps=8.0)
    return Interval(y.low, enp.minimum(y.high, 1))


@Intervals.rule(ops.IntegerPow)
def integer_power(op: ops.IntegerPow, x: Interval) -> Interval:
    n = op.exponent
    if n < 0:
        one = enp.ones_like(x.low)
        return divide(ops.Div(), Interval(one, one), integer_power(ops.IntegerPow(-n), x))
    y = arithmetic(
        op, lambda op, x: increasing(op, x if n % 2 else magnitude(x)), x, ulps=2.0 * n.bit_length() + n
    )
    return y if n % 2 else Interval(enp.maximum(y.low, 0), y.high)


@Intervals.rule(ops.Pow)
def power(op: ops.Pow, x: Interval, y: Interval) -> Interval:
    # exp(y log |x|): y log |x| is bilinear, so its extremes are at corners. A negative base is defined for
    # integers y only; their parity gives the sign.
    broken = exactly(y) & (y.low != enp.floor(y.low))
    defined = clip_interval(x, 0.0, math.inf)
    # The power of -inf is that of inf for all y but odd integers.
    defined = Interval(defined.low, enp.where(x.low == -math.inf, math.inf, defined.high))
    size = where(broken, defined, magnitude(x))
    z = outward(
        hull_of_values([op(a, b) for a in (size.low, size.high) for b in (y.low, y.high)]), 4 * LIBRARY_ULPS
    )
    z = Interval(enp.maximum(z.low, 0.0), z.high)
    half = y.low * 0.5
    sign_known = (x.low >= 0) | broken | (exactly(y) & (half == enp.floor(half)))
    return where(sign_known, z, Interval(-z.high, z.high))


@Intervals.rule(ops.Atan2)
def angle(op: ops.Atan2, y: Interval, x: Interval) -> Interval:
    # A rectangle without the origin has its extreme angles at corners; one that crosses the cut has all
    # angles.
    bounds = hull_of_values([op(a, b) for a in (y.low, y.high) for b in (x.low, x.high)])
    cut = (y.low <= 0) & (y.high >= 0) & (x.low <= 0)
    every = Interval(enp.full_like(bounds.low, -math.pi), enp.full_like(bounds.low, math.pi))
    return outward(where(cut, every, bounds), LIBRARY_ULPS)


@Intervals.rule(ops.NextAfter)
def next_after(op: ops.NextAfter, x: Interval, y: Interval) -> Interval:
    return Interval(op(x.low, enp.minimum(x.low, y.low)), op(x.high, enp.maximum(x.high, y.high)))


def _register_monotone(kind: type[Unary], low: float, high: float, falls: bool = False) -> None:
    """Registers the rule of a function that is monotone on its domain."""

    @Intervals.rule(kind)
    def rule(op: Unary, x: Interval) -> Interval:
        inside = clip_interval(x, low, high)
        y = increasing(op, Interval(inside.high, inside.low) if falls else inside)
        return outward(y, LIBRARY_ULPS)


_register_monotone(ops.Log, 0.0, math.inf)
_register_monotone(ops.Log1p, -1.0, math.inf)
_register_monotone(ops.Rsqrt, 0.0, math.inf, falls=True)
_register_monotone(ops.Asin, -1.0, 1.0)
_register_monotone(ops.Acos, -1.0, 1.0, falls=True)
_register_monotone(ops.Acosh, 1.0, math.inf)
_register_monotone(ops.Atanh, -1.0, 1.0)
_register_monotone(ops.ErfInv, -1.0, 1.0)
_register_monotone(ops.Erfc, -math.inf, math.inf, falls=True)


@Intervals.rule(ops.Sqrt)
def square_root(op: ops.Sqrt, x: Interval) -> Interval:
    y = outward(increasing(op, clip_interval(x, 0.0, math.inf)))
    return Interval(enp.maximum(y.low, 0.0), y.high)


def _error_bound(x: Interval) -> Array:
    """Returns a bound of the error of a multiple of pi near x."""
    return (magnitude(x).high + 8.0) * (8.0 * float(enp.finfo(x.low.dtype).eps))


def _contains_point(x: Interval, offset: float, period: float) -> Array:
    """Says whether x contains, or nearly contains, `place + k period` for an integer k."""
    slack = _error_bound(x)
    k = enp.ceil((x.low - slack - offset) / period)
    return offset + k * period <= x.high + slack


@Intervals.rule(ops.Sin, ops.Cos)
def wave(op: ops.Sin | ops.Cos, x: Interval) -> Interval:
    peak = math.pi / 2 if type(op) is ops.Sin else 0.0
    ends = hull_of_values([op(x.low), op(x.high)])
    # Near a zero the error of the argument's reduction dominates, which is absolute.
    y = outward(ends, LIBRARY_ULPS, enp.full_like(ends.low, 4.0 * float(enp.finfo(ends.low.dtype).eps)))
    low = enp.where(_contains_point(x, peak + math.pi, 2 * math.pi), -1.0, enp.maximum(y.low, -1.0))
    return Interval(low, enp.where(_contains_point(x, peak, 2 * math.pi), 1.0, enp.minimum(y.high, 1.0)))


@Intervals.rule(ops.Tan)
def tangent(op: ops.Tan, x: Interval) -> Interval:
    y = outward(
        increasing(op, x), LIBRARY_ULPS, enp.full_like(x.low, 4.0 * float(enp.finfo(x.low.dtype).eps))
    )
    return where(_contains_point(x, math.pi / 2, math.pi), full_interval(x.low.type), y)
