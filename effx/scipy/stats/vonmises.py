"""The von Mises distribution of angles, with density exp(kappa cos(x)) / (2 pi I0(kappa)) and period 2 pi; kappa >= 0."""

import math

from effx.array import Array, Operand
from effx.dtypes import finfo
from effx.lax.elementwise.exponential import log
from effx.lax.elementwise.special import bessel_i0e
from effx.lax.elementwise.trigonometric import sin
from effx.lazy import list_names
from effx.scipy.stats.families import Arguments, DistributionFamily

__all__ = ["logpdf", "pdf"]
__dir__ = list_names(__all__)


def take_x_kappa(x: Operand, kappa: Operand) -> Arguments:
    return (x, kappa), 0, 1


VON_MISES = DistributionFamily("vonmises", take_x_kappa, allowed=lambda kappa: kappa >= 0.0)


def log_density(x: Array, kappa: Array) -> Array:
    """Returns the logarithm of the density, with cos(x) - 1 as -2 sin(x / 2)²."""
    half = sin(x * 0.5)
    # At 0 the slope of exp(-|kappa|) is that of kappa > 0.
    above = kappa + float(finfo(kappa.type.dtype).tiny)
    return -2.0 * kappa * (half * half) - log(bessel_i0e(above)) - math.log(2 * math.pi)


# fmt: off
logpdf = VON_MISES.declare("logpdf", log_density,
    "kappa cos(x) - log(2 pi I0(kappa)).", "1.0, 3.0", "-1.8023")
pdf = VON_MISES.declare("pdf", log_density, "exp(kappa cos(x)) / (2 pi I0(kappa)).", "1.0, 3.0", "0.1649")
# fmt: on
