"""StableHLO text of reductions and cumulative reductions.

Never: choose the dtype to add up in; effx.array.reducing does.
"""

from effx import dtypes
from effx.ir.ops import reduce as r
from effx.ir.program import Atom, Scalar, Var
from effx.ir.types import ArrayType, array_type
from effx.lower.emit import Body, emits, highest, ints, lowest
from effx.lower.stablehlo.elementwise import COMPARE_KIND

Inputs = tuple[Atom, ...]
Outputs = tuple[Var, ...]


def _ones(t: ArrayType) -> Scalar:
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
            return "maximum", lowest(t)
        case r.ReduceMin() | r.CumMin():
            return "minimum", highest(t)
        case r.ReduceAnd():
            return "and", _ones(t)
        case r.ReduceOr():
            return "or", 0
        case _:
            return "xor", 0


def reduce_line(
    body: Body, name: str, t: ArrayType, axes: tuple[int, ...], combine: str, init: Scalar
) -> str:
    """Writes one reduction and returns its name."""
    scalar = array_type(t.dtype)
    out = t.with_shape(tuple([n for i, n in enumerate(t.shape) if i not in axes]))
    start = body.constant(init, scalar)
    return body.line(
        f"stablehlo.reduce({name} init: {start}) applies stablehlo.{combine} across dimensions = {ints(axes)} "
        f": ({t.mlir}, {scalar.mlir}) -> {out.mlir}"
    )


@emits(r.Reduction)
def reduction(body: Body, op: r.Reduction, inputs: Inputs, outputs: Outputs) -> str:
    x = inputs[0]
    if not op.axes:
        return body.name(x)
    combine, init = combiner(op, x.type)
    return reduce_line(body, body.name(x), x.type, op.axes, combine, init)


@emits(r.ArgReduction)
def arg_reduction(body: Body, op: r.ArgReduction, inputs: Inputs, outputs: Outputs) -> str:
    # Two plain reductions, which XLA vectorises, in place of one over (value, index) pairs:
    # the extreme value, then the smallest index that holds it. A NaN makes the extreme NaN,
    # and then the smallest index of a NaN is wanted.
    t, out = inputs[0].type, outputs[0].type
    x = body.name(inputs[0])
    index = array_type(op.index_dtype, t.shape)
    mask = array_type(dtypes.bool_, t.shape)
    largest = isinstance(op, r.ArgMax)
    best = reduce_line(
        body, x, t, (op.axis,), "maximum" if largest else "minimum", lowest(t) if largest else highest(t)
    )
    kept = [i for i in range(t.ndim) if i != op.axis]
    reduced = t.with_shape(out.shape)
    spread = body.line(
        f"stablehlo.broadcast_in_dim {best}, dims = {ints(kept)} : ({reduced.mlir}) -> {t.mlir}"
    )
    kind = COMPARE_KIND[t.kind]
    hit = body.line(f"stablehlo.compare EQ, {x}, {spread}, {kind} : ({t.mlir}, {t.mlir}) -> {mask.mlir}")
    if t.kind == "f":
        nan = body.line(f"stablehlo.compare NE, {x}, {x}, {kind} : ({t.mlir}, {t.mlir}) -> {mask.mlir}")
        hit = body.line(f"stablehlo.or {hit}, {nan} : {mask.mlir}")
    places = body.line(f"stablehlo.iota dim = {op.axis} : {index.mlir}")
    last = body.constant(highest(index), index)
    chosen = body.line(f"stablehlo.select {hit}, {places}, {last} : {mask.mlir}, {index.mlir}")
    return reduce_line(body, chosen, index, (op.axis,), "minimum", highest(index))


@emits(r.Cumulative)
def cumulative(body: Body, op: r.Cumulative, inputs: Inputs, outputs: Outputs) -> str:
    # Doubling steps inside blocks, then the same over the blocks' totals: log2(block) vectorised
    # passes over the data instead of one slow pass or log2(n) of them.
    t = inputs[0].type
    x = body.name(inputs[0])
    combine, init = combiner(op, t)
    n = t.shape[op.axis]
    if n <= 1 or t.size == 0:
        return x
    return _scan(body, x, t, op.axis, op.reverse, combine, init)


BLOCK = 32


def _shift(
    body: Body, x: str, t: ArrayType, axis: int, by: int, reverse: bool, init: str, scalar: str
) -> str:
    low, high, start, limit = [0] * t.ndim, [0] * t.ndim, [0] * t.ndim, list(t.shape)
    if reverse:
        start[axis] = by
        high[axis] = by
    else:
        limit[axis] -= by
        low[axis] = by
    cut = t.with_shape(tuple([b - a for a, b in zip(start, limit, strict=True)]))
    ranges = ", ".join(f"{a}:{b}" for a, b in zip(start, limit, strict=True))
    part = body.line(f"stablehlo.slice {x} [{ranges}] : ({t.mlir}) -> {cut.mlir}")
    return body.line(
        f"stablehlo.pad {part}, {init}, low = {ints(low)}, high = {ints(high)}, interior = {ints([0] * t.ndim)} "
        f": ({cut.mlir}, {scalar}) -> {t.mlir}"
    )


def _scan(body: Body, x: str, t: ArrayType, axis: int, reverse: bool, combine: str, init: Scalar) -> str:
    scalar = array_type(t.dtype)
    start = body.constant(init, scalar)
    n = t.shape[axis]
    if n <= BLOCK:
        by = 1
        while by < n:
            moved = _shift(body, x, t, axis, by, reverse, start, scalar.mlir)
            x = body.line(f"stablehlo.{combine} {x}, {moved} : {t.mlir}")
            by *= 2
        return x
    blocks = -(-n // BLOCK)
    rest = blocks * BLOCK - n
    padded = t.with_shape((*t.shape[:axis], blocks * BLOCK, *t.shape[axis + 1 :]))
    if rest:
        edge = [rest if i == axis else 0 for i in range(t.ndim)]
        none = ints([0] * t.ndim)
        low, high = (ints(edge), none) if reverse else (none, ints(edge))
        x = body.line(
            f"stablehlo.pad {x}, {start}, low = {low}, high = {high}, interior = {none} "
            f": ({t.mlir}, {scalar.mlir}) -> {padded.mlir}"
        )
    split = t.with_shape((*t.shape[:axis], blocks, BLOCK, *t.shape[axis + 1 :]))
    x = body.line(f"stablehlo.reshape {x} : ({padded.mlir}) -> {split.mlir}")
    inner = _scan(body, x, split, axis + 1, reverse, combine, init)
    totals = t.with_shape((*t.shape[:axis], blocks, *t.shape[axis + 1 :]))
    last = reduce_line(body, x, split, (axis + 1,), combine, init)
    running = _scan(body, last, totals, axis, reverse, combine, init)
    before = _shift(body, running, totals, axis, 1, reverse, start, scalar.mlir)
    dims = ints([i for i in range(split.ndim) if i != axis + 1])
    spread = body.line(
        f"stablehlo.broadcast_in_dim {before}, dims = {dims} : ({totals.mlir}) -> {split.mlir}"
    )
    both = body.line(f"stablehlo.{combine} {inner}, {spread} : {split.mlir}")
    joined = body.line(f"stablehlo.reshape {both} : ({split.mlir}) -> {padded.mlir}")
    if not rest:
        return joined
    first = rest if reverse else 0
    ranges = ", ".join(f"{first}:{first + n}" if i == axis else f"0:{m}" for i, m in enumerate(t.shape))
    return body.line(f"stablehlo.slice {joined} [{ranges}] : ({padded.mlir}) -> {t.mlir}")
