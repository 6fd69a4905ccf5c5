"""StableHLO text of reductions and cumulative reductions."""

import math
from collections.abc import Sequence

from jaxlib import version

from effx import dtypes
from effx.ir.ops import reduce as r
from effx.ir.program import Atom, Scalar, Var
from effx.ir.sizes.dimensions import has_symbolic, is_symbolic
from effx.ir.types import ArrayType, array_type, highest_value, lowest_value
from effx.lower.text import sizes
from effx.lower.text.emit import Body, Module, emits, integer_list
from effx.lower.text.stablehlo.control import emit_while_loop
from effx.lower.text.stablehlo.elementwise import COMPARE_KIND

Inputs = tuple[Atom, ...]
Outputs = tuple[Var, ...]


def _ones_like_bits(t: ArrayType) -> Scalar:
    # All bits set: the neutral element of bitwise and.
    return True if t.kind == "b" else -1 if t.kind == "i" else int(dtypes.iinfo(t.dtype).max)


def combiner(op: r.Reduction | r.Cumulative, t: ArrayType) -> tuple[str, Scalar]:
    """Returns the StableHLO operation that combines two elements, and its neutral element."""
    match op:
        case r.ReduceSum() | r.CumSum():
            return "add", 0
        case r.ReduceProd() | r.CumProd():
            return "multiply", 1
        case r.ReduceMax() | r.CumMax():
            return "maximum", lowest_value(t)
        case r.ReduceMin() | r.CumMin():
            return "minimum", highest_value(t)
        case r.ReduceAnd():
            return "and", _ones_like_bits(t)
        case r.ReduceOr():
            return "or", 0
        case _:
            return "xor", 0


def _reduced_type(t: ArrayType, axes: tuple[int, ...]) -> ArrayType:
    return t.with_shape(tuple([n for i, n in enumerate(t.shape) if i not in axes]))


def reduce_line(
    body: Body, name: str, t: ArrayType, axes: tuple[int, ...], combine: str, init: Scalar
) -> str:
    """Writes one reduction and returns its name."""
    scalar = array_type(t.dtype)
    out = _reduced_type(t, axes)
    start = body.constant(init, scalar)
    return body.line(
        f"stablehlo.reduce({name} init: {start}) applies stablehlo.{combine} across dimensions = {integer_list(axes)} "
        f": ({t.mlir}, {scalar.mlir}) -> {out.mlir}"
    )


@emits(r.Reduction)
def reduction(body: Body, op: r.Reduction, inputs: Inputs, outputs: Outputs) -> str:
    x = inputs[0]
    if not op.axes:
        return body.name(x)
    combine, init = combiner(op, x.type)
    may_lose_nan = isinstance(op, r.ReduceMax) and op.may_lose_nan
    if combine in ORDER and not may_lose_nan:
        return _emit_extreme(body, body.name(x), x.type, op.axes, combine, init)
    return reduce_line(body, body.name(x), x.type, op.axes, combine, init)


# XLA compiles reductions of fewer elements by itself.
LIBRARY_FROM = 2048
# The comparison that chooses the one of two elements that an operation of StableHLO gives.
ORDER = {"maximum": "GT", "minimum": "LT"}


def loses_nan(body: Body, t: ArrayType) -> bool:
    """Returns whether a plain reduction to the greatest or smallest element may lose NaN.

    XLA:CPU hands those of floats to a library, YNNPACK, that does (jaxlib 0.10 and 0.12).
    """
    if body.module.platform != "cpu" or t.kind != "f":
        return False
    return has_symbolic(t.shape) or t.size >= LIBRARY_FROM


def _is_joined_without_nan(module: Module) -> bool:
    """Returns whether XLA may join the extreme elements of devices' parts: CPUs lose NaN then, and so may NCCL.

    In parallel maps over all axes it cuts nothing.
    """
    is_cut = module.devices > 1 and not module.replicated and (not module.axes or module.partly is not None)
    return is_cut and module.platform != "tpu"


def choosing_region(combine: str, t: ArrayType) -> str:
    """Returns a region that chooses NaN or the greater or smaller of two elements, in a form that no library takes."""
    s, flag = array_type(t.dtype).mlir, "tensor<i1>"
    return (
        f"^bb0(%a: {s}, %b: {s}): "
        f"%better = stablehlo.compare {ORDER[combine]}, %a, %b, FLOAT : ({s}, {s}) -> {flag} "
        f"%nan = stablehlo.compare NE, %a, %a, FLOAT : ({s}, {s}) -> {flag} "
        f"%take = stablehlo.or %better, %nan : {flag} "
        f"%c = stablehlo.select %take, %a, %b : {flag}, {s} stablehlo.return %c : {s}"
    )


# How many times an axis is halved. A million floats take 85 to 170 us so, 640 without, and 75 to 90 in the library that
# loses NaN; a million integers of 16, 32 or 64 bits 110 to 200, and 700 without, whether in rows of 10 or of 1,000.
HALVINGS = 4
# The least size of an axis, of floats and of integers. Up to 32 steps of a reduction LLVM writes one after the other, and
# where the result becomes a bfloat16 it follows all paths of uses through the comparisons for NaN: in rows of 15 to 32
# `x.max(-1).astype(bfloat16)` compiled for up to 2.7 ** 32 steps. After halving no more than four steps are left there.
HALVED, HALVED_INTEGERS = 8, 4
UNROLLED_STEPS = 32
# The comparisons take 8 ms to compile, too long for few integers.
MANY_INTEGERS = 2**16


def _emit_extreme(body: Body, x: str, t: ArrayType, axes: tuple[int, ...], combine: str, init: Scalar) -> str:
    """Writes a reduction to the greatest or smallest element that keeps NaN.

    It is a plain one where that keeps it, and two where devices have parts of the array. Elsewhere halves are compared
    element by element, which vectors do, before what is left is reduced.
    """
    if t.kind == "f" and _is_joined_without_nan(body.module):
        return _emit_partitioned_extreme(body, x, t, axes, combine, init)
    if not loses_nan(body, t):
        return _emit_plain_extreme(body, x, t, axes, combine, init)
    # A million of 16 bits take 210 to 370 us widened, 750 to 900 as they are.
    x, wide = body.widen_short_float(x, t)
    x, halved = _compare_halves(body, x, wide, axes, combine, least=HALVED)
    scalar, reduced = array_type(wide.dtype), _reduced_type(wide, axes)
    extreme = body.line(
        f'"stablehlo.reduce"({x}, {body.constant(init, scalar)}) ({{ {choosing_region(combine, halved)} }}) '
        f"{{dimensions = array<i64: {', '.join(map(str, axes))}>}} : ({halved.mlir}, {scalar.mlir}) -> {reduced.mlir}"
    )
    return body.convert(extreme, reduced, _reduced_type(t, axes))


def _emit_plain_extreme(
    body: Body, x: str, t: ArrayType, axes: tuple[int, ...], combine: str, init: Scalar
) -> str:
    """Writes a reduction to the greatest or smallest element; a CPU compares halves of many integers' last axis first."""
    is_of_rows = t.ndim - 1 in axes and t.kind in "iu" and t.dtype.itemsize > 1
    if body.module.platform == "cpu" and is_of_rows and not has_symbolic(t.shape) and t.size >= MANY_INTEGERS:
        x, t = _compare_halves(body, x, t, axes, combine, least=HALVED_INTEGERS)
    return reduce_line(body, x, t, axes, combine, init)


def _compare_halves(
    body: Body, x: str, t: ArrayType, axes: tuple[int, ...], combine: str, *, least: int
) -> tuple[str, ArrayType]:
    """Writes comparisons of one half of an axis with the other, and of what is left again.

    Of the longest axis, and of others that LLVM would unroll.
    """
    known = sorted([a for a in axes if not is_symbolic(t.shape[a])], key=lambda a: -t.shape[a])
    for axis in known:
        if t.shape[axis] < least or (axis != known[0] and t.shape[axis] > UNROLLED_STEPS):
            continue
        for _ in range(HALVINGS):
            n = t.shape[axis]
            half = -(-n // 2)  # the element in the middle may be in both
            first, halved = _emit_axis_slice(body, x, t, axis, start=0, limit=half, step=1)
            second, _ = _emit_axis_slice(body, x, t, axis, start=n - half, limit=n, step=1)
            x, t = body.line(f"stablehlo.{combine} {first}, {second} : {halved.mlir}"), halved
    return x, t


def _emit_partitioned_extreme(
    body: Body, x: str, t: ArrayType, axes: tuple[int, ...], combine: str, init: Scalar
) -> str:
    """Writes a reduction that keeps NaN as two plain ones, of which devices do their parts: of elements and of NaN flags."""
    mask = array_type(dtypes.bool_, t.shape).mlir
    nan = body.line(f"stablehlo.compare NE, {x}, {x}, FLOAT : ({t.mlir}, {t.mlir}) -> {mask}")
    ones, zeros = body.constant(1, t), body.constant(0, t)
    flags = body.line(f"stablehlo.select {nan}, {ones}, {zeros} : {mask}, {t.mlir}")
    extreme = reduce_line(body, x, t, axes, combine, init)
    has_nan = reduce_line(body, flags, t, axes, "add", 0)
    out = _reduced_type(t, axes)
    out_mask = array_type(dtypes.bool_, out.shape).mlir
    none, missing = body.constant(0, out), body.constant(math.nan, out)
    test = body.line(
        f"stablehlo.compare GT, {has_nan}, {none}, FLOAT : ({out.mlir}, {out.mlir}) -> {out_mask}"
    )
    return body.line(f"stablehlo.select {test}, {missing}, {extreme} : {out_mask}, {out.mlir}")


@emits(r.ArgReduction)
def arg_reduction(body: Body, op: r.ArgReduction, inputs: Inputs, outputs: Outputs) -> str:
    # Of values smaller than a byte and indices XLA:CPU of jaxlib 0.10 takes no pairs.
    x, t = body.widened(inputs[0])
    out = outputs[0].type
    # Two reductions, of values and then of the indices that hold the extreme one, may be fused with what computes x, each
    # for itself and with other roundings: then no element holds the extreme value. Only an array that comes from memory
    # is the same both times. (A barrier in between would do, but XLA:CPU of jaxlib 0.10 drops it.)
    if body.module.platform == "cpu" and not has_symbolic(t.shape) and t.shape[op.axis] < UNROLLED:
        return _emit_pair_reduction(body, op, x, t, out)
    is_known = t.kind != "f" or not has_symbolic(t.shape)
    if body.module.platform == "cpu" and inputs[0] in body.arguments and is_known:
        return _emit_value_then_index(body, op, x, t, out)
    if body.module.platform == "cpu" and dtypes.bits(t.dtype) <= 32 and not has_symbolic(t.shape):
        return _emit_packed_reduction(body, op, x, t, out)
    return _emit_pair_reduction(body, op, x, t, out)


# Pairs along fewer elements LLVM unrolls, and vectorises over the results: 0.26 ms for 50,000 rows of 20, where two
# reductions take 0.84; of 32 elements pairs take 4 ms for 0.35.
UNROLLED = 32
# Up to here floats represent all integers.
EXACT = 2**24


def _emit_value_then_index(body: Body, op: r.ArgReduction, x: str, t: ArrayType, out: ArrayType) -> str:
    """Writes two plain reductions, which XLA vectorises: the extreme value, then the smallest index that holds it.

    Where there is a NaN it is the extreme value, and equals none: the elements that are NaN hold it.
    """
    index = array_type(op.index_dtype, t.shape)
    mask = array_type(dtypes.bool_, t.shape)
    largest = isinstance(op, r.ArgMax)
    combine, init = ("maximum", lowest_value(t)) if largest else ("minimum", highest_value(t))
    best = _emit_extreme(body, x, t, (op.axis,), combine, init)
    remaining_axes = [i for i in range(t.ndim) if i != op.axis]
    reduced = t.with_shape(out.shape)
    spread = sizes.broadcast_in_dim(body, best, reduced, t, remaining_axes)
    kind = COMPARE_KIND[t.kind]
    hit = body.line(f"stablehlo.compare EQ, {x}, {spread}, {kind} : ({t.mlir}, {t.mlir}) -> {mask.mlir}")
    if t.kind == "f":
        nan = body.line(f"stablehlo.compare NE, {x}, {x}, {kind} : ({t.mlir}, {t.mlir}) -> {mask.mlir}")
        hit = body.line(f"stablehlo.or {hit}, {nan} : {mask.mlir}")
    # XLA:CPU has reductions of floats in a library, which saves half the time to compile.
    counted = index if t.kind != "f" else index.with_dtype(dtypes.int64)
    if not has_symbolic(t.shape) and t.shape[op.axis] <= EXACT:
        counted = index.with_dtype(dtypes.float32)
    indices = sizes.iota(body, counted, op.axis)
    last = body.constant(highest_value(counted), counted)
    chosen = body.line(f"stablehlo.select {hit}, {indices}, {last} : {mask.mlir}, {counted.mlir}")
    row = counted.with_shape(out.shape)
    first = _emit_plain_extreme(body, chosen, counted, (op.axis,), "minimum", highest_value(counted))
    return first if counted is index else body.convert(first, row, out)


def _emit_packed_reduction(body: Body, op: r.ArgReduction, x: str, t: ArrayType, out: ArrayType) -> str:
    """Writes one plain reduction of 64-bit integers: the element's rank above, its index below.

    XLA:CPU vectorises it; of a million floats it takes 1.1 ms, of (value, index) pairs 5.6 (jaxlib 0.10).
    """
    key, mask = array_type(dtypes.int64, t.shape), array_type(dtypes.bool_, t.shape)
    rank, rank_type = _emit_rank(body, x, t)
    if isinstance(op, r.ArgMax):
        rank = body.line(f"stablehlo.not {rank} : {rank_type.mlir}")
    if t.kind == "f":
        nan = body.line(f"stablehlo.compare NE, {x}, {x}, FLOAT : ({t.mlir}, {t.mlir}) -> {mask.mlir}")
        first = body.constant(lowest_value(rank_type), rank_type)
        rank = body.line(f"stablehlo.select {nan}, {first}, {rank} : {mask.mlir}, {rank_type.mlir}")
    wide = body.convert(rank, rank_type, key)
    high = body.line(f"stablehlo.shift_left {wide}, {body.constant(32, key)} : {key.mlir}")
    packed = body.line(f"stablehlo.or {high}, {sizes.iota(body, key, op.axis)} : {key.mlir}")
    least = _emit_plain_extreme(body, packed, key, (op.axis,), "minimum", highest_value(key))
    reduced = key.with_shape(out.shape)
    index = body.line(f"stablehlo.and {least}, {body.constant(2**32 - 1, reduced)} : {reduced.mlir}")
    return body.convert(index, reduced, out)


def _emit_rank(body: Body, x: str, t: ArrayType) -> tuple[str, ArrayType]:
    """Writes 32-bit integers that are ordered as elements of at most 32 bits are; equal for zeros of both signs."""
    rank = array_type(dtypes.int32, t.shape)
    if t.kind in "bi":
        return body.convert(x, t, rank), rank
    if t.kind == "u":
        wide = array_type(dtypes.int64, t.shape)
        shifted = body.line(
            f"stablehlo.subtract {body.convert(x, t, wide)}, {body.constant(2**31, wide)} : {wide.mlir}"
        )
        return body.convert(shifted, wide, rank), rank
    # A float's bits are ordered as the float is, but those of negative ones the other way round.
    single = array_type(dtypes.float32, t.shape)
    x = body.convert(x, t, single)
    bits = body.line(f"stablehlo.bitcast_convert {x} : ({single.mlir}) -> {rank.mlir}")
    turned = body.line(f"stablehlo.xor {bits}, {body.constant(2**31 - 1, rank)} : {rank.mlir}")
    mask = array_type(dtypes.bool_, t.shape).mlir
    zero = body.constant(0, rank)
    pair = f"({rank.mlir}, {rank.mlir}) -> {mask}"
    negative = body.line(f"stablehlo.compare LT, {bits}, {zero}, SIGNED : {pair}")
    ordered = body.line(f"stablehlo.select {negative}, {turned}, {bits} : {mask}, {rank.mlir}")
    minus_one = body.constant(-1, rank)
    is_minus_zero = body.line(f"stablehlo.compare EQ, {ordered}, {minus_one}, SIGNED : {pair}")
    return body.line(f"stablehlo.select {is_minus_zero}, {zero}, {ordered} : {mask}, {rank.mlir}"), rank


def symmetric_pair_lines(value: ArrayType, label: ArrayType, largest: bool) -> list[str]:
    """Returns a region that chooses the more extreme of two pairs, of equal ones (both NaN, too) that of the smaller label.

    It is symmetric in both, so that their order does not matter.

    Args:
        value, label: the types, of rank 0, of a pair's element and label.
        largest: True for the largest element; NaN is the most extreme.
    """
    s, k, kind = value.mlir, label.mlir, COMPARE_KIND[value.kind]
    pair = f"({s}, {s})"
    return [
        f"^bb0(%a: {s}, %i: {k}, %b: {s}, %j: {k}):",
        f"%more = stablehlo.compare {'GT' if largest else 'LT'}, %b, %a, {kind} : {pair} -> tensor<i1>",
        f"%same = stablehlo.compare EQ, %a, %b, {kind} : {pair} -> tensor<i1>",
        f"%an = stablehlo.compare NE, %a, %a, {kind} : {pair} -> tensor<i1>",
        f"%bn = stablehlo.compare NE, %b, %b, {kind} : {pair} -> tensor<i1>",
        "%number = stablehlo.not %an : tensor<i1>",
        "%first = stablehlo.and %bn, %number : tensor<i1>",
        "%both = stablehlo.and %bn, %an : tensor<i1>",
        "%equal = stablehlo.or %same, %both : tensor<i1>",
        f"%less = stablehlo.compare LT, %j, %i, {COMPARE_KIND[label.kind]} : ({k}, {k}) -> tensor<i1>",
        "%earlier = stablehlo.and %equal, %less : tensor<i1>",
        "%beyond = stablehlo.or %more, %first : tensor<i1>",
        "%taken = stablehlo.or %beyond, %earlier : tensor<i1>",
        f"%v = stablehlo.select %taken, %b, %a : tensor<i1>, {s}",
        f"%l = stablehlo.select %taken, %j, %i : tensor<i1>, {k}",
        f"stablehlo.return %v, %l : {s}, {k}",
    ]


def _emit_pair_reduction(body: Body, op: r.ArgReduction, x: str, t: ArrayType, out: ArrayType) -> str:
    """Writes one reduction over (value, index) pairs."""
    index = array_type(op.index_dtype, t.shape)
    largest = isinstance(op, r.ArgMax)
    value_type, index_type = array_type(t.dtype).mlir, array_type(op.index_dtype).mlir
    value = body.constant(lowest_value(t) if largest else highest_value(t), array_type(t.dtype))
    # The pair to start with is the first of equal ones, if no element is more extreme.
    zero = body.constant(0, array_type(op.index_dtype))
    kind = COMPARE_KIND[t.kind]
    index_kind = "UNSIGNED" if dtypes.is_unsigned(op.index_dtype) else "SIGNED"

    def compare(test: str, a: str, b: str, kind: str = kind, compared: str = value_type) -> str:
        return f"stablehlo.compare {test}, {a}, {b}, {kind} : ({compared}, {compared}) -> tensor<i1>"

    # The first of the pair is taken if it is more extreme, or as extreme and before the second; NaN is the most extreme.
    # A CPU combines from left to right, so that of two NaN the first is the earlier one.
    lines = [
        f"^bb0(%a: {value_type}, %i: {index_type}, %b: {value_type}, %j: {index_type}):",
        f"%more = {compare('GT' if largest else 'LT', '%a', '%b')}",
        f"%same = {compare('EQ', '%a', '%b')}",
        f"%earlier = {compare('LT', '%i', '%j', index_kind, index_type)}",
        "%tie = stablehlo.and %same, %earlier : tensor<i1>",
        "%better = stablehlo.or %more, %tie : tensor<i1>",
        f"%nan = {compare('NE', '%a', '%a')}",
        "%take = stablehlo.or %better, %nan : tensor<i1>",
        f"%v = stablehlo.select %take, %a, %b : tensor<i1>, {value_type}",
        f"%k = stablehlo.select %take, %i, %j : tensor<i1>, {index_type}",
        f"stablehlo.return %v, %k : {value_type}, {index_type}",
    ]
    if t.kind == "f" and body.module.platform != "cpu":
        lines = symmetric_pair_lines(array_type(t.dtype), array_type(op.index_dtype), largest)
    indices = sizes.iota(body, index, op.axis)
    reduced = t.with_shape(out.shape)
    return body.block(
        f'"stablehlo.reduce"({x}, {indices}, {value}, {zero}) ({{ '
        f"{' '.join(lines)} }}) "
        f"{{dimensions = array<i64: {op.axis}>}} : ({t.mlir}, {index.mlir}, {value_type}, {index_type}) "
        f"-> ({reduced.mlir}, {out.mlir})",
        2,
    )[1]


@emits(r.Cumulative)
def cumulative(body: Body, op: r.Cumulative, inputs: Inputs, outputs: Outputs) -> str:
    # In bfloat16 256 + 1 is 256, and selections of floats of 8 bits took LLVM minutes.
    x, wide = body.widen_short_float(body.name(inputs[0]), inputs[0].type)
    return body.convert(_emit_scan(body, op, x, wide), wide, inputs[0].type)


def _emit_scan(body: Body, op: r.Cumulative, x: str, t: ArrayType) -> str:
    # Of few elements a CPU combines pairs, runs over the pairs and fills in between (Blelloch, "Prefix sums and their
    # applications", 1990): two operations an element, each level vectorised, where reduce_window would be quadratic. Of more
    # elements the compiler takes longer for the levels than they run: a loop does it, and of many a scan of rows of eight.
    combine, init = combiner(op, t)
    is_short = not has_symbolic(t.shape) and t.shape[op.axis] * t.size <= WINDOWED
    if body.module.platform == "cpu" or is_short:
        init = _neutral_element(op, t)
    if has_symbolic(t.shape):
        return _emit_symbolic_scan(body, x, t, op.axis, combine, init, backwards=op.reverse)
    if t.shape[op.axis] < 2 or t.size == 0:
        return x
    start = body.constant(init, array_type(t.dtype))
    if is_short:
        return _emit_window_scan(body, x, t, op.axis, combine, start, backwards=op.reverse)
    if body.module.platform == "tpu" and HAS_SCAN:
        return _emit_scan_of_tpu(body, x, t, op.axis, combine, start, backwards=op.reverse)
    if body.module.platform in ("cuda", "rocm"):
        # XLA turns the window into blocks of its own: 7 kernels of a million floats become 5 (CUDA 13).
        return _emit_window_scan(body, x, t, op.axis, combine, start, backwards=op.reverse)
    is_last = math.prod(t.shape[op.axis + 1 :]) == 1
    if body.module.platform == "cpu" and is_last and t.size > SCANNED_IN_LOOP:
        return _emit_scan_of_rows(body, x, t, op.axis, combine, init, backwards=op.reverse)
    if t.size >= LOOPED:
        return _emit_block_scan(body, x, t, op.axis, combine, start, backwards=op.reverse)
    if not op.reverse:
        return _emit_tree_scan(body, x, t, op.axis, combine, start)
    reversed_input = body.line(f"stablehlo.reverse {x}, dims = [{op.axis}] : {t.mlir}")
    running = _emit_tree_scan(body, reversed_input, t, op.axis, combine, start)
    return body.line(f"stablehlo.reverse {running}, dims = [{op.axis}] : {t.mlir}")


def _emit_axis_slice(
    body: Body, x: str, t: ArrayType, axis: int, *, start: int, limit: int, step: int
) -> tuple[str, ArrayType]:
    """Writes a slice along one axis; returns its name and type."""
    size = max(0, -(-(limit - start) // step))
    out = t.with_shape((*t.shape[:axis], size, *t.shape[axis + 1 :]))
    starts, limits, steps = [0] * t.ndim, list(t.shape), [1] * t.ndim
    starts[axis], limits[axis], steps[axis] = start, limit, step
    return sizes.static_slice(body, x, t, out, start=starts, limit=limits, strides=steps), out


def _emit_interleaved_pad(body: Body, x: str, t: ArrayType, axis: int, *, low: int, n: int, init: str) -> str:
    """Writes every second element of an axis of size n, from `low` on, and the neutral element between."""
    out = t.with_shape((*t.shape[:axis], n, *t.shape[axis + 1 :]))
    m = t.shape[axis]
    before, behind, between = [[0] * t.ndim for _ in range(3)]
    before[axis], behind[axis], between[axis] = low, n - low - (2 * m - 1), 1
    return sizes.pad(body, x, t, init, out, low=before, high=behind, interior=between)


# Below so many combinations one quadratic reduce_window beats the levels: 15 us against 41 for 1,000
# floats whose last 64 sums come from it, and half the time to compile.
WINDOWED = 4096
# From so many elements on a CPU compiles and runs one loop faster than the levels.
# Half the time to compile of a tree, and 0.3 to 0.7 of jax's to run.
LOOPED = 512


def _emit_window_scan(
    body: Body, x: str, t: ArrayType, axis: int, combine: str, start: str, *, backwards: bool = False
) -> str:
    """Writes for each element the combination of all elements before it (behind it, backwards), itself included."""
    n, scalar = t.shape[axis], array_type(t.dtype).mlir
    window = [1] * t.ndim
    window[axis] = n
    edges = [0, n - 1] if backwards else [n - 1, 0]
    padding = [edges if i == axis else [0, 0] for i in range(t.ndim)]
    return body.line(
        f'"stablehlo.reduce_window"({x}, {start}) ({{ ^bb0(%a: {scalar}, %b: {scalar}): '
        f"%c = stablehlo.{combine} %a, %b : {scalar} stablehlo.return %c : {scalar} }}) "
        f"{{window_dimensions = array<i64: {', '.join(map(str, window))}>, "
        f"padding = dense<{padding}> : tensor<{t.ndim}x2xi64>}} "
        f": ({t.mlir}, {scalar}) -> {t.mlir}"
    )


# Before that version jaxlib hands a plugin no CHLO scan: "failed to legalize vhlo.composite_v2".
HAS_SCAN = version.__version_info__ >= (0, 11)


def _emit_scan_of_tpu(
    body: Body, x: str, t: ArrayType, axis: int, combine: str, start: str, *, backwards: bool
) -> str:
    """Writes CHLO's scan, which the compiler for TPUs makes one or two kernels of; XLA:CPU ends the process on it.

    A million floats take 0.3 s to compile so, 32 s as a window and 68 s as a tree (libtpu 0.0.52).
    """
    row = t.with_shape((*t.shape[:axis], *t.shape[axis + 1 :]))
    init = body.broadcast(start, array_type(t.dtype), row)
    return body.block(
        f'"chlo.scan"({x}, {init}) ({{ ^bb0(%a: {row.mlir}, %b: {row.mlir}): '
        f"%c = stablehlo.{combine} %a, %b : {row.mlir} stablehlo.return %c, %c : {row.mlir}, {row.mlir} }}) "
        f"{{dimension = {axis} : i64, is_associative = true, is_reverse = {str(backwards).lower()}, "
        "operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>} "
        f": ({t.mlir}, {row.mlir}) -> ({t.mlir}, {row.mlir})",
        2,
    )[0]


# An axis is split into so many blocks that one element of each fills vectors, and the cache lines of these
# elements stay in the cache from one iteration to the next.
BLOCKS = 256
# Bytes of a line of a cache, and of what the sets of a core's first cache hold one line of each.
CACHE_LINE, CACHE_SETS = 64, 4096


def _spread_over_cache(length: int, width: int) -> int:
    """Returns a length of blocks, the least from `length` on, whose blocks do not share the sets of a cache.

    One element of each block is in the cache at a time. Blocks that lie a power of two apart share sets, so that few
    stay: 2^20 floats took 13.3 ms, 10^6 3.1 ms.

    Args:
        length: elements of a block. width: bytes of an element, with the axes behind it.
    """
    while math.gcd(length * width, CACHE_SETS) > max(CACHE_LINE, math.gcd(width, CACHE_SETS)):
        length += 1
    return length


def _emit_block_scan(
    body: Body, x: str, t: ArrayType, axis: int, combine: str, start: str, *, backwards: bool
) -> str:
    """Writes a scan in a loop, along all blocks of the axis at once, and combines each with the total before it.

    Backwards, the loop runs from the end: to reverse 2^20 floats twice took as long as their sums.
    """
    n = t.shape[axis]
    outer, inner = math.prod(t.shape[:axis]), math.prod(t.shape[axis + 1 :])
    blocks = max(1, min(BLOCKS // (outer * inner), math.isqrt(n)))
    length = -(-n // blocks)
    if outer * blocks > 16:
        length = _spread_over_cache(length, inner * t.dtype.itemsize)
    flat, padded = t.with_shape((outer, n, inner)), t.with_shape((outer, blocks * length, inner))
    block_shapes, row = t.with_shape((outer, blocks, length, inner)), t.with_shape((outer, blocks, 1, inner))
    x = sizes.reshape(body, x, t, flat)
    if padded is not flat:
        x = _emit_pad(body, x, flat, padded, low=0, high=padded.shape[1] - n, start=start)
    x = sizes.reshape(body, x, padded, block_shapes)
    x, running = _emit_running_combination(
        body,
        x,
        body.broadcast(start, array_type(t.dtype), row),
        block_shapes,
        row,
        combine,
        backwards=backwards,
    )
    if blocks > 1:
        totals = t.with_shape((outer, blocks, inner))
        running = sizes.reshape(body, running, row, totals)
        total = (_emit_window_scan if blocks * totals.size <= WINDOWED else _emit_block_scan)(
            body, running, totals, 1, combine, start, backwards=backwards
        )
        # The total before a block: the scan of totals, shifted by one block.
        by = -1 if backwards else 1
        before = _emit_pad(body, total, totals, totals, low=by, high=-by, start=start)
        spread = sizes.broadcast_in_dim(body, before, totals, block_shapes, (0, 1, 3))
        x = body.line(f"stablehlo.{combine} {spread}, {x} : {block_shapes.mlir}")
    x = sizes.reshape(body, x, block_shapes, padded)
    if padded is not flat:
        x, _ = _emit_axis_slice(body, x, padded, 1, start=0, limit=n, step=1)
    return sizes.reshape(body, x, flat, t)


# Terms of a row that are combined at once. 2^22 floats took 2.7 ms with 8 of them, 4.7 with 16, 2^20 0.57 and 1.13.
TERMS = 8
# Rows are scanned in pairs: with an odd number of rows the loops of 10^6 floats take 1.4 ms, with an even one 0.8.
PAIR_OF_ROWS = 2 * TERMS
# So few totals of rows are scanned in a loop, which takes less to compile: 600,000 floats 82 ms, by a second level 114.
FEW = 100_000
# So few elements as well: 2^16 floats take 100 us in a loop and 50 in rows, which compile for 75 ms instead of 50.
SCANNED_IN_LOOP = 2**17


def _neutral_element(op: r.Cumulative, t: ArrayType) -> Scalar:
    """Returns what leaves each element as it is: a negative zero for sums of floats, since 0 + -0 is 0; of both parts."""
    if isinstance(op, r.CumSum) and t.kind in "fc":
        return -0.0 if t.kind == "f" else complex(-0.0, -0.0)
    return combiner(op, t)[1]


def _emit_scan_of_rows(
    body: Body, x: str, t: ArrayType, axis: int, combine: str, neutral: Scalar, *, backwards: bool
) -> str:
    """Writes a scan along an axis behind which there are no more elements, for a CPU.

    It works within rows of eight, and along the rows' totals by the same form until these are few.

    An element of a row is the combination of those of its row up to it, in their order, and of what is before the row:

        y[k, j] = total(rows before k) + (x[k, 0] + ... + x[k, j])

    Written as seven selections (a term is taken where it is not behind j), it is one loop over all elements that XLA
    vectorises, splits among the processors and fuses with what uses the sums. It reads the operand twice and writes
    the result once; all else is an eighth as large. A loop over blocks reads elements that lie far apart, one at a time.

    The barrier has the operand computed once: fused with the loop, an operand such as `2 * x` is computed for each of
    the eight terms of an element. The sums of `2 * x` of 2^20 floats took 1.42 ms so, their running maximum 3.9; 0.31
    and 0.68 with it.

    On two cores (EPYC, quiet, jaxlib 0.12) 2^20 floats take 0.19 ms; a loop over 256 blocks 2.9, JAX 1.8, PyTorch 0.8,
    NumPy 3.0.
    """
    flat = t.with_shape((math.prod(t.shape[:axis]), t.shape[axis]))
    (x,) = body.barrier((sizes.reshape(body, x, t, flat), flat))
    n = t.shape[axis]
    rest = n % PAIR_OF_ROWS if n > PAIR_OF_ROWS else 0
    if not rest:
        x = _emit_scan_of_whole_rows(body, x, flat, combine, neutral, backwards=backwards)
        return sizes.reshape(body, x, flat, t)
    # What is beyond the pairs of rows is a scan of its own. To pad the operand and cut the result takes two copies more.
    cut = rest if backwards else n - rest
    parts = []
    for start, limit in ((0, cut), (cut, n)):
        part, part_type = _emit_axis_slice(body, x, flat, 1, start=start, limit=limit, step=1)
        part = _emit_scan_of_whole_rows(body, part, part_type, combine, neutral, backwards=backwards)
        parts.append((part, part_type))
    (first, first_type), (last, last_type) = parts
    if backwards:
        (last,) = body.barrier((last, last_type))
        total, total_type = _emit_axis_slice(body, last, last_type, 1, start=0, limit=1, step=1)
        total = sizes.broadcast_in_dim(body, total, total_type, first_type, (0, 1))
        first = body.line(f"stablehlo.{combine} {first}, {total} : {first_type.mlir}")
    else:
        (first,) = body.barrier((first, first_type))
        total, total_type = _emit_axis_slice(body, first, first_type, 1, start=cut - 1, limit=cut, step=1)
        total = sizes.broadcast_in_dim(body, total, total_type, last_type, (0, 1))
        last = body.line(f"stablehlo.{combine} {total}, {last} : {last_type.mlir}")
    x = body.line(
        f"stablehlo.concatenate {first}, {last}, dim = 1 : ({first_type.mlir}, {last_type.mlir}) -> {flat.mlir}"
    )
    return sizes.reshape(body, x, flat, t)


def _emit_scan_of_whole_rows(
    body: Body, x: str, t: ArrayType, combine: str, neutral: Scalar, *, backwards: bool, shifted: bool = False
) -> str:
    """Writes the scan along the second of two axes, which is one row, of up to sixteen, or pairs of rows of eight.

    A shifted scan combines what is before an element, without the element.
    """
    outer, n = t.shape
    terms = n if n <= PAIR_OF_ROWS else TERMS
    split = t.with_shape((outer, n // terms, terms))
    x = sizes.reshape(body, x, t, split)
    within = _combine_within_rows(body, x, split, combine, neutral, backwards=backwards, shifted=shifted)
    if n > terms:
        before, totals = _emit_totals_before_rows(body, x, split, combine, neutral, backwards=backwards)
        before = sizes.broadcast_in_dim(body, before, totals, split, (0, 1))
        pair = f"{within}, {before}" if backwards else f"{before}, {within}"
        within = body.line(f"stablehlo.{combine} {pair} : {split.mlir}")
    return sizes.reshape(body, within, split, t)


def _emit_totals_before_rows(
    body: Body, x: str, t: ArrayType, combine: str, neutral: Scalar, *, backwards: bool
) -> tuple[str, ArrayType]:
    """Writes for each row, along the last of three axes, the combination of all rows before it."""
    outer, rows, terms = t.shape
    totals = t.with_shape((outer, rows))
    total, column = _emit_axis_slice(body, x, t, 2, start=0, limit=1, step=1)
    for i in range(1, terms):
        term, _ = _emit_axis_slice(body, x, t, 2, start=i, limit=i + 1, step=1)
        total = body.line(f"stablehlo.{combine} {total}, {term} : {column.mlir}")
    # Without the barriers XLA computes all totals again for each element that uses one.
    (total,) = body.barrier((sizes.reshape(body, total, column, totals), totals))
    start = body.constant(neutral, array_type(t.dtype))
    if rows > PAIR_OF_ROWS and totals.size <= FEW:
        is_short = rows * totals.size <= WINDOWED
        emit_scan = _emit_window_scan if is_short else _emit_block_scan
        total = emit_scan(body, total, totals, 1, combine, start, backwards=backwards)
        by = -1 if backwards else 1
        before = sizes.pad(body, total, totals, start, totals, low=[0, by], high=[0, -by], interior=[0, 0])
    else:
        more = -rows % PAIR_OF_ROWS if rows > PAIR_OF_ROWS else 0
        whole = t.with_shape((outer, rows + more))
        if more:
            total = sizes.pad(body, total, totals, start, whole, low=[0, 0], high=[0, more], interior=[0, 0])
        before = _emit_scan_of_whole_rows(
            body, total, whole, combine, neutral, backwards=backwards, shifted=True
        )
        if more:
            # Fused with the loop, the cut keeps it from being vectorised.
            (before,) = body.barrier((before, whole))
            before, _ = _emit_axis_slice(body, before, whole, 1, start=0, limit=rows, step=1)
    (before,) = body.barrier((before, totals))
    return before, totals


def _combine_within_rows(
    body: Body, x: str, t: ArrayType, combine: str, neutral: Scalar, *, backwards: bool, shifted: bool
) -> str:
    """Writes for each element of a row, along the last axis, the combination of those up to it, or before it."""
    n = t.shape[2]
    column = t.with_shape((*t.shape[:2], 1))
    mask, index = array_type(dtypes.bool_, t.shape), array_type(dtypes.int32, t.shape)
    compare, indices = "L" if backwards else "G", f"({index.mlir}, {index.mlir})"
    compare += "T" if shifted else "E"
    place = sizes.iota(body, index, 2)
    combined = body.constant(neutral, t) if shifted else ""
    terms = range(n - shifted)
    for i in (n - 1 - j for j in terms) if backwards else terms:
        term, _ = _emit_axis_slice(body, x, t, 2, start=i, limit=i + 1, step=1)
        term = sizes.broadcast_in_dim(body, term, column, t, (0, 1, 2))
        if not combined:
            combined = term
            continue
        number = body.constant(i, index)
        is_taken = body.line(
            f"stablehlo.compare {compare}, {place}, {number}, SIGNED : {indices} -> {mask.mlir}"
        )
        pair = f"{term}, {combined}" if backwards else f"{combined}, {term}"
        more = body.line(f"stablehlo.{combine} {pair} : {t.mlir}")
        combined = body.line(f"stablehlo.select {is_taken}, {more}, {combined} : {mask.mlir}, {t.mlir}")
    return combined


def _emit_pad(body: Body, x: str, t: ArrayType, to: ArrayType, *, low: int, high: int, start: str) -> str:
    return sizes.pad(body, x, t, start, to, low=[0, low, 0], high=[0, high, 0], interior=[0] * 3)


def _emit_symbolic_scan(
    body: Body, x: str, t: ArrayType, axis: int, combine: str, init: Scalar, *, backwards: bool
) -> str:
    """Writes one loop along an axis: it or another one has a symbolic size."""
    row = t.with_shape((*t.shape[:axis], 1, *t.shape[axis + 1 :]))
    return _emit_running_combination(
        body, x, body.constant(init, row), t, row, combine, axis=axis, backwards=backwards
    )[0]


def _emit_running_combination(
    body: Body,
    x: str,
    running: str,
    t: ArrayType,
    row: ArrayType,
    combine: str,
    *,
    axis: int = 2,
    backwards: bool = False,
) -> tuple[str, str]:
    """Writes a loop along an axis that combines each element with those before it; returns all and the last ones."""
    index = array_type(dtypes.int32)
    zero, one, end = body.constant(0, index), body.constant(1, index), sizes.write_size(body, t.shape[axis])
    index_types = ", ".join([index.mlir] * t.ndim)
    last_place = sizes.write_size(body, t.shape[axis] - 1) if backwards else ""

    def more(now: Sequence[str]) -> str:
        return body.line(
            f"stablehlo.compare LT, {now[0]}, {end}, SIGNED : ({index.mlir}, {index.mlir}) -> tensor<i1>"
        )

    def step(now: Sequence[str]) -> tuple[str, ...]:
        i, combined, running = now
        position = body.line(f"stablehlo.subtract {last_place}, {i} : {index.mlir}") if backwards else i
        starts = [zero] * t.ndim
        starts[axis] = position
        at = ", ".join(starts)
        here = sizes.dynamic_slice(body, combined, t, [(n, index) for n in starts], row)
        running = body.line(f"stablehlo.{combine} {running}, {here} : {row.mlir}")
        combined = body.line(
            f"stablehlo.dynamic_update_slice {combined}, {running}, {at} : ({t.mlir}, {row.mlir}, {index_types}) -> {t.mlir}"
        )
        return body.line(f"stablehlo.add {i}, {one} : {index.mlir}"), combined, running

    _, x, last = emit_while_loop(body, (zero, x, running), (index, t, row), more, step)
    return x, last


def _emit_tree_scan(body: Body, x: str, t: ArrayType, axis: int, combine: str, start: str) -> str:
    """Writes the combinations of pairs, the scan of these, and from it the elements between."""
    n = t.shape[axis]
    if n < 2:
        return x
    if n * t.size <= WINDOWED:
        return _emit_window_scan(body, x, t, axis, combine, start)
    first, pairs = _emit_axis_slice(body, x, t, axis, start=0, limit=n - 1, step=2)
    second, _ = _emit_axis_slice(body, x, t, axis, start=1, limit=n, step=2)
    paired = body.line(f"stablehlo.{combine} {first}, {second} : {pairs.mlir}")
    # Behind each pair stands the running result; between, one element more than behind the pair before.
    odd = _emit_tree_scan(body, paired, pairs, axis, combine, start)
    head, one = _emit_axis_slice(body, x, t, axis, start=0, limit=1, step=1)
    if n == 2:
        even, even_type = head, one
    else:
        later, rest = _emit_axis_slice(body, x, t, axis, start=2, limit=n, step=2)
        before, _ = _emit_axis_slice(body, odd, pairs, axis, start=0, limit=rest.shape[axis], step=1)
        tail = body.line(f"stablehlo.{combine} {before}, {later} : {rest.mlir}")
        even_type = t.with_shape((*t.shape[:axis], rest.shape[axis] + 1, *t.shape[axis + 1 :]))
        even = body.line(
            f"stablehlo.concatenate {head}, {tail}, dim = {axis} : ({one.mlir}, {rest.mlir}) -> {even_type.mlir}"
        )
    left = _emit_interleaved_pad(body, even, even_type, axis, low=0, n=n, init=start)
    right = _emit_interleaved_pad(body, odd, pairs, axis, low=1, n=n, init=start)
    return body.line(f"stablehlo.{combine} {left}, {right} : {t.mlir}")
