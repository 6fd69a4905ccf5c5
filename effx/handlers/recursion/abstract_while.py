"""While loops with a boxed condition, under handlers that define how payloads grow. The result covers any
number of iterations: payloads are grown, iteration by iteration, until one more changes nothing. This is
iteration to a post-fix-point with widening (Cousot and Cousot, Abstract interpretation, 1977): if
`grow(before, after)` covers both, and is `before` once `after` adds nothing, the result covers every
iteration.
"""

from collections.abc import Sequence

from effx import dtypes
from effx.array import Array
from effx.array.promotion import as_operand, convert
from effx.effects import Frame
from effx.errors import TransformError
from effx.handlers.recursion.layout import (
    flatten_boxes,
    layout_types,
    payload_for,
    payload_layout,
    rebuild_boxes,
)
from effx.handlers.recursion.loops import flatten_carry, reorder_state_inputs, stage_to_fixpoint
from effx.handlers.recursion.payloads import merge_states, payload_handler
from effx.handlers.recursion.staging import (
    StateLayout,
    align_constants,
    flatten_state,
    set_state,
    stage_under,
)
from effx.handlers.staging.stage import stage
from effx.ir.ops.control import Call, While
from effx.ir.ops.groups import LoopOperands, split_into
from effx.ir.ops.reduce import ReduceOr
from effx.ir.types import array_type
from effx.tree.registry import flatten


def recur_undecided_while(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Grows a loop's carry until an iteration adds nothing.

    Raises:
        TransformError: the handler does not define how payloads grow, or collects values.
    """
    values, types = op.group_operands(operands), op.group_operands(op.body.in_types)
    constants, constant_layouts = flatten_boxes(frame, values.constants)
    start = tuple(
        [payload_layout(payload_for(frame, x), t) for x, t in zip(values.carry, types.carry, strict=True)]
    )
    state_leaves, state = flatten_state(frame)
    layouts = LoopOperands(constant_layouts, start)
    handled, carry = stage_to_fixpoint(op.body, payload_handler(frame), layouts, state, grows=True)
    condition = stage_under(op.condition, frame.handler, (*constant_layouts, *carry), state)
    collected = (*handled.collected.names, *condition.collected.names)
    if collected:
        raise TransformError(
            f"{frame.handler.name}: the value {collected[0]!r} is collected in a loop whose number of "
            f"iterations nothing decides"
        )
    state_count = len(state_leaves)
    test, body = [
        reorder_state_inputs(part.program, len(part.constants), state_count, len(constants))
        for part in (condition, handled)
    ]

    def iteration(leaves: list[Array]) -> list[Array]:
        _, old_state, old_carry = split_into(leaves, 1, state_count)
        # The condition is evaluated before each iteration, and after the last.
        asked: Sequence[Array] = ()
        if state_count:
            asked, _ = split_into(
                Call(test)(*condition.constants, *constants, *old_state, *old_carry), state_count
            )
        results = Call(body)(*handled.constants, *constants, *asked, *old_carry)
        body_state, new_carry = split_into(results, state_count)
        new = [*_merge_iteration_states(frame, asked, body_state, state), *new_carry]
        return [_has_changed((*old_state, *old_carry), new), *new]

    flag = array_type(dtypes.bool_)
    carried = (flag, *layout_types(state.leaves), *layout_types(carry))
    name = f"{frame.handler.name}_{op.body.name}"
    parts = [stage(lambda leaves: leaves[:1], carried, name), stage(iteration, carried, name)]
    (goes_on, step), captured = align_constants(parts)
    first = [as_operand(True, frame.handler.name), *state_leaves, *flatten_carry(frame, values.carry, carry)]
    results = While(goes_on, step, len(captured))(*captured, *first)
    _, last_state, last_carry = split_into(results, 1, state_count)
    set_state(frame, last_state, state)
    return tuple(rebuild_boxes(frame, last_carry, carry))


def _merge_iteration_states(
    frame: Frame, old: Sequence[Array], new: Sequence[Array], state: StateLayout
) -> list[Array]:
    """Returns the state that covers both a performed and a skipped iteration."""
    if state.tree is None:
        return []
    both = [state.tree.unflatten(leaves) for leaves in (old, new)]
    merged = merge_states(payload_handler(frame), both, "an iteration may have run or not")
    return [
        convert(as_operand(x, frame.handler.name), layout.type.dtype, layout.type.weak)
        for x, layout in zip(flatten(merged)[0], state.leaves, strict=True)
    ]


def _has_changed(old: Sequence[Array], new: Sequence[Array]) -> Array:
    """Returns whether any array has changed; NaN equals NaN."""
    changed = as_operand(False, "undecided")
    for a, b in zip(old, new, strict=True):
        differs = (a != b) & ((a == a) | (b == b))
        changed = changed | ReduceOr(tuple(range(a.type.ndim)))(differs)
    return changed
