"""The geometric distribution: the number of trials up to the first success, of probability p each."""

import math

from effx.array import Array
from effx.lax.elementwise.exponential import log
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, take_k_p_loc, weighted_log1p

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)

GEOMETRIC = DistributionFamily(
    "geom", take_k_p_loc, lambda p: (1.0, math.inf), lambda p: (p > 0.0) & (p <= 1.0), 1.0, True
)


def log_probability(k: Array, p: Array) -> Array:
    """Returns the logarithm of the probability of k."""
    return weighted_log1p(k - 1.0, -p) + log(p)


# fmt: off
logpmf = GEOMETRIC.declare("logpmf", log_probability, "(k - 1) log(1 - p) + log(p).", "2, 0.3", "-1.5606")
pmf = GEOMETRIC.declare("pmf", log_probability, "(1 - p)^(k - 1) p.", "2, 0.3", "0.2100")
# fmt: on
