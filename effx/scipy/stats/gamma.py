"""The gamma distribution of shape a > 0, with density y^(a - 1) exp(-y) / gamma(a) for y >= 0."""

from effx.array import Array, Operand
from effx.array.promotion import broadcast_arrays
from effx.lax.elementwise.gamma import igamma, igammac, lgamma
from effx.lazy import list_names
from effx.scipy.stats.families import (
    Arguments,
    DistributionFamily,
    log_of_probability,
    nonnegative_line,
    weighted_log,
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__ = list_names(__all__)


def take_x_a_loc_scale(x: Operand, a: Operand, loc: Operand = 0, scale: Operand = 1) -> Arguments:
    return (x, a), loc, scale


GAMMA = DistributionFamily("gamma", take_x_a_loc_scale, nonnegative_line, lambda a: a > 0.0)


def log_density(y: Array, a: Array) -> Array:
    """Returns the logarithm of the density."""
    return weighted_log(a - 1.0, y) - y - lgamma(a)


def lower(y: Array, a: Array) -> Array:
    """Returns the probability of smaller numbers."""
    return igamma(*broadcast_arrays([a, y]))


def upper(y: Array, a: Array) -> Array:
    """Returns the probability of larger numbers."""
    return igammac(*broadcast_arrays([a, y]))


def log_lower(y: Array, a: Array) -> Array:
    """Returns the logarithm of the probability of smaller numbers."""
    return log_of_probability(lower(y, a), upper(y, a))


def log_upper(y: Array, a: Array) -> Array:
    """Returns the logarithm of the probability of larger numbers."""
    return log_of_probability(upper(y, a), lower(y, a))


# fmt: off
logpdf = GAMMA.declare("logpdf", log_density,
    "(a - 1) log(y) - y - log(gamma(a)) - log(scale).", "2.0, 3.0", "-1.3069")
pdf = GAMMA.declare("pdf", log_density, "y^(a - 1) exp(-y) / gamma(a) / scale.", "2.0, 3.0", "0.2707")
cdf = GAMMA.declare("cdf", lower,
    "The regularised incomplete gamma function, `effx.scipy.special.gammainc(a, y)`.", "2.0, 3.0", "0.3233")
sf = GAMMA.declare("sf", upper, "Its complement, `effx.scipy.special.gammaincc(a, y)`.", "2.0, 3.0", "0.6767")
logcdf = GAMMA.declare("logcdf", log_lower,
    "The logarithm of `cdf`, -infinity where that underflows.", "0.1, 3.0", "-8.7743")
logsf = GAMMA.declare("logsf", log_upper,
    "The logarithm of `sf`, -infinity where that underflows.", "20.0, 3.0", "-14.6018")
# fmt: on
