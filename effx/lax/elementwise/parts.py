"""Complex numbers: their parts, and making them."""

from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand
from effx.effects import perform
from effx.ir.ops import elementwise as e
from effx.ir.values.scalars import scalar
from effx.lax.operands import perform_binary, perform_unary

__all__ = ["complex", "conj", "imag", "real"]

COMPLEX = e.Complex()


def real(x: Operand) -> Array:
    """Returns the real part.

    Args:
        x: complex, of any shape.

    Returns:
        A real array of x's shape.

    Raises:
        DTypeError: x has another dtype.

    >>> real(1 + 2j)
    Array(1., dtype=float32, weak_type=True)
    """
    return perform_unary(arithmetic.REAL, x)


def imag(x: Operand) -> Array:
    """Returns the imaginary part.

    Args:
        x: complex, of any shape.

    Returns:
        A real array of x's shape.

    Raises:
        DTypeError: x has another dtype.

    >>> imag(1 + 2j)
    Array(2., dtype=float32, weak_type=True)
    """
    return perform_unary(arithmetic.IMAG, x)


def complex(x: Operand, y: Operand) -> Array:
    """Returns x + iy.

    Args:
        x, y: f32 or f64, of one dtype; of one shape, or one a scalar.

    Returns:
        A complex array of the common shape.

    Raises:
        DTypeError: dtypes differ or are not supported.
        ShapeError: shapes differ.

    >>> complex(1.0, 2.0)
    Array(1.+2.j, dtype=complex64, weak_type=True)
    """
    return perform_binary(COMPLEX, x, y)


def conj(x: Operand) -> Array:
    """Returns the complex conjugate.

    Args:
        x: complex, f32 or f64, of any shape.

    Returns:
        A complex array of x's shape; real x gets the imaginary part 0.

    Raises:
        DTypeError: x has another dtype.

    >>> conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    z = as_operand(x)
    if z.type.kind == "f":
        return perform(COMPLEX, (z, scalar(0.0, z.type.dtype)))
    return perform(arithmetic.CONJ, (z,))
