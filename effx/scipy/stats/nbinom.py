"""The negative binomial distribution: the number of failures before the n-th success; n > 0 is real."""

from effx.array import Array, Operand
from effx.lax.elementwise.exponential import log1p
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, nonnegative_line
from effx.scipy.stats.saddle import log_binomial
from effx.transforms.jit.jit import jit

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)

NEGATIVE_BINOMIAL = DistributionFamily(
    "nbinom", nonnegative_line, lambda n, p: (n > 0.0) & (p > 0.0) & (p <= 1.0), 0.0, True
)


def log_probability(k: Array, n: Array, p: Array) -> Array:
    """Returns the logarithm of the probability: that of n successes in n + k trials, where the last is one of them."""
    return log_binomial(n, n + k, p) - log1p(k / n)


@jit
def logpmf(k: Operand, n: Operand, p: Operand, loc: Operand = 0) -> Array:
    """The logarithm of `pmf`.

    >>> f"{float(logpmf(2, 5, 0.3)):.4f}"
    '-4.0252'
    """
    return NEGATIVE_BINOMIAL.log_mass(log_probability, k, n, p, loc=loc)


@jit
def pmf(k: Operand, n: Operand, p: Operand, loc: Operand = 0) -> Array:
    """gamma(n + k) / (k! gamma(n)) p^n (1 - p)^k.

    >>> f"{float(pmf(2, 5, 0.3)):.4f}"
    '0.0179'
    """
    return NEGATIVE_BINOMIAL.mass(log_probability, k, n, p, loc=loc)
