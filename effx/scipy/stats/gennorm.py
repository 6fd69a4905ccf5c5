"""The generalised normal distribution of shape beta > 0, with density beta exp(-abs(x)^beta) / (2 gamma(1 / beta))."""

import math

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import absolute, where
from effx.array.promotion import broadcast_arrays
from effx.families.gamma import GAMMA
from effx.lax.elementwise.exponential import exp, log
from effx.lax.elementwise.gamma import igammac, lgamma
from effx.lazy import list_names
from effx.scipy.stats.families import Arguments, DistributionFamily

__all__ = ["cdf", "logpdf", "pdf"]
__dir__ = list_names(__all__)


def take_x_beta(x: Operand, beta: Operand) -> Arguments:
    return (x, beta), 0, 1


GENERALISED = DistributionFamily("gennorm", take_x_beta, allowed=lambda beta: beta > 0.0)


def power(x: Array, beta: Array) -> Array:
    """Returns abs(x)^beta, with derivative 0 where x is 0, at kinks and cusps too."""
    cusp = (x == 0.0) & (beta <= 1.0)
    return where(cusp, 0.0, absolute(where(cusp, 1.0, x)) ** beta)


def log_density(x: Array, beta: Array) -> Array:
    """Returns the logarithm of the density."""
    return log(beta) - math.log(2.0) - lgamma(1.0 / beta) - power(x, beta)


def lower(x: Array, beta: Array) -> Array:
    """Returns the probability of smaller numbers."""
    zero = x == 0.0
    height = power(where(zero, 1.0, x), beta)
    half = igammac(*broadcast_arrays([1.0 / beta, height])) * 0.5
    # Where the power is below the rounding of 1, the density is even.
    even = height < float(dtypes.finfo(x.type.dtype).eps) * 0.5
    half = where(even, 0.5 * (1.0 - absolute(x) / GAMMA(1.0 + 1.0 / beta)), half)
    # At 0 the slope of the power is 0, and that of igammac infinite; the function's is the density: it is a line there.
    line = 0.5 + x * exp(log_density(x, beta))
    return where(zero, line, where(x < 0.0, half, 1.0 - half))


# fmt: off
logpdf = GENERALISED.declare("logpdf", log_density,
    "log(beta / 2) - abs(x)^beta - log(gamma(1 / beta)).", "1.0, 3.0", "-1.5800")
pdf = GENERALISED.declare("pdf", log_density,
    "beta exp(-abs(x)^beta) / (2 gamma(1 / beta)).", "1.0, 3.0", "0.2060")
cdf = GENERALISED.declare("cdf", lower,
    "gammaincc(1 / beta, abs(x)^beta) / 2 for negative x, and 1 minus this for others.", "1.0, 3.0", "0.9521")
# fmt: on
