"""The normal distribution truncated to [a, b], where a < b; the bounds are those of y."""

import math

from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.lax.elementwise.exponential import exp, log1p
from effx.scipy.special.normals import log_normal_below
from effx.scipy.stats import norm
from effx.scipy.stats.families import Family, log1mexp
from effx.transforms.jit import jit

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

TRUNCATED = Family("truncnorm", lambda a, b: (a, b), lambda a, b: a < b)


def log_between(a: Array, b: Array) -> Array:
    """Returns the logarithm of the probability of [a, b] in the normal distribution; -infinity where a >= b.

    Intervals above 0 are reflected, so that both ends have small probabilities.
    """
    some = a < b
    a, b = where(some, a, -1.0), where(some, b, 1.0)
    reflect = a > 0.0
    a, b = where(reflect, -b, a), where(reflect, -a, b)
    below, across = log_normal_below(a), b > 0.0
    upto = log_normal_below(where(across, -b, b))
    # Differences of two logarithms that are both small; 1 - Φ(a) - Φ(-b) where 0 is inside.
    finite = (below > -math.inf) & ~across
    excess = where(finite, upto - where(finite, below, 0.0), math.log(2.0))
    tail = upto + where(finite, log1mexp(excess), 0.0)
    middle = log1p(where(across, -exp(below) - exp(upto), 0.0))
    return where(some, where(across, middle, tail), -math.inf)


def log_density(y: Array, a: Array, b: Array) -> Array:
    """Returns the logarithm of the density."""
    return norm.log_density(y) - log_between(a, b)


def log_part(part: Array, rest: Array, whole: Array) -> Array:
    """Returns log(part / whole) from logarithms, by the rest where the part is nearly the whole."""
    value = part - whole
    near = value > -0.1
    return where(near, log1p(-exp(where(near, rest - whole, -1.0))), value)


def log_lower(y: Array, a: Array, b: Array) -> Array:
    """Returns the logarithm of the probability of smaller numbers."""
    return log_part(log_between(a, y), log_between(y, b), log_between(a, b))


def log_upper(y: Array, a: Array, b: Array) -> Array:
    """Returns the logarithm of the probability of larger numbers."""
    return log_part(log_between(y, b), log_between(a, y), log_between(a, b))


@jit
def logpdf(x: Operand, a: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `pdf`.

    >>> f"{float(logpdf(1.0, -1.0, 2.0)):.4f}"
    '-1.2188'
    """
    return TRUNCATED.log_mass(log_density, x, a, b, loc=loc, scale=scale)


@jit
def pdf(x: Operand, a: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """exp(-y² / 2) / sqrt(2 pi) / (Φ(b) - Φ(a)) / scale, where Φ is the normal distribution function.

    >>> f"{float(pdf(1.0, -1.0, 2.0)):.4f}"
    '0.2956'
    """
    return TRUNCATED.mass(log_density, x, a, b, loc=loc, scale=scale)


@jit
def cdf(x: Operand, a: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """(Φ(y) - Φ(a)) / (Φ(b) - Φ(a)).

    >>> f"{float(cdf(1.0, -1.0, 2.0)):.4f}"
    '0.8340'
    """
    return TRUNCATED.below(lambda *xs: exp(log_lower(*xs)), x, a, b, loc=loc, scale=scale)


@jit
def sf(x: Operand, a: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """(Φ(b) - Φ(y)) / (Φ(b) - Φ(a)).

    >>> f"{float(sf(1.0, -1.0, 2.0)):.4f}"
    '0.1660'
    """
    return TRUNCATED.above(lambda *xs: exp(log_upper(*xs)), x, a, b, loc=loc, scale=scale)


@jit
def logcdf(x: Operand, a: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `cdf`.

    >>> f"{float(logcdf(-20.0, -21.0, 2.0)):.4f}"
    '-203.8941'
    """
    return TRUNCATED.log_below(log_lower, x, a, b, loc=loc, scale=scale)


@jit
def logsf(x: Operand, a: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Array:
    """The logarithm of `sf`.

    >>> f"{float(logsf(20.0, -1.0, 21.0)):.4f}"
    '-203.7444'
    """
    return TRUNCATED.log_above(log_upper, x, a, b, loc=loc, scale=scale)
