"""The chi-square distribution of df > 0 degrees of freedom: of 2 y, where y has the gamma distribution of shape df / 2."""

import math

from effx.array import Array, Operand
from effx.lazy import list_names
from effx.scipy.stats import gamma
from effx.scipy.stats.families import DistributionFamily, nonnegative_line
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__ = list_names(__all__)

CHI_SQUARE = DistributionFamily("chi2", nonnegative_line, lambda df: df > 0.0)


def log_density(y: Array, df: Array) -> Array:
    """Returns the logarithm of the density."""
    return gamma.log_density(y * 0.5, df * 0.5) - math.log(2.0)


@jit
def logpdf(x: Operand, df: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """(df / 2 - 1) log(y / 2) - y / 2 - log(2 gamma(df / 2)) - log(scale).

    >>> f"{float(logpdf(2.0, 3.0)):.4f}"
    '-1.5724'
    """
    return CHI_SQUARE.log_mass(log_density, x, df, loc=loc, scale=scale)


@jit
def pdf(x: Operand, df: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """(y / 2)^(df / 2 - 1) exp(-y / 2) / (2 gamma(df / 2)) / scale.

    >>> f"{float(pdf(2.0, 3.0)):.4f}"
    '0.2076'
    """
    return CHI_SQUARE.mass(log_density, x, df, loc=loc, scale=scale)


@jit
def cdf(x: Operand, df: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The regularised incomplete gamma function of df / 2 and y / 2.

    >>> f"{float(cdf(2.0, 3.0)):.4f}"
    '0.4276'
    """
    return CHI_SQUARE.lower_probability(
        lambda y, df: gamma.lower(y * 0.5, df * 0.5), x, df, loc=loc, scale=scale
    )


@jit
def sf(x: Operand, df: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """Its complement.

    >>> f"{float(sf(2.0, 3.0)):.4f}"
    '0.5724'
    """
    return CHI_SQUARE.upper_probability(
        lambda y, df: gamma.upper(y * 0.5, df * 0.5), x, df, loc=loc, scale=scale
    )


@jit
def logcdf(x: Operand, df: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `cdf`, -infinity where that underflows.

    >>> f"{float(logcdf(0.1, 3.0)):.4f}"
    '-4.8082'
    """
    return CHI_SQUARE.log_lower_probability(
        lambda y, df: gamma.log_lower(y * 0.5, df * 0.5), x, df, loc=loc, scale=scale
    )


@jit
def logsf(x: Operand, df: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `sf`, -infinity where that underflows.

    >>> f"{float(logsf(40.0, 3.0)):.4f}"
    '-18.3572'
    """
    return CHI_SQUARE.log_upper_probability(
        lambda y, df: gamma.log_upper(y * 0.5, df * 0.5), x, df, loc=loc, scale=scale
    )
