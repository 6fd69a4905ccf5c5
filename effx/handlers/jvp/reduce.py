"""Tangents of reductions and cumulative reductions."""

import math

from effx.array import Array
from effx.array.arithmetic import where
from effx.array.indexing import gather_along_axis, iota_along_axis
from effx.array.prefixes import combine_prefixes, slice_axis
from effx.array.shaping import transpose
from effx.handlers.jvp.handler import Tangent, jvp_piecewise_constant, rule
from effx.ir.ops import compare as c
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.ops.convert import Convert
from effx.ir.ops.shape import BroadcastInDim, Concatenate, Pad, Reshape, Reverse, Slice
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.values.scalars import scalar

MUL, DIV, ADD = e.Mul(), e.Div(), e.Add()


def _broadcast_reduced(y: Array, x: Array, axes: tuple[int, ...]) -> Array:
    """Broadcasts a reduced value along the reduced axes."""
    return BroadcastInDim(x.type.shape, tuple([i for i in range(x.type.ndim) if i not in axes]))(y)


@rule(r.ReduceMax, r.ReduceMin)
def jvp_reduce_extremum(
    op: r.Reduction, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    # The extreme elements share the tangent evenly.
    (x,), (dx,) = primals, tangents
    y = op(x)
    assert dx is not None
    if math.prod(tuple([x.type.shape[i] for i in op.axes])) == 0:
        return y, None  # a reduction of no elements is a constant
    hit = Convert(x.type.dtype, x.type.weak)(c.Eq()(x, _broadcast_reduced(y, x, op.axes)))
    count = r.ReduceSum(op.axes)(hit)
    return y, DIV(r.ReduceSum(op.axes)(MUL(dx, hit)), count)


@rule(r.ReduceProd)
def jvp_product(
    op: r.ReduceProd, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    # d(prod x) = sum_i dx_i prod_{j != i} x_j, without a division, so that zeros do no harm.
    (x,), (dx,) = primals, tangents
    y = op(x)
    assert dx is not None
    if not op.axes or x.type.size == 0:
        return y, dx if not op.axes else r.ReduceSum(op.axes)(dx)
    if len(op.axes) == 1 and not is_symbolic(x.type.shape[op.axes[0]]):
        return y, r.ReduceSum(op.axes)(MUL(dx, _multiply_others(x, op.axes[0])))
    kept_axes = [i for i in range(x.type.ndim) if i not in op.axes]
    perm = (*kept_axes, *op.axes)
    sizes = tuple([x.type.shape[i] for i in kept_axes])
    axis = len(sizes)
    flat = Reshape((*sizes, x.type.size // math.prod(sizes)))(transpose(x, perm))
    if is_symbolic(flat.type.shape[axis]):
        others = MUL(_exclusive_products(flat, False), _exclusive_products(flat, True))
    else:
        others = _multiply_others(flat, axis)
    return y, r.ReduceSum((axis,))(MUL(Reshape(flat.type.shape)(transpose(dx, perm)), others))


def _multiply_others(x: Array, axis: int) -> Array:
    """Returns for each element along an axis the product of the others.

    The products of halves of halves are those of a tree; downwards each node's others are its parent's, times its sibling.
    Running products from both ends took twice the time along long rows, and ten times along short columns.
    """
    n = x.type.shape[axis]
    if n == 1:
        return BroadcastInDim(x.type.shape, ())(scalar(1, x.type.dtype))
    half = (n + 1) // 2
    first, second = slice_axis(x, axis, 0, half), slice_axis(x, axis, half, n)
    if n % 2:  # a one has no influence on products
        zeros = (0,) * x.type.ndim
        edge = tuple([int(i == axis) for i in range(x.type.ndim)])
        second = Pad(zeros, edge, zeros)(second, scalar(1, x.type.dtype))
    above = _multiply_others(MUL(first, second), axis)
    others = Concatenate(axis)(MUL(above, second), MUL(above, first))
    return slice_axis(others, axis, 0, n) if n % 2 else others


def _exclusive_products(x: Array, reverse: bool) -> Array:
    """Products of all elements before each one on the last axis (behind it, when reverse)."""
    ndim, shape = x.type.ndim, x.type.shape
    running = r.CumProd(ndim - 1, reverse)(x)
    if shape[-1] == 0:
        return running
    zeros = (0,) * ndim
    edge = (*zeros[1:], 1)
    one = scalar(1, x.type.dtype)
    if reverse:
        return Pad(zeros, edge, zeros)(Slice(edge, shape, (1,) * ndim)(running), one)
    return Pad(edge, zeros, zeros)(Slice(zeros, (*shape[:-1], shape[-1] - 1), (1,) * ndim)(running), one)


@rule(r.CumProd)
def jvp_cumulative_product(
    op: r.CumProd, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    # The prefixes of pairs (x, dx), which combine by the rule of products: no division, so that zeros do no harm.
    (x,), (dx,) = primals, tangents
    assert dx is not None
    pair = [x, dx]
    if op.reverse:
        pair = [Reverse((op.axis,))(part) for part in pair]
    tangent = combine_prefixes(_multiply_duals, pair, [op.axis, op.axis])[1]
    return op(x), Reverse((op.axis,))(tangent) if op.reverse else tangent


def _multiply_duals(left: list[Array], right: list[Array]) -> list[Array]:
    (x, dx), (y, dy) = left, right
    return [MUL(x, y), ADD(MUL(dx, y), MUL(x, dy))]


@rule(r.CumMax, r.CumMin)
def jvp_cumulative_extreme(
    op: r.Cumulative, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    # The tangent of the element that set the cumulative extreme: its index is the cumulative maximum of the
    # indices where x equals it.
    (x,), (dx,) = primals, tangents
    y = op(x)
    assert dx is not None
    index = iota_along_axis(x.type.shape, op.axis)
    sets = c.Eq()(x, y)
    if op.reverse:
        last = where(sets, index, scalar(x.type.shape[op.axis], index.type.dtype))
        source = r.CumMin(op.axis, True)(last)
    else:
        source = r.CumMax(op.axis)(where(sets, index, scalar(0, index.type.dtype)))
    return y, gather_along_axis(dx, source, op.axis)


rule(r.ReduceAnd, r.ReduceOr, r.ReduceXor, r.ArgReduction)(jvp_piecewise_constant)
