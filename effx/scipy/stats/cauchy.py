"""The Cauchy distribution, with density 1 / (pi (1 + y²))."""

import math

from effx.array import Array
from effx.array.arithmetic import where
from effx.lax.elementwise.exponential import log
from effx.lax.elementwise.trigonometric import atan2, tan
from effx.lazy import list_names
from effx.scipy.stats.families import (
    DistributionFamily,
    log1p_square,
    log_of_probability,
    take_q_loc_scale,
    take_x_loc_scale,
)

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

CAUCHY = DistributionFamily("cauchy", take_x_loc_scale)


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return -log1p_square(y) - math.log(math.pi)


def upper_tail(y: Array) -> Array:
    """Returns the probability of larger numbers: the angle of (y, 1), with all digits for large y."""
    return atan2(y * 0.0 + 1.0, y) * (1 / math.pi)


def log_upper_tail(y: Array) -> Array:
    """Returns its logarithm."""
    # The probability of a large y, 1 / (pi y), may underflow.
    large = y > 1e10
    near = where(large, 0.0, y)
    logarithm = log_of_probability(upper_tail(near), upper_tail(-near))
    return where(large, -log(where(large, y, 1.0)) - math.log(math.pi), logarithm)


def quantile(p: Array) -> Array:
    """Returns tan(pi (p - 1/2)), near 0 and 1 as the reciprocal of a tangent of the small distance."""
    middle = (p > 0.25) & (p < 0.75)
    angle = where(middle, p - 0.5, where(p < 0.5, -p, 1.0 - p))
    slope = tan(angle * math.pi)
    return where(middle, slope, 1.0 / where(middle, 1.0, where(p == 1.0, 0.0, slope)))


# fmt: off
logpdf = CAUCHY.declare("logpdf", log_density, "-log(pi scale (1 + y²)).", "0.0", "-1.1447")
pdf = CAUCHY.declare("pdf", log_density, "1 / (pi scale (1 + y²)).", "0.0", "0.3183")
cdf = CAUCHY.declare("cdf", lambda y: upper_tail(-y), "arctan(y) / pi + 1/2.", "1.0", "0.7500")
sf = CAUCHY.declare("sf", upper_tail, "1/2 - arctan(y) / pi.", "1.0", "0.2500")
logcdf = CAUCHY.declare("logcdf", lambda y: log_upper_tail(-y), "The logarithm of `cdf`.", "-1e6", "-14.9602")
logsf = CAUCHY.declare("logsf", log_upper_tail, "The logarithm of `sf`.", "1e6", "-14.9602")
ppf = CAUCHY.declare_with(take_q_loc_scale, "ppf", quantile,
    "The inverse of `cdf`, tan(pi (q - 1/2)) in the standard form.", "0.75", "1.0000")
isf = CAUCHY.declare_with(take_q_loc_scale, "isf", lambda p: -quantile(p), "The inverse of `sf`.", "0.25", "1.0000")
# fmt: on
