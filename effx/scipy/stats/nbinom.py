"""The negative binomial distribution: the number of failures before the n-th success; n > 0 is real."""

from effx.array import Array
from effx.lax.elementwise.exponential import log1p
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, nonnegative_line, take_k_n_p_loc
from effx.scipy.stats.saddle import log_binomial

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)

NEGATIVE_BINOMIAL = DistributionFamily(
    "nbinom", take_k_n_p_loc, nonnegative_line, lambda n, p: (n > 0.0) & (p > 0.0) & (p <= 1.0), 0.0, True
)


def log_probability(k: Array, n: Array, p: Array) -> Array:
    """Returns the logarithm of the probability: that of n successes in n + k trials, where the last is one of them."""
    return log_binomial(n, n + k, p) - log1p(k / n)


# fmt: off
logpmf = NEGATIVE_BINOMIAL.declare("logpmf", log_probability,
    "The logarithm of `pmf`.", "2, 5, 0.3", "-4.0252")
pmf = NEGATIVE_BINOMIAL.declare("pmf", log_probability,
    "gamma(n + k) / (k! gamma(n)) p^n (1 - p)^k.", "2, 5, 0.3", "0.0179")
# fmt: on
