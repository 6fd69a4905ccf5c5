"""Functions of two numbers, element by element: arithmetic, powers, extremes, bits.

Operands are promoted and broadcast first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from effx import dtypes
from effx.array import Array, arithmetic, operators, reducing
from effx.array.declared import Declaration, bind_two
from effx.array.promotion import as_operand, broadcast_arrays, convert, promote
from effx.effects import perform
from effx.errors import DTypeError
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import Bitcast
from effx.ir.values.scalars import scalar
from effx.numpy.ufuncs import make_ufunc
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.ir.ops.base import Elementwise

__all__ = [
    "add", "arctan2", "atan2", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "clip", "copysign", "divide",
    "divmod", "float_power", "floor_divide", "fmax", "fmin", "fmod", "heaviside", "hypot", "invert",
    "left_shift", "logaddexp", "logaddexp2", "maximum", "minimum", "mod", "multiply", "nextafter", "pow",
    "power", "remainder", "right_shift", "subtract", "true_divide",
]  # fmt: skip


def perform_promoted(op: Elementwise, x: Operand, y: Operand) -> Array:
    """Performs a two-operand operation after promotion.

    Raises:
        DTypeError: an operand is no array or number.
    """
    result = operators.perform_binary(op, x, y)
    return _concrete_comparison(op, x, y) if result is NotImplemented else result


def perform_promoted_ordered(op: Elementwise, x: Operand, y: Operand) -> Array:
    """Performs a comparison, `Max` or `Min` after promotion, on complex numbers in NumPy's order."""
    result = operators.perform_ordered(op, x, y)
    return _concrete_comparison(op, x, y) if result is NotImplemented else result


def _concrete_comparison(op: Elementwise, x: Operand, y: Operand) -> Array:
    # The operators answer NotImplemented to foreign operands; here those are refused, or converted.
    return operators.perform_ordered(op, *promote(as_operand(x), as_operand(y)))


def _promote_integers(x: Operand, y: Operand) -> tuple[Array, Array]:
    """Promotes, booleans to the smallest default integer."""
    a, b = promote(x, y)
    return (convert(a, dtypes.int32), convert(b, dtypes.int32)) if a.type.kind == "b" else (a, b)


_OF_TWO = {"x": "Operand", "y": "Operand", "return": "Array"}
declare_promoted = Declaration(bind_two(perform_promoted), _OF_TWO)
declare_ordered = Declaration(bind_two(perform_promoted_ordered), _OF_TWO)

add = make_ufunc(0, reducing.sum, reducing.cumsum, "add")(
    declare_promoted(arithmetic.ADD, "The sum `x + y`; or of booleans.", "int(add(1, 2))", "3")
)
subtract = make_ufunc(associative=False)(
    declare_promoted(arithmetic.SUB, "The difference `x - y`.", "int(subtract(1, 2))", "-1", name="subtract")
)
multiply = make_ufunc(1, reducing.prod, reducing.cumprod, "multiply")(
    declare_promoted(
        arithmetic.MUL, "The product `x * y`; and of booleans.", "int(multiply(2, 3))", "6", name="multiply"
    )
)


def true_divide(x: Operand, y: Operand, /) -> Array:
    """The quotient `x / y` as a float or complex number.

    >>> float(true_divide(3, 2))
    1.5
    """
    return arithmetic.true_divide(x, y)


divide = true_divide


def floor_divide(x: Operand, y: Operand, /) -> Array:
    """The quotient rounded toward minus infinity, `x // y`.

    >>> int(floor_divide(-3, 2))
    -2
    """
    return arithmetic.floor_divide(x, y)


def remainder(x: Operand, y: Operand, /) -> Array:
    """The remainder with the sign of y, `x % y`.

    >>> int(remainder(-3, 2))
    1
    """
    return arithmetic.remainder(x, y)


mod = remainder


def fmod(x: Operand, y: Operand, /) -> Array:
    """The remainder with the sign of x, as C's `fmod`.

    >>> int(fmod(-3, 2))
    -1
    """
    a, b = _promote_integers(x, y)
    return perform(arithmetic.REM, (a, b)) if a.type.kind == "f" else arithmetic.truncated_remainder(a, b)


def divmod(x: Operand, y: Operand, /) -> tuple[Array, Array]:
    """Quotient and remainder: `(x // y, x % y)`.

    >>> [int(part) for part in divmod(7, 3)]
    [2, 1]
    """
    return arithmetic.divmod(x, y)


def power(x: Operand, y: Operand, /) -> Array:
    """The power `x**y`; exact and differentiable at 0 if y is a Python int.

    Raises:
        DTypeError: x is an integer and y a negative Python int.

    >>> int(power(2, 3))
    8
    """
    has_integers = (
        isinstance(x, Array) and isinstance(y, Array) and x.type.kind in "biu" and y.type.kind in "biu"
    )
    if has_integers and arithmetic.known_exponent(as_operand(x), y) is None:
        return _integer_power(x, y)
    return arithmetic.power(x, y)


# Square and multiply takes five operations for each bit.
_integer_power = jit(arithmetic.power, inline=True)
pow = power


def float_power(x: Operand, y: Operand, /) -> Array:
    """The power `x**y`, computed with floats.

    >>> float(float_power(2, 3))
    8.0
    """
    return perform(arithmetic.POW, tuple(arithmetic.promote_inexact(x, y)))


maximum = make_ufunc(None, reducing.max, reducing.cummax, "max")(
    declare_ordered(
        arithmetic.MAX, "The larger one; NaN if one is NaN.", "int(maximum(2, 3))", "3", name="maximum"
    )
)
minimum = make_ufunc(None, reducing.min, reducing.cummin, "min")(
    declare_ordered(
        arithmetic.MIN, "The smaller one; NaN if one is NaN.", "int(minimum(2, 3))", "2", name="minimum"
    )
)


def fmax(x1: Operand, x2: Operand) -> Array:
    """The larger one; the other if one is NaN.

    >>> float(fmax(2.0, math.nan))
    2.0
    """
    a, b = promote(x1, x2)
    return arithmetic.where((a > b) | (b != b), a, b)


def fmin(x1: Operand, x2: Operand) -> Array:
    """The smaller one; the other if one is NaN.

    >>> float(fmin(2.0, math.nan))
    2.0
    """
    a, b = promote(x1, x2)
    return arithmetic.where((a < b) | (b != b), a, b)


def clip(arr: Operand | None = None, /, min: Operand | None = None, max: Operand | None = None) -> Array:
    """Bounded to [min, max]; None leaves a side open.

    >>> float(clip(5.0, 0.0, 1.0))
    1.0
    """
    if arr is None:
        raise DTypeError("clip: expected an array or a number, got None")
    return arithmetic.clip(arr, min, max)


_ATAN2, _NEXT_AFTER = e.Atan2(), e.NextAfter()
_EXP, _LOG, _LOG1P, _SQRT = e.Exp(), e.Log(), e.Log1p(), e.Sqrt()


def arctan2(y: Operand, x: Operand, /) -> Array:
    """The angle of the point (x, y), from -pi to pi.

    >>> round(float(arctan2(1.0, 1.0)), 4)
    0.7854
    """
    return perform(_ATAN2, tuple(arithmetic.promote_inexact(y, x)))


atan2 = arctan2


def hypot(x: Operand, y: Operand, /) -> Array:
    """The length of the vector (x, y), without intermediate overflow.

    >>> float(hypot(3.0, 4.0))
    5.0
    """
    a, b = arithmetic.promote_inexact(x, y)
    if a.type.kind == "c":
        raise DTypeError(f"hypot: takes real numbers only, got {a.type!r} and {b.type!r}")
    return _jitted_length(a, b)


@custom_jvp
def _length(x: Array, y: Array) -> Array:
    a, b = perform(arithmetic.ABS, (x,)), perform(arithmetic.ABS, (y,))
    high, low = perform(arithmetic.MAX, (a, b)), perform(arithmetic.MIN, (a, b))
    # An infinite side gives an infinite length, even if the other is NaN.
    infinite = (a == math.inf) | (b == math.inf)
    high = arithmetic.where(infinite, scalar(math.inf, high.type.dtype, high.type.weak), high)
    # sqrt(high² + low²) = high sqrt(1 + (low / high)²); where high is 0 or infinite, it is the result.
    plain = infinite | (high == 0)
    zero, one = scalar(0, high.type.dtype), scalar(1, high.type.dtype)
    ratio = arithmetic.where(plain, zero, low / arithmetic.where(plain, one, high))
    return high * perform(_SQRT, (1 + ratio * ratio,))


@custom_jvp
def _direction(x: Array, y: Array) -> tuple[Array, Array]:
    """Returns the unit vector along (x, y): zeros at the origin, where the length has 0 as its smallest subgradient."""
    a, b = perform(arithmetic.ABS, (x,)), perform(arithmetic.ABS, (y,))
    infinite = (a == math.inf) | (b == math.inf)
    high = perform(arithmetic.MAX, (a, b))
    unit = arithmetic.where(infinite | (high == 0), scalar(1, high.type.dtype), high)
    u, v = [
        arithmetic.where(
            infinite, arithmetic.where(size == math.inf, perform(arithmetic.SIGN, (side,)), 0.0), side / unit
        )
        for side, size in ((x, a), (y, b))
    ]
    square = u * u + v * v
    root = perform(e.Rsqrt(), (arithmetic.where(square == 0, scalar(1, square.type.dtype), square),))
    return u * root, v * root


@_length.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, y), (dx, dy) = primals, tangents
    u, v = _jitted_direction(x, y)
    return _jitted_length(x, y), u * dx + v * dy


@_direction.defjvp
def _(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (x, y), (dx, dy) = primals, tangents
    u, v = _jitted_direction(x, y)
    length = _jitted_length(x, y)
    # The angle's change; the derivatives of x / length by the quotient's rule would cancel where it is near 1.
    turn = (v * dx - u * dy) / arithmetic.where(length == 0, scalar(1, length.type.dtype), length)
    return (u, v), (v * turn, -u * turn)


_jitted_length, _jitted_direction = jit(_length, inline=True), jit(_direction, inline=True)


@make_ufunc(-math.inf)
def logaddexp(x: Operand, y: Operand, /) -> Array:
    """log(exp(x) + exp(y)), without intermediate overflow.

    >>> round(float(logaddexp(0.0, 0.0)), 4)
    0.6931
    """
    a, b = arithmetic.promote_inexact(x, y)
    if a.type.kind == "c":
        # The logarithm's principal value; the larger real part is taken out of both, unless it is infinite.
        size = perform(arithmetic.MAX, (perform(arithmetic.REAL, (a,)), perform(arithmetic.REAL, (b,))))
        out = convert(arithmetic.where(abs(size) < math.inf, size, 0.0), a.type.dtype)
        return perform(_LOG, (perform(_EXP, (a - out,)) + perform(_EXP, (b - out,)),)) + out
    # One comparison for both: where the operands are equal, the derivatives of the larger one, (1, 0), and of the
    # logarithm, (-1/2, 1/2), sum to halves, whatever roundings XLA makes of the difference.
    less = a < b
    high, low = arithmetic.where(less, b, a), arithmetic.where(less, a, b)
    decay = low - high
    # inf - inf: the sum of both is the result, and the branch not selected must stay finite.
    undefined = decay != decay
    decay = arithmetic.where(undefined, scalar(0, high.type.dtype), decay)
    return arithmetic.where(undefined, a + b, high + perform(_LOG1P, (perform(_EXP, (decay,)),)))


@make_ufunc(-math.inf)
def logaddexp2(x: Operand, y: Operand, /) -> Array:
    """log2(2**x + 2**y), without intermediate overflow.

    >>> float(logaddexp2(0.0, 0.0))
    1.0
    """
    a, b = arithmetic.promote_inexact(x, y)
    return logaddexp(a * math.log(2), b * math.log(2)) * (1 / math.log(2))


def heaviside(x: Operand, y: Operand, /) -> Array:
    """0 below 0, 1 above it, y at 0; NaN for NaN.

    >>> float(heaviside(-1.0, 0.5))
    0.0
    """
    a, b = arithmetic.promote_inexact(x, y)
    if a.type.kind == "c":
        raise DTypeError(f"heaviside: takes real numbers only, got {a.type!r} and {b.type!r}")
    zero, one = scalar(0, a.type.dtype, a.type.weak), scalar(1, a.type.dtype, a.type.weak)
    step = arithmetic.where(a < zero, zero, arithmetic.where(a > zero, one, a))
    return arithmetic.where(a == zero, b, step)


def is_negative(a: Array) -> Array:
    """Whether the sign bit is set, for a real array."""
    t = a.type
    if t.kind != "f":
        return a < 0 if t.kind == "i" else perform(arithmetic.NE, (a, a))
    return Bitcast(dtypes.bits_dtype(t.dtype))(a) < 0


def copysign(x: Operand, y: Operand, /) -> Array:
    """The magnitude of x with the sign of y.

    >>> float(copysign(2.0, -0.0))
    -2.0
    """
    a, b = arithmetic.promote_inexact(x, y)
    if a.type.kind == "c":
        raise DTypeError(f"copysign: takes real numbers only, got {a.type!r} and {b.type!r}")
    # Selects x or -x, so that the derivative with respect to x is 1 or -1.
    (sign_a, sign_b) = broadcast_arrays([is_negative(a), is_negative(b)])
    a = broadcast_arrays([a, sign_b])[0]
    return arithmetic.where(sign_a != sign_b, perform(arithmetic.NEG, (a,)), a)


def nextafter(x: Operand, y: Operand, /) -> Array:
    """The next float after x in the direction of y.

    >>> float(nextafter(1.0, 2.0))
    1.0000001192092896
    """
    return perform(_NEXT_AFTER, tuple(arithmetic.promote_inexact(x, y)))


bitwise_and = make_ufunc(-1)(
    declare_promoted(
        arithmetic.AND, "The bits set in both.", "int(bitwise_and(6, 3))", "2", name="bitwise_and"
    )
)
bitwise_or = make_ufunc(0)(
    declare_promoted(
        arithmetic.OR, "The bits set in one or both.", "int(bitwise_or(6, 3))", "7", name="bitwise_or"
    )
)
bitwise_xor = make_ufunc(0)(
    declare_promoted(
        arithmetic.XOR, "The bits set in exactly one.", "int(bitwise_xor(6, 3))", "5", name="bitwise_xor"
    )
)


def invert(x: Operand, /) -> Array:
    """All bits inverted; logical not of booleans.

    >>> int(invert(5))
    -6
    """
    return perform(arithmetic.NOT, (as_operand(x),))


bitwise_not = bitwise_invert = invert


def left_shift(x: Operand, y: Operand, /) -> Array:
    """The bits of x shifted left by y.

    >>> int(left_shift(1, 3))
    8
    """
    return perform(arithmetic.SHIFT_LEFT, _promote_integers(x, y))


def right_shift(x: Operand, y: Operand, /) -> Array:
    """The bits of x shifted right by y: arithmetic for signed, logical for unsigned integers.

    >>> int(right_shift(-8, 2))
    -2
    """
    a, b = _promote_integers(x, y)
    return arithmetic.right_shift(a, b)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


def bitwise_count(x: Operand, /) -> Array:
    """The number of bits set in `|x|`, as u8.

    >>> int(bitwise_count(-7))
    3
    """
    a = as_operand(x)
    a = convert(a, dtypes.uint8) if a.type.kind == "b" else arithmetic.absolute(a)
    return convert(perform(e.PopulationCount(), (a,)), dtypes.uint8)
