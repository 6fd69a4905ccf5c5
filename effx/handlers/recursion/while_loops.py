"""While loops under any handler."""

from collections.abc import Sequence

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.effects import Frame
from effx.handlers.recursion.abstract_while import any_number_of_iterations
from effx.handlers.recursion.layout import arrays_of, flatten_boxes, rebuild_boxes
from effx.handlers.recursion.loops import Layouts, carried, fixed, initial, moved
from effx.handlers.recursion.payloads import handler_of, recursion
from effx.handlers.recursion.staging import (
    Collected,
    Handled,
    State,
    aligned,
    cached,
    put_collected,
    put_state,
    stage_under,
    state_of,
)
from effx.handlers.sharding_types.axes_in_types import diverging
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.control import Cond, While
from effx.ir.passes import dead_code
from effx.ir.program import Program, Var
from effx.ir.types import ArrayType, array_type


@recursion(While)
def while_(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One loop of the staged condition and body, or any number of iterations where nothing decides that."""
    found = decided(frame, op, operands)
    return any_number_of_iterations(frame, op, operands) if found is None else found


def decided(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...] | None:
    """One loop of the staged condition and body; None if the condition is boxed and has no plain value."""
    c = op.constants
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    carry_layouts = carried(frame, operands[c:], op.body.in_types[c:])
    before, state = state_of(frame)
    # Structures only grow, so a condition that is boxed from the start stays so: asked before the body is staged.
    if _condition(frame, op, constant_layouts, carry_layouts, state).results[0].tree is not None:
        return None
    with diverging(op.condition.out_types[0].vma):
        handled, carry = fixed(op.body, handler_of(frame), constant_layouts, carry_layouts, (), state)
    condition = _condition(frame, op, constant_layouts, carry, state)
    if condition.results[0].tree is not None:
        return None
    start = initial(frame, operands[c:], carry)
    (test, body), captured = aligned([condition, handled])
    k, s, n = len(captured), len(before), len(before) + len(start)
    test, body = moved(test, k, s, len(constants)), moved(body, k, s, len(constants))
    fixed_operands = [*captured, *constants]
    # Collected values are carries, so that those of the last iteration are the results.
    last, asked = handled.collected, condition.collected
    first, first_asked = _missing(frame, last), _missing(frame, asked)
    if test.outputs[:s] == test.inputs[len(fixed_operands) :][:s] and not asked.names:
        test = _answer(test, s)
        loop = While(_longer(test, last.types), _longer(body, last.types), len(fixed_operands))
        results = loop(*fixed_operands, *before, *start, *first)
    else:
        loop = _asking(test, body, len(fixed_operands), s)
        marks = [as_operand(x, frame.handler.name) for x in (np.True_, np.int32(0))]
        results = loop(*fixed_operands, *marks, *before, *start, *first, *first_asked)[len(marks) :]
    end = n + len(first)
    put_state(frame, results[:s], state)
    put_collected(frame, results[end:], asked)
    put_collected(frame, results[n:end], last)
    return tuple(rebuild_boxes(frame, results[s:n], carry))


def _missing(frame: Frame, collected: Collected) -> list[Array]:
    """Returns the arrays of values that are not collected yet."""
    if not collected.names:
        return []
    handler = handler_of(frame)
    return [
        x
        for name, layout in zip(collected.names, collected.layouts, strict=True)
        for x in arrays_of(handler.missing(name, layout.example()), handler.name)[0]
    ]


def _asking(test: Program, body: Program, fixed: int, state: int) -> While:
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
        kept = len(body.outputs)
        types = [*body.in_types[:fixed], *body.out_types, *test.out_types[state + 1 :]]
        idle = stage(lambda arrays: arrays[fixed:], types[: fixed + kept], "first").program
        turned = _longer(body, body.out_types[n:])

        def one_iteration(arrays: list[Array]) -> list[Array]:
            known = arrays[:fixed]
            found = Cond((idle, turned))(arrays[fixed + 1], *known, *arrays[fixed + 2 :][:kept])
            asked = run_program(test, [*known, *found[:n]])
            return [
                asked[state],
                as_operand(np.int32(1), body.name),
                *asked[:state],
                *found[state:],
                *asked[state + 1 :],
            ]

        marks = [test.out_types[state], array_type(dtypes.int32)]
        whole = [*types[:fixed], *marks, *types[fixed:]]
        parts = [
            stage(lambda arrays: [arrays[fixed]], whole, test.name),
            stage(one_iteration, whole, body.name),
        ]
        return While(parts[0].program, parts[1].program, fixed)

    return cached(body, ("asking", test, fixed, state), make)


def _condition(frame: Frame, op: While, constants: Layouts, carry: Layouts, state: State) -> Handled:
    """Stages the condition under the handler."""
    return stage_under(op.condition, frame.handler, (*constants, *carry), state, _decided, "condition")


def _decided(frame: Frame, inputs: list[Array], outputs: list[Array]) -> tuple[list[Array], Layouts]:
    """Takes the plain value of a condition, if there is one."""
    (test,) = outputs
    if type(test) is Box and test.frame is frame:
        plain = handler_of(frame).primal(test.payload)
        if plain is not None:
            test = plain
    return flatten_boxes(frame, [test])


def _answer(program: Program, state: int) -> Program:
    """Drops the state that a condition has not changed."""
    if len(program.outputs) == 1:
        return program
    return cached(
        program,
        ("answer", state),
        lambda: dead_code(attrs.evolve(program, outputs=program.outputs[state : state + 1], derived={})),
    )


def _longer(program: Program, types: tuple[ArrayType, ...]) -> Program:
    """Adds inputs that the program does not use."""
    if not types:
        return program

    def make() -> Program:
        return attrs.evolve(program, inputs=(*program.inputs, *[Var(t) for t in types]), derived={})

    return cached(program, ("longer", types), make)
