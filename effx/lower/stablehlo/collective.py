"""StableHLO text of collectives inside a parallel map: which devices talk to one another.

Devices are numbered through the axes of the parallel maps around, so a replica's index on an axis is
(device / stride) % size, and the replicas of one axis differ in that digit only.

Never: meet a collective of vmap's; these have become operations on arrays before.
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
    PMax,
    PMin,
    PPermute,
    PSum,
    PSumScatter,
)
from effx.ir.program import Atom, Var
from effx.ir.types import ArrayType, array_type
from effx.lower.emit import Axis, Body, emits
from effx.lower.stablehlo.control import INDEX

CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


def axis_of(body: Body, name: AxisName) -> Axis:
    """Returns the innermost axis of that name.

    Raises:
        BackendError: none is bound; the effect row of the program should have said so before.
    """
    for axis in reversed(body.module.axes):
        if axis.name == name:
            return axis
    raise BackendError(f"lower: the axis {name!r} is not bound by a parallel map")


def replica_index(body: Body, axis: Axis) -> str:
    """Writes the replica's own index on an axis."""
    if axis.size == 1:
        return body.constant(0, INDEX)
    u32 = array_type(dtypes.uint32)
    own = body.line(f"stablehlo.partition_id : {u32.mlir}")
    if axis.stride > 1:
        own = body.line(f"stablehlo.divide {own}, {body.constant(axis.stride, u32)} : {u32.mlir}")
    if axis.stride * axis.size < body.module.devices:
        own = body.line(f"stablehlo.remainder {own}, {body.constant(axis.size, u32)} : {u32.mlir}")
    return body.line(f"stablehlo.convert {own} : ({u32.mlir}) -> {INDEX.mlir}")


def _bases(body: Body, axis: Axis) -> list[int]:
    """Returns the devices of the axis's first replica."""
    return [d for d in range(body.module.devices) if d // axis.stride % axis.size == 0]


def _groups(body: Body, axis: Axis, groups: Groups) -> str:
    parts = groups or (tuple(range(axis.size)),)
    rows = [[base + i * axis.stride for i in part] for base in _bases(body, axis) for part in parts]
    return f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def _reduction(
    body: Body, head: str, x: str, t: ArrayType, out: ArrayType, attributes: str, combine: str
) -> str:
    s = array_type(t.dtype).mlir
    return body.line(
        f'"stablehlo.{head}"({x}) <{{{attributes}, {CHANNEL}, use_global_device_ids}}> ({{\n'
        f"    ^bb0(%a: {s}, %b: {s}):\n"
        f"      %s = stablehlo.{combine} %a, %b : {s}\n"
        f"      stablehlo.return %s : {s}\n"
        f"    }}) : ({t.mlir}) -> {out.mlir}"
    )


@emits(PSum)
def psum(body: Body, op: PSum, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = axis_of(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if axis.size == 1:
        return x
    return _reduction(body, "all_reduce", x, t, t, _groups(body, axis, op.groups), "add")


@emits(PMax, PMin)
def extreme(body: Body, op: Grouped, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = axis_of(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if axis.size == 1:
        return x
    is_max = type(op) is PMax
    combine, groups = "maximum" if is_max else "minimum", _groups(body, axis, op.groups)
    # Collective runtimes compare floats by `<`, which forgets NaN; integers of the same order do not.
    if t.kind != "f" or dtypes.bits(t.dtype) < 16:
        return _reduction(body, "all_reduce", x, t, t, groups, combine)
    width = dtypes.bits(t.dtype)
    it = array_type(dtypes.bits_dtype(t.dtype), t.shape)
    mask = array_type(dtypes.bool_, t.shape).mlir
    bits = body.line(f"stablehlo.bitcast_convert {x} : ({t.mlir}) -> {it.mlir}")
    top = body.constant(2 ** (width - 1) - 1 if is_max else -(2 ** (width - 1)), it)
    is_nan = body.line(f"stablehlo.compare NE, {x}, {x}, FLOAT : ({t.mlir}, {t.mlir}) -> {mask}")
    key = body.line(f"stablehlo.select {is_nan}, {top}, {_flip(body, bits, it, width)} : {mask}, {it.mlir}")
    found = _flip(body, _reduction(body, "all_reduce", key, it, it, groups, combine), it, width)
    return body.line(f"stablehlo.bitcast_convert {found} : ({it.mlir}) -> {t.mlir}")


def _flip(body: Body, bits: str, it: ArrayType, width: int) -> str:
    """Maps floats' bits to integers of the same order, and back; the largest and the smallest are both NaN."""
    sign = body.line(f"stablehlo.shift_right_arithmetic {bits}, {body.constant(width - 1, it)} : {it.mlir}")
    low = body.line(f"stablehlo.and {sign}, {body.constant(2 ** (width - 1) - 1, it)} : {it.mlir}")
    return body.line(f"stablehlo.xor {bits}, {low} : {it.mlir}")


def gathered(body: Body, x: str, t: ArrayType, dim: int, axis: Axis, groups: Groups) -> str:
    """Writes the values of all replicas joined along an axis of theirs."""
    if axis.size == 1:
        return x
    size = len(groups[0]) if groups else axis.size
    out = t.with_shape((*t.shape[:dim], t.shape[dim] * size, *t.shape[dim + 1 :]))
    return body.line(
        f'"stablehlo.all_gather"({x}) <{{all_gather_dim = {dim} : i64, {CHANNEL}, '
        f"{_groups(body, axis, groups)}, use_global_device_ids}}> : ({t.mlir}) -> {out.mlir}"
    )


@emits(AllGather)
def all_gather(body: Body, op: AllGather, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = axis_of(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if not op.tiled:
        one = t.with_shape((*t.shape[: op.axis], 1, *t.shape[op.axis :]))
        x, t = body.line(f"stablehlo.reshape {x} : ({t.mlir}) -> {one.mlir}"), one
    return gathered(body, x, t, op.axis, axis, op.groups)


@emits(PSumScatter)
def psum_scatter(body: Body, op: PSumScatter, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = axis_of(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if axis.size == 1:
        return x
    attributes = f"scatter_dimension = {op.axis} : i64, {_groups(body, axis, op.groups)}"
    return _reduction(body, "reduce_scatter", x, t, outputs[0].type, attributes, "add")


@emits(AllToAll)
def all_to_all(body: Body, op: AllToAll, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = axis_of(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if axis.size == 1:
        return x
    return body.line(
        f'"stablehlo.all_to_all"({x}) <{{split_dimension = {op.split} : i64, concat_dimension = {op.concat} : i64, '
        f"split_count = {op.size} : i64, {CHANNEL}, {_groups(body, axis, op.groups)}}}> : "
        f"({t.mlir}) -> {outputs[0].type.mlir}"
    )


@emits(PPermute)
def ppermute(body: Body, op: PPermute, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    axis, x, t = axis_of(body, op.axis_name), body.name(inputs[0]), inputs[0].type
    if not op.perm:
        return body.constant(0, t)
    if axis.size == 1:
        return x
    pairs = _pairs(body, axis, op.perm)
    return body.line(
        f'"stablehlo.collective_permute"({x}) <{{source_target_pairs = dense<{pairs}> : '
        f"tensor<{len(pairs)}x2xi64>, {CHANNEL}}}> : ({t.mlir}) -> {t.mlir}"
    )


def _pairs(body: Body, axis: Axis, perm: Sequence[tuple[int, int]]) -> list[list[int]]:
    return [[b + s * axis.stride, b + d * axis.stride] for b in _bases(body, axis) for s, d in perm]


@emits(AxisIndex)
def axis_index(body: Body, op: AxisIndex, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    return replica_index(body, axis_of(body, op.axis_name))
