"""The dilogarithm, Owen's T, Bernoulli numbers and Bessel functions of integer order."""

import math
from fractions import Fraction

import numpy as np

from effx.array import Array, Operand, reducing
from effx.array.arithmetic import absolute, horner, maximum, minimum, where
from effx.array.promotion import broadcast_arrays, convert, to_host_array
from effx.array.shaping import concatenate, expand_dims, reshape, stack
from effx.errors import ShapeError
from effx.lax.control.loops import fori_loop
from effx.lax.elementwise.exponential import exp, log, log1p
from effx.lax.elementwise.special import erf, erfc
from effx.scipy.operands import cast_strong_like, real_floats, with_derivative
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit

__all__ = ["bernoulli", "bessel_jn", "owens_t", "spence"]

# Bernoulli numbers B_2k, divided by (2k + 1)!, from k = 1 on.
DEBYE = (
    1 / 36, -1 / 3600, 1 / 211680, -1 / 10886400, 1 / 526901760, -691 / 16999766784000, 1 / 1120863744000,
    -3617 / 181400588328960000, 43867 / 97072790126247936000,
)  # fmt: skip


def _spence(x: Array) -> Array:
    inside = (x > 0.0) & (x < math.inf)
    a = where(inside, x, 1.0)
    low, high = a < 0.5, a > 2.0
    # The dilogarithm of 1 - exp(-u), where 1 - x or 1 - 1 / x is reflected so that u is small.
    u = -log1p(where(low, -a, where(high, -1.0 / a, a - 1.0)))
    series = u - u * u * 0.25 + u * u * u * horner(u * u, DEBYE)
    logarithm = log(a)
    below = math.pi**2 / 6 + logarithm * u - series
    above = -0.5 * logarithm * logarithm - math.pi**2 / 6 + logarithm * u + series
    result = where(low, below, where(high, above, series))
    ends = where(x == 0.0, math.pi**2 / 6, where(x > 0.0, -math.inf, math.nan))
    return where(inside, result, ends)


def _spence_slope(x: Array) -> Array:
    rest = x - 1.0
    near = absolute(rest) < 1e-2
    d = where(near, rest, 0.0)
    return where(near, -horner(d, [(-1) ** k / (k + 1) for k in range(8)]), -log(x) / where(near, 1.0, rest))


_differentiable_spence = with_derivative(_spence, _spence_slope)


@jit
def spence(x: Operand) -> Array:
    """The dilogarithm of 1 - x: the integral of log(t) / (1 - t) over t from 1 to x.

    The error, relative or absolute, whichever is larger, is below 2e-15 in float64 and 1e-6 in float32.

    Args:
        x: real numbers of any shape; NaN below 0.

    Raises:
        DTypeError: x is complex, or no array.

    Source: the series of Debye's function; 't Hooft and Veltman, "Scalar one-loop integrals", Nuclear Physics B 153,
    1979.

    >>> f"{float(spence(2.0)):.4f}"
    '-0.8225'
    """
    (a,), first = real_floats(x)
    return cast_strong_like(first, _differentiable_spence(a))


NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


@custom_jvp
def _owens_t(h: Array, a: Array) -> Array:
    k, slope = absolute(h), absolute(a)
    steep = slope > 1.0
    c = where(steep, 1.0 / where(steep, slope, 1.0), slope)
    level = where(steep, k * slope, k)
    level = where(level == level, level, 0.0)  # 0 times infinity
    # Beyond 9 / level nothing is left of exp(-(level t)² / 2).
    end = minimum(c, 9.0 / maximum(level, 1e-2))
    nodes = convert(to_host_array(0.5 * NODES + 0.5), h.type.dtype)
    t = expand_dims(end, -1) * nodes
    finite = minimum(level, 100.0)
    integrand = exp(expand_dims(finite * finite, -1) * -0.5 * (t * t)) / (t * t + 1.0)
    total = reducing.sum(integrand * convert(to_host_array(0.5 * WEIGHTS), h.type.dtype), -1)
    t_value = end * total * exp(finite * finite * -0.5) * (0.5 / math.pi)
    p, q = erfc(k * math.sqrt(0.5)) * 0.5, erfc(level * math.sqrt(0.5)) * 0.5
    t_value = where(steep, 0.5 * (p + q) - p * q - t_value, t_value)
    return where((h == h) & (a == a), where(a < 0.0, -t_value, t_value), math.nan)


@_owens_t.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (h, a), (dh, da) = primals, tangents
    by_h = exp(h * h * -0.5) * erf(a * h * math.sqrt(0.5)) * (-0.5 / math.sqrt(2 * math.pi))
    by_a = exp(h * h * (1.0 + a * a) * -0.5) / (1.0 + a * a) * (0.5 / math.pi)
    return _owens_t(h, a), dh * by_h + da * by_a


@jit
def owens_t(h: Operand, a: Operand) -> Array:
    """Owen's T: the probability that X > h and 0 < Y < a X, where X and Y are independent and standard normal.

    The relative error is below 3e-13 in float64 and 2e-5 in float32, where T does not underflow.

    Args:
        h, a: real numbers that broadcast.

    Raises:
        DTypeError: an operand is complex, or no array.
        ShapeError: they do not broadcast.

    Source: Owen, "Tables for computing bivariate normal probabilities", Ann. Math. Stat. 27, 1956: its integral, by
    Gauss' rule with 40 points where a <= 1, and reflected else.

    >>> f"{float(owens_t(1.0, 2.0)):.4f}"
    '0.0785'
    """
    (x, y), first = real_floats(h, a)
    return cast_strong_like(first, _owens_t(*broadcast_arrays([x, y], keep_scalars=False)))


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B0 to Bn, with B1 = -1/2.

    They are computed exactly and rounded once; infinite where they overflow.

    Args:
        n: an int, not negative.

    Returns:
        A vector of n + 1 floats.

    Raises:
        ShapeError: n is another.

    >>> bernoulli(4).tolist()
    [1.0, -0.5, 0.1666666716337204, 0.0, -0.03333333507180214]
    """
    if type(n) is not int or n < 0:
        raise ShapeError(f"bernoulli: n must be an int >= 0, got {n!r}")
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        odd = m > 1 and m % 2
        total = 0 if odd else sum([math.comb(m + 1, k) * numbers[k] for k in range(m) if k < 2 or k % 2 == 0])
        numbers.append(Fraction(0) if odd else -total / Fraction(m + 1))
    with np.errstate(over="ignore"):
        return to_host_array(np.array([_round_to_even(x) for x in numbers])).copy()


def _round_to_even(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _bessel(z: Array, count: int, n_iter: int) -> Array:
    """Returns the orders below a count, by Miller's algorithm: downwards from an order that is nearly 0."""
    small = absolute(z) < 1e-3
    x = where(small, 1.0, z)
    orders = convert(to_host_array(np.arange(float(count))), z.type.dtype)
    orders = reshape(orders, (count,) + (1,) * z.type.ndim)
    start = max(n_iter, count)
    limit = 1e15

    def step(i: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        after, here, total, order_values = state
        k = convert(start - i, z.type.dtype)
        before = 2.0 * k / x * here - after
        even = (k - 1.0) % 2.0 == 0.0
        total = total + where(even, where(k == 1.0, 1.0, 2.0), 0.0) * before
        order_values = where(orders == k - 1.0, expand_dims(before, 0), order_values)
        scale = where(absolute(before) > limit, 1.0 / limit, 1.0)
        return here * scale, before * scale, total * scale, order_values * scale

    zero = x * 0.0
    first = (zero, zero + 1e-15, zero, expand_dims(zero, 0) + orders * 0.0)
    _, _, total, order_values = fori_loop(0, start, step, first)
    # The two first terms of the power series.
    half = where(small, z, 0.0) * 0.5
    square = half * half
    powers = [half * 0.0 + 1.0]
    for k in range(1, count):
        powers.append(powers[-1] * half * (1.0 / k))
    series = stack(powers) * (1.0 - square / (orders + 1.0))
    return where(expand_dims(small, 0), series, order_values / expand_dims(total, 0))


def _bessel_with_slopes(v: int, n_iter: int) -> "custom_jvp[[Array], Array]":
    function = custom_jvp(lambda z: _bessel(z, v + 1, n_iter))

    @function.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (z,), (dz,) = primals, tangents
        more = _bessel_with_slopes(v + 1, n_iter)(z)

        before = concatenate([-more[1:2], more[:v]], 0)
        return more[: v + 1], 0.5 * (before - more[1:]) * expand_dims(dz, 0)

    return function


@jit(static_argnames=("v", "n_iter"))
def bessel_jn(z: Operand, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the first kind and of the orders 0 to v.

    Where abs(z) + 28 is at most n_iter, the absolute error is below 1e-14 in float64 and 1e-6 in float32.

    Args:
        z: real numbers of any shape.
        v: the highest order, an int >= 0.
        n_iter: the order from which the recurrence runs down, an int; at least v + 1 is taken.

    Returns:
        An array `[v + 1, *z.shape]`.

    Raises:
        DTypeError: z is complex, or no array.
        ShapeError: v or n_iter is another.

    Source: Miller's algorithm; Gautschi, "Computational aspects of three-term recurrence relations", SIAM Review 9,
    1967.

    >>> [f"{x:.4f}" for x in bessel_jn(1.0, v=2).tolist()]
    ['0.7652', '0.4401', '0.1149']
    """
    if type(v) is not int or v < 0 or type(n_iter) is not int or n_iter < 1:
        raise ShapeError(f"bessel_jn: v must be an int >= 0 and n_iter one >= 1, got {v!r} and {n_iter!r}")
    (x,), first = real_floats(z)
    return cast_strong_like(first, _bessel_with_slopes(v, n_iter)(x))
