"""The gamma distribution of shape a > 0, with density y^(a - 1) exp(-y) / gamma(a) for y >= 0."""

from effx.array import Array, Operand
from effx.array.promotion import broadcast_arrays
from effx.lax.elementwise.gamma import igamma, igammac, lgamma
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, log_of_probability, nonnegative_line, weighted_log
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__ = list_names(__all__)

GAMMA = DistributionFamily("gamma", nonnegative_line, lambda a: a > 0.0)


def log_density(y: Array, a: Array) -> Array:
    """Returns the logarithm of the density."""
    return weighted_log(a - 1.0, y) - y - lgamma(a)


def lower(y: Array, a: Array) -> Array:
    """Returns the probability of smaller numbers."""
    return igamma(*broadcast_arrays([a, y]))


def upper(y: Array, a: Array) -> Array:
    """Returns the probability of larger numbers."""
    return igammac(*broadcast_arrays([a, y]))


def log_lower(y: Array, a: Array) -> Array:
    """Returns the logarithm of the probability of smaller numbers."""
    return log_of_probability(lower(y, a), upper(y, a))


def log_upper(y: Array, a: Array) -> Array:
    """Returns the logarithm of the probability of larger numbers."""
    return log_of_probability(upper(y, a), lower(y, a))


@jit
def logpdf(x: Operand, a: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """(a - 1) log(y) - y - log(gamma(a)) - log(scale).

    >>> f"{float(logpdf(2.0, 3.0)):.4f}"
    '-1.3069'
    """
    return GAMMA.log_mass(log_density, x, a, loc=loc, scale=scale)


@jit
def pdf(x: Operand, a: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """y^(a - 1) exp(-y) / gamma(a) / scale.

    >>> f"{float(pdf(2.0, 3.0)):.4f}"
    '0.2707'
    """
    return GAMMA.mass(log_density, x, a, loc=loc, scale=scale)


@jit
def cdf(x: Operand, a: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The regularised incomplete gamma function, `effx.scipy.special.gammainc(a, y)`.

    >>> f"{float(cdf(2.0, 3.0)):.4f}"
    '0.3233'
    """
    return GAMMA.lower_probability(lower, x, a, loc=loc, scale=scale)


@jit
def sf(x: Operand, a: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """Its complement, `effx.scipy.special.gammaincc(a, y)`.

    >>> f"{float(sf(2.0, 3.0)):.4f}"
    '0.6767'
    """
    return GAMMA.upper_probability(upper, x, a, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, a: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `cdf`, -infinity where that underflows.

    >>> f"{float(logcdf(0.1, 3.0)):.4f}"
    '-8.7743'
    """
    return GAMMA.log_lower_probability(log_lower, x, a, loc=loc, scale=scale)


@jit
def logsf(x: Operand, a: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `sf`, -infinity where that underflows.

    >>> f"{float(logsf(20.0, 3.0)):.4f}"
    '-14.6018'
    """
    return GAMMA.log_upper_probability(log_upper, x, a, loc=loc, scale=scale)
