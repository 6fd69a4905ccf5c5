"""Quantiles of the standard normal distribution.

Source: Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37, 1988.
"""

import math
from statistics import NormalDist
from typing import final

import numpy as np

from effx.array import Array
from effx.array.arithmetic import horner, where
from effx.families.gamma import decompose_in_wide_floats
from effx.handling import Monotone, Unary, decomposes
from effx.ir.ops import elementwise as e

__all__ = ["NDTRI", "Ndtri"]

EXP, LOG, SQRT, ABS, SIGN = e.Exp(), e.Log(), e.Sqrt(), e.Abs(), e.Sign()


def _quantile(p: float) -> float:
    if not 0 < p < 1:
        return -math.inf if p == 0 else math.inf if p == 1 else math.nan
    return NormalDist().inv_cdf(p)


@final
class Ndtri(Unary, Monotone):
    """The quantile of the standard normal distribution at a probability; infinite at 0 and 1, NaN outside."""

    __slots__ = ()
    kinds = "f"
    domain = (0.01, 0.99)
    reference = np.vectorize(_quantile, otypes=[float])
    tangent = lambda op, dx, p, x: dx * (EXP(x * x * 0.5) * math.sqrt(2 * math.pi))


NDTRI = Ndtri()

# Numerators and denominators, from the constant on, in 0.180625 - (p - 1/2)², sqrt(-log p) - 1.6, and this root - 5.
_CENTRE = (
    (
        3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
        4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
    ),
    (
        1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
        3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
    ),
)  # fmt: skip
_TAIL = (
    (
        1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
        1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
    ),
    (
        1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
        1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
    ),
)  # fmt: skip
_FAR = (
    (
        6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
        2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
    ),
    (
        1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
        7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
    ),
)  # fmt: skip


def _rational_polynomial(x: Array, polynomials: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    numerator, denominator = polynomials
    return horner(x, numerator) / horner(x, denominator)


@decomposes(Ndtri)
@decompose_in_wide_floats
def _(p: Array) -> Array:
    inside = (p > 0.0) & (p < 1.0)
    below = p - 0.5
    tail = where(below < 0.0, p, 1.0 - p)
    root = SQRT(-LOG(where(inside & (tail < 0.25), tail, 0.25)))
    outer = where(
        root <= 5.0, _rational_polynomial(root - 1.6, _TAIL), _rational_polynomial(root - 5.0, _FAR)
    )
    inner = below * _rational_polynomial(0.180625 - below * below, _CENTRE)
    value = where(ABS(below) <= 0.425, inner, SIGN(below) * outer)
    ends = where(p == 0.0, -math.inf, where(p == 1.0, math.inf, math.nan))
    return where(inside, value, ends)
