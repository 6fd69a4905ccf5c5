"""Loops under any handler: the structure of the carry is a fix-point. A carry starts as it is, plain or
boxed. The body is staged; where it returns a boxed value for a plain one, or a wider structure, the carry is
widened and the body staged again. Structures only grow, at most `PayloadHandler.height` times for each value,
so the search ends.
"""

from collections.abc import Sequence

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.effects import Frame, Handler
from effx.errors import TransformError
from effx.handlers.recursion.layout import (
    Layout,
    arrays_of,
    fit,
    flatten_boxes,
    handler_of,
    layout_of,
    payload_of,
    rebuild_boxes,
)
from effx.handlers.recursion.payloads import PayloadHandler
from effx.handlers.recursion.staging import (
    Collected,
    Handled,
    State,
    aligned,
    cached,
    put_collected,
    put_state,
    recursion,
    stage_under,
    state_of,
)
from effx.handlers.stage import run_program, stage
from effx.ir.ops.control import Cond, Scan, While
from effx.ir.passes import dead_code
from effx.ir.program import Program, Var
from effx.ir.types import ArrayType, array_type

Layouts = tuple[Layout, ...]


def fixed(
    body: Program,
    handler: Handler,
    constants: Layouts,
    carry: Layouts,
    xs: Layouts,
    state: State,
    grows: bool = False,
) -> tuple[Handled, Layouts]:
    """Stages a loop's body under a handler with a carry that keeps its structure.

    Args:
        body: takes the constants, the carry and slices of the stacked inputs.
        handler: installed around it. constants, carry, xs: the layouts of its inputs. state: the layout of
            the handler's state. grows: True if the next carry is `grow` of the carry and the body's result,
            not that result.

    Returns:
        The body, whose first results are the carry in that structure; and the structure.

    Raises:
        TransformError: the structure grows without end.
    """
    n, m = len(constants), len(carry)
    height = handler.height if isinstance(handler, PayloadHandler) else 1
    for _ in range(1 + m * height):

        def settle(
            frame: Frame, inputs: list[Array], outputs: list[Array], carry: Layouts = carry
        ) -> tuple[list[Array], Layouts]:
            flat: list[Array] = []
            layouts = list(carry)
            if grows:
                outputs[:m] = [_grown(frame, x, y) for x, y in zip(inputs[n:], outputs[:m], strict=True)]
            for i, (x, y) in enumerate(zip(inputs[n : n + m], outputs[:m], strict=True)):
                layouts[i] = _widened(frame, x, y, carry[i])
            if tuple(layouts) != carry:
                return [], tuple(layouts)
            for y, layout in zip(outputs[:m], carry, strict=True):
                flat += fit(frame, y, layout)
            rest, others = flatten_boxes(frame, outputs[m:])
            return [*flat, *rest], (*carry, *others)

        handled = stage_under(body, handler, (*constants, *carry, *xs), state, settle, ("loop", n, m, grows))
        found = handled.results[:m]
        if found == carry:
            return handled, carry
        carry = found
    raise TransformError(
        f"{handler.name}: what {body.name} carries keeps growing; its payloads have no largest structure"
    )


def _grown(frame: Frame, x: Array, y: Array) -> Array:
    """Returns the payload that covers the carry and the body's result."""
    grown = handler_of(frame).grow(payload_of(frame, x), payload_of(frame, y))
    return Box(frame, grown, x.type)


def _widened(frame: Frame, x: Array, y: Array, layout: Layout) -> Layout:
    """Returns the layout of a carry that comes in as x and goes out as y."""
    boxed = type(y) is Box and y.frame is frame
    if layout.tree is None and not boxed:
        return layout
    handler = handler_of(frame)
    before, after = payload_of(frame, x), payload_of(frame, y)
    new = layout_of(before, layout.type)
    if layout_of(after, layout.type) == new:
        return new
    return layout_of(handler.widen(before, after), layout.type)


def sliced(frame: Frame, xs: Sequence[Array], length: int) -> tuple[list[Array], Layouts]:
    """Splits stacked inputs into arrays with the scanned axis in front, and the layouts of their slices."""
    leaves: list[Array] = []
    layouts: list[Layout] = []
    for x in xs:
        t = x.type.with_shape(x.type.shape[1:])
        if type(x) is Box and x.frame is frame:
            handler = handler_of(frame)
            parts, tree = arrays_of(handler.unstack(x.payload), handler.name)
            layouts.append(Layout(tree, tuple([_row(handler, p.type, length) for p in parts]), t))
            leaves += parts
        else:
            leaves.append(x)
            layouts.append(Layout(None, (t,), t))
    return leaves, tuple(layouts)


def _row(handler: PayloadHandler, t: ArrayType, length: int) -> ArrayType:
    if not t.shape or t.shape[0] != length:
        raise TransformError(
            f"{handler.name}: a part {t!r} of the payload of a scanned value has no leading axis of {length}; "
            f"define unstack(payload) and stack(payload)"
        )
    return t.with_shape(t.shape[1:])


def stacked(frame: Frame, leaves: Sequence[Array], layouts: Layouts, length: int) -> list[Array]:
    """Rebuilds stacked outputs from arrays with the scanned axis in front."""
    values: list[Array] = []
    start = 0
    for layout in layouts:
        parts = leaves[start : start + len(layout.types)]
        start += len(layout.types)
        if layout.tree is None:
            values.append(parts[0])
        else:
            payload = handler_of(frame).stack(layout.tree.unflatten(parts))
            values.append(Box(frame, payload, layout.type.with_shape((length, *layout.type.shape))))
    return values


def carried(frame: Frame, values: Sequence[Array], types: Sequence[ArrayType]) -> Layouts:
    """Returns the layout with which a carry starts; its weakness is the loop's, not the operand's."""
    layouts: list[Layout] = []
    found = list(flatten_boxes(frame, values)[1])
    if isinstance(frame.handler, PayloadHandler) and frame.handler.lifts_carries:
        found = [layout_of(payload_of(frame, x), t) for x, t in zip(values, types, strict=True)]
    for layout, t in zip(found, types, strict=True):
        parts = layout.types if t.weak else tuple([p.strong() for p in layout.types])
        layouts.append(Layout(layout.tree, (t,) if layout.tree is None else parts, t))
    return tuple(layouts)


def initial(frame: Frame, values: Sequence[Array], layouts: Layouts) -> list[Array]:
    """Returns the arrays with which a carry starts."""
    return [a for x, layout in zip(values, layouts, strict=True) for a in fit(frame, x, layout)]


@recursion(Scan)
def scan(frame: Frame, op: Scan, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One scan of the staged body."""
    c, n = op.constants, op.constants + op.carries
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    carry_layouts = carried(frame, operands[c:n], op.body.in_types[c:n])
    xs, xs_layouts = sliced(frame, operands[n:], op.length)
    before, state = state_of(frame)
    handled, carry = fixed(op.body, frame.handler, constant_layouts, carry_layouts, xs_layouts, state)
    start = initial(frame, operands[c:n], carry)
    # The body takes its own constants, the state, then the old constants: move the state after these.
    program = moved(handled.program, len(handled.constants), len(before), len(constants))
    results = Scan(
        program,
        op.length,
        len(handled.constants) + len(constants),
        len(before) + len(start),
        op.reverse,
        op.unroll,
    )(*handled.constants, *constants, *before, *start, *xs)
    put_state(frame, results[: len(before)], state)
    rest = results[len(before) :]
    outputs = handled.results[op.carries :]
    end = len(start) + sum([len(layout.types) for layout in outputs])
    put_collected(frame, rest[end:], handled.collected)  # a row for each iteration
    return (
        *rebuild_boxes(frame, rest[: len(start)], carry),
        *stacked(frame, rest[len(start) : end], outputs, op.length),
    )


def moved(program: Program, captured: int, state: int, constants: int) -> Program:
    """Returns the program with the state's inputs after the loop's constants."""
    if not state or not constants:
        return program

    def make() -> Program:
        i, end = program.inputs, captured + state + constants
        inputs = (*i[:captured], *i[captured + state : end], *i[captured : captured + state], *i[end:])
        return attrs.evolve(program, inputs=inputs, derived={})

    # Kept, so that what is compiled from the new form is found again; so below.
    return cached(program, ("moved", captured, state, constants), make)


@recursion(While)
def while_(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One loop of the staged condition and body; of a boxed condition the primal decides."""
    c = op.constants
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    carry_layouts = carried(frame, operands[c:], op.body.in_types[c:])
    before, state = state_of(frame)
    # Structures only grow, so a condition that is boxed from the start stays so: check before staging the
    # body.
    if _condition(frame, op, constant_layouts, carry_layouts, state).results[0].tree is not None:
        return handler_of(frame).run_undecided(frame, op, operands)
    handled, carry = fixed(op.body, frame.handler, constant_layouts, carry_layouts, (), state)
    condition = _condition(frame, op, constant_layouts, carry, state)
    if condition.results[0].tree is not None:
        return handler_of(frame).run_undecided(frame, op, operands)
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

        def turn(arrays: list[Array]) -> list[Array]:
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
        parts = [stage(lambda arrays: [arrays[fixed]], whole, test.name), stage(turn, whole, body.name)]
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
