"""While loops under any handler."""

from collections.abc import Sequence

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.effects import Frame
from effx.handlers.recursion.abstract_while import recur_undecided_while
from effx.handlers.recursion.layout import ValueLayout, flatten_boxes, flatten_payload, rebuild_boxes
from effx.handlers.recursion.loops import (
    Layouts,
    flatten_carry,
    initial_carry_layouts,
    reorder_state_inputs,
    stage_to_fixpoint,
)
from effx.handlers.recursion.payloads import payload_handler, recursion
from effx.handlers.recursion.staging import (
    CollectedLayouts,
    HandledProgram,
    StateLayout,
    align_constants,
    cache_on_program,
    collect_values,
    flatten_state,
    set_state,
    stage_under,
)
from effx.handlers.sharding_types.axes_in_types import diverge_along
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.control import Cond, While
from effx.ir.ops.groups import LoopOperands, split_into
from effx.ir.passes import eliminate_dead_code
from effx.ir.program import Program, Var
from effx.ir.types import ArrayType, array_type


@recursion(While)
def recur_while(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one loop of the staged condition and body, or covers any number of iterations if the condition has no
    plain value.
    """
    results = recur_decided_while(frame, op, operands)
    return recur_undecided_while(frame, op, operands) if results is None else results


def recur_decided_while(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...] | None:
    """Performs one loop of the staged condition and body; None if the condition is boxed and has no plain value."""
    values, types = op.group_operands(operands), op.group_operands(op.body.in_types)
    constants, constant_layouts = flatten_boxes(frame, values.constants)
    layouts = LoopOperands(constant_layouts, initial_carry_layouts(frame, values.carry, types.carry))
    state_leaves, state = flatten_state(frame)
    # Structures only grow, so a condition that is boxed from the start stays boxed: checked before the body is staged.
    if _stage_condition(frame, op, layouts, state).results[0].tree is not None:
        return None
    with diverge_along(op.condition.out_types[0].vma):
        handled, carry = stage_to_fixpoint(op.body, payload_handler(frame), layouts, state)
    condition = _stage_condition(frame, op, attrs.evolve(layouts, carry=carry), state)
    if condition.results[0].tree is not None:
        return None
    start = flatten_carry(frame, values.carry, carry)
    programs, captured = align_constants([condition, handled])
    state_count = len(state_leaves)
    test, body = [reorder_state_inputs(p, len(captured), state_count, len(constants)) for p in programs]
    fixed = [*captured, *constants]
    # Collected values are carries, so that those of the last iteration are the results.
    body_collected, condition_collected = handled.collected, condition.collected
    body_missing = _missing_leaves(frame, body_collected)
    condition_missing = _missing_leaves(frame, condition_collected)
    # A condition that does not change the state stays in the condition's program. One that changes it, or
    # collects, would be in the program twice, and an outer handler would collect from it twice: so its value
    # is carried instead.
    _, state_inputs, _ = split_into(test.inputs, len(fixed), state_count)
    if test.outputs[:state_count] == state_inputs and not condition_collected.names:
        test = _drop_unchanged_state(test, state_count)
        loop = While(
            _add_unused_inputs(test, body_collected.types),
            _add_unused_inputs(body, body_collected.types),
            len(fixed),
        )
        results = loop(*fixed, *state_leaves, *start, *body_missing)
    else:
        loop = _stateful_condition_loop(test, body, len(fixed), state_count)
        loop_flags = [as_operand(x, frame.handler.name) for x in (np.True_, np.int32(0))]
        results = loop(*fixed, *loop_flags, *state_leaves, *start, *body_missing, *condition_missing)[
            len(loop_flags) :
        ]
    last_state, last_carry, body_leaves, condition_leaves = split_into(
        results, state_count, len(start), len(body_missing)
    )
    set_state(frame, last_state, state)
    collect_values(frame, condition_leaves, condition_collected)
    collect_values(frame, body_leaves, body_collected)
    return tuple(rebuild_boxes(frame, last_carry, carry))


def _missing_leaves(frame: Frame, collected: CollectedLayouts) -> list[Array]:
    """Returns default arrays for values that are not collected yet."""
    if not collected.names:
        return []
    handler = payload_handler(frame)
    return [
        x
        for name, layout in zip(collected.names, collected.layouts, strict=True)
        for x in flatten_payload(handler.missing(name, layout.example()), handler.name)[0]
    ]


def _stateful_condition_loop(test: Program, body: Program, fixed: int, state: int) -> While:
    """Returns a loop whose condition changes the state or collects values. Each iteration but the first runs
    the body; then it evaluates the condition. So body and condition are in the program once. The loop carries
    the condition's value, 0 before the first iteration or 1, the state, the carry, and collected values.

    Args:
        test: from fixed operands, state and carry to the state, the condition's value and collected values.
        body: from the same to the state, the carry and collected values.
        fixed, state: the numbers of the fixed operands and of the state's leaves.
    """

    def make() -> While:
        # What both take behind the fixed operands: the state and the carry.
        carried_count = len(test.inputs) - fixed
        fixed_types, _ = split_into(body.in_types, fixed)
        _, (flag_type,), condition_types = split_into(test.out_types, state, 1)
        collected_types = body.out_types[carried_count:]
        body_types = (*fixed_types, *body.out_types)
        first_iteration = stage(lambda arrays: arrays[fixed:], body_types, "first").program
        extended_body = _add_unused_inputs(body, collected_types)

        def one_iteration(arrays: list[Array]) -> list[Array]:
            known, (_, is_later), carried, _ = split_into(arrays, fixed, 2, len(body.out_types))
            after = Cond((first_iteration, extended_body))(is_later, *known, *carried)
            condition_results = run_program(test, [*known, *after[:carried_count]])
            new_state, (goes_on,), collected = split_into(condition_results, state, 1)
            _, carry_and_collected = split_into(after, state)
            return [goes_on, as_operand(np.int32(1), body.name), *new_state, *carry_and_collected, *collected]

        flags = (flag_type, array_type(dtypes.int32))
        types = (*fixed_types, *flags, *body.out_types, *condition_types)
        goes_on = stage(lambda arrays: [arrays[fixed]], types, test.name)
        return While(goes_on.program, stage(one_iteration, types, body.name).program, fixed)

    return cache_on_program(body, ("asking", test, fixed, state), make)


def _stage_condition(
    frame: Frame, op: While, layouts: LoopOperands[ValueLayout], state: StateLayout
) -> HandledProgram:
    """Stages the condition under the handler."""
    return stage_under(op.condition, frame.handler, layouts.join(), state, _flatten_condition, "condition")


def _flatten_condition(
    frame: Frame, inputs: list[Array], outputs: list[Array]
) -> tuple[list[Array], Layouts]:
    """Replaces a condition by its plain value, if there is one."""
    (test,) = outputs
    if type(test) is Box and test.frame is frame:
        plain = payload_handler(frame).primal(test.payload)
        if plain is not None:
            test = plain
    return flatten_boxes(frame, [test])


def _drop_unchanged_state(program: Program, state: int) -> Program:
    """Drops the state that a condition has not changed."""
    if len(program.outputs) == 1:
        return program
    return cache_on_program(
        program,
        ("answer", state),
        lambda: eliminate_dead_code(
            attrs.evolve(program, outputs=program.outputs[state : state + 1], derived={})
        ),
    )


def _add_unused_inputs(program: Program, types: tuple[ArrayType, ...]) -> Program:
    """Adds inputs that the program does not use."""
    if not types:
        return program

    def make() -> Program:
        return attrs.evolve(program, inputs=(*program.inputs, *[Var(t) for t in types]), derived={})

    return cache_on_program(program, ("longer", types), make)
