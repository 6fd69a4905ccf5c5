"""Values of special functions and distributions at special points: points, oracles and tolerances."""

import itertools
from collections.abc import Callable, Sequence

import attrs
import mpmath
import numpy as np
from scipy import special, stats

from effx.laws.comparing import Data
from effx.laws.portable.points.derivatives import Number

INF, NAN = float("inf"), float("nan")
Oracle = Callable[..., Number]


@attrs.frozen
class Excuse:
    """Points at which a value isn't compared, and why."""

    reason: str
    applies: Callable[..., Number]


@attrs.frozen
class ValueRow:
    """A function with what is expected of it.

    Attributes:
        name: the function, with its module's name.
        grids: points of each operand; all combinations are taken.
        oracle: what gives the right values, of arrays of float64.
        ulps: the error that is allowed, in units in the last place, of 32 and of 64 bits.
        by_exponent: whether the error may grow with the logarithm of the value: it is an exponential.
        floor: values below it are compared as if they were as large; near zeros that are no special points.
        excuses: what is left out.
        part: which result, of several.
    """

    name: str
    grids: tuple[Sequence[float], ...]
    oracle: Oracle
    ulps: tuple[float, float] = (8, 8)
    by_exponent: bool = False
    floor: float = 0.0
    excuses: tuple[Excuse, ...] = ()
    part: int | None = None

    def points(self, dtype: np.dtype[Number]) -> list[Number]:
        """All combinations of the grids, of a dtype, as one vector for each operand."""
        with np.errstate(over="ignore"):
            return list(np.array(list(itertools.product(*self.grids)), dtype).T)

    def find_truth(self, dtype: np.dtype[Number]) -> Data:
        """The values at all points, in 64 bits."""
        # Of 32 bits, SciPy's values are right to the last bit, and much faster.
        oracle = (
            self.oracle.otherwise if isinstance(self.oracle, Precise) and dtype.itemsize == 4 else self.oracle
        )
        with np.errstate(all="ignore"):
            return np.asarray(oracle(*[p.astype(np.float64) for p in self.points(dtype)]), np.float64)


@attrs.frozen
class Precise:
    """An oracle that asks mpmath, with 40 digits, for ordinary points and SciPy for infinities, zeros and huge numbers."""

    function: Oracle
    otherwise: Oracle
    most: float
    least: float

    def __call__(self, *operands: Number) -> Number:
        """The values at points; NaN where there is none."""
        values = np.array(self.otherwise(*operands), np.float64)
        for i, xs in enumerate(zip(*operands, strict=True)):
            if all([self.least < abs(x) < self.most for x in xs]) and np.isfinite(values[i]):
                with mpmath.workdps(40):
                    try:
                        result = self.function(*[mpmath.mpf(float(x)) for x in xs])
                        values[i] = float(result.real if isinstance(result, mpmath.mpc) else result)
                    except (ValueError, ZeroDivisionError, mpmath.libmp.NoConvergence, OverflowError):
                        pass
        return values


def precise(function: Oracle, otherwise: Oracle, most: float = 2e3, least: float = 1e-30) -> Precise:
    """Returns an oracle by a function of mpmath and one of SciPy."""
    return Precise(function, otherwise, most, least)


def count_errors(row: ValueRow, points: list[Data], got: Data, want: Data) -> Data:
    """The errors in units of what is allowed: above 1 is too much. Subnormal numbers may be 0."""
    info = np.finfo(got.dtype)
    allowed = row.ulps[info.bits == 64]
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        size = np.maximum(np.abs(rounded), max(row.floor, float(info.tiny)))
        if row.by_exponent:
            allowed = allowed * (1 + np.abs(np.log(np.maximum(size, info.tiny).astype(np.float64))) / 4)
        error = np.abs(got.astype(np.float64) - want) / np.spacing(np.minimum(size, info.max)).astype(
            np.float64
        )
        same = (got == rounded) | (np.isnan(got) & np.isnan(want))
        # Of numbers next to the smallest normal one, an intermediate result may be subnormal, and 0.
        flushed = (np.abs(want) < 16 * info.tiny) & (np.abs(got) < 16 * info.tiny)
        # Next to the largest number, an intermediate result may overflow.
        overflown = np.isinf(got) & (np.abs(want) > 0.25 * info.max) & (np.sign(got) == np.sign(want))
        ratio = np.where(same | flushed | overflown, 0.0, error / np.maximum(allowed, 1e-9))
    ratio[np.isnan(ratio)] = np.inf
    for excuse in row.excuses:
        applies = excuse.applies(*[np.asarray(p, np.float64) for p in points])
        assert applies.any(), f"{row.name}: nothing is left out because {excuse.reason}"
        ratio = np.where(applies, 0.0, ratio)
    return ratio


TINY, MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
LINE = (
    0.0, -0.0, TINY, -TINY, 1e-20, -1e-20, 1e-8, 1e-4, -1e-4, 0.1, 0.3, 0.5, 0.9, 1 - 2**-24, 1.0, 1 + 2**-23, 1.25, 1.5,
    1.99, 2.0, 2.5, 3.0, 5.0, 7.5, 10.0, 20.0, 33.25, 50.0, 88.0, 100.0, 171.0, 1e3, 1e4, 1e5, 1e6, 1e8, 1e15, 1e20, 1e30,
    1e38, MOST, INF, NAN, -0.1, -0.5, -0.9, -1.0, -1.5, -2.0, -2.5, -3.75, -10.0, -10.5, -33.25, -50.0, -88.0, -100.5,
    -1e3, -1e4, -1e6, -1e10, -1e38, -INF,
)  # fmt: skip
POSITIVE = (
    0.0, TINY, 1e-20, 1e-8, 1e-4, 0.1, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 33.25, 100.0, 1e3, 1e5, 1e6, 1e8, 1e20, 1e38, INF,
    NAN,
)  # fmt: skip
SIGNED = (*POSITIVE, -1.0, -0.5, -2.5)
UNIT = (0.0, 1e-20, 1e-8, 1e-4, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0, NAN, -0.5, 1.5)
TAILS = (
    -INF, -1e38, -1e10, -1e5, -100.0, -30.0, -10.0, -5.0, -1.0, -1e-4, -1e-20, 0.0, 1e-20, 1e-4, 0.1, 0.5, 0.9, 1.0, 2.0,
    5.0, 7.0, 10.0, 30.0, 100.0, 1e5, 1e10, 1e38, INF, NAN,
)  # fmt: skip
PROBABILITIES = (0.0, 1e-30, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 0.9, 1 - 2**-24, 1.0, NAN, -0.5, 1.5)
COUNTS = (-1.0, 0.0, 1.0, 2.0, 5.0, 17.0, 100.0, 1e5, 1e7, NAN, 0.5)
SHAPES = (1e-4, 0.1, 1.0, 2.5, 10.0, 1e3, 1e6)

m = mpmath
scipy_nan = "SciPy says NaN, or takes another side, where there is a limit"


def log_abs_beta(a: Number, b: Number) -> Number:
    return m.log(abs(m.beta(a, b)))


def choices(n: Number, k: Number) -> Number:
    return m.binomial(n, k) if k <= n else 0


def log_normal_cdf(x: Number) -> Number:
    return m.log1p(-m.ncdf(-x)) if x > 0 else m.log(m.ncdf(x))


def kullback_leibler(p: Number, q: Number) -> Number:
    return p * m.log(p / q) - p + q if p > 0 and q > 0 else special.kl_div(float(p), float(q))


def box_cox(x: Number, power: Number) -> Number:
    """SciPy's function says -infinity at 0, which is the limit for no positive power."""
    with np.errstate(all="ignore"):
        return np.where((x == 0) & (power > 0), -1 / power, special.boxcox(x, power))


def precise_box_cox(x: Number, power: Number) -> Number:
    return m.expm1(power * m.log(x)) / power


def box_cox_1p(x: Number, power: Number) -> Number:
    with np.errstate(all="ignore"):
        return np.where((x == -1) & (power > 0), -1 / power, special.boxcox1p(x, power))


def polygamma_of_floats(order: Number, x: Number) -> Number:
    return special.polygamma(order.astype(int), x)


def precise_polygamma(order: Number, x: Number) -> Number:
    with m.workdps(120):
        return m.polygamma(int(order), x)


def is_pole(x: Number) -> Number:
    return (x <= 0) & (np.floor(x) == x)


FUNCTIONS = [
    ValueRow("gammaln", (LINE,), precise(lambda x: m.re(m.loggamma(x)), special.gammaln), (8, 12), floor=1e-3, excuses=(
        Excuse("infinite, as in C, not -infinity", lambda x: x == -INF),
    )),
    ValueRow("gammasgn", (LINE,), special.gammasgn, (0, 0)),
    ValueRow("gamma", (LINE,), precise(m.gamma, special.gamma), (4, 8)),
    ValueRow("digamma", (LINE,), precise(m.digamma, special.digamma), (8, 12), floor=1e-2),
    ValueRow("factorial", (LINE,), precise(m.factorial, special.factorial), (4, 8), excuses=(
        Excuse("0 for negative numbers, not the gamma function", lambda x: x < 0),
    )),
    ValueRow("zeta", (LINE,), precise(m.zeta, special.zeta), (32, 160)),
    ValueRow("i0", (LINE,), precise(lambda x: m.besseli(0, x), special.i0), (16, 16), True),
    ValueRow("i0e", (LINE,), precise(lambda x: m.besseli(0, x) * m.exp(-abs(x)), special.i0e)),
    ValueRow("i1", (LINE,), precise(lambda x: m.besseli(1, x), special.i1), (16, 16), True),
    ValueRow("i1e", (LINE,), precise(lambda x: m.besseli(1, x) * m.exp(-abs(x)), special.i1e), (16, 16)),
    ValueRow("erf", (LINE,), precise(m.erf, special.erf)),
    ValueRow("erfc", (LINE,), precise(m.erfc, special.erfc), by_exponent=True),
    ValueRow("erfcx", (LINE,), precise(lambda x: m.exp(x * x) * m.erfc(x), special.erfcx), (16, 32), True),
    ValueRow("erfinv", (UNIT,), special.erfinv, (8, 32)),
    ValueRow("erfcinv", (PROBABILITIES,), special.erfcinv, (16, 32)),
    ValueRow("ndtr", (LINE,), precise(m.ncdf, special.ndtr), (16, 16), True),
    ValueRow("ndtri", (PROBABILITIES,), special.ndtri, (8, 32)),
    ValueRow("log_ndtr", (LINE,), precise(log_normal_cdf, special.log_ndtr), (16, 64), True),
    ValueRow("expit", (LINE,), special.expit),
    ValueRow("logit", (UNIT,), special.logit, (8, 16)),
    ValueRow("entr", (LINE,), special.entr),
    ValueRow("exp1", (LINE,), precise(m.e1, special.exp1), (8, 64), True),
    ValueRow("expi", (LINE,), precise(m.ei, special.expi), (8, 64), True),
    ValueRow("spence", (LINE,), precise(lambda x: m.re(m.polylog(2, 1 - x)), special.spence), (8, 64), excuses=(
        Excuse(scipy_nan, lambda x: x == INF),
    )),
    ValueRow("dawsn", (LINE,), precise(lambda x: m.sqrt(m.pi) / 2 * m.exp(-x * x) * m.erfi(x), special.dawsn), (8, 64)),
    ValueRow("sici", (LINE,), lambda x: special.sici(x)[0], (8, 16), part=0),
    ValueRow("sici", (LINE,), lambda x: special.sici(x)[1], (16, 128), floor=0.1, part=1, excuses=(
        Excuse("NaN below 0, where the integral is complex, or its real part", lambda x: x < 0),
    )),
    ValueRow("xlogy", (SIGNED, SIGNED), special.xlogy),
    ValueRow("xlog1py", (SIGNED, SIGNED), special.xlog1py),
    ValueRow("rel_entr", (SIGNED, SIGNED), special.rel_entr),
    ValueRow("kl_div", (SIGNED, SIGNED), precise(kullback_leibler, special.kl_div), (8, 16), excuses=(
        Excuse(scipy_nan, lambda p, q: (p == INF) | (q == INF)),
        Excuse("SciPy's sum cancels", lambda p, q: (p > 2e3) & (p == q)),
    )),
    ValueRow("betaln", (SIGNED, SIGNED), precise(log_abs_beta, special.betaln, 1e9, 1e-39), (16, 32), floor=0.1, excuses=(
        Excuse(scipy_nan, lambda a, b: np.isinf(a + b) | ((a == 0) & np.isnan(b)) | ((b == 0) & np.isnan(a))),
        Excuse("NaN of NaN, also at a pole", lambda a, b: np.isnan(a + b)),
        Excuse("SciPy's differences of logarithms cancel", lambda a, b: np.minimum(a, b) > 1e30),
    )),
    ValueRow("beta", (SIGNED, SIGNED), precise(m.beta, special.beta, 1e9, 1e-39), (16, 32), True, excuses=(
        Excuse(scipy_nan, lambda a, b: np.isinf(a + b)),
        Excuse("infinite at poles, whose sign is another on each side", lambda a, b: is_pole(a) | is_pole(b)),
    )),
    ValueRow("poch", (SIGNED, SIGNED), precise(m.rf, special.poch), (16, 64), True, excuses=(
        Excuse(scipy_nan, lambda z, n: np.isinf(z) | np.isinf(n)),
        Excuse("poles, or sums that are rounded near one", lambda z, n: is_pole(z) | (z + n < 0) | (np.abs(z + n) < 1e-30)),
    )),
    ValueRow("comb", (POSITIVE[:-2], POSITIVE[:-2]), precise(choices, special.comb, 1e9, 1e-39), (16, 64), True, excuses=(
        Excuse("SciPy's quotients of gamma functions", lambda n, k: n > 1e30),
    )),
    ValueRow("gammainc", (SIGNED, POSITIVE), precise(
        lambda a, x: m.gammainc(a, 0, x, regularized=True), special.gammainc), (48, 2000), True, excuses=(
        Excuse(scipy_nan, lambda a, x: np.isinf(a)),
    )),
    ValueRow("gammaincc", (SIGNED, POSITIVE), precise(
        lambda a, x: m.gammainc(a, x, m.inf, regularized=True), special.gammaincc), (48, 2000), True, excuses=(
        Excuse(scipy_nan, lambda a, x: np.isinf(a)),
        Excuse("a multiple of a subnormal number", lambda a, x: a == TINY),
    )),
    ValueRow("zeta", (SIGNED, (*SIGNED, -0.25, -3.25, -20.5)), precise(m.zeta, special.zeta, 30), (16, 32), excuses=(
        Excuse(scipy_nan, lambda s, q: (s > 1e5) | np.isnan(s + q) | (q == INF)),
        Excuse("NaN at poles of odd powers, whose sides differ in sign", lambda s, q: is_pole(q)),
    )),
    ValueRow("polygamma", ((0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0), LINE), precise(precise_polygamma, polygamma_of_floats),
        (32, 400), True, floor=1e-4, excuses=(
        Excuse("NaN at poles of even orders, whose sides differ in sign", lambda n, x: is_pole(x) & (n % 2 == 0)),
        Excuse("SciPy adds powers up to 1e80, which cancel", lambda n, x: (n > 3) & (x < 0) & (np.floor(x) != x)),
    )),
    ValueRow("expn", ((0.0, 1.0, 2.0, 3.0, 10.0, 50.0), POSITIVE), lambda n, x: special.expn(n.astype(int), x), (128, 512),
        True),
    ValueRow("owens_t", (LINE[:31], LINE[:31]), special.owens_t, (16, 400), True, excuses=(
        Excuse("SciPy's method has few digits of tiny slopes", lambda h, a: (np.abs(a) < 1e-7) & (np.abs(h) > 1)),
    )),
    ValueRow("boxcox", (POSITIVE, SIGNED), precise(precise_box_cox, box_cox, 1e39, 1e-39), (8, 16), excuses=(
        Excuse(scipy_nan, lambda x, p: np.isinf(x) | np.isinf(p)),
    )),
    ValueRow("boxcox1p", (SIGNED, SIGNED), precise(lambda x, p: m.expm1(p * m.log1p(x)) / p, box_cox_1p), (8, 16), True,
        excuses=(
        Excuse(scipy_nan, lambda x, p: np.isinf(x) | np.isinf(p)),
        Excuse("1 / p is subnormal", lambda x, p: p > 9e37),
    )),
    ValueRow("betainc", (SIGNED[1:-3], SIGNED[1:-3], UNIT), special.betainc, (200, 4e6), True, excuses=(
        Excuse("1 less a number near 1, of tiny b", lambda a, b, x: (b < 1e-3) & (x > 0.9)),
        Excuse(scipy_nan, lambda a, b, x: np.isinf(a) | np.isinf(b)),
        Excuse("the digits of x are those of 1 - x", lambda a, b, x: (np.maximum(a, b) > 1e5)),
    )),
]  # fmt: skip
LARGE_BETA = ((1e4, 1e5, 1e6, 1e7), (1e4, 1e5, 1e6, 1e7), (0.25, 0.4990234375, 0.5, 0.5009765625, 0.75))

FUNCTIONS.append(ValueRow("betainc", LARGE_BETA, special.betainc, (400, 1e6), True))


def stats_row(
    name: str,
    *grids: Sequence[float],
    ulps: tuple[float, float] = (64, 4e3),
    excuses: tuple[Excuse, ...] = (),
) -> ValueRow:
    """A row of a distribution's function, with SciPy as the oracle."""
    distribution, function = name.split(".")
    oracle = getattr(getattr(stats, distribution), function)
    return ValueRow(
        name, grids, lambda *xs: oracle(*xs), ulps, True, 1e-3 if "log" in function else 0.0, excuses
    )


def stats_rows(
    names: str,
    functions: str,
    *grids: Sequence[float],
    ulps: tuple[float, float] = (64, 4e3),
    excuses: tuple[Excuse, ...] = (),
) -> list[ValueRow]:
    return [
        stats_row(f"{d}.{f}", *grids, ulps=ulps, excuses=excuses)
        for d in names.split()
        for f in functions.split()
    ]


underflow = Excuse("SciPy's logarithm is that of a number that underflows", lambda x: np.abs(x) >= 100)
at_infinity = Excuse(scipy_nan, lambda x, *rest: np.isinf(x))
ALL = "logpdf pdf cdf sf logcdf logsf"
# SciPy's differences of large logarithms have 1e-9 at most.
COARSE = 64, 1e8

DISTRIBUTIONS = [
    *stats_rows("norm expon cauchy", ALL, TAILS),
    *stats_rows("uniform", "logpdf pdf cdf", TAILS),
    *stats_rows("logistic", "logpdf pdf cdf sf", TAILS),
    *stats_rows("laplace", "pdf cdf", TAILS),
    *stats_rows("gumbel_l gumbel_r", "cdf sf", TAILS),
    *stats_rows("gumbel_l gumbel_r", "logpdf pdf", TAILS, excuses=(at_infinity,)),
    stats_row("gumbel_l.logcdf", TAILS, excuses=(underflow,)),
    stats_row("gumbel_r.logsf", TAILS, excuses=(underflow,)),
    *stats_rows("norm cauchy", "ppf isf", PROBABILITIES),
    *stats_rows("expon logistic gumbel_l gumbel_r", "ppf", PROBABILITIES),
    *stats_rows("gamma", "cdf sf", TAILS, SHAPES),
    *stats_rows("gamma", "logpdf", TAILS, SHAPES[1:], excuses=(at_infinity,)),
    *stats_rows("chi2", "cdf sf", TAILS, SHAPES),
    *stats_rows("t", "logpdf pdf", TAILS, SHAPES[1:]),
    *stats_rows(
        "gennorm", "logpdf pdf", (-30.0, -1.0, -0.9, -1e-4, 0.0, 1e-20, 0.5, 0.9, 2.0), (0.5, 1.0, 10.0, 1e3)
    ),
    *stats_rows("gennorm", "cdf", (-30.0, -1.0, -0.9, 0.0, 0.5, 0.9, 2.0), (0.5, 1.0, 10.0, 50.0)),
    *stats_rows("beta", "logpdf", (0.0, 0.1, 0.25, 0.5, 0.75, 1.0), SHAPES[1:], SHAPES[1:], ulps=COARSE),
    *stats_rows("poisson", "logpmf pmf", COUNTS, (0.0, 1e-4, 0.5, 3.0, 100.0, 1e6), ulps=COARSE),
    *stats_rows(
        "binom", "logpmf pmf", COUNTS, (1.0, 5.0, 100.0, 1e6), (0.0, 1e-6, 0.25, 0.75, 1.0), ulps=COARSE
    ),
    *stats_rows("nbinom", "logpmf", COUNTS, (0.5, 5.0, 100.0), (1e-6, 0.25, 0.75, 1.0), ulps=COARSE),
    *stats_rows("geom", "logpmf pmf", COUNTS, (1e-6, 0.25, 0.75, 1.0), ulps=COARSE),
    *stats_rows(
        "truncnorm",
        "logcdf logsf cdf sf",
        (-30.0, -5.0, -1.0, 0.0, 1e-4, 1.0, 5.0, 6.5, 10.0, 30.5, INF),
        (-INF, -5.0, 0.0, 6.0, 30.0),
        (7.0, 31.0, INF),
    ),
]
