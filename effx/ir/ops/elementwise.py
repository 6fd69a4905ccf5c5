"""Elementwise operations: arithmetic, powers, trigonometry, rounding, bits, selection, complex parts.

A class says what its operation is to all handlers. Derivatives are named as in tables of them: `x, y` operands, `z` result,
`dx, dy` tangents; of one operand `y` is the result. Functions of complex operands are holomorphic but abs, real, imag and
conj, whose derivatives are the real-linear ones.
"""

import math
from collections.abc import Callable
from typing import ClassVar, final

import attrs
import numpy as np

from effx import dtypes
from effx.effects import perform
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.base import (
    Binary,
    Elementwise,
    Linear,
    Monotone,
    PiecewiseConstant,
    Singleton,
    Unary,
    broadcast_shape,
    check_arity,
    check_kind,
    elementwise_type,
    types_text,
)
from effx.ir.ops.compare import Comparison, Eq, Ge, Gt, Le, Lt
from effx.ir.ops.convert import StopGradient
from effx.ir.types import ArrayType, array_type
from effx.ir.values.array import Array
from effx.ir.values.described import HostData
from effx.ir.values.scalars import scalar


@final
class Neg(Unary, Linear):
    """The negative: `-x`; unsigned integers wrap."""

    __slots__ = ()
    kinds = "iufc"
    stablehlo = "stablehlo.negate"
    reference = np.negative


@final
class Sign(Unary):
    """-1, 0 or 1 by sign; for complex x / |x|; NaN for NaN. StableHLO: sign."""

    __slots__ = ()
    kinds = "iufc"

    @staticmethod
    def reference(x: HostData) -> HostData:
        if x.dtype.kind == "c":
            return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
        return np.where(x == 0, x, np.sign(x))  # NumPy drops the sign of -0.0


@final
class Floor(Unary, Monotone, PiecewiseConstant):
    """The largest integer not above x."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.floor"
    reference = np.floor


@final
class Ceil(Unary, Monotone, PiecewiseConstant):
    """The smallest integer not below x."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.ceil"
    reference = np.ceil


@final
class RoundAwayFromZero(Unary, Monotone, PiecewiseConstant):
    """The nearest integer, halves away from zero."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.round_nearest_afz"

    @staticmethod
    def reference(x: HostData) -> HostData:
        # floor(|x| + 1/2) would round the float below 1/2 up, because the sum rounds to 1.
        truncated = np.trunc(x)
        return np.where(np.abs(x - truncated) >= 0.5, truncated + np.sign(x), truncated)


@final
class RoundToEven(Unary, Monotone, PiecewiseConstant):
    """The nearest integer, halves to even."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.round_nearest_even"
    reference = np.rint


@final
class Exp(Unary, Monotone):
    """The exponential e**x."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.exponential"
    reference = np.exp
    tangent = lambda op, dx, x, y: dx * y


@final
class Exp2(Unary, Monotone):
    """The power 2**x. StableHLO: exponential."""

    __slots__ = ()
    kinds = "fc"
    reference = np.exp2
    tangent = lambda op, dx, x, y: dx * y * math.log(2)


@final
class Expm1(Unary, Monotone):
    """The exponential minus 1, exact near 0."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.exponential_minus_one"
    reference = np.expm1
    # Not y + 1, which has no digits where exp(x) is small.
    tangent = lambda op, dx, x, y: dx * Exp()(x)


@final
class Log(Unary):
    """The natural logarithm."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.log"
    reference = np.log
    tangent = lambda op, dx, x, y: DIV(dx, x)


@final
class Log1p(Unary):
    """The logarithm of 1 + x, exact near 0."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.log_plus_one"
    reference = np.log1p
    tangent = lambda op, dx, x, y: DIV(dx, x + 1.0)


@final
class Sqrt(Unary):
    """The square root."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.sqrt"
    reference = np.sqrt
    tangent = lambda op, dx, x, y: DIV(dx * 0.5, y)


@final
class Rsqrt(Unary):
    """1 / sqrt(x)."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.rsqrt"
    reference = staticmethod(lambda x: 1 / np.sqrt(x))
    tangent = lambda op, dx, x, y: DIV(dx * y * -0.5, x)


@final
class Cbrt(Unary, Monotone):
    """The cube root."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.cbrt"
    reference = np.cbrt
    tangent = lambda op, dx, x, y: dx * (IntegerPow(-2)(y) * (1 / 3))


@final
class Square(Unary):
    """The square x * x. StableHLO: multiply."""

    __slots__ = ()
    kinds = "iufc"
    reference = np.square
    tangent = lambda op, dx, x, y: dx * (x * 2.0)


@final
class OneMinusSquare(Unary):
    """1 - x * x, as a product that has its digits near 1 and -1. StableHLO: multiply."""

    __slots__ = ()
    kinds = "iufc"
    reference = staticmethod(lambda x: (1 - x) * (1 + x))
    tangent = lambda op, dx, x, y: dx * (x * -2.0)


@final
class Sin(Unary):
    """The sine of x radians."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.sine"
    reference = np.sin
    tangent = lambda op, dx, x, y: dx * COS(x)


@final
class Cos(Unary):
    """The cosine of x radians."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.cosine"
    reference = np.cos
    tangent = lambda op, dx, x, y: dx * NEG(SIN(x))


@final
class Tan(Unary):
    """The tangent of x radians."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.tan"
    reference = np.tan
    tangent = lambda op, dx, x, y: dx * (y * y + 1.0)


@final
class Asin(Unary):
    """The inverse sine, in radians."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.asin"
    reference = np.arcsin
    tangent = lambda op, dx, x, y: dx * Rsqrt()(ONE_MINUS_SQUARE(x))


@final
class Acos(Unary):
    """The inverse cosine, in radians."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.acos"
    reference = np.arccos
    tangent = lambda op, dx, x, y: NEG(dx * Rsqrt()(ONE_MINUS_SQUARE(x)))


def _scaled_one_plus_square(x: Array) -> tuple[Array, Array]:
    """Returns 1 + x² where |x| is at most 1, else 1 + 1 / x², and the factor 1 or 1 / x: so nothing overflows."""
    one = scalar(1, x.type.dtype)
    near = Le()(Abs()(x), one)
    inverse = IntegerPow(-1)(SELECT(near, x, one))
    smaller = SELECT(near, inverse, x)
    return smaller * smaller + 1.0, SELECT(near, inverse, one)


@final
class Atan(Unary, Monotone):
    """The inverse tangent, in radians."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.atan"
    reference = np.arctan

    def tangent(self, dx: Array, x: Array, y: Array) -> Array:
        if x.type.kind == "c":
            return dx * IntegerPow(-1)(x * x + 1.0)
        total, inverse = _scaled_one_plus_square(x)
        return dx * DIV(inverse * inverse, total)


@final
class Sinh(Unary, Monotone):
    """The hyperbolic sine."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.sinh"
    reference = np.sinh
    tangent = lambda op, dx, x, y: dx * Cosh()(x)


@final
class Cosh(Unary):
    """The hyperbolic cosine."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.cosh"
    reference = np.cosh
    tangent = lambda op, dx, x, y: dx * Sinh()(x)


@final
class Tanh(Unary, Monotone):
    """The hyperbolic tangent."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.tanh"
    reference = np.tanh
    # Of tanh and the logistic function from the result, although it has no digits of the slope where it rounds to 1: the
    # next layer of a network keeps the result anyway. From x, 20 layers of 256 numbers take 1.9 times the memory and 1.4
    # times the time for a gradient.
    tangent = lambda op, dx, x, y: dx * ONE_MINUS_SQUARE(y)


@final
class Asinh(Unary, Monotone):
    """The inverse hyperbolic sine."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.asinh"
    reference = np.arcsinh

    def tangent(self, dx: Array, x: Array, y: Array) -> Array:
        if x.type.kind == "c":
            return dx * Rsqrt()(x * x + 1.0)
        total, inverse = _scaled_one_plus_square(x)
        return dx * (Abs()(inverse) * Rsqrt()(total))


@final
class Acosh(Unary):
    """The inverse hyperbolic cosine."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.acosh"
    reference = np.arccosh
    # (x - 1)(x + 1) keeps its digits near 1, where x * x - 1 loses them.
    tangent = lambda op, dx, x, y: dx * (Rsqrt()(x - 1.0) * Rsqrt()(x + 1.0))


@final
class Atanh(Unary):
    """The inverse hyperbolic tangent."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "chlo.atanh"
    reference = np.arctanh
    tangent = lambda op, dx, x, y: DIV(dx, ONE_MINUS_SQUARE(x))


@final
class Logistic(Unary, Monotone):
    """1 / (1 + exp(-x))."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.logistic"
    reference = staticmethod(lambda x: 1 / (1 + np.exp(-x)))
    # As that of tanh.
    tangent = lambda op, dx, x, y: dx * (y * (1.0 - y))


@final
class Conj(Unary):
    """The complex conjugate. StableHLO: complex, of real and imag."""

    __slots__ = ()
    kinds = "c"
    reference = np.conj


@final
class Not(Unary, PiecewiseConstant):
    """Logical not of booleans, bitwise not of integers."""

    __slots__ = ()
    kinds = "biu"
    stablehlo = "stablehlo.not"
    reference = np.invert


@final
class PopulationCount(Unary, PiecewiseConstant):
    """The number of bits that are 1."""

    __slots__ = ()
    kinds = "iu"
    stablehlo = "stablehlo.popcnt"


@final
class CountLeadingZeros(Unary, PiecewiseConstant):
    """The number of leading bits that are 0."""

    __slots__ = ()
    kinds = "iu"
    stablehlo = "stablehlo.count_leading_zeros"


@final
class Add(Binary, Linear):
    """The sum x + y; booleans: or."""

    __slots__ = ()
    kinds = "biufc"
    stablehlo = "stablehlo.add"
    reference = np.add


@final
class Sub(Binary, Linear):
    """The difference x - y."""

    __slots__ = ()
    kinds = "iufc"
    stablehlo = "stablehlo.subtract"
    reference = np.subtract


@final
class Mul(Binary):
    """The product x * y; booleans: and."""

    __slots__ = ()
    kinds = "biufc"
    stablehlo = "stablehlo.multiply"
    reference = np.multiply
    tangent_by_first = lambda op, dx, x, y, z: perform(op, (dx, y))
    tangent_by_second = lambda op, dy, x, y, z: perform(op, (x, dy))


@final
class Div(Binary):
    """The quotient x / y; integers truncate toward zero."""

    __slots__ = ()
    kinds = "iufc"
    stablehlo = "stablehlo.divide"

    @staticmethod
    def reference(x: HostData, y: HostData) -> HostData:
        if x.dtype.kind not in "iu":
            return np.asarray(np.true_divide(x, y))
        # Toward zero. Dividing by zero gives all bits set, as processors without a trap do; the one
        # overflow, min / -1, wraps around.
        safe = np.where(y == 0, np.ones_like(y), y)
        if x.dtype.kind == "u":
            return np.where(y == 0, np.iinfo(x.dtype).max, x // safe)
        quotient = x // safe
        quotient = quotient + ((quotient * safe != x) & ((x < 0) != (y < 0)))
        return np.where(y == 0, -1, np.where(y == -1, np.negative(x), quotient))


@final
class Rem(Binary):
    """The remainder with the sign of x."""

    __slots__ = ()
    kinds = "iuf"
    stablehlo = "stablehlo.remainder"
    # x rem y = x - n y, where the integer n is that of the remainder: x / y itself may be rounded to the next one.
    tangent_by_first = lambda op, dx, x, y, z: dx
    tangent_by_second = lambda op, dy, x, y, z: MUL(dy, NEG(RoundToEven()(DIV(SUB(x, z), y))))

    @staticmethod
    def reference(x: HostData, y: HostData) -> HostData:
        if x.dtype.kind not in "iu":
            return np.asarray(np.fmod(x, y))
        safe = np.where(y == 0, np.ones_like(y), y)
        if x.dtype.kind == "i":
            safe = np.where(y == -1, np.ones_like(y), safe)
        return np.where(y == 0, x, np.fmod(x, safe))


@final
class Pow(Binary):
    """The power x**y."""

    __slots__ = ()
    kinds = "fc"
    stablehlo = "stablehlo.power"
    reference = np.power

    def tangent_by_first(self, dx: Array, x: Array, y: Array, z: Array) -> Array:
        # y x^(y-1), and 0 where both are 0.
        zero = And()(Eq()(y, scalar(0, y.type.dtype)), Eq()(x, scalar(0, x.type.dtype)))
        exponent = SELECT(zero, SUB(y, scalar(1, y.type.dtype)), scalar(0, y.type.dtype))
        return MUL(dx, MUL(y, self(x, exponent)))

    def tangent_by_second(self, dy: Array, x: Array, y: Array, z: Array) -> Array:
        # x^y log x, and 0 at x = 0, where x^y is flat in y for y > 0.
        zero = Eq()(x, scalar(0, x.type.dtype))
        log = Log()(SELECT(zero, x, scalar(1, x.type.dtype)))
        return MUL(dy, MUL(log, z))


def _angle_slope(x: Array, y: Array) -> Array:
    # y / (x² + y²), in units of the larger one: squares over- and underflow.
    largest = scalar(float(dtypes.finfo(x.type.dtype).max), x.type.dtype)
    unit = StopGradient()(Min()(Max()(Abs()(x), Abs()(y)), largest))
    p, q = DIV(x, unit), DIV(y, unit)
    # A product with 1 / unit: XLA would make of a second division one by unit², which overflows.
    return MUL(DIV(q, ADD(MUL(p, p), MUL(q, q))), IntegerPow(-1)(unit))


@final
class Atan2(Binary):
    """The angle of the point (y, x)."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.atan2"
    reference = np.arctan2
    tangent_by_first = lambda op, dx, x, y, z: MUL(dx, _angle_slope(x, y))
    tangent_by_second = lambda op, dy, x, y, z: MUL(dy, NEG(_angle_slope(y, x)))


def _extremum_tangent(wins: Comparison, d: Array, mine: Array, other: Array) -> Array:
    # The larger (smaller) one passes its tangent on; at a tie each passes half.
    is_mine, tie = wins(mine, other), Eq()(mine, other)
    one, half, zero = [scalar(f, d.type.dtype, False) for f in (1.0, 0.5, 0.0)]
    return MUL(d, SELECT(tie, SELECT(is_mine, zero, one), half))


@final
class Max(Binary):
    """The larger one; NaN if one is NaN."""

    __slots__ = ()
    kinds = "biuf"
    stablehlo = "stablehlo.maximum"
    tangent_by_first = lambda op, dx, x, y, z: _extremum_tangent(Gt(), dx, x, y)
    tangent_by_second = lambda op, dy, x, y, z: _extremum_tangent(Gt(), dy, y, x)

    @staticmethod
    def reference(x: HostData, y: HostData) -> HostData:
        larger = np.asarray(np.maximum(x, y))
        # IEEE 754-2019's maximum puts 0.0 above -0.0, which NumPy leaves open; their sum is right.
        return np.where((x == 0) & (y == 0), np.add(x, y), larger) if x.dtype.kind == "f" else larger


@final
class Min(Binary):
    """The smaller one; NaN if one is NaN."""

    __slots__ = ()
    kinds = "biuf"
    stablehlo = "stablehlo.minimum"
    tangent_by_first = lambda op, dx, x, y, z: _extremum_tangent(Lt(), dx, x, y)
    tangent_by_second = lambda op, dy, x, y, z: _extremum_tangent(Lt(), dy, y, x)

    @staticmethod
    def reference(x: HostData, y: HostData) -> HostData:
        if x.dtype.kind == "f":
            return -Max.reference(np.asarray(-x), np.asarray(-y))
        return np.asarray(np.minimum(x, y))


@final
class NextAfter(Binary):
    """The next float after x in the direction of y."""

    __slots__ = ()
    name = "nextafter"
    kinds = "f"
    stablehlo = "chlo.next_after"


@final
class And(Binary, PiecewiseConstant):
    """Logical or bitwise and."""

    __slots__ = ()
    kinds = "biu"
    stablehlo = "stablehlo.and"
    reference = np.bitwise_and


@final
class Or(Binary, PiecewiseConstant):
    """Logical or bitwise or."""

    __slots__ = ()
    kinds = "biu"
    stablehlo = "stablehlo.or"
    reference = np.bitwise_or


@final
class Xor(Binary, PiecewiseConstant):
    """Logical or bitwise exclusive or."""

    __slots__ = ()
    kinds = "biu"
    stablehlo = "stablehlo.xor"
    reference = np.bitwise_xor


def _shift_bits(shift: Callable[[int, int, int], int], x: HostData, y: HostData) -> HostData:
    """Shifts arrays by a function of (bits of x, amount, width), all as unsigned numbers."""
    bits = dtypes.bits(x.dtype)
    mask = (1 << bits) - 1
    x, y = np.broadcast_arrays(x, y)
    result = [shift(int(a) & mask, int(b) & mask, bits) & mask for a, b in zip(x.flat, y.flat, strict=True)]
    return np.asarray(result, f"u{x.dtype.itemsize}").reshape(x.shape).view(x.dtype)


def _shift_left(x: int, by: int, bits: int) -> int:
    return x << by if by < bits else 0


def _shift_right(x: int, by: int, bits: int) -> int:
    return x >> by if by < bits else 0


def _shift_right_signed(x: int, by: int, bits: int) -> int:
    signed = x - (1 << bits) if x >> (bits - 1) else x
    return signed >> min(by, bits)


@final
class ShiftLeft(Binary, PiecewiseConstant):
    """The bits of x shifted left by y."""

    __slots__ = ()
    kinds = "iu"
    stablehlo = "stablehlo.shift_left"
    reference = staticmethod(lambda x, y: _shift_bits(_shift_left, x, y))


@final
class ShiftRightArithmetic(Binary, PiecewiseConstant):
    """The bits of x shifted right by y, the sign bit repeated."""

    __slots__ = ()
    kinds = "iu"
    stablehlo = "stablehlo.shift_right_arithmetic"
    reference = staticmethod(lambda x, y: _shift_bits(_shift_right_signed, x, y))


@final
class ShiftRightLogical(Binary, PiecewiseConstant):
    """The bits of x shifted right by y, zeros shifted in."""

    __slots__ = ()
    kinds = "iu"
    stablehlo = "stablehlo.shift_right_logical"
    reference = staticmethod(lambda x, y: _shift_bits(_shift_right, x, y))


@final
@attrs.frozen
class IntegerPow(Elementwise):
    """The power of x to a constant integer, by repeated multiplication. StableHLO: multiply.

    Attributes:
        exponent: any int for inexact x, not negative for integers.
    """

    exponent: int = attrs.field(validator=attrs.validators.instance_of(int))
    kinds: ClassVar[str] = "iufc"

    def reference(self, x: HostData) -> HostData:
        result = np.ones_like(x)
        for _ in range(abs(self.exponent)):
            result = result * x
        return 1 / result if self.exponent < 0 else result

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        t = elementwise_type(self, types)
        if self.exponent < 0 and t.kind in "iu":
            raise DTypeError(
                f"integer_pow: integers have no negative powers: {t!r} to the power {self.exponent}"
            )
        return t


@final
class Abs(Singleton, Elementwise):
    """The absolute value; of complex numbers a real one. StableHLO: abs."""

    __slots__ = ()
    kinds = "iufc"
    reference = np.abs

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with a real dtype."""
        t = elementwise_type(self, types)
        return array_type(dtypes.real_dtype(t.dtype), t.shape, t.weak) if t.kind == "c" else t

    def tangent(self, dx: Array, x: Array, y: Array) -> Array:
        if x.type.kind != "c":
            # At 0, as from the right.
            one = scalar(1, x.type.dtype)
            return dx * SELECT(Ge()(x, scalar(0, x.type.dtype)), NEG(one), one)
        # |x| grows by the part of dx along x: Re(conj(x) dx) / |x|, and 0 at 0.
        radial = Real()(MUL(Conj()(x), dx))
        zero = Eq()(y, scalar(0.0, y.type.dtype))
        return DIV(radial, SELECT(zero, y, scalar(1.0, y.type.dtype, False)))


class ComplexPart(Singleton, Elementwise, Linear):
    """Base of Real and Imag: a complex operand, a real result."""

    __slots__ = ()
    kinds = "c"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with a real dtype."""
        t = elementwise_type(self, types)
        return array_type(dtypes.real_dtype(t.dtype), t.shape, t.weak)


@final
class Real(ComplexPart):
    """The real part."""

    __slots__ = ()
    stablehlo = "stablehlo.real"
    reference = staticmethod(np.real)


@final
class Imag(ComplexPart):
    """The imaginary part."""

    __slots__ = ()
    stablehlo = "stablehlo.imag"
    reference = staticmethod(np.imag)


@final
class Complex(Singleton, Elementwise, Linear):
    """The complex number from its real and imaginary part (f32 or f64). StableHLO: complex."""

    __slots__ = ()
    arity = 2
    kinds = "f"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operands' shape with a complex dtype."""
        t = elementwise_type(self, types)
        if t.dtype.itemsize < 4:
            raise DTypeError(f"complex: operands must be f32 or f64, got {types_text(types)}")
        return array_type(dtypes.complex_dtype(t.dtype), t.shape, t.weak)

    @staticmethod
    def reference(re: HostData, im: HostData) -> HostData:
        # re + 1j * im would turn an infinite im into NaN + inf j.
        result = np.empty(np.broadcast_shapes(re.shape, im.shape), np.complex128)
        result.real, result.imag = re, im
        return result


@final
class IsFinite(Singleton, Elementwise, PiecewiseConstant):
    """True where x is neither NaN nor infinite."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.is_finite"
    reference = np.isfinite

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's shape with dtype bool."""
        return array_type(dtypes.bool_, elementwise_type(self, types).shape)


@final
class Select(Singleton, Elementwise):
    """Operand `1 + which` element by element; `which` is bool (False: the first case) or i32.

    StableHLO: select, case by comparison for more than two cases.
    """

    __slots__ = ()
    arity = -1

    def infer(self, *types: ArrayType) -> ArrayType:
        """The cases' common type; a rank-0 `which` chooses whole arrays."""
        if len(types) < 2:
            raise ShapeError(f"select: takes a predicate and at least one case, got {types_text(types)}")
        which, *cases = types
        check_kind(self, which, "bi", "the predicate")
        if which.kind == "b" and len(cases) > 2:
            raise ShapeError(f"select: a bool predicate chooses between 2 cases, got {len(cases)}")
        for case in cases[1:]:
            if case.dtype != cases[0].dtype:
                raise DTypeError(f"select: dtypes of the cases differ: {types_text(tuple(cases))}")
        weak = all(case.weak for case in cases)
        return array_type(cases[0].dtype, broadcast_shape(self, types), weak)


@final
class Clamp(Singleton, Elementwise):
    """`min(max(low, x), high)`; operands low, x, high. StableHLO: clamp."""

    __slots__ = ()
    arity = 3
    kinds = "biuf"
    reference = staticmethod(lambda low, x, high: np.minimum(np.maximum(low, x), high))

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of x; the bounds have its dtype, and its shape or rank 0."""
        check_arity(self, types, 3)
        t = elementwise_type(self, types)
        if t.shape != types[1].shape:
            raise ShapeError(
                f"clamp: bounds must have x's shape or rank 0: low, x, high are {types_text(types)}"
            )
        return array_type(t.dtype, t.shape, types[1].weak)


# What derivatives perform most; annotated, since classes above read them.
ADD: Add = Add()
SUB: Sub = Sub()
MUL: Mul = Mul()
DIV: Div = Div()
NEG: Neg = Neg()
SELECT: Select = Select()
SIN: Sin = Sin()
COS: Cos = Cos()
ONE_MINUS_SQUARE: OneMinusSquare = OneMinusSquare()
