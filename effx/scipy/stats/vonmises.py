"""The von Mises distribution of angles, with density exp(kappa cos(x)) / (2 pi I0(kappa)) and period 2 pi; kappa >= 0."""

import math

from effx.array import Array, Operand
from effx.dtypes import finfo
from effx.lax.elementwise.exponential import log
from effx.lax.elementwise.special import bessel_i0e
from effx.lax.elementwise.trigonometric import sin
from effx.lazy import list_names
from effx.scipy.stats.families import DistributionFamily
from effx.transforms.jit.jit import jit

__all__ = ["logpdf", "pdf"]
__dir__ = list_names(__all__)

VON_MISES = DistributionFamily("vonmises", allowed=lambda kappa: kappa >= 0.0)


def log_density(x: Array, kappa: Array) -> Array:
    """Returns the logarithm of the density, with cos(x) - 1 as -2 sin(x / 2)²."""
    half = sin(x * 0.5)
    # At 0 the slope of exp(-|kappa|) is that of kappa > 0.
    above = kappa + float(finfo(kappa.type.dtype).tiny)
    return -2.0 * kappa * (half * half) - log(bessel_i0e(above)) - math.log(2 * math.pi)


@jit
def logpdf(x: Operand, kappa: Operand) -> Array:
    """Kappa cos(x) - log(2 pi I0(kappa)).

    >>> f"{float(logpdf(1.0, 3.0)):.4f}"
    '-1.8023'
    """
    return VON_MISES.log_mass(log_density, x, kappa)


@jit
def pdf(x: Operand, kappa: Operand) -> Array:
    """exp(kappa cos(x)) / (2 pi I0(kappa)).

    >>> f"{float(pdf(1.0, 3.0)):.4f}"
    '0.1649'
    """
    return VON_MISES.mass(log_density, x, kappa)
