"""The error function, its complement and its inverse.

XLA computes them by rational approximations (CHLO `erf`, `erfc`, `erf_inv`).
"""

import math
from typing import final

import numpy as np

from effx.array import Array
from effx.array.arithmetic import horner, where
from effx.handling import Monotone, Unary, decomposes
from effx.ir.ops.elementwise import Clamp, Exp
from effx.ir.values.scalars import scalar

__all__ = ["Erf", "ErfInv", "Erfc", "scaled_erfc"]

EXP = Exp()


def erf_inverse(y: float) -> float:
    """Returns the x with erf(x) = y, by Newton's method; NaN outside [-1, 1].

    Near 1 the equation is solved for erfc(x) = 1 - y, whose digits do not cancel.
    """
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    target = abs(y)
    # Winitzki's approximation is right to two digits everywhere.
    a = 0.147
    log = math.log1p(-target * target)
    half = 2 / (math.pi * a) + log / 2
    x = math.sqrt(max(math.sqrt(half * half - log / a) - half, 0.0))
    for _ in range(6):
        slope = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        rest = math.erf(x) - target if target < 0.5 else (1 - target) - math.erfc(x)
        x -= rest / slope
    return math.copysign(x, y)


@final
class Erf(Unary, Monotone):
    """The error function."""

    __slots__ = ()
    kinds = "f"
    domain = (-3.0, 3.0)
    stablehlo = "chlo.erf"
    reference = np.vectorize(math.erf, otypes=[float])
    tangent = lambda op, dx, x, y: dx * erf_derivative(x)


@final
class Erfc(Unary):
    """1 - erf(x), exact for large x."""

    __slots__ = ()
    kinds = "f"
    domain = (-3.0, 9.0)
    stablehlo = "chlo.erfc"
    reference = np.vectorize(math.erfc, otypes=[float])
    tangent = lambda op, dx, x, y: dx * -erf_derivative(x)


@final
class ErfInv(Unary):
    """The inverse of erf on (-1, 1)."""

    __slots__ = ()
    kinds = "f"
    domain = (-0.99, 0.99)
    stablehlo = "chlo.erf_inv"
    reference = np.vectorize(erf_inverse, otypes=[float])
    tangent = lambda op, dx, x, y: dx * (EXP(y * y) * (math.sqrt(math.pi) / 2))


def erf_derivative(x: Array) -> Array:
    """Returns 2 / sqrt(pi) * exp(-x^2), the slope of erf."""
    # Beyond 30 it is 0 in every dtype, and so are its derivatives, at infinity too.
    bounded = Clamp()(scalar(-30.0, x.type.dtype), x, scalar(30.0, x.type.dtype))
    return EXP(-(bounded * bounded)) * (2 / math.sqrt(math.pi))


decomposes(Erfc)(lambda op, x: 1.0 - Erf()(x))


# (x + 1/2) erfcx(x) for x >= 0 as a polynomial in (x - 3) / (x + 3).
SCALED = (
    0.6265040291348647, -0.06781055306229844, -0.023781147176733748, 0.06482257935169408, -0.05963683170710831,
    0.03415401366763362, -0.011885257468443057, 0.0012646959406562531, 0.0009443452450429389,
    -0.00038991629229371936, -5.2580120407128564e-05, 6.25501939134665e-05, 2.474972216077732e-06,
    -1.0051502522401281e-05, -3.649871723609976e-07, 1.7382279474986716e-06, 1.7521553672850134e-07,
    -3.106120857410133e-07, -6.548536475747824e-08, 5.260400939732792e-08, 1.615379005670547e-08,
    -7.3667615652084435e-09, -2.0023435354232787e-09, 6.239861249923706e-10,
)  # fmt: skip


def scaled_erfc(x: Array) -> Array:
    """Returns exp(x²) erfc(x) of floats."""
    positive = where(x < 0.0, -x, x)
    # 1 - 6 / (x + 3) is 1 at infinity, where (x - 3) / (x + 3) is NaN.
    near = horner(1.0 - 6.0 / (positive + 3.0), SCALED) / (positive + 0.5)
    below = where(x < 0.0, x, 0.0)
    return where(x < 0.0, 2.0 * EXP(below * below) - near, near)
