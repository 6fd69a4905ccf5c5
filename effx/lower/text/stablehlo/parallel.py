"""StableHLO text of parallel maps: manual computations of Shardy's over all devices of the module.

Inside, each device runs the body on its own slices. A map over axes of a mesh may leave other axes to the partitioner,
or to another map inside. Replicas of a map nested in another are written by hand: a device takes its replica's slice of
the outer replica's operands, and the results are gathered.

Never: leave an axis to the partitioner inside a manual computation over all axes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from effx.errors import BackendError
from effx.ir.ops.parallel import Cuts, ParallelMap
from effx.ir.passes.partial_sums import type_sums
from effx.ir.program import Atom, Var
from effx.ir.types import ArrayType
from effx.lower.placement.parallel_maps import nested_grid, nested_maps
from effx.lower.placement.shardy import tiling_text
from effx.lower.placement.tiling import Tiling
from effx.lower.text.emit import Axis, Body, Module, emits
from effx.lower.text.stablehlo.collective import emit_all_gather, replica_index
from effx.lower.text.stablehlo.control import INDEX


@contextmanager
def bind_replica_axes(module: Module, op: ParallelMap) -> Iterator[tuple[Axis, ...]]:
    """Binds a parallel map's axes while its body is written."""
    outer, axes = module.axes, []
    if op.mesh is None:
        stride = outer[-1].stride if outer else module.devices
        for name, size in op.axes:
            stride //= size
            axes.append(Axis(name, size, stride))
    else:
        order, device_order_and_axes = module.order(op.devices), mesh_axis_numbers(op)
        sizes = [n for _, n in op.mesh]
        for (name, size), axis_number in zip(op.axes, device_order_and_axes, strict=True):
            axes.append(Axis(name, size, prod(sizes[axis_number + 1 :]), order))
    module.axes = (*outer, *axes)
    try:
        yield tuple(axes)
    finally:
        module.axes = outer


def mesh_axis_numbers(op: ParallelMap) -> tuple[int, ...]:
    """Returns the numbers of a map's axes in its mesh."""
    names = [name for name, _ in op.mesh or ()]
    return tuple([names.index(name) for name, _ in op.axes])


@emits(ParallelMap)
def parallel_map(
    body: Body, op: ParallelMap, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    names, module = [body.name(a) for a in inputs], body.module
    out_types = [v.type for v in outputs]
    if op.mesh is None:
        # On one device no SPMD module is made: slices are reshapes.
        if module.axes or module.replicated or module.devices == 1:
            return _emit_nested_map(body, op, names)
        # A map whose body is one map (a perfect nest) becomes one map over a grid, so that nothing is
        # gathered in between.
        levels = nested_maps(op)
        return _emit_manual_computation(
            body,
            levels.ops,
            names,
            out_types,
            grid=nested_grid(op, module.devices),
            axis_numbers=range(len(levels.sizes)),
            cuts=(levels.cuts_in, levels.cuts_out),
            at=(levels.operands, levels.results),
        )
    sizes = tuple([n for _, n in op.mesh])
    if not module.replicated and prod(sizes) != module.devices:
        raise BackendError(
            f"shard_map: a mesh of {prod(sizes)} devices in a program that runs on {module.devices}; give arguments that "
            f"are on the mesh, or a mesh with its devices"
        )
    if module.replicated or module.devices == 1:
        return _emit_nested_map(body, op, names)
    return _emit_manual_computation(
        body,
        (op,),
        names,
        out_types,
        grid=sizes,
        axis_numbers=mesh_axis_numbers(op),
        cuts=(op.cuts_in, op.cuts_out),
        at=(range(len(names)), range(len(out_types))),
    )


def _emit_resize(body: Body, x: str, t: ArrayType, shape: tuple[int, ...]) -> str:
    """Writes x reshaped to a shape that differs in axes of size 1."""
    if t.shape == shape:
        return x
    return body.line(f"stablehlo.reshape {x} : ({t.mlir}) -> {t.with_shape(shape).mlir}")


def _emit_empty(body: Body, t: ArrayType) -> str:
    """Writes an array of size 0."""
    return body.line(f"stablehlo.constant dense<> : {t.mlir}")


def _emit_manual_computation(
    body: Body,
    ops: Sequence[ParallelMap],
    names: Sequence[str],
    out_types: Sequence[ArrayType],
    *,
    grid: tuple[int, ...],
    axis_numbers: Sequence[int],
    cuts: tuple[Cuts, Cuts],
    at: tuple[Sequence[int], Sequence[int]],
) -> tuple[str, ...]:
    """Writes a manual computation of one map, or of several of which each is the whole body of the one before.

    Args:
        ops: the maps. names, out_types: the operands and the results' types.
        grid: the sizes of the devices' grid. axis_numbers: the maps' axes in it.
        cuts: for each operand and result the maps' axes that its leading axes are.
        at: the numbers of the operands that the innermost body takes, and of its results that are returned.
    """
    module, cuts_in, cuts_out = body.module, *cuts
    mesh = module.mesh(grid, ops[0].devices if ops[0].mesh is not None else None)
    unused_axes: tuple[int, ...] = ()
    if ops[0].mesh is not None:
        free = range(len(grid)) if module.partly is None else module.partly[1]
        unused_axes = tuple([a for a in free if a not in axis_numbers])
    manual = sorted(axis_numbers) if ops[0].mesh is not None else range(len(grid))
    in_types = ops[0].in_types
    tiles_in = [
        _grid_tiling(grid, [axis_numbers[a] for a in c], t, unreduced)
        for c, t, unreduced in zip(
            cuts_in, in_types, _unreduced_axes(ops, ops[0].body.in_types, axis_numbers), strict=True
        )
    ]
    tiles_out = [
        _grid_tiling(grid, [axis_numbers[a] for a in c], t, unreduced)
        for c, t, unreduced in zip(
            cuts_out, out_types, _unreduced_axes(ops, ops[0].body.out_types, axis_numbers), strict=True
        )
    ]
    local_in = [_local_type(t, c) for t, c in zip(in_types, tiles_in, strict=True)]
    local_out = [_local_type(t, c) for t, c in zip(out_types, tiles_out, strict=True)]
    # XLA refuses a manual computation whose operands are all of size 0: those are written inside.
    arguments = ["" if 0 in t.shape else f"%p{body.fresh()}" for t in local_in]
    nonempty_inputs = [i for i, a in enumerate(arguments) if a]

    def write() -> list[str]:
        slices = [
            _emit_resize(body, x or _emit_empty(body, t), t, t.shape[len(axes) :])
            for x, t, axes in zip(arguments, local_in, cuts_in, strict=True)
        ]
        results = _call_innermost(body, ops, [slices[i] for i in at[0]])
        result_names = [results[i] for i in at[1]]
        return [
            _emit_resize(body, y, t.with_shape(t.shape[len(axes) :]), t.shape)
            for y, t, axes in zip(result_names, local_out, cuts_out, strict=True)
        ]

    around, module.partly = module.partly, (mesh, unused_axes) if unused_axes else None
    try:
        region_lines = body.region(write, local_out, "sdy.return")
    finally:
        module.partly = around
    axes = ", ".join([f'"m{i}"' for i in manual])
    # The partitioner may shard further over the axes that are left to it.
    shardings_in = ", ".join(
        [
            tiling_text(mesh, c.dims, [bool(unused_axes)] * len(c.dims), unreduced=c.unreduced)
            for c in [tiles_in[i] for i in nonempty_inputs]
        ]
    )
    shardings_out = ", ".join(
        [
            tiling_text(mesh, c.dims, [bool(unused_axes)] * len(c.dims), unreduced=c.unreduced)
            for c in tiles_out
        ]
    )
    parameters = ", ".join([f"{arguments[i]}: {local_in[i].mlir}" for i in nonempty_inputs])
    head = (
        f"sdy.manual_computation({', '.join([names[i] for i in nonempty_inputs])}) in_shardings=[{shardings_in}] "
        f"out_shardings=[{shardings_out}] manual_axes={{{axes}}} ({parameters}) {{"
    )
    kinds = ", ".join([in_types[i].mlir for i in nonempty_inputs])
    results = ", ".join([t.mlir for t in out_types])
    text = "\n".join((head, *region_lines, f"    }} : ({kinds}) -> ({results})"))
    return body.block(text, len(out_types))


def _grid_tiling(
    grid: tuple[int, ...], cut: Sequence[int], t: ArrayType, unreduced: tuple[int, ...]
) -> Tiling:
    return Tiling(grid, (*[(a,) for a in cut], *[()] * (t.ndim - len(cut))), unreduced)


def _unreduced_axes(
    ops: Sequence[ParallelMap], types: Sequence[ArrayType], axis_numbers: Sequence[int]
) -> list[tuple[int, ...]]:
    """Returns for each of the body's types the grid's axes along which it is unreduced."""
    number = {name: a for (name, _), a in zip(ops[0].axes, axis_numbers, strict=False)}
    return [tuple(sorted([number[name] for name in type_sums(t)[0]])) for t in types]


def _local_type(t: ArrayType, cut: Tiling) -> ArrayType:
    return t.with_shape(tuple([n // parts for n, parts in zip(t.shape, cut.parts, strict=True)]))


def _call_innermost(body: Body, ops: Sequence[ParallelMap], names: Sequence[str]) -> tuple[str, ...]:
    """Calls the innermost of several maps' bodies with all their axes bound."""
    if not ops[1:]:
        with bind_replica_axes(body.module, ops[0]):
            return body.call(ops[0].body, names)
    with bind_replica_axes(body.module, ops[0]):
        return _call_innermost(body, ops[1:], names)


def _emit_nested_map(body: Body, op: ParallelMap, names: Sequence[str]) -> tuple[str, ...]:
    """Writes a parallel map inside another manual computation."""
    program = op.body
    with bind_replica_axes(body.module, op) as axes:
        cutting = {a for cut in op.cuts_in for a in cut}
        indices = [
            replica_index(body, axis) if a in cutting and axis.size > 1 else "" for a, axis in enumerate(axes)
        ]
        slices: list[str] = []
        for x, t, cut in zip(names, op.in_types, op.cuts_in, strict=True):
            for a in cut:
                part = t.with_shape(t.shape[1:])
                x, t = _emit_replica_slice(body, x, t, part, indices[a]), part
            slices.append(x)
        results = body.call(program, slices)
        result_names: list[str] = []
        for y, t, cut in zip(results, program.out_types, op.cuts_out, strict=True):
            for a in reversed(cut):
                one = t.with_shape((1, *t.shape))
                y = emit_all_gather(body, _emit_resize(body, y, t, one.shape), one, 0, axes[a], None)
                t = t.with_shape((axes[a].size, *t.shape))
            result_names.append(y)
    return tuple(result_names)


def _emit_replica_slice(body: Body, x: str, t: ArrayType, part: ArrayType, index: str) -> str:
    """Writes x[index], where the leading axis is the replicas'."""
    one = t.with_shape((1, *part.shape))
    if t.shape[0] == 1:
        return _emit_resize(body, x, t, part.shape)
    zero = body.constant(0, INDEX) if part.shape else ""
    starts = ", ".join([index, *[zero] * part.ndim])
    kinds = ", ".join([INDEX.mlir] * t.ndim)
    sizes = f"[{', '.join(map(str, one.shape))}]"
    row = body.line(
        f"stablehlo.dynamic_slice {x}, {starts}, sizes = {sizes} : ({t.mlir}, {kinds}) -> {one.mlir}"
    )
    return _emit_resize(body, row, one, part.shape)
