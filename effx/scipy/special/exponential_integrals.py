"""Exponential, sine and cosine integrals.

Where there is no source, the polynomials are our own, interpolated at Chebyshev points.
"""

import math

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import absolute, horner, where
from effx.array.promotion import broadcast_arrays
from effx.lax.control.loops import while_loop
from effx.lax.elementwise.arithmetic import floor
from effx.lax.elementwise.exponential import exp, log
from effx.lax.elementwise.gamma import digamma, lgamma
from effx.lax.elementwise.trigonometric import cos, sin
from effx.numpy.elementwise import divide_sine
from effx.scipy.operands import cast_strong_like, real_floats, with_derivative
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit

__all__ = ["exp1", "expi", "expn", "sici"]

EULER = 0.5772156649015329
# (expi(x) - log(abs(x)) - γ) / x for x in [-1, 6], in (x - 2.5) / 3.5.
ENTIRE = (
    2.2321037991211625, 3.1372512992243227, 3.16315462997994, 2.448615594131386, 1.5386244881500948,
    0.8145360381547857, 0.37286192152907643, 0.15043400172306126, 0.054281848252401246, 0.01772104417149091,
    0.005283391286411641, 0.0014497122721712167, 0.0003684781245696782, 8.725412209804003e-05,
    1.935531657760624e-05, 4.0175866822458116e-06, 7.666822057217357e-07, 1.543772999535907e-07,
    4.3983825228431014e-08, 1.2699853290211092e-09, -6.77325508811257e-09, 6.773255088112571e-10,
    1.3546510176225142e-09,
)  # fmt: skip
# x exp(-x) expi(x) for x in [6, 12], in (x - 9) / 3.
MIDDLE = (
    1.1527592087089242, -0.07402455655712807, 0.03465723048131947, -0.013833181683344555, 0.0040161089192043324,
    -0.0004462507747863177, -0.00034705920395440196, 0.0002951226780461206, -0.00014106972330794255,
    5.0806648617522527e-05, -1.46814102551089e-05, 3.3858256797843346e-06, -5.692530568136466e-07,
    3.743670359571381e-08, 3.2135651715427885e-08, -2.4296737551181155e-08, -1.8731456789696077e-09,
    5.492686548016285e-09, 5.5333657655864946e-09, -3.0691312118010075e-09, -1.9552482461387454e-09,
    5.079941316084428e-10, 3.3866275440562856e-10,
)  # fmt: skip
# x exp(-x) expi(x) for x >= 12, in 24 / x - 1.
FAR = (
    1.0456658121249731, 0.0503136788742795, 0.005460722118933727, 0.0010421208491337096, 0.00033347193956314214,
    0.00016671871307079775, 8.333241589649394e-05, -1.1943409809589408e-05, -8.637430114326606e-05,
    -5.664056605686104e-05, 4.9578086393609055e-05, 6.554229326714752e-05, -4.074370955038376e-05,
    -5.992551480934102e-05, 5.303158224023718e-05, 4.721648547274527e-05, -7.511757548854802e-05,
    -2.7805825326746956e-05, 9.33158542466117e-05, 6.737612420693041e-06, -9.413225974033898e-05,
    7.365333537260692e-06, 7.368977239821108e-05, -1.0321848094463348e-05, -4.267773280541103e-05,
    6.283819675445556e-06, 1.7091662933429085e-05, -2.0404656728108716e-06, -4.204362630844116e-06,
    2.86102294921875e-07, 4.76837158203125e-07,
)  # fmt: skip
# x exp(x) exp1(x) for x >= 1, in (x - 4) / (x + 2).
BELOW = (
    0.8253825996042238, 0.19036949703168515, -0.024300313654301717, 0.010133650725343814, -0.002507852572765081,
    0.0011289560099212537, -0.00033798578942722206, 0.0001617675930927476, -5.2194220953651895e-05,
    2.6536046048590835e-05, -8.720447846144451e-06, 4.760208269090073e-06, -1.5274802535714116e-06,
    9.069901898328683e-07, -2.6729490855359466e-07, 2.0021794625790776e-07, -4.5466367737390137e-08,
    2.2750900825485565e-08, -1.9539147615432713e-08, 2.1048472262918986e-08, 1.564156264066695e-08,
    6.542541086673572e-10, -1.074746251106262e-08, -2.0395964384078954e-09, 3.1292438507080077e-09,
    1.601874828338623e-09,
)  # fmt: skip
# The sine integral divided by x, for x in [0, 8], in x² / 32 - 1.
SINE = (
    0.2564176784782056, -0.18001998436945763, 0.24924072494900024, -0.19573194561948362, 0.087634549737685,
    -0.02511692629192866, 0.005009796788733922, -0.0007369451413850926, 8.337731318922198e-05,
    -7.488956802603752e-06, 5.473819063202728e-07, -3.3165455685472506e-08, 1.707023026635093e-09,
    -1.0807828706068293e-10, 9.398111918320257e-13, 9.276845958083867e-12,
)  # fmt: skip
# (The cosine integral less log(x) and γ) / x², for x in [0, 8], in x² / 32 - 1.
COSINE = (
    -0.07596076230625334, 0.07299488110492316, -0.0585591542216615, 0.02989771352079408, -0.009897715308392518,
    0.0022608070068446708, -0.00037623079345075656, 4.759777380431984e-05, -4.731951720179003e-06,
    3.794887689423376e-07, -2.5070934365582314e-08, 1.3771796147921132e-09, -6.710176118455521e-11,
    1.0822986951097846e-11, 3.789561257387201e-13, -2.2737367544323206e-12,
)  # fmt: skip
# x f(x) for x >= 8, in 16 / x - 1, where f and g are the integrals' auxiliary functions.
SINES_PART = (
    0.992517924838933, -0.014363803203181221, -0.006084697815954584, 0.0009183884259221483, 5.201467435490447e-05,
    -5.825895290505075e-05, 1.3462175435498901e-05, 2.2941508280961357e-07, -1.4618949685241134e-06,
    6.413536006923756e-07, -1.2681236303470977e-07, -2.8968005691157567e-08, 3.392431321716769e-08,
    -1.0563367554409935e-08, 7.772293677341868e-09, -8.874353211881087e-09, -3.72179701199374e-09,
    7.462486709383403e-09, 1.11950529654595e-09, -2.624636346643623e-09, -4.5044792138717384e-10,
    4.2332844300703573e-10, 8.466568860140714e-11,
)  # fmt: skip
# x² g(x) for x >= 8, in 16 / x - 1.
COSINES_PART = (
    0.9781541216357443, -0.04089700203839262, -0.015498928167374982, 0.003881612411618654, -3.122150374168522e-05,
    -0.0002687809491798058, 9.584268309169845e-05, -9.856536764210396e-06, -7.395456533934373e-06,
    5.1254191865050044e-06, -1.6716664119961972e-06, 1.2967488880978903e-07, 1.965119403953745e-07,
    -1.896985220530321e-07, 1.7699479844150818e-07, -1.788626272732832e-09, -2.034025258651057e-07,
    -3.317276983020394e-09, 2.6324008873556386e-07, 2.6350160344288894e-09, -2.434012108446601e-07,
    6.3401575271899865e-09, 1.407908992125438e-07, -5.014813863314114e-09, -4.6852689522963316e-08,
    1.146243168757512e-09, 6.8774590125450725e-09,
)  # fmt: skip


def _entire_part(x: Array) -> Array:
    """Returns expi(x) - log(abs(x)) - γ for -1 <= x <= 6."""
    return x * horner((x - 2.5) * (1 / 3.5), ENTIRE)


def _exp1(x: Array) -> Array:
    small, inside = x <= 1.0, (x > 0.0) & (x < math.inf)
    near, far = where(small & inside, x, 1.0), where(small | ~inside, 1.0, x)
    above = exp(-far) / far * horner((far - 4.0) / (far + 2.0), BELOW)
    result = where(small, -log(near) - EULER - _entire_part(-near), above)
    return where(inside, result, where(x == 0.0, math.inf, where(x > 0.0, 0.0, math.nan)))


_differentiable_exp1 = with_derivative(_exp1, lambda x: -exp(-x) / x)


@jit
def exp1(x: Operand) -> Array:
    """The exponential integral E1: the integral of exp(-t) / t from x on.

    The relative error is below 1e-14 in float64 and 1e-6 in float32, where exp1 does not underflow.

    Args:
        x: real numbers of any shape; NaN below 0.

    Raises:
        DTypeError: x is complex, or no array.

    >>> f"{float(exp1(1.0)):.4f}"
    '0.2194'
    """
    (a,), first = real_floats(x)
    return cast_strong_like(first, _differentiable_exp1(a))


def _expi(x: Array) -> Array:
    inside = (x > 0.0) & (x < math.inf)
    a = where(inside, x, 1.0)
    low, high = a <= 6.0, a > 12.0
    near, middle, far = where(low, a, 1.0), where(low | high, 9.0, a), where(high, a, 12.0)
    scaled = where(high, horner(24.0 / far - 1.0, FAR), horner((middle - 9.0) * (1 / 3), MIDDLE))
    # In two steps: exp(x) overflows before exp(x) / x.
    half = exp(where(low, 6.0, a) * 0.5)
    result = where(low, log(near) + EULER + _entire_part(near), half * scaled / a * half)
    below = -_exp1(where(x < 0.0, -x, 1.0))
    return where(
        inside, result, where(x > 0.0, math.inf, where(x == 0.0, -math.inf, where(x < 0.0, below, x)))
    )


_differentiable_expi = with_derivative(_expi, lambda x: exp(x) / x)


@jit
def expi(x: Operand) -> Array:
    """The exponential integral Ei: the principal value of the integral of exp(t) / t up to x.

    The error, relative or absolute, whichever is larger, is below 2e-14 in float64 and 1e-6 in float32.

    Args:
        x: real numbers of any shape.

    Raises:
        DTypeError: x is complex, or no array.

    >>> f"{float(expi(1.0)):.4f}"
    '1.8951'
    """
    (a,), first = real_floats(x)
    return cast_strong_like(first, _differentiable_expi(a))


def _small_expn(n: Array, x: Array) -> Array:
    """Returns expn for n >= 1 and 0 < x <= 1, by its power series (DLMF, 8.19.8)."""
    odd = n * 0.5 == floor(n * 0.5)  # n - 1 is odd
    size = exp((n - 1.0) * log(x) - lgamma(n)) * (digamma(n) - log(x))
    total, power = where(odd, -size, size), x * 0.0 + 1.0
    for m in range(22):
        rest = n - (m + 1.0)
        total = total + where(rest == 0.0, 0.0, power / where(rest == 0.0, 1.0, rest))
        power = power * (x * (-1.0 / (m + 1)))
    return total


def _large_expn(n: Array, x: Array) -> Array:
    """Returns expn for x > 1, by its continued fraction (DLMF, 8.19.17), with Lentz' method."""
    n, x = broadcast_arrays([n, x], keep_scalars=False)
    eps, tiny = [float(v) for v in (dtypes.finfo(x.type.dtype).eps, dtypes.finfo(x.type.dtype).tiny)]
    first = 1.0 / (x + n)
    State = tuple[Array, Array, Array, Array, Array]

    def goes_on(state: State) -> Array:
        i, _, _, _, change = state
        return (change > eps).any() & (i < 300.0)

    def step(state: State) -> State:
        i, h, c, d, _ = state
        top, bottom = -i * (n + (i - 1.0)), x + n + i * 2.0
        d, c = 1.0 / (top * d + bottom), bottom + top / c
        return i + 1.0, h * (c * d), c, d, absolute(c * d - 1.0)

    one = first * 0.0 + 1.0
    start = (one.reshape(-1).sum() * 0.0 + 1.0, first, one / tiny**0.75, first, one)
    fraction: Array = while_loop(goes_on, step, start)[1]
    return fraction * exp(-x)


@custom_jvp
def _expn(n: Array, x: Array) -> Array:
    defined = (n >= 0.0) & (floor(n) == n) & (x >= 0.0)
    inside = defined & (x > 0.0) & (x < math.inf) & (n > 0.0)
    small = inside & (x <= 1.0)
    near = _small_expn(where(small, n, 1.0), where(small, x, 1.0))
    far = _large_expn(where(inside & ~small, n, 1.0), where(inside & ~small, x, 2.0))
    positive = where((x > 0.0) & (x < math.inf), x, 1.0)
    at_zero = where(n > 1.0, 1.0 / where(n > 1.0, n - 1.0, 1.0), math.inf)
    ends = where(x == 0.0, at_zero, where(x == math.inf, 0.0, exp(-positive) / positive))
    return where(defined, where(inside, where(small, near, far), ends), math.nan)


@_expn.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (n, x), (_, dx) = primals, tangents
    positive = where(n > 0.0, 1.0, x)
    below = where(
        n > 0.0, _expn(where(n > 0.0, n - 1.0, n), x), exp(-positive) / positive * (1.0 + 1.0 / positive)
    )
    return _expn(n, x), -below * dx


@jit
def expn(n: Operand, x: Operand) -> Array:
    """The exponential integral En: the integral of exp(-x t) / t^n over t from 1 on.

    The relative error is below 1e-13 in float64 and 2e-5 in float32, where expn does not underflow. It has a derivative
    in x.

    Args:
        n: integers >= 0, of any dtype; NaN for other numbers.
        x: real numbers; NaN below 0.

    Raises:
        DTypeError: an operand is complex, or no array.
        ShapeError: they do not broadcast.

    >>> f"{float(expn(2, 1.0)):.4f}"
    '0.1485'
    """
    (order, a), first = real_floats(n, x)
    return cast_strong_like(first, _expn(order, a))


def _auxiliary(x: Array) -> tuple[Array, Array]:
    """Returns the functions f and g of DLMF, 6.2.17, for x >= 8."""
    u = 16.0 / x - 1.0
    return horner(u, SINES_PART) / x, horner(u, COSINES_PART) / (x * x)


def _sine_integral(x: Array) -> Array:
    size = absolute(x)
    small, finite = size <= 8.0, size < math.inf
    near, far = where(small, x, 0.0), where(small | ~finite, 8.0, size)
    f, g = _auxiliary(far)
    above = math.pi / 2 - f * cos(far) - g * sin(far)
    above = where(finite, above, math.pi / 2)
    result = near * horner(near * near * (1 / 32) - 1.0, SINE)
    return where(x == x, where(small, result, where(x < 0.0, -above, above)), x)


def _cosine_integral(x: Array) -> Array:
    size = absolute(x)
    small, finite = size <= 8.0, size < math.inf
    near, far = where(small & (size > 0.0), size, 1.0), where(small | ~finite, 8.0, size)
    f, g = _auxiliary(far)
    square = near * near
    result = log(near) + EULER + square * horner(square * (1 / 32) - 1.0, COSINE)
    result = where(small, where(size > 0.0, result, -math.inf), f * sin(far) - g * cos(far))
    return where(finite, result, where(x > 0.0, 0.0, math.nan))


def _sine_integral_slope(x: Array) -> Array:
    finite = absolute(x) < math.inf
    return where(finite, divide_sine(where(finite, x, 0.0)), 0.0)


_differentiable_si = with_derivative(_sine_integral, _sine_integral_slope)
_differentiable_ci = with_derivative(_cosine_integral, lambda x: cos(x) / x)


@jit
def sici(x: Operand) -> tuple[Array, Array]:
    """The sine and cosine integrals: of sin(t) / t over t from 0 to x, and γ + log(x) + that of (cos(t) - 1) / t.

    The errors, relative or absolute, whichever is larger, are below 2e-14 in float64 and 1e-6 in float32.

    Args:
        x: real numbers of any shape. The cosine integral of a negative number is that of its absolute value.

    Returns:
        A pair of arrays `(si, ci)`.

    Raises:
        DTypeError: x is complex, or no array.

    >>> [f"{float(y):.4f}" for y in sici(1.0)]
    ['0.9461', '0.3374']
    """
    (a,), first = real_floats(x)
    return cast_strong_like(first, _differentiable_si(a)), cast_strong_like(first, _differentiable_ci(a))
