"""Branches under any handler: each is staged under it, and their results are converted to one structure. If the index
has no plain value, all branches run, and their results are joined.
"""

from collections.abc import Sequence
from functools import reduce

import attrs

from effx.array import Array, Box
from effx.effects import Frame, use_frame
from effx.errors import TransformError
from effx.handlers.recursion.calls import unpack_results
from effx.handlers.recursion.layout import (
    ValueLayout,
    fit_to_layout,
    flatten_boxes,
    payload_for,
    payload_layout,
)
from effx.handlers.recursion.payloads import merge_states, payload_handler, recursion
from effx.handlers.recursion.staging import CollectedLayouts, align_constants, flatten_state, stage_under
from effx.handlers.sharding_types.axes_in_types import diverge_along
from effx.handlers.staging.stage import run_program
from effx.ir.ops.base import types_text
from effx.ir.ops.control import Cond
from effx.tree.registry import PyTree


@recursion(Cond)
def recur_cond(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one cond of the staged branches, or all branches if the index has no plain value."""
    results = recur_decided_cond(frame, op, operands)
    return join_branches(frame, op, operands[1:]) if results is None else results


def recur_decided_cond(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...] | None:
    """Performs one cond of the staged branches; returns None if the index is boxed and has no plain value."""
    index, *rest = operands
    if type(index) is Box and index.frame is frame:
        plain = payload_handler(frame).primal(index.payload)
        if plain is None:
            return None
        index = plain
    leaves, layouts = flatten_boxes(frame, rest)
    state_leaves, state = flatten_state(frame)
    with diverge_along(index.type.vma):
        parts = [stage_under(branch, frame.handler, layouts, state) for branch in op.branches]
    collected = _merge_collected(frame, [part.collected for part in parts])
    if any([part.results != parts[0].results or part.collected != collected for part in parts]):
        targets = tuple(
            [
                meet_layouts(frame, layouts_of_result)
                for layouts_of_result in zip(*[p.results for p in parts], strict=True)
            ]
        )

        def settle(
            inner: Frame, inputs: list[Array], outputs: list[Array]
        ) -> tuple[list[Array], tuple[ValueLayout, ...]]:
            _fill_missing_collected(inner, collected)
            return [
                a for y, t in zip(outputs, targets, strict=True) for a in fit_to_layout(inner, y, t)
            ], targets

        key = (targets, collected)
        with diverge_along(index.type.vma):
            parts = [
                stage_under(branch, frame.handler, layouts, state, settle, key) for branch in op.branches
            ]
    programs, constants = align_constants(parts)
    results = attrs.evolve(op, branches=tuple(programs))(index, *constants, *state_leaves, *leaves)
    return unpack_results(frame, parts[0], state, results)


def join_branches(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs all branches under the handler and joins their results, states and collected values."""
    handler = payload_handler(frame)
    start, collected_before = frame.state, frame.collected
    states: list[PyTree] = []
    collected_by_branch: list[dict[str, PyTree]] = []
    results: list[list[Array]] = []
    for branch in op.branches:
        frame.state, frame.collected = start, {}
        with use_frame(frame):
            results.append(run_program(branch, operands))
        states.append(frame.state)
        collected_by_branch.append(frame.collected)
    frame.collected = collected_before
    for collected in collected_by_branch:
        for name, value in collected.items():
            handler.collect(frame, name, value)
    if handler.threads_state:
        frame.state = merge_states(handler, states, "all branches ran")
    payloads = [[payload_for(frame, y) for y in ys] for ys in zip(*results, strict=True)]
    return tuple(
        [
            handler.box_covering_payload(frame, "join", reduce(handler.join, ys), t)
            for ys, t in zip(payloads, op.branches[0].out_types, strict=True)
        ]
    )


def _merge_collected(frame: Frame, collected_parts: list[CollectedLayouts]) -> CollectedLayouts:
    """Returns the collected values of all branches.

    Raises:
        TransformError: two branches collect values of different structure or types under one name.
    """
    layouts: dict[str, ValueLayout] = {}
    for part in collected_parts:
        for name, layout in zip(part.names, part.layouts, strict=True):
            known = layouts.setdefault(name, layout)
            if known != layout:
                raise TransformError(
                    f"{frame.handler.name}: branches collect different things under the name {name!r}: "
                    f"{known.tree} of {types_text(known.types)} and {layout.tree} of {types_text(layout.types)}"
                )
    return CollectedLayouts(tuple(layouts), tuple(layouts.values()))


def _fill_missing_collected(frame: Frame, collected: CollectedLayouts) -> None:
    """Adds to a branch the values that only other branches collect, in the order of all."""
    own_values = frame.collected
    frame.collected = {
        name: own_values[name]
        if name in own_values
        else payload_handler(frame).missing(name, layout.example())
        for name, layout in zip(collected.names, collected.layouts, strict=True)
    }


def meet_layouts(frame: Frame, branch_layouts: tuple[ValueLayout, ...]) -> ValueLayout:
    """Returns the common structure of one result of all branches."""
    boxed = [layout for layout in branch_layouts if layout.tree is not None]
    if not boxed:
        return ValueLayout(None, (branch_layouts[0].type.strong(),), branch_layouts[0].type.strong())
    handler = payload_handler(frame)
    payload = boxed[0].example()
    for layout in branch_layouts:
        if layout.tree is None:  # as in loops, the structure of a lifted plain value counts
            payload = handler.widen(payload, handler.make_payload(layout.plain_example()))
        elif layout.tree != boxed[0].tree or layout.types != boxed[0].types:
            payload = handler.widen(payload, layout.example())
    return payload_layout(payload, boxed[0].type)
