"""The Bernoulli distribution of probability p: k is 1 with probability p, else 0."""

from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.lazy import list_names
from effx.scipy.stats.families import (
    Arguments,
    DistributionFamily,
    take_k_p_loc,
    weighted_log,
    weighted_log1p,
)

__all__ = ["cdf", "logpmf", "pmf", "ppf"]
__dir__ = list_names(__all__)


def take_k_p_alone(k: Operand, p: Operand) -> Arguments:
    return (k, p), 0, 1


def take_q_p_alone(q: Operand, p: Operand) -> Arguments:
    return (q, p), 0, 1


BERNOULLI = DistributionFamily(
    "bernoulli", take_k_p_loc, lambda p: (0.0, 1.0), lambda p: (p >= 0.0) & (p <= 1.0), 0.0, True
)


def log_probability(k: Array, p: Array) -> Array:
    """Returns the logarithm of the probability of k."""
    return weighted_log(k, p) + weighted_log1p(1.0 - k, -p)


def quantile(q: Array, p: Array) -> Array:
    """Returns the least number whose distribution function is at least q; -1, which is below all, where q is 0."""
    return where(q == 0.0, -1.0, where(q <= 1.0 - p, 0.0, 1.0))


# fmt: off
logpmf = BERNOULLI.declare("logpmf", log_probability,
    "log(p) where k is 1, log(1 - p) where it is 0.", "1, 0.3", "-1.2040")
pmf = BERNOULLI.declare("pmf", log_probability, "p where k is 1, 1 - p where it is 0.", "1, 0.3", "0.3000")
cdf = BERNOULLI.declare_with(take_k_p_alone, "cdf", lambda k, p: 1.0 - p,
    "0 below 0, 1 - p below 1, and 1 from there on.", "0, 0.3", "0.7000")
ppf = BERNOULLI.declare_with(take_q_p_alone, "ppf", quantile,
    "The inverse of `cdf`: the least integer whose cdf is at least q; as SciPy's, -1 where q is 0.", "0.9, 0.3", "1.0000")
# fmt: on
