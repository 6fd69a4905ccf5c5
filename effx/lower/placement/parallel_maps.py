"""Which devices a program with parallel maps runs on, and how its operands and results lie there.

Such a program becomes one module for all its devices (SPMD). The devices are counted through the axes of the
parallel maps around one another, the outermost slowest, so that the replicas of an axis stand in blocks: with
n devices, replica i of an outermost axis of k has the devices i * n/k to (i + 1) * n/k - 1. Where parallel maps
of different sizes stand beside one another, n is their least common multiple, and each repeats its work.

Parallel maps over the axes of a mesh are none of these: the mesh says on which devices they run (`lower.assignment`).
"""

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeGuard, cast, final

import attrs

from effx.effects import Operation
from effx.errors import BackendError, DeviceCountError
from effx.ir.ops.control import Call, holders
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Program, Var
from effx.ir.types import ArrayType
from effx.lower.placement.backends import devices, local_devices
from effx.lower.placement.shardings import Device
from effx.lower.placement.tiling import Tiling, leading


def _is_replicated(op: Operation[object]) -> TypeGuard[ParallelMap]:
    """Says whether an operation runs replicas on devices that no mesh names."""
    return type(op) is ParallelMap and op.mesh is None


def device_count(program: Program) -> int:
    """Returns how many devices a program's parallel maps need together; 0 where it has none."""
    found = program.derived.get("devices")
    if found is None:
        count = 0
        for op in holders(program):
            counts = [device_count(p) for p in op.programs]
            inner = math.lcm(*[max(n, 1) for n in counts])
            if _is_replicated(op):
                count = math.lcm(max(count, 1), op.size * inner)
            elif any(counts):
                count = math.lcm(max(count, 1), inner)
        found = program.derived["devices"] = count
    return cast("int", found)


def spans_devices(program: Program) -> bool:
    """Says whether a program runs on several devices."""
    return device_count(program) > 1


def _maps(program: Program, inside: bool, seen: set[Program]) -> Iterator[tuple[ParallelMap, bool]]:
    """Yields all parallel maps, and whether each stands inside another."""
    if program in seen or not device_count(program):
        return
    seen.add(program)
    for op in holders(program):
        if _is_replicated(op):
            yield op, inside
        for p in op.programs:
            yield from _maps(p, inside or type(op) is ParallelMap, seen)


def check_count(name: str, wanted: int, there: int) -> None:
    """Raises a DeviceCountError if there are fewer devices than wanted."""
    if wanted > there:
        raise DeviceCountError(
            f"pmap: {name} requires {wanted} replicas, but only {there} XLA devices are available; "
            f"set EFFX_NUM_CPU_DEVICES before the start for more CPU devices, or use vmap"
        )


def devices_for(program: Program, device: Device) -> tuple[Device, ...]:
    """Returns the devices that a program runs on.

    Args:
        program: what is compiled.
        device: where it runs if it needs but one; else one of the platform to take the devices of.

    Raises:
        BackendError: parallel maps in it ask for different devices.
        DeviceCountError: there are too few.
    """
    count = device_count(program)
    if not count:
        return (device,)
    chosen: tuple[tuple[int, ...] | None, str | None] | None = None
    for op, is_inside in _maps(program, False, set()):
        if is_inside and op.devices is not None:
            raise BackendError(
                "pmap: devices can be chosen for the outermost of nested parallel maps only, "
                "but one inside another has devices of its own"
            )
        mine = (op.devices, op.backend)
        if is_inside or mine == (None, None) or mine == chosen:
            continue
        if chosen is not None:
            raise BackendError(
                f"pmap: parallel maps in one program must be on the same devices, "
                f"got {chosen[0]} of {chosen[1] or 'the default platform'} and {mine[0]} of "
                f"{mine[1] or 'the default platform'}"
            )
        chosen = mine
    if chosen is None and count == 1:
        return (device,)
    ids, backend = chosen or (None, None)
    there = device.client.local_devices() if backend is None else local_devices(backend)
    if ids is not None:
        by_id = {d.id: d for d in devices(there[0].platform if backend is None else backend)}
        gone = [i for i in ids if i not in by_id]
        if gone:
            raise BackendError(f"pmap: there are no devices {', '.join(map(str, gone))} to run on")
        there = [by_id[i] for i in ids]
    check_count(program.name, count, len(there))
    return tuple(there[:count])


@final
@attrs.frozen(eq=False)
class Nest:
    """Parallel maps each of which does nothing but the next: one map over several axes at once.

    Attributes:
        ops: the maps, the outermost first.
        body: what the innermost one's replicas do.
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
        """What a replica of the innermost map does."""
        return self.ops[-1].body

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple([n for op in self.ops for _, n in op.axes])


def _only(program: Program) -> tuple[ParallelMap, tuple[Atom, ...], tuple[int, ...]] | None:
    """Returns a program's parallel map if it is all that the program does: what it takes, and what is returned."""
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
        inner = _only(e.op.program)
        if inner is None:
            return None
        op, taken, given = inner
        by_input = dict(zip(e.op.program.inputs, inputs, strict=True))
        if not all([type(x) is Var for x in taken]):
            return None
        return op, tuple([by_input[cast("Var", x)] for x in taken]), tuple([given[i] for i in returned])
    return None


def nest(op: ParallelMap) -> Nest:
    """Returns a parallel map with those that are all its body does; cached in its body."""
    key = ("nest", op)
    found = op.body.derived.get(key)
    if found is None:
        found = op.body.derived[key] = _nest(op)
    return cast("Nest", found)


def _nest(op: ParallelMap) -> Nest:
    alone = Nest(
        (op,), op.cuts_in, op.cuts_out, tuple(range(len(op.cuts_in))), tuple(range(len(op.cuts_out)))
    )
    only = _only(op.body)
    if only is None:
        return alone
    op_inside, taken, returned = only
    inputs = {v: i for i, v in enumerate(op.body.inputs)}
    if not all([type(x) is Var for x in taken]):
        return alone
    n, below = len(op.axes), nest(op_inside)
    indices = [inputs[cast("Var", x)] for x in taken]
    cuts: dict[int, tuple[int, ...]] = {}
    for i, cut in zip(indices, below.cuts_in, strict=True):
        whole = (*op.cuts_in[i], *[a + n for a in cut])
        if cuts.setdefault(i, whole) != whole:  # one operand that is cut in two ways
            return alone
    return Nest(
        (op, *below.ops),
        tuple([cuts.get(i, cut) for i, cut in enumerate(op.cuts_in)]),
        tuple(
            [
                (*cut, *[a + n for a in below.cuts_out[i]])
                for cut, i in zip(op.cuts_out, returned, strict=True)
            ]
        ),
        tuple([indices[i] for i in below.operands]),
        tuple([below.results[i] for i in returned]),
    )


@final
@attrs.frozen(eq=False)
class Partitioning:
    """How a program lies on several devices.

    Attributes:
        count: the number of devices.
        inputs, outputs: how each is cut; None where the partitioner decides.
        ids: the devices' ids, where they are known.
    """

    count: int
    inputs: tuple[Tiling | None, ...]
    outputs: tuple[Tiling | None, ...]
    ids: tuple[int, ...] = ()


def grid_of(op: ParallelMap, count: int) -> tuple[int, ...]:
    """Returns the sizes of the grid on which a nest of parallel maps lies."""
    sizes = nest(op).sizes
    rest = count // math.prod(sizes)
    return sizes if rest == 1 else (*sizes, rest)


def partitioning_of(program: Program) -> Partitioning | None:
    """Returns how a program with parallel maps lies on several devices; None where one is enough.

    What goes straight into a parallel map, or comes straight out of one, lies as the map has it. All else is
    whole on every device.
    """
    count = device_count(program)
    if count < 2:
        return None
    inputs, outputs = _cuts(program, count)

    def settled(found: Sequence[Tiling | None], types: Sequence[ArrayType]) -> tuple[Tiling, ...]:
        return tuple([c or leading((count,), (), t.ndim) for c, t in zip(found, types, strict=True)])

    return Partitioning(count, settled(inputs, program.in_types), settled(outputs, program.out_types))


Cuts: TypeAlias = list[Tiling | None]


def _cuts(program: Program, count: int) -> tuple[Cuts, Cuts]:
    uses: dict[Var, set[Tiling | None]] = {}
    made: dict[Var, Tiling | None] = {}
    for e in program.equations:
        taken: Sequence[Tiling | None] = [None] * len(e.inputs)
        given: Sequence[Tiling | None] = [None] * len(e.outputs)
        if _is_replicated(e.op):
            levels, grid = nest(e.op), grid_of(e.op, count)
            operands, results = (
                zip(e.inputs, levels.cuts_in, strict=True),
                zip(e.outputs, levels.cuts_out, strict=True),
            )
            taken = [leading(grid, axes, x.type.ndim) for x, axes in operands]
            given = [leading(grid, axes, x.type.ndim) for x, axes in results]
        elif type(e.op) is Call and device_count(e.op.program):
            taken, given = _cuts(e.op.program, count)
        for x, cut in zip(e.inputs, taken, strict=True):
            if type(x) is Var:
                uses.setdefault(x, set()).add(cut)
        made.update(zip(e.outputs, given, strict=True))
    for x in program.outputs:
        if type(x) is Var and x not in made:
            uses.setdefault(x, set()).add(None)
    inputs = [next(iter(found)) if len(found := uses.get(x, {None})) == 1 else None for x in program.inputs]
    return inputs, [made.get(x) if type(x) is Var else None for x in program.outputs]
