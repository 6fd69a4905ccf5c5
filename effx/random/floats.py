"""The formulas from random bits to floats of a distribution, staged by the samplers.

Each inverts the distribution function at a uniform point, and so is differentiable in its parameters.
"""

import math

import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_arrays, broadcast_to, convert
from effx.dtypes import DType
from effx.effects import perform
from effx.families.special import Erf, Erfc, ErfInv, scaled_erfc
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import Bitcast
from effx.ir.types import Shape
from effx.ir.values.scalars import scalar
from effx.lax.control.branches import cond
from effx.random.generators import random_bits, select_key, split_key
from effx.random.threefry import unsigned_dtype

MAX, MIN, NEXT_AFTER, OR, SHIFT_RIGHT = e.Max(), e.Min(), e.NextAfter(), e.Or(), e.ShiftRightLogical()
ERF, ERFC, ERF_INV, ABS, SIGN, TAN = Erf(), Erfc(), ErfInv(), e.Abs(), e.Sign(), e.Tan()
LOG, LOG1P, EXPM1, SQRT = e.Log(), e.Log1p(), e.Expm1(), e.Sqrt()
COUNT_ZEROS = e.CountLeadingZeros()


def unit_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns floats, evenly spaced in [0, 1)."""
    width, mantissa = dtypes.bits(dtype), dtypes.finfo(dtype).nmant
    # Random bits as the mantissa of 1 are a float in [1, 2). Short mantissas need one byte only.
    bit_width = 8 if mantissa < 8 else width
    bits = perform(
        SHIFT_RIGHT,
        (random_bits(key, bit_width, shape), scalar(bit_width - mantissa, unsigned_dtype(bit_width))),
    )
    one = int(np.ones((), dtype).view(unsigned_dtype(width)))
    pattern = perform(OR, (convert(bits, unsigned_dtype(width)), scalar(one, unsigned_dtype(width))))
    return Bitcast(dtype)(pattern) - 1.0


def _convert_bound(x: Operand, shape: Shape, dtype: DType) -> Array:
    bound = convert(as_operand(x), dtype)
    return broadcast_to(bound, shape) if bound.type.shape else bound


def uniform_floats(
    key: Array, shape: Shape, dtype: DType, minval: Operand = 0.0, maxval: Operand = 1.0
) -> Array:
    """Returns floats in [minval, maxval)."""
    low, high = _convert_bound(minval, shape, dtype), _convert_bound(maxval, shape, dtype)
    points = unit_floats(key, shape, dtype)
    width = high - low
    x = points * width + low
    if not (isinstance(minval, float) and isinstance(maxval, float) and maxval - minval <= 1e4):
        # The width of nearly all floats overflows; half of it does not.
        half = low * 0.5
        doubled = (points * (high * 0.5 - half) + half) * 2.0
        x = where(perform(ABS, (width,)) < math.inf, x, doubled)
    # Rounding may leave the interval at its lower end.
    return perform(MAX, (low, x))


def normal_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard normal numbers, real or complex."""
    if dtypes.is_complex(dtype):
        real = dtypes.real_dtype(dtype)
        keys = split_key(key, (2,))
        parts = [normal_floats(select_key(keys, i), shape, real) for i in range(2)]
        return perform(e.Complex(), (parts[0], parts[1])) / scalar(math.sqrt(2), dtype)
    # The inverse of the distribution function, at a point in (-1, 1).
    lowest = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    points = uniform_floats(key, shape, dtype, float(lowest), 1.0)
    return perform(ERF_INV, (points,)) * scalar(float(np.array(math.sqrt(2), dtype)), dtype)


def gumbel_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard Gumbel numbers."""
    points = uniform_floats(key, shape, dtype, float(dtypes.finfo(dtype).tiny), 1.0)
    return -perform(LOG, (-perform(LOG, (points,)),))


def fine_gumbel_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard Gumbel numbers whose upper tail is twice as long: small points have further digits."""
    coarse, fine = [select_key(unit_floats(key, (2, *shape), dtype), i) for i in range(2)]
    info = dtypes.finfo(dtype)
    eps = float(info.eps)
    # Half a step of the finer digits keeps the point from 0; a normal number, since others may be flushed.
    between = max(eps * eps / 2, float(info.tiny))
    points = where(coarse >= 0.5, coarse, coarse + eps * fine + between)
    return -perform(LOG, (-perform(LOG1P, (-points,)),))


def finest_gumbel_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard Gumbel numbers of points of 64 bits, with all digits of the small ones; f32 only, others are fine."""
    if dtype != dtypes.float32:
        return fine_gumbel_floats(key, shape, dtype)
    bits = random_bits(key, 32, (2, *shape))
    high, low = [select_key(bits, i) for i in range(2)]
    # Of a point or of what it lacks of 1, which is its two's complement, the smaller one has more digits.
    is_small = high >> 31 == 0
    lacking_high, lacking_low = ~high + convert(low == 0, high.type.dtype), ~low + 1
    x = _convert_fixed_point(where(is_small, high, lacking_high), where(is_small, low, lacking_low))
    log = where(is_small, perform(LOG1P, (-x,)), perform(LOG, (x,)))
    return -perform(LOG, (-log,))


def _convert_fixed_point(high: Array, low: Array) -> Array:
    """Returns 64 bits behind the point as f32, cut off behind 24 digits; for 0 what is less than the others."""
    leading, rest = perform(COUNT_ZEROS, (high,)), perform(COUNT_ZEROS, (low,))
    carried = where(leading == 0, 0, low >> where(leading == 0, 0, 32 - leading))
    is_zero = high == 0
    digits = (
        where(is_zero, low << where(low == 0, 0, rest), (high << where(is_zero, 0, leading)) | carried) >> 8
    )
    exponent = 127 - 24 - where(is_zero, rest + 32, leading)
    x = convert(digits, dtypes.float32) * Bitcast(dtypes.float32)(exponent << 23)
    return perform(MAX, (x, scalar(2.0**-65, dtypes.float32)))


GUMBEL_FLOATS = {"low": gumbel_floats, "high": fine_gumbel_floats, "highest": finest_gumbel_floats}
"""Gumbel numbers by mode."""


# Where an interval begins within this distance from 0, or has 0 inside, it isn't in a tail, in any dtype.
CENTRAL = 1.5


def truncated_normal_floats(
    key: Array, lower: Operand, upper: Operand, shape: Shape, dtype: DType, is_central: bool = False
) -> Array:
    """Returns normal numbers truncated to an interval.

    Near 1 a distribution function has few digits. An interval in a tail, where erfc is below the root of the dtype's
    rounding, is drawn from by `_tail_floats`.

    Args:
        is_central: whether it is known that no interval is in a tail.
    """
    root = scalar(float(np.array(math.sqrt(2), dtype)), dtype)
    low, high = _convert_bound(lower, shape, dtype), _convert_bound(upper, shape, dtype)
    first, last = low, high
    in_tail: Array | None = None
    if not is_central:
        nearest = perform(MAX, tuple(broadcast_arrays([low, -high])))
        in_tail = (nearest > CENTRAL) & (
            perform(ERFC, (nearest / root,)) < math.sqrt(float(dtypes.finfo(dtype).eps))
        )
        # Harmless bounds: the slopes of others are infinite.
        first, last = where(in_tail, -1.0, low), where(in_tail, 1.0, high)
    points = uniform_floats(key, shape, dtype, perform(ERF, (first / root,)), perform(ERF, (last / root,)))
    x = root * perform(ERF_INV, (points,))
    if in_tail is not None:
        x = cond(
            in_tail.any(),
            lambda: where(in_tail, _tail_floats(unit_floats(key, shape, dtype), low, high, dtype), x),
            lambda: x,
        )
    # The interval is open at both ends.
    infinity = scalar(math.inf, dtype)
    return perform(
        MIN, (perform(MAX, (x, perform(NEXT_AFTER, (low, infinity)))), perform(NEXT_AFTER, (high, -infinity)))
    )


def _tail_floats(points: Array, low: Array, high: Array, dtype: DType) -> Array:
    """Returns normal numbers truncated to intervals in a tail, at points of [0, 1).

    Of an interval [a, b], a > 0, the number is a + d, where d solves `log(q(a + d) / q(a)) = log(1 - u (1 - q(b) / q(a)))`,
    and q is the probability of larger numbers. The quotients are those of the scaled erfc, times
    `exp(-d (a + d / 2))`, and don't underflow.
    """
    wide = dtypes.float32 if dtype.itemsize < 4 else dtype
    u, first, last = [convert(v, wide) for v in (points, low, high)]
    mirrored = last < 0.0
    a, b = where(mirrored, -last, first), where(mirrored, -first, last)
    inside = (a > CENTRAL) & (a < b)
    a, b = where(inside, a, 2.0), where(inside, b, 3.0)
    root = math.sqrt(0.5)
    scaled = scaled_erfc(a * root)

    def log_quotient(distance: Array, above: Array) -> Array:
        return perform(LOG, (scaled_erfc(above * root) / scaled,)) - distance * (a + distance * 0.5)

    unbounded = b == math.inf
    end = where(unbounded, a + 1.0, b)
    log_rest = where(unbounded, -math.inf, log_quotient(end - a, end))
    target = perform(LOG1P, (u * perform(EXPM1, (log_rest,)),))
    # Without the quotient of the scaled functions, a quadratic equation; then Newton's method.
    distance = -2.0 * target / (a + perform(SQRT, (a * a - 2.0 * target,)))
    for _ in range(4):
        above = a + distance
        slope = math.sqrt(2 / math.pi) / scaled_erfc(above * root)
        distance = distance + (log_quotient(distance, above) - target) / slope
    x = a + distance
    return convert(where(mirrored, -x, x), dtype)


def exponential_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns exponential numbers of mean 1."""
    return -perform(LOG1P, (-unit_floats(key, shape, dtype),))


def laplace_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard Laplace numbers."""
    points = uniform_floats(key, shape, dtype, -1.0 + float(dtypes.finfo(dtype).epsneg), 1.0)
    return perform(SIGN, (points,)) * perform(LOG1P, (-perform(ABS, (points,)),))


def logistic_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard logistic numbers."""
    points = uniform_floats(key, shape, dtype, float(dtypes.finfo(dtype).tiny), 1.0)
    return perform(LOG, (points,)) - perform(LOG1P, (-points,))


def cauchy_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns standard Cauchy numbers."""
    points = uniform_floats(key, shape, dtype, float(dtypes.finfo(dtype).eps), 1.0)
    return perform(TAN, ((points - 0.5) * scalar(math.pi, dtype),))
