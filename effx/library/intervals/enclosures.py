"""Intervals, rounding outward, and the handler whose boxes carry intervals.

Soundness: f(x) is between the bounds for every x in the intervals at which no operation gives NaN, as in
IEEE 1788-2015, where a function is evaluated on the part of its domain inside the intervals. This holds for
the real values and for those that XLA computes, because each operation widens its result by more than its
error.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import attrs

import effx.numpy as enp
from effx import Array, lax
from effx.dtypes import DType
from effx.errors import DTypeError
from effx.handling import ArrayOperation, ArrayType, BoxHandler, Operation, Site
from effx.ir.values.array import Operand

__all__ = ["Here", "Interval", "Intervals", "exactly", "hull", "is_plain", "magnitude", "outward", "top"]

# The errors of XLA's elementary functions are below this many units in the last place; tests measure it.
LIBRARY_ULPS = 16.0


@final
@attrs.frozen
class Interval:
    """All values between two bounds, element by element; of booleans, False comes before True.

    The operators + - * / ** treat their operands as independent.

    Attributes:
        low, high: arrays of one shape and one real dtype, `low <= high`.

    >>> import effx.numpy as enp
    >>> x = Interval(enp.array(1.0), enp.array(2.0))
    >>> bool(x.contains(1.5)), bool((x - x).contains(-1.0))
    (True, True)
    """

    low: Array
    high: Array

    def contains(self, x: Operand) -> Array:
        """Returns for each element whether x is between the bounds: bool[*shape]."""
        return (self.low <= x) & (x <= self.high)

    @property
    def width(self) -> Array:
        """The distance between the bounds."""
        return self.high - self.low

    def __neg__(self) -> "Interval":
        return _compute_outward(operator.neg, self)

    def __abs__(self) -> "Interval":
        return _compute_outward(abs, self)

    def __add__(self, other: "Interval | Operand") -> "Interval":
        return _compute_outward(operator.add, self, other)

    def __radd__(self, other: Operand) -> "Interval":
        return _compute_outward(operator.add, other, self)

    def __sub__(self, other: "Interval | Operand") -> "Interval":
        return _compute_outward(operator.sub, self, other)

    def __rsub__(self, other: Operand) -> "Interval":
        return _compute_outward(operator.sub, other, self)

    def __mul__(self, other: "Interval | Operand") -> "Interval":
        return _compute_outward(operator.mul, self, other)

    def __rmul__(self, other: Operand) -> "Interval":
        return _compute_outward(operator.mul, other, self)

    def __truediv__(self, other: "Interval | Operand") -> "Interval":
        return _compute_outward(operator.truediv, self, other)

    def __rtruediv__(self, other: Operand) -> "Interval":
        return _compute_outward(operator.truediv, other, self)

    def __pow__(self, exponent: int) -> "Interval":
        return _compute_outward(lambda x: x**exponent, self)


@final
@attrs.frozen
class Intervals(BoxHandler[Interval]):
    """Runs a function on intervals: interval arithmetic (Moore, Kearfott & Cloud 2009).

    >>> import effx.numpy as enp
    >>> from effx.library.intervals import Interval, Intervals
    >>> result = Intervals().run(lambda x: 1.0 - x, Interval(enp.array(0.0), enp.array(3.0)))
    >>> print(f"{result.low:.3f} {result.high:.3f}")          # bounds are rounded outward
    -2.000 1.000
    """

    name = "intervals"

    def lift(self, x: Array) -> Interval:
        """A plain value: low and high are the same array, by which rules recognise it."""
        if x.type.kind == "c":
            raise DTypeError(f"intervals: complex numbers have no order, got {x.type!r}")
        return Interval(x, x)

    def join(self, a: Interval, b: Interval) -> Interval:
        """The hull, which covers the results of either branch."""
        return hull(a, b)

    def grow(self, before: Interval, after: Interval) -> Interval:
        """Widens a bound that has moved to 0 or the next power of 16; of integers, to the limit."""
        low, high = [enp.asarray(x, before.low.dtype) for x in limits_of(before.low.dtype)]
        zero = enp.zeros_like(before.low)
        if zero.type.kind == "f":
            low, high = -_power(after.low), _power(after.high)
        down = enp.where(after.low >= zero, zero, enp.minimum(after.low, low).astype(zero.dtype))
        up = enp.where(after.high <= zero, zero, enp.maximum(after.high, high).astype(zero.dtype))
        return Interval(
            enp.where(after.low >= before.low, before.low, down),
            enp.where(after.high <= before.high, before.high, up),
        )


def _power(x: Array) -> Array:
    """Returns the power of 16 from |x| on, at least 1."""
    return enp.exp2(4.0 * enp.ceil(enp.log2(enp.maximum(enp.abs(x), 1.0)) / 4.0))


def _compute_outward(f: Callable[..., Array], *operands: Interval | Operand) -> Interval:
    result: Interval = Intervals().run(f, *operands)
    return result


Here: TypeAlias = Site[Intervals]


def is_same(site: Here) -> bool:
    """Says whether both operands of an operation are one value."""
    return site.operands[0] is site.operands[1]


def is_plain(x: Interval) -> bool:
    """Says whether x is known to be a single value while staging."""
    return x.low is x.high


def exactly(x: Interval) -> Array:
    """Says for each element whether x is a single value: bool[*shape]."""
    return x.low == x.high


def hull(*xs: Interval) -> Interval:
    """Returns the smallest interval around all; shapes broadcast. NaN bounds do not count.

    >>> import effx.numpy as enp
    >>> from effx.library.intervals import Interval, hull
    >>> result = hull(Interval(enp.array(0.0), enp.array(1.0)), Interval(enp.array(3.0), enp.array(4.0)))
    >>> print(result.low, result.high)
    0.0 4.0
    """
    low, high = xs[0].low, xs[0].high
    for x in xs[1:]:
        low, high = enp.fmin(low, x.low), enp.fmax(high, x.high)
    return Interval(low, high)


def where(condition: Array, x: Interval, y: Interval) -> Interval:
    """Returns x where the condition holds, else y."""
    return Interval(enp.where(condition, x.low, y.low), enp.where(condition, x.high, y.high))


def magnitude(x: Interval) -> Interval:
    """Returns the interval of |x|."""
    low, high = enp.abs(x.low), enp.abs(x.high)
    across = (x.low <= 0) & (x.high >= 0)
    return Interval(enp.where(across, enp.zeros_like(low), enp.minimum(low, high)), enp.maximum(low, high))


def outward(x: Interval, ulps: float = 1.0, error: Array | None = None) -> Interval:
    """Widens computed bounds by a relative error, and by an absolute one where it is given.

    The smallest normal number is added too, for results that the processor flushes to zero. A NaN bound, such
    as inf - inf, becomes an infinite one. Derivatives ignore the widening.
    """
    if x.low.type.kind != "f":
        return x
    limits = enp.finfo(x.low.dtype)
    eps, tiny, most = float(limits.eps) * ulps, float(limits.smallest_normal), float(limits.max)
    # An infinite bound on the inner side represents a number too large for the dtype.
    low, high = enp.minimum(x.low, most), enp.maximum(x.high, -most)
    less, more = enp.abs(low) * eps + tiny, enp.abs(high) * eps + tiny
    if error is not None:
        less, more = less + error, more + error
    low, high = low - lax.stop_gradient(less), high + lax.stop_gradient(more)
    return Interval(enp.where(low != low, -enp.inf, low), enp.where(high != high, enp.inf, high))


def clip_interval(x: Interval, low: float, high: float) -> Interval:
    """Returns the part of x between two numbers."""
    return Interval(enp.clip(x.low, low, high), enp.clip(x.high, low, high))


def limits_of(dtype: DType) -> tuple[float, float]:
    """Returns the least and the greatest value of a real dtype."""
    if enp.issubdtype(dtype, enp.floating):
        return -enp.inf, enp.inf
    if dtype == enp.bool_:
        return False, True
    return int(enp.iinfo(dtype).min), int(enp.iinfo(dtype).max)


def full_interval(t: ArrayType) -> Interval:
    """Returns the interval of all values of a type."""
    if t.kind == "c":
        raise DTypeError(f"intervals: complex numbers have no order, got {t!r}")
    low, high = limits_of(t.dtype)
    return Interval(enp.full(t.shape, low, t.dtype), enp.full(t.shape, high, t.dtype))


def top(op: ArrayOperation, xs: Sequence[Interval]) -> Interval:
    """Returns the interval of all values that the result's type holds."""
    return full_interval(op.infer(*[x.low.type for x in xs]))


def bound_by_default(op: ArrayOperation, *xs: Interval) -> Interval:
    """The rule for other elementwise operations: the result for exact operands, else all values."""
    top_bounds = top(op, xs)
    exact = exactly(xs[0])
    for x in xs[1:]:
        exact = exact & exactly(x)
    point = op(*[x.low for x in xs])
    return where(exact, outward(Interval(point, point), LIBRARY_ULPS), top_bounds)


def increasing(op: Operation[Array], *xs: Interval) -> Interval:
    """The bounds of an operation without rounding that is non-decreasing in each operand."""
    return Interval(op(*[x.low for x in xs]), op(*[x.high for x in xs]))


Formula = Callable[..., Interval]


def arithmetic(op: ArrayOperation, formula: Formula, *xs: Interval, ulps: float = 1.0) -> Interval:
    """Applies a formula for real intervals to floats, integers or booleans.

    Integers wrap around where a result does not fit. So the formula is applied to real intervals too, and
    where these do not fit, the result is the interval of all values.
    """
    kind = xs[0].low.type.kind
    if kind == "f":
        return outward(formula(op, *xs), ulps)
    if kind == "b":
        return increasing(op, *xs)
    top_bounds = top(op, xs)
    least, most = limits_of(top_bounds.low.dtype)
    real = outward(formula(op, *[outward(_check_real(x)) for x in xs]), 4.0)
    fits = (real.low >= least - 0.5) & (real.high < most + 0.5)
    return where(fits, formula(op, *xs), top_bounds)


def _check_real(x: Interval) -> Interval:
    return Interval(x.low.astype(enp.float32), x.high.astype(enp.float32))
