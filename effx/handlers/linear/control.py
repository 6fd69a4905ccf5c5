"""Split calls, branches and loops into a known and a linear part. The values of the known part that the
linear part reads are residuals. A residual that is an operand is passed on. A scan's residuals are stacked,
unless they are the same in all iterations. The branches of a cond return their residuals in common slots,
which are matched by type.
"""

from collections.abc import Sequence
from itertools import compress

import attrs

from effx import ports
from effx.array import Array
from effx.array.promotion import zeros
from effx.effects import Operation
from effx.errors import TransformError
from effx.handlers.linear.partial_eval import (
    OperationParts,
    ProgramParts,
    Residual,
    Source,
    is_needed,
    mask_indices,
    split_program,
    splitter,
)
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.control import Call, Cond, Loop, Scan, While
from effx.ir.ops.groups import LoopOperands, split_into
from effx.ir.ops.host import DEBUG, ORDERED_DEBUG, describe_side_effect
from effx.ir.passes import eliminate_dead_code
from effx.ir.program import Equation, Program, Var, effect_row
from effx.ir.types import ArrayType


@splitter(Call)
def split_call(op: Call, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    parts = split_program(op.program, linear_in, must_run_once)
    return parts.make_operation_parts(Call(parts.known, op.inline), Call(parts.linear, op.inline))


@splitter(Cond)
def split_cond(op: Cond, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    mask = linear_in[1:]
    unforced = [split_program(branch, mask, must_run_once) for branch in op.branches]
    linear_out = tuple([any(outs) for outs in zip(*[p.linear_out for p in unforced], strict=True)])
    parts_by_branch = [split_program(branch, mask, must_run_once, linear_out) for branch in op.branches]
    forwarded = tuple(dict.fromkeys([i for parts in parts_by_branch for i in parts.forwarded]))
    # Only one branch is taken, so the residuals of all branches use common slots, matched by type.
    slots, slots_by_branch = match_slots([parts.residual_types for parts in parts_by_branch])
    known = [
        add_slots(parts.known, len(parts.results), branch_slots, slots)
        for parts, branch_slots in zip(parts_by_branch, slots_by_branch, strict=True)
    ]
    residuals = [Residual(j) for j in range(len(slots))]
    sources: tuple[Source, ...] = (*forwarded, *residuals, *mask_indices(mask, True))
    linear = [
        _widen_linear_inputs(parts, branch_slots, slots, sources)
        for parts, branch_slots in zip(parts_by_branch, slots_by_branch, strict=True)
    ]
    return OperationParts(
        known=attrs.evolve(op, branches=tuple(known)) if any([is_needed(k) for k in known]) else None,
        known_operands=(0, *[i + 1 for i in mask_indices(mask, False)]),
        computed=len(slots),
        linear=attrs.evolve(op, branches=tuple(linear)) if any(linear_out) else None,
        # The operands of the branches stand behind the index.
        linear_operands=(0, *[x + 1 if isinstance(x, int) else x for x in sources]),
        linear_out=linear_out,
    )


def match_slots(
    types_by_branch: Sequence[Sequence[ArrayType]],
) -> tuple[list[ArrayType], list[list[int]]]:
    """Returns the types of common slots for values of branches, and for each branch the slots of its values."""
    slots: list[ArrayType] = []
    slots_by_branch: list[list[int]] = []
    for types in types_by_branch:
        free = list(range(len(slots)))
        branch_slots: list[int] = []
        for t in types:
            slot = next((j for j in free if slots[j].matches(t)), None)
            if slot is None:
                slot = len(slots)
                slots.append(t.strong())
            else:
                free.remove(slot)
            branch_slots.append(slot)
        slots_by_branch.append(branch_slots)
    return slots, slots_by_branch


def add_slots(
    program: Program, result_count: int, branch_slots: Sequence[int], slots: Sequence[ArrayType]
) -> Program:
    """Returns a branch with all slots as results behind its own; zeros fill those that it does not use."""

    def body(arrays: list[Array]) -> list[Array]:
        results = run_program(program, arrays)
        by_slot = dict(zip(branch_slots, results[result_count:], strict=True))
        return [
            *results[:result_count],
            *[by_slot[j] if j in by_slot else zeros(t) for j, t in enumerate(slots)],
        ]

    if list(branch_slots) == list(range(len(slots))):
        return program
    return stage(body, program.in_types, program.name, "linearize").program


def _widen_linear_inputs(
    parts: ProgramParts, branch_slots: Sequence[int], slots: Sequence[ArrayType], sources: Sequence[Source]
) -> Program:
    """Returns a branch's linear part with the operands of the linear parts of all branches as inputs.

    Args:
        parts: of the branch.
        branch_slots: for each of its computed residuals its slot.
        slots: the types of all slots, which residuals among the sources number.
        sources: what all branches take.
    """
    own_inputs: dict[Source, Var] = {}
    for source, x in zip(parts.linear_sources, parts.linear.inputs, strict=True):
        own_inputs[Residual(branch_slots[source.index]) if isinstance(source, Residual) else source] = x
    # Inputs that this branch ignores have the type of the operand, which all branches share.
    known_types = dict(zip(parts.known_indices, parts.known.in_types, strict=True))

    def find_input(source: Source) -> Var:
        if source in own_inputs:
            return own_inputs[source]
        return Var(slots[source.index] if isinstance(source, Residual) else known_types[source])

    return attrs.evolve(parts.linear, inputs=tuple([find_input(x) for x in sources]), derived={})


def split_loop_body(
    op: Loop, is_linear: LoopOperands[bool], must_run_once: bool
) -> tuple[LoopOperands[bool], ProgramParts]:
    """Splits a loop's body, with the values of the carry linear that are so in some iteration.

    A value that starts known and becomes linear is linear from the start; one that starts linear remains linear.

    Returns:
        For each operand whether it is linear then, and the parts of the body.
    """
    rest = (False,) * (len(op.body.outputs) - op.carries)
    while True:  # the set of linear values only grows
        carry = is_linear.carry
        parts = split_program(op.body, is_linear.join(), must_run_once, (*carry, *rest))
        next_carry = op.group_results(parts.linear_out).carry
        wider = tuple([a or b for a, b in zip(carry, next_carry, strict=True)])
        if wider == carry:
            return is_linear, parts
        is_linear = attrs.evolve(is_linear, carry=wider)


@splitter(Scan)
def split_scan(op: Scan, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    """Splits a scan.

    Let the body be c', y = f(k, c, x) with constants k, carry c and slices x, and let it split into a known part

        c_known', y_known, r = g(k_known, c_known, x_known)

    and a linear part, which reads residuals r that the known part computes, and known operands as they are:

        c_linear', y_linear = L(known operands, r; k_linear, c_linear, x_linear).

    The known part is a scan of g. The linear part is a scan of L, whose operands are

        constants: known constants, those r that depend on constants alone, k_linear;
        carry:     c_linear;
        slices:    known slices, known carries, the other r, x_linear.

    A known carry that L reads is another one in each iteration, so the known scan stacks it, as it does r. What depends
    on constants alone is computed once, before the scan.
    """
    is_linear, parts = split_loop_body(op, op.group_operands(linear_in), must_run_once)
    indices = op.group_operands(range(len(linear_in)))
    known, linear = indices.select_listed(parts.known_indices), indices.select(is_linear)
    forwarded = indices.select_listed(parts.forwarded)
    hoisted, stacked, invariant_program = _separate_invariant(parts, known, must_run_once)
    # The known scan: results, known carries that the linear part reads, residuals.
    inputs = dict(zip(parts.known_indices, parts.known.inputs, strict=True))
    carried = [inputs[i] for i in forwarded.carry]
    outputs = (*parts.results, *carried, *[parts.residuals[r.index] for r in stacked])
    known_scan = op.with_body(attrs.evolve(parts.known, outputs=outputs, derived={}), known)
    known_part = known_scan if not hoisted else _scan_with_hoisted(known_scan, parts, invariant_program)
    # The linear scan.
    sources: LoopOperands[Source] = LoopOperands(
        constants=(*forwarded.constants, *hoisted, *linear.constants),
        carry=linear.carry,
        xs=(*forwarded.xs, *forwarded.carry, *stacked, *linear.xs),
    )
    linear_inputs = dict(zip(parts.linear_sources, parts.linear.inputs, strict=True))
    linear_body = attrs.evolve(
        parts.linear, inputs=tuple([linear_inputs[x] for x in sources.join()]), derived={}
    )
    # What the known part computes for it, in this order.
    passed: tuple[Source, ...] = (*hoisted, *forwarded.carry, *stacked)
    computed = {x: Residual(j) for j, x in enumerate(passed)}
    return OperationParts(
        known=known_part if computed or is_needed(parts.known) else None,
        known_operands=known.join(),
        computed=len(computed),
        linear=op.with_body(linear_body, sources) if parts.linear.outputs else None,
        linear_operands=tuple([computed.get(x, x) for x in sources.join()]),
        linear_out=parts.linear_out,
    )


def _separate_invariant(
    parts: ProgramParts, known: LoopOperands[int], must_run_once: bool
) -> tuple[list[Residual], list[Residual], Program]:
    """Splits a body's computed residuals into those that depend on its constants alone, and the others.

    Returns:
        Both groups, and the program from the known constants to the first group.
    """
    program = parts.known
    inputs = known.group_like(program.inputs).constants
    invariant_values: set[Var] = set(inputs)
    equations: list[Equation] = []
    for e in () if must_run_once else program.equations:
        if not e.op.effects and all([type(x) is not Var or x in invariant_values for x in e.inputs]):
            invariant_values.update(e.outputs)
            equations.append(e)
    hoisted: list[Residual] = []
    stacked: list[Residual] = []
    for j, x in enumerate(parts.residuals):
        (hoisted if type(x) is not Var or x in invariant_values else stacked).append(Residual(j))
    outputs = tuple([parts.residuals[r.index] for r in hoisted])
    return hoisted, stacked, Program(inputs, tuple(equations), outputs, program.name, effect_row(equations))


def _scan_with_hoisted(
    known_scan: Scan, parts: ProgramParts, invariant_program: Program
) -> Operation[tuple[Array, ...]]:
    """Returns the known part: results of the scan, residuals that are computed once, and those of each iteration."""
    inputs = known_scan.group_operands([Var(t) for t in known_scan.in_types])
    outputs = tuple([Var(t) for t in known_scan.infer(*known_scan.in_types)])
    invariant = tuple([Var(t) for t in invariant_program.out_types])
    equations = (
        Equation(known_scan, inputs.join(), outputs),
        Equation(Call(invariant_program, True), inputs.constants, invariant),
    )
    results, stacked = split_into(outputs, len(parts.results))
    order = (*results, *invariant, *stacked)
    name = known_scan.body.name
    return Call(Program(inputs.join(), equations, order, name, effect_row(equations)), True)


@splitter(While)
def split_while(op: While, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    # The number of iterations is unknown, so residuals cannot be stacked: the linear part runs the whole loop
    # again. It can be evaluated, but not transposed.
    if must_run_once:
        raise TransformError(
            "linearize: the derivative of a while loop runs the loop again, and a handler around keeps a state or "
            "collects values that this would change; pass max_steps=N to while_loop or fori_loop, or use scan or jvp"
        )
    effect = describe_side_effect(op.effects)
    if effect:
        raise TransformError(
            f"linearize: the derivative of a while loop runs the loop again, but it has {effect}; pass max_steps=N to "
            "while_loop or fori_loop, or use scan or jvp"
        )
    is_linear, parts = split_loop_body(op, op.group_operands(linear_in), must_run_once)
    carry = is_linear.carry
    condition = _without_residuals(split_program(op.condition, is_linear.join(), must_run_once))
    known = While(condition, _without_residuals(parts), is_linear.constants.count(False))
    inputs = tuple([Var(t) for t in op.in_types])
    outputs = tuple([Var(x.type) for x in op.group_operands(op.body.inputs).carry])
    program = Program(
        inputs,
        (Equation(op, inputs, outputs),),
        tuple(compress(outputs, carry)),
        "while",
        op.effects,
    )
    if not {DEBUG, ORDERED_DEBUG}.isdisjoint(op.effects):
        # The known part has performed the effects.
        program = ports.ordered_effects.tokens.drop_debugging(program)
    return OperationParts(
        known=None if all(carry) else known,
        known_operands=parts.known_indices,
        computed=0,
        linear=Call(program, True) if any(carry) else None,
        linear_operands=tuple(range(len(linear_in))),
        linear_out=carry,
    )


def _without_residuals(parts: ProgramParts) -> Program:
    """Returns the known part without residuals."""
    return eliminate_dead_code(attrs.evolve(parts.known, outputs=parts.results, derived={}))
