"""Batching of constraints on shardings and layouts, and of parallel maps.

Mesh axes may shard the batch there (`spmd_axis_name`).
"""

from collections.abc import Sequence
from math import prod
from typing import cast

import attrs

from effx.array import Array, Box
from effx.array.shaping import moveaxis
from effx.effects import Frame
from effx.errors import ShardingError
from effx.handlers.recursion import parallel
from effx.handlers.recursion.layout import ValueLayout
from effx.handlers.recursion.payloads import recursion
from effx.handlers.recursion.staging import STATELESS, stage_under
from effx.handlers.staging.parallel_maps import bind_replica_axes
from effx.handlers.vmap.handler import Axis, Batched, Vmap, materialize, rule
from effx.ir.ops.collective import AxisEffect
from effx.ir.ops.layout import ConstrainLayout
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.shape import Reshape
from effx.ir.ops.sharding import Constrain
from effx.tree.registry import flatten


# `Constrain` is an identity for every other handler.
@rule(Constrain)
def batch_constrain(
    handler: Vmap, op: Constrain, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    """Batches a sharding constraint; the batch axis is left to the partitioner, unless `spmd_axis_name` shards it."""
    (x,), (axis,) = values, axes
    assert axis is not None
    cut = (
        _spmd_axis_numbers(handler, "with_sharding_constraint", op.mesh, op.cuts)
        if handler.spmd_axes
        else None
    )
    return attrs.evolve(op, cuts=(*op.cuts[:axis], cut, *op.cuts[axis:]))(x), axis


@rule(ConstrainLayout)
def batch_constrain_layout(
    handler: Vmap, op: ConstrainLayout, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[Array, Axis]:
    (x,), (axis,) = values, axes
    assert axis is not None
    return op.with_batch_axis(axis)(x), axis


@recursion(ParallelMap, under=Vmap)
def batch_parallel_map(frame: Frame, op: ParallelMap, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Batches a parallel map: each replica runs the whole batch, or its part if spmd axes of the map shard the batch."""
    handler = cast("Vmap", frame.handler)
    if op.mesh is not None and not handler.spmd_axes:
        handler = attrs.evolve(handler, spmd_axes=_explicit_batch_axes(frame, handler, op, operands))
    if op.mesh is None or not handler.spmd_axes or not op.names & {*handler.spmd_axes}:
        return parallel.recur_parallel_map(frame, op, operands)
    return _partition_batch(frame, handler, op, operands)


def _explicit_batch_axes(
    frame: Frame, handler: Vmap, op: ParallelMap, operands: Sequence[Array]
) -> tuple[object, ...]:
    """Returns the Explicit mesh axes over which operands' types say that the batch is sharded.

    () where they disagree, or the map cannot keep the batch sharded so: it is gathered then, as before any map over
    other axes of the mesh.
    """
    axis_names: set[tuple[object, ...]] = set()
    for x in operands:
        if type(x) is Box and x.frame is frame:
            payload = x.payload
            sharding = payload.value.type.explicit_sharding
            entries = () if sharding is None else sharding.spec.partitions
            entry = entries[payload.axis] if payload.axis < len(entries) else None
            axis_names.add(() if entry is None else entry if isinstance(entry, tuple) else (entry,))
    axis_names.discard(())
    if len(axis_names) != 1:
        return ()
    names = axis_names.pop()
    numbers = {name: i for i, (name, _) in enumerate(op.axes)}
    used = {a for cut in (*op.cuts_in, *op.cuts_out) for a in cut}
    is_free = all([name in numbers and numbers[name] not in used for name in names])
    needs_whole = any([AxisEffect(name) in op.body.effects for name in names]) or handler.takes(
        op.body.effects
    )
    return names if is_free and not needs_whole else ()


def _spmd_axis_numbers(
    handler: Vmap,
    operation_name: str,
    mesh: Sequence[tuple[object, int]],
    cuts: Sequence[tuple[int, ...] | None],
) -> tuple[int, ...]:
    """Returns the numbers of the mesh axes that shard the batch.

    Raises:
        ShardingError: an axis does not exist, or shards something else, or the batch has no equal parts along them.
    """
    axis_index = {name: i for i, (name, _) in enumerate(mesh)}
    used = [a for cut in cuts for a in cut or ()]
    for name in handler.spmd_axes:
        if name not in axis_index:
            raise ShardingError(
                f"vmap: spmd_axis_name is {name!r}, but {operation_name} is over axes {', '.join(map(repr, axis_index))}"
            )
        if axis_index[name] in used:
            raise ShardingError(
                f"vmap: spmd_axis_name is {name!r}, which shards an array of {operation_name} already"
            )
    numbers = tuple([axis_index[name] for name in handler.spmd_axes])
    parts = prod([mesh[a][1] for a in numbers])
    if handler.size % parts:
        raise ShardingError(
            f"vmap: a batch of {handler.size} cannot be sharded into {parts} equal parts along {handler.spmd_axes!r}"
        )
    return numbers


def _partition_batch(
    frame: Frame, handler: Vmap, op: ParallelMap, operands: Sequence[Array]
) -> tuple[Array, ...]:
    """Performs one parallel map in which each replica along some axes has a part of the batch."""
    spmd_numbers = _spmd_axis_numbers(handler, "shard_map", op.axes, (*op.cuts_in, *op.cuts_out))
    sizes = op.axis_sizes_of(spmd_numbers)
    for name in handler.spmd_axes:
        if AxisEffect(name) in op.body.effects:
            raise ShardingError(
                f"vmap: spmd_axis_name is {name!r}, along which a collective of shard_map runs"
            )
    if handler.takes(op.body.effects):
        raise ShardingError(
            f"vmap: spmd_axis_name shards the batch {handler.axis_name!r}, along which a collective of shard_map runs"
        )
    part = attrs.evolve(handler, size=handler.size // prod(sizes), spmd_axes=())
    part_operands: list[Array] = []
    layouts: list[ValueLayout] = []
    cuts_in: list[tuple[int, ...]] = []
    for x, cut in zip(operands, op.cuts_in, strict=True):
        k, t, tree = len(cut), x.type, None
        batched = type(x) is Box and x.frame is frame
        if type(x) is Box and batched:
            value = materialize(handler, x.payload.value, x.payload.axis, k)
            shape = value.type.shape
            x = Reshape((*shape[:k], *sizes, part.size, *shape[k + 1 :]))(value)
            cut = (*cut, *spmd_numbers)
            tree = flatten(Batched(x, 0))[1]
        vma = op.axis_names_of(cut) if op.checked else frozenset[object]()
        local_type, element = x.type.with_shape(x.type.shape[len(cut) :]), t.with_shape(t.shape[k:])
        part_operands.append(x)
        layouts.append(
            ValueLayout(
                tree, (local_type.with_vma(local_type.vma | vma),), element.with_vma(element.vma | vma)
            )
        )
        cuts_in.append(cut)
    with bind_replica_axes(op.axes, op.checked):
        handled = stage_under(op.body, part, tuple(layouts), STATELESS)
    cuts_out = [
        cut if layout.tree is None else (*cut, *spmd_numbers)
        for layout, cut in zip(handled.results, op.cuts_out, strict=True)
    ]
    constants = handled.constants
    mapped = parallel.replace_body(op, handled.program, (*[()] * len(constants), *cuts_in), tuple(cuts_out))
    results = mapped(*constants, *part_operands)
    return tuple(
        [
            _join_batch_parts(frame, handler, y, layout, len(cut), len(spmd_numbers))
            for y, layout, cut in zip(results, handled.results, op.cuts_out, strict=True)
        ]
    )


def _join_batch_parts(frame: Frame, handler: Vmap, y: Array, layout: ValueLayout, k: int, n: int) -> Array:
    """Returns a result with the parts of the batch merged into one axis behind the sharding axes."""
    if layout.tree is None:
        return y
    inner: Batched = layout.tree.unflatten([y])
    y = moveaxis(y, k + n + inner.axis, k + n)
    shape = y.type.shape
    y = Reshape((*shape[:k], handler.size, *shape[k + n + 1 :]))(y)
    return handler.boxed_result(frame, y, k)
