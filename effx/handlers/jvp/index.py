"""Tangents of gather and scatter."""

import math

import attrs

from effx import dtypes
from effx.array import Array
from effx.errors import NoRuleError
from effx.handlers.jvp.handler import Tangent, rule, zeros_like
from effx.ir.ops import compare as c
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import Convert
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.shape import BroadcastInDim, Iota, Reshape
from effx.ir.types import ArrayType, array_type
from effx.ir.values.scalars import scalar

MUL, ADD, DIV, SELECT = e.Mul(), e.Add(), e.Div(), e.Select()


@rule(Gather)
def jvp_gather(
    op: Gather, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    x, indices = primals
    dx = tangents[0]
    return op(x, indices), None if dx is None else op(dx, indices)


def gather_like(op: Scatter, x: ArrayType, updates: ArrayType) -> Gather:
    """Returns the gather that reads what the scatter writes."""
    removed = op.inserted + op.operand_batch
    window = iter([updates.shape[i] for i in op.window_dims])
    sizes = tuple([1 if i in removed else next(window) for i in range(x.ndim)])
    return Gather(
        op.window_dims,
        op.inserted,
        op.start_index_map,
        sizes,
        op.operand_batch,
        op.indices_batch,
        op.sorted,
        op.unique,
    )


@rule(Scatter)
def jvp_scatter(
    op: Scatter, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    x, indices, updates = primals
    dx, _, du = tangents
    z = op(x, indices, updates)
    if dx is None and du is None:
        return z, None
    starts = [n for i, n in enumerate(indices.type.shape[:-1]) if i not in op.indices_batch]
    if du is not None and op.combiner == "mul" and not op.unique and math.prod(starts) > 1:
        # The derivative by one of the factors at equal indices is the product of the others, which no scatter computes.
        raise NoRuleError(
            "scatter: products have no derivative by their factors where indices may be equal; "
            "unique_indices=True promises that they are not"
        )
    dx = zeros_like(x) if dx is None else dx
    du = zeros_like(updates) if du is None else du
    add = attrs.evolve(op, combiner="add")
    if op.combiner == "add":
        return z, op(dx, indices, du)
    if op.combiner == "set":
        if op.unique:
            return z, op(dx, indices, du)
        return z, _set_tangent(op, x, indices, updates, dx, du)
    if op.combiner == "mul":
        others = gather_like(op, x.type, updates.type)(x, indices)
        return z, ADD(op(dx, indices, updates), add(zeros_like(x), indices, MUL(du, others)))
    # min and max: elements equal to the result pass on their tangents, evenly among equals.
    picked = gather_like(op, x.type, updates.type)(z, indices)
    from_x = Convert(x.type.dtype)(c.Eq()(x, z))
    from_u = Convert(x.type.dtype)(c.Eq()(updates, picked))
    count = add(from_x, indices, from_u)
    total = add(MUL(dx, from_x), indices, MUL(du, from_u))
    return z, DIV(total, count)


def _set_tangent(op: Scatter, x: Array, indices: Array, updates: Array, dx: Array, du: Array) -> Array:
    # With equal indices one update wins, which one is unspecified; the tangent must be that of the same
    # update. So scatter the updates' numbers first, and read back which one won at each index.
    number = _number_updates(updates)
    zero = BroadcastInDim(x.type.shape, ())(scalar(0, number.type.dtype))
    winners = op(zero, indices, number)
    won = c.Eq()(gather_like(op, x.type, updates.type)(winners, indices), number)
    written = c.Ne()(winners, scalar(0, number.type.dtype))
    kept_tangent = SELECT(written, dx, scalar(0, dx.type.dtype))
    written_tangent = SELECT(won, BroadcastInDim(du.type.shape, ())(scalar(0, du.type.dtype)), du)
    return attrs.evolve(op, combiner="add")(kept_tangent, indices, written_tangent)


def _number_updates(updates: Array) -> Array:
    """Returns 1, 2, 3, … in the shape of the updates."""
    count = array_type(dtypes.int32, (updates.type.size,))
    return ADD(Reshape(updates.type.shape)(Iota(count, 0)()), scalar(1, dtypes.int32))
