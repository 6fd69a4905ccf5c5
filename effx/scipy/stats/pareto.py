"""The Pareto distribution, with density b / y^(b + 1) for y >= 1 and b > 0."""

import math

from effx.array import Array, Operand
from effx.lax.elementwise.exponential import exp, expm1, log, log1p
from effx.lazy import list_names
from effx.nn.exponentials import log1mexp
from effx.scipy.stats.families import Arguments, DistributionFamily

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
__dir__ = list_names(__all__)


def take_x_b_loc_scale(x: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Arguments:
    return (x, b), loc, scale


def take_q_b_loc_scale(q: Operand, b: Operand, loc: Operand = 0, scale: Operand = 1) -> Arguments:
    return (q, b), loc, scale


PARETO = DistributionFamily(
    "pareto", take_x_b_loc_scale, lambda b: (1.0, math.inf), lambda b: b > 0.0, inner=2.0
)


def log_density(y: Array, b: Array) -> Array:
    """Returns the logarithm of the density."""
    return log(b) - (b + 1.0) * log(y)


def minus_log_upper(y: Array, b: Array) -> Array:
    """Returns minus the logarithm of the probability of larger numbers."""
    return b * log(y)


# fmt: off
logpdf = PARETO.declare("logpdf", log_density, "log(b) - (b + 1) log(y) - log(scale).", "2.0, 3.0", "-1.6740")
pdf = PARETO.declare("pdf", log_density, "b / y^(b + 1) / scale.", "2.0, 3.0", "0.1875")
cdf = PARETO.declare("cdf", lambda y, b: -expm1(-minus_log_upper(y, b)), "1 - y^-b.", "2.0, 3.0", "0.8750")
sf = PARETO.declare("sf", lambda y, b: exp(-minus_log_upper(y, b)), "y^-b.", "2.0, 3.0", "0.1250")
logcdf = PARETO.declare("logcdf", lambda y, b: log1mexp(minus_log_upper(y, b)),
    "log(1 - y^-b).", "2.0, 3.0", "-0.1335")
logsf = PARETO.declare("logsf", lambda y, b: -minus_log_upper(y, b), "-b log(y).", "2.0, 3.0", "-2.0794")
ppf = PARETO.declare_with(take_q_b_loc_scale, "ppf", lambda p, b: exp(-log1p(-p) / b),
    "The inverse of `cdf`, (1 - q)^(-1 / b) in the standard form.", "0.5, 3.0", "1.2599")
# fmt: on
