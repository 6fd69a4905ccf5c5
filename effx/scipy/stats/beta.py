"""The beta distribution, with density y^(a - 1) (1 - y)^(b - 1) / B(a, b) for y in [0, 1] and a, b > 0."""

import math

from effx.array import Array
from effx.array.arithmetic import where
from effx.array.promotion import broadcast_arrays
from effx.families.gamma_formulas import STIRLING_FROM, stirling_rest
from effx.families.incomplete import beta_deviations
from effx.lax.elementwise.exponential import log, log1p
from effx.lax.elementwise.gamma import betainc
from effx.lazy import list_names
from effx.scipy.special.betas import log_beta
from effx.scipy.stats.families import (
    DistributionFamily,
    log_of_probability,
    take_x_a_b_loc_scale,
    weighted_log,
    weighted_log1p,
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__ = list_names(__all__)

BETA = DistributionFamily(
    "beta", take_x_a_b_loc_scale, lambda a, b: (0.0, 1.0), lambda a, b: (a > 0.0) & (b > 0.0)
)


def log_density(y: Array, a: Array, b: Array) -> Array:
    """Returns the logarithm of the density."""
    # Of large parameters as a deviation from the peak: in the sum, large numbers would cancel.
    both_large = (a >= STIRLING_FROM) & (b >= STIRLING_FROM) & (y > 0.0) & (y < 1.0)
    p, q, x = (
        where(both_large, a, STIRLING_FROM),
        where(both_large, b, STIRLING_FROM),
        where(both_large, y, 0.5),
    )
    rest = 1.0 - x
    peak = stirling_rest(p + q) - stirling_rest(p) - stirling_rest(q)
    peak = peak + 0.5 * (log(p) + log(q) - log(p + q) - math.log(2 * math.pi))
    near = peak - beta_deviations(p, q, x, rest) - log(x) - log1p(-x)
    plain = weighted_log(a - 1.0, y) + weighted_log1p(b - 1.0, -y) - log_beta(a, b)
    return where(both_large, near, plain)


def lower_and_upper(y: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the probabilities of smaller and of larger numbers.

    That of the side of y that is away from the mean is computed, so that it has all its digits.
    """
    small = y * (a + b) < a
    value = betainc(*broadcast_arrays([where(small, a, b), where(small, b, a), where(small, y, 1.0 - y)]))
    rest = 1.0 - value
    return where(small, value, rest), where(small, rest, value)


# fmt: off
logpdf = BETA.declare("logpdf", log_density,
    "(a - 1) log(y) + (b - 1) log(1 - y) - log(B(a, b)) - log(scale).", "0.3, 2.0, 3.0", "0.5676")
pdf = BETA.declare("pdf", log_density,
    "y^(a - 1) (1 - y)^(b - 1) / B(a, b) / scale.", "0.3, 2.0, 3.0", "1.7640")
cdf = BETA.declare("cdf", lambda *xs: lower_and_upper(*xs)[0],
    "The regularised incomplete beta function, `effx.scipy.special.betainc(a, b, y)`.", "0.3, 2.0, 3.0", "0.3483")
sf = BETA.declare("sf", lambda *xs: lower_and_upper(*xs)[1], "Its complement.", "0.3, 2.0, 3.0", "0.6517")
logcdf = BETA.declare("logcdf", lambda *xs: log_of_probability(*lower_and_upper(*xs)),
    "The logarithm of `cdf`, -infinity where that underflows.", "0.01, 2.0, 3.0", "-7.4320")
logsf = BETA.declare("logsf", lambda *xs: log_of_probability(*reversed(lower_and_upper(*xs))),
    "The logarithm of `sf`, -infinity where that underflows.", "0.99, 2.0, 3.0", "-12.4367")
# fmt: on
