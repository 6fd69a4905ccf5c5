"""The largest elements of rows and their indices, which XLA finds without a full sort."""

import math
from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import minimum, where
from effx.array.indexing import gather_along_axis
from effx.array.promotion import convert
from effx.array.shaping import concatenate, expand_dims, reshape
from effx.errors import DTypeError, ShapeError
from effx.families.sort import Sort
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    Tangent,
    TupleOperation,
    Var,
    Vmap,
    array_type,
    decomposes,
    emits,
    jvp_rule,
    materialize,
    reference_rule,
    vmap_rule,
)
from effx.ir.ops.base import check_arity, check_int, check_kind
from effx.ir.ops.convert import Bitcast
from effx.ir.ops.index import Gather
from effx.ir.ops.reduce import ReduceMax
from effx.ir.ops.shape import Iota, Reverse, Slice
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import shard_leading_axes
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.values.described import HostData
from effx.lower.text import sizes
from effx.lower.text.emit import emit_decomposition
from effx.lower.text.foreign_calls import number_text

__all__ = ["ApproximateTopK", "TopIndices", "TopK"]


@final
@attrs.frozen
class TopIndices(ArrayOperation):
    """The indices of the largest elements of each row of `f32[m, n]`, as `i32[m, k]`, of equal ones the first. CHLO:
    top_k.

    The order is that of the bits: 0.0 is above -0.0, NaN above all, and NaN with a sign below all.

    Attributes:
        k: how many of each row.
    """

    k: int = attrs.field(validator=check_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The indices' type."""
        check_arity(self, types, 1)
        (t,) = types
        if t.dtype != dtypes.float32:
            raise DTypeError(f"top_indices: takes f32 numbers, got {t!r}")
        if t.ndim != 2 or not 0 <= self.k <= t.shape[1]:
            raise ShapeError(f"top_indices: takes rows of at least {self.k} elements, got {t!r}")
        return array_type(dtypes.int32, (t.shape[0], self.k))


@sharding_rule(TopIndices)
def _(op: TopIndices, given: OperandShardings) -> list[DimensionShardings]:
    return shard_leading_axes(1, given, "of which it finds the largest")


@emits(TopIndices)
def _(body: Body, op: TopIndices, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, t, out = body.name(inputs[0]), inputs[0].type, outputs[0].type
    values = t.with_shape(out.shape)
    results = body.block(f"chlo.top_k({x}, k = {op.k}) : {t.mlir} -> ({values.mlir}, {out.mlir})", 2)
    return results[1]


@jvp_rule(TopIndices)
def _(op: TopIndices, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    return op(*primals), None


@vmap_rule(TopIndices)
def _(
    handler: Vmap, op: TopIndices, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    x = materialize(handler, values[0], axes[0], 0)
    size, m, n = x.type.shape
    return reshape(op(reshape(x, (size * m, n))), (size, m, op.k)), 0


@reference_rule(TopIndices)
def _(op: TopIndices, x: HostData) -> HostData:
    bits = x.view(np.int32)
    ordered = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return np.argsort(~ordered, axis=1, kind="stable")[:, : op.k].astype(np.int32)


@attrs.frozen
class Selection(TupleOperation):
    """An operation that finds the k best elements along the last axis, and their indices as i32.

    Attributes:
        k: how many.
    """

    k: int = attrs.field(validator=check_int)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The values' type and that of the indices."""
        check_arity(self, types, 1)
        (t,) = types
        check_kind(self, t, "biufc", "the operand")
        if not t.ndim or not 0 <= self.k <= t.shape[-1]:
            raise ShapeError(f"{self.name}: takes rows of at least {self.k} elements, got {t!r}")
        values = t.with_shape((*t.shape[:-1], self.k))
        return values, array_type(dtypes.int32, values.shape)


@sharding_rule(Selection)
def infer_selection_sharding(op: Selection, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded as the rows are."""
    return shard_leading_axes(shardings.types[0].ndim - 1, shardings, "of which it finds the best")


@jvp_rule(Selection)
def jvp_selection(
    op: Selection, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """The tangents of the elements that are found."""
    values, indices = op(*primals)
    (dx,) = tangents
    moved = None if dx is None else gather_along_axis(dx, indices, dx.type.ndim - 1)
    return (values, indices), (moved, None)


@vmap_rule(Selection)
def batch_selection(
    handler: Vmap, op: Selection, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    """Rows of a batch are more rows."""
    return op(materialize(handler, values[0], axes[0], 0)), (0, 0)


@final
@attrs.frozen
class TopK(Selection):
    """The k largest elements along the last axis, in descending order, and their indices as i32. CHLO: top_k.

    On CPUs NaN comes first, and of equal elements the one that is earlier. On GPUs and TPUs the order of floats of 16 bits
    and more is that of the bits: 0.0 is above -0.0, NaN above all, and NaN with a sign below all.

    Attributes:
        stable: True so that of equal elements the earlier comes first; else XLA may choose.
    """

    stable: bool = True


@decomposes(TopK)
def decompose_top_k(op: TopK, x: Array) -> tuple[Array, Array]:
    t, last = x.type, x.type.ndim - 1
    length = choose_block_length(t, op.k)
    if length:
        return _find_in_blocks(op, x, length)
    if is_found_by_bits(t) and op.k and t.size:
        # In the order of bits zeros differ, and NaN of both signs: there is one of each here.
        key = _read_as_float(_rank_floats(x))
        # A hundred times faster than a sort for ten of 600,000.
        rows = TopIndices(op.k)(reshape(key, (math.prod(t.shape[:-1]), t.shape[-1])))
        indices = reshape(rows, (*t.shape[:-1], op.k))
        # The values are the operand's, not the keys': -0.0 must be returned unchanged.
        return gather_along_axis(x, indices, last), indices
    # A stable ascending sort of the reversed array, reversed: descending, the earlier of equals first.
    flip = Reverse((last,))
    positions = Iota(array_type(dtypes.int32, t.shape), last)()
    values, indices = Sort(last, op.stable)(flip(x), flip(positions))
    return _slice_last_axis(flip(values), 0, op.k), _slice_last_axis(flip(indices), 0, op.k)


# Blocks take 50 ms longer to compile, which runs of fewer elements do not save soon: a million floats take 1.4 ms in one
# piece and 0.5 in blocks, 65,536 integers 3.5 ms by a sort.
FLOATS_IN_BLOCKS_FROM, SORTED_IN_BLOCKS_FROM = 2**20, 2**16


def is_found_by_bits(t: ArrayType) -> bool:
    """Says whether `TopIndices` finds the largest elements: of floats of up to 32 bits."""
    return t.kind == "f" and t.dtype.itemsize <= 4


def choose_block_length(t: ArrayType, k: int) -> int:
    """Returns the length of blocks in which to look for the k largest of each row; 0 where blocks do not pay.

    Rows of n elements have n / b maxima of blocks, and k b candidates: the fewest of both with b = sqrt(n / k).
    """
    least = FLOATS_IN_BLOCKS_FROM if is_found_by_bits(t) else SORTED_IN_BLOCKS_FROM
    if has_symbolic(t.shape) or t.kind == "c" or not k or t.size < least:
        return 0
    n = t.shape[-1]
    length = 1 << max(0, round(math.log2(n / k) / 2))
    return length if n // length + k * length <= n // 3 else 0


def _find_in_blocks(op: TopK, x: Array, length: int) -> tuple[Array, Array]:
    """Finds the largest elements among those of the k blocks with the greatest maxima.

    An element of any other block comes behind k others: behind the greatest element of each of these blocks, which is
    greater, or equal and, as blocks are ordered by their places too, earlier. So that equal elements keep their order,
    the blocks are taken in the order of their places.

    Ten of 256 rows of 10,000 floats take 1.6 ms so, 4.0 in one piece; ten of a million integers 0.4 ms, their sort 59
    (two cores of an EPYC, jaxlib 0.12).
    """
    t, last = x.type, x.type.ndim - 1
    rows, n = t.shape[:-1], t.shape[-1]
    count = n // length
    whole, in_blocks = count * length, op.k * length
    blocks = reshape(_slice_last_axis(x, 0, whole), (*rows, count, length))
    find_maxima = ReduceMax((last + 1,))
    maxima = _read_as_float(find_maxima(_rank_floats(blocks))) if t.kind == "f" else find_maxima(blocks)
    _, chosen = TopK(op.k)(maxima)
    (chosen,) = Sort(last)(chosen)
    axes = tuple(range(last))
    read = Gather((last + 1,), (last,), (last,), (*(1 for _ in rows), 1, length), axes, axes)
    candidates = reshape(read(blocks, expand_dims(chosen, -1)), (*rows, in_blocks))
    if whole < n:
        candidates = concatenate((candidates, _slice_last_axis(x, whole, n)), last)
    values, places = TopK(op.k, op.stable)(candidates)
    starts = gather_along_axis(chosen, minimum(places >> length.bit_length() - 1, op.k - 1), last) * length
    in_row = where(places < in_blocks, starts + (places & length - 1), places + (whole - in_blocks))
    return values, in_row


def _rank_floats(x: Array) -> Array:
    """Returns integers of 32 or 64 bits that are ordered as floats are: zeros are equal, and NaN is above all.

    XLA:CPU's comparisons of floats take subnormal numbers for zeros.
    """
    wide = convert(x, dtypes.float64 if x.type.dtype == dtypes.float64 else dtypes.float32)
    bits = Bitcast(dtypes.bits_dtype(wide.type.dtype))(wide)
    return where(wide != wide, int(dtypes.iinfo(bits.type.dtype).max), _negate_magnitude(bits))


def _read_as_float(rank: Array) -> Array:
    """Returns the float of a rank, with zeros and NaN of one kind."""
    is_wide = rank.type.dtype == dtypes.int64
    return Bitcast(dtypes.float64 if is_wide else dtypes.float32)(_negate_magnitude(rank))


def _negate_magnitude(x: Array) -> Array:
    """Maps a negative float's bits, a sign and a magnitude, to the negative integer of that magnitude, and back."""
    return where(x < 0, int(dtypes.iinfo(x.type.dtype).min) - x, x)


def _slice_last_axis(x: Array, start: int, limit: int) -> Array:
    before = x.type.shape[:-1]
    return Slice((*(0 for _ in before), start), (*before, limit), (1,) * x.type.ndim)(x)


@emits(TopK, platform="cuda")
@emits(TopK, platform="rocm")
@emits(TopK, platform="tpu")
def emit_top_k(body: Body, op: TopK, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    t, (values, indices) = inputs[0].type, [v.type for v in outputs]
    is_ordered = t.kind in "iu" or (t.kind == "f" and t.dtype.itemsize > 1)
    if not is_ordered or not values.size or has_symbolic(t.shape) or dtypes.is_sub_byte(t.dtype):
        return emit_decomposition(body, op, inputs, outputs)
    x = body.name(inputs[0])
    return body.block(f"chlo.top_k({x}, k = {op.k}) : {t.mlir} -> ({values.mlir}, {indices.mlir})", 2)


@final
@attrs.frozen
class ApproximateTopK(Selection):
    """As `TopK`, of floats; on TPUs some of the largest may be missed.

    Source: Chern et al., "TPU-KNN: K nearest neighbor search at peak FLOP/s", 2022.

    Attributes:
        recall: the fraction of the k largest that is found on average.
        size: that of the rows of which the operand has a part; -1 for its own.
        smallest: True for the smallest elements, ascending.
    """

    recall: float = 0.95
    size: int = -1
    smallest: bool = False

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Of floats only."""
        check_kind(self, types[0], "f", "the operand")
        return super().infer(*types)


@decomposes(ApproximateTopK)
def decompose_approximate_top_k(op: ApproximateTopK, x: Array) -> tuple[Array, ...]:
    if not op.smallest:
        return TopK(op.k)(x)
    t, last = x.type, x.type.ndim - 1
    cut = Slice((0,) * t.ndim, (*t.shape[:-1], op.k), (1,) * t.ndim)
    values, indices = Sort(last)(x, Iota(array_type(dtypes.int32, t.shape), last)())
    return cut(values), cut(indices)


@emits(ApproximateTopK, platform="tpu")
def emit_approximate_top_k(
    body: Body, op: ApproximateTopK, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    t, (values, indices) = inputs[0].type, [v.type for v in outputs]
    if op.recall == 1 or not values.size or has_symbolic(t.shape) or t.dtype.itemsize == 1:
        return emit_decomposition(body, op, inputs, outputs)
    scalar, index = array_type(t.dtype), array_type(dtypes.int32)
    order = "LT" if op.smallest else "GT"

    def write_comparator(name: str) -> str:
        s, i = scalar.mlir, index.mlir
        return (
            f"  func.func private @{name}(%a: {s}, %b: {s}, %i: {i}, %j: {i}) -> tensor<i1> {{\n"
            f"    %c = stablehlo.compare {order}, %a, %b, TOTALORDER : ({s}, {s}) -> tensor<i1>\n"
            f"    return %c : tensor<i1>\n  }}"
        )

    comparator = body.module.shared_function((type(op), order, scalar), "compare", write_comparator)
    positions = t.with_dtype(dtypes.int32)
    worst = body.constant(math.inf if op.smallest else -math.inf, scalar)
    nowhere = body.constant(-1, index)
    recall = number_text(op.recall, np.dtype(np.float32))
    config = (
        f"{{aggregate_to_topk = true, recall_target = {recall} : f32, reduction_dim = {t.ndim - 1} : i64, "
        f"reduction_input_size_override = {op.size} : i64, top_k = {op.k} : i64}}"
    )
    operands = f"{body.name(inputs[0])}, {sizes.iota(body, positions, t.ndim - 1)}, {worst}, {nowhere}"
    return body.block(
        f'stablehlo.custom_call @ApproxTopK({operands}) {{backend_config = "", called_computations = [@{comparator}], '
        f"mhlo.backend_config = {config}}} : ({t.mlir}, {positions.mlir}, {scalar.mlir}, {index.mlir}) "
        f"-> ({values.mlir}, {indices.mlir})",
        2,
    )
