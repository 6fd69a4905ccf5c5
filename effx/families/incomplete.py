"""Regularised incomplete gamma and beta functions, with derivatives in all operands.

Series and continued fractions run until every element has its digits, for `LIMIT` iterations at most. Derivatives by
the parameters are those of the iterations (Moore, "Algorithm AS 187", Applied Statistics 31, 1982; Boik and
Robison-Cox, "Derivatives of the incomplete beta function", Journal of Statistical Software 3, 1998). Incomplete gamma
functions of large a, for which series and fractions are long, have an expansion that holds for all x (Temme, "The
asymptotic expansion of the incomplete gamma functions", SIAM J. Math. Anal. 10, 1979; DLMF, 8.12).
"""

import math
from collections.abc import Callable, Sequence
from typing import final

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import horner, maximum, minimum, where
from effx.array.promotion import broadcast_to, convert
from effx.families.gamma import GAMMA, Digamma, Lgamma, decompose_in_wide_floats, forward_slope
from effx.families.gamma_formulas import (
    STIRLING_FROM,
    deviance,
    log_excess,
    log_excess_over_square,
    log_gamma_1p,
    stirling_rest,
)
from effx.families.special import Erfc
from effx.handlers.jvp.handler import Tangent, add_tangents, strengthen_tangents
from effx.handlers.staging.stage import stage
from effx.handling import ArrayType, Binary, Elementwise, decomposes, jvp_rule
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Singleton, elementwise_type
from effx.ir.ops.control import Cond, While
from effx.ir.ops.reduce import ReduceOr
from effx.ir.values.scalars import scalar
from effx.transforms.autodiff.core import jvp

__all__ = [
    "Betainc",
    "BetaincGradA",
    "Igamma",
    "IgammaGradA",
    "Igammac",
    "RandomGammaGrad",
    "beta_deviations",
]

LIMIT = 10_000
# From here on the expansion for large a has the digits of float64 with two terms, and series need LIMIT iterations.
LARGE = 1e6
EXP, EXPM1, LOG, LOG1P, POW = e.Exp(), e.Expm1(), e.Log(), e.Log1p(), e.Pow()
SQRT, ABS, SIGN = e.Sqrt(), e.Abs(), e.Sign()
LGAMMA, DIGAMMA, ERFC = Lgamma(), Digamma(), Erfc()


class PositiveBinary(Binary):
    """A function of a > 0 and x >= 0."""

    __slots__ = ()
    kinds = "f"
    domain = (0.6, 6.0)


@final
class Igamma(PositiveBinary):
    """The integral of t^(a-1) exp(-t) / gamma(a) over t from 0 to x."""

    __slots__ = ()
    tangent_by_first = lambda op, da, a, x, z: da * IgammaGradA()(a, x)
    tangent_by_second = lambda op, dx, a, x, z: dx * _gamma_density(a, x)


@final
class Igammac(PositiveBinary):
    """1 - igamma(a, x), exact where that is small."""

    __slots__ = ()
    tangent_by_first = lambda op, da, a, x, z: da * -IgammaGradA()(a, x)
    tangent_by_second = lambda op, dx, a, x, z: dx * -_gamma_density(a, x)


@final
class IgammaGradA(PositiveBinary):
    """The slope of igamma(a, x) in a."""

    __slots__ = ()
    tangent_by_first = lambda op, da, a, x, z: da * _slope_by(_igamma_grad_a, op, (a, x), 0)
    tangent_by_second = lambda op, dx, a, x, z: (
        dx * _times_logarithm(_gamma_density(a, x), _log_density_slope(a, x))
    )


@final
class RandomGammaGrad(PositiveBinary):
    """The slope in a of the x with igamma(a, x) held fixed: of a gamma sample that inverts its distribution."""

    __slots__ = ()
    tangent_by_first = lambda op, da, a, x, z: da * _slope_by(_random_gamma_grad, op, (a, x), 0)
    # z is minus igamma's slope in a, divided by the density.
    tangent_by_second = lambda op, dx, a, x, z: dx * (z * (1.0 - (a - 1.0) / x) - _log_density_slope(a, x))


class UnitIntervalElementwise(Singleton, Elementwise):
    """A function of a > 0, b > 0 and x in [0, 1]."""

    __slots__ = ()
    arity = 3
    kinds = "f"
    domain = (0.2, 0.9)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operands' common type; rank-0 operands broadcast."""
        return elementwise_type(self, types)


@final
class Betainc(UnitIntervalElementwise):
    """The integral of t^(a-1) (1-t)^(b-1) / B(a, b) over t from 0 to x."""

    __slots__ = ()


@final
class BetaincGradA(UnitIntervalElementwise):
    """The slope of betainc(a, b, x) in a."""

    __slots__ = ()


BETAINC_GRAD_A = BetaincGradA()


Step = Callable[..., list[Array]]

# A GPU waits for the processor after each iteration of a loop, as long as it computes several of these.
STRIDE, GPUS = 8, ("cuda", "rocm")


def _iterate_while(
    step: Step,
    differs: Callable[[list[Array], list[Array]], Array],
    carry: Sequence[Array],
    fixed: Sequence[Array],
) -> list[Array]:
    """Replaces the carry by `step(n, *carry, *fixed)` for n = 1, 2, … as long as an element `differs(old, new)`."""
    shape = max([x.type.shape for x in (*carry, *fixed)], key=len)
    first = [broadcast_to(convert(x, x.type.dtype), shape) for x in (*carry, *fixed)]
    k, dtype = len(carry), first[0].type.dtype
    counter = scalar(1.0, dtype, False)
    going = broadcast_to(scalar(True, dtypes.bool_, False), shape)
    types = [x.type for x in (counter, going, *first)]

    def condition(xs: list[Array]) -> list[Array]:
        more = ReduceOr(tuple(range(len(shape))))(xs[1]) if shape else xs[1]
        return [e.And()(more, xs[0] <= float(LIMIT))]

    def advance(xs: list[Array]) -> list[Array]:
        results = step(xs[0], *xs[2:])
        return [xs[0] + 1.0, differs(xs[2 : 2 + k], results), *results, *xs[2 + k :]]

    def advance_in_strides(xs: list[Array]) -> list[Array]:
        for _ in range(STRIDE):
            xs = advance(xs)
        return xs

    strides = stage(advance_in_strides, types, "iterations").program
    single = stage(advance, types, "iteration").program

    def iteration(xs: list[Array]) -> list[Array]:
        return list(Cond((strides, single), (GPUS, ()))(scalar(1, dtypes.int32, False), *xs))

    loop = While(stage(condition, types, "goes_on").program, stage(iteration, types, "iteration").program)
    return list(loop(counter, going, *first)[2 : 2 + k])


def _machine_epsilon(x: Array) -> float:
    return float(dtypes.finfo(x.type.dtype).eps)


def _is_changing(old: Sequence[Array], new: Sequence[Array], size: Array, is_series: bool) -> Array:
    """Says where a carry's first part, a fraction's value or a series' sum with its last term behind it, still changes."""
    eps = _machine_epsilon(size)
    if is_series:  # of positive terms, where many may follow that are a little smaller
        return ABS(new[1]) > size * (eps / 16)
    return ABS(new[0] - old[0]) > size * (eps * 2)


def _converge(start: Step, step: Step, fixed: Sequence[Array], is_series: bool = False) -> Array:
    """Returns the limit of the first part of a carry, which begins as `start(*fixed)`."""

    def differs(old: list[Array], new: list[Array]) -> Array:
        return _is_changing(old, new, ABS(new[0]), is_series)

    return _iterate_while(step, differs, start(*fixed), fixed)[0]


def _converge_with_slopes(
    start: Step, step: Step, fixed: Sequence[Array], count: int, is_series: bool = False
) -> tuple[Array, list[Array]]:
    """Returns the limit of `_converge` and its slopes in the first parameters.

    The slopes are carried along and must converge too: where a fraction or a series ends, at integer parameters, its value
    is found at once, while a slope still changes (the value's own loop, differentiated, would stop). A slope in one
    parameter may end where that in the other does not; so all are computed, for the sake of mixed derivatives.
    """
    m = len(fixed)

    def push(
        function: Step, parts: Sequence[tuple[Array, ...]], parameters: tuple[Array, ...]
    ) -> list[Array]:
        # The value, and the slope along each of the first parameters.
        results: list[Array] = []
        for i, part in enumerate(parts[1:]):
            direction = [x * 0.0 + float(i == j) for j, x in enumerate(parameters)]
            value, slope = jvp(function, (*parts[0], *parameters), (*part, *direction))
            results = [*(results or value), *slope]
        return results

    def step_with_slopes(n: Array, *xs: Array) -> list[Array]:
        carry = [xs[i : i + k] for i in range(0, len(xs) - m, k)]
        return push(lambda *ys: step(n, *ys), carry, xs[-m:])

    def differs(old: list[Array], new: list[Array]) -> Array:
        size = ABS(new[0])
        more = _is_changing(old, new, size, is_series)
        for i in range(k, len(new), k):
            more = more | _is_changing(old[i:], new[i:], ABS(new[i]) + size, is_series)
        return more

    first = push(start, [()] * (count + 1), tuple(fixed))
    k = len(first) // (count + 1)
    results = _iterate_while(step_with_slopes, differs, first, fixed)
    return results[0], results[k::k]


# The series 1 + x / (a + 1) + x² / ((a + 1) (a + 2)) + … (DLMF, 8.7.1): its sum and last term.


def _start_series(a: Array, x: Array) -> list[Array]:
    one = x * 0.0 + 1.0 + a * 0.0
    return [one, one]


def _add_term(n: Array, total: Array, term: Array, a: Array, x: Array) -> list[Array]:
    term = term * x / (a + n)
    return [total + term, term]


def _lentz_step(h: Array, c: Array, d: Array, an: Array, b: Array) -> list[Array]:
    """One iteration of Lentz' method for a continued fraction (Thompson and Barnett, 1986)."""
    tiny = float(dtypes.finfo(h.type.dtype).tiny) * 2.0**10
    c, d = b + an / c, b + an * d
    c = where(ABS(c) < tiny, tiny, c)
    d = 1.0 / where(ABS(d) < tiny, tiny, d)
    return [h * (c * d), c, d]


# The fraction 1 / (x + 1 - a - (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - …))) (DLMF, 8.9.2).


def _start_gamma_fraction(a: Array, x: Array) -> list[Array]:
    b = x + 1.0 - a
    return [1.0 / b, b * 0.0 + 1 / float(dtypes.finfo(b.type.dtype).tiny) ** 0.75, 1.0 / b]


def _extend_gamma_fraction(n: Array, h: Array, c: Array, d: Array, a: Array, x: Array) -> list[Array]:
    return _lentz_step(h, c, d, n * (a - n), x + 1.0 - a + n * 2.0)


def _power_series(a: Array, x: Array) -> Array:
    return _converge(_start_series, _add_term, [a, x], is_series=True)


def _gamma_fraction(a: Array, x: Array) -> Array:
    return _converge(_start_gamma_fraction, _extend_gamma_fraction, [a, x])


def _peak(a: Array) -> Array:
    """Returns a^a exp(-a) / gamma(a + 1)."""
    large = a >= STIRLING_FROM
    far, near = where(large, a, STIRLING_FROM), where(large, 1.0, a)
    by_series = EXP(-stirling_rest(far)) / (SQRT(far) * math.sqrt(2 * math.pi))
    return where(large, by_series, POW(near, near) * EXP(-near) / GAMMA(near + 1.0))


def _scaled_gamma_density(a: Array, x: Array) -> Array:
    """Returns x^a exp(-x) / gamma(a + 1).

    For large a as a deviation from the peak, which loses no digits (Loader, "Fast and accurate computation of
    binomial probabilities", 2000).
    """
    large = a >= STIRLING_FROM
    far, near = where(large, a, STIRLING_FROM), where(large, 1.0, a)
    deviation = deviance(far, x - far, x / far)
    # Halves, which underflow only where the product does; beyond the bound it is 0.
    bound = minimum(x, 2.9 * math.log(float(dtypes.finfo(x.type.dtype).max)))
    half = POW(bound, 0.5 * near) * EXP(-0.5 * bound)
    return where(large, EXP(-deviation) * _peak(far), half * half / GAMMA(near + 1.0))


# The first functions of the expansion around eta = 0: 1 / mu - 1 / eta = C0[0] + C0[1] eta + …, and the next.
C0 = (
    -1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515, -571 / 261273600, -281 / 151559100,
    163879 / 197522841600, -5221 / 29554024500, 5246819 / 782190452736000, 5459 / 531972441000,
    -534703531 / 122021710626816000,
)  # fmt: skip
C1 = (-1 / 540, -1 / 288, 1 / 378, -77 / 77760, 1 / 4860, -1 / 2488320)


def _uniform_expansion(a: Array, x: Array) -> tuple[Array, Array, Array]:
    """Returns igamma, igammac and the slope of igamma in a divided by the density of x, for large a.

    With mu = x / a - 1 and eta²/2 = mu - log(1 + mu), of mu's sign, igamma is
    `erfc(-eta sqrt(a / 2)) / 2 - exp(-a eta² / 2) / sqrt(2 pi a) * (c0(eta) + c1(eta) / a + …)`.
    """
    mu = (x - a) / a
    half = log_excess(mu)
    # Near 0 eta is mu times a smooth function.
    central = ABS(mu) < 0.2
    v = where(central, mu, 0.0)
    quotient = log_excess_over_square(v)
    factor = SQRT(2.0 * quotient)
    eta = where(central, v * factor, SIGN(mu) * SQRT(2.0 * where(central, 1.0, half)))
    near = ABS(eta) < 0.3
    m, n, small = where(near, 1.0, mu), where(near, 1.0, eta), where(near, eta, 0.0)
    c0 = where(near, horner(small, C0), 1.0 / m - 1.0 / n)
    c0_slope = where(
        near,
        horner(small, [k * c for k, c in enumerate(C0)][1:]),
        1.0 / (n * n) - (m + 1.0) * n / (m * m * m),
    )
    powers = 1.0 / (n * n * n) - 1.0 / (m * m * m) - 1.0 / (m * m) - 1.0 / (m * 12.0)
    c1 = where(near, horner(small, C1), powers)
    total = c0 + c1 / a
    rest = EXP(-a * half) / SQRT(a * (2.0 * math.pi)) * total
    root = eta * SQRT(a * 0.5)
    logarithm = LOG1P(mu)
    # eta's slope in a is -(log(1 + mu) / eta + eta / 2) / a.
    ratio = where(central, (1.0 - v * quotient) / factor, logarithm / where(central, 1.0, eta))
    slope_of_total = -c0_slope * (ratio + eta * 0.5) / a - c1 / (a * a)
    bracket = total / (a * 2.0) - ratio - logarithm * total - slope_of_total
    return ERFC(-root) * 0.5 - rest, ERFC(root) * 0.5 + rest, (mu + 1.0) * EXP(1.0 / (a * 12.0)) * bracket


Split = tuple[Array, Array, Array, Array, Array, Array, Array, Array]


def _split_by_method(a: Array, x: Array) -> Split:
    """Returns where the expansion and where the series applies, and operands of the expansion, series and fraction.

    Where a method does not apply, its operands are harmless values.
    """
    inside = (a > 0.0) & (x > 0.0) & (x < math.inf) & (a < math.inf)
    large = inside & (a >= LARGE)
    near = (x <= 1.0) | (x <= a)
    use, rest = inside & near & ~large, inside & ~near & ~large
    expanded = where(large, a, LARGE), where(large, x, LARGE)
    return (
        large,
        *expanded,
        near,
        where(use, a, 1.0),
        where(use, x, 0.5),
        where(rest, a, 1.0),
        where(rest, x, 2.0),
    )


def _apply_gamma_limits(a: Array, x: Array, zero: float, one: float, value: Array) -> Array:
    """Sets the limits at the ends of the domain, and NaN outside: `zero` where x is much below a, `one` above."""
    low, high = (x == 0.0) | (a == math.inf), (x == math.inf) | (a == 0.0)
    inside = (a >= 0.0) & (x >= 0.0) & ~(low & high)
    return where(inside, where(low, zero, where(high, one, value)), math.nan)


def _igamma(a: Array, x: Array) -> Array:
    large, a0, x0, near, a1, x1, a2, x2 = _split_by_method(a, x)
    below = _scaled_gamma_density(a1, x1) * _power_series(a1, x1)
    value = where(near, below, 1.0 - _scaled_gamma_density(a2, x2) * a2 * _gamma_fraction(a2, x2))
    return _apply_gamma_limits(a, x, 0.0, 1.0, where(large, _uniform_expansion(a0, x0)[0], value))


# The series -x / (a + 1) + x² / (2! (a + 2)) - … (DLMF, 8.7.1): its sum, its last term, and the power over the factorial.


def _start_alternating_series(a: Array, x: Array) -> list[Array]:
    zero = x * 0.0 + a * 0.0
    return [zero, zero + 1.0, zero + 1.0]


def _add_alternating_term(
    n: Array, total: Array, term: Array, power: Array, a: Array, x: Array
) -> list[Array]:
    power = -power * x / n
    term = power / (a + n)
    return [total + term, term, power]


def _alternating_series(a: Array, x: Array) -> Array:
    return _converge(_start_alternating_series, _add_alternating_term, [a, x], is_series=True)


def _small_igammac(a: Array, x: Array) -> Array:
    """Returns igammac for a and x of at most 1, where igamma is nearly 1 for small a."""
    logarithm = a * LOG(x) - log_gamma_1p(a)
    return -EXPM1(logarithm) - EXP(logarithm) * a * _alternating_series(a, x)


def _igammac(a: Array, x: Array) -> Array:
    large, a0, x0, near, a1, x1, a2, x2 = _split_by_method(a, x)
    below = _scaled_gamma_density(a1, x1) * _power_series(a1, x1)
    both_small = (a1 <= 1.0) & (x1 <= 1.0)
    rest = _small_igammac(where(both_small, a1, 1.0), where(both_small, x1, 0.5))
    value = where(
        near,
        where(both_small, rest, 1.0 - below),
        _scaled_gamma_density(a2, x2) * a2 * _gamma_fraction(a2, x2),
    )
    return _apply_gamma_limits(a, x, 1.0, 0.0, where(large, _uniform_expansion(a0, x0)[1], value))


def _gamma_sample_derivative(a: Array, x: Array) -> Array:
    """Returns the slope of igamma in a, divided by the density of x."""
    large, a0, x0, near, a1, x1, a2, x2 = _split_by_method(a, x)
    series, (series_slope,) = _converge_with_slopes(_start_series, _add_term, [a1, x1], 1, is_series=True)
    fraction, (fraction_slope,) = _converge_with_slopes(
        _start_gamma_fraction, _extend_gamma_fraction, [a2, x2], 1
    )
    below = series_slope + series * (LOG(x1) - DIGAMMA(a1 + 1.0))
    above = fraction_slope + fraction * (LOG(x2) - DIGAMMA(a2))
    return where(large, _uniform_expansion(a0, x0)[2], where(near, x1 / a1 * below, -x2 * above))


def _igamma_grad_a(a: Array, x: Array) -> Array:
    inside = (x > 0.0) & (x < math.inf)
    shift = where(inside, x, 1.0)
    slopes = _gamma_sample_derivative(a, x) * (_scaled_gamma_density(a, shift) * a / shift)
    return _apply_gamma_limits(a, x, 0.0, 0.0, slopes)


def _random_gamma_grad(a: Array, x: Array) -> Array:
    return _apply_gamma_limits(a, x, 0.0, math.nan, -_gamma_sample_derivative(a, x))


for _kind, _function in (
    (Igamma, _igamma), (Igammac, _igammac), (IgammaGradA, _igamma_grad_a), (RandomGammaGrad, _random_gamma_grad),
):  # fmt: skip
    decomposes(_kind)(decompose_in_wide_floats(_function))


def _slope_by(function: Callable[..., Array], op: Elementwise, operands: tuple[Array, ...], i: int) -> Array:
    """Returns the slope of a formula in its operand i."""
    of = decompose_in_wide_floats(function)
    return forward_slope(lambda *xs: of(op, *xs), i, len(operands))(*operands)


def _gamma_density(a: Array, x: Array) -> Array:
    """Returns x^(a-1) exp(-x) / gamma(a)."""
    # Up to 1 as a power, which is differentiable at 0.
    small = x <= 1.0
    return POW(where(small, x, 1.0), a - 1.0) * EXP((a - 1.0) * LOG(where(small, 1.0, x)) - x - LGAMMA(a))


def _times_logarithm(density: Array, logarithm: Array) -> Array:
    """Returns the product, and 0 at an end of the domain where the density vanishes and the logarithm is infinite."""
    vanishes = density == 0.0
    return where(vanishes, 0.0, density * where(vanishes, 0.0, logarithm))


def _log_density_slope(a: Array, x: Array) -> Array:
    """Returns the slope in a of the logarithm of the density."""
    return LOG(x) - DIGAMMA(a)


# The fraction 1 / (1 + d1 / (1 + d2 / (1 + …))) (DLMF, 8.17.22), two steps an iteration.


def _start_beta_fraction(a: Array, b: Array, x: Array) -> list[Array]:
    first = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    return [first, first * 0.0 + 1.0, first]


def _extend_beta_fraction(
    m: Array, h: Array, c: Array, d: Array, a: Array, b: Array, x: Array
) -> list[Array]:
    one = h * 0.0 + 1.0
    even = m * (b - m) * x / ((a + m * 2.0 - 1.0) * (a + m * 2.0))
    odd = -(a + m) * (a + b + m) * x / ((a + m * 2.0) * (a + m * 2.0 + 1.0))
    h, c, d = _lentz_step(h, c, d, even, one)
    return _lentz_step(h, c, d, odd, one)


def _beta_front(a: Array, b: Array, x: Array) -> Array:
    """Returns x^a (1 - x)^b / (a B(a, b)), by which the fraction is multiplied."""
    return EXP(a * LOG(x) + b * LOG1P(-x) + (LGAMMA(a + b) - LGAMMA(a) - LGAMMA(b))) / a


# The reciprocal of the fraction b0 + a1 / (b1 + a2 / (b2 + …)), where x + y = 1 and x is below the mean. Its terms do not
# cancel where y is tiny (Didonato and Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18, 1992,
# formula 9). Quotients come first: products of large parameters overflow.


def _start_accurate_beta_fraction(a: Array, b: Array, x: Array, y: Array, above: Array) -> list[Array]:
    first = maximum((1.0 - above) / (a + 1.0), float(dtypes.finfo(a.type.dtype).tiny) * 2.0**10)
    return [first, first, first * 0.0]


def _extend_accurate_beta_fraction(
    m: Array, h: Array, c: Array, d: Array, a: Array, b: Array, x: Array, y: Array, above: Array
) -> list[Array]:
    wide = a + m * 2.0 - 1.0
    product = m * (b - m) * x
    # All is divided by a, which is a factor of the first numerator.
    numerator = where(m == 1.0, 1.0, a + m - 1.0) / wide * ((a + b + m - 1.0) * x / wide) * product
    denominator = m + product / wide + (a + m) / (wide + 2.0) * (1.0 - above + m * (1.0 + y))
    return _lentz_step(h, c, d, numerator, denominator)


def _beta_fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    operands = [a, b, x, y, _distance_from_mean(a, b, x, y)]
    return 1.0 / _converge(_start_accurate_beta_fraction, _extend_accurate_beta_fraction, operands)


def beta_deviations(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Returns -log((x / p)^a (y / q)^b), where x + y = 1 and p = a / (a + b), q = b / (a + b) is the peak."""
    n, distance = a + b, _distance_from_mean(a, b, x, y)
    of_a = deviance(a, distance, x * (n / a))
    return of_a + deviance(b, -distance, y * (n / b))


def _distance_from_mean(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Returns b x - a y; from 1/2, near which parameters that are alike leave more digits."""
    middle = ABS(x - 0.5) < 0.25
    return where(middle, (b - a) * 0.5 + (a + b) * (where(middle, x, 0.5) - 0.5), b * x - a * y)


def _scaled_beta_density(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Returns x^a y^b / (a B(a, b)), where x + y = 1."""
    deviation = beta_deviations(a, b, x, y)
    return EXP(-deviation) * _peak(a) * (_peak(b) / _peak(a + b)) * (b / (a + b))


def _lower_beta(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Returns betainc where x is below the mean, and y = 1 - x."""
    density = _scaled_beta_density(a, b, x, y)
    # Where it underflows, the fraction of large parameters overflows.
    return where(density == 0.0, 0.0, density * _beta_fraction(a, b, x, y))


def _uniform_beta_expansion(a: Array, b: Array, x: Array, y: Array) -> Array:
    """Returns betainc for large a and b (DLMF, 8.18.9), with the first function of the expansion."""
    n = a + b
    p, q = a / n, b / n
    spread = SQRT(p * q)
    distance = _distance_from_mean(a, b, x, y) / n / spread
    half = beta_deviations(a, b, x, y)
    eta = SIGN(distance) * SQRT(2.0 * half / n)
    # Around the peak, both terms of the function are infinite.
    skew = (p - q) / spread
    near = ABS(skew * distance) < 0.05
    near = near & (ABS(distance) < 0.05)
    away, height = where(near, 1.0, distance), where(near, 1.0, eta)
    curvature = (1.0 - 3.0 * p * q) / (p * q)
    series = -skew / 3.0 + where(near, distance, 0.0) * (skew * skew / 6.0 - curvature * 0.25)
    first = where(near, series, 1.0 / height - 1.0 / away)
    return ERFC(-SIGN(distance) * SQRT(half)) * 0.5 + EXP(-half) / SQRT(2 * math.pi * n) * first


BetaOperands = tuple[Array, Array, Array, Array, Array]


def _swap_beta_operands(a: Array, b: Array, x: Array) -> BetaOperands:
    """Returns where 1 - betainc(b, a, 1 - x) is computed, the operands, and 1 - x; harmless ones outside the domain."""
    inside = (a > 0.0) & (b > 0.0) & (a < math.inf) & (b < math.inf) & (x > 0.0) & (x < 1.0)
    a, b, x = where(inside, a, 1.0), where(inside, b, 1.0), where(inside, x, 0.5)
    y = 1.0 - x
    # From about the mean on, the complement converges faster; of a tiny b it would cancel, and x may be nearer to 1.
    bound = maximum((a + 1.0) / (a + b + 2.0), minimum(a / (a + b), 0.9))
    swap = x > bound
    return swap, where(swap, b, a), where(swap, a, b), where(swap, y, x), where(swap, x, y)


def _apply_beta_limits(a: Array, b: Array, x: Array, zero: float, one: float, value: Array) -> Array:
    """Sets the limits at the ends of the domain, and NaN outside."""
    low, high = (b == 0.0) | (a == math.inf), (a == 0.0) | (b == math.inf)
    inside = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0) & ~(low & high)
    known = where(x == 0.0, zero, where(x == 1.0, one, where(low, zero, where(high, one, value))))
    return where(inside, known, math.nan)


def _betainc(a: Array, b: Array, x: Array) -> Array:
    swap, p, q, u, v = _swap_beta_operands(a, b, x)
    # The error of the expansion is about a^(-3/2) / 10. The fraction needs about sqrt(a) iterations.
    bound = 1e4 if x.type.dtype.itemsize == 4 else 1e7
    large = (p >= bound) & (q >= bound)
    fraction = _lower_beta(
        where(large, 1.0, p), where(large, 1.0, q), where(large, 0.5, u), where(large, 0.5, v)
    )
    expansion = _uniform_beta_expansion(
        where(large, p, bound), where(large, q, bound), where(large, u, 0.5), where(large, v, 0.5)
    )
    value = where(large, expansion, fraction)
    return _apply_beta_limits(a, b, x, 0.0, 1.0, where(swap, maximum(1.0 - value, 0.0), value))


def _betainc_grad_a(a: Array, b: Array, x: Array) -> Array:
    swap, p, q, y, _ = _swap_beta_operands(a, b, x)
    fraction, (by_first, by_second) = _converge_with_slopes(
        _start_beta_fraction, _extend_beta_fraction, [p, q, y], 2
    )
    # Where the operands are swapped, a is the second parameter, and the result is 1 minus the fraction's.
    by_first = by_first + fraction * (LOG(y) + DIGAMMA(p + q) - DIGAMMA(p) - 1.0 / p)
    by_second = by_second + fraction * (LOG1P(-y) + DIGAMMA(p + q) - DIGAMMA(q))
    slope = _beta_front(p, q, y) * where(swap, -by_second, by_first)
    return _apply_beta_limits(a, b, x, 0.0, 0.0, slope)


decomposes(Betainc)(decompose_in_wide_floats(_betainc))
decomposes(BetaincGradA)(decompose_in_wide_floats(_betainc_grad_a))


def _beta_density(a: Array, b: Array, x: Array) -> Array:
    """Returns x^(a-1) (1-x)^(b-1) / B(a, b)."""
    # At 0 and 1 as powers, which are differentiable there; large ones could be 0 times infinity.
    low, high = (x == 0.0) & (a <= 3.0), (x == 1.0) & (b <= 3.0)
    powers = POW(where(low, x, 1.0), a - 1.0) * POW(where(high, 1.0 - x, 1.0), b - 1.0)
    logarithm = (a - 1.0) * LOG(where(low, 1.0, x)) + (b - 1.0) * LOG1P(-where(high, 0.0, x))
    return powers * EXP(logarithm + (LGAMMA(a + b) - LGAMMA(a) - LGAMMA(b)))


@jvp_rule(BetaincGradA)
def _(op: BetaincGradA, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    a, b, x = primals
    z = op(a, b, x)
    da, db, dx = strengthen_tangents(tangents, z)
    by_a = None if da is None else da * _slope_by(_betainc_grad_a, op, primals, 0)
    by_b = None if db is None else db * _slope_by(_betainc_grad_a, op, primals, 1)
    by_x = None
    if dx is not None:
        by_x = dx * _times_logarithm(_beta_density(a, b, x), LOG(x) - DIGAMMA(a) + DIGAMMA(a + b))
    return z, add_tangents(z, add_tangents(z, by_a, by_b), by_x)


@jvp_rule(Betainc)
def _(op: Betainc, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    a, b, x = primals
    z = op(a, b, x)
    da, db, dx = strengthen_tangents(tangents, z)
    by_a = None if da is None else da * BETAINC_GRAD_A(a, b, x)
    by_b = None if db is None else db * -BETAINC_GRAD_A(b, a, 1.0 - x)
    by_x = None if dx is None else dx * _beta_density(a, b, x)
    return z, add_tangents(z, add_tangents(z, by_a, by_b), by_x)
