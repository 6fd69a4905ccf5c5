"""The exponential distribution, with density exp(-y) for y >= 0."""

from effx.array import Array, Operand
from effx.lax.elementwise.exponential import exp, expm1, log1p
from effx.lazy import list_names
from effx.nn.exponentials import log1mexp
from effx.scipy.stats.families import DistributionFamily, nonnegative_line
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

EXPONENTIAL = DistributionFamily("expon", nonnegative_line)


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density, which is that of the probability of larger numbers too."""
    return -y


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-y - log(scale).

    >>> f"{float(logpdf(1.0)):.4f}"
    '-1.0000'
    """
    return EXPONENTIAL.log_mass(log_density, x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-y) / scale.

    >>> f"{float(pdf(1.0)):.4f}"
    '0.3679'
    """
    return EXPONENTIAL.mass(log_density, x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 - exp(-y).

    >>> f"{float(cdf(1.0)):.4f}"
    '0.6321'
    """
    return EXPONENTIAL.lower_probability(lambda y: -expm1(-y), x, loc=loc, scale=scale)


@jit
def sf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-y).

    >>> f"{float(sf(1.0)):.4f}"
    '0.3679'
    """
    return EXPONENTIAL.upper_probability(lambda y: exp(-y), x, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """log(1 - exp(-y)).

    >>> f"{float(logcdf(1.0)):.4f}"
    '-0.4587'
    """
    return EXPONENTIAL.log_lower_probability(log1mexp, x, loc=loc, scale=scale)


@jit
def logsf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-y.

    >>> f"{float(logsf(1.0)):.4f}"
    '-1.0000'
    """
    return EXPONENTIAL.log_upper_probability(log_density, x, loc=loc, scale=scale)


@jit
def ppf(q: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, -log(1 - q) in the standard form.

    >>> f"{float(ppf(0.5)):.4f}"
    '0.6931'
    """
    return EXPONENTIAL.quantile(lambda p: -log1p(-p), q, loc=loc, scale=scale)
