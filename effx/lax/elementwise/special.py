"""Special functions that XLA computes itself."""

from effx.array import Array, Operand
from effx.families.special import Erf, Erfc, ErfInv
from effx.lax.operands import keeps_type, unary

__all__ = ["erf", "erf_inv", "erfc"]

ERF, ERFC, ERF_INV = Erf(), Erfc(), ErfInv()


@keeps_type
def erf(x: Operand) -> Array:
    """Returns the error function 2 / sqrt(pi) * integral of exp(-t^2) from 0 to x.

    Args:
        x: floating, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> erf(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(ERF, x)


@keeps_type
def erfc(x: Operand) -> Array:
    """Returns 1 - erf(x), exact for large x.

    Args:
        x: floating, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return unary(ERFC, x)


@keeps_type
def erf_inv(x: Operand) -> Array:
    """Returns the number whose error function is x; infinite at -1 and 1, NaN outside.

    Source: Giles, "Approximating the erfinv function", GPU Computing Gems, 2011.

    Args:
        x: floating, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> erf_inv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return unary(ERF_INV, x)
