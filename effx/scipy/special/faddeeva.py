"""The Faddeeva function, and with it Dawson's integral and the Fresnel integrals."""

import math
from collections.abc import Callable

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import absolute, horner, imag, promote_inexact, real, where
from effx.array.promotion import as_operand, convert
from effx.lax.elementwise.exponential import exp
from effx.lax.elementwise.parts import complex as complex_of
from effx.lax.elementwise.trigonometric import cos, sin
from effx.scipy.operands import cast_strong_like, real_floats, with_derivative
from effx.transforms.jit.jit import jit

__all__ = ["dawsn", "fresnel", "wofz"]

# Fourier coefficients of exp(-t²) (L² + t²), where t is L tan(θ / 2).
FADDEEVA = (
    2.899624509389705, 2.6160541527618597, 2.201513794878312, 1.7253830848179779, 1.2563815675765133,
    0.8472174576593815, 0.5266528988277086, 0.2998943799615006, 0.15504263802479504, 0.07182361779074328,
    0.02920291647124188, 0.010048186242783535, 0.002705405633073729, 0.000439807015986967, -3.939363145483805e-05,
    -5.5913092642348794e-05, -1.8007447144723407e-05, -1.066013898416273e-06, 1.4835661133172014e-06,
    5.912136953029057e-07, 1.419864237295343e-08, -6.351773483015411e-08, -1.8315616834296834e-08,
    3.249746582945079e-09, 3.017780425551564e-09, 2.1085990731251058e-10, -3.5632350403602684e-10,
    -9.055138860958323e-11, 3.4727420938907015e-11, 1.771418567386718e-11, -2.7277735625830245e-12,
    -2.90771851041427e-12, 1.203330952919568e-13, 4.5341448909434655e-13, 1.3778224047664046e-14,
    -7.071088022159408e-14, -5.231716366324404e-15, 1.1519170220749485e-14, 1.201674910759281e-15,
    -1.7356980998791865e-15,
)  # fmt: skip
WIDTH = math.sqrt(40 / math.sqrt(2.0))  # L
# dawsn(x) / x for x in [0, 2.5], in 2 x² / 6.25 - 1.
NEAR = (
    0.2007512847856598, -0.22772340734804553, 0.2129364970147705, -0.16204404924687896, 0.10202881827295983,
    -0.05431641711603022, 0.024939840068417027, -0.010043879339502801, 0.003597402424364169, -0.001159187975542322,
    0.0003392854205420311, -9.09325902831543e-05, 2.247227307418056e-05, -5.15861652924546e-06,
    1.1020647001541438e-06, -2.112731072841034e-07, 4.047987680505251e-08, -1.4271790860220788e-08,
    1.6859433214579323e-09, 2.757241461603414e-09, -5.6821764225051515e-11, -5.460432952358608e-10,
)  # fmt: skip
# x dawsn(x) for x in [2.5, 5], in (x - 3.75) / 1.25.
MIDDLE = (
    0.5201446484759672, -0.015474529970217407, 0.009584832747853465, -0.005773649257839375, 0.0035477896740729485,
    -0.002141442171602083, 0.0011286347689402885, -0.0003962297972599986, -3.952234960682131e-05,
    0.00019594541687571678, -0.00016997924195201765, 8.363926055272199e-05, -1.7042057690915776e-05,
    -9.499346649887308e-06, 1.0432129349045798e-05, -4.3875613656659285e-06, 4.3573298013222413e-07,
    6.06103086560641e-07, -4.3349016619765235e-07, 1.1269762383207029e-07, 4.2071485001107905e-08,
    -3.5332050174474716e-08, 3.0875367962795753e-10, 3.3102443684702334e-09,
)  # fmt: skip
# x dawsn(x) for x >= 5, in 50 / x² - 1.
FAR = (
    0.50515807824593, 0.005324873173523936, 0.00017621830992235244, 1.020778038296477e-05, 8.731652069455392e-07,
    1.0182629373023389e-07, 1.5498618281123422e-08, 3.0112508042634545e-09, 7.193610152000929e-10,
    2.035722701521081e-10, 1.189068843387986e-10, 8.317613264807733e-11, 1.1475265182525618e-12,
    -1.7053025658242404e-11, 6.146194664324867e-12, -4.547473508864641e-13, -4.547473508864641e-12,
)  # fmt: skip
# Odd factorials, of the expansion for x > 12 of 1 - 2 x dawsn(x) in 1 / (2 x²).
EXPANSION = tuple([float(math.prod(range(1, 2 * k + 2, 2))) for k in range(13)])
# S(x) / x³ for x in [0, 1.6], in 2 x⁴ / 1.6⁴ - 1.
SINES = (
    0.28893936264084613, -0.17613565013954566, 0.05013295259229217, -0.007629278744874338, 0.0007142320313939956,
    -4.5168951082974467e-05, 2.0578109896719965e-06, -7.074388084861635e-08, 1.903025292904203e-09,
    -4.1601262117702775e-11, -2.9071348503098954e-12, 2.2737367544323206e-13, 2.6797611748666633e-12, 0.0,
    -7.795668872339384e-13,
)  # fmt: skip
# C(x) / x for x in [0, 1.6], in 2 x⁴ / 1.6⁴ - 1.
COSINES = (
    0.443458112144571, -0.3498350978515398, 0.1664430599115315, -0.035626646649923224, 0.004287818385419109,
    -0.0003307760778467537, 1.7764276121593324e-05, -7.028316153829499e-07, 2.1349859277311874e-08,
    -5.136290123378526e-10, 5.083425743837974e-12, -5.521932117907063e-13, 3.605496853456965e-12,
    2.598556290779795e-13, -1.039422516311918e-12,
)  # fmt: skip


def _faddeeva_upper_half(z: Array) -> Array:
    """Returns the Faddeeva function of z with Im(z) >= 0."""
    rotated = z * 1j
    below = 1.0 / (WIDTH - rotated)
    return below * (2.0 * below * horner((WIDTH + rotated) * below, FADDEEVA) + 1 / math.sqrt(math.pi))


def _faddeeva(z: Array) -> Array:
    lower = imag(z) < 0.0
    result = _faddeeva_upper_half(where(lower, -z, z))
    return where(lower, 2.0 * exp(-(where(lower, z, 0.0) ** 2)) - result, result)


faddeeva: Callable[[Array], Array] = with_derivative(
    _faddeeva, lambda z: -2.0 * z * faddeeva(z) + 2j / math.sqrt(math.pi)
)


@jit
def wofz(z: Operand) -> Array:
    """The Faddeeva function exp(-z²) erfc(-i z).

    The relative error is below 2e-14 in complex128 and 1e-6 in complex64 where Im(z) >= 0; below, the error of z² in
    exp(-z²) adds to it.

    Args:
        z: complex or real numbers of any shape.

    Returns:
        Complex numbers.

    Raises:
        DTypeError: z is no array.

    Source: Weideman, "Computation of the complex error function", SIAM J. Numer. Anal. 31, 1994.

    >>> f"{complex(wofz(1j)):.4f}"
    '0.4276+0.0000j'
    """
    (a,) = promote_inexact(as_operand(z))
    return faddeeva(convert(a, dtypes.complex_dtype(a.type.dtype)))


def _dawson(x: Array) -> Array:
    size = absolute(x)
    low, high = size <= 2.5, size > 5.0
    near, middle, far = where(low, x, 0.0), where(low | high, 3.75, size), where(high, size, 5.0)
    inverse = 1.0 / far
    above = horner(50.0 * inverse * inverse - 1.0, FAR) * inverse
    between = horner((middle - 3.75) * 0.8, MIDDLE) / middle
    outer = where(high, above, between)
    inner = near * horner(near * near * (2 / 6.25) - 1.0, NEAR)
    return where(x == x, where(low, inner, where(x < 0.0, -outer, outer)), x)


def _dawson_slope(x: Array) -> Array:
    # 1 - 2 x dawsn(x) cancels for large x, where the expansion 1 / (2 x²) (1 + 3 / (2 x²) + …) begins with its result.
    far = absolute(x) > 12.0
    inverse = where(far, x, 12.0) ** -1
    u = 0.5 * inverse * inverse
    expansion = -u * horner(u, EXPANSION)
    near = where(far, 0.0, x)
    return where(far, expansion, 1.0 - 2.0 * near * _differentiable_dawson(near))


_differentiable_dawson: Callable[[Array], Array] = with_derivative(_dawson, _dawson_slope)


@jit
def dawsn(x: Operand) -> Array:
    """Dawson's integral, exp(-x²) times the integral of exp(t²) over t from 0 to x.

    The relative error is below 2e-14 in float64 and 1e-6 in float32.

    Args:
        x: real numbers of any shape.

    Raises:
        DTypeError: x is complex, or no array.

    Source: polynomials of our own, interpolated at Chebyshev points.

    >>> f"{float(dawsn(1.0)):.4f}"
    '0.5381'
    """
    (a,), first = real_floats(x)
    return cast_strong_like(first, _differentiable_dawson(a))


def _fresnel_phase(x: Array) -> Array:
    """Returns pi x² / 2, which has the period 4 in x²."""
    return (x * x) % 4.0 * (math.pi / 2)


def _fresnel(x: Array, sine: bool) -> Array:
    size = absolute(x)
    small, finite = size <= 1.6, size < 1e15
    near, far = where(small, x, 0.0), where(small | ~finite, 1.6, size)
    root = far * (math.sqrt(math.pi) / 2)
    w = _faddeeva_upper_half(complex_of(root, root))
    # g + i f is (1 + i) / 2 times w (DLMF, 7.5.10 and 7.5.13).
    g, f = (real(w) - imag(w)) * 0.5, (real(w) + imag(w)) * 0.5
    angle = _fresnel_phase(far)
    above = 0.5 - f * cos(angle) - g * sin(angle) if sine else 0.5 + f * sin(angle) - g * cos(angle)
    above = where(finite, above, 0.5)
    square = near * near
    v = square * square * (2 / 1.6**4) - 1.0
    result = near * square * horner(v, SINES) if sine else near * horner(v, COSINES)
    return where(x == x, where(small, result, where(x < 0.0, -above, above)), x)


_differentiable_s = with_derivative(lambda x: _fresnel(x, True), lambda x: sin(_fresnel_phase(x)))
_differentiable_c = with_derivative(lambda x: _fresnel(x, False), lambda x: cos(_fresnel_phase(x)))


@jit
def fresnel(x: Operand) -> tuple[Array, Array]:
    """The Fresnel integrals of sin(pi t² / 2) and cos(pi t² / 2) over t from 0 to x.

    The relative error is below 1e-14 in float64 and 1e-6 in float32; for large x, that of x², the angle, adds to it.

    Args:
        x: real numbers of any shape.

    Returns:
        A pair of arrays `(s, c)`.

    Raises:
        DTypeError: x is complex, or no array.

    >>> [f"{float(y):.4f}" for y in fresnel(1.0)]
    ['0.4383', '0.7799']
    """
    (a,), first = real_floats(x)
    return cast_strong_like(first, _differentiable_s(a)), cast_strong_like(first, _differentiable_c(a))
