"""Rows of special functions."""

import math
from collections.abc import Callable

from mpmath import mp

from effx.laws.portable.points.derivatives import DerivativeRow, Number
from effx.laws.portable.points.elementary import (
    FAR,
    FROM_RESULT,
    INF,
    INSIDE,
    NAN,
    NEAR,
    POSITIVE,
    TINY,
    WHOLE,
    binary,
    every,
    flat_ends,
    logistic_function,
    normal_probability,
    signed,
    unary,
)

PROBABILITIES = (1e-30, 1e-8, 1e-3, 0.25, 0.5, 0.75, 1 - 1e-4, 1 - 1e-6)
TAILS = (*NEAR, *signed(6.0))


def _entropy(p: Number) -> Number:
    return -p * mp.log(p)


def _inverse_normal(p: Number) -> Number:
    return -mp.sqrt(2) * mp.erfinv(1 - 2 * p)


def _quantile_slopes() -> dict[tuple[int, ...], Callable[..., Number]]:
    """Of the normal quantile x: s = 1 / density, s' = x s², s'' = s³ (1 + 2 x²)."""

    def slope(p: Number) -> Number:
        x = _inverse_normal(p)
        return mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)

    return {
        (0,): slope,
        (0, 0): lambda p: _inverse_normal(p) * slope(p) ** 2,
        (0, 0, 0): lambda p: slope(p) ** 3 * (1 + 2 * _inverse_normal(p) ** 2),
    }


def _inverse_error_slopes(
    argument: Callable[[Number], Number], sign: int
) -> dict[tuple[int, ...], Callable[..., Number]]:
    """Of y = erfinv(argument), whose slope is a sign times s: s' = 2 y s², s'' = 2 s³ (1 + 4 y²)."""

    def slope(x: Number) -> Number:
        return mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(argument(x)) ** 2)

    return {
        (0,): lambda x: sign * slope(x),
        (0, 0): lambda x: 2 * mp.erfinv(argument(x)) * slope(x) ** 2,
        (0, 0, 0): lambda x: sign * 2 * slope(x) ** 3 * (1 + 4 * mp.erfinv(argument(x)) ** 2),
    }


def _bessel(order: int, scaled: bool) -> Callable[[Number], Number]:
    return lambda x: mp.besseli(order, x) * (mp.exp(-abs(x)) if scaled else 1)


def _dawson(x: Number) -> Number:
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def _dawson_slopes() -> dict[tuple[int, ...], Callable[..., Number]]:
    def first(x: Number) -> Number:
        return 1 - 2 * x * _dawson(x)

    def second(x: Number) -> Number:
        return -2 * _dawson(x) - 2 * x * first(x)

    return {(0,): first, (0, 0): second, (0, 0, 0): lambda x: -4 * first(x) - 2 * x * second(x)}


ERROR_FUNCTIONS = [
    unary("erf", "special.erf", mp.erf, TAILS, flat_ends()),
    unary("erfc", "special.erfc", mp.erfc, TAILS, flat_ends()),
    unary(
        "erfcx",
        "special.erfcx",
        lambda x: mp.exp(x * x) * mp.erfc(x),
        (*TINY, -3.0, 0.5, 3.0, 10.0, 1e3, 1e6),
        {INF: (0.0, 0.0)},
        slack=512.0,
    ),
    unary(
        "erfinv",
        "special.erfinv",
        mp.erfinv,
        INSIDE,
        {1.0: (INF, INF), -1.0: (INF, -INF)},
        slopes=_inverse_error_slopes(lambda x: x, 1),
        digits=60,
        slack=4.0,
    ),
    unary(
        "erfcinv",
        "special.erfcinv",
        lambda y: mp.erfinv(1 - y),
        (1e-30, 1e-8, 1e-3, 0.5, 1.0, 1.5),
        {0.0: (-INF, INF)},
        slopes=_inverse_error_slopes(lambda x: 1 - x, -1),
        digits=60,
        slack=8.0,
    ),
    unary("ndtr", "special.ndtr", normal_probability, TAILS, flat_ends()),
    unary(
        "ndtri",
        "special.ndtri",
        _inverse_normal,
        PROBABILITIES,
        {0.0: (INF, -INF), 1.0: (INF, INF)},
        slopes=_quantile_slopes(),
        slack=8.0,
    ),
    unary(
        "log_ndtr",
        "special.log_ndtr",
        lambda x: mp.log(normal_probability(x)),
        (*TAILS, -30.0, -1e3, 10.0, 1e4),
        {INF: (0.0, 0.0), -INF: (INF, NAN)},
        slack=64.0,
    ),
    unary(
        "dawsn",
        "special.dawsn",
        _dawson,
        (*NEAR, 2.4999, 5.0001, 11.9, 12.1, 40.0),
        flat_ends(),
        slopes=_dawson_slopes(),
        slack=64.0,
        zero_scale=(4.0, 16.0),
        digits=60,
    ),
    unary(
        "fresnel s",
        "lambda x: special.fresnel(x)[0]",
        mp.fresnels,
        (*NEAR, 1.5999, 1.6001, 10.0),
        slack=8.0,
        zero_scale=(8.0, 64.0),
    ),
    unary(
        "fresnel c",
        "lambda x: special.fresnel(x)[1]",
        mp.fresnelc,
        (*NEAR, 1.5999, 1.6001, 10.0),
        slack=8.0,
        zero_scale=(8.0, 64.0),
    ),
]

GAMMA_FUNCTIONS = [
    unary(
        "gammaln",
        "special.gammaln",
        lambda x: mp.log(abs(mp.gamma(x))),
        (1e-30, 1e-8, 1e-3, 0.5, 1.0, 1.4616, 2.0, 3.0, 40.0, 1e4, 1e10),
        slopes={
            (0,): lambda x: mp.psi(0, x),
            (0, 0): lambda x: mp.psi(1, x),
            (0, 0, 0): lambda x: mp.psi(2, x),
        },
        slack=8.0,
    ),
    unary(
        "digamma",
        "special.digamma",
        lambda x: mp.psi(0, x),
        (1e-8, 1e-3, 0.5, 1.0, 1.46, 1.4616303, 1.4616321, 1.46163214496836, 1.47, 2.0, 3.0, 40.0, 1e4),
        slopes={
            (0,): lambda x: mp.psi(1, x),
            (0, 0): lambda x: mp.psi(2, x),
            (0, 0, 0): lambda x: mp.psi(3, x),
        },
        slack=8.0,
    ),
    unary(
        "gamma",
        "special.gamma",
        mp.gamma,
        (1e-3, 0.5, 1.0, 1.4616, 2.0, 3.0, 10.0, -0.5, -1.5),
        slack=32.0,
        zero_scale=(8.0, 32.0),
    ),
    unary(
        "polygamma 1",
        "lambda x: special.polygamma(1, x)",
        lambda x: mp.psi(1, x),
        (1e-3, 0.5, 1.0, 3.0, 40.0),
        slopes={
            (0,): lambda x: mp.psi(2, x),
            (0, 0): lambda x: mp.psi(3, x),
            (0, 0, 0): lambda x: mp.psi(4, x),
        },
        slack=8.0,
    ),
    unary(
        "zeta of Riemann",
        "special.zeta",
        mp.zeta,
        (1.01, 1.5, 2.0, 3.0, 10.0, 30.0),
        digits=30,
        slack=32.0,
        heavy=True,
    ),
    binary(
        "zeta",
        "special.zeta",
        lambda s, q: mp.zeta(s, q),
        [(2.0, 1.0), (1.5, 0.5), (3.0, 1e-3), (2.0, 40.0), (10.0, 2.0)],
        digits=25,
        slack=32.0,
        heavy=True,
    ),
    binary(
        "betaln",
        "special.betaln",
        lambda a, b: mp.log(mp.beta(a, b)),
        [(1.0, 1.0), (2.0, 3.0), (0.5, 0.5), (10.0, 40.0)],
        slopes={
            (0,): lambda a, b: mp.psi(0, a) - mp.psi(0, a + b),
            (1,): lambda a, b: mp.psi(0, b) - mp.psi(0, a + b),
            (0, 0): lambda a, b: mp.psi(1, a) - mp.psi(1, a + b),
            (0, 1): lambda a, b: -mp.psi(1, a + b),
            (1, 1): lambda a, b: mp.psi(1, b) - mp.psi(1, a + b),
            (0, 0, 0): lambda a, b: mp.psi(2, a),
            (0, 0, 1): lambda a, b: mp.psi(2, a + b),
            (0, 1, 1): lambda a, b: mp.psi(2, a + b),
            (1, 1, 1): lambda a, b: mp.psi(2, b),
        },
        slack=8.0,
    ),
    binary(
        "beta",
        "special.beta",
        mp.beta,
        [(1.0, 1.0), (2.0, 3.0), (0.5, 0.5), (10.0, 4.0)],
        digits=30,
        slack=32.0,
        heavy=True,
    ),
    binary(
        "poch",
        "special.poch",
        lambda z, m: mp.gamma(z + m) / mp.gamma(z),
        [(1.0, 0.0), (3.0, 0.0), (2.0, 3.0), (0.5, 0.5)],
        digits=30,
        slack=32.0,
        zero_scale=(8.0, 32.0),
        heavy=True,
    ),
    unary(
        "multigammaln",
        "lambda x: special.multigammaln(x, 2)",
        lambda x: mp.loggamma(x) + mp.loggamma(x - 0.5),
        (1.0, 2.0, 10.0),
        slopes={
            (0,): lambda x: mp.psi(0, x) + mp.psi(0, x - 0.5),
            (0, 0): lambda x: mp.psi(1, x) + mp.psi(1, x - 0.5),
            (0, 0, 0): lambda x: mp.psi(2, x) + mp.psi(2, x - 0.5),
        },
        slack=8.0,
    ),
]


def _lower_gamma(a: Number, x: Number) -> Number:
    return mp.gammainc(a, 0, x, regularized=True)


def _upper_gamma(a: Number, x: Number) -> Number:
    return mp.gammainc(a, x, mp.inf, regularized=True)


GAMMA_POINTS = [
    (1.0, 1.1),
    (1.0, 0.5),
    (1.0, 5.0),
    (2.0, 5.0),
    (3.0, 3.0),
    (3.0, 0.1),
    (0.5, 0.5),
    (0.5, 2.0),
    (5.0, 12.0),
    (1e-3, 1.0),
    (40.0, 41.0),
    (7.5, 7.5),
]
BETA_POINTS = [
    (1.0, 1.0, 0.5),
    (2.0, 3.0, 0.2),
    (2.0, 3.0, 0.9),
    (0.5, 0.5, 0.5),
    (1.0, 2.0, 0.3),
    (1.5, 2.5, 0.7),
    (3.0, 1.0, 0.99),
    (3.0, 1.0, 0.1),
    (4.0, 4.0, 0.5),
]


def _beta_cdf(a: Number, b: Number, x: Number) -> Number:
    return mp.betainc(a, b, 0, x, regularized=True)


INCOMPLETE_FUNCTIONS = [
    binary(
        "gammainc",
        "special.gammainc",
        _lower_gamma,
        GAMMA_POINTS,
        digits=20,
        slack=64.0,
        zero_scale=(16.0, 256.0),
        heavy=True,
    ),
    binary(
        "gammaincc",
        "special.gammaincc",
        _upper_gamma,
        GAMMA_POINTS,
        digits=20,
        slack=64.0,
        zero_scale=(16.0, 256.0),
        heavy=True,
    ),
    DerivativeRow(
        "betainc",
        "special.betainc",
        _beta_cdf,
        BETA_POINTS,
        digits=20,
        slack=64.0,
        zero_scale=(16.0, 256.0),
        heavy=True,
    ),
]


def _expn_slopes(n: int) -> dict[tuple[int, ...], Callable[..., Number]]:
    return {(0,) * k: lambda x, k=k: (-1) ** k * mp.expint(n - k, x) for k in (1, 2, 3)}


BESSEL_FUNCTIONS = [
    unary("i0", "special.i0", _bessel(0, False), FAR, slack=2.0, heavy=True),
    unary("i1", "special.i1", _bessel(1, False), FAR, slack=2.0, heavy=True),
    unary(
        "i0e",
        "special.i0e",
        _bessel(0, True),
        [x for x in FAR if x],
        slack=2.0,
        zero_scale=(0.0, 1.0),
        heavy=True,
    ),
    unary(
        "i1e",
        "special.i1e",
        _bessel(1, True),
        [x for x in FAR if x],
        slack=2.0,
        zero_scale=(1.0, 1.0),
        heavy=True,
    ),
    unary(
        "bessel_jn 2",
        "lambda x: special.bessel_jn(x, v=2)[2]",
        lambda x: mp.besselj(2, x),
        [*TINY, *signed(0.5, 1.0, 3.0, 10.0)],
        slack=8.0,
        zero_scale=(2.0, 4.0),
    ),
]

INTEGRALS = [
    unary(
        "exp1",
        "special.exp1",
        mp.e1,
        (1e-30, 1e-8, 1e-3, 0.5, 1.0, 3.0, 40.0),
        {0.0: (-INF, INF), INF: (0.0, 0.0)},
    ),
    unary("expi", "special.expi", mp.ei, (*signed(1e-8, 1e-3, 0.5, 1.0, 3.0, 40.0),), {-INF: (0.0, 0.0)}),
    unary(
        "expn 2",
        "lambda x: special.expn(2, x)",
        lambda x: mp.expint(2, x),
        (1e-8, 1e-3, 0.5, 1.0, 3.0, 40.0),
        {0.0: (-INF, INF)},
        slopes=_expn_slopes(2),
        slack=8.0,
    ),
    unary(
        "expn 3",
        "lambda x: special.expn(3, x)",
        lambda x: mp.expint(3, x),
        (1e-8, 1e-3, 0.5, 1.0, 3.0, 40.0),
        {0.0: (-1.0, INF)},
        slopes=_expn_slopes(3),
        slack=8.0,
    ),
    unary("sici s", "lambda x: special.sici(x)[0]", mp.si, FAR, flat_ends(), zero_scale=(2.0, 4.0)),
    unary(
        "sici c",
        "lambda x: special.sici(x)[1]",
        lambda x: mp.ci(abs(x)),
        [x for x in FAR if x],
        zero_scale=(2.0, 4.0),
    ),
    unary(
        "spence",
        "special.spence",
        lambda x: mp.polylog(2, 1 - x).real,
        (1e-8, 1e-3, 0.5, 0.99, 1 - 1e-4, 1.01, 1.5, 2.0, 3.0, 40.0),
        {0.0: (-INF, NAN), 1.0: (-1.0, 0.5)},
        slopes={
            (0,): lambda x: mp.log(x) / (1 - x),
            (0, 0): lambda x: (1 / x * (1 - x) + mp.log(x)) / (1 - x) ** 2,
            (0, 0, 0): lambda x: mp.diff(lambda t: mp.log(t) / (1 - t), x, 2),
        },
        slack=2.0,
    ),
]

ENTROPIES = [
    unary("entr", "special.entr", _entropy, POSITIVE, {0.0: (INF, -INF)}, zero_scale=(2.0, 0.0)),
    unary(
        "logit",
        "special.logit",
        lambda p: mp.log(p / (1 - p)),
        PROBABILITIES,
        {0.0: (INF, -INF), 1.0: (INF, INF)},
        zero_scale=(0.0, 16.0),
    ),
    unary("expit", "special.expit", logistic_function, WHOLE, flat_ends(), zero_scale=FROM_RESULT),
    binary(
        "xlogy",
        "special.xlogy",
        lambda x, y: x * mp.log(y),
        [(2.0, 3.0), (-2.0, 0.5), (1e-30, 1e-30), (1e10, 1.0), (1.0, 1e20)],
        {
            (0.0, 2.0): every(math.log(2.0), 0.0, 0.0, 0.5, 0.0),
            (0.0, 0.0): every(-INF, 0.0, 0.0, NAN, NAN),
            (1.0, 0.0): every(-INF, INF, 0.0, INF, -INF),
        },
    ),
    binary(
        "xlog1py",
        "special.xlog1py",
        lambda x, y: x * mp.log1p(y),
        [(2.0, 3.0), (-2.0, -0.5), (1e-30, 1e-30), (1e10, 1.0), (1.0, 1e20), (1.0, 1e-8)],
        {(0.0, 1.0): every(math.log(2.0), 0.0, 0.0, 0.5, 0.0), (0.0, -1.0): every(-INF, 0.0, 0.0, NAN, NAN)},
    ),
    binary(
        "rel_entr",
        "special.rel_entr",
        lambda p, q: p * mp.log(p / q),
        [(2.0, 3.0), (1.0, 1.0), (0.5, 0.5), (1e-30, 1.0), (1e-20, 1e20), (1e20, 1e-20), (0.3, 1e-8)],
        {(0.0, 2.0): every(-INF, 0.0, INF, -0.5, 0.0)},
        zero_scale=(2.0, 2.0),
    ),
    binary(
        "kl_div",
        "special.kl_div",
        lambda p, q: p * mp.log(p / q) - p + q,
        [(2.0, 3.0), (1.0, 1.0), (0.5, 0.5), (1e-30, 1.0), (1e-20, 1e20), (1e20, 1e-20), (0.3, 1e-8)],
        {(0.0, 2.0): every(-INF, 1.0, INF, -0.5, 0.0)},
        zero_scale=(2.0, 2.0),
    ),
    unary(
        "factorial",
        "special.factorial",
        lambda x: mp.gamma(x + 1),
        (1e-8, 0.5, 1.0, 3.0, 10.0),
        {0.0: (-float(mp.euler), NAN), -1.0: (0.0, 0.0)},
        slack=32.0,
        digits=40,
    ),
    binary(
        "boxcox",
        "special.boxcox",
        lambda x, p: mp.expm1(p * mp.log(x)) / p,
        [(2.0, 1.0), (0.5, 2.0), (3.0, 1e-3), (3.0, -1.0), (3.0, 1e-8), (1.0, 0.5)],
        {
            (3.0, 0.0): every(
                1 / 3, math.log(3.0) ** 2 / 2, -1 / 9, math.log(3.0) / 3, math.log(3.0) ** 3 / 3
            ),
            (1.0, 0.0): every(1.0, 0.0, -1.0, 0.0, 0.0),
        },
        slack=8.0,
        zero_scale=(2.0, 2.0),
    ),
    binary(
        "boxcox1p",
        "special.boxcox1p",
        lambda x, p: mp.expm1(p * mp.log1p(x)) / p,
        [(2.0, 1.0), (0.5, 2.0), (2.0, 1e-3), (2.0, -1.0), (2.0, 1e-8), (1e-8, 0.5)],
        {(2.0, 0.0): every(1 / 3, math.log(3.0) ** 2 / 2, -1 / 9, math.log(3.0) / 3, math.log(3.0) ** 3 / 3)},
        slack=8.0,
        zero_scale=(2.0, 2.0),
    ),
]


def _owens_slopes() -> dict[tuple[int, ...], Callable[..., Number]]:
    def by_h(h: Number, a: Number) -> Number:
        return -mp.exp(-h * h / 2) * mp.erf(a * h / mp.sqrt(2)) / (2 * mp.sqrt(2 * mp.pi))

    def by_a(h: Number, a: Number) -> Number:
        return mp.exp(-h * h * (1 + a * a) / 2) / (1 + a * a) / (2 * mp.pi)

    return {
        (0,): by_h,
        (1,): by_a,
        (0, 0): lambda h, a: mp.diff(lambda t: by_h(t, a), h),
        (0, 1): lambda h, a: mp.diff(lambda t: by_a(t, a), h),
        (1, 1): lambda h, a: mp.diff(lambda t: by_a(h, t), a),
        (0, 0, 0): lambda h, a: mp.diff(lambda t: by_h(t, a), h, 2),
        (0, 0, 1): lambda h, a: mp.diff(lambda t: by_a(t, a), h, 2),
        (0, 1, 1): lambda h, a: mp.diff(by_a, (h, a), (1, 1)),
        (1, 1, 1): lambda h, a: mp.diff(lambda t: by_a(h, t), a, 2),
    }


OTHERS = [
    binary(
        "owens_t",
        "special.owens_t",
        lambda h, a: mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi),
        [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (2.0, -0.5), (-1.0, 3.0), (1e-8, 1.0)],
        slopes=_owens_slopes(),
        slack=2.0,
    ),
    unary(
        "hyp1f1 in x",
        "lambda x: special.hyp1f1(1.5, 2.5, x)",
        lambda x: mp.hyp1f1(1.5, 2.5, x),
        [0.0, *signed(1e-3, 1.0, 10.0)],
        digits=40,
        slack=32.0,
        heavy=True,
    ),
    unary(
        "hyp2f1 in x",
        "lambda x: special.hyp2f1(1.0, 1.5, 2.5, x)",
        lambda x: mp.hyp2f1(1, 1.5, 2.5, x),
        [0.0, 1e-3, 0.5, -0.5, 0.9, -3.0],
        digits=40,
        slack=64.0,
        heavy=True,
    ),
    unary(
        "hyp1f1 in a",
        "lambda a: special.hyp1f1(a, 2.5, 0.5)",
        lambda a: mp.hyp1f1(a, 2.5, 0.5),
        [0.0, 1.0, -1.0, -2.0, 2.5, 0.5],
        digits=40,
        slack=32.0,
        heavy=True,
    ),
]

ROWS = [
    *ERROR_FUNCTIONS,
    *GAMMA_FUNCTIONS,
    *INCOMPLETE_FUNCTIONS,
    *BESSEL_FUNCTIONS,
    *INTEGRALS,
    *ENTROPIES,
    *OTHERS,
]
