"""Comparisons element by element."""

from effx.array import Array, Operand
from effx.ir.ops import compare as c
from effx.lax.operands import binary

__all__ = ["eq", "ge", "gt", "le", "lt", "ne"]

EQ = c.Eq()
NE = c.Ne()
LT = c.Lt()
LE = c.Le()
GT = c.Gt()
GE = c.Ge()


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
    return binary(EQ, x, y)


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
    return binary(NE, x, y)


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
    return binary(LT, x, y)


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
    return binary(LE, x, y)


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
    return binary(GT, x, y)


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
    return binary(GE, x, y)
