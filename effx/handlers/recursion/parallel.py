"""Parallel maps under any handler: their axes are like a scanned axis without an order.

`unstack` and `stack` move an axis of a payload to the front and back, as for a scan; residuals become mapped results
and stay on the device that computed them.
"""

from collections.abc import Sequence
from math import prod

import attrs

from effx.array import Array, Box
from effx.array.indexing import getitem
from effx.array.promotion import as_operand, convert
from effx.effects import Frame, Handler, use_frame
from effx.errors import TransformError
from effx.handlers.recursion.layout import (
    ValueLayout,
    flatten_boxes,
    layout_types,
    rebuild_boxes,
    split_by_layouts,
)
from effx.handlers.recursion.loops import stack_outputs, unstack_inputs
from effx.handlers.recursion.payloads import merge_states, payload_handler, recursion
from effx.handlers.recursion.staging import StateLayout, collect_values, flatten_state, stage_under
from effx.handlers.sharding_types.program_types import widen_program
from effx.handlers.staging.parallel_maps import bind_replica_axes
from effx.ir.ops.groups import split_into
from effx.ir.ops.parallel import Cuts, ParallelMap
from effx.ir.ops.shape import BroadcastInDim, Reshape
from effx.ir.program import Program
from effx.ir.types import INVARIANT, ArrayType, drop_mesh_axes
from effx.tree.registry import flatten


def handler_for_body(handler: Handler, op: ParallelMap) -> Handler:
    """Returns the handler for the body, in which the parallel map's axis names are not the handler's."""
    if not any([name in op.names for name, _ in handler.axes()]):
        return handler
    return attrs.evolve(handler, axis_name=None)  # type: ignore[misc]  # handlers are attrs classes


def repeat_cuts(cuts: Cuts, layouts: Sequence[ValueLayout]) -> Cuts:
    """Returns for each array of a flat list the axes that shard it."""
    return tuple([c for c, layout in zip(cuts, layouts, strict=True) for _ in range(len(layout.types))])


def _merge_axes(x: Array, k: int) -> Array:
    """Merges the first k axes of an array into one."""
    shape = x.type.shape
    return x if k == 1 else Reshape((prod(shape[:k]), *shape[k:]))(x)


def _split_leading_axis(x: Array, sizes: tuple[int, ...]) -> Array:
    """Splits the leading axis of an array into axes of these sizes."""
    return x if len(sizes) == 1 else Reshape((*sizes, *x.type.shape[1:]))(x)


def _repeat_for_indices(op: ParallelMap, x: Array) -> Array:
    """Repeats a value once for each replica."""
    k, shape = len(op.axes), x.type.shape
    return BroadcastInDim((*[n for _, n in op.axes], *shape), tuple(range(k, k + len(shape))))(x)


def _slice_operand(
    frame: Frame, op: ParallelMap, x: Array, cut_axes: tuple[int, ...]
) -> tuple[list[Array], ValueLayout]:
    """Splits an operand into arrays with the sharding axes leading, and the layout of a slice."""
    k, sizes = len(cut_axes), op.axis_sizes_of(cut_axes)
    vma = op.axis_names_of(cut_axes) if op.checked else INVARIANT
    if type(x) is not Box or x.frame is not frame:
        t = x.type.with_shape(x.type.shape[k:])
        t = t.with_vma(t.vma | vma)
        return [x], ValueLayout(None, (t,), t)
    if k == 0:
        parts, (layout,) = flatten_boxes(frame, [x])
        return parts, layout
    if k > 1:
        with use_frame(frame):
            x = _merge_axes(x, k)
    parts, (layout,) = unstack_inputs(frame, [x], prod(sizes))
    types = tuple([_drop_map_axes(op, t.with_vma(t.vma | vma)) for t in layout.types])
    return (
        [_split_leading_axis(p, sizes) for p in parts],
        ValueLayout(layout.tree, types, _drop_map_axes(op, layout.type.with_vma(layout.type.vma | vma))),
    )


def _drop_map_axes(op: ParallelMap, t: ArrayType) -> ArrayType:
    """Returns a type as it is inside of a parallel map, whose axes shard nothing there."""
    sharding = t.explicit_sharding
    if sharding is None:
        return t
    return t.with_sharding(sharding.with_mesh_axes(drop_mesh_axes(sharding.mesh_axes(t.ndim), op.names)))


def _rebuild_result(
    frame: Frame, op: ParallelMap, parts: Sequence[Array], layout: ValueLayout, cut: tuple[int, ...]
) -> Array:
    """Rebuilds a result from arrays with the sharding axes leading."""
    names, k = op.names, len(cut)
    t = layout.type.with_vma(layout.type.vma - names)
    outside = ValueLayout(layout.tree, tuple([p.with_vma(p.vma - names) for p in layout.types]), t)
    if layout.tree is None:
        return parts[0]
    if k == 0:
        return rebuild_boxes(frame, parts, [outside])[0]
    sizes = op.axis_sizes_of(cut)
    (y,) = stack_outputs(frame, [_merge_axes(p, k) for p in parts], (outside,), prod(sizes))
    with use_frame(frame):
        return _split_leading_axis(y, sizes)


def replace_body(op: ParallelMap, body: Program, cuts_in: Cuts, cuts_out: Cuts) -> ParallelMap:
    """Returns a parallel map of another program, with varying axes in its input and output types."""
    if op.checked:  # outputs such as zeros may lack varying axes
        with bind_replica_axes(op.axes, True):
            ends = [
                tuple(
                    [(op.axis_names_of(cut), t.explicit_sharding) for cut, t in zip(cuts, types, strict=True)]
                )
                for cuts, types in ((cuts_in, body.in_types), (cuts_out, body.out_types))
            ]
            body = widen_program(body, *ends)
    return attrs.evolve(op, body=body, cuts_in=cuts_in, cuts_out=cuts_out)


@recursion(ParallelMap)
def recur_parallel_map(frame: Frame, op: ParallelMap, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one parallel map of the staged body."""
    leaves: list[Array] = []
    layouts: list[ValueLayout] = []
    for x, cut in zip(operands, op.cuts_in, strict=True):
        parts, layout = _slice_operand(frame, op, x, cut)
        leaves += parts
        layouts.append(layout)
    state_leaves, state = flatten_state(frame)
    all_axes = tuple(range(len(op.axes)))
    replica_states = _split_replica_states(frame, state, op)
    start_leaves = state_leaves if replica_states is None else replica_states
    start_cut = () if replica_states is None else all_axes
    if op.checked and state.tree is not None:  # each replica has its own state
        start_leaves, start_cut = (
            [_repeat_for_indices(op, x) for x in start_leaves] if replica_states is None else start_leaves,
            all_axes,
        )
        own_types = [layout.type.with_vma(layout.type.vma | op.names) for layout in state.leaves]
        state = attrs.evolve(state, leaves=tuple([ValueLayout(None, (t,), t) for t in own_types]))
    with bind_replica_axes(op.axes, op.checked):  # users' rules use their axes
        handled = stage_under(op.body, handler_for_body(frame.handler, op), tuple(layouts), state)
    cuts_in = (
        *[()] * len(handled.constants),
        *[start_cut] * len(start_leaves),
        *repeat_cuts(op.cuts_in, layouts),
    )
    # Each replica has its own state; they are merged here.
    cuts_out = (
        *[all_axes] * len(state_leaves),
        *repeat_cuts(op.cuts_out, handled.results),
        *[all_axes] * len(handled.collected.types),
    )
    mapped = replace_body(op, handled.program, cuts_in, cuts_out)
    results = mapped(*handled.constants, *start_leaves, *leaves)
    states, leaves_out, collected = split_into(results, len(state_leaves), len(layout_types(handled.results)))
    _merge_replica_states(frame, states, state, op)
    # A row for each replica.
    collect_values(frame, [_merge_axes(x, len(op.axes)) for x in collected], handled.collected)
    leaves_of_results = split_by_layouts(leaves_out, handled.results)
    return tuple(
        [
            _rebuild_result(frame, op, xs, layout, cut)
            for xs, layout, cut in zip(leaves_of_results, handled.results, op.cuts_out, strict=True)
        ]
    )


def _split_replica_states(frame: Frame, state: StateLayout, op: ParallelMap) -> list[Array] | None:
    """Returns the replicas' initial states, one row each; None if all start with the same state.

    Raises:
        TransformError: they are not of the handler's state with one more leading axis.
    """
    if state.tree is None:
        return None
    handler, size = payload_handler(frame), op.size
    states = handler.split_state(frame.state, size)
    if states is None:
        return None
    leaves, tree = flatten(states)
    rows = [as_operand(x, handler.name) for x in leaves]
    row_types = [layout.type.with_shape((size, *layout.type.shape)) for layout in state.leaves]
    if tree != state.tree or not all([x.type.matches(t) for x, t in zip(rows, row_types, strict=True)]):
        raise TransformError(
            f"{handler.name}: split_state must give the state of each of {size} replicas, "
            f"{state.tree} of ({', '.join(map(repr, row_types))}), got {tree} of ({', '.join([repr(x.type) for x in rows])})"
        )
    sizes = tuple([n for _, n in op.axes])
    return [
        _split_leading_axis(convert(x, t.dtype, t.weak), sizes) for x, t in zip(rows, row_types, strict=True)
    ]


def _merge_replica_states(frame: Frame, leaves: Sequence[Array], state: StateLayout, op: ParallelMap) -> None:
    """Sets the handler's state to the merged states of all replicas."""
    if state.tree is None:
        return
    rows = [_merge_axes(x, len(op.axes)) for x in leaves]
    states = [state.tree.unflatten([getitem(x, i) for x in rows]) for i in range(op.size)]
    frame.state = merge_states(payload_handler(frame), states, f"{op.size} replicas of a parallel map ran")
