"""Parallel maps under any handler: their axes are like a scanned axis without an order."""

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs

from effx.array import Array, Box
from effx.array.indexing import getitem
from effx.array.promotion import as_operand, convert
from effx.effects import Frame, Handler, resumed
from effx.errors import TransformError
from effx.handlers.recursion.layout import Layout, flatten_boxes, rebuild_boxes
from effx.handlers.recursion.loops import sliced, stacked
from effx.handlers.recursion.payloads import handler_of, recursion
from effx.handlers.recursion.staging import State, put_collected, stage_under, state_of
from effx.handlers.sharding_types.program_types import widened
from effx.handlers.staging.parallel_maps import bound
from effx.ir.ops.parallel import Cuts, ParallelMap
from effx.ir.ops.shape import BroadcastInDim, Reshape
from effx.ir.program import Program
from effx.ir.types import INVARIANT
from effx.tree.registry import flatten


def inside(handler: Handler, op: ParallelMap) -> Handler:
    """Returns the handler for the body, in which the parallel map's axis names are not the handler's."""
    if not any([name in op.names for name, _ in handler.axes()]):
        return handler
    return attrs.evolve(handler, axis_name=None)  # type: ignore[misc]  # handlers are attrs classes


def cuts_of(cuts: Cuts, layouts: Sequence[Layout]) -> Cuts:
    """Returns for each array of a flat list which axes cut it."""
    return tuple([c for c, layout in zip(cuts, layouts, strict=True) for _ in range(len(layout.types))])


def _merged(x: Array, k: int) -> Array:
    """Returns an array with one axis in the place of some leading ones."""
    shape = x.type.shape
    return x if k == 1 else Reshape((prod(shape[:k]), *shape[k:]))(x)


def _parted(x: Array, sizes: tuple[int, ...]) -> Array:
    """Returns an array with some axes in the place of the leading one."""
    return x if len(sizes) == 1 else Reshape((*sizes, *x.type.shape[1:]))(x)


def _repeated(op: ParallelMap, x: Array) -> Array:
    """Returns a value once for each index."""
    k, shape = len(op.axes), x.type.shape
    return BroadcastInDim((*[n for _, n in op.axes], *shape), tuple(range(k, k + len(shape))))(x)


def _slices(frame: Frame, op: ParallelMap, x: Array, cut: tuple[int, ...]) -> tuple[list[Array], Layout]:
    """Splits an operand into arrays with the axes that cut it in front, and the layout of a slice."""
    k, sizes = len(cut), op.sizes(cut)
    vma = op.named(cut) if op.checked else INVARIANT
    if type(x) is not Box or x.frame is not frame:
        t = x.type.with_shape(x.type.shape[k:])
        t = t.varying(t.vma | vma)
        return [x], Layout(None, (t,), t)
    if k == 0:
        parts, (layout,) = flatten_boxes(frame, [x])
        return parts, layout
    if k > 1:
        with resumed(frame):
            x = _merged(x, k)
    parts, (layout,) = sliced(frame, [x], prod(sizes))
    types = tuple([t.varying(t.vma | vma) for t in layout.types])
    return (
        [_parted(p, sizes) for p in parts],
        Layout(layout.tree, types, layout.type.varying(layout.type.vma | vma)),
    )


def _whole(
    frame: Frame, op: ParallelMap, parts: Sequence[Array], layout: Layout, cut: tuple[int, ...]
) -> Array:
    """Rebuilds a result from arrays with the axes that cut it in front."""
    names, k = op.names, len(cut)
    t = layout.type.varying(layout.type.vma - names)
    outside = Layout(layout.tree, tuple([p.varying(p.vma - names) for p in layout.types]), t)
    if layout.tree is None:
        return parts[0]
    if k == 0:
        return rebuild_boxes(frame, parts, [outside])[0]
    sizes = op.sizes(cut)
    (y,) = stacked(frame, [_merged(p, k) for p in parts], (outside,), prod(sizes))
    with resumed(frame):
        return _parted(y, sizes)


def with_body(op: ParallelMap, body: Program, cuts_in: Cuts, cuts_out: Cuts) -> ParallelMap:
    """Returns a parallel map of another program, the types of whose ends say along which axes they vary."""
    if op.checked:  # zeros, say, of what varies
        with bound(op.axes, True):
            ends = [tuple([(op.named(cut), None) for cut in cuts]) for cuts in (cuts_in, cuts_out)]
            body = widened(body, *ends)
    return attrs.evolve(op, body=body, cuts_in=cuts_in, cuts_out=cuts_out)


@recursion(ParallelMap)
def parallel_map(frame: Frame, op: ParallelMap, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One parallel map of the staged body."""
    leaves: list[Array] = []
    layouts: list[Layout] = []
    for x, cut in zip(operands, op.cuts_in, strict=True):
        parts, layout = _slices(frame, op, x, cut)
        leaves += parts
        layouts.append(layout)
    before, state = state_of(frame)
    every = tuple(range(len(op.axes)))
    apart = _split(frame, state, op)
    starts = before if apart is None else apart
    start_cut = () if apart is None else every
    if op.checked and state.tree is not None:  # what each index makes of it is its own
        starts, start_cut = [_repeated(op, x) for x in starts] if apart is None else starts, every
        own = [layout.type.varying(layout.type.vma | op.names) for layout in state.leaves]
        state = attrs.evolve(state, leaves=tuple([Layout(None, (t,), t) for t in own]))
    with bound(op.axes, op.checked):  # rules of users' ask for their axes
        handled = stage_under(op.body, inside(frame.handler, op), tuple(layouts), state)
    cuts_in = (
        *[()] * len(handled.constants),
        *[start_cut] * len(starts),
        *cuts_of(op.cuts_in, layouts),
    )
    # Each index has its own state; they are merged here.
    cuts_out = (
        *[every] * len(before),
        *cuts_of(op.cuts_out, handled.results),
        *[every] * len(handled.collected.types),
    )
    mapped = with_body(op, handled.program, cuts_in, cuts_out)
    results = mapped(*handled.constants, *starts, *leaves)
    _merge(frame, results[: len(before)], state, op)
    values: list[Array] = []
    start = len(before)
    for layout, cut in zip(handled.results, op.cuts_out, strict=True):
        values.append(_whole(frame, op, results[start : start + len(layout.types)], layout, cut))
        start += len(layout.types)
    k = len(op.axes)
    put_collected(frame, [_merged(x, k) for x in results[start:]], handled.collected)  # a row for each index
    return tuple(values)


def _split(frame: Frame, state: State, op: ParallelMap) -> list[Array] | None:
    """Returns the replicas' initial states, one row each; None if all start with the same state.

    Raises:
        TransformError: they are not of the handler's state with one more leading axis.
    """
    if state.tree is None:
        return None
    handler, size = handler_of(frame), op.size
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
    sizes = tuple([n for _, n in op.axes])
    return [_parted(convert(x, t.dtype, t.weak), sizes) for x, t in zip(rows, wanted, strict=True)]


def _merge(frame: Frame, leaves: Sequence[Array], state: State, op: ParallelMap) -> None:
    """Sets the handler's state to the merged states of all replicas."""
    if state.tree is None:
        return
    merged: Any = None
    rows = [_merged(x, len(op.axes)) for x in leaves]
    for i in range(op.size):
        mine = state.tree.unflatten([getitem(x, i) for x in rows])
        merged = mine if i == 0 else handler_of(frame).merge_states(merged, mine)
    frame.state = merged
