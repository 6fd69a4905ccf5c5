"""The Cauchy distribution, with density 1 / (pi (1 + y²))."""

import math

from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.lax.elementwise.exponential import log
from effx.lax.elementwise.trigonometric import atan2, tan
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, log1p_square, log_of_probability
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

CAUCHY = DistributionFamily("cauchy")


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return -log1p_square(y) - math.log(math.pi)


def upper_tail(y: Array) -> Array:
    """Returns the probability of larger numbers: the angle of (y, 1), with all digits for large y."""
    return atan2(y * 0.0 + 1.0, y) * (1 / math.pi)


def log_upper_tail(y: Array) -> Array:
    """Returns its logarithm."""
    # The probability of a large y, 1 / (pi y), may underflow.
    large = y > 1e10
    near = where(large, 0.0, y)
    logarithm = log_of_probability(upper_tail(near), upper_tail(-near))
    return where(large, -log(where(large, y, 1.0)) - math.log(math.pi), logarithm)


def quantile(p: Array) -> Array:
    """Returns tan(pi (p - 1/2)), near 0 and 1 as the reciprocal of a tangent of the small distance."""
    middle = (p > 0.25) & (p < 0.75)
    angle = where(middle, p - 0.5, where(p < 0.5, -p, 1.0 - p))
    slope = tan(angle * math.pi)
    return where(middle, slope, 1.0 / where(middle, 1.0, where(p == 1.0, 0.0, slope)))


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-log(pi scale (1 + y²)).

    >>> f"{float(logpdf(0.0)):.4f}"
    '-1.1447'
    """
    return CAUCHY.log_mass(log_density, x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 / (pi scale (1 + y²)).

    >>> f"{float(pdf(0.0)):.4f}"
    '0.3183'
    """
    return CAUCHY.mass(log_density, x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """arctan(y) / pi + 1/2.

    >>> f"{float(cdf(1.0)):.4f}"
    '0.7500'
    """
    return CAUCHY.lower_probability(lambda y: upper_tail(-y), x, loc=loc, scale=scale)


@jit
def sf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1/2 - arctan(y) / pi.

    >>> f"{float(sf(1.0)):.4f}"
    '0.2500'
    """
    return CAUCHY.upper_probability(upper_tail, x, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `cdf`.

    >>> f"{float(logcdf(-1e6)):.4f}"
    '-14.9602'
    """
    return CAUCHY.log_lower_probability(lambda y: log_upper_tail(-y), x, loc=loc, scale=scale)


@jit
def logsf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `sf`.

    >>> f"{float(logsf(1e6)):.4f}"
    '-14.9602'
    """
    return CAUCHY.log_upper_probability(log_upper_tail, x, loc=loc, scale=scale)


@jit
def ppf(q: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, tan(pi (q - 1/2)) in the standard form.

    >>> f"{float(ppf(0.75)):.4f}"
    '1.0000'
    """
    return CAUCHY.quantile(quantile, q, loc=loc, scale=scale)


@jit
def isf(q: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `sf`.

    >>> f"{float(isf(0.25)):.4f}"
    '1.0000'
    """
    return CAUCHY.quantile(lambda p: -quantile(p), q, loc=loc, scale=scale, function_name="isf")
