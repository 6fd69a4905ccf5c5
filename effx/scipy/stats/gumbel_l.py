"""The Gumbel distribution of least values, with density exp(y - exp(y)): that of -y in `gumbel_r`."""

from effx.lax.elementwise.exponential import log, log1p
from effx.lazy import list_names
from effx.scipy.stats import gumbel_r
from effx.scipy.stats.families import DistributionFamily, take_p_loc_scale, take_x_loc_scale

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)

GUMBEL = DistributionFamily("gumbel_l", take_x_loc_scale)

# fmt: off
logpdf = GUMBEL.declare("logpdf", lambda y: gumbel_r.log_density(-y),
    "y - exp(y) - log(scale).", "0.0", "-1.0000")
pdf = GUMBEL.declare("pdf", lambda y: gumbel_r.log_density(-y), "exp(y - exp(y)) / scale.", "0.0", "0.3679")
cdf = GUMBEL.declare("cdf", lambda y: gumbel_r.upper(-y), "1 - exp(-exp(y)).", "0.0", "0.6321")
sf = GUMBEL.declare("sf", lambda y: gumbel_r.lower(-y), "exp(-exp(y)).", "0.0", "0.3679")
logcdf = GUMBEL.declare("logcdf", lambda y: gumbel_r.log_upper(-y),
    "log(1 - exp(-exp(y))).", "-20.0", "-20.0000")
logsf = GUMBEL.declare("logsf", lambda y: gumbel_r.log_lower(-y), "-exp(y).", "1.0", "-2.7183")
ppf = GUMBEL.declare_with(take_p_loc_scale, "ppf", lambda p: log(-log1p(-p)),
    "The inverse of `cdf`, log(-log(1 - p)) in the standard form.", "0.5", "-0.3665")
# fmt: on
