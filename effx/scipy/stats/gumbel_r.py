"""The Gumbel distribution of largest values, with density exp(-(y + exp(-y)))."""

import math

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import minimum, where
from effx.lax.elementwise.exponential import exp, expm1, log
from effx.lazy import list_names
from effx.nn.exponentials import log1mexp
from effx.scipy.stats.families import DistributionFamily, take_p_loc_scale, take_x_loc_scale

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

GUMBEL = DistributionFamily("gumbel_r", take_x_loc_scale)


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return -y - exp_with_bounded_derivative(-y)


def exp_with_bounded_derivative(y: Array) -> Array:
    """Returns exp(y), with derivative 0 where it is infinite, so that its product with a density of 0 is 0."""
    most = math.log(float(dtypes.finfo(y.type.dtype).max)) * (1 - 1e-6)
    return where(y > most, math.inf, exp(minimum(y, most)))


def log_lower(y: Array) -> Array:
    """Returns the logarithm of the probability of smaller numbers."""
    return -exp_with_bounded_derivative(-y)


def lower(y: Array) -> Array:
    """Returns the probability of smaller numbers."""
    return exp(log_lower(y))


def upper(y: Array) -> Array:
    """Returns the probability of larger numbers."""
    return -expm1(log_lower(y))


def log_upper(y: Array) -> Array:
    """Returns the logarithm of the probability of larger numbers."""
    # Of a large y it is -y, where the exponential may underflow.
    large = y > 40.0
    return where(large, -y, log1mexp(exp_with_bounded_derivative(where(large, 0.0, -y))))


# fmt: off
logpdf = GUMBEL.declare("logpdf", log_density, "-(y + exp(-y)) - log(scale).", "0.0", "-1.0000")
pdf = GUMBEL.declare("pdf", log_density, "exp(-(y + exp(-y))) / scale.", "0.0", "0.3679")
cdf = GUMBEL.declare("cdf", lower, "exp(-exp(-y)).", "0.0", "0.3679")
sf = GUMBEL.declare("sf", upper, "1 - exp(-exp(-y)).", "0.0", "0.6321")
logcdf = GUMBEL.declare("logcdf", log_lower, "-exp(-y).", "-1.0", "-2.7183")
logsf = GUMBEL.declare("logsf", log_upper, "log(1 - exp(-exp(-y))).", "20.0", "-20.0000")
ppf = GUMBEL.declare_with(take_p_loc_scale, "ppf", lambda p: -log(-log(p)),
    "The inverse of `cdf`, -log(-log(p)) in the standard form.", "0.5", "0.3665")
# fmt: on
