"""Error functions and the normal distribution."""

import math

from effx.array import Array, Operand
from effx.array.arithmetic import minimum, promote_inexact, where
from effx.array.promotion import as_operand
from effx.errors import ShapeError
from effx.families.gamma import forward_slope
from effx.families.quantiles import NDTRI
from effx.families.special import scaled_erfc as scaled_erfc_by_polynomial
from effx.lax.elementwise import special
from effx.lax.elementwise.exponential import exp, log, log1p
from effx.scipy.operands import cast_strong_like, real_floats, with_derivative
from effx.scipy.special.faddeeva import faddeeva
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit

__all__ = ["erf", "erfc", "erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]


def erf(x: Operand) -> Array:
    """The error function.

    >>> float(erf(0.0))
    0.0
    """
    return special.erf(*promote_inexact(x))


def erfc(x: Operand) -> Array:
    """1 - erf(x), exact for large x.

    >>> float(erfc(0.0))
    1.0
    """
    return special.erfc(*promote_inexact(x))


def erfinv(x: Operand) -> Array:
    """The inverse of `erf`.

    >>> float(erfinv(0.0))
    0.0
    """
    return special.erf_inv(*promote_inexact(x))


def ndtr(x: Operand) -> Array:
    """The distribution function of the standard normal distribution.

    >>> float(ndtr(0.0))
    0.5
    """
    (a,) = promote_inexact(x)
    return special.erfc(a * -math.sqrt(0.5)) * 0.5


def ndtri(p: Operand) -> Array:
    """The inverse of `ndtr`: the quantiles of the standard normal distribution.

    Args:
        p: probabilities; outside [0, 1] the result is NaN.

    Source: Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37, 1988.

    >>> float(ndtri(0.5))
    0.0
    """
    return NDTRI(*promote_inexact(p))


_polynomial_slope = forward_slope(scaled_erfc_by_polynomial, 0, 1)


def _scaled_erfc_slope(x: Array) -> Array:
    # Near its end the polynomial's derivatives have fewer digits than its values; beyond 2 this difference would.
    near = x < 2.0
    a, b = where(near, x, 0.0), where(near, 3.0, x)
    return where(near, 2.0 * a * scaled_erfc(a) - 2 / math.sqrt(math.pi), _polynomial_slope(b))


_differentiable_erfc = with_derivative(scaled_erfc_by_polynomial, _scaled_erfc_slope)


def scaled_erfc(x: Array) -> Array:
    """Returns exp(x²) erfc(x) of floats."""
    return _differentiable_erfc(x)


@jit
def erfcx(x: Operand) -> Array:
    """exp(x²) erfc(x), which neither overflows nor underflows for large x.

    The relative error is below 1e-14 in float64 and 1e-6 in float32 for x > -2; below, the error of x² in exp(x²)
    adds to it.

    Args:
        x: real or complex numbers of any shape. Of complex ones it is `wofz(1j * x)`.

    Raises:
        DTypeError: x is no array.

    Source: Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 <= x < infinity",
    Mathematics of Computation 36, 1981; the coefficients are our own.

    >>> f"{float(erfcx(10.0)):.4f}"
    '0.0561'
    """
    z = as_operand(x)
    if z.type.kind == "c":
        return faddeeva(z * 1j)
    (a,), first = real_floats(z)
    return cast_strong_like(first, scaled_erfc(a))


@jit
def erfcinv(y: Operand) -> Array:
    """The inverse of `erfc`, for y in [0, 2], with all digits for small y.

    Args:
        y: real numbers of any shape; outside [0, 2] the result is NaN.

    Raises:
        DTypeError: y is complex, or no array.

    Source: Wichura's algorithm of `ndtri`.

    >>> f"{float(erfcinv(0.5)):.4f}"
    '0.4769'
    """
    (a,), first = real_floats(y)
    return cast_strong_like(first, NDTRI(a * 0.5) * -math.sqrt(0.5))


@custom_jvp
def log_normal_cdf(x: Array) -> Array:
    """Returns the logarithm of the standard normal distribution function, of floats."""
    upper, lower = where(x > 0.0, x, 0.0), where(x > 0.0, 0.0, x)
    inside = lower > -math.inf
    finite = where(inside, lower, 0.0)
    below = log(scaled_erfc(finite * -math.sqrt(0.5)) * 0.5) - finite * finite * 0.5
    above = log1p(special.erfc(upper * math.sqrt(0.5)) * -0.5)
    return where(x > 0.0, above, where(inside, below, lower))


@log_normal_cdf.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    # The density divided by the distribution function; below 0 both are scaled, as they underflow.
    # Beyond 40 the density is 0 in every dtype, and so are its derivatives.
    upper, lower = where(x > 0.0, minimum(x, 40.0), 0.0), where(x > 0.0, 0.0, x)
    density = exp(upper * upper * -0.5) * math.sqrt(0.5 / math.pi)
    above = density / (1.0 - special.erfc(upper * math.sqrt(0.5)) * 0.5)
    below = math.sqrt(2 / math.pi) / scaled_erfc(lower * -math.sqrt(0.5))
    return log_normal_cdf(x), dx * where(x > 0.0, above, below)


@jit(static_argnames=("series_order",))
def log_ndtr(x: Operand, series_order: int = 3) -> Array:
    """The logarithm of `ndtr`, exact where ndtr underflows or is near 1.

    The relative error is below 1e-14 in float64 and 1e-5 in float32.

    Args:
        x: real numbers of any shape.
        series_order: between 0 and 30. No series is cut off here, so that the result is the same for all.

    Raises:
        DTypeError: x is complex, or no array.
        ShapeError: the order is another.

    >>> f"{float(log_ndtr(-20.0)):.3f}"
    '-203.917'
    """
    if series_order not in range(31):
        raise ShapeError(f"log_ndtr: series_order must be an int between 0 and 30, got {series_order!r}")
    (a,), first = real_floats(x)
    return cast_strong_like(first, log_normal_cdf(a))
