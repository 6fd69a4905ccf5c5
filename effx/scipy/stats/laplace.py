"""The Laplace distribution, with density exp(-abs(y)) / 2."""

import math

from effx.array import Array, Operand
from effx.array.arithmetic import absolute, where
from effx.lax.elementwise.exponential import exp
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logpdf", "pdf"]
__dir__ = list_names(__all__)

LAPLACE = DistributionFamily("laplace")


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return -absolute(y) - math.log(2.0)


def lower(y: Array) -> Array:
    """Returns the distribution function."""
    half = exp(-absolute(y)) * 0.5
    return where(y < 0.0, half, 1.0 - half)


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-abs(y) - log(2 scale).

    >>> f"{float(logpdf(0.0)):.4f}"
    '-0.6931'
    """
    return LAPLACE.log_mass(log_density, x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-abs(y)) / (2 scale).

    >>> f"{float(pdf(1.0)):.4f}"
    '0.1839'
    """
    return LAPLACE.mass(log_density, x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(y) / 2 below 0, 1 - exp(-y) / 2 above.

    >>> f"{float(cdf(1.0)):.4f}"
    '0.8161'
    """
    return LAPLACE.lower_probability(lower, x, loc=loc, scale=scale)
