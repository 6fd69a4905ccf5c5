"""Products of matrices whose rows are in groups of any sizes: each group is multiplied by a matrix of its own.

The groups are consecutive along the rows. A loop runs over the tiles of rows that groups overlap, so time and
memory grow with the rows and the groups' number, not with their product; on accelerators, few products are computed of
all rows and matrices.

Source: Gale et al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts", 2022.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic
from effx.array.indexing import gather_along_axis
from effx.array.promotion import broadcast_to, convert, zeros
from effx.array.shaping import concatenate, expand_dims, moveaxis, reshape
from effx.dtypes import DType
from effx.errors import DTypeError, ShapeError
from effx.handlers.staging.stage import stage
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Cotangent,
    LinearOperand,
    Tangent,
    Vmap,
    array_type,
    decomposes,
    jvp_rule,
    materialize,
    reference_rule,
    transpose_rule,
    vmap_rule,
)
from effx.ir.ops.base import check_arity, check_int, check_kind, types_text
from effx.ir.ops.control import While
from effx.ir.ops.linalg import DotGeneral, Precision, swap_precision
from effx.ir.ops.reduce import CumSum, ReduceSum
from effx.ir.ops.shape import BroadcastInDim, DynamicSlice, DynamicUpdateSlice, Iota, Slice
from effx.ir.passes.sharding_propagation import (
    DimensionShardings,
    MeshAxisNames,
    OperandShardings,
    sharding_rule,
)
from effx.ir.values.scalars import scalar
from effx.lower.text.emit import ACCELERATORS, emits_form

__all__ = ["GroupedMatmul", "GroupedOuter"]

Data = np.ndarray[Any, Any]
Operands = tuple[Array | LinearOperand, ...]
DEFAULT: Precision = ("DEFAULT", "DEFAULT")
INDEX = array_type(dtypes.int32)
ZERO = scalar(0, dtypes.int32, False)


def _check(op: ArrayOperation, types: tuple[ArrayType, ...], ranks: tuple[int, int, int]) -> None:
    check_arity(op, types, 3)
    lhs, rhs, bounds = types
    check_kind(op, lhs, "iufc", "lhs")
    if lhs.dtype != rhs.dtype:
        raise DTypeError(f"{op.name}: operand dtypes differ: lhs is {lhs!r}, rhs is {rhs!r}")
    if bounds.dtype != dtypes.int32:
        raise DTypeError(f"{op.name}: the groups' bounds must be i32, got {bounds!r}")
    if tuple([t.ndim for t in types]) != ranks:
        raise ShapeError(f"{op.name}: operands must have {ranks} axes, got {types_text(types)}")
    if bounds.shape[0] != lhs.shape[0] or not bounds.shape[1]:
        raise ShapeError(f"{op.name}: needs a row of bounds for each element of lhs, got {types_text(types)}")


@final
@attrs.frozen
class GroupedMatmul(ArrayOperation):
    """Multiplies each group of rows by a matrix of its own; rows of no group give 0.

    Operands: lhs `[p, m, k]`, rhs `[b, g, k, n]`, and bounds `i32[p, g + 1]` that do not decrease: group i has the rows
    from the i-th bound to the next one. p is a multiple of b: p / b consecutive elements of lhs are multiplied by each
    of rhs.
    Result: `[p, m, n]`.

    Attributes:
        precision, preferred: as of dot_general.
    """

    precision: Precision = DEFAULT
    preferred: DType | None = None

    def infer(self, *types: ArrayType) -> ArrayType:
        """The axes p, m and n."""
        _check(self, types, (3, 4, 2))
        lhs, rhs, bounds = types
        (p, m, k), (b, g, k2, n) = lhs.shape, rhs.shape
        if k != k2 or bounds.shape[1] != g + 1 or (p % b if b else p):
            raise ShapeError(f"{self.name}: sizes do not fit: {types_text(types)}")
        return array_type(lhs.dtype if self.preferred is None else self.preferred, (p, m, n))


@final
@attrs.frozen
class GroupedOuter(ArrayOperation):
    """Multiplies the transposed rows of lhs and the rows of rhs, for each group of rows.

    Operands: lhs `[p, m, k]`, rhs `[p, m, n]`, and bounds `i32[p, g + 1]` as of GroupedMatmul.
    Result: `[p / summed, g, k, n]`, a group without rows gives 0.

    Attributes:
        summed: the number of consecutive elements whose products are added.
        precision, preferred: as of dot_general.
    """

    summed: int = attrs.field(default=1, validator=check_int)
    precision: Precision = DEFAULT
    preferred: DType | None = None

    def infer(self, *types: ArrayType) -> ArrayType:
        """The axes p / summed, g, k and n."""
        _check(self, types, (3, 3, 2))
        lhs, rhs, bounds = types
        if lhs.shape[:2] != rhs.shape[:2] or self.summed < 1 or lhs.shape[0] % self.summed:
            raise ShapeError(f"{self.name}: sizes do not fit: {types_text(types)}")
        shape = (lhs.shape[0] // self.summed, bounds.shape[1] - 1, lhs.shape[2], rhs.shape[2])
        return array_type(lhs.dtype if self.preferred is None else self.preferred, shape)


@sharding_rule(GroupedMatmul)
def infer_grouped_matmul_sharding(op: GroupedMatmul, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded as the first axis of lhs and the last one of rhs; rows are replicated."""
    lhs, rhs, bounds = shardings.mesh_axes
    shardings.require_unsharded(0, (1, 2), "in which groups lie, or over which it sums")
    shardings.require_unsharded(1, (0, 1, 2), "along which groups find their matrices, or over which it sums")
    shardings.require_unsharded(2, (1,), "which holds the groups' bounds")
    return [(shardings.merge_axes(lhs[0], bounds[0], "axis 0"), (), rhs[3])]


@sharding_rule(GroupedOuter)
def infer_grouped_outer_sharding(op: GroupedOuter, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded as the first axis, if its elements are not added, and the last axes of both; rows are replicated."""
    for k in range(3):
        shardings.require_unsharded(k, (1,), "in which groups lie")
        if op.summed > 1:
            shardings.require_unsharded(k, (0,), "of which elements are added")
    first: MeshAxisNames = ()
    for cuts in shardings.mesh_axes if op.summed == 1 else ():
        first = shardings.merge_axes(first, cuts[0], "axis 0")
    return [(first, (), shardings.mesh_axes[0][2], shardings.mesh_axes[1][2])]


# --- value ----------------------------------------------------------------------------------------


def _tile_rows(rows: int, groups: int) -> int:
    """Returns how many rows an iteration takes: about half a group, so that few are wasted."""
    target_rows = max(16, min(256, rows // max(2 * groups, 1)))
    return min(rows, 1 << (target_rows - 1).bit_length())


def _dynamic_rows(x: Array, start: Array, size: int) -> Array:
    """Returns `x[start : start + size]`."""
    return DynamicSlice((size, *x.type.shape[1:]))(x, start, *[ZERO] * (x.type.ndim - 1))


def _update_rows(x: Array, part: Array, start: Array) -> Array:
    return DynamicUpdateSlice()(x, part, start, *[ZERO] * (x.type.ndim - 1))


def _row_at(x: Array, row_index: Array) -> Array:
    return reshape(_dynamic_rows(x, row_index, 1), x.type.shape[1:])


def _sum_dtype(dtype: DType) -> DType:
    return dtypes.float32 if dtype.kind in "fV" and dtypes.bits(dtype) < 32 else dtype


def _loop_over_tiles(
    rows: int,
    bounds: Array,
    fixed: Sequence[Array],
    total: Array,
    add: Callable[[Array, Sequence[Array], Array, Array, Array], Array],
) -> Array:
    """Runs `total = add(total, fixed, start, mask, group)` for each tile of rows that a group overlaps.

    Args:
        rows: of each element. The elements of a batch are taken as rows one after the other.
        bounds: i32[p, g + 1].
        fixed: what `add` is given.
        total: the initial value.
        add: takes the tile's first row, a mask of the rows that are the group's, and the group's number of all p * g.
    """
    p, groups = bounds.type.shape[0], bounds.type.shape[1] - 1
    count, everything = p * groups, p * rows
    if not count or not everything:
        return total
    size = _tile_rows(everything, count)
    inside = arithmetic.clip(bounds, 0, rows) + Iota(array_type(dtypes.int32, (p, groups + 1)), 0)() * rows
    starts = reshape(Slice((0, 0), (p, groups), (1, 1))(inside), (count,))
    ends = reshape(Slice((0, 1), (p, groups + 1), (1, 1))(inside), (count,))
    first = arithmetic.floor_divide(starts, size)
    tiles = arithmetic.where(ends > starts, arithmetic.floor_divide(ends - 1, size) - first + 1, 0)
    done = CumSum(0)(tiles)
    table = (starts, ends, first - done + tiles, done)
    last = _row_at(done, scalar(count - 1, dtypes.int32, False))

    def condition(xs: list[Array]) -> list[Array]:
        return [xs[-2] < xs[0]]

    def iteration(xs: list[Array]) -> list[Array]:
        starts, ends, shift, done = xs[1:5]
        step, now = xs[-2:]
        group = ReduceSum((0,))(convert(done <= step, dtypes.int32))
        row = (_row_at(shift, group) + step) * size
        # The last tile begins earlier, and its rows before the unclamped start are another tile's.
        begin = arithmetic.minimum(row, everything - size)
        row_indices = begin + Iota(array_type(dtypes.int32, (size,)), 0)()
        mine = (row_indices >= arithmetic.maximum(_row_at(starts, group), row)) & (
            row_indices < _row_at(ends, group)
        )
        return [step + 1, add(now, xs[5:-2], begin, mine, group)]

    constants = [last, *table, *fixed]
    types = [x.type for x in (*constants, ZERO, total)]
    test, step = stage(condition, types, "goes_on"), stage(iteration, types, "iteration")
    return While(test.program, step.program, len(constants))(*constants, ZERO, total)[1]


@decomposes(GroupedMatmul)
def multiply_in_tiles(op: GroupedMatmul, lhs: Array, rhs: Array, bounds: Array) -> Array:
    out = op.infer(lhs.type, rhs.type, bounds.type)
    (p, m, k), (b, g, _, n) = lhs.type.shape, rhs.type.shape
    product = DotGeneral((1,), (0,), (), (), op.precision, out.dtype)
    repeats = p // b if b else 1

    def add(now: Array, fixed: Sequence[Array], row: Array, mine: Array, group: Array) -> Array:
        rows, matrices = fixed
        size = mine.type.shape[0]
        matrix_index = group
        if repeats > 1:
            matrix_index = arithmetic.floor_divide(group, g * repeats) * g + arithmetic.remainder(group, g)
        products = product(_dynamic_rows(rows, row, size), _row_at(matrices, matrix_index))
        mask = broadcast_to(expand_dims(mine, (1,)), (size, n))
        return _update_rows(now, arithmetic.where(mask, products, _dynamic_rows(now, row, size)), row)

    flat = zeros(array_type(out.dtype, (p * m, n)))
    if 0 in out.shape or not k:
        return zeros(out)
    fixed = (reshape(lhs, (p * m, k)), reshape(rhs, (b * g, k, n)))
    return reshape(_loop_over_tiles(m, bounds, fixed, flat, add), out.shape)


@decomposes(GroupedOuter)
def add_products_in_tiles(op: GroupedOuter, lhs: Array, rhs: Array, bounds: Array) -> Array:
    out = op.infer(lhs.type, rhs.type, bounds.type)
    (p, m, k), n, g = lhs.type.shape, rhs.type.shape[2], bounds.type.shape[1] - 1
    wide = _sum_dtype(out.dtype)
    product = DotGeneral((0,), (0,), (), (), op.precision, wide)
    repeats = op.summed

    def add(now: Array, fixed: Sequence[Array], row: Array, mine: Array, group: Array) -> Array:
        size = mine.type.shape[0]
        # Both are masked, since a row of another group may hold an infinity.
        parts = [
            arithmetic.where(
                broadcast_to(expand_dims(mine, (1,)), (size, x.type.shape[1])),
                _dynamic_rows(x, row, size),
                scalar(0, x.type.dtype),
            )
            for x in fixed
        ]
        result_index = group
        if repeats > 1:
            result_index = arithmetic.floor_divide(group, g * repeats) * g + arithmetic.remainder(group, g)
        products = reshape(product(*parts), (1, k, n))
        return _update_rows(now, _dynamic_rows(now, result_index, 1) + products, result_index)

    if 0 in out.shape or not m:
        return zeros(out)
    flat = zeros(array_type(wide, (out.shape[0] * g, k, n)))
    fixed = (reshape(lhs, (p * m, k)), reshape(rhs, (p * m, n)))
    return reshape(convert(_loop_over_tiles(m, bounds, fixed, flat, add), out.dtype), out.shape)


# A GPU's or TPU's loop waits for the device at each tile. It has computed so many products, and written so many numbers,
# by the time that the loop has begun: 268 million of the former took 222 us in a loop, 47 at once (H200).
MULTIPLIED, WRITTEN = 1 << 32, 1 << 24


def _mask_groups(bounds: Array, rows: int) -> Array:
    """Says for each row `[p, rows, g]` whether it is each group's."""
    p, g = bounds.type.shape[0], bounds.type.shape[1] - 1
    shape = (p, rows, g)
    row_indices = Iota(array_type(dtypes.int32, shape), 1)()
    begins, ends = [
        BroadcastInDim(shape, (0, 2))(Slice((0, i), (p, g + i), (1, 1))(bounds)) for i in range(2)
    ]
    return (row_indices >= begins) & (row_indices < ends)


@emits_form(GroupedMatmul, *ACCELERATORS)
def multiply_by_all_matrices(op: GroupedMatmul, lhs: Array, rhs: Array, bounds: Array) -> Array:
    """Multiplies rows by the matrices of all groups at once, and keeps the products of its own group for each."""
    out = op.infer(lhs.type, rhs.type, bounds.type)
    (p, m, k), (b, g, _, n) = lhs.type.shape, rhs.type.shape
    if p * m * k * g * n > MULTIPLIED or p * m * g * n > WRITTEN or not out.size or not k:
        return multiply_in_tiles(op, lhs, rhs, bounds)
    product = DotGeneral((2,), (2,), (0,), (0,), op.precision, out.dtype)
    products = product(reshape(lhs, (b, p // b * m, k)), rhs)  # [b, p / b * m, g, n]
    shape = (p, m, g, n)
    mask = BroadcastInDim(shape, (0, 1, 2))(_mask_groups(bounds, m))
    return ReduceSum((2,))(arithmetic.where(mask, reshape(products, shape), scalar(0, out.dtype, False)))


@emits_form(GroupedOuter, *ACCELERATORS)
def multiply_masked_rows(op: GroupedOuter, lhs: Array, rhs: Array, bounds: Array) -> Array:
    """Multiplies the rows of all groups at once: of each group with zeros in the place of other groups' rows."""
    out = op.infer(lhs.type, rhs.type, bounds.type)
    (p, m, k), n, g = lhs.type.shape, rhs.type.shape[2], bounds.type.shape[1] - 1
    if p * m * k * g * n > MULTIPLIED or p * m * g * (k + n) > WRITTEN or not out.size or not m:
        return add_products_in_tiles(op, lhs, rhs, bounds)
    mask = _mask_groups(bounds, m)
    # Both are masked, since a row of another group may hold an infinity.
    parts = []
    for x, size in ((lhs, k), (rhs, n)):
        shape = (p, m, g, size)
        of_group = arithmetic.where(
            BroadcastInDim(shape, (0, 1, 2))(mask),
            BroadcastInDim(shape, (0, 1, 3))(x),
            scalar(0, x.type.dtype, False),
        )
        parts.append(reshape(of_group, (p // op.summed, op.summed * m, g, size)))
    product = DotGeneral((1,), (1,), (0, 2), (0, 2), op.precision, _sum_dtype(out.dtype))
    return convert(product(*parts), out.dtype)


@reference_rule(GroupedMatmul)
def _(op: GroupedMatmul, lhs: Data, rhs: Data, bounds: Data) -> Data:
    dtype = lhs.dtype if op.preferred is None else op.preferred
    (p, m, _), (b, g, _, n) = lhs.shape, rhs.shape
    out = np.zeros((p, m, n), dtype)
    for i in range(p):
        for j in range(g):
            rows = slice(*np.clip(bounds[i, j : j + 2], 0, m))
            out[i, rows] = (_widen(lhs[i, rows], dtype) @ _widen(rhs[i // (p // b), j], dtype)).astype(dtype)
    return out


@reference_rule(GroupedOuter)
def _(op: GroupedOuter, lhs: Data, rhs: Data, bounds: Data) -> Data:
    dtype = lhs.dtype if op.preferred is None else op.preferred
    (p, m, k), n, g = lhs.shape, rhs.shape[2], bounds.shape[1] - 1
    out = np.zeros((p // op.summed, g, k, n), _widen(lhs[:0], dtype).dtype)
    for i in range(p):
        for j in range(g):
            rows = slice(*np.clip(bounds[i, j : j + 2], 0, m))
            out[i // op.summed, j] += _widen(lhs[i, rows], dtype).T @ _widen(rhs[i, rows], dtype)
    return out.astype(dtype)


def _widen(x: Data, dtype: DType) -> Data:
    kind = {"c": np.complex128, "f": np.float64, "V": np.float64}.get(dtype.kind, dtype)
    return x.astype(dtype).astype(kind)


# --- derivatives ----------------------------------------------------------------------------------


@jvp_rule(GroupedMatmul, GroupedOuter)
def _(op: ArrayOperation, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    (x, y, bounds), (dx, dy, _) = primals, tangents
    first = None if dx is None else op(dx, y, bounds)
    second = None if dy is None else op(x, dy, bounds)
    return op(x, y, bounds), first if second is None else second if first is None else first + second


def _match_cotangent_dtype(ct: Array, known: Array) -> Array:
    return ct if ct.type.dtype == known.type.dtype else convert(ct, known.type.dtype)


def _transpose_matrices(x: Array) -> Array:
    return moveaxis(x, -1, -2)


@transpose_rule(GroupedMatmul)
def _(op: GroupedMatmul, ct: Array, operands: Operands) -> tuple[Cotangent, ...]:
    lhs, rhs, bounds = operands
    assert not isinstance(bounds, LinearOperand)
    if isinstance(lhs, LinearOperand):
        assert not isinstance(rhs, LinearOperand)
        operand_ct = GroupedMatmul(op.precision)(
            _match_cotangent_dtype(ct, rhs), _transpose_matrices(rhs), bounds
        )
        return convert(operand_ct, lhs.type.dtype, lhs.type.weak), None, None
    assert isinstance(rhs, LinearOperand)
    p, b = lhs.type.shape[0], rhs.type.shape[0]
    if not p or not b:
        return None, zeros(rhs.type), None
    operand_ct = GroupedOuter(p // b, op.precision)(lhs, _match_cotangent_dtype(ct, lhs), bounds)
    return None, convert(operand_ct, rhs.type.dtype, rhs.type.weak), None


@transpose_rule(GroupedOuter)
def _(op: GroupedOuter, ct: Array, operands: Operands) -> tuple[Cotangent, ...]:
    lhs, rhs, bounds = operands
    assert not isinstance(bounds, LinearOperand)
    if isinstance(lhs, LinearOperand):
        assert not isinstance(rhs, LinearOperand)
        operand_ct = GroupedMatmul(swap_precision(op.precision))(
            rhs, _transpose_matrices(_match_cotangent_dtype(ct, rhs)), bounds
        )
        return convert(operand_ct, lhs.type.dtype, lhs.type.weak), None, None
    assert isinstance(rhs, LinearOperand)
    operand_ct = GroupedMatmul(op.precision)(lhs, _match_cotangent_dtype(ct, lhs), bounds)
    return None, convert(operand_ct, rhs.type.dtype, rhs.type.weak), None


# --- batching -------------------------------------------------------------------------------------


def _merge_leading_axes(x: Array) -> Array:
    """Merges the first two axes."""
    shape = x.type.shape
    return reshape(x, (shape[0] * shape[1], *shape[2:]))


@vmap_rule(GroupedMatmul)
def _(
    handler: Vmap, op: GroupedMatmul, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    lhs, rhs, bounds = values
    size = handler.size
    if axes[1] is None and size and rhs.type.shape[0]:
        # More elements of lhs are multiplied by the same element of rhs.
        b = rhs.type.shape[0]

        def beside(x: Array, axis: int | None) -> Array:
            x = materialize(handler, x, axis, 0)
            _, p, *rest = x.type.shape
            return reshape(moveaxis(reshape(x, (size, b, p // b, *rest)), 0, 1), (size * p, *rest))

        y = op(beside(lhs, axes[0]), rhs, beside(bounds, axes[2]))
        p, *rest = y.type.shape
        apart = moveaxis(reshape(y, (b, size, p // (b * size), *rest)), 1, 0)
        return reshape(apart, (size, p // size, *rest)), 0
    y = op(*[_merge_leading_axes(materialize(handler, x, a, 0)) for x, a in zip(values, axes, strict=True)])
    p, *rest = y.type.shape
    return reshape(y, (size, p // size if size else _element_shape(op, values, axes)[0], *rest)), 0


@vmap_rule(GroupedOuter)
def _(
    handler: Vmap, op: GroupedOuter, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    y = op(*[_merge_leading_axes(materialize(handler, x, a, 0)) for x, a in zip(values, axes, strict=True)])
    size, (p, *rest) = handler.size, y.type.shape
    return reshape(y, (size, p // size if size else _element_shape(op, values, axes)[0], *rest)), 0


def _element_shape(
    op: ArrayOperation, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[int, ...]:
    """Returns the shape of one batch element's result."""
    shapes = [x.type.shape for x in values]
    types = [
        x.type if a is None else x.type.with_shape(s[:a] + s[a + 1 :])
        for x, s, a in zip(values, shapes, axes, strict=True)
    ]
    return op.infer(*types).shape


def group_bounds(sizes: Array, offset: Array | None, groups: int) -> Array:
    """Returns the bounds of groups of these sizes.

    Args:
        sizes: integers `[p, h]`.
        offset: the first group; None for 0.
        groups: how many of them.
    """
    p = sizes.type.shape[0]
    ends = CumSum(1)(convert(sizes, dtypes.int32))
    bounds = concatenate([zeros(array_type(dtypes.int32, (p, 1))), ends], 1)
    if offset is None:
        return Slice((0, 0), (p, groups + 1), (1, 1))(bounds)
    boundary_indices = convert(offset, dtypes.int32) + Iota(array_type(dtypes.int32, (p, groups + 1)), 1)()
    limit = bounds.type.shape[1] - 1
    return gather_along_axis(bounds, arithmetic.clip(boundary_indices, 0, limit), 1)
