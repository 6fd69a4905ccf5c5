"""Modified Bessel functions of the first kind, scaled by exp(-|x|)."""

import functools
import math
from collections.abc import Callable
from typing import final

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import horner, where
from effx.array.promotion import convert
from effx.families.gamma import decompose_in_wide_floats
from effx.handling import Unary, decomposes
from effx.ir.ops import elementwise as e
from effx.ir.values.described import HostData
from effx.ir.values.scalars import scalar
from effx.transforms.custom.custom_derivatives import custom_jvp

__all__ = ["BesselI0e", "BesselI1e", "bessel", "scaled_bessel"]


NODES = np.cos((np.arange(400) + 0.5) * np.pi / 400)


def _mean_of_exponentials(x: HostData, weights: HostData) -> HostData:
    # The mean of exp(x cos(t)) cos(n t) over equally spaced t; exact to rounding while x is far below nodes².
    size = np.abs(x)[..., None]
    mean = (np.exp(size * (NODES - 1)) * weights).mean(-1)
    mean = np.where(size[..., 0] > 5000.0, 1 / np.sqrt(2 * np.pi * size[..., 0]), mean)
    return np.where(np.isinf(x), 0.0, mean)


@final
class BesselI0e(Unary):
    """exp(-|x|) I0(x)."""

    __slots__ = ()
    kinds = "f"
    name = "bessel_i0e"
    domain = (0.2, 9.0)
    reference = staticmethod(lambda x: _mean_of_exponentials(x, np.ones(400)))
    tangent = lambda op, dx, x, y: dx * _scaled_bessel_slope(0, x, y)


@final
class BesselI1e(Unary):
    """exp(-|x|) I1(x)."""

    __slots__ = ()
    kinds = "f"
    name = "bessel_i1e"
    domain = (0.2, 9.0)
    stablehlo = "chlo.bessel_i1e"
    reference = staticmethod(lambda x: np.where(x == 0, x, np.copysign(_mean_of_exponentials(x, NODES), x)))
    tangent = lambda op, dx, x, y: dx * _scaled_bessel_slope(1, x, y)


I0E, I1E, NEG = BesselI0e(), BesselI1e(), e.Neg()

# Chebyshev coefficients of exp(-x) I0(x) in x / 4 - 1 for x up to 8, and of sqrt(x) exp(-x) I0(x) in 16 / x - 1
# beyond. They are the cosine transform of values at 80 Chebyshev points; there I0 is the mean of exp(x cos(t)) over
# equally spaced t, which converges faster than any power (DLMF, 10.32.1 and 3.5).
SMALL = (
    0.33839763720473803,     -0.3046826723431984,     0.17162090152220877,     -0.09490109704804764,
    0.04930528423967071,     -0.02373741480589947,     0.010546460394594998,     -0.004324309995050576,
    0.0016394756169413357,     -0.0005763755745385824,     0.00018850288509584162,     -5.754195010082113e-05,
    1.6448448070728967e-05,     -4.416738358458777e-06,     1.1173875391199887e-06,
    -2.6707938539418655e-07,     6.046995022542661e-08,     -1.3000250099852711e-08,
    2.6598237248072388e-09,     -5.189795601731259e-10,     9.67580901956467e-11,     -1.7268262839618963e-11,
    2.9550524408093055e-12,     -4.856447383995432e-13,     7.676193122981012e-14,
    -1.1685330437646856e-14,     1.7156848858279616e-15,     -2.4320823133194833e-16,
    3.3520820667820585e-17,
)  # fmt: skip
LARGE = (
    0.4022452055070544,     0.0033691164782556943,     6.88975834691682e-05,     2.8913705208347486e-06,
    2.0489185894693023e-07,     2.2666689904943303e-08,     3.3962320257699312e-09,     4.940602388019284e-10,
    1.188914713969475e-11,     -3.149916524445781e-11,     -1.321581184653744e-11,
    -1.7941786104773773e-12,     7.180124855408424e-13,     3.8527780412637296e-13,
    1.5400872139810074e-14,     -4.1505741985720104e-14,     -9.554844200186045e-15,
    3.811762103872463e-15,     1.7725502733352896e-15,     -3.425862024619697e-16,
    -2.8285750477974326e-16,     3.4661943454361576e-17,     4.443941417110742e-17,
)  # fmt: skip


@functools.cache
def _find_powers(coefficients: tuple[float, ...], dtype: dtypes.DType) -> tuple[float, ...]:
    """Returns the coefficients of the powers in a sum of Chebyshev polynomials, as many as the dtype needs.

    What is left out is a hundredth of a last bit. Powers take half of the time of Clenshaw's recurrence, and lose nothing
    here: their coefficients are less than one.
    """
    least = float(dtypes.finfo(dtype).eps) / 100 * coefficients[0]
    count = len(coefficients)
    while sum(map(abs, coefficients[count - 1 :])) < least:
        count -= 1
    return tuple(np.polynomial.chebyshev.cheb2poly(coefficients[:count]).tolist())


def _i0e(x: Array) -> Array:
    size = e.Abs()(x)
    dtype = x.type.dtype
    eight = scalar(8.0, dtype)
    near, far = e.Min()(size, eight), e.Max()(size, eight)
    small = horner(near * 0.25 - 1.0, _find_powers(SMALL, dtype))
    large = horner(16.0 / far - 1.0, _find_powers(LARGE, dtype)) * e.Rsqrt()(far)
    # The polynomial misses 1 at 0 by a rounding.
    return where(size == 0, scalar(1.0, dtype), where(size <= 8.0, small, large))


@functools.cache
def scaled_bessel(order: int) -> Callable[[Array], Array]:
    """Returns the function exp(-|x|) I_n(x) of an order n >= 0.

    It has derivatives of all orders: I_n' is half the sum of its neighbours, which divides by nothing (DLMF, 10.29.1).
    The factor's slope at 0 is taken to be 0.
    """
    if order < 2:
        return (I0E, I1E)[order]
    function = custom_jvp(lambda x: _scaled_bessel(order, x))

    @function.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (dx,) = primals, tangents
        y = function(x)
        return y, dx * _scaled_bessel_slope(order, x, y)

    return function


def _scaled_bessel_slope(order: int, x: Array, y: Array) -> Array:
    above = scaled_bessel(order + 1)(x)
    mean = above if order == 0 else (scaled_bessel(order - 1)(x) + above) * 0.5
    return mean - e.Sign()(x) * y


def _scaled_bessel(order: int, x: Array) -> Array:
    """Returns exp(-|x|) I_n(x) for n >= 2: by its power series near 0, else by recurrence, which cancels near 0."""
    if x.type.dtype.itemsize < 4:
        return convert(_scaled_bessel(order, convert(x, dtypes.float32)), x.type.dtype, x.type.weak)
    near = e.Abs()(x) <= 2.0 * order
    inner, outer = where(near, x, 0.0), where(near, 2.0 * order, x)
    half = inner * 0.5
    terms = range(16 + 4 * order)
    series = horner(half * half, [1 / (math.factorial(k) * math.factorial(k + order)) for k in terms])
    below, here = I0E(outer), I1E(outer)
    for n in range(1, order):
        below, here = here, below - here * (2.0 * n) / outer
    return where(near, e.Exp()(NEG(e.Abs()(inner))) * half**order * series, here)


@functools.cache
def bessel(order: int) -> Callable[[Array], Array]:
    """Returns the modified Bessel function of the first kind I_n, of an order n >= 0, with derivatives of all orders."""
    function = custom_jvp(lambda x: e.Exp()(e.Abs()(x)) * scaled_bessel(order)(x))

    @function.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (dx,) = primals, tangents
        above = bessel(order + 1)(x)
        return function(x), dx * (above if order == 0 else (bessel(order - 1)(x) + above) * 0.5)

    return function


decomposes(BesselI0e)(decompose_in_wide_floats(_i0e))
