"""The uniform distribution, with density 1 for y in [0, 1]."""

from effx.array import Array, Operand
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logpdf", "pdf", "ppf"]
__dir__ = list_names(__all__)

UNIFORM = DistributionFamily("uniform", lambda: (0.0, 1.0))


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return y * 0.0


@jit
def logpdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """-log(scale).

    >>> f"{float(logpdf(1.0, 0.0, 2.0)):.4f}"
    '-0.6931'
    """
    return UNIFORM.log_mass(log_density, x, loc=loc, scale=scale)


@jit
def pdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """1 / scale.

    >>> f"{float(pdf(1.0, 0.0, 2.0)):.4f}"
    '0.5000'
    """
    return UNIFORM.mass(log_density, x, loc=loc, scale=scale)


@jit
def cdf(x: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The part of the support that is below x, y.

    >>> f"{float(cdf(1.5, 1.0, 2.0)):.4f}"
    '0.2500'
    """
    return UNIFORM.lower_probability(lambda y: y, x, loc=loc, scale=scale)


@jit
def ppf(q: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The inverse of `cdf`, q in the standard form.

    >>> f"{float(ppf(0.25, 1.0, 2.0)):.4f}"
    '1.5000'
    """
    return UNIFORM.quantile(lambda p: p, q, loc=loc, scale=scale)
