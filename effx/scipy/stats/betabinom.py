"""The beta-binomial distribution: the binomial one of n trials, whose probability has the beta distribution of a, b > 0."""

from effx.array import Array, Operand
from effx.lax.elementwise.arithmetic import floor
from effx.lax.elementwise.exponential import log1p
from effx.lazy import list_names
from effx.scipy.special.betas import log_beta
from effx.scipy.stats.families import Arguments, DistributionFamily

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)


def take_k_n_a_b_loc(k: Operand, n: Operand, a: Operand, b: Operand, loc: Operand = 0) -> Arguments:
    return (k, n, a, b), loc, 1


BETA_BINOMIAL = DistributionFamily(
    "betabinom",
    take_k_n_a_b_loc,
    lambda n, a, b: (0.0, n),
    lambda n, a, b: (n >= 0.0) & (floor(n) == n) & (a > 0.0) & (b > 0.0),
    0.0,
    True,
)


def log_probability(k: Array, n: Array, a: Array, b: Array) -> Array:
    """Returns the logarithm of the probability of k."""
    rest = n - k
    chosen = -log1p(n) - log_beta(rest + 1.0, k + 1.0)
    return chosen + log_beta(k + a, rest + b) - log_beta(a, b)


# fmt: off
logpmf = BETA_BINOMIAL.declare("logpmf", log_probability,
    "The logarithm of `pmf`.", "2, 5, 1.5, 2.0", "-1.5459")
pmf = BETA_BINOMIAL.declare("pmf", log_probability,
    "comb(n, k) B(k + a, n - k + b) / B(a, b).", "2, 5, 1.5, 2.0", "0.2131")
# fmt: on
