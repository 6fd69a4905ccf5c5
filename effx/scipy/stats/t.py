"""Student's t distribution of df > 0 degrees of freedom, with density proportional to (1 + y² / df)^(-(df + 1) / 2)."""

import math

from effx.array import Array
from effx.array.arithmetic import where
from effx.lax.elementwise.exponential import log, sqrt
from effx.lazy import list_names
from effx.scipy.special.betas import log_beta
from effx.scipy.stats import norm
from effx.scipy.stats.families import DistributionFamily, log1p_square, take_x_df_loc_scale

__all__ = ["logpdf", "pdf"]
__dir__ = list_names(__all__)

STUDENT = DistributionFamily("t", take_x_df_loc_scale, allowed=lambda df: df > 0.0)


def log_density(y: Array, df: Array) -> Array:
    """Returns the logarithm of the density, which is the normal distribution's for infinitely many degrees."""
    infinite = df == math.inf
    n = where(infinite, 1.0, df)
    result = -log_beta(n * 0.5, n * 0.0 + 0.5) - 0.5 * log(n) - (n + 1.0) * 0.5 * log1p_square(y / sqrt(n))
    return where(infinite, norm.log_density(y), result)


# fmt: off
logpdf = STUDENT.declare("logpdf", log_density, "The logarithm of `pdf`.", "1.0, 3.0", "-1.5763")
pdf = STUDENT.declare("pdf", log_density,
    "(1 + y² / df)^(-(df + 1) / 2) / (sqrt(df) B(df / 2, 1 / 2)) / scale.", "1.0, 3.0", "0.2067")
# fmt: on
