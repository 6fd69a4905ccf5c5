"""Splitting calls, branches and loops into a known and a linear part. The values of the known part that the
linear part reads are residuals. A residual that is an operand is passed on. A scan's residuals are stacked,
unless they are the same in all iterations. The branches of a cond return their residuals in common slots,
which are matched by type.
"""

from collections.abc import Sequence

import attrs

from effx import ports
from effx.array import Array
from effx.array.promotion import zeros
from effx.effects import Operation
from effx.errors import TransformError
from effx.handlers.linear.partial_eval import Parts, Split, counts, split, splitter
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.control import Call, Cond, Region, Scan, While
from effx.ir.ops.host import DEBUG, ORDERED_DEBUG, outer_effect
from effx.ir.passes import dead_code
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import ArrayType


def places(mask: Sequence[bool], wanted: bool) -> tuple[int, ...]:
    """Returns the indices where the mask has a value."""
    return tuple([i for i, m in enumerate(mask) if m is wanted])


@splitter(Call)
def call(op: Call, linear_in: tuple[bool, ...], once: bool) -> Parts:
    parts = split(op.program, linear_in, once)
    return Parts(
        known=Call(parts.known, op.inline) if counts(parts.known) else None,
        known_operands=places(linear_in, False),
        computed=parts.computed,
        linear=Call(parts.linear, op.inline) if parts.linear.outputs else None,
        linear_operands=(*parts.forwarded, *[~j for j in range(parts.computed)], *places(linear_in, True)),
        linear_out=parts.linear_out,
    )


@splitter(Cond)
def cond(op: Cond, linear_in: tuple[bool, ...], once: bool) -> Parts:
    mask = linear_in[1:]
    first = [split(branch, mask, once) for branch in op.branches]
    linear_out = tuple([any(outs) for outs in zip(*[p.linear_out for p in first], strict=True)])
    halves = [split(branch, mask, once, linear_out) for branch in op.branches]
    forwarded = tuple(dict.fromkeys([i for h in halves for i in h.forwarded]))
    # Only one branch is taken, so the residuals of all branches use common slots, matched by type.
    slots: list[ArrayType] = []
    taken: list[list[int]] = []
    for h in halves:
        free = list(range(len(slots)))
        mine: list[int] = []
        for t in h.known.out_types[len(h.known.outputs) - h.computed :]:
            slot = next((j for j in free if slots[j].matches(t)), None)
            if slot is None:
                slot = len(slots)
                slots.append(t.strong())
            else:
                free.remove(slot)
            mine.append(slot)
        taken.append(mine)
    known = [_with_slots(h, mine, slots) for h, mine in zip(halves, taken, strict=True)]
    linear = [_from_slots(h, mine, slots, forwarded) for h, mine in zip(halves, taken, strict=True)]
    return Parts(
        known=attrs.evolve(op, branches=tuple(known)) if any([counts(k) for k in known]) else None,
        known_operands=(0, *[i + 1 for i in places(mask, False)]),
        computed=len(slots),
        linear=attrs.evolve(op, branches=tuple(linear)) if any(linear_out) else None,
        linear_operands=(
            0,
            *[i + 1 for i in forwarded],
            *[~j for j in range(len(slots))],
            *[i + 1 for i in places(mask, True)],
        ),
        linear_out=linear_out,
    )


def _with_slots(half: Split, mine: Sequence[int], slots: Sequence[ArrayType]) -> Program:
    """Returns a branch's known part with all slots as results; zeros fill those that it does not use."""
    n = len(half.known.outputs) - half.computed

    def body(arrays: list[Array]) -> list[Array]:
        results = run_program(half.known, arrays)
        at = dict(zip(mine, results[n:], strict=True))
        return [*results[:n], *[at[j] if j in at else zeros(t) for j, t in enumerate(slots)]]

    if list(mine) == list(range(len(slots))):
        return half.known
    return stage(body, half.known.in_types, half.known.name, "linearize").program


def _from_slots(
    half: Split, mine: Sequence[int], slots: Sequence[ArrayType], forwarded: Sequence[int]
) -> Program:
    """Returns a branch's linear part with the operands of all branches as inputs."""
    inputs = half.linear.inputs
    f = len(half.forwarded)
    given = dict(zip(half.forwarded, inputs[:f], strict=True))
    held = dict(zip(mine, inputs[f : f + half.computed], strict=True))
    # Inputs that this branch ignores have the type of the operand, which all branches share.
    types = dict(zip(_known_places(half), half.known.in_types, strict=True))
    return attrs.evolve(
        half.linear,
        inputs=(
            *[given[i] if i in given else Var(types[i]) for i in forwarded],
            *[held[j] if j in held else Var(t) for j, t in enumerate(slots)],
            *inputs[f + half.computed :],
        ),
        derived={},
    )


def _known_places(half: Split) -> tuple[int, ...]:
    return places(half.linear_in, False)


def carry_of(region: Region, linear_in: tuple[bool, ...], once: bool) -> tuple[tuple[bool, ...], Split]:
    """Finds what is linear of the values that a loop carries, and splits its body by it.

    What starts known and comes back linear is linear from the start; what starts linear stays so.
    """
    body, m = region.program, region.carries
    constants, carry, xs = region.parts(linear_in)
    rest = (False,) * (len(body.outputs) - m)
    while True:  # what the carry depends on only grows
        half = split(body, (*constants, *carry, *xs), once, (*carry, *rest))
        wider = tuple([a or b for a, b in zip(carry, half.linear_out[:m], strict=True)])
        if wider == carry:
            return carry, half
        carry = wider


@splitter(Scan)
def scan(op: Scan, linear_in: tuple[bool, ...], once: bool) -> Parts:
    c, n = op.constants, op.constants + op.carries
    carry, half = carry_of(op.regions[0], linear_in, once)
    mask = (*linear_in[:c], *carry, *linear_in[n:])
    # What each step computes from the constants alone is computed once.
    known_in = places(mask, False)
    fixed = [k for k, i in enumerate(known_in) if i < c]
    hoisted, each, before = _invariant(half, fixed, once)
    # A carry that the linear part reads differs in each iteration, so it is stacked.
    kept = [i for i in half.forwarded if c <= i < n]
    carried = [half.known.inputs[known_in.index(i)] for i in kept]
    m = len(half.known.outputs) - half.computed
    results, residuals = half.known.outputs[:m], half.known.outputs[m:]
    known_carry = [i for i in range(op.carries) if not carry[i]]
    body = attrs.evolve(half.known, outputs=(*results, *carried, *[residuals[j] for j in each]), derived={})
    known_scan = Scan(body, op.length, len(fixed), len(known_carry), op.reverse, op.unroll)
    outer = _known(known_scan, half, before, fixed) if hoisted else known_scan
    computed = len(hoisted) + len(carried) + len(each)
    # The linear part: constants, carry, slices, each after the residuals of its kind.
    names = list(half.linear.inputs)
    f = len(half.forwarded)
    by_place = dict(zip(half.forwarded, names[:f], strict=True))
    held, active = names[f : f + half.computed], names[f + half.computed :]
    linear_places = places(mask, True)
    by_place.update(zip(linear_places, active, strict=True))
    steady = [i for i in half.forwarded if i < c]
    moving = [i for i in half.forwarded if i >= n]
    lc = [i for i in linear_places if i < c]
    lk = [i for i in linear_places if c <= i < n]
    lx = [i for i in linear_places if i >= n]
    at = len(hoisted)
    linear_body = attrs.evolve(
        half.linear,
        inputs=(
            *[by_place[i] for i in steady],
            *[held[j] for j in hoisted],
            *[by_place[i] for i in lc],
            *[by_place[i] for i in lk],
            *[by_place[i] for i in moving],
            *[by_place[i] for i in kept],
            *[held[j] for j in each],
            *[by_place[i] for i in lx],
        ),
        derived={},
    )
    linear_scan = Scan(
        linear_body, op.length, len(steady) + len(hoisted) + len(lc), len(lk), op.reverse, op.unroll
    )
    return Parts(
        known=outer if computed or counts(half.known) else None,
        known_operands=known_in,
        computed=computed,
        linear=linear_scan if half.linear.outputs else None,
        linear_operands=(
            *steady,
            *[~j for j in range(at)],
            *lc,
            *lk,
            *moving,
            *[~j for j in range(at, computed)],
            *lx,
        ),
        linear_out=half.linear_out,
    )


def _invariant(half: Split, fixed: Sequence[int], once: bool) -> tuple[list[int], list[int], Program]:
    """Parts a body's computed residuals into those that depend on its constants alone, and the others.

    Returns:
        The indices of both among the residuals, and the program from the constants to the first.
    """
    program = half.known
    inputs = tuple([program.inputs[k] for k in fixed])
    steady: set[Var] = set(inputs)
    equations: list[Equation] = []
    for e in () if once else program.equations:
        if not e.op.effects and all([type(x) is not Var or x in steady for x in e.inputs]):
            steady.update(e.outputs)
            equations.append(e)
    residuals = program.outputs[len(program.outputs) - half.computed :]
    hoisted = [j for j, x in enumerate(residuals) if type(x) is not Var or x in steady]
    outputs = tuple([residuals[j] for j in hoisted])
    before = Program(inputs, tuple(equations), outputs, program.name, effect_row(equations))
    return hoisted, [j for j in range(half.computed) if j not in hoisted], before


def _known(
    known_scan: Scan, half: Split, before: Program, fixed: Sequence[int]
) -> Operation[tuple[Array, ...]]:
    """Returns the known part: the scan, and the residuals that are computed once."""
    m = len(half.known.outputs) - half.computed
    inputs = tuple([Var(t) for t in known_scan.in_types])
    outputs = tuple([Var(t) for t in known_scan.infer(*known_scan.in_types)])
    hoisted = tuple([Var(t) for t in before.out_types])
    both = (
        Equation(known_scan, inputs, outputs),
        Equation(Call(before, True), tuple([inputs[k] for k in fixed]), hoisted),
    )
    order: tuple[Atom, ...] = (*outputs[:m], *hoisted, *outputs[m:])
    return Call(Program(inputs, both, order, known_scan.body.name, effect_row(both)), True)


@splitter(While)
def while_(op: While, linear_in: tuple[bool, ...], once: bool) -> Parts:
    # The number of iterations is unknown, so residuals cannot be stacked: the linear part runs the whole loop
    # again. It can be evaluated, but not transposed.
    if once:
        raise TransformError(
            "linearize: the derivative of a while loop runs the loop again, and a handler around keeps a state or "
            "collects values that this would change; pass max_steps=N to while_loop or fori_loop, or use scan or jvp"
        )
    found = outer_effect(op.effects)
    if found:
        raise TransformError(
            f"linearize: the derivative of a while loop runs the loop again, but it has {found}; pass max_steps=N to "
            "while_loop or fori_loop, or use scan or jvp"
        )
    c = op.constants
    carry, half = carry_of(op.regions[0], linear_in, once)
    known_in = places((*linear_in[:c], *carry), False)
    condition = _known_results(split(op.condition, (*linear_in[:c], *carry), once))
    known = While(condition, _known_results(half), linear_in[:c].count(False))
    whole = tuple([Var(t) for t in op.in_types])
    outputs = tuple([Var(t) for t in op.body.in_types[c:]])
    program = Program(
        whole,
        (Equation(op, whole, outputs),),
        tuple([x for x, is_linear in zip(outputs, carry, strict=True) if is_linear]),
        "while",
        op.effects,
    )
    if not {DEBUG, ORDERED_DEBUG}.isdisjoint(op.effects):
        # The known part has shown what there is to see.
        program = ports.ordered_effects.tokens.quiet(program)
    return Parts(
        known=None if all(carry) else known,
        known_operands=known_in,
        computed=0,
        linear=Call(program, True) if any(carry) else None,
        linear_operands=tuple(range(len(linear_in))),
        linear_out=tuple(carry),
    )


def _known_results(half: Split) -> Program:
    """Returns the known part without residuals."""
    kept = half.known.outputs[: len(half.known.outputs) - half.computed]
    return dead_code(attrs.evolve(half.known, outputs=kept, derived={}))
