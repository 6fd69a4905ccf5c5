"""StableHLO text of operations that hold programs: calls, branches and loops.

Bodies are private functions that the regions call, so each program is written once however often it is
used; XLA inlines them.

Never: specialise a program; handlers have done that.
"""

from collections.abc import Callable, Sequence
from functools import partial

from effx import dtypes
from effx.ir.ops.control import Call, Cond, Scan, While, find_platform_branch
from effx.ir.ops.groups import split_into
from effx.ir.program import Atom, Var
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import ArrayType, array_type
from effx.lower.text import sizes
from effx.lower.text.emit import Body, emits
from effx.lower.text.stablehlo.sharding import emit_terms

INDEX = array_type(dtypes.int32)
BOOL = array_type(dtypes.bool_)
Names = Sequence[str]


@emits(Call)
def call(body: Body, op: Call, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    names = [body.name(a) for a in inputs]
    return body.inline(op.program, names) if op.inline else body.call(op.program, names)


@emits(Cond)
def cond(body: Body, op: Cond, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    if op.platforms:
        branch = op.branches[find_platform_branch(op.platforms, body.module.platform)]
        return body.inline(branch, [body.name(a) for a in inputs[1:]])
    index, *names = [body.name(a) for a in inputs]
    if len(op.branches) == 1:
        return body.call(op.branches[0], names)
    types = [v.type for v in outputs]
    regions: list[str] = []
    for i, branch in enumerate(op.branches):
        write = partial(body.call_part, branch, names, f"cond/branch_{i}_fun")
        regions.append("\n".join(body.region(write, types)))
    joined = "\n    }, {\n".join(regions)
    results = ", ".join([t.mlir for t in types])
    text = f'"stablehlo.case"({index}) ({{\n{joined}\n    }}) : ({INDEX.mlir}) -> ({results})'
    return body.block(text, len(types))


def emit_while_loop(
    body: Body,
    start: Names,
    types: Sequence[ArrayType],
    condition: Callable[[Names], str],
    step: Callable[[Names], Names],
) -> tuple[str, ...]:
    """Writes a while loop.

    Args:
        body: where to write.
        start: the initial values.
        types: their types.
        condition: writes a bool scalar from the current values.
        step: writes the next values from the current ones.
    """
    names = [f"%w{body.fresh()}" for _ in start]
    test = body.region(lambda: (condition(names),), (BOOL,))
    # A value that a step returns as it got it would be taken for a replicated one.
    iteration = body.region(
        lambda: step([emit_terms(body, x, t) for x, t in zip(names, types, strict=True)]), types
    )
    bound = ", ".join([f"{n} = {s}" for n, s in zip(names, start, strict=True)])
    kinds = ", ".join([t.mlir for t in types])
    text = "\n".join(
        (f"stablehlo.while({bound}) : {kinds}", "    cond {", *test, "    } do {", *iteration, "    }")
    )
    return body.block(text, len(types))


@emits(While)
def emit_while(body: Body, op: While, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    results = emit_while_loop(
        body,
        [body.name(a) for a in inputs],
        op.body.in_types,
        lambda now: body.call_part(op.condition, now, "while/cond")[0],
        lambda now: (*op.group_operands(now).constants, *body.call_part(op.body, now, "while/body")),
    )
    return op.group_operands(results).carry


@emits(Scan)
def scan(body: Body, op: Scan, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    names = op.group_operands([body.name(a) for a in inputs])
    in_types = op.group_operands([a.type for a in inputs])
    slices = op.group_operands(op.body.in_types).xs
    parts, stacked = op.group_results(op.body.out_types).ys, op.group_results([v.type for v in outputs]).ys
    moving = (*names.carry, *[body.constant(0, t) for t in stacked])

    def iteration(index: str, now: Names, constants: Names, xs: Names) -> tuple[str, ...]:
        """Writes one step: slices in, body, slices out."""
        rows = [
            _emit_dynamic_index(body, x, t, s, index) for x, t, s in zip(xs, in_types.xs, slices, strict=True)
        ]
        before = op.group_results(now)
        results = op.group_results(body.call_part(op.body, (*constants, *before.carry, *rows), "while/body"))
        ys = [
            emit_terms(body, _emit_dynamic_update(body, y, t, part, r, index), t)
            for y, t, part, r in zip(before.ys, stacked, results.ys, parts, strict=True)
        ]
        return (*results.carry, *ys)

    def at(i: int) -> str:
        return body.constant(op.length - 1 - i if op.reverse else i, INDEX)

    def shifted(i: str, by: int) -> str:
        """Writes the index of step i + by."""
        if op.reverse:
            return body.line(
                f"stablehlo.subtract {sizes.write_size(body, op.length - 1 - by)}, {i} : {INDEX.mlir}"
            )
        return body.line(f"stablehlo.add {i}, {body.constant(by, INDEX)} : {INDEX.mlir}") if by else i

    symbolic = is_symbolic(op.length)
    unroll = 1 if symbolic else max(1, min(op.unroll, op.length))
    iterations = op.length // unroll
    now: tuple[str, ...] = tuple(moving)
    done = 0
    if symbolic or iterations > 1:
        done = iterations * unroll
        m = len(moving)

        def step(values: Names) -> Names:
            (i,), current, constants, xs = split_into(values, 1, m, op.constants)
            for k in range(unroll):
                current = iteration(shifted(i, k), current, constants, xs)
            following = body.line(f"stablehlo.add {i}, {body.constant(unroll, INDEX)} : {INDEX.mlir}")
            return (following, *current, *constants, *xs)

        def more(values: Names) -> str:
            bound = sizes.write_size(body, done)
            return body.line(
                f"stablehlo.compare LT, {values[0]}, {bound}, SIGNED : ({INDEX.mlir}, {INDEX.mlir}) -> {BOOL.mlir}"
            )

        types = (INDEX, *in_types.carry, *stacked, *in_types.constants, *in_types.xs)
        start = (body.constant(0, INDEX), *moving, *names.constants, *names.xs)
        now = emit_while_loop(body, start, types, more, step)[1 : 1 + m]
    for i in [] if symbolic else range(done, op.length):
        now = iteration(at(i), now, names.constants, names.xs)
    return now


def _emit_dynamic_index(body: Body, x: str, t: ArrayType, s: ArrayType, index: str) -> str:
    """Writes x[index]."""
    one = _row_type(t, s)
    zero = body.constant(0, INDEX) if s.shape else ""
    starts = [(index, INDEX), *[(zero, INDEX)] * s.ndim]
    row = emit_terms(body, sizes.dynamic_slice(body, x, t, starts, one), one)
    return emit_terms(body, sizes.reshape(body, row, one, s), s)


def _row_type(t: ArrayType, s: ArrayType) -> ArrayType:
    """Returns the type of a row of t, which has the type s without its first axis."""
    sharding = s.explicit_sharding
    one = t.with_shape((1, *s.shape))
    return (
        one
        if sharding is None
        else one.with_sharding(sharding.with_mesh_axes(((), *sharding.mesh_axes(s.ndim))))
    )


def _emit_dynamic_update(body: Body, y: str, t: ArrayType, part: str, s: ArrayType, index: str) -> str:
    """Writes y with y[index] = part; XLA updates it in place."""
    one = _row_type(t, s)
    row = emit_terms(body, sizes.reshape(body, part, s, one), one)
    zero = body.constant(0, INDEX) if s.shape else ""
    starts = ", ".join([index, *[zero] * s.ndim])
    kinds = ", ".join([INDEX.mlir] * t.ndim)
    return body.line(
        f"stablehlo.dynamic_update_slice {y}, {row}, {starts} : ({t.mlir}, {one.mlir}, {kinds}) -> {t.mlir}"
    )
