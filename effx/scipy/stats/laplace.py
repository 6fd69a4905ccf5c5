"""The Laplace distribution, with density exp(-abs(y)) / 2."""

import math

from effx.array import Array
from effx.array.arithmetic import absolute, where
from effx.lax.elementwise.exponential import exp
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, take_x_loc_scale

__all__ = ["cdf", "logpdf", "pdf"]
__dir__ = list_names(__all__)

LAPLACE = DistributionFamily("laplace", take_x_loc_scale)


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return -absolute(y) - math.log(2.0)


def lower(y: Array) -> Array:
    """Returns the distribution function."""
    half = exp(-absolute(y)) * 0.5
    return where(y < 0.0, half, 1.0 - half)


# fmt: off
logpdf = LAPLACE.declare("logpdf", log_density, "-abs(y) - log(2 scale).", "0.0", "-0.6931")
pdf = LAPLACE.declare("pdf", log_density, "exp(-abs(y)) / (2 scale).", "1.0", "0.1839")
cdf = LAPLACE.declare("cdf", lower, "exp(y) / 2 below 0, 1 - exp(-y) / 2 above.", "1.0", "0.8161")
# fmt: on
