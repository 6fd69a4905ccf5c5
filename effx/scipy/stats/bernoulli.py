"""The Bernoulli distribution of probability p: k is 1 with probability p, else 0."""

from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, weighted_log, weighted_log1p
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "logpmf", "pmf", "ppf"]
__dir__ = list_names(__all__)

BERNOULLI = DistributionFamily(
    "bernoulli", lambda p: (0.0, 1.0), lambda p: (p >= 0.0) & (p <= 1.0), 0.0, True
)


def log_probability(k: Array, p: Array) -> Array:
    """Returns the logarithm of the probability of k."""
    return weighted_log(k, p) + weighted_log1p(1.0 - k, -p)


def quantile(q: Array, p: Array) -> Array:
    """Returns the least number whose distribution function is at least q; -1, which is below all, where q is 0."""
    return where(q == 0.0, -1.0, where(q <= 1.0 - p, 0.0, 1.0))


@jit
def logpmf(k: Operand, p: Operand, loc: Operand = 0) -> Array:
    """log(p) where k is 1, log(1 - p) where it is 0.

    >>> f"{float(logpmf(1, 0.3)):.4f}"
    '-1.2040'
    """
    return BERNOULLI.log_mass(log_probability, k, p, loc=loc)


@jit
def pmf(k: Operand, p: Operand, loc: Operand = 0) -> Array:
    """P where k is 1, 1 - p where it is 0.

    >>> f"{float(pmf(1, 0.3)):.4f}"
    '0.3000'
    """
    return BERNOULLI.mass(log_probability, k, p, loc=loc)


@jit
def cdf(k: Operand, p: Operand) -> Array:
    """0 below 0, 1 - p below 1, and 1 from there on.

    >>> f"{float(cdf(0, 0.3)):.4f}"
    '0.7000'
    """
    return BERNOULLI.lower_probability(lambda k, p: 1.0 - p, k, p)


@jit
def ppf(q: Operand, p: Operand) -> Array:
    """The inverse of `cdf`: the least integer whose cdf is at least q; as SciPy's, -1 where q is 0.

    >>> f"{float(ppf(0.9, 0.3)):.4f}"
    '1.0000'
    """
    return BERNOULLI.quantile(quantile, q, p)
