"""The gamma function, its logarithm and digamma for complex numbers.

Source: Hare, "Computing the principal branch of log-gamma", Journal of Algorithms 25, 1997: Stirling's series where
abs(z) is large, the recurrence where it is not, reflection where Re(z) is negative, and the power series around 2.
"""

import math

from effx.array import Array
from effx.array.arithmetic import absolute, conj, horner, imag, real, where
from effx.families.gamma_formulas import DIGAMMA_SERIES, STIRLING_SERIES
from effx.lax.elementwise.arithmetic import round as round_half_away
from effx.lax.elementwise.exponential import exp, expm1, log, log1p
from effx.lax.elementwise.parts import complex as complex_of
from effx.lax.elementwise.trigonometric import atan2, cos, sin
from effx.scipy.operands import with_derivative

# From here on Stirling's series has the digits of 64 bits, where Re(z) is not negative.
LARGE = 10
# log(gamma(2 + t)) / t: 1 less Euler's constant, then (-1)^k (zeta(k) - 1) / k from k = 2 on (DLMF, 5.7.3).
EULER = 0.57721566490153286
ZETA_LESS_ONE = (
    0.64493406684822644, 0.20205690315959429, 0.082323233711138192, 0.036927755143369926,
    0.01734306198444914, 0.0083492773819228268, 0.0040773561979443394, 0.0020083928260822144,
    0.00099457512781808534, 0.00049418860411946456, 0.00024608655330804830, 0.00012271334757848915,
    6.1248135058704829e-05, 3.0588236307020493e-05, 1.5282259408651872e-05, 7.6371976378997623e-06,
    3.8172932649998398e-06, 1.9082127165539389e-06, 9.5396203387279611e-07, 4.7693298678780646e-07,
    2.3845050272773299e-07, 1.1921992596531107e-07, 5.9608189051259479e-08, 2.9803503514652280e-08,
)  # fmt: skip
AROUND_TWO = (1.0 - EULER, *[(-1) ** k * z / k for k, z in enumerate(ZETA_LESS_ONE, 2)])


def _log_1p(t: Array) -> Array:
    """Returns log(1 + t), with all digits for small t."""
    a, b = real(t), imag(t)
    return complex_of(0.5 * log1p(a * (2.0 + a) + b * b), atan2(b, 1.0 + a))


def _log(z: Array) -> Array:
    size = absolute(z)
    return complex_of(log(size), atan2(imag(z), real(z)))


def _fold_to_right(z: Array) -> tuple[Array, Array, Array]:
    """Returns z or 1 - z, of which Re is not negative, with Im(z) >= 0; where Re(z) is negative; and where Im(z) is."""
    # The sign of a zero says from which side of the cut it is seen.
    below = atan2(imag(z), real(z) * 0.0 + 1.0) < 0.0
    below = below | ((imag(z) == 0.0) & (1.0 / where(imag(z) == 0.0, imag(z), 1.0) < 0.0))
    upper = where(below, conj(z), z)
    left = real(z) < 0.0
    return where(left, 1.0 - upper, upper), left, below


def _one_less_turn(z: Array) -> Array:
    """Returns 1 - exp(2 pi i z) for Im(z) >= 0, with all digits near integers."""
    a, b = imag(z) * (-2 * math.pi), (real(z) - round_half_away(real(z))) * (2 * math.pi)
    half = sin(b * 0.5)
    return complex_of(2.0 * half * half - expm1(a) * cos(b), -exp(a) * sin(b))


def _is_pole(z: Array) -> Array:
    return (imag(z) == 0.0) & (real(z) <= 0.0) & (round_half_away(real(z)) == real(z))


def _log_gamma_of_right(z: Array) -> Array:
    """Returns the logarithm of the gamma function for Re(z) >= 0."""
    near = absolute(z) < LARGE
    shifted = where(near, z + float(LARGE), z)
    inverse = 1.0 / shifted
    value = (shifted - 0.5) * (_log(shifted) - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5)
    value = value + inverse * horner(inverse * inverse, STIRLING_SERIES)
    # The logarithms of z to z + LARGE - 1, whose angles add up beyond pi.
    a, b = where(near, real(z), 1.0), where(near, imag(z), 0.0)
    sizes, angles = a * 0.0, b * 0.0
    for k in range(LARGE):
        angles = angles + atan2(b, a + float(k))
        sizes = sizes + log((a + float(k)) * (a + float(k)) + b * b)
    value = where(near, value - complex_of(0.5 * sizes, angles), value)
    # Around its zeros 1 and 2.
    by_one, by_two = absolute(z - 1.0) < 0.56, absolute(z - 2.0) < 0.56
    t = where(by_two, z - 2.0, where(by_one, z - 1.0, 0.0))
    series = t * horner(t, AROUND_TWO)
    return where(by_two, series, where(by_one, series - _log_1p(t), value))


def _log_gamma(z: Array) -> Array:
    folded, left, below = _fold_to_right(z)
    value = _log_gamma_of_right(folded)
    # log(sin(pi z)) = -log(2) + pi i / 2 - pi i z + log(1 - exp(2 pi i z)), which has no cut above the real axis.
    inner = where(left, where(below, conj(z), z), -0.5)
    sine = complex_of(math.pi * imag(inner) - math.log(2.0), math.pi * (0.5 - real(inner))) + _log(
        _one_less_turn(inner)
    )
    value = where(left, math.log(math.pi) - sine - value, value)
    value = where(below, conj(value), value)
    return where(_is_pole(z), complex(math.nan, math.nan), value)


def _digamma(z: Array) -> Array:
    folded, left, below = _fold_to_right(z)
    near = absolute(folded) < LARGE
    shifted = where(near, folded + float(LARGE), folded)
    inverse = 1.0 / shifted
    square = inverse * inverse
    value = _log(shifted) - 0.5 * inverse - square * horner(square, DIGAMMA_SERIES)
    start = where(near, folded, 1.0)
    total = start * 0.0
    for k in range(LARGE):
        total = total + 1.0 / (start + float(k))
    value = where(near, value - total, value)
    # pi / tan(pi z) = -pi i (1 + 2 e / (1 - e)) with e = exp(2 pi i z).
    inner = where(left, where(below, conj(z), z), -0.5)
    rest = _one_less_turn(inner)
    cotangent = (1.0 + 2.0 * (1.0 - rest) / rest) * complex(0.0, -math.pi)
    value = where(left, value - cotangent, value)
    value = where(below, conj(value), value)
    return where(_is_pole(z), complex(math.nan, math.nan), value)


_differentiable_log_gamma = with_derivative(_log_gamma, _digamma)


def complex_log_gamma(z: Array) -> Array:
    """Returns the principal branch of log(gamma(z)); NaN at its poles."""
    return _differentiable_log_gamma(z)


def complex_gamma(z: Array) -> Array:
    """Returns gamma(z); NaN at its poles."""
    return exp(_differentiable_log_gamma(z))


def complex_digamma(z: Array) -> Array:
    """Returns the slope of log(gamma(z)); NaN at its poles."""
    return _digamma(z)
