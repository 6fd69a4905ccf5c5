"""The chi-square distribution of df > 0 degrees of freedom: of 2 y, where y has the gamma distribution of shape df / 2."""

import math

from effx.array import Array
from effx.lazy import list_names
from effx.scipy.stats import gamma
from effx.scipy.stats.families import DistributionFamily, nonnegative_line, take_x_df_loc_scale

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__ = list_names(__all__)

CHI_SQUARE = DistributionFamily("chi2", take_x_df_loc_scale, nonnegative_line, lambda df: df > 0.0)


def log_density(y: Array, df: Array) -> Array:
    """Returns the logarithm of the density."""
    return gamma.log_density(y * 0.5, df * 0.5) - math.log(2.0)


# fmt: off
logpdf = CHI_SQUARE.declare("logpdf", log_density,
    "(df / 2 - 1) log(y / 2) - y / 2 - log(2 gamma(df / 2)) - log(scale).", "2.0, 3.0", "-1.5724")
pdf = CHI_SQUARE.declare("pdf", log_density,
    "(y / 2)^(df / 2 - 1) exp(-y / 2) / (2 gamma(df / 2)) / scale.", "2.0, 3.0", "0.2076")
cdf = CHI_SQUARE.declare("cdf", lambda y, df: gamma.lower(y * 0.5, df * 0.5),
    "The regularised incomplete gamma function of df / 2 and y / 2.", "2.0, 3.0", "0.4276")
sf = CHI_SQUARE.declare("sf", lambda y, df: gamma.upper(y * 0.5, df * 0.5),
    "Its complement.", "2.0, 3.0", "0.5724")
logcdf = CHI_SQUARE.declare("logcdf", lambda y, df: gamma.log_lower(y * 0.5, df * 0.5),
    "The logarithm of `cdf`, -infinity where that underflows.", "0.1, 3.0", "-4.8082")
logsf = CHI_SQUARE.declare("logsf", lambda y, df: gamma.log_upper(y * 0.5, df * 0.5),
    "The logarithm of `sf`, -infinity where that underflows.", "40.0, 3.0", "-18.3572")
# fmt: on
