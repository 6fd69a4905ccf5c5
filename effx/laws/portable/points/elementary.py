"""Rows of elementary functions: exponentials, roots, trigonometry, activations, and functions of two numbers."""

import math
from collections.abc import Callable, Sequence

import mpmath
from mpmath import mp

from effx.laws.portable.points.derivatives import DerivativeRow, Number, Order, Point

INF, NAN = math.inf, math.nan
ROOT = math.sqrt(0.5)
NO_LIMIT = "the function oscillates, or is undefined there"
# Derivatives of tanh and of the logistic function are of their results, which round to 1: see effx/ir/ops/elementwise.
FROM_RESULT = (2.0, 4.0)
UNDEFINED_PRODUCT = "the value itself is infinity times 0"


def signed(*sizes: float) -> tuple[float, ...]:
    """Returns numbers and their negatives."""
    return tuple([s * x for x in sizes for s in (1, -1)])


TINY = (0.0, -0.0, *signed(1e-30, 1e-8, 1e-3))
NEAR = (*TINY, *signed(0.5, 1.0, 3.0))
FAR = (*NEAR, *signed(10.0, 40.0, 80.0))
WHOLE = (*FAR, *signed(1e4, 1e10, 1e20))
POSITIVE = (1e-30, 1e-8, 1e-3, 0.5, 1.0, 1.5, 3.0, 40.0, 1e4, 1e10, 1e20)
# Up to the ends of (-1, 1).
INSIDE = (*TINY, *signed(0.5, 0.9, 1 - 1e-4, 1 - 1e-6))


def unary(
    name: str,
    function: str,
    oracle: Callable[..., Number],
    points: Sequence[float],
    limits: dict[float, tuple[float, float]] | None = None,
    **more: Number,
) -> DerivativeRow:
    """Returns a row of a function of one number; limits are the first and second derivative."""
    at: dict[Point, dict[Order, float]] = {
        (x,): {(0,): first, (0, 0): second} for x, (first, second) in (limits or {}).items()
    }
    return DerivativeRow(name, function, oracle, [(x,) for x in points], at, **more)


def flat_ends(low: float = 0.0, high: float = 0.0) -> dict[float, tuple[float, float]]:
    """Returns the limits of a function that is linear at both infinities, with these slopes."""
    return {-INF: (low, 0.0), INF: (high, 0.0)}


def excuse(reason: str, *points: float, order: tuple[int, ...] | None = None) -> dict[Number, str]:
    """Returns excuses for derivatives at points."""
    return {((x,), order): reason for x in points}


def logistic_function(x: Number) -> Number:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: Number) -> Number:
    return mp.log1p(mp.exp(x))


def normal_probability(x: Number) -> Number:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _elu(alpha: float, scale: float = 1.0, width: float = 1.0) -> Callable[[Number], Number]:
    a, s, w = mpmath.mpf(alpha), mpmath.mpf(scale), mpmath.mpf(width)
    return lambda x: s * x if x > 0 else s * a * mp.expm1(x / w)


def _gelu_by_tanh(x: Number) -> Number:
    u = mp.sqrt(2 / mp.pi) * (x + mpmath.mpf(0.044715) * x**3)
    return x / (1 + mp.exp(-2 * u))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
NEGATIVE = tuple([x for x in WHOLE if x < 0])
NONZERO = tuple([x for x in WHOLE if x])

ROOTS_AND_POWERS = [
    unary("sqrt", "enp.sqrt", mp.sqrt, POSITIVE, {0.0: (INF, -INF), INF: (0.0, 0.0)}),
    unary("rsqrt", "lax.rsqrt", lambda x: 1 / mp.sqrt(x), POSITIVE, {0.0: (-INF, INF), INF: (0.0, 0.0)}),
    # At 0 the second derivative is infinite, of one sign on each side.
    unary(
        "cbrt", "enp.cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), NONZERO, {0.0: (INF, -INF), **flat_ends()}
    ),
    unary("square", "enp.square", lambda x: x * x, WHOLE),
    unary("reciprocal", "enp.reciprocal", lambda x: 1 / x, NONZERO, {0.0: (-INF, INF), **flat_ends()}),
    unary("x**0", "lambda x: x**0", lambda x: x * 0 + 1, WHOLE, flat_ends()),
    unary("x**1", "lambda x: x**1", lambda x: x, WHOLE, flat_ends(1.0, 1.0)),
    unary("x**2", "lambda x: x**2", lambda x: x**2, WHOLE),
    unary("x**3", "lambda x: x**3", lambda x: x**3, WHOLE),
    unary("x**-2", "lambda x: x**-2", lambda x: x**-2, NONZERO, {0.0: (-INF, INF), **flat_ends()}),
    unary("x**0.5", "lambda x: x**0.5", mp.sqrt, POSITIVE, {0.0: (INF, -INF), INF: (0.0, 0.0)}),
    unary("x**1.5", "lambda x: x**1.5", lambda x: x * mp.sqrt(x), POSITIVE, {0.0: (0.0, INF)}),
    unary("x**2.0", "lambda x: x**2.0", lambda x: x**2, WHOLE),
    unary("1.0**x", "lambda x: 1.0**x", lambda x: x * 0 + 1, FAR),
    unary(
        "2.0**x", "lambda x: 2.0**x", lambda x: mpmath.mpf(2) ** x, WHOLE, {-INF: (0.0, 0.0), INF: (INF, INF)}
    ),
    unary("integer_pow 5", "lambda x: lax.integer_pow(x, 5)", lambda x: x**5, WHOLE),
]

EXPONENTIALS = [
    unary("exp", "enp.exp", mp.exp, WHOLE, {-INF: (0.0, 0.0), INF: (INF, INF)}),
    unary("exp2", "enp.exp2", lambda x: mpmath.mpf(2) ** x, WHOLE, {-INF: (0.0, 0.0), INF: (INF, INF)}),
    unary("expm1", "enp.expm1", mp.expm1, WHOLE, {-INF: (0.0, 0.0), INF: (INF, INF)}),
    unary("log", "enp.log", mp.log, POSITIVE, {0.0: (INF, -INF), INF: (0.0, 0.0)}),
    unary("log2", "enp.log2", lambda x: mp.log(x, 2), POSITIVE, {0.0: (INF, -INF), INF: (0.0, 0.0)}),
    unary("log10", "enp.log10", mp.log10, POSITIVE, {0.0: (INF, -INF), INF: (0.0, 0.0)}),
    unary(
        "log1p",
        "enp.log1p",
        mp.log1p,
        (*TINY, -0.5, -1 + 1e-6, 3.0, 1e4, 1e10, 1e20),
        {-1.0: (INF, -INF), INF: (0.0, 0.0)},
    ),
    unary("logistic", "lax.logistic", logistic_function, WHOLE, flat_ends(), zero_scale=FROM_RESULT),
    unary("tanh", "enp.tanh", mp.tanh, WHOLE, flat_ends(), zero_scale=FROM_RESULT),
]

TRIGONOMETRY = [
    unary("sin", "enp.sin", mp.sin, (*FAR, *signed(math.pi / 2))),
    unary("cos", "enp.cos", mp.cos, (*FAR, *signed(math.pi / 2))),
    unary("tan", "enp.tan", mp.tan, (*FAR, 1.5707, 1.5708)),
    unary("arcsin", "enp.arcsin", mp.asin, INSIDE, {1.0: (INF, INF), -1.0: (INF, -INF)}),
    unary("arccos", "enp.arccos", mp.acos, INSIDE, {1.0: (-INF, -INF), -1.0: (-INF, INF)}),
    unary("arctan", "enp.arctan", mp.atan, WHOLE, flat_ends()),
    unary("sinh", "enp.sinh", mp.sinh, WHOLE, {-INF: (INF, -INF), INF: (INF, INF)}),
    unary("cosh", "enp.cosh", mp.cosh, WHOLE, {-INF: (-INF, INF), INF: (INF, INF)}),
    unary("arcsinh", "enp.arcsinh", mp.asinh, WHOLE, flat_ends()),
    unary(
        "arccosh",
        "enp.arccosh",
        mp.acosh,
        (1 + 1e-6, 1 + 1e-3, 1.5, 3.0, 1e4, 1e10, 1e20),
        {1.0: (INF, -INF), INF: (0.0, 0.0)},
    ),
    unary("arctanh", "enp.arctanh", mp.atanh, INSIDE, {1.0: (INF, INF), -1.0: (INF, -INF)}),
    unary(
        "sinc",
        "enp.sinc",
        lambda x: mp.sinc(mp.pi * x),
        (*TINY, *signed(0.3, 0.5, 0.63, 0.64, 1.0, 2.5)),
        zero_scale=(8.0, 32.0),
    ),
]


KINKS: list[DerivativeRow] = [
    unary("absolute", "enp.absolute", abs, NONZERO, {0.0: (1.0, 0.0), **flat_ends(-1.0, 1.0)}),
    unary("sign", "enp.sign", mp.sign, NONZERO, {0.0: (0.0, 0.0), **flat_ends()}),
    unary("floor", "enp.floor", lambda x: x * 0, NONZERO, {1.0: (0.0, 0.0), **flat_ends()}),
    unary("relu", "nn.relu", lambda x: max(x, x * 0), NONZERO, {0.0: (0.0, 0.0), **flat_ends(0.0, 1.0)}),
    unary(
        "relu6",
        "nn.relu6",
        lambda x: min(max(x, x * 0), mpmath.mpf(6)),
        NONZERO,
        {0.0: (0.0, 0.0), 6.0: (0.0, 0.0), **flat_ends()},
    ),
    unary(
        "hard_tanh",
        "nn.hard_tanh",
        lambda x: max(min(x, mpmath.mpf(1)), -mpmath.mpf(1)),
        [x for x in WHOLE if abs(x) != 1],
        {1.0: (1.0, 0.0), -1.0: (1.0, 0.0), **flat_ends()},
    ),
    unary(
        "leaky_relu",
        "nn.leaky_relu",
        lambda x: x if x > 0 else x / 100,
        NONZERO,
        {0.0: (1.0, 0.0), **flat_ends(0.01, 1.0)},
    ),
    unary(
        "sparse_plus",
        "nn.sparse_plus",
        lambda x: (x + 1) ** 2 / 4 if abs(x) < 1 else max(x, x * 0),
        [x for x in WHOLE if abs(x) != 1],
        {1.0: (1.0, 0.0), -1.0: (0.0, 0.0), **flat_ends(0.0, 1.0)},
    ),
    unary(
        "nan_to_num",
        "enp.nan_to_num",
        lambda x: x,
        WHOLE,
        {INF: (0.0, 0.0), -INF: (0.0, 0.0), NAN: (0.0, 0.0)},
    ),
]

ACTIVATIONS = [
    unary("sigmoid", "nn.sigmoid", logistic_function, WHOLE, flat_ends(), zero_scale=FROM_RESULT),
    unary(
        "silu",
        "nn.silu",
        lambda x: x * logistic_function(x),
        WHOLE,
        digits=110,
        zero_scale=(1.0, 16.0),
        excused=excuse(UNDEFINED_PRODUCT, -INF),
    ),
    unary("softplus", "nn.softplus", _softplus, WHOLE, flat_ends(0.0, 1.0)),
    unary("log_sigmoid", "nn.log_sigmoid", lambda x: -_softplus(-x), WHOLE, flat_ends(1.0, 0.0)),
    unary(
        "soft_sign",
        "nn.soft_sign",
        lambda x: x / (1 + abs(x)),
        NONZERO,
        {0.0: (1.0, NAN), **flat_ends()},
    ),
    unary("tanh", "nn.tanh", mp.tanh, WHOLE, flat_ends(), zero_scale=FROM_RESULT),
    unary("elu", "nn.elu", _elu(1.0), NONZERO, {0.0: (1.0, NAN), **flat_ends(0.0, 1.0)}),
    unary(
        "selu",
        "nn.selu",
        _elu(SELU_ALPHA, SELU_SCALE),
        NONZERO,
        {0.0: (NAN, NAN), **flat_ends(0.0, SELU_SCALE)},
    ),
    unary(
        "celu",
        "lambda x: nn.celu(x, 2.0)",
        _elu(2.0, 1.0, 2.0),
        NONZERO,
        {0.0: (1.0, NAN), **flat_ends(0.0, 1.0)},
    ),
    unary("gelu by tanh", "nn.gelu", _gelu_by_tanh, FAR, slack=4.0, zero_scale=(16.0, 64.0)),
    unary("gelu", "lambda x: nn.gelu(x, approximate=False)", lambda x: x * normal_probability(x), FAR),
    unary(
        "squareplus",
        "nn.squareplus",
        lambda x: (x + mp.sqrt(x * x + 4)) / 2,
        WHOLE,
        flat_ends(0.0, 1.0),
        digits=110,
    ),
    unary("mish", "nn.mish", lambda x: x * mp.tanh(_softplus(x)), FAR, zero_scale=(2.0, 64.0)),
    unary(
        "hard_silu",
        "nn.hard_silu",
        lambda x: x * min(max(x + 3, x * 0), mpmath.mpf(6)) / 6,
        [x for x in FAR if abs(x) != 3],
    ),
    unary("log1mexp", "nn.log1mexp", lambda x: mp.log(-mp.expm1(-x)), [x for x in FAR if x > 0]),
]


def binary(
    name: str,
    function: str,
    oracle: Callable[..., Number],
    points: Sequence[Point],
    limits: dict[Point, dict[Order, float]] | None = None,
    **more: Number,
) -> DerivativeRow:
    """Returns a row of a function of two numbers."""
    return DerivativeRow(name, function, oracle, points, limits or {}, **more)


def every(*values: float) -> dict[Order, float]:
    """Returns the five derivatives of a function of two numbers: by first, second, first twice, mixed, second twice."""
    return dict(zip([(0,), (1,), (0, 0), (0, 1), (1, 1)], values, strict=True))


PAIRS: tuple[Point, ...] = (
    (1.0, 1.0), (2.0, 0.5), (-2.0, 0.5), (2.0, -0.5), (-3.0, -3.0), (0.0, 5.0), (5.0, 0.0), (0.0, -5.0), (1.0, 1e-8),
    (1e-8, 1.0), (1e-3, 1e3), (40.0, -40.0), (1e10, 1e10), (1e10, 1.0),
)  # fmt: skip
UNBOUNDED: tuple[Point, ...] = ((1e20, 1e20), (1e20, 1.0), (1.0, 1e20), (1e-30, 1e-30), (1e-30, 1e-25))


def _wins(x: Number, y: Number) -> Number:
    return max(y, x)


def _angle(y: Number, x: Number) -> Number:
    return mp.atan2(y, x)


def _log_add(x: Number, y: Number) -> Number:
    high = max(x, y)
    return high + mp.log(mp.exp(x - high) + mp.exp(y - high))


def _log_add_slopes() -> dict[tuple[int, ...], Callable[..., Number]]:
    def s(x: Number, y: Number) -> Number:
        return logistic_function(x - y)

    return {
        (0,): s,
        (1,): lambda x, y: s(y, x),
        (0, 0): lambda x, y: s(x, y) * s(y, x),
        (0, 1): lambda x, y: -s(x, y) * s(y, x),
        (1, 1): lambda x, y: s(x, y) * s(y, x),
        (0, 0, 0): lambda x, y: s(x, y) * s(y, x) * (s(y, x) - s(x, y)),
        (0, 0, 1): lambda x, y: -s(x, y) * s(y, x) * (s(y, x) - s(x, y)),
        (0, 1, 1): lambda x, y: s(x, y) * s(y, x) * (s(y, x) - s(x, y)),
        (1, 1, 1): lambda x, y: -s(x, y) * s(y, x) * (s(y, x) - s(x, y)),
    }


KNOWN_ORIGIN = "the direction of the origin is not defined"
JUMP = "0**y jumps at y = 0"

TWO_OPERANDS = [
    binary("divide", "enp.divide", lambda x, y: x / y, [p for p in (*PAIRS, *UNBOUNDED) if p[1]], slack=1.0),
    binary(
        "hypot",
        "enp.hypot",
        mp.hypot,
        (*PAIRS, *UNBOUNDED),
        {
            (0.0, 0.0): {(0,): 0.0, (1,): 0.0},
            (INF, 1.0): every(1.0, 0.0, 0.0, 0.0, 0.0),
            (1.0, -INF): every(0.0, -1.0, 0.0, 0.0, 0.0),
        },
    ),
    binary(
        "norm",
        "lambda x, y: enp.linalg.norm(enp.stack([x, y]), axis=0)",
        mp.hypot,
        PAIRS,
        # Its derivative is that of a root: 1 - (x / length)² cancels where y is small.
        zero_scale=(0.0, 4.0),
    ),
    binary("arctan2", "enp.arctan2", _angle, [p for p in (*PAIRS, *UNBOUNDED) if p[0] or p[1] > 0]),
    binary(
        "power",
        "enp.power",
        lambda x, y: x**y,
        (
            (2.0, 3.0),
            (2.0, 0.0),
            (0.5, 0.0),
            (3.0, 1.0),
            (3.0, 2.0),
            (1e-8, 0.0),
            (1e-3, 0.5),
            (1.0, 0.0),
            (1.0, 5.0),
            (1e10, 0.0),
            (1e10, -1.0),
            (2.0, -3.0),
            (3.0, 1e-8),
            (3.0, 1e-30),
        ),
        {
            (0.0, 2.0): every(0.0, 0.0, 2.0, 0.0, 0.0),
            (0.0, 3.0): every(0.0, 0.0, 0.0, 0.0, 0.0),
            (-2.0, 3.0): every(12.0, NAN, -12.0, NAN, NAN),
            (-2.0, 0.0): every(0.0, NAN, 0.0, NAN, NAN),
            (0.0, 0.0): every(0.0, 0.0, 0.0, NAN, NAN),
            (0.0, 1.0): every(1.0, 0.0, 0.0, NAN, 0.0),
        },
    ),
    binary(
        "maximum",
        "enp.maximum",
        _wins,
        [p for p in PAIRS if p[0] != p[1]],
        {(1.0, 1.0): every(0.5, 0.5, 0.0, 0.0, 0.0), (INF, 1.0): every(1.0, 0.0, 0.0, 0.0, 0.0)},
    ),
    binary(
        "fmax",
        "enp.fmax",
        _wins,
        [p for p in PAIRS if p[0] != p[1]],
        {(NAN, 1.0): every(0.0, 1.0, 0.0, 0.0, 0.0), (1.0, NAN): every(1.0, 0.0, 0.0, 0.0, 0.0)},
    ),
    binary(
        "logaddexp",
        "enp.logaddexp",
        _log_add,
        PAIRS,
        {
            (INF, 1.0): every(1.0, 0.0, 0.0, 0.0, 0.0),
            (1.0, -INF): every(1.0, 0.0, 0.0, 0.0, 0.0),
            (-INF, 1.0): every(0.0, 1.0, 0.0, 0.0, 0.0),
        },
        slopes=_log_add_slopes(),
        zero_scale=(0.0, 1.0),
    ),
    binary(
        "logaddexp2",
        "enp.logaddexp2",
        lambda x, y: _log_add(x * mp.log(2), y * mp.log(2)) / mp.log(2),
        [p for p in PAIRS if abs(p[0]) < 1e9],
        zero_scale=(0.0, 1.0),
        digits=110,
    ),
    binary(
        "logsumexp",
        "lambda x, y: nn.logsumexp(enp.stack([x, y]), axis=0)",
        _log_add,
        PAIRS,
        {(1.0, -INF): every(1.0, 0.0, 0.0, 0.0, 0.0), (-INF, 1.0): every(0.0, 1.0, 0.0, 0.0, 0.0)},
        slopes=_log_add_slopes(),
        zero_scale=(0.0, 1.0),
    ),
    binary(
        "softmax",
        "lambda x, y: nn.softmax(enp.stack([x, y]), axis=0)[0]",
        lambda x, y: logistic_function(x - y),
        [p for p in PAIRS if abs(p[0]) < 1e9],
        # All elements' tangents are summed, which cancels where one has nearly all of the weight.
        zero_scale=(4.0, 4.0),
        digits=110,
    ),
    binary(
        "log_softmax",
        "lambda x, y: nn.log_softmax(enp.stack([x, y]), axis=0)[0]",
        lambda x, y: -_softplus(y - x),
        [p for p in PAIRS if abs(p[0]) < 1e9],
        zero_scale=(1.0, 1.0),
        digits=110,
    ),
    binary(
        "remainder",
        "enp.remainder",
        lambda x, y: x - y * mp.floor(x / y),
        [(5.0, 3.0), (-5.0, 3.0), (5.0, -3.0), (0.5, 1e10), (1e10, 3.0), (2.9999998, 0.1), (1e-3, 1e-8)],
        {(6.0, 3.0): every(1.0, -2.0, 0.0, 0.0, 0.0), (1.0, INF): every(1.0, 0.0, 0.0, 0.0, 0.0)},
    ),
    binary(
        "fmod",
        "enp.fmod",
        lambda x, y: x - y * mp.sign(x / y) * mp.floor(abs(x / y)),
        [(5.0, 3.0), (-5.0, 3.0), (5.0, -3.0), (0.5, 1e10), (1e10, 3.0), (2.9999998, 0.1), (1e-3, 1e-8)],
        {(6.0, 3.0): every(1.0, -2.0, 0.0, 0.0, 0.0), (1.0, INF): every(1.0, 0.0, 0.0, 0.0, 0.0)},
    ),
    binary(
        "copysign",
        "enp.copysign",
        lambda x, y: abs(x) * (mp.sign(y) or 1),
        [p for p in PAIRS if p[0] and p[1]],
        {(0.0, 1.0): every(1.0, 0.0, 0.0, 0.0, 0.0), (0.0, -1.0): every(-1.0, 0.0, 0.0, 0.0, 0.0)},
    ),
    binary(
        "squareplus by both",
        "nn.squareplus",
        lambda x, b: (x + mp.sqrt(x * x + b)) / 2,
        [(0.0, 4.0), (1.0, 4.0), (-1.0, 4.0), (-100.0, 1.0), (100.0, 1.0), (-1e20, 2.0), (1e20, 2.0)],
        digits=110,
        slack=2.0,
    ),
]

ROWS = [*ROOTS_AND_POWERS, *EXPONENTIALS, *TRIGONOMETRY, *KINKS, *ACTIVATIONS, *TWO_OPERANDS]
