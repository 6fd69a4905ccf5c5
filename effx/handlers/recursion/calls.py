"""Calls, plain and rematerialised, under any handler: one call of the program staged again."""

from collections.abc import Sequence

import attrs

from effx.array import Array
from effx.effects import Frame
from effx.handlers.recursion.layout import flatten_boxes, layout_types, rebuild_boxes
from effx.handlers.recursion.payloads import recursion
from effx.handlers.recursion.staging import (
    HandledProgram,
    StateLayout,
    collect_values,
    flatten_state,
    set_state,
    stage_under,
)
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import Call
from effx.ir.ops.groups import split_into


def unpack_results(
    frame: Frame, handled: HandledProgram, state: StateLayout, results: Sequence[Array]
) -> tuple[Array, ...]:
    """Stores the state and collected values from a staged program's outputs; returns its results, boxed."""
    state_leaves, leaves, collected = split_into(
        results, len(state.leaves), len(layout_types(handled.results))
    )
    set_state(frame, state_leaves, state)
    collect_values(frame, collected, handled.collected)
    return tuple(rebuild_boxes(frame, leaves, handled.results))


def recur_call(frame: Frame, op: Call | Checkpoint, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one call of the body staged under the handler."""
    leaves, layouts = flatten_boxes(frame, operands)
    state_leaves, state = flatten_state(frame)
    handled = stage_under(op.program, frame.handler, layouts, state)
    results = attrs.evolve(op, program=handled.program)(*handled.constants, *state_leaves, *leaves)
    return unpack_results(frame, handled, state, results)


recursion(Call)(recur_call)
recursion(Checkpoint)(recur_call)
