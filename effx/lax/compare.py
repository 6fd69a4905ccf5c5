"""Comparisons element by element."""

from effx.array import Array, Operand, arithmetic
from effx.lax.operands import perform_binary

__all__ = ["eq", "ge", "gt", "le", "lt", "ne"]


def eq(x: Operand, y: Operand) -> Array:
    """Returns x == y.

    Args:
        x, y: any, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        A boolean array of the common shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> eq(1, 2)
    Array(False, dtype=bool)
    """
    return perform_binary(arithmetic.EQ, x, y)


def ne(x: Operand, y: Operand) -> Array:
    """Returns x != y.

    Args:
        x, y: any, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        A boolean array of the common shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> ne(1, 2)
    Array(True, dtype=bool)
    """
    return perform_binary(arithmetic.NE, x, y)


def lt(x: Operand, y: Operand) -> Array:
    """Returns x < y.

    Args:
        x, y: boolean, integer or floating, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        A boolean array of the common shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> lt(1, 2)
    Array(True, dtype=bool)
    """
    return perform_binary(arithmetic.LT, x, y)


def le(x: Operand, y: Operand) -> Array:
    """Returns x <= y.

    Args:
        x, y: boolean, integer or floating, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        A boolean array of the common shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> le(1, 2)
    Array(True, dtype=bool)
    """
    return perform_binary(arithmetic.LE, x, y)


def gt(x: Operand, y: Operand) -> Array:
    """Returns x > y.

    Args:
        x, y: boolean, integer or floating, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        A boolean array of the common shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> gt(1, 2)
    Array(False, dtype=bool)
    """
    return perform_binary(arithmetic.GT, x, y)


def ge(x: Operand, y: Operand) -> Array:
    """Returns x >= y.

    Args:
        x, y: boolean, integer or floating, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        A boolean array of the common shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> ge(1, 2)
    Array(False, dtype=bool)
    """
    return perform_binary(arithmetic.GE, x, y)
