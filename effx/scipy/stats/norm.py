"""The normal distribution, with density exp(-y² / 2) / sqrt(2 pi)."""

import math

from effx.array import Array, Operand
from effx.families.quantiles import NDTRI
from effx.lax.elementwise.special import erfc
from effx.lazy import list_names
from effx.scipy.special.normals import log_normal_cdf
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

NORMAL = DistributionFamily("norm", strong=("cdf", "sf", "logcdf", "logsf", "ppf", "isf"))


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return y * y * -0.5 - 0.5 * math.log(2 * math.pi)


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-(y² + log(2 pi)) / 2 - log(scale).

    >>> f"{float(logpdf(0.0)):.4f}"
    '-0.9189'
    """
    return NORMAL.log_mass(log_density, x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-y² / 2) / (scale sqrt(2 pi)).

    >>> f"{float(pdf(0.0)):.4f}"
    '0.3989'
    """
    return NORMAL.mass(log_density, x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """erfc(-y / sqrt(2)) / 2.

    >>> f"{float(cdf(1.0)):.4f}"
    '0.8413'
    """
    return NORMAL.lower_probability(lambda y: erfc(y * -math.sqrt(0.5)) * 0.5, x, loc=loc, scale=scale)


@jit
def sf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """erfc(y / sqrt(2)) / 2.

    >>> f"{float(sf(1.0)):.4f}"
    '0.1587'
    """
    return NORMAL.upper_probability(lambda y: erfc(y * math.sqrt(0.5)) * 0.5, x, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `cdf`, as `effx.scipy.special.log_ndtr`.

    >>> f"{float(logcdf(-10.0)):.4f}"
    '-53.2313'
    """
    return NORMAL.log_lower_probability(log_normal_cdf, x, loc=loc, scale=scale)


@jit
def logsf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `sf`.

    >>> f"{float(logsf(10.0)):.4f}"
    '-53.2313'
    """
    return NORMAL.log_upper_probability(lambda y: log_normal_cdf(-y), x, loc=loc, scale=scale)


@jit
def ppf(q: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, as `effx.scipy.special.ndtri`.

    >>> f"{float(ppf(0.975)):.4f}"
    '1.9600'
    """
    return NORMAL.quantile(lambda p: NDTRI(p), q, loc=loc, scale=scale)


@jit
def isf(q: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `sf`, exact for small q.

    >>> f"{float(isf(0.025)):.4f}"
    '1.9600'
    """
    return NORMAL.quantile(lambda p: -NDTRI(p), q, loc=loc, scale=scale, function_name="isf")
