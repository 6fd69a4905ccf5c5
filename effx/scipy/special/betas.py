"""The beta function and what else are quotients of gamma functions: Pochhammer's symbol, binomial coefficients."""

import math

from effx.array import Array, Operand
from effx.array.arithmetic import maximum, minimum, promote_inexact, where
from effx.array.promotion import convert
from effx.families.gamma import DIGAMMA, GAMMA, LGAMMA
from effx.families.gamma_formulas import STIRLING_FROM, log_gamma_ratio_rest, product_gamma, stirling_rest
from effx.lax.elementwise.arithmetic import abs as absolute
from effx.lax.elementwise.arithmetic import floor
from effx.lax.elementwise.arithmetic import round as round_half_away
from effx.lax.elementwise.exponential import exp, log, log1p, pow
from effx.scipy.operands import cast_like, real_floats
from effx.scipy.special.gammas import gammasgn
from effx.transforms.custom.custom_derivatives import custom_jvp

__all__ = ["beta", "betaln", "comb", "poch"]

INFINITY = math.inf


def _small_beta(p: Array, q: Array) -> Array:
    """Returns the beta function for 0 < p <= q < STIRLING_FROM, as a product."""
    n = p + q
    return product_gamma(1.0 + p) * product_gamma(1.0 + q) / product_gamma(1.0 + n) * (n / q) / p


def _log_beta(a: Array, b: Array) -> Array:
    """Returns log(abs(B(a, b))) of floats."""
    p, q = minimum(a, b), maximum(a, b)
    # At a pole of Γ(p), B is finite where Γ(p + q) has one too: B(p, q) = ±B(1 - p - q, q).
    turned = _is_turned(p, q)
    p, q = where(turned, minimum(1.0 - p - q, q), p), where(turned, maximum(1.0 - p - q, q), q)
    small = (p > 0.0) & (q < STIRLING_FROM)
    both_large = (p >= STIRLING_FROM) & (q < INFINITY)
    # Γ(p) Γ(q) / Γ(p + q), where the quotient is q^-p up to a factor; p may be negative if it is small.
    unequal = ~(small | both_large) & (q >= 2 * STIRLING_FROM) & (q < INFINITY) & (p > -0.5 * q)
    unequal = unequal | ((p > 0.0) & (p < STIRLING_FROM) & (q >= STIRLING_FROM) & (q < INFINITY))
    other = ~(small | both_large | unequal)
    product = log(_small_beta(where(small, p, 1.0), where(small, q, 1.0)))
    log_gamma_of_smaller = LGAMMA(where(unequal | other, p, 1.0))
    u, v = where(unequal, p, 1.0), where(unequal, q, STIRLING_FROM)
    mixed = log_gamma_of_smaller - u * log(v) - log_gamma_ratio_rest(v, u)
    e, f = where(both_large, p, STIRLING_FROM), where(both_large, q, STIRLING_FROM)
    less = log1p(e / f)
    rest = stirling_rest(e) + stirling_rest(f) - stirling_rest(e + f)
    large = rest + 0.5 * (math.log(2 * math.pi) + less - log(e)) - e * log1p(f / e) - f * less
    general = log_gamma_of_smaller + LGAMMA(where(other, q, 1.0)) - LGAMMA(where(other, p + q, 1.0))
    pole = other & (p <= 0.0) & (floor(p) == p)
    at_infinity = where(p > 0.0, -INFINITY, where(p < 0.0, INFINITY, math.nan))
    general = where(q == INFINITY, at_infinity, where(pole, INFINITY, general))
    value = where(small, product, where(both_large, large, where(unequal, mixed, general)))
    return where((a == a) & (b == b), value, math.nan)


def _is_turned(p: Array, q: Array) -> Array:
    """Says where p is a pole of the gamma function, p + q too, and q is a positive integer."""
    return (p <= 0.0) & (p > -INFINITY) & (floor(p) == p) & (floor(q) == q) & (q >= 1.0) & (p + q <= 0.0)


def _sign_of_beta(a: Array, b: Array) -> Array:
    """Returns the sign of B(a, b); 1 where it is infinite, or 0."""
    p, q = minimum(a, b), maximum(a, b)
    total = p + q
    is_pole = [(x <= 0.0) & (floor(x) == x) for x in (p, q, total)]
    product = gammasgn(p) * gammasgn(q) * gammasgn(total)
    product = where(is_pole[0] | is_pole[1] | is_pole[2], 1.0, product)
    odd = floor(q * 0.5) * 2.0 != q
    sign = where(_is_turned(p, q) & odd, -1.0, product)
    return where((a == a) & (b == b), sign, math.nan)


def beta_of(a: Array, b: Array) -> Array:
    """Returns B(a, b) of floats."""
    p, q = minimum(a, b), maximum(a, b)
    small = (p > 0.0) & (q < STIRLING_FROM)
    mixed = (p > 0.0) & (p < STIRLING_FROM) & (q >= STIRLING_FROM) & (q < INFINITY)
    product = _small_beta(where(small, p, 1.0), where(small, q, 1.0))
    # A power has more digits than the exponential of a logarithm.
    c, d = where(mixed, p, 1.0), where(mixed, q, STIRLING_FROM)
    of_powers = GAMMA(c) * (pow(d, -c) * exp(-log_gamma_ratio_rest(d, c)))
    other = _sign_of_beta(a, b) * exp(_log_beta(where(small | mixed, 1.0, a), where(small | mixed, 1.0, b)))
    return where(small, product, where(mixed, of_powers, other))


log_beta = custom_jvp(_log_beta)
log_beta.defjvps(
    lambda da, result, a, b: da * (DIGAMMA(a) - DIGAMMA(a + b)),
    lambda db, result, a, b: db * (DIGAMMA(b) - DIGAMMA(a + b)),
)
_differentiable_beta = custom_jvp(beta_of)
_differentiable_beta.defjvps(
    lambda da, result, a, b: da * result * (DIGAMMA(a) - DIGAMMA(a + b)),
    lambda db, result, a, b: db * result * (DIGAMMA(b) - DIGAMMA(a + b)),
)


def betaln(a: Operand, b: Operand) -> Array:
    """The logarithm of abs(beta(a, b)).

    The error, relative or absolute, whichever is larger, is a few roundings, of large and of small numbers too.

    Source: Didonato and Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18, 1992, for the cases.

    >>> f"{float(betaln(2.0, 3.0)):.4f}"
    '-2.4849'
    """
    first, p, q = _floats(a, b)
    return cast_like(first, log_beta(p, q))


def beta(a: Operand, b: Operand) -> Array:
    """The beta function.

    >>> f"{float(beta(2.0, 3.0)):.4f}"
    '0.0833'
    """
    first, p, q = _floats(a, b)
    return cast_like(first, _differentiable_beta(p, q))


def _floats(a: Operand, b: Operand) -> tuple[Array, Array, Array]:
    """Returns one array that has the dtype of the result, and both operands in the dtype to compute in."""
    first = promote_inexact(a, b)[0]
    (p, q), _ = real_floats(a, b)
    return first, p, q


def _growth(q: Array, p: Array, divisor: Array | float = 1.0) -> Array:
    """Returns gamma(q + p) / gamma(q) / divisor for q > 0 and p >= 0."""
    large = (q >= STIRLING_FROM) & (q < INFINITY)
    a, b = where(large, q, STIRLING_FROM), where(large, p, 1.0)
    # The half of a power does not overflow where the quotient does not.
    half = pow(a, 0.5 * b)
    grown = half * (exp(log_gamma_ratio_rest(a, b)) / divisor) * half
    small = q < STIRLING_FROM
    c, d = where(small, q, 1.0), where(small, p, 1.0)
    quotient = GAMMA(c + d) / GAMMA(c) / divisor
    return where(large, grown, where(small, quotient, where(p > 0.0, q, 1.0)))


def _pochhammer(z: Array, m: Array) -> Array:
    # Between poles, gamma(z + m) / gamma(z) is that of 1 - z - m and 1 - z with a sign.
    whole = floor(m) == m
    turned = (z <= 0.0) & (floor(z) == z) & whole & (z + m <= 0.0)
    start = where(turned, 1.0 - z - m, z)
    end = start + m
    positive = (start > 0.0) & (end > 0.0)
    low = where(positive, minimum(start, end), 1.0)
    size = where(positive, absolute(m), 1.0)
    ratio = _growth(low, size)
    ratio = where(m < 0.0, 1.0 / ratio, ratio)
    ratio = where(turned & (floor(m * 0.5) * 2.0 != m), -ratio, ratio)
    p, q = where(positive, 1.0, z), where(positive, 1.0, z + m)
    pole_of_start, pole_of_end = [(x <= 0.0) & (floor(x) == x) for x in (p, q)]
    regular = ~(pole_of_start | pole_of_end)
    u, v = where(regular, q, 1.0), where(regular, p, 1.0)
    other = gammasgn(u) * gammasgn(v) * exp(LGAMMA(u) - LGAMMA(v))
    other = where(pole_of_start, 0.0, where(pole_of_end, INFINITY, other))
    result = where(positive, ratio, other)
    return where(m == 0.0, 1.0, where((z == z) & (m == m), result, math.nan))


def _is_one_at_pole(z: Array, m: Array) -> Array:
    """Says where both gamma functions are infinite alike, so that the slopes of their logarithms are no numbers."""
    return (m == 0.0) & (floor(z) == z) & (z <= 0.0)


_differentiable_pochhammer = custom_jvp(_pochhammer)
_differentiable_pochhammer.defjvps(
    lambda dz, result, z, m: dz * where(_is_one_at_pole(z, m), 0.0, result * (DIGAMMA(z + m) - DIGAMMA(z))),
    lambda dm, result, z, m: dm * where(_is_one_at_pole(z, m), 0.0, result * DIGAMMA(z + m)),
)


def poch(z: Operand, m: Operand) -> Array:
    """gamma(z + m) / gamma(z).

    >>> f"{float(poch(2.0, 3.0)):.3f}"
    '24.000'
    """
    first, a, b = _floats(z, m)
    return cast_like(first, _differentiable_pochhammer(a, b))


def _binomial(n: Array, k: Array) -> Array:
    """Returns the number of choices of k of n for 0 <= k <= n, of whole numbers or others."""
    less = minimum(k, n - k)
    few = less < 20.0
    a, b = where(few, n - less + 1.0, 1.0), where(few, less, 1.0)
    return where(few, _growth(a, b, GAMMA(b + 1.0)), exp(-log1p(n) - _log_beta(n - k + 1.0, k + 1.0)))


_differentiable_binomial = custom_jvp(_binomial)
_differentiable_binomial.defjvps(
    lambda dn, result, n, k: dn * result * (DIGAMMA(n + 1.0) - DIGAMMA(n - k + 1.0)),
    lambda dk, result, n, k: dk * result * (DIGAMMA(n - k + 1.0) - DIGAMMA(k + 1.0)),
)


def comb(N: Operand, k: Operand, *, repetition: bool = False) -> Array:
    """The number of choices of k out of N things, as a floating number; 0 outside of 0 <= k <= N.

    Args:
        N, k: whole numbers, which broadcast.
        repetition: True to choose a thing as often as wanted.

    >>> float(comb(5, 2))
    10.0
    """
    first, n, m = _floats(N, k)
    if repetition:
        n = n + m - 1.0
    inside = (m >= 0.0) & (m <= n)
    a, b = where(inside, n, 1.0), where(inside, m, 1.0)
    result = _differentiable_binomial(a, b)
    are_integers = (floor(a) == a) & (floor(b) == b)
    result = where(inside, where(are_integers, round_half_away(result), result), 0.0)
    return cast_like(first, convert(result, first.type.dtype))
