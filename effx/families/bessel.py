"""Modified Bessel functions of the first kind, scaled by exp(-|x|)."""

from typing import final

import numpy as np

from effx.array import Array
from effx.array.arithmetic import where
from effx.array.promotion import scalar
from effx.families.gamma import decompose_in_wide_floats
from effx.handling import Atom, Body, Unary, Var, decomposes, emits, reference_rule, tangent_of
from effx.ir.ops import elementwise as e

__all__ = ["BesselI0e", "BesselI1e"]


@final
class BesselI0e(Unary):
    """exp(-|x|) I0(x)."""

    __slots__ = ()
    kinds = "f"
    name = "bessel_i0e"
    domain = (0.2, 9.0)


@final
class BesselI1e(Unary):
    """exp(-|x|) I1(x). CHLO: bessel_i1e."""

    __slots__ = ()
    kinds = "f"
    name = "bessel_i1e"
    domain = (0.2, 9.0)


I0E, I1E = BesselI0e(), BesselI1e()

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


def _chebyshev(coefficients: tuple[float, ...], t: Array) -> Array:
    """Returns a sum of Chebyshev polynomials by Clenshaw's recurrence."""
    twice = t + t
    before, last = t * 0.0, t * 0.0 + coefficients[-1]
    for c in coefficients[-2:0:-1]:
        before, last = last, twice * last - before + c
    return t * last - before + coefficients[0]


def _i0e(x: Array) -> Array:
    size = e.Abs()(x)
    eight = scalar(8.0, x.type.dtype)
    near, far = e.Min()(size, eight), e.Max()(size, eight)
    return where(
        size <= 8.0,
        _chebyshev(SMALL, near * 0.25 - 1.0),
        _chebyshev(LARGE, 16.0 / far - 1.0) * e.Rsqrt()(far),
    )


@emits(BesselI1e)
def _(body: Body, op: BesselI1e, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x = inputs[0]
    return body.line(f"chlo.bessel_i1e {body.name(x)} : {x.type.mlir} -> {x.type.mlir}")


def _i1e_derivative(x: Array, y: Array) -> Array:
    # I1(x) / x tends to 1/2 at 0.
    zero = x == 0.0
    quotient = where(zero, 0.5, y / where(zero, 1.0, x))
    return I0E(x) - quotient - e.Sign()(x) * y


decomposes(BesselI0e)(decompose_in_wide_floats(_i0e))
tangent_of(BesselI0e)(lambda op, dx, x, y: dx * (I1E(x) - e.Sign()(x) * y))
tangent_of(BesselI1e)(lambda op, dx, x, y: dx * _i1e_derivative(x, y))


@reference_rule(BesselI0e, BesselI1e)
def _(op: Unary, x: "np.ndarray[tuple[int, ...], np.dtype[np.floating]]") -> object:
    # The mean of exp(x cos(t)) cos(n t) over equally spaced t; exact to rounding while x is far below nodes².
    nodes = np.cos((np.arange(400) + 0.5) * np.pi / 400)
    size = np.abs(x).astype(np.float64)[..., None]
    weights = nodes if type(op) is BesselI1e else np.ones(400)
    with np.errstate(invalid="ignore"):
        mean = (np.exp(size * (nodes - 1)) * weights).mean(-1)
    large = size[..., 0] > 5000.0
    with np.errstate(divide="ignore"):
        mean = np.where(large, 1 / np.sqrt(2 * np.pi * size[..., 0]), mean)
    mean = np.where(np.isinf(x) | ((x == 0) & (type(op) is BesselI1e)), 0.0, mean)
    return (np.copysign(mean, x) if type(op) is BesselI1e else mean).astype(x.dtype)
