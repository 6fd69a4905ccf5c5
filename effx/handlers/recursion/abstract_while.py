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
    layout_of,
    payload_of,
    rebuild_boxes,
    types_of,
)
from effx.handlers.recursion.loops import fixed, initial, moved
from effx.handlers.recursion.payloads import handler_of
from effx.handlers.recursion.staging import State, aligned, put_state, stage_under, state_of
from effx.handlers.staging.stage import stage
from effx.ir.ops.control import Call, While
from effx.ir.ops.reduce import ReduceOr
from effx.ir.types import array_type
from effx.tree.registry import flatten


def any_number_of_iterations(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Grows a loop's carry until an iteration adds nothing.

    Raises:
        TransformError: the handler does not define how payloads grow, or collects values.
    """
    c = op.constants
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    types = op.body.in_types[c:]
    start = tuple([layout_of(payload_of(frame, x), t) for x, t in zip(operands[c:], types, strict=True)])
    before, state = state_of(frame)
    handled, carry = fixed(op.body, handler_of(frame), constant_layouts, start, (), state, grows=True)
    condition = stage_under(op.condition, frame.handler, (*constant_layouts, *carry), state)
    collected = (*handled.collected.names, *condition.collected.names)
    if collected:
        raise TransformError(
            f"{frame.handler.name}: the value {collected[0]!r} is collected in a loop whose number of "
            f"iterations nothing decides"
        )
    body = moved(handled.program, len(handled.constants), len(before), len(constants))
    test = moved(condition.program, len(condition.constants), len(before), len(constants))
    s = len(before)

    def iteration(leaves: list[Array]) -> list[Array]:
        old = leaves[1:]
        # The condition is evaluated before each iteration, and after the last.
        asked = list(Call(test)(*condition.constants, *constants, *old)[:s]) if s else []
        new = list(Call(body)(*handled.constants, *constants, *asked, *old[s:]))
        new[:s] = _merged(frame, asked, new[:s], state)
        return [_differ(old, new), *new]

    flag = array_type(dtypes.bool_)
    carried = (flag, *types_of(state.leaves), *types_of(carry))
    name = f"{frame.handler.name}_{op.body.name}"
    parts = [stage(lambda leaves: leaves[:1], carried, name), stage(iteration, carried, name)]
    (goes_on, step), captured = aligned(parts)
    first = [as_operand(True, frame.handler.name), *before, *initial(frame, operands[c:], carry)]
    results = While(goes_on, step, len(captured))(*captured, *first)
    put_state(frame, results[1 : 1 + s], state)
    return tuple(rebuild_boxes(frame, results[1 + s :], carry))


def _merged(frame: Frame, old: list[Array], new: list[Array], state: State) -> list[Array]:
    """Returns the state that covers an iteration that ran and one that did not."""
    if state.tree is None:
        return []
    merged = handler_of(frame).merge_states(state.tree.unflatten(old), state.tree.unflatten(new))
    return [
        convert(as_operand(x, frame.handler.name), layout.type.dtype, layout.type.weak)
        for x, layout in zip(flatten(merged)[0], state.leaves, strict=True)
    ]


def _differ(old: Sequence[Array], new: Sequence[Array]) -> Array:
    """Says whether anything has changed; NaN equals NaN."""
    changed = as_operand(False, "undecided")
    for a, b in zip(old, new, strict=True):
        differs = (a != b) & ((a == a) | (b == b))
        changed = changed | ReduceOr(tuple(range(a.type.ndim)))(differs)
    return changed
