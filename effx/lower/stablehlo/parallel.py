"""StableHLO text of parallel maps: a manual computation of Shardy's over all devices of the module.

Inside, each device runs the replica's program on its own slices. A parallel map inside another is written by
hand there: a device takes its replica's slice of what the outer replica has, and the results are gathered.

Never: leave an axis to the partitioner inside a manual computation.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Program, Var
from effx.ir.types import ArrayType
from effx.lower.emit import Axis, Body, Module, emits, tiling_text
from effx.lower.parallel import grid_of, nest
from effx.lower.stablehlo.collective import gathered, replica_index
from effx.lower.stablehlo.control import INDEX
from effx.lower.tiling import Tiling, leading


@contextmanager
def replicas(module: Module, op: ParallelMap) -> Iterator[Axis]:
    """Binds a parallel map's axis while its body is written."""
    outer = module.axes
    stride = (outer[-1].stride if outer else module.devices) // op.size
    axis = Axis(op.axis_name, op.size, stride)
    module.axes = (*outer, axis)
    try:
        yield axis
    finally:
        module.axes = outer


@emits(ParallelMap)
def parallel_map(
    body: Body, op: ParallelMap, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    names = [body.name(a) for a in inputs]
    if body.module.axes or body.module.replicated or body.module.devices == 1:
        return _inside(body, op, names)
    return _outermost(body, op, names, [v.type for v in outputs])


def _resized(body: Body, x: str, t: ArrayType, shape: tuple[int, ...]) -> str:
    """Writes x with other axes of size 1."""
    if t.shape == shape:
        return x
    return body.line(f"stablehlo.reshape {x} : ({t.mlir}) -> {t.with_shape(shape).mlir}")


def _outermost(
    body: Body, op: ParallelMap, names: Sequence[str], out_types: Sequence[ArrayType]
) -> tuple[str, ...]:
    module, levels = body.module, nest(op)
    grid = grid_of(op, module.devices)
    mesh = module.mesh(grid)
    in_types = op.in_types
    cuts_in = [leading(grid, axes, t.ndim) for axes, t in zip(levels.cuts_in, in_types, strict=True)]
    cuts_out = [leading(grid, axes, t.ndim) for axes, t in zip(levels.cuts_out, out_types, strict=True)]
    local_in = [_local(t, c) for t, c in zip(in_types, cuts_in, strict=True)]
    local_out = [_local(t, c) for t, c in zip(out_types, cuts_out, strict=True)]
    arguments = [f"%p{body.fresh()}" for _ in names]

    def write() -> list[str]:
        slices = [
            _resized(body, x, t, t.shape[len(axes) :])
            for x, t, axes in zip(arguments, local_in, levels.cuts_in, strict=True)
        ]
        results = _call(body, levels.ops, [slices[i] for i in levels.operands])
        given = [results[i] for i in levels.results]
        return [
            _resized(body, y, t.with_shape(t.shape[len(axes) :]), t.shape)
            for y, t, axes in zip(given, local_out, levels.cuts_out, strict=True)
        ]

    lines = body.region(write, local_out, "sdy.return")
    axes = ", ".join([f'"m{i}"' for i in range(len(grid))])
    shardings_in = ", ".join([tiling_text(mesh, c.dims) for c in cuts_in])
    shardings_out = ", ".join([tiling_text(mesh, c.dims) for c in cuts_out])
    parameters = ", ".join([f"{a}: {t.mlir}" for a, t in zip(arguments, local_in, strict=True)])
    head = (
        f"sdy.manual_computation({', '.join(names)}) in_shardings=[{shardings_in}] "
        f"out_shardings=[{shardings_out}] manual_axes={{{axes}}} ({parameters}) {{"
    )
    kinds = ", ".join([t.mlir for t in in_types])
    results = ", ".join([t.mlir for t in out_types])
    text = "\n".join((head, *lines, f"    }} : ({kinds}) -> ({results})"))
    return body.block(text, len(out_types))


def _local(t: ArrayType, cut: Tiling) -> ArrayType:
    return t.with_shape(tuple([n // parts for n, parts in zip(t.shape, cut.parts, strict=True)]))


def _call(body: Body, ops: Sequence[ParallelMap], names: Sequence[str]) -> tuple[str, ...]:
    """Calls the innermost of several maps' bodies with all their axes bound."""
    if not ops[1:]:
        with replicas(body.module, ops[0]):
            return body.call(ops[0].body, names)
    with replicas(body.module, ops[0]):
        return _call(body, ops[1:], names)


def _inside(body: Body, op: ParallelMap, names: Sequence[str]) -> tuple[str, ...]:
    """Writes a parallel map where each device is at work on its own already."""
    program: Program = op.body
    with replicas(body.module, op) as axis:
        index = replica_index(body, axis) if any(op.mapped_in) and op.size > 1 else ""
        slices = [
            _slice(body, x, t, part, index) if m else x
            for x, t, part, m in zip(names, op.in_types, program.in_types, op.mapped_in, strict=True)
        ]
        results = body.call(program, slices)
        given: list[str] = []
        for y, t, m in zip(results, program.out_types, op.mapped_out, strict=True):
            if m:
                one = t.with_shape((1, *t.shape))
                y = gathered(body, _resized(body, y, t, one.shape), one, 0, axis, None)
            given.append(y)
    return tuple(given)


def _slice(body: Body, x: str, t: ArrayType, part: ArrayType, index: str) -> str:
    """Writes x[index], where the leading axis is the replicas'."""
    one = t.with_shape((1, *part.shape))
    if t.shape[0] == 1:
        return _resized(body, x, t, part.shape)
    zero = body.constant(0, INDEX) if part.shape else ""
    starts = ", ".join([index, *[zero] * part.ndim])
    kinds = ", ".join([INDEX.mlir] * t.ndim)
    sizes = f"[{', '.join(map(str, one.shape))}]"
    row = body.line(
        f"stablehlo.dynamic_slice {x}, {starts}, sizes = {sizes} : ({t.mlir}, {kinds}) -> {one.mlir}"
    )
    return _resized(body, row, one, part.shape)
