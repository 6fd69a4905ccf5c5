"""StableHLO text of collectives inside a parallel map: their groups of devices.

The devices are the partitions of one computation, or its replicas: XLA's collectives say which. They are
numbered through the axes of the enclosing parallel maps, so a replica's index on an axis is
(device / stride) % size, and the replicas of one axis differ in that digit only.

Never: collectives over an axis of vmap; these have become operations on arrays before.
"""

from collections.abc import Sequence

from effx import dtypes
from effx.errors import BackendError
from effx.ir.ops.collective import (
    AllGather,
    AllToAll,
    AxisIndex,
    AxisName,
    Grouped,
    Groups,
    PCast,
    PMax,
    PMin,
    PPermute,
    PSum,
    PSumScatter,
)
from effx.ir.program import Atom, Var
from effx.ir.types import ArrayType, array_type
from effx.lower.placement.shardy import tiling_text
from effx.lower.text.emit import Axis, Body, emits
from effx.lower.text.stablehlo.control import INDEX
from effx.lower.text.stablehlo.elementwise import flip_float_order

# Between partitions; between replicas there is no channel.
CHANNEL = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


def innermost_axis(body: Body, name: AxisName) -> Axis:
    """Returns the innermost axis of that name.

    Raises:
        BackendError: none is bound; the program's effect row should have shown it before.
    """
    for axis in reversed(body.module.axes):
        if axis.name == name:
            return axis
    raise BackendError(f"lower: the axis {name!r} is not bound by a parallel map")


def replica_index(body: Body, axis: Axis) -> str:
    """Writes the replica's own index on an axis."""
    if axis.size == 1:
        return body.constant(0, INDEX)
    partly = body.module.partly
    if partly is None:
        return _emit_own_index(body, axis)
    # A device has a number only where no axis is left to the partitioner.
    mesh, rest = partly
    region_lines = body.region(lambda: [_emit_own_index(body, axis)], [INDEX], "sdy.return")
    axes = ", ".join([f'"m{a}"' for a in rest])
    head = (
        f"sdy.manual_computation() in_shardings=[] out_shardings=[{tiling_text(mesh, ())}] "
        f"manual_axes={{{axes}}} () {{"
    )
    (index,) = body.block("\n".join((head, *region_lines, f"    }} : () -> ({INDEX.mlir})")), 1)
    return index


def _emit_own_index(body: Body, axis: Axis) -> str:
    u32 = array_type(dtypes.uint32)
    kind = "replica_id" if body.module.replicated else "partition_id"
    own = body.line(f"stablehlo.{kind} : {u32.mlir}")
    if axis.order:
        # The position of each device in the grid.
        replica_positions = ", ".join([str(axis.order.index(d)) for d in range(len(axis.order))])
        table = array_type(dtypes.uint32, (len(axis.order),))
        one = array_type(dtypes.uint32, (1,))
        values = body.line(f"stablehlo.constant dense<[{replica_positions}]> : {table.mlir}")
        row = body.line(
            f"stablehlo.dynamic_slice {values}, {own}, sizes = [1] : ({table.mlir}, {u32.mlir}) -> {one.mlir}"
        )
        own = body.line(f"stablehlo.reshape {row} : ({one.mlir}) -> {u32.mlir}")
    if axis.stride > 1:
        own = body.line(f"stablehlo.divide {own}, {body.constant(axis.stride, u32)} : {u32.mlir}")
    if axis.stride * axis.size < body.module.devices:
        own = body.line(f"stablehlo.remainder {own}, {body.constant(axis.size, u32)} : {u32.mlir}")
    return body.line(f"stablehlo.convert {own} : ({u32.mlir}) -> {INDEX.mlir}")


def channel_attributes(body: Body, ids: str = "") -> str:
    """Returns the attributes that mark devices as partitions; `ids` is the attribute that marks groups so."""
    return "" if body.module.replicated else CHANNEL + ids


IDS = ", use_global_device_ids"


def _group_base_positions(body: Body, axes: Sequence[Axis]) -> list[int]:
    """Returns the positions in the grid that have index 0 on all the axes."""
    return [d for d in range(body.module.devices) if all([d // a.stride % a.size == 0 for a in axes])]


def _devices_at_positions(axis: Axis, positions: Sequence[int]) -> list[int]:
    """Returns the devices at positions in the grid."""
    return [axis.order[p] for p in positions] if axis.order else list(positions)


def _groups_text(body: Body, axis: Axis, groups: Groups) -> str:
    parts = groups or (tuple(range(axis.size)),)
    bases = _group_base_positions(body, [axis])
    return _rows_text(
        [_devices_at_positions(axis, [b + i * axis.stride for i in part]) for b in bases for part in parts]
    )


def _groups_of_all(body: Body, axes: Sequence[Axis]) -> str:
    """Returns the groups of devices that differ in their indices on these axes only."""
    offsets = [0]
    for axis in axes:
        offsets = [o + i * axis.stride for o in offsets for i in range(axis.size)]
    return _rows_text(
        [
            _devices_at_positions(axes[0], sorted([base + o for o in offsets]))
            for base in _group_base_positions(body, axes)
        ]
    )


def _rows_text(rows: Sequence[Sequence[int]]) -> str:
    return f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def _emit_reduction(
    body: Body, head: str, x: str, t: ArrayType, out: ArrayType, *, attributes: str, combine: str
) -> str:
    s = array_type(t.dtype).mlir
    return body.line(
        f'"stablehlo.{head}"({x}) <{{{attributes}{channel_attributes(body, IDS)}}}> ({{\n'
        f"    ^bb0(%a: {s}, %b: {s}):\n"
        f"      %s = stablehlo.{combine} %a, %b : {s}\n"
        f"      stablehlo.return %s : {s}\n"
        f"    }}) : ({t.mlir}) -> {out.mlir}"
    )


@emits(PSum)
def psum(body: Body, op: PSum, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, t = body.name(inputs[0]), inputs[0].type
    names = body.sums.get(outputs[0], (op.axis_name,))
    axes = [a for a in [innermost_axis(body, n) for n in names] if a.size > 1]
    if not axes:
        return x
    groups = _groups_text(body, axes[0], op.groups) if len(axes) == 1 else _groups_of_all(body, axes)
    return _emit_reduction(body, "all_reduce", x, t, t, attributes=groups, combine="add")


@emits(PCast)
def pcast(body: Body, op: PCast, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, t = body.name(inputs[0]), inputs[0].type
    axis = innermost_axis(body, op.axis_name) if op.to == "unreduced" and op.axis_name not in t.vma else None
    if axis is None or axis.size == 1:
        return x
    mask = array_type(dtypes.bool_).mlir
    index, zero = replica_index(body, axis), body.constant(0, INDEX)
    first = body.line(f"stablehlo.compare EQ, {index}, {zero} : ({INDEX.mlir}, {INDEX.mlir}) -> {mask}")
    return body.line(f"stablehlo.select {first}, {x}, {body.constant(0, t)} : {mask}, {t.mlir}")


@emits(PMax, PMin)
def emit_extreme(body: Body, op: Grouped, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = innermost_axis(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if axis.size == 1:
        return x
    is_max = type(op) is PMax
    combine, groups = "maximum" if is_max else "minimum", _groups_text(body, axis, op.groups)
    # Collective runtimes compare floats by `<`, which loses NaN; integers of the same order do not.
    if t.kind != "f" or dtypes.bits(t.dtype) < 16:
        return _emit_reduction(body, "all_reduce", x, t, t, attributes=groups, combine=combine)
    width = dtypes.bits(t.dtype)
    it = array_type(dtypes.bits_dtype(t.dtype), t.shape)
    mask = array_type(dtypes.bool_, t.shape).mlir
    bits = body.line(f"stablehlo.bitcast_convert {x} : ({t.mlir}) -> {it.mlir}")
    top = body.constant(2 ** (width - 1) - 1 if is_max else -(2 ** (width - 1)), it)
    is_nan = body.line(f"stablehlo.compare NE, {x}, {x}, FLOAT : ({t.mlir}, {t.mlir}) -> {mask}")
    key = body.line(
        f"stablehlo.select {is_nan}, {top}, {flip_float_order(body, bits, it, width)} : {mask}, {it.mlir}"
    )
    reduced = flip_float_order(
        body, _emit_reduction(body, "all_reduce", key, it, it, attributes=groups, combine=combine), it, width
    )
    return body.line(f"stablehlo.bitcast_convert {reduced} : ({it.mlir}) -> {t.mlir}")


def emit_all_gather(body: Body, x: str, t: ArrayType, dim: int, axis: Axis, groups: Groups) -> str:
    """Writes the concatenation of all replicas' values along one of their axes."""
    if axis.size == 1:
        return x
    size = len(groups[0]) if groups else axis.size
    out = t.with_shape((*t.shape[:dim], t.shape[dim] * size, *t.shape[dim + 1 :]))
    return body.line(
        f'"stablehlo.all_gather"({x}) <{{all_gather_dim = {dim} : i64, '
        f"{_groups_text(body, axis, groups)}{channel_attributes(body, IDS)}}}> : ({t.mlir}) -> {out.mlir}"
    )


@emits(AllGather)
def all_gather(body: Body, op: AllGather, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = innermost_axis(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if not op.tiled:
        one = t.with_shape((*t.shape[: op.axis], 1, *t.shape[op.axis :]))
        x, t = body.line(f"stablehlo.reshape {x} : ({t.mlir}) -> {one.mlir}"), one
    return emit_all_gather(body, x, t, op.axis, axis, op.groups)


@emits(PSumScatter)
def psum_scatter(body: Body, op: PSumScatter, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = innermost_axis(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if axis.size == 1:
        return x
    attributes = f"scatter_dimension = {op.axis} : i64, {_groups_text(body, axis, op.groups)}"
    return _emit_reduction(
        body, "reduce_scatter", x, t, outputs[0].type, attributes=attributes, combine="add"
    )


@emits(AllToAll)
def all_to_all(body: Body, op: AllToAll, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = innermost_axis(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if axis.size == 1:
        return x
    return body.line(
        f'"stablehlo.all_to_all"({x}) <{{split_dimension = {op.split} : i64, concat_dimension = {op.concat} : i64, '
        f"split_count = {op.size} : i64, {_groups_text(body, axis, op.groups)}{channel_attributes(body)}}}> : "
        f"({t.mlir}) -> {outputs[0].type.mlir}"
    )


@emits(PPermute)
def ppermute(body: Body, op: PPermute, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = innermost_axis(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if not op.perm:
        return body.constant(0, t)
    if axis.size == 1:
        return x
    pairs = _permutation_pairs(body, axis, op.perm)
    return body.line(
        f'"stablehlo.collective_permute"({x}) <{{source_target_pairs = dense<{pairs}> : '
        f"tensor<{len(pairs)}x2xi64>{channel_attributes(body)}}}> : ({t.mlir}) -> {t.mlir}"
    )


def _permutation_pairs(body: Body, axis: Axis, perm: Sequence[tuple[int, int]]) -> list[list[int]]:
    return [
        _devices_at_positions(axis, [b + s * axis.stride, b + d * axis.stride])
        for b in _group_base_positions(body, [axis])
        for s, d in perm
    ]


@emits(AxisIndex)
def axis_index(body: Body, op: AxisIndex, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    return replica_index(body, innermost_axis(body, op.axis_name))
