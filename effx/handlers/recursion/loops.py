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
    layout_types,
    payload_for,
    payload_layout,
    rebuild_boxes,
    split_by_layouts,
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
from effx.ir.ops.groups import LoopOperands, split_into
from effx.ir.program import Program
from effx.ir.types import ArrayType

Layouts = tuple[ValueLayout, ...]


def stage_to_fixpoint(
    body: Program,
    handler: PayloadHandler,
    layouts: LoopOperands[ValueLayout],
    state: StateLayout,
    grows: bool = False,
) -> tuple[HandledProgram, Layouts]:
    """Stages a loop's body under a handler, with the carry in its fix-point structure.

    Args:
        body: takes the constants, the carry and slices of the stacked inputs.
        handler: installed around it.
        layouts: of the body's inputs, at first.
        state: the layout of the handler's state.
        grows: True if the next carry is `grow` of the carry and the body's result, not that result.

    Returns:
        The body, whose first results are the carry in that structure; and the structure.

    Raises:
        TransformError: the structure grows without bound.
    """
    m = len(layouts.carry)
    key = ("loop", len(layouts.constants), m, grows)
    for _ in range(1 + m * (handler.height + len(tracked_axes.value))):

        def settle(
            frame: Frame,
            inputs: list[Array],
            outputs: list[Array],
            layouts: LoopOperands[ValueLayout] = layouts,
        ) -> tuple[list[Array], Layouts]:
            carry = layouts.group_like(inputs).carry
            next_carry, rest = split_into(outputs, m)
            if grows:
                next_carry = [_grow_carry(frame, x, y) for x, y in zip(carry, next_carry, strict=True)]
            wider = tuple(
                [
                    _widen_layout(frame, x, y, layout)
                    for x, y, layout in zip(carry, next_carry, layouts.carry, strict=True)
                ]
            )
            if wider != layouts.carry:
                return [], wider
            rest_leaves, rest_layouts = flatten_boxes(frame, rest)
            return [*flatten_carry(frame, next_carry, wider), *rest_leaves], (*wider, *rest_layouts)

        handled = stage_under(body, handler, layouts.join(), state, settle, key)
        wider = handled.results[:m]
        if wider == layouts.carry:
            return handled, wider
        layouts = attrs.evolve(layouts, carry=wider)
    raise TransformError(
        f"{handler.name}: what {body.name} carries keeps growing; its payloads have no largest structure"
    )


def _grow_carry(frame: Frame, x: Array, y: Array) -> Array:
    """Returns the payload that covers the carry and the body's result."""
    handler, before, after = payload_handler(frame), payload_for(frame, x), payload_for(frame, y)
    return handler.box_covering_payload(frame, "grow", handler.grow(before, after), x.type)


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
    for layout, parts in zip(layouts, split_by_layouts(leaves, layouts), strict=True):
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
    values, types = op.group_operands(operands), op.group_operands(op.body.in_types)
    constants, constant_layouts = flatten_boxes(frame, values.constants)
    xs, xs_layouts = unstack_inputs(frame, values.xs, op.length)
    layouts = LoopOperands(
        constant_layouts, initial_carry_layouts(frame, values.carry, types.carry), xs_layouts
    )
    state_leaves, state = flatten_state(frame)
    handled, carry = stage_to_fixpoint(op.body, payload_handler(frame), layouts, state)
    start = flatten_carry(frame, values.carry, carry)
    # The body takes its own constants, the state, then the old constants: move the state after these.
    program = reorder_state_inputs(handled.program, len(handled.constants), len(state_leaves), len(constants))
    leaves = LoopOperands((*handled.constants, *constants), (*state_leaves, *start), tuple(xs))
    results = op.with_body(program, leaves)(*leaves.join())
    ys_layouts = op.group_results(handled.results).ys
    last_state, last_carry, ys, collected = split_into(
        results, len(state_leaves), len(start), len(layout_types(ys_layouts))
    )
    set_state(frame, last_state, state)
    collect_values(frame, collected, handled.collected)  # a row for each iteration
    return (
        *rebuild_boxes(frame, last_carry, carry),
        *stack_outputs(frame, ys, ys_layouts, op.length),
    )


def reorder_state_inputs(program: Program, captured: int, state: int, constants: int) -> Program:
    """Returns the program with the state's inputs after the loop's constants."""
    if not state or not constants:
        return program

    def make() -> Program:
        own, state_inputs, loop_constants, rest = split_into(program.inputs, captured, state, constants)
        return attrs.evolve(program, inputs=(*own, *loop_constants, *state_inputs, *rest), derived={})

    # Cached, so that executables of the new form are found again; likewise below.
    return cache_on_program(program, ("moved", captured, state, constants), make)
