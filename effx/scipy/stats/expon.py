"""The exponential distribution, with density exp(-y) for y >= 0."""

from effx.array import Array
from effx.lax.elementwise.exponential import exp, expm1, log1p
from effx.lazy import list_names
from effx.nn.exponentials import log1mexp
from effx.scipy.stats.families import DistributionFamily, nonnegative_line, take_q_loc_scale, take_x_loc_scale

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

EXPONENTIAL = DistributionFamily("expon", take_x_loc_scale, nonnegative_line)


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density, which is that of the probability of larger numbers too."""
    return -y


# fmt: off
logpdf = EXPONENTIAL.declare("logpdf", log_density, "-y - log(scale).", "1.0", "-1.0000")
pdf = EXPONENTIAL.declare("pdf", log_density, "exp(-y) / scale.", "1.0", "0.3679")
cdf = EXPONENTIAL.declare("cdf", lambda y: -expm1(-y), "1 - exp(-y).", "1.0", "0.6321")
sf = EXPONENTIAL.declare("sf", lambda y: exp(-y), "exp(-y).", "1.0", "0.3679")
logcdf = EXPONENTIAL.declare("logcdf", log1mexp, "log(1 - exp(-y)).", "1.0", "-0.4587")
logsf = EXPONENTIAL.declare("logsf", log_density, "-y.", "1.0", "-1.0000")
ppf = EXPONENTIAL.declare_with(take_q_loc_scale, "ppf", lambda p: -log1p(-p),
    "The inverse of `cdf`, -log(1 - q) in the standard form.", "0.5", "0.6931")
# fmt: on
