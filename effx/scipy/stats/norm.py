"""The normal distribution, with density exp(-y² / 2) / sqrt(2 pi)."""

import math

from effx.array import Array
from effx.families.quantiles import NDTRI
from effx.lax.elementwise.special import erfc
from effx.lazy import list_names
from effx.scipy.special.normals import log_normal_cdf
from effx.scipy.stats.families import DistributionFamily, take_q_loc_scale, take_x_loc_scale

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

NORMAL = DistributionFamily("norm", take_x_loc_scale, strong=("cdf", "sf", "logcdf", "logsf", "ppf", "isf"))


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return y * y * -0.5 - 0.5 * math.log(2 * math.pi)


# fmt: off
logpdf = NORMAL.declare("logpdf", log_density, "-(y² + log(2 pi)) / 2 - log(scale).", "0.0", "-0.9189")
pdf = NORMAL.declare("pdf", log_density, "exp(-y² / 2) / (scale sqrt(2 pi)).", "0.0", "0.3989")
cdf = NORMAL.declare("cdf", lambda y: erfc(y * -math.sqrt(0.5)) * 0.5,
    "erfc(-y / sqrt(2)) / 2.", "1.0", "0.8413")
sf = NORMAL.declare("sf", lambda y: erfc(y * math.sqrt(0.5)) * 0.5, "erfc(y / sqrt(2)) / 2.", "1.0", "0.1587")
logcdf = NORMAL.declare("logcdf", log_normal_cdf,
    "The logarithm of `cdf`, as `effx.scipy.special.log_ndtr`.", "-10.0", "-53.2313")
logsf = NORMAL.declare("logsf", lambda y: log_normal_cdf(-y), "The logarithm of `sf`.", "10.0", "-53.2313")
ppf = NORMAL.declare_with(take_q_loc_scale, "ppf", lambda p: NDTRI(p),
    "The inverse of `cdf`, as `effx.scipy.special.ndtri`.", "0.975", "1.9600")
isf = NORMAL.declare_with(take_q_loc_scale, "isf", lambda p: -NDTRI(p),
    "The inverse of `sf`, exact for small q.", "0.025", "1.9600")
# fmt: on
