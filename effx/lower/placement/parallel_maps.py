"""The devices of a program with parallel maps, and the shardings of its operands and results.

Such a program becomes one module for all its devices (SPMD). The devices are counted through the axes of the
nested parallel maps, the outermost slowest, so that each replica of an axis has a block of devices: with
n devices, replica i of an outermost axis of k has the devices i * n/k to (i + 1) * n/k - 1. Where parallel maps
of different sizes are not nested, n is their least common multiple, and each repeats its work.

Parallel maps over the axes of a mesh are not meant: they run on the mesh's devices (`effx.lower.placement.assignment`).
"""

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeGuard, cast, final

import attrs

from effx.effects import Operation
from effx.errors import BackendError, DeviceCountError
from effx.ir.ops.control import Call, higher_order_operations
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Program, Var
from effx.ir.types import ArrayType
from effx.lower.placement.backends import devices, local_devices
from effx.lower.placement.shardings import Device
from effx.lower.placement.tiling import Tiling, leading_tiling


def _is_replicated(op: Operation[object]) -> TypeGuard[ParallelMap]:
    """Says whether an operation runs replicas on devices that no mesh names."""
    return type(op) is ParallelMap and op.mesh is None


def device_count(program: Program) -> int:
    """Returns how many devices a program's parallel maps need together; 0 where it has none."""
    cached = program.derived.get("devices")
    if cached is None:
        count = 0
        for op in higher_order_operations(program):
            counts = [device_count(p) for p in op.programs]
            inner = math.lcm(*[max(n, 1) for n in counts])
            if _is_replicated(op):
                count = math.lcm(max(count, 1), op.size * inner)
            elif any(counts):
                count = math.lcm(max(count, 1), inner)
        cached = program.derived["devices"] = count
    return cast("int", cached)


def spans_devices(program: Program) -> bool:
    """Says whether a program runs on several devices."""
    return device_count(program) > 1


def _iterate_maps(
    program: Program, inside: bool, visited: set[Program]
) -> Iterator[tuple[ParallelMap, bool]]:
    """Yields all parallel maps, and whether each is nested in another."""
    if program in visited or not device_count(program):
        return
    visited.add(program)
    for op in higher_order_operations(program):
        if _is_replicated(op):
            yield op, inside
        for p in op.programs:
            yield from _iterate_maps(p, inside or type(op) is ParallelMap, visited)


def check_device_count(name: str, required: int, available: int) -> None:
    """Raises a DeviceCountError if there are fewer devices than required."""
    if required > available:
        raise DeviceCountError(
            f"pmap: {name} requires {required} replicas, but only {available} XLA devices are available; "
            f"set EFFX_NUM_CPU_DEVICES before the start for more CPU devices, or use vmap"
        )


def devices_for(program: Program, device: Device) -> tuple[Device, ...]:
    """Returns the devices that a program runs on.

    Args:
        program: what is compiled.
        device: the one to run on if it needs one only; else any device of the platform.

    Raises:
        BackendError: parallel maps in it request different devices.
        DeviceCountError: there are too few.
    """
    count = device_count(program)
    if not count:
        return (device,)
    chosen: tuple[tuple[int, ...] | None, str | None] | None = None
    for op, is_inside in _iterate_maps(program, False, set()):
        if is_inside and op.devices is not None:
            raise BackendError(
                "pmap: devices can be chosen for the outermost of nested parallel maps only, "
                "but one inside another has devices of its own"
            )
        requested = (op.devices, op.backend)
        if is_inside or requested == (None, None) or requested == chosen:
            continue
        if chosen is not None:
            raise BackendError(
                f"pmap: parallel maps in one program must be on the same devices, "
                f"got {chosen[0]} of {chosen[1] or 'the default platform'} and {requested[0]} of "
                f"{requested[1] or 'the default platform'}"
            )
        chosen = requested
    if chosen is None and count == 1:
        return (device,)
    ids, backend = chosen or (None, None)
    local = device.client.local_devices() if backend is None else local_devices(backend)
    if ids is not None:
        by_id = {d.id: d for d in devices(local[0].platform if backend is None else backend)}
        missing = [i for i in ids if i not in by_id]
        if missing:
            raise BackendError(f"pmap: there are no devices {', '.join(map(str, missing))} to run on")
        local = [by_id[i] for i in ids]
    check_device_count(program.name, count, len(local))
    return tuple(local[:count])


@final
@attrs.frozen(eq=False)
class NestedMaps:
    """Parallel maps each of which is the whole body of the one around it: one map over several axes at once.

    Attributes:
        ops: the maps, the outermost first.
        body: the program of the innermost one's replicas.
        cuts_in, cuts_out: for each operand and result of the outermost which of the axes its leading
            ones are.
        operands, results: for each input of the innermost body the index of the operand that it is, and
            for each result of the outermost that of the innermost's that it is.
    """

    ops: tuple[ParallelMap, ...]
    cuts_in: tuple[tuple[int, ...], ...]
    cuts_out: tuple[tuple[int, ...], ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def body(self) -> Program:
        """The program of a replica of the innermost map."""
        return self.ops[-1].body

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple([n for op in self.ops for _, n in op.axes])


def _single_map(program: Program) -> tuple[ParallelMap, tuple[Atom, ...], tuple[int, ...]] | None:
    """Returns a parallel map that is all of a program, its operands, and the numbers of its returned results."""
    if len(program.equations) != 1:
        return None
    (e,) = program.equations
    inputs: tuple[Atom, ...] = e.inputs
    indices = {v: i for i, v in enumerate(e.outputs)}
    if not all([type(x) is Var and x in indices for x in program.outputs]):
        return None
    returned = tuple([indices[cast("Var", x)] for x in program.outputs])
    if _is_replicated(e.op):
        return e.op, inputs, returned
    if type(e.op) is Call:
        inner = _single_map(e.op.program)
        if inner is None:
            return None
        op, inner_inputs, inner_results = inner
        by_input = dict(zip(e.op.program.inputs, inputs, strict=True))
        if not all([type(x) is Var for x in inner_inputs]):
            return None
        return (
            op,
            tuple([by_input[cast("Var", x)] for x in inner_inputs]),
            tuple([inner_results[i] for i in returned]),
        )
    return None


def nested_maps(op: ParallelMap) -> NestedMaps:
    """Returns a parallel map and those that are the whole body of one another; cached in its body."""
    key = ("nest", op)
    nested = op.body.derived.get(key)
    if nested is None:
        nested = op.body.derived[key] = _find_nested_maps(op)
    return cast("NestedMaps", nested)


def _find_nested_maps(op: ParallelMap) -> NestedMaps:
    unnested = NestedMaps(
        (op,), op.cuts_in, op.cuts_out, tuple(range(len(op.cuts_in))), tuple(range(len(op.cuts_out)))
    )
    single = _single_map(op.body)
    if single is None:
        return unnested
    op_inside, inner_inputs, returned = single
    inputs = {v: i for i, v in enumerate(op.body.inputs)}
    if not all([type(x) is Var for x in inner_inputs]):
        return unnested
    n, inner_nest = len(op.axes), nested_maps(op_inside)
    indices = [inputs[cast("Var", x)] for x in inner_inputs]
    cuts: dict[int, tuple[int, ...]] = {}
    for i, cut in zip(indices, inner_nest.cuts_in, strict=True):
        combined = (*op.cuts_in[i], *[a + n for a in cut])
        if cuts.setdefault(i, combined) != combined:  # one operand that is sharded in two ways
            return unnested
    return NestedMaps(
        (op, *inner_nest.ops),
        tuple([cuts.get(i, cut) for i, cut in enumerate(op.cuts_in)]),
        tuple(
            [
                (*cut, *[a + n for a in inner_nest.cuts_out[i]])
                for cut, i in zip(op.cuts_out, returned, strict=True)
            ]
        ),
        tuple([indices[i] for i in inner_nest.operands]),
        tuple([inner_nest.results[i] for i in returned]),
    )


@final
@attrs.frozen(eq=False)
class Partitioning:
    """The tilings of a program's inputs and outputs over several devices.

    Attributes:
        count: the number of devices.
        inputs, outputs: the tiling of each; None where the partitioner decides.
        ids: the devices' ids, where they are known.
    """

    count: int
    inputs: tuple[Tiling | None, ...]
    outputs: tuple[Tiling | None, ...]
    ids: tuple[int, ...] = ()


def nested_grid(op: ParallelMap, count: int) -> tuple[int, ...]:
    """Returns the sizes of the device grid of a nest of parallel maps."""
    sizes = nested_maps(op).sizes
    remaining = count // math.prod(sizes)
    return sizes if remaining == 1 else (*sizes, remaining)


def infer_partitioning(program: Program) -> Partitioning | None:
    """Returns the tilings of the inputs and outputs of a program with parallel maps; None for one device.

    An input that is an operand of a parallel map, or an output that is a result of one, has the map's tiling. All
    others are replicated.
    """
    count = device_count(program)
    if count < 2:
        return None
    inputs, outputs = _infer_tilings(program, count)

    def fill_replicated(tilings: Sequence[Tiling | None], types: Sequence[ArrayType]) -> tuple[Tiling, ...]:
        return tuple([c or leading_tiling((count,), (), t.ndim) for c, t in zip(tilings, types, strict=True)])

    return Partitioning(
        count, fill_replicated(inputs, program.in_types), fill_replicated(outputs, program.out_types)
    )


OptionalTilings: TypeAlias = list[Tiling | None]


def _infer_tilings(program: Program, count: int) -> tuple[OptionalTilings, OptionalTilings]:
    uses: dict[Var, set[Tiling | None]] = {}
    tiling_of_var: dict[Var, Tiling | None] = {}
    for e in program.equations:
        input_tilings: Sequence[Tiling | None] = [None] * len(e.inputs)
        output_tilings: Sequence[Tiling | None] = [None] * len(e.outputs)
        if _is_replicated(e.op):
            levels, grid = nested_maps(e.op), nested_grid(e.op, count)
            operands, results = (
                zip(e.inputs, levels.cuts_in, strict=True),
                zip(e.outputs, levels.cuts_out, strict=True),
            )
            input_tilings = [leading_tiling(grid, axes, x.type.ndim) for x, axes in operands]
            output_tilings = [leading_tiling(grid, axes, x.type.ndim) for x, axes in results]
        elif type(e.op) is Call and device_count(e.op.program):
            input_tilings, output_tilings = _infer_tilings(e.op.program, count)
        for x, tiling in zip(e.inputs, input_tilings, strict=True):
            if type(x) is Var:
                uses.setdefault(x, set()).add(tiling)
        tiling_of_var.update(zip(e.outputs, output_tilings, strict=True))
    for x in program.outputs:
        if type(x) is Var and x not in tiling_of_var:
            uses.setdefault(x, set()).add(None)
    inputs = [
        next(iter(used_tilings)) if len(used_tilings := uses.get(x, {None})) == 1 else None
        for x in program.inputs
    ]
    return inputs, [tiling_of_var.get(x) if type(x) is Var else None for x in program.outputs]
