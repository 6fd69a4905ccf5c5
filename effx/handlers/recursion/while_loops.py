"""While loops under any handler."""

from collections.abc import Sequence

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.effects import Frame
from effx.handlers.recursion.abstract_while import recur_undecided_while
from effx.handlers.recursion.layout import flatten_boxes, flatten_payload, rebuild_boxes
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
    c = op.constants
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    carry_layouts = initial_carry_layouts(frame, operands[c:], op.body.in_types[c:])
    state_leaves, state = flatten_state(frame)
    # Structures only grow, so a condition that is boxed from the start stays boxed: checked before the body is staged.
    if _stage_condition(frame, op, constant_layouts, carry_layouts, state).results[0].tree is not None:
        return None
    with diverge_along(op.condition.out_types[0].vma):
        handled, carry = stage_to_fixpoint(
            op.body, payload_handler(frame), constant_layouts, carry_layouts, (), state
        )
    condition = _stage_condition(frame, op, constant_layouts, carry, state)
    if condition.results[0].tree is not None:
        return None
    start = flatten_carry(frame, operands[c:], carry)
    (test, body), captured = align_constants([condition, handled])
    k, s, n = len(captured), len(state_leaves), len(state_leaves) + len(start)
    test, body = (
        reorder_state_inputs(test, k, s, len(constants)),
        reorder_state_inputs(body, k, s, len(constants)),
    )
    fixed_operands = [*captured, *constants]
    # Collected values are carries, so that those of the last iteration are the results.
    body_collected, condition_collected = handled.collected, condition.collected
    body_missing, condition_missing = (
        _missing_leaves(frame, body_collected),
        _missing_leaves(frame, condition_collected),
    )
    # A condition that does not change the state stays in the condition's program. One that changes it, or
    # collects, would be in the program twice, and an outer handler would collect from it twice: so its value
    # is carried instead.
    if test.outputs[:s] == test.inputs[len(fixed_operands) :][:s] and not condition_collected.names:
        test = _drop_unchanged_state(test, s)
        loop = While(
            _add_unused_inputs(test, body_collected.types),
            _add_unused_inputs(body, body_collected.types),
            len(fixed_operands),
        )
        results = loop(*fixed_operands, *state_leaves, *start, *body_missing)
    else:
        loop = _stateful_condition_loop(test, body, len(fixed_operands), s)
        loop_flags = [as_operand(x, frame.handler.name) for x in (np.True_, np.int32(0))]
        results = loop(
            *fixed_operands, *loop_flags, *state_leaves, *start, *body_missing, *condition_missing
        )[len(loop_flags) :]
    end = n + len(body_missing)
    set_state(frame, results[:s], state)
    collect_values(frame, results[end:], condition_collected)
    collect_values(frame, results[n:end], body_collected)
    return tuple(rebuild_boxes(frame, results[s:n], carry))


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
        n = len(test.inputs) - fixed
        output_count = len(body.outputs)
        types = [*body.in_types[:fixed], *body.out_types, *test.out_types[state + 1 :]]
        first_iteration = stage(lambda arrays: arrays[fixed:], types[: fixed + output_count], "first").program
        extended_body = _add_unused_inputs(body, body.out_types[n:])

        def one_iteration(arrays: list[Array]) -> list[Array]:
            known = arrays[:fixed]
            carried_values = Cond((first_iteration, extended_body))(
                arrays[fixed + 1], *known, *arrays[fixed + 2 :][:output_count]
            )
            condition_results = run_program(test, [*known, *carried_values[:n]])
            return [
                condition_results[state],
                as_operand(np.int32(1), body.name),
                *condition_results[:state],
                *carried_values[state:],
                *condition_results[state + 1 :],
            ]

        flag_types = [test.out_types[state], array_type(dtypes.int32)]
        carry_types = [*types[:fixed], *flag_types, *types[fixed:]]
        parts = [
            stage(lambda arrays: [arrays[fixed]], carry_types, test.name),
            stage(one_iteration, carry_types, body.name),
        ]
        return While(parts[0].program, parts[1].program, fixed)

    return cache_on_program(body, ("asking", test, fixed, state), make)


def _stage_condition(
    frame: Frame, op: While, constants: Layouts, carry: Layouts, state: StateLayout
) -> HandledProgram:
    """Stages the condition under the handler."""
    return stage_under(
        op.condition, frame.handler, (*constants, *carry), state, _flatten_condition, "condition"
    )


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
