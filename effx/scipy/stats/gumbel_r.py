"""The Gumbel distribution of largest values, with density exp(-(y + exp(-y)))."""

import math

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import minimum, where
from effx.lax.elementwise.exponential import exp, expm1, log
from effx.lazy import list_names
from effx.nn.exponentials import log1mexp
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

GUMBEL = DistributionFamily("gumbel_r")


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return -y - exp_with_bounded_derivative(-y)


def exp_with_bounded_derivative(y: Array) -> Array:
    """Returns exp(y), with derivative 0 where it is infinite, so that its product with a density of 0 is 0."""
    most = math.log(float(dtypes.finfo(y.type.dtype).max)) * (1 - 1e-6)
    return where(y > most, math.inf, exp(minimum(y, most)))


def log_lower(y: Array) -> Array:
    """Returns the logarithm of the probability of smaller numbers."""
    return -exp_with_bounded_derivative(-y)


def lower(y: Array) -> Array:
    """Returns the probability of smaller numbers."""
    return exp(log_lower(y))


def upper(y: Array) -> Array:
    """Returns the probability of larger numbers."""
    return -expm1(log_lower(y))


def log_upper(y: Array) -> Array:
    """Returns the logarithm of the probability of larger numbers."""
    # Of a large y it is -y, where the exponential may underflow.
    large = y > 40.0
    return where(large, -y, log1mexp(exp_with_bounded_derivative(where(large, 0.0, -y))))


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-(y + exp(-y)) - log(scale).

    >>> f"{float(logpdf(0.0)):.4f}"
    '-1.0000'
    """
    return GUMBEL.log_mass(log_density, x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-(y + exp(-y))) / scale.

    >>> f"{float(pdf(0.0)):.4f}"
    '0.3679'
    """
    return GUMBEL.mass(log_density, x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-exp(-y)).

    >>> f"{float(cdf(0.0)):.4f}"
    '0.3679'
    """
    return GUMBEL.lower_probability(lower, x, loc=loc, scale=scale)


@jit
def sf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 - exp(-exp(-y)).

    >>> f"{float(sf(0.0)):.4f}"
    '0.6321'
    """
    return GUMBEL.upper_probability(upper, x, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-exp(-y).

    >>> f"{float(logcdf(-1.0)):.4f}"
    '-2.7183'
    """
    return GUMBEL.log_lower_probability(log_lower, x, loc=loc, scale=scale)


@jit
def logsf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """log(1 - exp(-exp(-y))).

    >>> f"{float(logsf(20.0)):.4f}"
    '-20.0000'
    """
    return GUMBEL.log_upper_probability(log_upper, x, loc=loc, scale=scale)


@jit
def ppf(p: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, -log(-log(p)) in the standard form.

    >>> f"{float(ppf(0.5)):.4f}"
    '0.3665'
    """
    return GUMBEL.quantile(lambda p: -log(-log(p)), p, loc=loc, scale=scale)
