"""The Gumbel distribution of least values, with density exp(y - exp(y)): that of -y in `gumbel_r`."""

from effx.array import Array, Operand
from effx.lax.elementwise.exponential import log, log1p
from effx.lazy import list_names
from effx.scipy.stats import gumbel_r
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

GUMBEL = DistributionFamily("gumbel_l")


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """Y - exp(y) - log(scale).

    >>> f"{float(logpdf(0.0)):.4f}"
    '-1.0000'
    """
    return GUMBEL.log_mass(lambda y: gumbel_r.log_density(-y), x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(y - exp(y)) / scale.

    >>> f"{float(pdf(0.0)):.4f}"
    '0.3679'
    """
    return GUMBEL.mass(lambda y: gumbel_r.log_density(-y), x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 - exp(-exp(y)).

    >>> f"{float(cdf(0.0)):.4f}"
    '0.6321'
    """
    return GUMBEL.lower_probability(lambda y: gumbel_r.upper(-y), x, loc=loc, scale=scale)


@jit
def sf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-exp(y)).

    >>> f"{float(sf(0.0)):.4f}"
    '0.3679'
    """
    return GUMBEL.upper_probability(lambda y: gumbel_r.lower(-y), x, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """log(1 - exp(-exp(y))).

    >>> f"{float(logcdf(-20.0)):.4f}"
    '-20.0000'
    """
    return GUMBEL.log_lower_probability(lambda y: gumbel_r.log_upper(-y), x, loc=loc, scale=scale)


@jit
def logsf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-exp(y).

    >>> f"{float(logsf(1.0)):.4f}"
    '-2.7183'
    """
    return GUMBEL.log_upper_probability(lambda y: gumbel_r.log_lower(-y), x, loc=loc, scale=scale)


@jit
def ppf(p: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, log(-log(1 - p)) in the standard form.

    >>> f"{float(ppf(0.5)):.4f}"
    '-0.3665'
    """
    return GUMBEL.quantile(lambda p: log(-log1p(-p)), p, loc=loc, scale=scale)
