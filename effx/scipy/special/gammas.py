"""Functions of the gamma, beta, zeta and Bessel families."""

from effx.array import Array, Operand
from effx.array.arithmetic import promote_inexact, where
from effx.families.bessel import bessel
from effx.families.gamma import GAMMA
from effx.families.zeta_formulas import riemann_zeta_below_one
from effx.lax.elementwise import gamma as of_gamma
from effx.lax.elementwise import special
from effx.lax.elementwise.arithmetic import floor
from effx.scipy.operands import cast_like, real_floats
from effx.scipy.special.complex_gammas import complex_digamma, complex_gamma, complex_log_gamma

__all__ = [
    "betainc", "digamma", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1",
    "i1e", "loggamma", "polygamma", "zeta",
]  # fmt: skip


def gammaln(x: Operand) -> Array:
    """The logarithm of abs(gamma(x)).

    >>> f"{float(gammaln(3.0)):.4f}"
    '0.6931'
    """
    return of_gamma.lgamma(*promote_inexact(x))


def loggamma(x: Operand) -> Array:
    """The same as `gammaln` of real numbers; of complex ones the principal branch of log(gamma(z)), NaN at poles.

    It has no cut but the real axis below 0, and so differs from the logarithm of `gamma(z)` by a multiple of 2 pi i.

    >>> f"{float(loggamma(3.0)):.4f}"
    '0.6931'
    >>> f"{complex(loggamma(3.0 + 4.0j)):.4f}"
    '-1.7566+4.7427j'
    """
    (a,) = promote_inexact(x)
    return complex_log_gamma(a) if a.type.kind == "c" else of_gamma.lgamma(a)


def gammasgn(x: Operand) -> Array:
    """The sign of gamma(x): of 0 its own sign, NaN at negative integers.

    >>> float(gammasgn(-0.5))
    -1.0
    """
    (a,) = promote_inexact(x)
    floored = floor(a)
    even = floored * 0.5 == floor(floored * 0.5)
    sign = where((a > 0.0) | even, 1.0 + a * 0.0, -1.0)
    sign = where(a == 0.0, where(1.0 / where(a == 0.0, a, 1.0) > 0.0, 1.0, -1.0), sign)
    undefined = ((a < 0.0) & (a == floored)) | (a != a)
    return where(undefined, float("nan"), where(a > 0.0, 1.0, sign))


def gamma(x: Operand) -> Array:
    """The gamma function of real or complex numbers; NaN at negative integers.

    >>> gamma(5.0)
    Array(24., dtype=float32, weak_type=True)
    >>> f"{complex(gamma(1j)):.3f}"
    '-0.155-0.498j'
    """
    (a,) = promote_inexact(x)
    return complex_gamma(a) if a.type.kind == "c" else GAMMA(a)


def digamma(x: Operand) -> Array:
    """The slope of `gammaln`; of complex numbers that of `loggamma`.

    >>> f"{float(digamma(1.0)):.4f}"
    '-0.5772'
    """
    (a,) = promote_inexact(x)
    return complex_digamma(a) if a.type.kind == "c" else of_gamma.digamma(a)


def polygamma(n: Operand, x: Operand) -> Array:
    """The n-th slope of `digamma` at x.

    >>> f"{float(polygamma(1, 1.0)):.4f}"
    '1.6449'
    """
    return of_gamma.polygamma(*promote_inexact(n, x))


def zeta(x: Operand, q: Operand | None = None) -> Array:
    """The Hurwitz zeta function, NaN for x < 1; where q is None Riemann's, for all real x.

    >>> f"{float(zeta(2.0)):.4f}"
    '1.6449'
    >>> f"{float(zeta(-1.0)):.4f}"
    '-0.0833'
    """
    if q is not None:
        return of_gamma.zeta(*promote_inexact(x, q))
    (s,), _ = real_floats(x)
    above = s > 1.0
    below = riemann_zeta_below_one(where(above, 0.0, s))
    value = where(above, of_gamma.zeta(where(above, s, 2.0), where(above, 1.0, 2.0)), below)
    return cast_like(promote_inexact(x)[0], where(s == s, value, s))


def betainc(a: Operand, b: Operand, x: Operand) -> Array:
    """The regularised incomplete beta function.

    >>> f"{float(betainc(1.0, 2.0, 0.5)):.4f}"
    '0.7500'
    """
    return of_gamma.betainc(*promote_inexact(a, b, x))


def gammainc(a: Operand, x: Operand) -> Array:
    """The regularised lower incomplete gamma function.

    >>> f"{float(gammainc(1.0, 2.0)):.4f}"
    '0.8647'
    """
    return of_gamma.igamma(*promote_inexact(a, x))


def gammaincc(a: Operand, x: Operand) -> Array:
    """1 - gammainc(a, x), exact where that is small.

    >>> f"{float(gammaincc(1.0, 2.0)):.4f}"
    '0.1353'
    """
    return of_gamma.igammac(*promote_inexact(a, x))


def i0e(x: Operand) -> Array:
    """exp(-abs(x)) times the modified Bessel function I0(x).

    >>> float(i0e(0.0))
    1.0
    """
    return special.bessel_i0e(*promote_inexact(x))


def i0(x: Operand) -> Array:
    """The modified Bessel function of the first kind and order 0.

    >>> float(i0(0.0))
    1.0
    """
    return bessel(0)(*promote_inexact(x))


def i1e(x: Operand) -> Array:
    """exp(-abs(x)) times the modified Bessel function I1(x).

    >>> float(i1e(0.0))
    0.0
    """
    return special.bessel_i1e(*promote_inexact(x))


def i1(x: Operand) -> Array:
    """The modified Bessel function of the first kind and order 1.

    >>> float(i1(0.0))
    0.0
    """
    return bessel(1)(*promote_inexact(x))
