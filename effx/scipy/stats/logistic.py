"""The logistic distribution, with density exp(-y) / (1 + exp(-y))²."""

from effx.array import Array
from effx.array.arithmetic import absolute
from effx.lax.elementwise.exponential import exp, log, log1p, logistic
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, take_x_loc_scale

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

LOGISTIC = DistributionFamily("logistic", take_x_loc_scale)


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density, which is even."""
    size = absolute(y)
    return -size - 2.0 * log1p(exp(-size))


def log_odds(p: Array) -> Array:
    """Returns log(p / (1 - p))."""
    return log(p) - log1p(-p)


# fmt: off
logpdf = LOGISTIC.declare("logpdf", log_density, "-y - 2 log(1 + exp(-y)) - log(scale).", "0.0", "-1.3863")
pdf = LOGISTIC.declare("pdf", log_density, "exp(-y) / (1 + exp(-y))² / scale.", "0.0", "0.2500")
cdf = LOGISTIC.declare("cdf", logistic, "1 / (1 + exp(-y)).", "1.0", "0.7311")
sf = LOGISTIC.declare("sf", lambda y: logistic(-y), "1 / (1 + exp(y)).", "1.0", "0.2689")
ppf = LOGISTIC.declare_with(take_x_loc_scale, "ppf", log_odds,
    "The inverse of `cdf`, log(x / (1 - x)) in the standard form; x is a probability.", "0.9", "2.1972")
isf = LOGISTIC.declare_with(take_x_loc_scale, "isf", lambda p: -log_odds(p),
    "The inverse of `sf`; x is a probability.", "0.1", "2.1972")
# fmt: on
