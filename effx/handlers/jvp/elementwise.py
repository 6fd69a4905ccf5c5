"""Tangents of elementwise operations, comparisons and conversions.

Each line is the derivative of the operation, named as in tables of derivatives: `x, y` operands,
`z` result, `dx, dy` tangents. For complex operands all functions here are holomorphic but abs,
real, imag and conj, whose rules are the real-linear ones.
"""

import math

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert
from effx.effects import perform
from effx.handlers.jvp.handler import (
    Tangent,
    add_tangents,
    broadcast_tangent,
    jvp_linear,
    register_partial_derivatives,
    rule,
    strengthen_tangents,
    tangent_of,
    zeros_like,
)
from effx.ir.ops import compare as c
from effx.ir.ops import convert as v
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.random import Threefry2x32
from effx.ir.ops.shape import Iota
from effx.ir.ops.sharding import Constrain, Move, Release
from effx.ir.ops.sizes import SizeValue
from effx.ir.values.scalars import scalar

ADD, SUB, MUL, DIV, NEG = e.Add(), e.Sub(), e.Mul(), e.Div(), e.Neg()
SELECT, SIN, COS, STOP = e.Select(), e.Sin(), e.Cos(), v.StopGradient()
ONE_MINUS_SQUARE = e.OneMinusSquare()


def _scaled_one_plus_square(x: Array) -> tuple[Array, Array]:
    """Returns 1 + x² where |x| is at most 1, else 1 + 1 / x², and the factor 1 or 1 / x: so nothing overflows."""
    one = scalar(1, x.type.dtype)
    near = c.Le()(e.Abs()(x), one)
    inverse = e.IntegerPow(-1)(SELECT(near, x, one))
    smaller = SELECT(near, inverse, x)
    return smaller * smaller + 1.0, SELECT(near, inverse, one)


def _atan_slope(x: Array) -> Array:
    if x.type.kind == "c":
        return e.IntegerPow(-1)(x * x + 1.0)
    total, inverse = _scaled_one_plus_square(x)
    return DIV(inverse * inverse, total)


def _asinh_slope(x: Array) -> Array:
    if x.type.kind == "c":
        return e.Rsqrt()(x * x + 1.0)
    total, inverse = _scaled_one_plus_square(x)
    return e.Abs()(inverse) * e.Rsqrt()(total)


tangent_of(e.Exp)(lambda op, dx, x, y: dx * y)
tangent_of(e.Exp2)(lambda op, dx, x, y: dx * y * math.log(2))
# Not y + 1, which has no digits where exp(x) is small.
tangent_of(e.Expm1)(lambda op, dx, x, y: dx * e.Exp()(x))
tangent_of(e.Log)(lambda op, dx, x, y: DIV(dx, x))
tangent_of(e.Log1p)(lambda op, dx, x, y: DIV(dx, x + 1.0))
tangent_of(e.Sqrt)(lambda op, dx, x, y: DIV(dx * 0.5, y))
tangent_of(e.Rsqrt)(lambda op, dx, x, y: DIV(dx * y * -0.5, x))
tangent_of(e.Cbrt)(lambda op, dx, x, y: dx * (e.IntegerPow(-2)(y) * (1 / 3)))
tangent_of(e.Square)(lambda op, dx, x, y: dx * (x * 2.0))
tangent_of(e.OneMinusSquare)(lambda op, dx, x, y: dx * (x * -2.0))
tangent_of(e.Sin)(lambda op, dx, x, y: dx * COS(x))
tangent_of(e.Cos)(lambda op, dx, x, y: dx * NEG(SIN(x)))
tangent_of(e.Tan)(lambda op, dx, x, y: dx * (y * y + 1.0))
tangent_of(e.Asin)(lambda op, dx, x, y: dx * e.Rsqrt()(ONE_MINUS_SQUARE(x)))
tangent_of(e.Acos)(lambda op, dx, x, y: NEG(dx * e.Rsqrt()(ONE_MINUS_SQUARE(x))))
tangent_of(e.Atan)(lambda op, dx, x, y: dx * _atan_slope(x))
tangent_of(e.Sinh)(lambda op, dx, x, y: dx * e.Cosh()(x))
tangent_of(e.Cosh)(lambda op, dx, x, y: dx * e.Sinh()(x))
# Of tanh and the logistic function from the result, although it has no digits of the slope where it rounds to 1: the next
# layer of a network keeps the result anyway. From x, 20 layers of 256 numbers take 1.9 times the memory and 1.4 times the
# time for a gradient.
tangent_of(e.Tanh)(lambda op, dx, x, y: dx * ONE_MINUS_SQUARE(y))
tangent_of(e.Asinh)(lambda op, dx, x, y: dx * _asinh_slope(x))
# (x - 1)(x + 1) keeps its digits near 1, where x * x - 1 loses them.
tangent_of(e.Acosh)(lambda op, dx, x, y: dx * (e.Rsqrt()(x - 1.0) * e.Rsqrt()(x + 1.0)))
tangent_of(e.Atanh)(lambda op, dx, x, y: DIV(dx, ONE_MINUS_SQUARE(x)))
tangent_of(e.Logistic)(lambda op, dx, x, y: dx * (y * (1.0 - y)))
tangent_of(e.IntegerPow)(lambda op, dx, x, y: _integer_power_tangent(op, dx, x))


def _integer_power_tangent(op: e.IntegerPow, dx: Array, x: Array) -> Array:
    n = op.exponent
    if n == 0:
        return zeros_like(x)
    return dx * (e.IntegerPow(n - 1)(x) * float(n))


@rule(e.Abs)
def jvp_abs(op: e.Abs, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    (x,), (dx,) = primals, tangents
    y = op(x)
    assert dx is not None
    if x.type.kind != "c":
        # At 0, as from the right.
        one = scalar(1, x.type.dtype)
        return y, dx * SELECT(c.Ge()(x, scalar(0, x.type.dtype)), NEG(one), one)
    # |x| grows by the part of dx along x: Re(conj(x) dx) / |x|, and 0 at 0.
    radial = e.Real()(MUL(e.Conj()(x), dx))
    zero = c.Eq()(y, scalar(0.0, y.type.dtype))
    safe = SELECT(zero, y, scalar(1.0, y.type.dtype, False))
    return y, DIV(radial, safe)


@rule(e.Sign)
def jvp_sign(op: e.Sign, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    # A complex s = x / |x| turns with the part of dx across x: i s Im(conj(s) dx) / |x|.
    (x,), (dx,) = primals, tangents
    s = op(x)
    if x.type.kind != "c":
        return s, None
    assert dx is not None
    size = e.Abs()(x)
    zero = scalar(0.0, size.type.dtype)
    angular = DIV(
        e.Imag()(MUL(e.Conj()(s), dx)), SELECT(c.Eq()(size, zero), size, scalar(1.0, size.type.dtype))
    )
    return s, MUL(s, e.Complex()(zero, angular))


register_partial_derivatives(
    e.Mul, lambda op, dx, x, y, z: perform(op, (dx, y)), lambda op, dy, x, y, z: perform(op, (x, dy))
)


@rule(e.Div)
def jvp_div(op: e.Div, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    # z = x / y moves by (dx - z dy) / y: one division for both tangents.
    x, y = primals
    z = op(x, y)
    dx, dy = strengthen_tangents(tangents, z)
    if dy is None:
        return z, None if dx is None else broadcast_tangent(op(dx, y), z)
    scaled = MUL(z, dy)
    return z, broadcast_tangent(op(NEG(scaled) if dx is None else SUB(dx, scaled), y), z)


# x rem y = x - n y, where the integer n is that of the remainder: x / y itself may be rounded to the next one.
register_partial_derivatives(
    e.Rem,
    lambda op, dx, x, y, z: dx,
    lambda op, dy, x, y, z: MUL(dy, NEG(e.RoundToEven()(DIV(SUB(x, z), y)))),
)


def _angle_slope(x: Array, y: Array) -> Array:
    # y / (x² + y²), in units of the larger one: squares over- and underflow.
    largest = scalar(float(dtypes.finfo(x.type.dtype).max), x.type.dtype)
    unit = STOP(e.Min()(e.Max()(e.Abs()(x), e.Abs()(y)), largest))
    p, q = DIV(x, unit), DIV(y, unit)
    # A product with 1 / unit: XLA would make of a second division one by unit², which overflows.
    return MUL(DIV(q, ADD(MUL(p, p), MUL(q, q))), e.IntegerPow(-1)(unit))


register_partial_derivatives(
    e.Atan2,
    lambda op, dx, x, y, z: MUL(dx, _angle_slope(x, y)),
    lambda op, dy, x, y, z: MUL(dy, NEG(_angle_slope(y, x))),
)


def _power_by_base(op: e.Pow, dx: Array, x: Array, y: Array, z: Array) -> Array:
    # y x^(y-1), and 0 where both are 0.
    zero = e.And()(c.Eq()(y, scalar(0, y.type.dtype)), c.Eq()(x, scalar(0, x.type.dtype)))
    exponent = SELECT(zero, SUB(y, scalar(1, y.type.dtype)), scalar(0, y.type.dtype))
    return MUL(dx, MUL(y, op(x, exponent)))


def _power_by_exponent(op: e.Pow, dy: Array, x: Array, y: Array, z: Array) -> Array:
    # x^y log x, and 0 at x = 0, where x^y is flat in y for y > 0.
    zero = c.Eq()(x, scalar(0, x.type.dtype))
    log = e.Log()(SELECT(zero, x, scalar(1, x.type.dtype)))
    return MUL(dy, MUL(log, z))


register_partial_derivatives(e.Pow, _power_by_base, _power_by_exponent)


def _extremum_tangent(op: e.Max | e.Min, d: Array, mine: Array, other: Array, z: Array) -> Array:
    # The larger (smaller) one passes its tangent on; at a tie each passes half.
    wins = (c.Gt() if type(op) is e.Max else c.Lt())(mine, other)
    tie = c.Eq()(mine, other)
    one, half, zero = [scalar(f, d.type.dtype, False) for f in (1.0, 0.5, 0.0)]
    return MUL(d, SELECT(tie, SELECT(wins, zero, one), half))


register_partial_derivatives(
    e.Max,
    lambda op, dx, x, y, z: _extremum_tangent(op, dx, x, y, z),
    lambda op, dy, x, y, z: _extremum_tangent(op, dy, y, x, z),
)
register_partial_derivatives(
    e.Min,
    lambda op, dx, x, y, z: _extremum_tangent(op, dx, x, y, z),
    lambda op, dy, x, y, z: _extremum_tangent(op, dy, y, x, z),
)
register_partial_derivatives(
    e.NextAfter,
    lambda op, dx, x, y, z: dx,
    lambda op, dy, x, y, z: zeros_like(z),
)


@rule(e.Add)
def jvp_add(op: e.Add, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    z = perform(op, primals)
    dx, dy = strengthen_tangents(tangents, z)
    if dx is not None and dy is not None:
        return z, perform(op, (dx, dy))
    return z, add_tangents(z, dx, dy)


@rule(e.Sub)
def jvp_sub(op: e.Sub, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    z = op(*primals)
    dx, dy = strengthen_tangents(tangents, z)
    if dx is not None and dy is not None:
        return z, op(dx, dy)
    return z, add_tangents(z, dx, None if dy is None else NEG(dy))


@rule(Identity)
def jvp_identity(
    op: ArrayOperation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    # The name stays on the primal: names select the residuals of linearisation.
    (x,), (dx,) = primals, tangents
    return op(x), dx


@rule(Move)
def jvp_move(op: Move, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    (x,), (dx,) = primals, tangents
    return op(x), None if dx is None else op(dx)


@rule(Constrain, Release)
def jvp_constrain(
    op: Identity, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    (x,), (dx,) = primals, tangents
    z = op(x)
    # Where types do not show shardings, the partitioner chooses the tangents'.
    return z, dx if dx is None or dx.type.explicit_sharding == z.type.explicit_sharding else op(dx)


rule(e.Real, e.Imag, e.Conj, v.ReducePrecision)(jvp_linear)


@rule(e.Complex)
def jvp_complex(
    op: e.Complex, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    z = op(*primals)
    parts = [zeros_like(x) if d is None else d for x, d in zip(primals, tangents, strict=True)]
    return z, broadcast_tangent(op(*parts), z)


@rule(e.Select)
def jvp_select(
    op: e.Select, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    which, *cases = primals
    z = op(*primals)
    case_tangents = [
        zeros_like(x) if d is None else d
        for x, d in zip(cases, strengthen_tangents(tangents[1:], z), strict=True)
    ]
    return z, broadcast_tangent(op(which, *case_tangents), z)


@rule(e.Clamp)
def jvp_clamp(
    op: e.Clamp, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    low, x, high = primals
    z = op(low, x, high)
    # At a bound it is flat, and so between bounds that leave nothing between them.
    dlow, dx, dhigh = tangents
    d: Array = scalar(0, x.type.dtype)
    if dx is not None:
        d = SELECT(e.And()(c.Gt()(x, low), c.Lt()(x, high)), d, dx)
    if dlow is not None:
        d = SELECT(e.And()(c.Lt()(x, low), c.Lt()(low, high)), d, dlow)
    if dhigh is not None:
        d = SELECT(c.Gt()(x, high), d, dhigh)
    return z, broadcast_tangent(d, z)


@rule(v.Convert)
def jvp_convert(
    op: v.Convert, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    (x,), (dx,) = primals, tangents
    y = op(x)
    return y, convert(dx, op.dtype, op.weak) if dx is not None and dtypes.is_inexact(op.dtype) else None


@rule(
    c.Comparison,
    v.StopGradient,
    v.Bitcast,
    e.IsFinite,
    e.Floor,
    e.Ceil,
    e.RoundToEven,
    e.RoundAwayFromZero,
    e.Not,
    e.And,
    e.Or,
    e.Xor,
    e.ShiftLeft,
    e.ShiftRightArithmetic,
    e.ShiftRightLogical,
    e.PopulationCount,
    e.CountLeadingZeros,
    Iota,
    SizeValue,
)
def jvp_piecewise_constant(
    op: ArrayOperation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """Piecewise constant, or of no real argument: the tangent is zero."""
    return op(*primals), None


@rule(Threefry2x32)
def jvp_threefry2x32(
    op: TupleOperation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    return op(*primals), (None, None)


@rule(v.OptimizationBarrier)
def jvp_optimization_barrier(
    op: TupleOperation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    present_tangents = [d for d in tangents if d is not None]
    barrier_tangents = iter(op(*present_tangents))
    return op(*primals), tuple([None if d is None else next(barrier_tangents) for d in tangents])
