"""The geometric distribution: the number of trials up to the first success, of probability p each."""

import math

from effx.array import Array, Operand
from effx.lax.elementwise.exponential import log
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, weighted_log1p
from effx.transforms.jit.jit import jit

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)

GEOMETRIC = DistributionFamily("geom", lambda p: (1.0, math.inf), lambda p: (p > 0.0) & (p <= 1.0), 1.0, True)


def log_probability(k: Array, p: Array) -> Array:
    """Returns the logarithm of the probability of k."""
    return weighted_log1p(k - 1.0, -p) + log(p)


@jit
def logpmf(k: Operand, p: Operand, loc: Operand = 0) -> Array:
    """(k - 1) log(1 - p) + log(p).

    >>> f"{float(logpmf(2, 0.3)):.4f}"
    '-1.5606'
    """
    return GEOMETRIC.log_mass(log_probability, k, p, loc=loc)


@jit
def pmf(k: Operand, p: Operand, loc: Operand = 0) -> Array:
    """(1 - p)^(k - 1) p.

    >>> f"{float(pmf(2, 0.3)):.4f}"
    '0.2100'
    """
    return GEOMETRIC.mass(log_probability, k, p, loc=loc)
