"""Sorting: arrays together, by the first of them; -0.0 is equal to 0.0, and NaN comes last.

Floats alone are sorted as their bits, so that -0.0 comes before 0.0: nothing but the sign distinguishes equal numbers
there, and the result depends only on the set of numbers.

XLA:CPU runs a comparator that is a bare `compare LT` natively and calls back into compiled code for any other. So float
keys are mapped to integers of the same order first, outside of the comparator. The compilers for GPUs and TPUs are given
the floats; there zeros of both signs stay in their order.

Never: order floats by `<` alone, which NaN breaks.
"""

import math
from typing import Any, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.indexing import gather_along_axis
from effx.errors import ShapeError
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Tangent,
    TupleOperation,
    Var,
    Vmap,
    array_type,
    emits,
    jvp_rule,
    materialize,
    reference_rule,
    vmap_rule,
)
from effx.ir.ops.base import Rearranging, check_axis, check_int, check_kind, types_text
from effx.ir.ops.shape import Iota
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import shard_along_axis
from effx.ir.sizes.dimensions import has_symbolic
from effx.lower.text import sizes
from effx.lower.text.emit import constant_text
from effx.lower.text.stablehlo.elementwise import COMPARE_KIND, flip_float_order

__all__ = ["Sort"]

Data = np.ndarray[Any, Any]
Axis = int | None


@final
@attrs.frozen
class Sort(TupleOperation, Rearranging):
    """Sorts the operands together along an axis by the first `num_keys` of them. StableHLO: sort.

    Attributes:
        axis: the axis to sort along.
        stable: True to keep the order of equal keys.
        num_keys: how many operands are keys, compared one after the other.
    """

    axis: int = attrs.field(validator=check_int)
    stable: bool = True
    num_keys: int = attrs.field(default=1, validator=check_int)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The operands' types."""
        if not 1 <= self.num_keys <= len(types):
            raise ShapeError(
                f"sort: num_keys must be between 1 and the number of operands, got {self.num_keys} for {types_text(types)}"
            )
        for t in types:
            if t.shape != types[0].shape:
                raise ShapeError(f"sort: operand shapes differ: {types_text(types)}")
        for key in types[: self.num_keys]:
            check_kind(self, key, "biufc", "a key")
        check_axis(self, self.axis, types[0])
        return types


@sharding_rule(Sort)
def infer_sort_sharding(op: Sort, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded as the operands, but not along the sorted axis."""
    return shard_along_axis(op.axis, shardings, "along which it sorts")


@jvp_rule(Sort)
def jvp_sort(
    op: Sort, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """The tangents are permuted as their primals are."""
    indices = Iota(array_type(dtypes.int32, primals[0].type.shape), op.axis)()
    *results, order = op(*primals, indices)
    moved = [None if d is None else gather_along_axis(d, order, op.axis) for d in tangents]
    return tuple(results), tuple(moved)


@vmap_rule(Sort)
def batch_sort(
    handler: Vmap, op: Sort, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    """Along the axis of each batch element."""
    front = next(a for a in axes if a is not None)
    aligned = [materialize(handler, x, a, front) for x, a in zip(values, axes, strict=True)]
    return attrs.evolve(op, axis=op.axis + (op.axis >= front))(*aligned), (front,) * len(aligned)


def _sort_key(value: Any) -> tuple[Any, ...]:
    """Orders numbers: -0.0 equal to 0.0, NaN last; complex ones by real part, then imaginary part."""
    if isinstance(value, complex | np.complexfloating):
        return (*_sort_key(value.real), *_sort_key(value.imag))
    number: Any = value.item() if isinstance(value, np.bool_ | np.integer) else float(value)
    return (True, 0) if number != number else (False, number)


@reference_rule(Sort)
def oracle_sort(op: Sort, *operands: Data) -> tuple[Data, ...]:
    """Each line along the axis by Python's own stable sort."""
    results = [np.array(x) for x in operands]
    shape = operands[0].shape
    alone = len(operands) == 1 and operands[0].dtype.kind not in "biuc"
    for index in np.ndindex(*shape[: op.axis], 1, *shape[op.axis + 1 :]):
        line = tuple([slice(None) if i == op.axis else j for i, j in enumerate(index)])
        keys = [x[line] for x in operands[: op.num_keys]]
        ranked = [
            [(*_sort_key(k[i]), alone and not np.signbit(float(k[i]))) for k in keys]
            for i in range(shape[op.axis])
        ]
        order = sorted(range(shape[op.axis]), key=ranked.__getitem__)
        for result, x in zip(results, operands, strict=True):
            result[line] = x[line][order]
    return tuple(results)


def emit_ordered_bits(body: Body, x: str, t: ArrayType, zeros_equal: bool = True) -> tuple[str, ArrayType]:
    """Maps floats to signed integers of the same order: -0.0 as 0.0, or below it, and NaN above all.

    Where NaN has the sign bit, nothing else needs care: there is no -0.0, and of float8_e8m0fnu, which
    counts upwards without a sign, only the first bit is flipped.

    A positive float's bits, read as an integer, grow with it; a negative one's fall. Flipping all
    bits but the sign of negative ones makes one order of both.
    """
    width = dtypes.bits(t.dtype)
    it = array_type(dtypes.bits_dtype(t.dtype), t.shape)
    mask = array_type(dtypes.bool_, t.shape).mlir
    if nan_has_sign_bit(t.dtype):
        bits = body.line(f"stablehlo.bitcast_convert {x} : ({t.mlir}) -> {it.mlir}")
        least = body.constant(-(2 ** (width - 1)), it)
        if t.dtype == dtypes.float8_e8m0fnu:
            return body.line(f"stablehlo.xor {bits}, {least} : {it.mlir}"), it
        is_nan = body.line(
            f"stablehlo.compare EQ, {bits}, {least}, SIGNED : ({it.mlir}, {it.mlir}) -> {mask}"
        )
        top = body.constant(2 ** (width - 1) - 1, it)
        # NaN would be between the signs; nonnegative numbers move down there, and NaN to the top.
        flipped = flip_float_order(body, bits, it, width)
        sign = body.line(
            f"stablehlo.shift_right_arithmetic {flipped}, {body.constant(width - 1, it)} : {it.mlir}"
        )
        down = body.line(f"stablehlo.not {sign} : {it.mlir}")
        below = body.line(f"stablehlo.add {flipped}, {down} : {it.mlir}")
        return body.line(f"stablehlo.select {is_nan}, {top}, {below} : {mask}, {it.mlir}"), it
    nan = body.constant(float("nan"), t)
    is_nan = body.line(f"stablehlo.compare NE, {x}, {x}, FLOAT : ({t.mlir}, {t.mlir}) -> {mask}")
    x = body.line(f"stablehlo.select {is_nan}, {nan}, {x} : {mask}, {t.mlir}")
    bits = body.line(f"stablehlo.bitcast_convert {x} : ({t.mlir}) -> {it.mlir}")
    flipped = flip_float_order(body, bits, it, width)
    if not zeros_equal:
        return flipped, it
    # Of -0.0 come all bits set. A comparison of floats with 0.0 would take subnormal numbers for zeros, too.
    is_minus_zero = body.line(
        f"stablehlo.compare EQ, {flipped}, {body.constant(-1, it)}, SIGNED : ({it.mlir}, {it.mlir}) -> {mask}"
    )
    return body.line(
        f"stablehlo.select {is_minus_zero}, {body.constant(0, it)}, {flipped} : {mask}, {it.mlir}"
    ), it


def nan_has_sign_bit(dtype: dtypes.DType) -> bool:
    """Says whether NaN has the sign bit, as in float8 types with one zero or without a sign."""
    return dtypes.bits(dtype) == 8 and int(np.asarray(np.nan, dtype).view(np.int8)) < 0


# What a comparator compares: the names of both sides, their type, and the kind of comparison.
Part = tuple[str, str, str, str]


def _emit_sort_by_values(body: Body, op: Sort, inputs: tuple[Atom, ...]) -> tuple[str, ...]:
    """Writes one sort whose comparator maps -0.0 to 0.0 and every NaN to one, and compares in the total order of bits.

    XLA knows this comparator: for GPUs it calls a radix sort, which is given the operands as they are.
    """
    types = [a.type for a in inputs]
    lines: list[str] = []
    parts: list[Part] = []
    for i, t in enumerate(types[: op.num_keys]):
        s = array_type(t.dtype)
        if t.kind not in "fc":
            parts.append((f"%a{i}", f"%b{i}", s.mlir, COMPARE_KIND[t.kind]))
            continue
        real = s if t.kind == "f" else array_type(dtypes.real_dtype(t.dtype))
        for part in [""] if t.kind == "f" else ["real", "imag"]:
            names: list[str] = []
            for side in "ab":
                x = f"%{side}{i}"
                if part:
                    lines.append(f"{x}{part} = stablehlo.{part} {x} : ({s.mlir}) -> {real.mlir}")
                    x = f"{x}{part}"
                names.append(_canonical_float(lines, x, real))
            first, second = names
            parts.append((first, second, real.mlir, "TOTALORDER"))
    return _write_sort(body, op, [body.name(a) for a in inputs], types, lines, parts)


def _canonical_float(lines: list[str], x: str, t: ArrayType) -> str:
    """Adds the lines that make one of both zeros, and one of all NaNs; returns the result's name."""
    s = t.mlir
    lines += [
        f"{x}zero = stablehlo.constant dense<{constant_text(0.0, t)}> : {s}",
        f"{x}z = stablehlo.compare EQ, {x}, {x}zero, FLOAT : ({s}, {s}) -> tensor<i1>",
        f"{x}s = stablehlo.select {x}z, {x}zero, {x} : tensor<i1>, {s}",
        f"{x}m = stablehlo.compare NE, {x}, {x}, FLOAT : ({s}, {s}) -> tensor<i1>",
        f"{x}n = stablehlo.constant dense<{constant_text(math.nan, t)}> : {s}",
        f"{x}c = stablehlo.select {x}m, {x}n, {x}s : tensor<i1>, {s}",
    ]
    return f"{x}c"


def _write_sort(
    body: Body, op: Sort, names: list[str], types: list[ArrayType], lines: list[str], parts: list[Part]
) -> tuple[str, ...]:
    """Writes a sort of operands by parts that are compared one after the other.

    Args:
        lines: of the comparator, whose arguments are %a0, %b0, %a1, …, before it compares.
        parts: the most significant first.
    """
    result = ""
    for rank, (a, b, s, kind) in reversed(list(enumerate(parts))):
        lines.append(f"%lt{rank} = stablehlo.compare LT, {a}, {b}, {kind} : ({s}, {s}) -> tensor<i1>")
        if result:
            lines += [
                f"%eq{rank} = stablehlo.compare EQ, {a}, {b}, {kind} : ({s}, {s}) -> tensor<i1>",
                f"%and{rank} = stablehlo.and %eq{rank}, {result} : tensor<i1>",
                f"%or{rank} = stablehlo.or %lt{rank}, %and{rank} : tensor<i1>",
            ]
        result = f"%or{rank}" if result else f"%lt{rank}"
    scalars = [array_type(t.dtype).mlir for t in types]
    arguments = [f"%a{i}: {s}, %b{i}: {s}" for i, s in enumerate(scalars)]
    types_text = ", ".join(t.mlir for t in types)
    region = "\n      ".join(
        [f"^bb0({', '.join(arguments)}):", *lines, f"stablehlo.return {result} : tensor<i1>"]
    )
    stable = "true" if op.stable else "false"
    return body.block(
        f'"stablehlo.sort"({", ".join(names)}) <{{dimension = {op.axis} : i64, is_stable = {stable}}}> '
        f"({{\n    {region}\n    }}) : ({types_text}) -> ({types_text})",
        len(names),
    )


def _emit_sort_by_integers(
    body: Body, op: Sort, names: list[str], types: list[ArrayType], keys: list[int]
) -> tuple[str, ...]:
    """Writes a sort by integer or boolean operands, compared one after the other."""
    parts = [(f"%a{i}", f"%b{i}", array_type(types[i].dtype).mlir, COMPARE_KIND[types[i].kind]) for i in keys]
    return _write_sort(body, op, names, types, [], parts)


@emits(Sort)
def emit_sort(body: Body, op: Sort, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    if not inputs[0].type.size:
        return tuple([body.name(a) for a in inputs])
    t = inputs[0].type
    is_nan_positive = not any(
        [a.type.kind == "f" and nan_has_sign_bit(a.type.dtype) for a in inputs[: op.num_keys]]
    )
    if body.module.platform != "cpu" and is_nan_positive:
        return _emit_sort_by_values(body, op, inputs)
    # XLA:CPU loses elements of less than a byte.
    pairs = [body.widened(a) for a in inputs]
    if len(inputs) == 1 and t.kind == "f" and not nan_has_sign_bit(t.dtype):
        # Equal keys are equal values, and XLA:CPU's stable sort is the faster one: 4.9 ms for 6.6 of 100,000 numbers.
        stable = attrs.evolve(op, stable=True)
        return (body.convert(_emit_sort_floats(body, stable, *pairs[0]), pairs[0][1], t),)
    names, types = [n for n, _ in pairs], [w for _, w in pairs]
    keys: list[tuple[str, ArrayType]] = []
    for name, t in list(zip(names, types, strict=True))[: op.num_keys]:
        if t.kind == "f":
            keys.append(emit_ordered_bits(body, name, t))
        elif t.kind == "c":
            part = array_type(dtypes.real_dtype(t.dtype), t.shape)
            for which in ("real", "imag"):
                value = body.line(f"stablehlo.{which} {name} : ({t.mlir}) -> {part.mlir}")
                keys.append(emit_ordered_bits(body, value, part))
        else:
            keys.append((name, t))
    # Operands that are keys themselves are sorted only once.
    operands = [*keys, *[(n, t) for n, t in zip(names, types, strict=True) if (n, t) not in keys]]
    if len(keys) == 1 and _is_packing_faster(body, operands):
        order = _emit_order(body, op, *keys[0])
        rows = [_emit_gather_in_order(body, op.axis, order, *pair) for pair in pairs]
        return tuple([body.convert(y, w, a.type) for y, (_, w), a in zip(rows, pairs, inputs, strict=True)])
    results = _emit_sort_by_integers(
        body, op, [n for n, _ in operands], [t for _, t in operands], list(range(len(keys)))
    )
    index = {pair: i for i, pair in reversed(list(enumerate(operands)))}
    sorted_ = [results[index[pair]] for pair in pairs]
    return tuple([body.convert(y, w, a.type) for y, (_, w), a in zip(sorted_, pairs, inputs, strict=True)])


# From so many elements the native sort saves more than the gather behind it costs, with one operand beside the key.
PACKED = 4096


def _is_packing_faster(body: Body, operands: list[tuple[str, ArrayType]]) -> bool:
    """Says whether to sort operands, the first of which is the key, by one sort of numbers that hold key and index."""
    key = operands[0][1]
    if body.module.platform != "cpu" or body.module.devices > 1 or has_symbolic(key.shape):
        return False
    # One operand is sorted natively as it is.
    beside = len(operands) - 1
    return dtypes.bits(key.dtype) <= 32 and (beside > 1 or (beside == 1 and key.size >= PACKED))


def _emit_order(body: Body, op: Sort, key: str, t: ArrayType) -> tuple[str, ArrayType]:
    """Writes the order of a key of at most 32 bits: it is packed above the index, so that equal keys keep their order.

    XLA:CPU sorts one operand natively: a million keys with two operands take 47 ms so, and 340 as operands of one sort.
    """
    wide = array_type(dtypes.int64, t.shape)
    rank = body.convert(key, t, wide)
    if t.dtype == dtypes.uint32:  # above the index there is room for signed numbers of 32 bits
        rank = body.line(f"stablehlo.subtract {rank}, {body.constant(2**31, wide)} : {wide.mlir}")
    high = body.line(f"stablehlo.shift_left {rank}, {body.constant(32, wide)} : {wide.mlir}")
    packed = body.line(f"stablehlo.or {high}, {sizes.iota(body, wide, op.axis)} : {wide.mlir}")
    (ordered,) = _emit_sort_by_integers(body, attrs.evolve(op, stable=False), [packed], [wide], [0])
    low = body.line(f"stablehlo.and {ordered}, {body.constant(2**32 - 1, wide)} : {wide.mlir}")
    index = array_type(dtypes.int32 if t.shape[op.axis] < 2**31 else dtypes.int64, t.shape)
    return body.convert(low, wide, index), index


def _emit_gather_in_order(body: Body, axis: int, order: tuple[str, ArrayType], x: str, t: ArrayType) -> str:
    name, index = order
    batch = [i for i in range(t.ndim) if i != axis]
    starts = index.with_shape((*index.shape, 1))
    name = sizes.reshape(body, name, index, starts)
    return body.line(
        f'"stablehlo.gather"({x}, {name}) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [{axis}], '
        f"operand_batching_dims = {batch}, start_indices_batching_dims = {batch}, start_index_map = [{axis}], "
        f"index_vector_dim = {t.ndim}>, indices_are_sorted = false, "
        f"slice_sizes = array<i64: {', '.join(['1'] * t.ndim)}>}}> : ({t.mlir}, {starts.mlir}) -> {t.mlir}"
    )


def _emit_sort_floats(body: Body, op: Sort, x: str, t: ArrayType) -> str:
    # One sort of one operand of the same size, which XLA:CPU runs natively.
    # A quarter of jax's time. Keeping the order of zeros (the index and the sign packed behind the key) took
    # twice the memory, and 1.1 to 1.4 of jax's time for a first call.
    key, it = emit_ordered_bits(body, x, t, zeros_equal=False)
    (ordered,) = _emit_sort_by_integers(body, op, [key], [it], [0])
    bits = flip_float_order(body, ordered, it, dtypes.bits(t.dtype))
    return body.line(f"stablehlo.bitcast_convert {bits} : ({it.mlir}) -> {t.mlir}")
