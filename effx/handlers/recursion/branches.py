"""Branches under any handler: each is staged under it, and their results are brought to one structure. Where nothing
decides between them, all run, and their results are joined.
"""

from collections.abc import Sequence
from functools import reduce

import attrs

from effx.array import Array, Box
from effx.effects import Frame, resumed
from effx.errors import TransformError
from effx.handlers.recursion.calls import received
from effx.handlers.recursion.layout import Layout, fit, flatten_boxes, layout_of, payload_of
from effx.handlers.recursion.payloads import handler_of, recursion
from effx.handlers.recursion.staging import Collected, aligned, stage_under, state_of
from effx.handlers.sharding_types.axes_in_types import diverging
from effx.handlers.staging.stage import run_program
from effx.ir.ops.base import show
from effx.ir.ops.control import Cond
from effx.tree.registry import PyTree


@recursion(Cond)
def cond(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One cond of the staged branches, or all branches where nothing decides between them."""
    found = decided(frame, op, operands)
    return joined(frame, op, operands[1:]) if found is None else found


def decided(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...] | None:
    """One cond of the staged branches; None if the index is boxed and has no plain value."""
    index, *rest = operands
    if type(index) is Box and index.frame is frame:
        plain = handler_of(frame).primal(index.payload)
        if plain is None:
            return None
        index = plain
    leaves, layouts = flatten_boxes(frame, rest)
    before, state = state_of(frame)
    with diverging(index.type.vma):
        parts = [stage_under(branch, frame.handler, layouts, state) for branch in op.branches]
    collected = _gathered(frame, [part.collected for part in parts])
    if any([part.results != parts[0].results or part.collected != collected for part in parts]):
        targets = tuple([meeting(frame, found) for found in zip(*[p.results for p in parts], strict=True)])

        def settle(
            inner: Frame, inputs: list[Array], outputs: list[Array]
        ) -> tuple[list[Array], tuple[Layout, ...]]:
            _complete(inner, collected)
            return [a for y, t in zip(outputs, targets, strict=True) for a in fit(inner, y, t)], targets

        key = (targets, collected)
        with diverging(index.type.vma):
            parts = [
                stage_under(branch, frame.handler, layouts, state, settle, key) for branch in op.branches
            ]
    programs, constants = aligned(parts)
    results = attrs.evolve(op, branches=tuple(programs))(index, *constants, *before, *leaves)
    return received(frame, parts[0], state, results)


def joined(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs all branches under the handler and joins their results, states and collected values."""
    handler = handler_of(frame)
    start, before = frame.state, frame.collected
    states: list[PyTree] = []
    found: list[dict[str, PyTree]] = []
    results: list[list[Array]] = []
    for branch in op.branches:
        frame.state, frame.collected = start, {}
        with resumed(frame):
            results.append(run_program(branch, operands))
        states.append(frame.state)
        found.append(frame.collected)
    frame.collected = before
    for collected in found:
        for name, value in collected.items():
            handler.collect(frame, name, value)
    if handler.threads_state:
        frame.state = reduce(handler.merge_states, states)
    payloads = [[payload_of(frame, y) for y in ys] for ys in zip(*results, strict=True)]
    return tuple(
        [
            Box(frame, reduce(handler.join, ys), t)
            for ys, t in zip(payloads, op.branches[0].out_types, strict=True)
        ]
    )


def _gathered(frame: Frame, found: list[Collected]) -> Collected:
    """Returns the collected values of all branches.

    Raises:
        TransformError: two branches collect values of different structure or types under one name.
    """
    layouts: dict[str, Layout] = {}
    for part in found:
        for name, layout in zip(part.names, part.layouts, strict=True):
            known = layouts.setdefault(name, layout)
            if known != layout:
                raise TransformError(
                    f"{frame.handler.name}: branches collect different things under the name {name!r}: "
                    f"{known.tree} of {show(known.types)} and {layout.tree} of {show(layout.types)}"
                )
    return Collected(tuple(layouts), tuple(layouts.values()))


def _complete(frame: Frame, collected: Collected) -> None:
    """Adds to a branch the values that only other branches collect, in the order of all."""
    own = frame.collected
    frame.collected = {
        name: own[name] if name in own else handler_of(frame).missing(name, layout.example())
        for name, layout in zip(collected.names, collected.layouts, strict=True)
    }


def meeting(frame: Frame, found: tuple[Layout, ...]) -> Layout:
    """Returns the structure to which the same result of all branches is brought."""
    boxed = [layout for layout in found if layout.tree is not None]
    if not boxed:
        return Layout(None, (found[0].type.strong(),), found[0].type.strong())
    handler = handler_of(frame)
    payload = boxed[0].example()
    for layout in found:
        if layout.tree is None:  # as in loops, the payload of a plain value counts
            payload = handler.widen(payload, handler.lift(layout.plain_example()))
        elif layout.tree != boxed[0].tree or layout.types != boxed[0].types:
            payload = handler.widen(payload, layout.example())
    return layout_of(payload, boxed[0].type)
