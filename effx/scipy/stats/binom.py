"""The binomial distribution: the number of successes, of probability p each, in n trials."""

from effx.array import Array, Operand
from effx.lax.elementwise.arithmetic import floor
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily
from effx.scipy.stats.saddle import log_binomial
from effx.transforms.jit.jit import jit

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)

BINOMIAL = DistributionFamily(
    "binom",
    lambda n, p: (0.0, n),
    lambda n, p: (n >= 0.0) & (floor(n) == n) & (p >= 0.0) & (p <= 1.0),
    0.0,
    True,
)


@jit
def logpmf(k: Operand, n: Operand, p: Operand, loc: Operand = 0) -> Array:
    """The logarithm of `pmf`.

    >>> f"{float(logpmf(2, 5, 0.3)):.4f}"
    '-1.1754'
    """
    return BINOMIAL.log_mass(log_binomial, k, n, p, loc=loc)


@jit
def pmf(k: Operand, n: Operand, p: Operand, loc: Operand = 0) -> Array:
    """comb(n, k) p^k (1 - p)^(n - k).

    >>> f"{float(pmf(2, 5, 0.3)):.4f}"
    '0.3087'
    """
    return BINOMIAL.mass(log_binomial, k, n, p, loc=loc)
