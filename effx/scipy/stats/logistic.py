"""The logistic distribution, with density exp(-y) / (1 + exp(-y))²."""

from effx.array import Array, Operand
from effx.array.arithmetic import absolute
from effx.lax.elementwise.exponential import exp, log, log1p, logistic
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

LOGISTIC = DistributionFamily("logistic")


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density, which is even."""
    size = absolute(y)
    return -size - 2.0 * log1p(exp(-size))


def log_odds(p: Array) -> Array:
    """Returns log(p / (1 - p))."""
    return log(p) - log1p(-p)


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-y - 2 log(1 + exp(-y)) - log(scale).

    >>> f"{float(logpdf(0.0)):.4f}"
    '-1.3863'
    """
    return LOGISTIC.log_mass(log_density, x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-y) / (1 + exp(-y))² / scale.

    >>> f"{float(pdf(0.0)):.4f}"
    '0.2500'
    """
    return LOGISTIC.mass(log_density, x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 / (1 + exp(-y)).

    >>> f"{float(cdf(1.0)):.4f}"
    '0.7311'
    """
    return LOGISTIC.lower_probability(logistic, x, loc=loc, scale=scale)


@jit
def sf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 / (1 + exp(y)).

    >>> f"{float(sf(1.0)):.4f}"
    '0.2689'
    """
    return LOGISTIC.upper_probability(lambda y: logistic(-y), x, loc=loc, scale=scale)


@jit
def ppf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, log(x / (1 - x)) in the standard form; x is a probability.

    >>> f"{float(ppf(0.9)):.4f}"
    '2.1972'
    """
    return LOGISTIC.quantile(log_odds, x, loc=loc, scale=scale)


@jit
def isf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `sf`; x is a probability.

    >>> f"{float(isf(0.1)):.4f}"
    '2.1972'
    """
    return LOGISTIC.quantile(lambda p: -log_odds(p), x, loc=loc, scale=scale, function_name="isf")
