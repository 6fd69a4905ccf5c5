"""Elements of given ranks: what a median or a quantile takes of a row, without the order of the rest.

On CPUs a few ranks of long rows are found by counting. Floats' bits are mapped to integers of the same order, as for a
sort, and a bracket around each rank shrinks: a pass counts the keys below a candidate, which becomes one of its ends. A
pass reads the keys once, as vectors; the library behind XLA:CPU adds a million numbers in 0.1 ms, and sorts them in 37.

- The candidate is where the rank would be if the elements in the bracket were evenly spread, and a little beyond (by
  the square root of the distance to the nearer end, the deviation of such a count), so that both ends come closer:
  Floyd and Rivest, "Expected time bounds for selection", 1975, do the same with two samples.
- Where this does not halve the number of elements in the bracket, the middle of its values is tried, and then the middle
  of its keys, so that no distribution takes more passes than the bits of a key and twice log2 n.
- A bracket is done when the elements below its upper end are those up to the rank, or when it holds one key.

Then the element is the largest key below the upper end, and the next one is the smallest of the others. These maxima are
taken of floats, which hold keys without rounding: XLA:CPU has vectors for them, and none for integers, which take 6 times
as long.
"""

import math
from typing import final

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import clip, maximum, minimum, where
from effx.array.indexing import gather_along_axis
from effx.array.promotion import broadcast_to, convert, size_scalar
from effx.array.shaping import expand_dims, moveaxis, reshape
from effx.dtypes import DType
from effx.errors import DTypeError, ShapeError
from effx.families.sort import Sort
from effx.handlers.staging.stage import stage
from effx.handling import (
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
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Singleton, check_arity, check_kind, types_text
from effx.ir.ops.control import Scan, While
from effx.ir.ops.convert import Bitcast, OptimizationBarrier
from effx.ir.ops.reduce import ReduceMax, ReduceOr, ReduceSum
from effx.ir.ops.shape import Iota
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import shard_leading_axes
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.values.described import HostData
from effx.ir.values.scalars import scalar
from effx.lower.text.emit import emit_decomposition, emit_form

__all__ = ["OrderStatistics"]

SQRT = e.Sqrt()


@final
class OrderStatistics(Singleton, TupleOperation):
    """The elements of ranks along the last axis, in ascending order, and those of the next ranks.

    Operands: `x[*rows, n]` and ranks `i32[*rows, k]` from 0 on, which are clipped to 0 and n - 1. Results: two of
    `x[*rows, k]`; the next rank of n - 1 is n - 1.

    The order is that of a `Sort` of x alone.
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Types of x, with the shape of the ranks."""
        check_arity(self, types, 2)
        x, ranks = types
        check_kind(self, x, "biuf", "the operand")
        if ranks.dtype != dtypes.int32:
            raise DTypeError(f"order_statistics: ranks must be i32, got {ranks!r}")
        if not x.ndim or x.shape[:-1] != ranks.shape[:-1] or x.ndim != ranks.ndim:
            raise ShapeError(
                f"order_statistics: rows and their ranks must have the same axes: {types_text(types)}"
            )
        if x.shape[-1] == 0:
            raise ShapeError(f"order_statistics: rows must have an element, got {x!r}")
        return (x.with_shape(ranks.shape),) * 2


@sharding_rule(OrderStatistics)
def infer_order_statistics_sharding(
    op: OrderStatistics, shardings: OperandShardings
) -> list[DimensionShardings]:
    """Sharded as the rows are."""
    return shard_leading_axes(shardings.types[0].ndim - 1, shardings, "of which it takes ranks")


def _both_ranks(ranks: Array, n: int) -> tuple[Array, Array]:
    last = size_scalar(n - 1, dtypes.int32, False)
    ranks = clip(ranks, 0, last)
    return ranks, minimum(ranks + 1, last)


@decomposes(OrderStatistics)
def decompose_order_statistics(op: OrderStatistics, x: Array, ranks: Array) -> tuple[Array, ...]:
    last = x.type.ndim - 1
    # What is equal needs no order, which GPUs and TPUs would keep by numbering the elements.
    (ordered,) = Sort(last, False)(x)
    return tuple([gather_along_axis(ordered, index, last) for index in _both_ranks(ranks, x.type.shape[-1])])


@jvp_rule(OrderStatistics)
def jvp_order_statistics(
    op: OrderStatistics, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """The tangents of the elements that have the ranks; of equal ones these are a sort's."""
    (x, ranks), dx = primals, tangents[0]
    if dx is None:
        return op(x, ranks), (None, None)
    last = x.type.ndim - 1
    ordered, order = Sort(last, False)(x, Iota(array_type(dtypes.int32, x.type.shape), last)())
    both = _both_ranks(ranks, x.type.shape[-1])
    values = [gather_along_axis(ordered, index, last) for index in both]
    indices = [gather_along_axis(order, index, last) for index in both]
    return tuple(values), tuple([gather_along_axis(dx, index, last) for index in indices])


@vmap_rule(OrderStatistics)
def batch_order_statistics(
    handler: Vmap, op: OrderStatistics, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    """Rows of a batch are more rows."""
    return op(*[materialize(handler, x, a, 0) for x, a in zip(values, axes, strict=True)]), (0, 0)


@reference_rule(OrderStatistics)
def oracle_order_statistics(op: OrderStatistics, x: HostData, ranks: HostData) -> tuple[HostData, ...]:
    """By NumPy's sort, of numbers with the sign of zeros behind them."""
    n = x.shape[-1]
    number = x.astype(np.float64 if x.dtype.kind not in "biu" else x.dtype)
    negative = np.signbit(number) if number.dtype.kind == "f" else number < 0
    order = np.lexsort((~negative & (number == 0), number), axis=-1)
    ordered = np.take_along_axis(x, order, -1)
    ranks = np.clip(ranks, 0, n - 1)
    return tuple([np.take_along_axis(ordered, i, -1) for i in (ranks, np.minimum(ranks + 1, n - 1))])


# From so many elements less time to run is worth 0.1 s more to compile: a sort of so many takes 4 ms, and counting 0.4.
COUNTED = 2**17
# Nanoseconds for an element: of counting, for a rank, by bits of the dtype.
COST_OF_COUNTING = {16: 4.0, 32: 5.0, 64: 10.0}


def _is_counting_faster(body: Body, t: ArrayType, ranks: ArrayType) -> bool:
    """Says whether to find ranks by counting: numbers were measured on an EPYC with 2 cores, Nov 2026."""
    if has_symbolic(t.shape) or has_symbolic(ranks.shape) or body.module.devices > 1:
        return False
    cost = COST_OF_COUNTING.get(dtypes.bits(t.dtype))
    if t.kind != "f" or cost is None or t.size < COUNTED or not ranks.size:
        return False
    n = t.shape[-1]
    return ranks.shape[-1] * cost < math.log2(n) * (1.05 if n <= 4096 else 1.85)


@emits(OrderStatistics, platform="cpu")
def emit_order_statistics(
    body: Body, op: OrderStatistics, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    if _is_counting_faster(body, inputs[0].type, inputs[1].type):
        return emit_form(select_by_counting, body, op, inputs, outputs)
    return emit_decomposition(body, op, inputs, outputs)


def _flip_order(bits: Array) -> Array:
    """Maps bits of floats to integers of the same order, and back."""
    most = scalar(2 ** (dtypes.bits(bits.type.dtype) - 1) - 1, bits.type.dtype, False)
    return where(bits < 0, bits ^ most, bits)


def select_by_counting(op: OrderStatistics, x: Array, ranks: Array) -> tuple[Array, ...]:
    """Returns the elements of ranks and of the next ones; see above."""
    dtype, n, k = x.type.dtype, x.type.shape[-1], ranks.type.shape[-1]
    integer = dtypes.bits_dtype(dtype)
    # One row has no axis: scalars compile in half the time of vectors.
    rows = () if x.type.size == n else (x.type.size // n,)
    nan = scalar(int(np.asarray(np.nan, dtype).view(integer)), integer, False)
    keys = where(x != x, nan, _flip_order(Bitcast(integer)(x)))
    (keys,) = OptimizationBarrier()(reshape(keys, (*rows, n)))
    ranks_first = moveaxis(reshape(clip(ranks, 0, n - 1), (*rows, k)), -1, 0)

    def select(xs: list[Array]) -> list[Array]:
        return [Bitcast(dtype)(_flip_order(key)) for key in _select_keys(dtype, *xs)]

    if k == 1:
        return tuple([reshape(y, ranks.type.shape) for y in select([keys, reshape(ranks_first, rows)])])
    program = stage(select, (keys.type, array_type(dtypes.int32, rows)), "select").program
    results = Scan(program, k, 1)(keys, ranks_first)
    return tuple([reshape(moveaxis(y, 0, -1), ranks.type.shape) for y in results])


def _select_keys(dtype: DType, keys: Array, rank: Array) -> tuple[Array, Array]:
    """Returns the keys of a rank and of the next one.

    Args:
        dtype: the floats', whose bits are the keys. keys: `[n]` or `[rows, n]`. rank: `[]` or `[rows]`.
    """
    n, integer, shape = keys.type.shape[-1], keys.type.dtype, rank.type.shape
    width = dtypes.bits(dtype)
    wide = dtypes.float64 if width == 64 else dtypes.float32
    one, least = scalar(1, integer, False), scalar(-(2 ** (width - 1)), integer, False)
    most = scalar(2 ** (width - 1) - 1, integer, False)

    def value_of(key: Array) -> Array:
        return convert(Bitcast(dtype)(_flip_order(key)), wide)

    def condition(xs: list[Array]) -> list[Array]:
        _, rank, low, high, _, below_high, _ = xs
        unfinished = (below_high > rank + 1) & (high - low != one)
        return [ReduceOr((0,))(unfinished) if shape else unfinished]

    def narrow(xs: list[Array]) -> list[Array]:
        """Counts the keys below a candidate, which becomes an end of the bracket `[low, high)`; see above."""
        keys, rank, low, high, below_low, below_high, failures = xs
        before, behind = rank - below_low, below_high - 1 - rank
        near = convert(minimum(before, behind), wide) + 0.5
        elements = convert(below_high - below_low, wide)
        near = minimum(near + SQRT(near), elements)
        share = where(before < behind, near, elements - near) / elements
        first = value_of(low)
        value = first + (value_of(high) - first) * where(failures == 0, share, 0.5)
        key = _flip_order(Bitcast(integer)(convert(value, dtype)))
        middle = low + e.ShiftRightLogical()(high - low, broadcast_to(one, shape))
        candidate = where((failures < 2) & e.IsFinite()(value), key, middle)
        candidate = minimum(maximum(candidate, low + one), high - one)
        below = _count(keys < expand_dims(candidate, -1))
        is_low = below <= rank
        rest = where(is_low, below_high - below, below - below_low)
        return [
            where(is_low, candidate, low),
            where(is_low, high, candidate),
            where(is_low, below, below_low),
            where(is_low, below_high, below),
            where(rest * 2 <= below_high - below_low + 1, 0, failures + 1),
        ]

    zero, count = [broadcast_to(scalar(i, dtypes.int32, False), shape) for i in (0, n)]
    carry = [broadcast_to(least, shape), broadcast_to(most, shape), zero, count, zero]
    types = [y.type for y in (keys, rank, *carry)]
    loop = While(stage(condition, types, "goes_on").program, stage(narrow, types, "narrow").program, 2)
    _, high, _, below_high, _ = loop(keys, rank, *carry)
    is_below = keys < expand_dims(high, -1)
    first = _find_largest(where(is_below, keys, least))
    after = ~_find_largest(where(is_below, least, ~keys))
    # All keys are below the upper end where no rank is next.
    return first, where((below_high > rank + 1) | (below_high == n), first, after)


def _count(mask: Array) -> Array:
    """Counts along the last axis, in floats that hold each count."""
    dtype = dtypes.float32 if mask.type.shape[-1] < 2**24 else dtypes.float64
    return convert(ReduceSum((mask.type.ndim - 1,))(convert(mask, dtype)), dtypes.int32)


def _find_largest(keys: Array) -> Array:
    """Returns the largest integers along the last axis, by maxima of floats."""
    integer, last = keys.type.dtype, keys.type.ndim - 1
    largest = ReduceMax((last,), True)
    if dtypes.bits(integer) < 64:
        wide = dtypes.float32 if dtypes.bits(integer) == 16 else dtypes.float64
        return convert(largest(convert(keys, wide)), integer)
    # A float holds 53 bits: first the upper 32, and then the others of the keys that have the largest of these.
    half = scalar(32, integer, False)
    upper = e.ShiftRightArithmetic()(keys, broadcast_to(half, keys.type.shape))
    most = convert(largest(convert(upper, dtypes.float64)), integer)
    lower = where(
        upper == expand_dims(most, -1), keys & scalar(2**32 - 1, integer, False), scalar(0, integer, False)
    )
    low = convert(largest(convert(lower, dtypes.float64)), integer)
    return e.ShiftLeft()(most, broadcast_to(half, most.type.shape)) | low
