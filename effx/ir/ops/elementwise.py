"""Elementwise operations: arithmetic, powers, trigonometry, rounding, bits, selection, complex parts."""

from typing import ClassVar, final

import attrs

from effx import dtypes
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.base import (
    Binary,
    Elementwise,
    Linear,
    Monotone,
    Singleton,
    Unary,
    broadcast_shape,
    check_arity,
    check_kind,
    elementwise_type,
    types_text,
)
from effx.ir.types import ArrayType, array_type


@final
class Neg(Unary, Linear):
    """The negative: `-x`; unsigned integers wrap. StableHLO: negate."""

    __slots__ = ()
    kinds = "iufc"


@final
class Sign(Unary):
    """-1, 0 or 1 by sign; for complex x / |x|; NaN for NaN. StableHLO: sign."""

    __slots__ = ()
    kinds = "iufc"


@final
class Floor(Unary, Monotone):
    """The largest integer not above x. StableHLO: floor."""

    __slots__ = ()
    kinds = "f"


@final
class Ceil(Unary, Monotone):
    """The smallest integer not below x. StableHLO: ceil."""

    __slots__ = ()
    kinds = "f"


@final
class RoundAwayFromZero(Unary, Monotone):
    """The nearest integer, halves away from zero. StableHLO: round_nearest_afz."""

    __slots__ = ()
    kinds = "f"


@final
class RoundToEven(Unary, Monotone):
    """The nearest integer, halves to even. StableHLO: round_nearest_even."""

    __slots__ = ()
    kinds = "f"


@final
class Exp(Unary, Monotone):
    """The exponential e**x. StableHLO: exponential."""

    __slots__ = ()
    kinds = "fc"


@final
class Exp2(Unary, Monotone):
    """The power 2**x. StableHLO: exponential."""

    __slots__ = ()
    kinds = "fc"


@final
class Expm1(Unary, Monotone):
    """The exponential minus 1, exact near 0. StableHLO: exponential_minus_one."""

    __slots__ = ()
    kinds = "fc"


@final
class Log(Unary):
    """The natural logarithm. StableHLO: log."""

    __slots__ = ()
    kinds = "fc"


@final
class Log1p(Unary):
    """The logarithm of 1 + x, exact near 0. StableHLO: log_plus_one."""

    __slots__ = ()
    kinds = "fc"


@final
class Sqrt(Unary):
    """The square root. StableHLO: sqrt."""

    __slots__ = ()
    kinds = "fc"


@final
class Rsqrt(Unary):
    """1 / sqrt(x). StableHLO: rsqrt."""

    __slots__ = ()
    kinds = "fc"


@final
class Cbrt(Unary, Monotone):
    """The cube root. StableHLO: cbrt."""

    __slots__ = ()
    kinds = "f"


@final
class Square(Unary):
    """The square x * x. StableHLO: multiply."""

    __slots__ = ()
    kinds = "iufc"


@final
class OneMinusSquare(Unary):
    """1 - x * x, as a product that has its digits near 1 and -1. StableHLO: multiply."""

    __slots__ = ()
    kinds = "iufc"


@final
class Sin(Unary):
    """The sine of x radians. StableHLO: sine."""

    __slots__ = ()
    kinds = "fc"


@final
class Cos(Unary):
    """The cosine of x radians. StableHLO: cosine."""

    __slots__ = ()
    kinds = "fc"


@final
class Tan(Unary):
    """The tangent of x radians. StableHLO: tan."""

    __slots__ = ()
    kinds = "fc"


@final
class Asin(Unary):
    """The inverse sine, in radians. CHLO: asin."""

    __slots__ = ()
    kinds = "fc"


@final
class Acos(Unary):
    """The inverse cosine, in radians. CHLO: acos."""

    __slots__ = ()
    kinds = "fc"


@final
class Atan(Unary, Monotone):
    """The inverse tangent, in radians. CHLO: atan."""

    __slots__ = ()
    kinds = "fc"


@final
class Sinh(Unary, Monotone):
    """The hyperbolic sine. CHLO: sinh."""

    __slots__ = ()
    kinds = "fc"


@final
class Cosh(Unary):
    """The hyperbolic cosine. CHLO: cosh."""

    __slots__ = ()
    kinds = "fc"


@final
class Tanh(Unary, Monotone):
    """The hyperbolic tangent. StableHLO: tanh."""

    __slots__ = ()
    kinds = "fc"


@final
class Asinh(Unary, Monotone):
    """The inverse hyperbolic sine. CHLO: asinh."""

    __slots__ = ()
    kinds = "fc"


@final
class Acosh(Unary):
    """The inverse hyperbolic cosine. CHLO: acosh."""

    __slots__ = ()
    kinds = "fc"


@final
class Atanh(Unary):
    """The inverse hyperbolic tangent. CHLO: atanh."""

    __slots__ = ()
    kinds = "fc"


@final
class Logistic(Unary, Monotone):
    """1 / (1 + exp(-x)). StableHLO: logistic."""

    __slots__ = ()
    kinds = "fc"


@final
class Conj(Unary):
    """The complex conjugate. StableHLO: imag."""

    __slots__ = ()
    kinds = "c"


@final
class Not(Unary):
    """Logical not of booleans, bitwise not of integers. StableHLO: not."""

    __slots__ = ()
    kinds = "biu"


@final
class PopulationCount(Unary):
    """The number of bits that are 1. StableHLO: popcnt."""

    __slots__ = ()
    kinds = "iu"


@final
class CountLeadingZeros(Unary):
    """The number of leading bits that are 0. StableHLO: count_leading_zeros."""

    __slots__ = ()
    kinds = "iu"


@final
class Add(Binary, Linear):
    """The sum x + y; booleans: or. StableHLO: add."""

    __slots__ = ()
    kinds = "biufc"


@final
class Sub(Binary, Linear):
    """The difference x - y. StableHLO: subtract."""

    __slots__ = ()
    kinds = "iufc"


@final
class Mul(Binary):
    """The product x * y; booleans: and. StableHLO: multiply."""

    __slots__ = ()
    kinds = "biufc"


@final
class Div(Binary):
    """The quotient x / y; integers truncate toward zero. StableHLO: divide."""

    __slots__ = ()
    kinds = "iufc"


@final
class Rem(Binary):
    """The remainder with the sign of x. StableHLO: remainder."""

    __slots__ = ()
    kinds = "iuf"


@final
class Pow(Binary):
    """The power x**y. StableHLO: power."""

    __slots__ = ()
    kinds = "fc"


@final
class Atan2(Binary):
    """The angle of the point (y, x). StableHLO: atan2."""

    __slots__ = ()
    kinds = "f"


@final
class Max(Binary):
    """The larger one; NaN if one is NaN. StableHLO: maximum."""

    __slots__ = ()
    kinds = "biuf"


@final
class Min(Binary):
    """The smaller one; NaN if one is NaN. StableHLO: minimum."""

    __slots__ = ()
    kinds = "biuf"


@final
class NextAfter(Binary):
    """The next float after x in the direction of y. CHLO: next_after."""

    __slots__ = ()
    kinds = "f"


@final
class And(Binary):
    """Logical or bitwise and. StableHLO: and."""

    __slots__ = ()
    kinds = "biu"


@final
class Or(Binary):
    """Logical or bitwise or. StableHLO: or."""

    __slots__ = ()
    kinds = "biu"


@final
class Xor(Binary):
    """Logical or bitwise exclusive or. StableHLO: xor."""

    __slots__ = ()
    kinds = "biu"


@final
class ShiftLeft(Binary):
    """The bits of x shifted left by y. StableHLO: shift_left."""

    __slots__ = ()
    kinds = "iu"


@final
class ShiftRightArithmetic(Binary):
    """The bits of x shifted right by y, the sign bit repeated. StableHLO: shift_right_arithmetic."""

    __slots__ = ()
    kinds = "iu"


@final
class ShiftRightLogical(Binary):
    """The bits of x shifted right by y, zeros shifted in. StableHLO: shift_right_logical."""

    __slots__ = ()
    kinds = "iu"


@final
@attrs.frozen
class IntegerPow(Elementwise):
    """The power of x to a constant integer, by repeated multiplication. StableHLO: multiply.

    Attributes:
        exponent: any int for inexact x, not negative for integers.
    """

    exponent: int = attrs.field(validator=attrs.validators.instance_of(int))
    kinds: ClassVar[str] = "iufc"

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

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with a real dtype."""
        t = elementwise_type(self, types)
        return array_type(dtypes.real_dtype(t.dtype), t.shape, t.weak) if t.kind == "c" else t


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
    """The real part. StableHLO: real."""

    __slots__ = ()


@final
class Imag(ComplexPart):
    """The imaginary part. StableHLO: imag."""

    __slots__ = ()


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


@final
class IsFinite(Singleton, Elementwise):
    """True where x is neither NaN nor infinite. StableHLO: is_finite."""

    __slots__ = ()
    kinds = "f"

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

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of x; the bounds have its dtype, and its shape or rank 0."""
        check_arity(self, types, 3)
        t = elementwise_type(self, types)
        if t.shape != types[1].shape:
            raise ShapeError(
                f"clamp: bounds must have x's shape or rank 0: low, x, high are {types_text(types)}"
            )
        return array_type(t.dtype, t.shape, types[1].weak)
