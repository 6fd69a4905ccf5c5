"""The uniform distribution, with density 1 for y in [0, 1]."""

from effx.array import Array
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily, take_q_loc_scale, take_x_loc_scale

__all__ = ["cdf", "logpdf", "pdf", "ppf"]
__dir__ = list_names(__all__)

UNIFORM = DistributionFamily("uniform", take_x_loc_scale, lambda: (0.0, 1.0))


def log_density(y: Array) -> Array:
    """Returns the logarithm of the density."""
    return y * 0.0


# fmt: off
logpdf = UNIFORM.declare("logpdf", log_density, "-log(scale).", "1.0, 0.0, 2.0", "-0.6931")
pdf = UNIFORM.declare("pdf", log_density, "1 / scale.", "1.0, 0.0, 2.0", "0.5000")
cdf = UNIFORM.declare("cdf", lambda y: y,
    "The part of the support that is below x, y.", "1.5, 1.0, 2.0", "0.2500")
ppf = UNIFORM.declare_with(take_q_loc_scale, "ppf", lambda p: p,
    "The inverse of `cdf`, q in the standard form.", "0.25, 1.0, 2.0", "1.5000")
# fmt: on
