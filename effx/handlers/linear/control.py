"""Split calls, branches and loops into a known and a linear part. The values of the known part that the
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
from effx.handlers.linear.partial_eval import OperationParts, ProgramParts, is_needed, split_program, splitter
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.control import Call, Cond, Region, Scan, While
from effx.ir.ops.host import DEBUG, ORDERED_DEBUG, describe_side_effect
from effx.ir.passes import eliminate_dead_code
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import ArrayType


def mask_indices(mask: Sequence[bool], value: bool) -> tuple[int, ...]:
    """Returns the indices where the mask has a value."""
    return tuple([i for i, m in enumerate(mask) if m is value])


@splitter(Call)
def split_call(op: Call, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    parts = split_program(op.program, linear_in, must_run_once)
    return OperationParts(
        known=Call(parts.known, op.inline) if is_needed(parts.known) else None,
        known_operands=mask_indices(linear_in, False),
        computed=parts.computed,
        linear=Call(parts.linear, op.inline) if parts.linear.outputs else None,
        linear_operands=(
            *parts.forwarded,
            *[~j for j in range(parts.computed)],
            *mask_indices(linear_in, True),
        ),
        linear_out=parts.linear_out,
    )


@splitter(Cond)
def split_cond(op: Cond, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    mask = linear_in[1:]
    first = [split_program(branch, mask, must_run_once) for branch in op.branches]
    linear_out = tuple([any(outs) for outs in zip(*[p.linear_out for p in first], strict=True)])
    halves = [split_program(branch, mask, must_run_once, linear_out) for branch in op.branches]
    forwarded = tuple(dict.fromkeys([i for h in halves for i in h.forwarded]))
    # Only one branch is taken, so the residuals of all branches use common slots, matched by type.
    slots, slots_by_branch = match_slots(
        [h.known.out_types[len(h.known.outputs) - h.computed :] for h in halves]
    )
    known = [
        add_slots(h.known, len(h.known.outputs) - h.computed, branch_slots, slots)
        for h, branch_slots in zip(halves, slots_by_branch, strict=True)
    ]
    linear = [
        _linear_from_slots(h, branch_slots, slots, forwarded)
        for h, branch_slots in zip(halves, slots_by_branch, strict=True)
    ]
    return OperationParts(
        known=attrs.evolve(op, branches=tuple(known)) if any([is_needed(k) for k in known]) else None,
        known_operands=(0, *[i + 1 for i in mask_indices(mask, False)]),
        computed=len(slots),
        linear=attrs.evolve(op, branches=tuple(linear)) if any(linear_out) else None,
        linear_operands=(
            0,
            *[i + 1 for i in forwarded],
            *[~j for j in range(len(slots))],
            *[i + 1 for i in mask_indices(mask, True)],
        ),
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


def add_slots(program: Program, n: int, branch_slots: Sequence[int], slots: Sequence[ArrayType]) -> Program:
    """Returns a branch with all slots as results behind the first n; zeros fill those that it does not use."""

    def body(arrays: list[Array]) -> list[Array]:
        results = run_program(program, arrays)
        by_slot = dict(zip(branch_slots, results[n:], strict=True))
        return [*results[:n], *[by_slot[j] if j in by_slot else zeros(t) for j, t in enumerate(slots)]]

    if list(branch_slots) == list(range(len(slots))):
        return program
    return stage(body, program.in_types, program.name, "linearize").program


def _linear_from_slots(
    parts: ProgramParts, branch_slots: Sequence[int], slots: Sequence[ArrayType], forwarded: Sequence[int]
) -> Program:
    """Returns a branch's linear part with the operands of all branches as inputs."""
    inputs = parts.linear.inputs
    f = len(parts.forwarded)
    forwarded_inputs = dict(zip(parts.forwarded, inputs[:f], strict=True))
    slot_inputs = dict(zip(branch_slots, inputs[f : f + parts.computed], strict=True))
    # Inputs that this branch ignores have the type of the operand, which all branches share.
    types = dict(zip(_known_indices(parts), parts.known.in_types, strict=True))
    return attrs.evolve(
        parts.linear,
        inputs=(
            *[forwarded_inputs[i] if i in forwarded_inputs else Var(types[i]) for i in forwarded],
            *[slot_inputs[j] if j in slot_inputs else Var(t) for j, t in enumerate(slots)],
            *inputs[f + parts.computed :],
        ),
        derived={},
    )


def _known_indices(parts: ProgramParts) -> tuple[int, ...]:
    return mask_indices(parts.linear_in, False)


def find_linear_carry(
    region: Region, linear_in: tuple[bool, ...], must_run_once: bool
) -> tuple[tuple[bool, ...], ProgramParts]:
    """Finds which values of a loop's carry are linear, and splits the body accordingly.

    A value that starts known and becomes linear is linear from the start; one that starts linear remains linear.
    """
    body, m = region.program, region.carries
    constants, carry, xs = region.split_operands(linear_in)
    rest = (False,) * (len(body.outputs) - m)
    while True:  # the set of linear values only grows
        parts = split_program(body, (*constants, *carry, *xs), must_run_once, (*carry, *rest))
        wider = tuple([a or b for a, b in zip(carry, parts.linear_out[:m], strict=True)])
        if wider == carry:
            return carry, parts
        carry = wider


@splitter(Scan)
def split_scan(op: Scan, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    c, n = op.constants, op.constants + op.carries
    carry, parts = find_linear_carry(op.regions[0], linear_in, must_run_once)
    mask = (*linear_in[:c], *carry, *linear_in[n:])
    known_in = mask_indices(mask, False)
    fixed = [k for k, i in enumerate(known_in) if i < c]
    # Residuals that depend on the constants alone are computed before the scan, not stacked for each iteration.
    hoisted, stacked, invariant_program = _separate_invariant(parts, fixed, must_run_once)
    # A carry changes in each iteration, so one that the linear part reads is stacked.
    forwarded_carries = [i for i in parts.forwarded if c <= i < n]
    carried = [parts.known.inputs[known_in.index(i)] for i in forwarded_carries]
    m = len(parts.known.outputs) - parts.computed
    results, residuals = parts.known.outputs[:m], parts.known.outputs[m:]
    known_carry = [i for i in range(op.carries) if not carry[i]]
    body = attrs.evolve(
        parts.known, outputs=(*results, *carried, *[residuals[j] for j in stacked]), derived={}
    )
    known_scan = Scan(body, op.length, len(fixed), len(known_carry), op.reverse, op.unroll)
    outer = _scan_with_hoisted(known_scan, parts, invariant_program, fixed) if hoisted else known_scan
    computed = len(hoisted) + len(carried) + len(stacked)
    # The linear part: constants, carry, slices, each after the residuals of its kind.
    linear_inputs = list(parts.linear.inputs)
    f = len(parts.forwarded)
    inputs_by_operand = dict(zip(parts.forwarded, linear_inputs[:f], strict=True))
    residual_inputs, active_inputs = (
        linear_inputs[f : f + parts.computed],
        linear_inputs[f + parts.computed :],
    )
    linear_indices = mask_indices(mask, True)
    inputs_by_operand.update(zip(linear_indices, active_inputs, strict=True))
    invariant_operands = [i for i in parts.forwarded if i < c]
    scanned_operands = [i for i in parts.forwarded if i >= n]
    linear_constants = [i for i in linear_indices if i < c]
    linear_carries = [i for i in linear_indices if c <= i < n]
    linear_slices = [i for i in linear_indices if i >= n]
    hoisted_count = len(hoisted)
    linear_body = attrs.evolve(
        parts.linear,
        inputs=(
            *[inputs_by_operand[i] for i in invariant_operands],
            *[residual_inputs[j] for j in hoisted],
            *[inputs_by_operand[i] for i in linear_constants],
            *[inputs_by_operand[i] for i in linear_carries],
            *[inputs_by_operand[i] for i in scanned_operands],
            *[inputs_by_operand[i] for i in forwarded_carries],
            *[residual_inputs[j] for j in stacked],
            *[inputs_by_operand[i] for i in linear_slices],
        ),
        derived={},
    )
    linear_scan = Scan(
        linear_body,
        op.length,
        len(invariant_operands) + len(hoisted) + len(linear_constants),
        len(linear_carries),
        op.reverse,
        op.unroll,
    )
    return OperationParts(
        known=outer if computed or is_needed(parts.known) else None,
        known_operands=known_in,
        computed=computed,
        linear=linear_scan if parts.linear.outputs else None,
        linear_operands=(
            *invariant_operands,
            *[~j for j in range(hoisted_count)],
            *linear_constants,
            *linear_carries,
            *scanned_operands,
            *[~j for j in range(hoisted_count, computed)],
            *linear_slices,
        ),
        linear_out=parts.linear_out,
    )


def _separate_invariant(
    parts: ProgramParts, fixed: Sequence[int], must_run_once: bool
) -> tuple[list[int], list[int], Program]:
    """Splits a body's computed residuals into those that depend on its constants alone, and the others.

    Returns:
        The indices of both groups among the residuals, and the program from the constants to the first group.
    """
    program = parts.known
    inputs = tuple([program.inputs[k] for k in fixed])
    invariant_values: set[Var] = set(inputs)
    equations: list[Equation] = []
    for e in () if must_run_once else program.equations:
        if not e.op.effects and all([type(x) is not Var or x in invariant_values for x in e.inputs]):
            invariant_values.update(e.outputs)
            equations.append(e)
    residuals = program.outputs[len(program.outputs) - parts.computed :]
    hoisted = [j for j, x in enumerate(residuals) if type(x) is not Var or x in invariant_values]
    outputs = tuple([residuals[j] for j in hoisted])
    invariant_program = Program(inputs, tuple(equations), outputs, program.name, effect_row(equations))
    return hoisted, [j for j in range(parts.computed) if j not in hoisted], invariant_program


def _scan_with_hoisted(
    known_scan: Scan, parts: ProgramParts, invariant_program: Program, fixed: Sequence[int]
) -> Operation[tuple[Array, ...]]:
    """Returns the known part: the scan, and the residuals that are computed once."""
    m = len(parts.known.outputs) - parts.computed
    inputs = tuple([Var(t) for t in known_scan.in_types])
    outputs = tuple([Var(t) for t in known_scan.infer(*known_scan.in_types)])
    hoisted = tuple([Var(t) for t in invariant_program.out_types])
    equations = (
        Equation(known_scan, inputs, outputs),
        Equation(Call(invariant_program, True), tuple([inputs[k] for k in fixed]), hoisted),
    )
    order: tuple[Atom, ...] = (*outputs[:m], *hoisted, *outputs[m:])
    return Call(Program(inputs, equations, order, known_scan.body.name, effect_row(equations)), True)


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
    c = op.constants
    carry, parts = find_linear_carry(op.regions[0], linear_in, must_run_once)
    known_in = mask_indices((*linear_in[:c], *carry), False)
    condition = _without_residuals(split_program(op.condition, (*linear_in[:c], *carry), must_run_once))
    known = While(condition, _without_residuals(parts), linear_in[:c].count(False))
    inputs = tuple([Var(t) for t in op.in_types])
    outputs = tuple([Var(t) for t in op.body.in_types[c:]])
    program = Program(
        inputs,
        (Equation(op, inputs, outputs),),
        tuple([x for x, is_linear in zip(outputs, carry, strict=True) if is_linear]),
        "while",
        op.effects,
    )
    if not {DEBUG, ORDERED_DEBUG}.isdisjoint(op.effects):
        # The known part has performed the effects.
        program = ports.ordered_effects.tokens.drop_debugging(program)
    return OperationParts(
        known=None if all(carry) else known,
        known_operands=known_in,
        computed=0,
        linear=Call(program, True) if any(carry) else None,
        linear_operands=tuple(range(len(linear_in))),
        linear_out=tuple(carry),
    )


def _without_residuals(parts: ProgramParts) -> Program:
    """Returns the known part without residuals."""
    results = parts.known.outputs[: len(parts.known.outputs) - parts.computed]
    return eliminate_dead_code(attrs.evolve(parts.known, outputs=results, derived={}))
