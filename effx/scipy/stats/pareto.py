"""The Pareto distribution, with density b / y^(b + 1) for y >= 1 and b > 0."""

import math

from effx.array import Array, Operand
from effx.lax.elementwise.exponential import exp, expm1, log, log1p
from effx.lazy import list_names
from effx.nn.exponentials import log1mexp
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

PARETO = DistributionFamily("pareto", lambda b: (1.0, math.inf), lambda b: b > 0.0, inner=2.0)


def log_density(y: Array, b: Array) -> Array:
    """Returns the logarithm of the density."""
    return log(b) - (b + 1.0) * log(y)


def minus_log_upper(y: Array, b: Array) -> Array:
    """Returns minus the logarithm of the probability of larger numbers."""
    return b * log(y)


@jit
def logpdf(x: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """log(b) - (b + 1) log(y) - log(scale).

    >>> f"{float(logpdf(2.0, 3.0)):.4f}"
    '-1.6740'
    """
    return PARETO.log_mass(log_density, x, b, loc=loc, scale=scale)


@jit
def pdf(x: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """B / y^(b + 1) / scale.

    >>> f"{float(pdf(2.0, 3.0)):.4f}"
    '0.1875'
    """
    return PARETO.mass(log_density, x, b, loc=loc, scale=scale)


@jit
def cdf(x: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 - y^-b.

    >>> f"{float(cdf(2.0, 3.0)):.4f}"
    '0.8750'
    """
    return PARETO.lower_probability(lambda y, b: -expm1(-minus_log_upper(y, b)), x, b, loc=loc, scale=scale)


@jit
def sf(x: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """y^-b.

    >>> f"{float(sf(2.0, 3.0)):.4f}"
    '0.1250'
    """
    return PARETO.upper_probability(lambda y, b: exp(-minus_log_upper(y, b)), x, b, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """log(1 - y^-b).

    >>> f"{float(logcdf(2.0, 3.0)):.4f}"
    '-0.1335'
    """
    return PARETO.log_lower_probability(
        lambda y, b: log1mexp(minus_log_upper(y, b)), x, b, loc=loc, scale=scale
    )


@jit
def logsf(x: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-b log(y).

    >>> f"{float(logsf(2.0, 3.0)):.4f}"
    '-2.0794'
    """
    return PARETO.log_upper_probability(lambda y, b: -minus_log_upper(y, b), x, b, loc=loc, scale=scale)


@jit
def ppf(q: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, (1 - q)^(-1 / b) in the standard form.

    >>> f"{float(ppf(0.5, 3.0)):.4f}"
    '1.2599'
    """
    return PARETO.quantile(lambda p, b: exp(-log1p(-p) / b), q, b, loc=loc, scale=scale)
