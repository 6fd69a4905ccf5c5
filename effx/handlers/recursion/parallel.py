"""Parallel maps under any handler: the replicas' axis is like a scanned axis without an order."""

from collections.abc import Sequence
from typing import Any

import attrs

from effx.array import Array
from effx.array.indexing import getitem
from effx.array.promotion import as_operand, convert
from effx.effects import Frame, Handler, handle
from effx.errors import TransformError
from effx.handlers.parallel import Replicas
from effx.handlers.recursion.layout import Layout, flatten_boxes, rebuild_boxes
from effx.handlers.recursion.loops import sliced, stacked
from effx.handlers.recursion.payloads import handler_of, recursion
from effx.handlers.recursion.staging import State, put_collected, stage_under, state_of
from effx.ir.ops.parallel import ParallelMap
from effx.tree.registry import flatten


def inside(handler: Handler, op: ParallelMap) -> Handler:
    """Returns the handler for the body, in which the parallel map's axis name is not the handler's."""
    if not any([name == op.axis_name for name, _ in handler.axes()]):
        return handler
    return attrs.evolve(handler, axis_name=None)  # type: ignore[misc]  # handlers are attrs classes


def flags_of(mapped: Sequence[bool], layouts: Sequence[Layout]) -> tuple[bool, ...]:
    """Returns for each array of a flat list whether it is mapped."""
    return tuple([m for m, layout in zip(mapped, layouts, strict=True) for _ in range(len(layout.types))])


@recursion(ParallelMap)
def parallel_map(frame: Frame, op: ParallelMap, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One parallel map of the staged body."""
    leaves: list[Array] = []
    layouts: list[Layout] = []
    for x, mapped in zip(operands, op.mapped_in, strict=True):
        parts, found = sliced(frame, [x], op.size) if mapped else flatten_boxes(frame, [x])
        leaves += parts
        layouts += found
    before, state = state_of(frame)
    apart = _split(frame, state, op.size)
    with handle(Replicas(op.size, op.axis_name)):  # rules of users' ask for their axes
        handled = stage_under(op.body, inside(frame.handler, op), tuple(layouts), state)
    starts = before if apart is None else apart
    results = attrs.evolve(
        op,
        body=handled.program,
        mapped_in=(
            *[False] * len(handled.constants),
            *[apart is not None] * len(starts),
            *flags_of(op.mapped_in, layouts),
        ),
        # Each replica has its own state; they are merged here.
        mapped_out=(
            *[True] * len(before),
            *flags_of(op.mapped_out, handled.results),
            *[True] * len(handled.collected.types),
        ),
    )(*handled.constants, *starts, *leaves)
    _merge(frame, results[: len(before)], state, op.size)
    values: list[Array] = []
    start = len(before)
    for layout, mapped in zip(handled.results, op.mapped_out, strict=True):
        parts = list(results[start : start + len(layout.types)])
        start += len(layout.types)
        values += (
            stacked(frame, parts, (layout,), op.size) if mapped else rebuild_boxes(frame, parts, (layout,))
        )
    put_collected(frame, results[start:], handled.collected)  # a row for each replica
    return tuple(values)


def _split(frame: Frame, state: State, size: int) -> list[Array] | None:
    """Returns the replicas' initial states, one row each; None if all start with the same state.

    Raises:
        TransformError: they are not of the handler's state with one more leading axis.
    """
    if state.tree is None:
        return None
    handler = handler_of(frame)
    found = handler.split_state(frame.state, size)
    if found is None:
        return None
    leaves, tree = flatten(found)
    rows = [as_operand(x, handler.name) for x in leaves]
    wanted = [layout.type.with_shape((size, *layout.type.shape)) for layout in state.leaves]
    if tree != state.tree or not all([x.type.matches(t) for x, t in zip(rows, wanted, strict=True)]):
        raise TransformError(
            f"{handler.name}: split_state must give the state of each of {size} replicas, "
            f"{state.tree} of ({', '.join(map(repr, wanted))}), got {tree} of ({', '.join([repr(x.type) for x in rows])})"
        )
    return [convert(x, t.dtype, t.weak) for x, t in zip(rows, wanted, strict=True)]


def _merge(frame: Frame, leaves: Sequence[Array], state: State, size: int) -> None:
    """Sets the handler's state to the merged states of all replicas."""
    if state.tree is None:
        return
    merged: Any = None
    for i in range(size):
        mine = state.tree.unflatten([getitem(x, i) for x in leaves])
        merged = mine if i == 0 else handler_of(frame).merge_states(merged, mine)
    frame.state = merged
