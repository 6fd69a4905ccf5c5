"""Tangents of elementwise operations and conversions whose derivative is no formula in their class."""

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert
from effx.effects import perform
from effx.handlers.jvp.handler import (
    Tangent,
    add_tangents,
    broadcast_tangent,
    jvp_linear,
    jvp_piecewise_constant,
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

SUB, MUL, DIV, NEG, SELECT = e.Sub(), e.Mul(), e.Div(), e.Neg(), e.Select()


@tangent_of(e.IntegerPow)
def _(op: e.IntegerPow, dx: Array, x: Array, y: Array) -> Array:
    n = op.exponent
    if n == 0:
        return zeros_like(x)
    return dx * (e.IntegerPow(n - 1)(x) * float(n))


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


rule(e.Conj, v.ReducePrecision)(jvp_linear)


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


rule(Iota, SizeValue)(jvp_piecewise_constant)


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
