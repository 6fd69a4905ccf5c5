"""Logical and bitwise operations, shifts and counts of bits."""

from effx.array import Array, Operand, arithmetic
from effx.ir.ops import elementwise as e
from effx.lax.operands import perform_binary, perform_unary, typed_as_unary

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "population_count", "shift_left",
    "shift_right_arithmetic", "shift_right_logical",
]  # fmt: skip

POPULATION_COUNT = e.PopulationCount()
COUNT_LEADING_ZEROS = e.CountLeadingZeros()


@typed_as_unary
def bitwise_not(x: Operand) -> Array:
    """Returns logical not of booleans, bitwise not of integers.

    Args:
        x: integer or boolean, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> bitwise_not(5)
    Array(-6, dtype=int32, weak_type=True)
    """
    return perform_unary(arithmetic.NOT, x)


@typed_as_unary
def population_count(x: Operand) -> Array:
    """Returns the number of bits that are 1.

    Args:
        x: integer, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> population_count(7)
    Array(3, dtype=int32, weak_type=True)
    """
    return perform_unary(POPULATION_COUNT, x)


@typed_as_unary
def clz(x: Operand) -> Array:
    """Returns the number of leading bits that are 0.

    Args:
        x: integer, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> clz(1)
    Array(31, dtype=int32, weak_type=True)
    """
    return perform_unary(COUNT_LEADING_ZEROS, x)


def bitwise_and(x: Operand, y: Operand) -> Array:
    """Returns logical or bitwise and.

    Args:
        x, y: integer or boolean, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.AND, x, y)


def bitwise_or(x: Operand, y: Operand) -> Array:
    """Returns logical or bitwise or.

    Args:
        x, y: integer or boolean, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.OR, x, y)


def bitwise_xor(x: Operand, y: Operand) -> Array:
    """Returns logical or bitwise exclusive or.

    Args:
        x, y: integer or boolean, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.XOR, x, y)


def shift_left(x: Operand, y: Operand) -> Array:
    """Returns x shifted left by y bits; 0 if y is not below the width.

    Args:
        x, y: integer, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> shift_left(1, 4)
    Array(16, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.SHIFT_LEFT, x, y)


def shift_right_arithmetic(x: Operand, y: Operand) -> Array:
    """Returns x shifted right by y bits, the sign bit repeated.

    Args:
        x, y: integer, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> shift_right_arithmetic(-8, 1)
    Array(-4, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.SHIFT_RIGHT, x, y)


def shift_right_logical(x: Operand, y: Operand) -> Array:
    """Returns x shifted right by y bits, zeros shifted in.

    Args:
        x, y: integer, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> shift_right_logical(8, 1)
    Array(4, dtype=int32, weak_type=True)
    """
    return perform_binary(arithmetic.SHIFT_RIGHT_LOGICAL, x, y)
