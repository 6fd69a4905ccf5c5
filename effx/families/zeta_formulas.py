"""Formulas of the zeta functions of Hurwitz and Riemann, and of polygamma, for floats of 32 and 64 bits."""

import math
from collections.abc import Callable

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import horner, minimum, where
from effx.array.promotion import broadcast_arrays, convert
from effx.families import gamma_formulas
from effx.handlers.staging.stage import stage
from effx.ir.ops import elementwise as e
from effx.ir.ops.control import Cond
from effx.ir.ops.reduce import ReduceOr
from effx.ir.values.scalars import scalar

EXP, LOG, POW, SQRT, FLOOR, SIN, ABS = e.Exp(), e.Log(), e.Pow(), e.Sqrt(), e.Floor(), e.Sin(), e.Abs()
SHIFT = 10
# Bernoulli numbers B_2j, divided by (2j)!
BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000,
)  # fmt: skip
# (s - 1) zeta(s), for s in [-1, 1]: a polynomial of our own, interpolated at Chebyshev points.
STRIP = (
    0.5, 0.41893853320467273, 0.08423969474961969, -0.0023930334772497845, -0.00090589497647125289,
    0.00012264139574677264, -6.3975030638943138e-07, -1.4697618283548874e-06, 1.743805018593092e-07,
    -4.8536888147706143e-09, -1.0607160005779331e-09, 1.5914605564391016e-10, -9.3676077519966018e-12,
    -1.3194259710666242e-13, 7.3040581573478035e-14,
)  # fmt: skip


def _relative_zeta(s: Array, q: Array) -> Array:
    """Returns q^s times the zeta function, for s > 1 and q > 0, by the formula of Euler and Maclaurin (DLMF, 25.11.28)."""
    total = q * 0.0 + 1.0
    for k in range(1, SHIFT):
        total = total + POW((q + float(k)) / q, -s)
    far = q + float(SHIFT)
    # The remainder of a large s is far below the rounding of 1, and the formula of it would overflow.
    t = minimum(s, 8.0 * far)
    rest = 0.5 + far / (t - 1.0)
    factor = t / far
    for j, number in enumerate(BERNOULLI):
        rest = rest + factor * number
        factor = factor * ((t + (2.0 * j + 1)) / far) * ((t + (2.0 * j + 2)) / far)
    return total + POW(far / q, -s) * rest


def _zeta_of_positive(s: Array, q: Array) -> Array:
    finite = q < math.inf
    p = where(finite, q, 1.0)
    # The power of a large q is smaller than the product by 1 / q, and underflows before.
    half = POW(p, -0.5 * s)
    return where(finite, half * _relative_zeta(s, p) * half, 0.0)


def _zeta_times_gamma(s: Array, q: Array) -> Array:
    """Returns gamma(s) zeta(s, q), which does not overflow where the gamma function alone does."""
    finite = q < math.inf
    p = where(finite, q, 1.0)
    bound = 35.0 if q.type.dtype.itemsize == 4 else 171.0
    few = s < bound
    order, many = where(few, s, 2.0), where(few, bound, s)
    half = POW(p, -0.5 * order)
    size = _relative_zeta(s, p)
    by_powers = half * gamma_formulas.gamma_function(order) * size * half
    by_logarithms = EXP(gamma_formulas.log_gamma(many) - many * LOG(p)) * size
    return where(finite, where(few, by_powers, by_logarithms), 0.0)


PositiveSum = Callable[[Array, Array], Array]


def _extend_to_negative(of_positive: PositiveSum, s: Array, q: Array, beyond: Callable[[], Array]) -> Array:
    """Returns the zeta function for whole s and q < 0 that is no integer: a sum to both sides less one of them, `beyond`."""
    distance = -q - FLOOR(-q)  # from the integer above
    right, left = of_positive(s, 1.0 - distance), of_positive(s, distance)
    rest = beyond()
    # Where both overflow, the nearer integer has the larger part.
    overflow = (right == math.inf) & (left == math.inf) & (distance != 0.5)
    nearer = where(distance < 0.5, -math.inf, math.inf)
    difference = where((right == left) | overflow, 0.0, right - left) + where(overflow, 0.0, rest)
    odd = FLOOR(s * 0.5) * 2.0 != s
    return where(odd, where(overflow, nearer, difference), right + left - rest)


def _sum_powers(of_positive: PositiveSum, s: Array, q: Array, in_one_piece: bool) -> Array:
    """Returns the sum of (q + k)^-s for s > 1, or a multiple of it, by what gives it for positive q.

    NaN for negative q where s is not whole; at a pole infinite where both of its sides are.

    Args:
        of_positive: gives it for positive q.
        s, q: the operands.
        in_one_piece: True to compute for all numbers what negative ones need, without a branch.
    """
    whole = (FLOOR(s) == s) & (s < math.inf)
    if in_one_piece:
        negative = _is_reflected(q, whole)
        one_side = of_positive(s, where(q > 0.0, q, where(negative, 1.0 - q, 1.0)))
        order, place = where(negative, s, 2.0), where(negative, q, -0.5)
        both_sides = _extend_to_negative(of_positive, order, place, lambda: where(negative, one_side, 1.0))
        value = where(negative, both_sides, one_side)
    else:
        positive = of_positive(s, where(q > 0.0, q, 1.0))
        negative = _is_reflected(q, whole)
        value = _compute_where(of_positive, negative, s, q, positive)
    pole = (q <= 0.0) & (FLOOR(q) == q)
    # Of an odd power the sides of a pole have other signs; at 0, the side where q is positive counts.
    even = whole & (FLOOR(s * 0.5) * 2.0 == s)
    value = where(pole, where((q == 0.0) | even, math.inf, math.nan), value)
    return where((q > 0.0) | negative | pole, value, math.nan)


def _is_reflected(q: Array, whole: Array) -> Array:
    """Says where q is negative and no pole, and s is whole."""
    return (q < 0.0) & (q > -math.inf) & whole & (FLOOR(q) != q)


def _compute_where(of_positive: PositiveSum, mask: Array, s: Array, q: Array, otherwise: Array) -> Array:
    """Returns the sums of negative numbers where a mask is True: they are computed only if there is one."""
    axes = tuple(range(len(mask.type.shape)))

    def compute(xs: list[Array]) -> list[Array]:
        mask, s, q, otherwise = xs
        s, q = where(mask, s, 2.0), where(mask, q, -0.5)
        negative = _extend_to_negative(of_positive, s, q, lambda: of_positive(s, 1.0 - q))
        return [where(mask, negative, otherwise)]

    operands = [mask, s, q, otherwise]
    types = [x.type for x in operands]
    branches = [stage(lambda xs: [xs[3]], types, "positive"), stage(compute, types, "negative")]
    some = ReduceOr(axes)(mask) if axes else mask
    result: Array = Cond(tuple([b.program for b in branches]))(convert(some, dtypes.int32), *operands)[0]
    return result


def hurwitz_zeta(s: Array, q: Array, in_one_piece: bool = False) -> Array:
    """Returns the sum of (q + k)^-s over all k from 0; infinite for s = 1, and NaN below."""
    s, q = broadcast_arrays([s, q], keep_scalars=False)
    value = _sum_powers(_zeta_of_positive, where(s > 1.0, s, 2.0), q, in_one_piece)
    value = where(s > 1.0, value, where((s == 1.0) & ~(value != value), math.inf, math.nan))
    return where(s == s, value, math.nan)


def polygamma(m: Array, x: Array, in_one_piece: bool = False) -> Array:
    """Returns the m-th slope of digamma, for whole m >= 0; NaN for others."""
    m, x = broadcast_arrays([m, x], keep_scalars=False)
    defined = (m >= 0.0) & (FLOOR(m) == m) & (m < math.inf)
    higher = defined & (m > 0.0)
    size = _sum_powers(_zeta_times_gamma, where(higher, m, 1.0) + 1.0, x, in_one_piece)
    value = where(FLOOR(m * 0.5) * 2.0 == m, -size, size)
    value = where(m == 0.0, gamma_formulas.digamma(x), value)
    return where(defined & (x == x), value, math.nan)


def riemann_zeta_below_one(s: Array) -> Array:
    """Returns Riemann's zeta function for s <= 1, by its functional equation below -1 (DLMF, 25.4.1)."""
    strip = s >= -1.0
    inner = where(strip, s, 0.0)
    value = horner(inner, STRIP) / where(inner == 1.0, 1.0, inner - 1.0)
    # 2 gamma(y) zeta(y) sin(pi s / 2) / (2 pi)^y with y = 1 - s.
    y = 1.0 - where(strip, -2.0, s)
    near = y < 24.0
    few, many = where(near, y, 2.0), where(near, 24.0, y)
    direct = gamma_formulas.gamma_function(few) * POW(scalar(2 * math.pi, s.type.dtype), -few)
    stirling = POW(many * (0.5 / math.pi / math.e), many) * EXP(gamma_formulas.stirling_rest(many))
    size = where(near, direct, stirling * SQRT(2 * math.pi / many))
    sine = _sine_of_quarter_turns(where(strip, -2.0, s))
    below = where(sine == 0.0, 0.0, 2.0 * size * _zeta_of_positive(y, where(y == y, 1.0, y)) * sine)
    return where(s == 1.0, math.inf, where(strip, value, where(s > -math.inf, below, math.nan)))


def _sine_of_quarter_turns(s: Array) -> Array:
    """Returns sin(pi s / 2), exactly 0 at even numbers."""
    turn = s - 4.0 * FLOOR(s * 0.25)  # in [0, 4)
    upper = turn > 2.0
    half = where(upper, turn - 2.0, turn)
    sine = SIN(where(half > 1.0, 2.0 - half, half) * (math.pi / 2))
    return where(upper, -sine, sine)
