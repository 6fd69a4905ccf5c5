"""Error functions and the normal distribution."""

import math

from effx.array import Array, Operand
from effx.array.arithmetic import promote_inexact
from effx.families.quantiles import NDTRI
from effx.lax.elementwise import special

__all__ = ["erf", "erfc", "erfinv", "ndtr", "ndtri"]


def erf(x: Operand) -> Array:
    """The error function.

    >>> float(erf(0.0))
    0.0
    """
    return special.erf(*promote_inexact(x))


def erfc(x: Operand) -> Array:
    """1 - erf(x), exact for large x.

    >>> float(erfc(0.0))
    1.0
    """
    return special.erfc(*promote_inexact(x))


def erfinv(x: Operand) -> Array:
    """The inverse of `erf`.

    >>> float(erfinv(0.0))
    0.0
    """
    return special.erf_inv(*promote_inexact(x))


def ndtr(x: Operand) -> Array:
    """The distribution function of the standard normal distribution.

    >>> float(ndtr(0.0))
    0.5
    """
    (a,) = promote_inexact(x)
    return special.erfc(a * -math.sqrt(0.5)) * 0.5


def ndtri(p: Operand) -> Array:
    """The inverse of `ndtr`: the quantiles of the standard normal distribution.

    Args:
        p: probabilities; outside [0, 1] the result is NaN.

    Source: Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37, 1988.

    >>> float(ndtri(0.5))
    0.0
    """
    return NDTRI(*promote_inexact(p))
