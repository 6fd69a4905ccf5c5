"""Sums, products, extremes and rounding, element by element."""

import enum

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, convert
from effx.dtypes import DTypeLike
from effx.errors import DTypeError
from effx.families.mulhi import Mulhi
from effx.ir.ops import elementwise as e
from effx.lax.operands import perform_binary, perform_ordered, perform_unary, typed_as_unary

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


@typed_as_unary
def neg(x: Operand) -> Array:
    """Returns -x; unsigned integers wrap around.

    Args:
        x: integer, floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> neg(2.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    return perform_unary(arithmetic.NEG, x)


@typed_as_unary
def sign(x: Operand) -> Array:
    """Returns -1, 0 or 1 by the sign of x; of complex x, x / abs(x). NaN for NaN.

    Args:
        x: integer, floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> sign(-2.5)
    Array(-1., dtype=float32, weak_type=True)
    """
    return perform_unary(arithmetic.SIGN, x)


@typed_as_unary
def floor(x: Operand) -> Array:
    """Returns the largest integers not above x.

    Args:
        x: floating, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> floor(-1.5)
    Array(-2., dtype=float32, weak_type=True)
    """
    return perform_unary(arithmetic.FLOOR, x)


@typed_as_unary
def ceil(x: Operand) -> Array:
    """Returns the smallest integers not below x.

    Args:
        x: floating, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> ceil(-1.5)
    Array(-1., dtype=float32, weak_type=True)
    """
    return perform_unary(CEIL, x)


@typed_as_unary
def square(x: Operand) -> Array:
    """Returns x * x.

    Args:
        x: integer, floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> square(3.0)
    Array(9., dtype=float32, weak_type=True)
    """
    return perform_unary(SQUARE, x)


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


def add(x: Operand, y: Operand) -> Array:
    """Returns x + y; of booleans, x or y.

    Args:
        x, y: any, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> add(1.0, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return perform_binary(arithmetic.ADD, x, y)


def sub(x: Operand, y: Operand) -> Array:
    """Returns x - y.

    Args:
        x, y: integer, floating or complex, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> sub(1.0, 2.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return perform_binary(arithmetic.SUB, x, y)


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
    return perform_binary(arithmetic.MUL, *[convert(as_operand(v, "mul"), dtype) for v in (x, y)])


def div(x: Operand, y: Operand) -> Array:
    """Returns x / y; integers truncate toward zero.

    Integers divided by zero give -1, and the smallest integer divided by -1 gives itself.

    Args:
        x, y: integer, floating or complex, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> div(-7, 2)
    Array(-3, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.DIV, x, y)


def rem(x: Operand, y: Operand) -> Array:
    """Returns the remainder of x / y, with the sign of x.

    Args:
        x, y: integer or floating, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> rem(-7, 2)
    Array(-1, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.REM, x, y)


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
    """Where `round` takes halves."""

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


@typed_as_unary
def one_minus_square(x: Operand) -> Array:
    """Returns 1 - x², as the product (1 - x)(1 + x), which loses no digits near 1.

    Args:
        x: a number of any dtype but bool, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> one_minus_square(0.5)
    Array(0.75, dtype=float32, weak_type=True)
    """
    return perform_unary(ONE_MINUS_SQUARE, x)


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
