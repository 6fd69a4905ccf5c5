"""Formulas of the gamma function, its logarithm and digamma, for floats of 32 and 64 bits.

On [1, 2] they are polynomials of our own, interpolated at Chebyshev points, with the zeros of log gamma, of gamma - 1 and of
digamma factored out. The recurrence leads from there to `STIRLING_FROM`, for gamma itself to `PRODUCT_BELOW`, where
Stirling's series takes over (DLMF, 5.11.1), and the reflection formula to negative numbers (DLMF, 5.5.3).
"""

import math

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import horner, minimum, where
from effx.ir.ops import elementwise as e

EXP, LOG, LOG1P, POW, SQRT, ABS = e.Exp(), e.Log(), e.Log1p(), e.Pow(), e.Sqrt(), e.Abs()
FLOOR, SIN = e.Floor(), e.Sin()

STIRLING_FROM = 8.0
# log(gamma(1 + t)) / (t (t - 1)), for t in [0, 1], in 2 t - 1: with the digits of 32 and of 64 bits.
LOG_GAMMA = (
    (
        0.4831289505, -0.07297995099, 0.01572785121, -0.003913500669, 0.001049799951, -0.0002948840084,
        8.520438286e-05, -2.435142234e-05, 7.280800583e-06, -2.977511396e-06, 9.130206326e-07,
    ),
    (
        0.48312895054098087, -0.072979947957152971, 0.015727850268641212, -0.0039135609376316589,
        0.0010498186644508718, -0.00029455070140092652, 8.5100903784680513e-05, -2.5094329848494459e-05,
        7.5113915317296576e-06, -2.2742409711320408e-06, 6.948440187550096e-07, -2.1388435611611589e-07,
        6.6236019397250989e-08, -2.0577611633730128e-08, 6.4341523572912014e-09, -2.0732827842398214e-09,
        6.5332685284344161e-10, -1.6393816009998903e-10, 5.1819898449443598e-11, -3.5338981622758793e-11,
        1.1273354955165048e-11,
    ),
)  # fmt: skip
# (gamma(1 + t) - 1) / (t (t - 1)), likewise.
GAMMA = (
    (
        0.4550922982, -0.06467682269, 0.04027885377, -0.01102883979, 0.00411732042, -0.001342062766,
        0.0004553782251, -0.0001446740565, 4.838875125e-05, -2.32627546e-05, 7.759698972e-06,
    ),
    (
        0.45509229818896796, -0.064676794897768855, 0.040278844500666384, -0.011029392615469862,
        0.0041175047395400378, -0.0013390110760525935, 0.00045436075032135497, -0.00015145061002106445,
        5.0648156136174309e-05, -1.6900156758053774e-05, 5.6382915715456746e-06, -1.8806281066314753e-06,
        6.2705943749678612e-07, -2.0838284686174749e-07, 6.9468219607106376e-08, -2.4029262531084752e-08,
        8.0100453567254158e-09, -1.9778115013842775e-09, 6.5928188259574583e-10, -5.2743484542285523e-10,
        1.7581219171124948e-10,
    ),
)  # fmt: skip
# digamma(1 + t) / (t - ROOT), likewise.
DIGAMMA = (
    (
        0.951055876, -0.2118137487, 0.06013563375, -0.01854985767, 0.005936542817, -0.001939249387,
        0.0006382816678, -0.0002014600284, 6.685542578e-05, -3.197972706e-05, 1.064705925e-05,
    ),
    (
        0.95105587603183284, -0.21181371064072865, 0.060135621060196195, -0.018550615381857261,
        0.0059367952783463641, -0.0019350666622102209, 0.00063688802944279223, -0.00021074843772854427,
        6.9950197514139748e-05, -2.3258098660110816e-05, 7.7411843121546474e-06, -2.5785659502395533e-06,
        8.590699307116732e-07, -2.8534578211707985e-07, 9.5097345808189461e-08, -3.2888378806256792e-08,
        1.0962078810190396e-08, -2.7066308634469587e-09, 9.0218245389327293e-10, -7.2172315545060308e-10,
        2.4057297773026326e-10,
    ),
)  # fmt: skip
# The zero of digamma is at 1 + ROOT: for floats of 32 bits and of 64 the nearest one, and the rest.
ROOT = ((0.4616321325302124, 1.2438149938918909e-08), (0.46163214496836236, -1.5522348162858677e-17))
# Coefficients, constant first, in powers of 1 / x² of x (log(gamma(x)) - Stirling's formula).
STIRLING_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
# The same of x² (log(x) - 1 / (2 x) - digamma(x)).
DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)


def _fraction_of(x: Array) -> Array:
    """Returns the fractional part of x >= 0."""
    return where(x < 1.0, x, x - FLOOR(x))


def _evaluate_fit(coefficients: tuple[tuple[float, ...], tuple[float, ...]], t: Array) -> Array:
    """Returns the value of a polynomial in 2 t - 1, whose coefficients are for floats of 32 bits and of 64."""
    return horner(2.0 * t - 1.0, coefficients[t.type.dtype.itemsize > 4])


def _log_gamma_1p_polynomial(t: Array) -> Array:
    """Returns log(gamma(1 + t)) for t in [0, 1]."""
    return t * (t - 1.0) * _evaluate_fit(LOG_GAMMA, t)


def _falling_product(x: Array, count: int) -> Array:
    """Returns (x - 1) (x - 2) …, as far as the factors are at least 1, `count` of them at most: gamma(x) / gamma(1 + t)."""
    product = where(x >= 2.0, x - 1.0, 1.0)
    for k in range(2, count + 1):
        product = where(x >= k + 1.0, product * (x - float(k)), product)
    return product


def log_gamma_1p(t: Array) -> Array:
    """Returns log(gamma(1 + t)) for t >= 0, without loss of relative accuracy where t is small."""
    return where(t <= 1.0, _log_gamma_1p_polynomial(where(t <= 1.0, t, 0.5)), log_gamma(1.0 + t))


def stirling_rest(x: Array) -> Array:
    """Returns log(gamma(x)) less Stirling's formula, (x - 1/2) log(x) - x + log(2 pi) / 2, for x >= STIRLING_FROM."""
    return horner(1.0 / x / x, STIRLING_SERIES) / x


def _sin_cos_pi(x: Array) -> tuple[Array, Array, Array]:
    """Returns sin(pi y) and cos(pi y) for the fractional part y of abs(x), and whether abs(x) is an integer or infinite."""
    size = ABS(x)
    fraction = size - FLOOR(size)
    upper = fraction > 0.5
    angle = where(upper, 1.0 - fraction, fraction) * math.pi
    # The cosine as a sine, which is accurate near y = 1/2, where it vanishes.
    cosine = SIN((0.5 - where(upper, 1.0 - fraction, fraction)) * math.pi)
    return SIN(angle), where(upper, -cosine, cosine), (fraction == 0.0) | (size == math.inf)


def log_gamma(x: Array) -> Array:
    """Returns log(abs(gamma(x))); infinite at 0 and at negative integers."""
    size = ABS(x)
    small, below_one = size < STIRLING_FROM, size < 1.0
    near, far = where(small, size, 1.0), where(small, STIRLING_FROM, size)
    rest = _log_gamma_1p_polynomial(_fraction_of(near))
    logarithm = LOG(where(small, where(below_one, size, _falling_product(near, 6)), size))
    stirling = (far - 0.5) * (where(small, 1.0, logarithm) - 1.0) + (
        0.5 * math.log(2 * math.pi) - 0.5 + stirling_rest(far)
    )
    value = where(small, where(below_one, rest - logarithm, rest + logarithm), stirling)
    # Of -y it is log(pi / sin(pi y)) - log(gamma(1 + y)). For y < 1, log(gamma(1 + y)) is the polynomial itself.
    sine, _, whole = _sin_cos_pi(where(x < 0.0, x, 0.5))
    reflected = LOG(math.pi / (sine * where(below_one, 1.0, size))) - where(below_one, rest, value)
    return where(x < 0.0, where(whole, math.inf, reflected), value)


def _subtract_root(t: Array) -> Array:
    """Returns t - ROOT, to all digits where t is near it: the difference to the nearest float is exact."""
    nearest, rest = ROOT[t.type.dtype.itemsize > 4]
    # XLA makes t - a - b the one difference t - (a + b), but it moves nothing across a product. By 4 it is exact.
    return (4.0 * t - 4.0 * nearest) * 0.25 - rest


def digamma(x: Array) -> Array:
    """Returns the slope of log_gamma; NaN at negative integers and at -inf, -inf at 0, inf at -0."""
    size = ABS(x)
    small, below_one = size < STIRLING_FROM, size < 1.0
    near, far = where(small, size, 1.0), where(small, STIRLING_FROM, size)
    t = _fraction_of(near)
    base = _subtract_root(t) * _evaluate_fit(DIGAMMA, t)
    # The sum of 1 / (x - k), as one fraction.
    numerator, denominator = near * 0.0, near * 0.0 + 1.0
    for k in range(1, 7):
        above = near >= k + 1.0
        factor = near - float(k)
        numerator = where(above, numerator * factor + denominator, numerator)
        denominator = where(above, denominator * factor, denominator)
    inverse = 1.0 / far
    asymptotic = LOG(far) - 0.5 * inverse - inverse * inverse * horner(inverse * inverse, DIGAMMA_SERIES)
    # Of -y it is digamma(1 + y) + pi / tan(pi y). For y < 1, digamma(1 + y) is the polynomial itself.
    from_one = where(small, base + numerator / denominator, asymptotic)
    digamma_1p = where(below_one, base, from_one + 1.0 / where(below_one, 1.0, size))
    sine, cosine, whole = _sin_cos_pi(where(x < 0.0, x, 0.5))
    reflected = where(whole, math.nan, digamma_1p + math.pi * cosine / where(whole, 1.0, sine))
    value = where(below_one, base - 1.0 / where(below_one, x, 1.0), from_one)
    return where(x < 0.0, reflected, value)


# Up to here the gamma function is a product, so that factorials are exact as long as their digits suffice.
PRODUCT_BELOW = 24


def _gamma_1p_polynomial(t: Array) -> Array:
    """Returns gamma(1 + t) for 0 <= t < 1."""
    return 1.0 + t * (t - 1.0) * _evaluate_fit(GAMMA, t)


def product_gamma(x: Array) -> Array:
    """Returns gamma(x) for 1 <= x < PRODUCT_BELOW."""
    return _gamma_1p_polynomial(_fraction_of(x)) * _falling_product(x, PRODUCT_BELOW - 2)


def gamma_function(x: Array) -> Array:
    """Returns gamma(x); infinite at 0, with the sign of the zero, NaN at negative integers and at -inf."""
    size = ABS(x)
    small, below_one = size < PRODUCT_BELOW, size < 1.0
    near = where(small, size, 1.0)
    base = _gamma_1p_polynomial(_fraction_of(near))
    product = base * _falling_product(near, PRODUCT_BELOW - 2)
    # A power, not exp of a logarithm, for one rounding; squared from half the exponent, since x^(x - 1/2) overflows before
    # gamma(x) does. Beyond 35 (of 32 bits) and 171.6 the result overflows.
    overflow = 40.0 if x.type.dtype.itemsize == 4 else 180.0
    far = where(small, float(PRODUCT_BELOW), minimum(size, overflow))
    half = POW(far, 0.5 * far - 0.25)
    stirling = half * EXP(-far) * (half * (EXP(stirling_rest(far)) * math.sqrt(2 * math.pi)))
    from_one = where(small, product, stirling)
    sine, _, whole = _sin_cos_pi(where(x < 0.0, x, 0.5))
    odd = FLOOR(size * 0.5) * 2.0 != FLOOR(size)
    # gamma(-y) = -pi / (sin(pi y) y gamma(y)), where y gamma(y) overflows before gamma(y) does, and is gamma(1 + y) for
    # y < 1.
    of_even_floor = where(below_one, -math.pi / (base * sine), -math.pi / (sine * size) / from_one)
    reflected = where(whole, math.nan, where(odd, -of_even_floor, of_even_floor))
    return where(x < 0.0, reflected, where(below_one, base / where(below_one, x, 1.0), from_one))


def log_excess_over_square(u: Array) -> Array:
    """Returns (u - log(1 + u)) / u² for abs(u) < 0.2."""
    s = u / (u + 2.0)  # log(1 + u) = 2 artanh(s)
    return (1.0 - 2.0 * s * horner(s * s, [1 / k for k in range(3, 21, 2)]) / (u + 2.0)) / (u + 2.0)


def log_excess(u: Array) -> Array:
    """Returns u - log(1 + u), the negative of what is known as log1pmx, accurate for small u too."""
    near = ABS(u) < 0.2
    v = where(near, u, 0.0)
    return where(near, v * v * log_excess_over_square(v), u - LOG1P(u))


def deviance(a: Array, distance: Array, ratio: Array) -> Array:
    """Returns distance - a log(ratio), where `ratio` is 1 + distance / a; accurate for small distance / a too.

    It is Loader's deviance of a binomial or Poisson probability from its peak.
    """
    u = distance / a
    near = ABS(u) < 0.2
    finite = minimum(where(near, 1.0, ratio), float(dtypes.finfo(a.type.dtype).max))
    return where(near, a * log_excess(where(near, u, 0.0)), distance - a * LOG(finite))


def log_gamma_ratio_rest(q: Array, p: Array) -> Array:
    """Returns r for which gamma(q + p) / gamma(q) is q^p exp(r), for q and q + p of at least STIRLING_FROM."""
    h = p / q
    near = ABS(p) < 0.2 * q
    excess = q * log_excess(where(near, h, 0.0))
    growth = LOG1P(h)
    # (p + q - 1/2) log(1 + h) - p. For small h, p and q log(1 + h) nearly cancel, so that log_excess subtracts them.
    total = where(near, (p - 0.5) * growth - excess, (p + q - 0.5) * growth - p)
    return total + stirling_rest(q + p) - stirling_rest(q)
