"""Scans under any handler, and the fix-point of the carry's structure for all loops. A carry starts plain or boxed, as
its initial value. The body is staged; where it returns a boxed value for a plain one, or a wider structure, the
carry is widened and the body staged again. Structures only grow, at most `PayloadHandler.height` times for each
value, so the search ends.
"""

from collections.abc import Sequence

import attrs

from effx.array import Array, Box
from effx.effects import Frame
from effx.errors import TransformError
from effx.handlers.recursion.layout import (
    ValueLayout,
    fit_to_layout,
    flatten_boxes,
    flatten_payload,
    payload_for,
    payload_layout,
    rebuild_boxes,
)
from effx.handlers.recursion.payloads import PayloadHandler, payload_handler, recursion
from effx.handlers.recursion.staging import (
    HandledProgram,
    StateLayout,
    cache_on_program,
    collect_values,
    flatten_state,
    set_state,
    stage_under,
)
from effx.handlers.sharding_types.axes_in_types import tracked_axes
from effx.ir.ops.control import Scan
from effx.ir.program import Program
from effx.ir.types import ArrayType

Layouts = tuple[ValueLayout, ...]


def stage_to_fixpoint(
    body: Program,
    handler: PayloadHandler,
    constants: Layouts,
    carry: Layouts,
    xs: Layouts,
    state: StateLayout,
    grows: bool = False,
) -> tuple[HandledProgram, Layouts]:
    """Stages a loop's body under a handler, with the carry in its fix-point structure.

    Args:
        body: takes the constants, the carry and slices of the stacked inputs.
        handler: installed around it. constants, carry, xs: the layouts of its inputs. state: the layout of
            the handler's state. grows: True if the next carry is `grow` of the carry and the body's result,
            not that result.

    Returns:
        The body, whose first results are the carry in that structure; and the structure.

    Raises:
        TransformError: the structure grows without bound.
    """
    n, m = len(constants), len(carry)
    for _ in range(1 + m * (handler.height + len(tracked_axes.value))):

        def settle(
            frame: Frame, inputs: list[Array], outputs: list[Array], carry: Layouts = carry
        ) -> tuple[list[Array], Layouts]:
            flat: list[Array] = []
            layouts = list(carry)
            if grows:
                outputs[:m] = [_grow_carry(frame, x, y) for x, y in zip(inputs[n:], outputs[:m], strict=True)]
            for i, (x, y) in enumerate(zip(inputs[n : n + m], outputs[:m], strict=True)):
                layouts[i] = _widen_layout(frame, x, y, carry[i])
            if tuple(layouts) != carry:
                return [], tuple(layouts)
            for y, layout in zip(outputs[:m], carry, strict=True):
                flat += fit_to_layout(frame, y, layout)
            rest, others = flatten_boxes(frame, outputs[m:])
            return [*flat, *rest], (*carry, *others)

        handled = stage_under(body, handler, (*constants, *carry, *xs), state, settle, ("loop", n, m, grows))
        carry_layouts = handled.results[:m]
        if carry_layouts == carry:
            return handled, carry
        carry = carry_layouts
    raise TransformError(
        f"{handler.name}: what {body.name} carries keeps growing; its payloads have no largest structure"
    )


def _grow_carry(frame: Frame, x: Array, y: Array) -> Array:
    """Returns the payload that covers the carry and the body's result."""
    grown = payload_handler(frame).grow(payload_for(frame, x), payload_for(frame, y))
    return Box(frame, grown, x.type)


def _widen_layout(frame: Frame, x: Array, y: Array, layout: ValueLayout) -> ValueLayout:
    """Returns the layout of a carry that enters as x and leaves as y."""
    boxed = type(y) is Box and y.frame is frame
    if layout.tree is None and not boxed:
        return layout
    handler = payload_handler(frame)
    before, after = payload_for(frame, x), payload_for(frame, y)
    before_layout, after_layout = payload_layout(before, layout.type), payload_layout(after, layout.type)
    if after_layout == before_layout:
        return before_layout
    return _add_varying_axes(payload_layout(handler.widen(before, after), layout.type), after_layout)


def _add_varying_axes(layout: ValueLayout, other: ValueLayout) -> ValueLayout:
    """Returns a layout whose arrays also vary along the axes of another layout."""
    if layout.tree != other.tree or layout.types == other.types:
        return layout
    types = [t.with_vma(t.vma | u.vma) for t, u in zip(layout.types, other.types, strict=True)]
    return attrs.evolve(layout, types=tuple(types))


def unstack_inputs(frame: Frame, xs: Sequence[Array], length: int) -> tuple[list[Array], Layouts]:
    """Splits stacked inputs into arrays with the scanned axis in front, and the layouts of their slices."""
    leaves: list[Array] = []
    layouts: list[ValueLayout] = []
    for x in xs:
        t = x.type.drop_first_axis()
        if type(x) is Box and x.frame is frame:
            handler = payload_handler(frame)
            parts, tree = flatten_payload(handler.unstack(x.payload), handler.name)
            layouts.append(ValueLayout(tree, tuple([_row_type(handler, p.type, length) for p in parts]), t))
            leaves += parts
        else:
            leaves.append(x)
            layouts.append(ValueLayout(None, (t,), t))
    return leaves, tuple(layouts)


def _row_type(handler: PayloadHandler, t: ArrayType, length: int) -> ArrayType:
    if not t.shape or t.shape[0] != length:
        raise TransformError(
            f"{handler.name}: a part {t!r} of the payload of a scanned value has no leading axis of {length}; "
            f"define unstack(payload) and stack(payload)"
        )
    return t.drop_first_axis()


def stack_outputs(frame: Frame, leaves: Sequence[Array], layouts: Layouts, length: int) -> list[Array]:
    """Rebuilds stacked outputs from arrays with the scanned axis in front."""
    values: list[Array] = []
    start = 0
    for layout in layouts:
        parts = leaves[start : start + len(layout.types)]
        start += len(layout.types)
        if layout.tree is None:
            values.append(parts[0])
        else:
            payload = payload_handler(frame).stack(layout.tree.unflatten(parts))
            values.append(Box(frame, payload, layout.type.with_shape((length, *layout.type.shape))))
    return values


def initial_carry_layouts(frame: Frame, values: Sequence[Array], types: Sequence[ArrayType]) -> Layouts:
    """Returns the layout with which a carry starts; its weakness is the loop's, not the operand's."""
    layouts: list[ValueLayout] = []
    value_layouts = list(flatten_boxes(frame, values)[1])
    if payload_handler(frame).lifts_carries:
        value_layouts = [payload_layout(payload_for(frame, x), t) for x, t in zip(values, types, strict=True)]
    for layout, t in zip(value_layouts, types, strict=True):
        parts = layout.types if t.weak else tuple([p.strong() for p in layout.types])
        layouts.append(ValueLayout(layout.tree, (t,) if layout.tree is None else parts, t))
    return tuple(layouts)


def flatten_carry(frame: Frame, values: Sequence[Array], layouts: Layouts) -> list[Array]:
    """Returns the arrays with which a carry starts."""
    return [a for x, layout in zip(values, layouts, strict=True) for a in fit_to_layout(frame, x, layout)]


@recursion(Scan)
def recur_scan(frame: Frame, op: Scan, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One scan of the staged body."""
    c, n = op.constants, op.constants + op.carries
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    carry_layouts = initial_carry_layouts(frame, operands[c:n], op.body.in_types[c:n])
    xs, xs_layouts = unstack_inputs(frame, operands[n:], op.length)
    state_leaves, state = flatten_state(frame)
    handled, carry = stage_to_fixpoint(
        op.body, payload_handler(frame), constant_layouts, carry_layouts, xs_layouts, state
    )
    start = flatten_carry(frame, operands[c:n], carry)
    # The body takes its own constants, the state, then the old constants: move the state after these.
    program = reorder_state_inputs(handled.program, len(handled.constants), len(state_leaves), len(constants))
    results = Scan(
        program,
        op.length,
        len(handled.constants) + len(constants),
        len(state_leaves) + len(start),
        op.reverse,
        op.unroll,
    )(*handled.constants, *constants, *state_leaves, *start, *xs)
    set_state(frame, results[: len(state_leaves)], state)
    rest = results[len(state_leaves) :]
    outputs = handled.results[op.carries :]
    end = len(start) + sum([len(layout.types) for layout in outputs])
    collect_values(frame, rest[end:], handled.collected)  # a row for each iteration
    return (
        *rebuild_boxes(frame, rest[: len(start)], carry),
        *stack_outputs(frame, rest[len(start) : end], outputs, op.length),
    )


def reorder_state_inputs(program: Program, captured: int, state: int, constants: int) -> Program:
    """Returns the program with the state's inputs after the loop's constants."""
    if not state or not constants:
        return program

    def make() -> Program:
        i, end = program.inputs, captured + state + constants
        inputs = (*i[:captured], *i[captured + state : end], *i[captured : captured + state], *i[end:])
        return attrs.evolve(program, inputs=inputs, derived={})

    # Cached, so that executables of the new form are found again; likewise below.
    return cache_on_program(program, ("moved", captured, state, constants), make)
