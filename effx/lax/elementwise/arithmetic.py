"""Sums, products, extremes and rounding, element by element."""

import enum

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, convert
from effx.dtypes import DTypeLike
from effx.errors import DTypeError
from effx.families.mulhi import Mulhi
from effx.ir.ops import elementwise as e
from effx.lax.declared import declare_binary, declare_unary
from effx.lax.operands import perform_binary, perform_ordered, perform_unary

__all__ = [
    "RoundingMethod", "abs", "add", "ceil", "div", "floor", "is_finite", "max", "min", "mul", "mulhi", "neg",
    "nextafter", "one_minus_square", "rem", "round", "sign", "square", "sub",
]  # fmt: skip

CEIL = e.Ceil()
MULHI = Mulhi()
SQUARE = e.Square()
ONE_MINUS_SQUARE = e.OneMinusSquare()
IS_FINITE = e.IsFinite()
NEXT_AFTER = e.NextAfter()
ROUND_AWAY_FROM_ZERO = e.RoundAwayFromZero()

neg = declare_unary(arithmetic.NEG, "Returns -x; unsigned integers wrap around.", "neg(2.0)", "-2.")
sign = declare_unary(
    arithmetic.SIGN,
    "Returns -1, 0 or 1 by the sign of x; of complex x, x / abs(x). NaN for NaN.",
    "sign(-2.5)",
    "-1.",
)
floor = declare_unary(arithmetic.FLOOR, "Returns the largest integers not above x.", "floor(-1.5)", "-2.")
ceil = declare_unary(CEIL, "Returns the smallest integers not below x.", "ceil(-1.5)", "-1.")
square = declare_unary(SQUARE, "Returns x * x.", "square(3.0)", "9.")


def abs(x: Operand) -> Array:
    """Returns the absolute value; of complex numbers a real array.

    Args:
        x: integer, floating or complex, of any shape.

    Returns:
        An array of x's shape, and of its dtype or of its real part's.

    Raises:
        DTypeError: x has another dtype.

    >>> abs(-3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return perform_unary(arithmetic.ABS, x)


def is_finite(x: Operand) -> Array:
    """Returns True where x is neither infinite nor NaN.

    Args:
        x: floating, of any shape.

    Returns:
        A boolean array of x's shape.

    Raises:
        DTypeError: x has another dtype.

    >>> is_finite(float("inf"))
    Array(False, dtype=bool)
    """
    return perform_unary(IS_FINITE, x)


add = declare_binary(arithmetic.ADD, "Returns x + y; of booleans, x or y.", "add(1.0, 2.0)", "3.")
sub = declare_binary(arithmetic.SUB, "Returns x - y.", "sub(1.0, 2.0)", "-1.")


def mul(x: Operand, y: Operand, *, out_dtype: DTypeLike | None = None) -> Array:
    """Returns x * y; of booleans, x and y.

    Args:
        x, y: any, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.
        out_dtype: both are converted to it first, whatever their dtypes.

    Returns:
        An array of the operands' dtype, or of `out_dtype`, and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> mul(3.0, 2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if out_dtype is None:
        return perform_binary(arithmetic.MUL, x, y)
    dtype = dtypes.canonicalize_requested(out_dtype)
    return perform_binary(arithmetic.MUL, *[convert(as_operand(v), dtype) for v in (x, y)])


div = declare_binary(
    arithmetic.DIV,
    "Returns x / y; integers truncate toward zero.",
    "div(-7, 2)",
    "-3",
    details="Integers divided by zero give -1, and the smallest integer divided by -1 gives itself.",
)
rem = declare_binary(
    arithmetic.REM, "Returns the remainder of x / y, with the sign of x.", "rem(-7, 2)", "-1"
)


def max(x: Operand, y: Operand) -> Array:
    """Returns the larger of both, NaN where one is NaN.

    Args:
        x, y: of one dtype, complex numbers by real and then by imaginary part; of one shape, or one a scalar.
            Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ.
        ShapeError: shapes differ.

    >>> max(1.0, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return perform_ordered(arithmetic.MAX, x, y)


def min(x: Operand, y: Operand) -> Array:
    """Returns the smaller of both, NaN where one is NaN.

    Args:
        x, y: of one dtype, complex numbers by real and then by imaginary part; of one shape, or one a scalar.
            Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ.
        ShapeError: shapes differ.

    >>> min(1.0, 2.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return perform_ordered(arithmetic.MIN, x, y)


def nextafter(x1: Operand, x2: Operand) -> Array:
    """Returns the next float after x1 in the direction of x2.

    Args:
        x1, x2: floating, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> nextafter(1.0, 2.0) - 1
    Array(1.1920929e-07, dtype=float32, weak_type=True)
    """
    return perform_binary(NEXT_AFTER, x1, x2)


class RoundingMethod(enum.Enum):
    """Where `round` takes halves.

    >>> import effx.lax as lax
    >>> print(lax.round(2.5, lax.RoundingMethod.AWAY_FROM_ZERO), lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN))
    3.0 2.0
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Operand, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Returns the nearest integers.

    Args:
        x: floating, of any shape.
        rounding_method: where halves go.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype, or `rounding_method` is no RoundingMethod.

    >>> round(2.5), round(2.5, RoundingMethod.TO_NEAREST_EVEN)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if not isinstance(rounding_method, RoundingMethod):
        raise DTypeError(f"round: rounding_method must be a RoundingMethod, got {rounding_method!r}")
    op = (
        ROUND_AWAY_FROM_ZERO if rounding_method is RoundingMethod.AWAY_FROM_ZERO else arithmetic.ROUND_TO_EVEN
    )
    return perform_unary(op, x)


one_minus_square = declare_unary(
    ONE_MINUS_SQUARE,
    "Returns 1 - x², as the product (1 - x)(1 + x), which loses no digits near 1.",
    "one_minus_square(0.5)",
    "0.75",
)


def mulhi(x: Operand, y: Operand, /) -> Array:
    """Returns the high half of the product, whose bits are twice as many as an operand's.

    Args:
        x, y: integers of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no integers.
        ShapeError: the shapes do not fit.

    >>> mulhi(2**30, -9)
    Array(-3, dtype=int32, weak_type=True)
    """
    return perform_binary(MULHI, x, y)
