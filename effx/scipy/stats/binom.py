"""The binomial distribution: the number of successes, of probability p each, in n trials."""

from effx.lax.elementwise.arithmetic import floor
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, take_k_n_p_loc
from effx.scipy.stats.saddle import log_binomial

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)

BINOMIAL = DistributionFamily(
    "binom",
    take_k_n_p_loc,
    lambda n, p: (0.0, n),
    lambda n, p: (n >= 0.0) & (floor(n) == n) & (p >= 0.0) & (p <= 1.0),
    0.0,
    True,
)


# fmt: off
logpmf = BINOMIAL.declare("logpmf", log_binomial, "The logarithm of `pmf`.", "2, 5, 0.3", "-1.1754")
pmf = BINOMIAL.declare("pmf", log_binomial, "comb(n, k) p^k (1 - p)^(n - k).", "2, 5, 0.3", "0.3087")
# fmt: on
