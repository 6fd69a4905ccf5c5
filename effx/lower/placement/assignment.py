"""On which devices a program runs, and how what it takes and gives lies there.

The devices follow from the arrays that are bound to some, from shardings that the user asked for, and from the parallel maps
in the program. Inputs that lie on all of them stay as they are; what is bound to none is whole on each.
"""

from collections.abc import Sequence
from math import prod
from typing import final

import attrs
import numpy as np

from effx.array import Array
from effx.errors import BackendError, ShardingError
from effx.ir.meshes import PartitionSpec
from effx.ir.ops.parallel import NamedSizes, ParallelMap
from effx.ir.ops.sharding import Constrain, Placing, constrained_inputs, memories_of_outputs, places_in
from effx.ir.passes.sharding_constraints import explicit_mesh
from effx.ir.program import Program
from effx.lower.placement.backends import default_device, devices
from effx.lower.placement.concrete import ConcreteArray, bound_device, memory_in
from effx.lower.placement.memories import Memories, default_kind, memory_of, other_kind
from effx.lower.placement.meshes import Mesh, ambient
from effx.lower.placement.parallel_maps import (
    Partitioning,
    device_count,
    devices_for,
    partitioning_of,
    spans_devices,
)
from effx.lower.placement.shardings import (
    Device,
    NamedSharding,
    Placement,
    SingleDeviceSharding,
    device_name,
    grid_sharding,
)
from effx.lower.placement.tiling import Tiling

__all__ = ["Assignment", "Wanted", "assignment_for", "assignment_on"]


Place = NamedSharding | SingleDeviceSharding
"""How one array lies; a `SingleDeviceSharding` where it says of one device which memory."""


@final
@attrs.frozen
class Wanted:
    """What a user asked for, for all inputs and outputs or for none.

    Attributes:
        inputs, outputs: shardings, and None where nothing was said; () for nothing at all.
    """

    inputs: tuple[Place | None, ...] = ()
    outputs: tuple[Place | None, ...] = ()


@final
@attrs.frozen
class Assignment:
    """On which devices a program runs, and how what it takes and gives lies there.

    Attributes:
        devices: in the order in which the program counts them.
        committed: whether results are bound to them.
        mesh: what they are, where inputs or outputs lie on a mesh.
        inputs, outputs: how each lies; None where the program decides. () for None everywhere.
    """

    devices: tuple[Device, ...]
    committed: bool
    mesh: Mesh | None = None
    inputs: tuple[Place | None, ...] = ()
    outputs: tuple[Place | None, ...] = ()

    @property
    def device(self) -> Device:
        """The first device."""
        return self.devices[0]

    def kept(self, kept: Sequence[bool]) -> "Assignment":
        """Returns the assignment of a program of which only some inputs are kept."""
        if not self.inputs:
            return self
        return attrs.evolve(
            self, inputs=tuple([x for x, keep in zip(self.inputs, kept, strict=True) if keep])
        )

    def partitioning(self, program: Program) -> Partitioning | None:
        """Returns how the program lies on the devices; None where one is enough."""
        maps = partitioning_of(program)
        count = len(self.devices)
        if count == 1:
            return None
        if maps is not None and self.mesh is None:
            return maps
        inputs: list[Tiling | None] = [Tiling((count,), ((),) * t.ndim) for t in program.in_types]
        outputs: list[Tiling | None] = [None] * len(program.outputs)
        if maps is not None:
            inputs, outputs = list(maps.inputs), list(maps.outputs)
        if self.mesh is not None:
            for i, op in enumerate(constrained_inputs(program)):
                if op is not None and self.lies_on(op):
                    inputs[i] = Tiling(op.sizes, tuple([cut or () for cut in op.cuts]))
        for found, given, types in (
            (inputs, self.inputs, program.in_types),
            (outputs, self.outputs, program.out_types),
        ):
            for i, (sharding, t) in enumerate(zip(given, types, strict=False)):
                if isinstance(sharding, NamedSharding):
                    found[i] = sharding.tiling(t.ndim)
        return Partitioning(count, tuple(inputs), tuple(outputs), tuple([d.id for d in self.devices]))

    def memories(self, program: Program) -> Memories:
        """Returns which memories a program takes its inputs from and leaves its outputs in.

        An output lies where the user asked for it, else where the program has put it.
        """
        inputs = [None if x is None else x.other_memory for x in self.inputs or [None] * len(program.inputs)]
        outputs: list[str | None] = []
        for i, found in enumerate(memories_of_outputs(program)):
            asked = self.outputs[i] if self.outputs else None
            if asked is not None:
                outputs.append(asked.other_memory)
            elif isinstance(found, int):
                outputs.append(inputs[found])
            else:
                kind = None if found is None else memory_of(program.name, self.device, found)
                outputs.append(other_kind(self.device, kind))
        return Memories(tuple(inputs), tuple(outputs), default_kind(self.device))

    def lies_on(self, op: Constrain) -> bool:
        """Says whether a constraint's mesh has the devices in the same order."""
        return prod(op.sizes) == len(self.devices) and op.devices in (
            None,
            tuple([d.id for d in self.devices]),
        )

    def named(self, tiling: Tiling) -> NamedSharding:
        """Returns what users see of how an array lies on the devices."""
        mesh = self.mesh
        if mesh is not None and (mesh.axis_sizes == tiling.sizes or not any(tiling.dims)):
            names = mesh.axis_names
            entries = [tuple([names[a] for a in axes]) for axes in tiling.dims]
            while entries and not entries[-1]:
                entries.pop()
            return NamedSharding(mesh, PartitionSpec(*entries))
        mesh = grid_sharding(self.devices, tiling.sizes, ()).mesh
        return NamedSharding(mesh, PartitionSpec(*[tuple([f"m{a}" for a in axes]) for axes in tiling.dims]))


def assignment_on(program: Program, device: Device, committed: bool) -> Assignment:
    """Returns the assignment of a program to one device, or to those of its platform that its parallel maps want."""
    where = devices_for(program, device)
    return Assignment(where, committed or where != (device,))


def assignment_for(
    program: Program | None,
    name: str,
    arrays: Sequence[ConcreteArray],
    wanted: Wanted | None = None,
    held: Sequence[Array] = (),
) -> Assignment:
    """Returns on which devices a program runs with these arrays.

    Args:
        program: one with parallel maps chooses devices itself; None for one that is not known yet.
        name: of the computation, for errors.
        arrays: its arguments.
        wanted: what the user asked for, of the arguments.
        held: arrays that the computation closes over: they are moved where it runs, unless they lie on several devices.

    Raises:
        BackendError: arrays are committed to different devices, or parallel maps want more than there are.
        ShardingError: an argument lies otherwise than the user asked.
    """
    spans = program is not None and spans_devices(program)
    chosen: Device | None = None
    lying: NamedSharding | None = None
    said: list[Place | None] = [] if wanted is None else [*wanted.inputs, *wanted.outputs]
    asked = [x for x in said if isinstance(x, NamedSharding)]
    for place in said:
        if isinstance(place, SingleDeviceSharding):
            if chosen is not None and chosen != place.device:
                raise _different(name, device_name(chosen), device_name(place.device))
            chosen = place.device
    if program is not None:
        given_meshes = list(asked)
        named: dict[object, Placing] = {}
        for op in places_in(program):  # nearly all on one mesh
            if op.devices is not None:
                of = (op.platform, op.explicit) if isinstance(op, Constrain) else (op.backend, ())
                named.setdefault((*of, op.devices, op.mesh), op)
        asked += [_named_mesh(op, given_meshes) for op in named.values()]
    for sharding in asked:
        lying = _agreed(name, lying, sharding)
    inputs: list[Place | None] = []
    for x in held:
        own = x.buffer._sharding if type(x) is ConcreteArray else None
        if type(own) is Placement:
            lying = _agreed(name, lying, own.sharding)
        inputs.append(_lies(x) if type(x) is ConcreteArray else None)
    for i, x in enumerate(() if spans and lying is None else arrays):
        lies = x.buffer._sharding
        if type(lies) is Placement:
            mine = lies.sharding
            want = wanted.inputs[i] if wanted is not None and wanted.inputs else None
            if want is not None and not want.is_equivalent_to(mine, x.type.ndim):
                raise _otherwise(name, i, x, mine, want)
            lying = _agreed(name, lying, mine)
            inputs.append(mine)
            continue
        inputs.append(_lies(x))
        want = wanted.inputs[i] if wanted is not None and wanted.inputs else None
        if isinstance(want, SingleDeviceSharding) and x.committed and want.other_memory != memory_in(x):
            raise _otherwise(name, i, x, x.sharding, want)
        device = bound_device(x)
        if device is not None:
            if chosen is not None and chosen != device:
                raise _different(name, device_name(chosen), device_name(device))
            chosen = device
    spoken = None if program is None else explicit_mesh(program)
    here = ambient.value
    if (
        lying is None
        and spoken is not None
        and isinstance(here, Mesh)
        and here.shape_tuple == spoken.shape_tuple
    ):
        # What has no device of its own goes to the mesh in force.
        lying = NamedSharding(here, PartitionSpec())
        inputs += [None] * (len(arrays) + len(held) - len(inputs))
    if lying is None and program is not None and (sizes := _abstract(program)):
        lying = _of_first_devices(name, sizes, default_device() if chosen is None else chosen)
        inputs += [None] * (len(arrays) + len(held) - len(inputs))
        chosen = None
    if lying is None:
        device = default_device() if chosen is None else chosen
        committed = chosen is not None
        found = (
            Assignment((device,), committed) if program is None else assignment_on(program, device, committed)
        )
        return _on_one(found, inputs, len(held), wanted, program)
    where = lying.ordered_devices
    if chosen is not None and (chosen,) != where:
        raise _different(name, device_name(chosen), f"the mesh {lying.mesh!r}")
    if program is not None and len(where) % max(device_count(program), 1):
        raise BackendError(
            f"{name}: a parallel map wants {device_count(program)} devices in a program that runs on the {len(where)} of "
            f"the mesh {lying.mesh!r}"
        )
    if program is not None:  # the arguments may not be there yet
        inputs += [None] * (len(program.inputs) - len(inputs))
    if wanted is not None and wanted.inputs:
        asked_in = (*[None] * len(held), *wanted.inputs)
        inputs = [w if w is not None else x for w, x in zip(asked_in, inputs, strict=True)]
    # An array that lies on the same devices in another order, or on others where a sharding was asked for, is moved.
    given = [x if x is None or x.ordered_devices == where else None for x in inputs]
    mesh = lying.mesh
    results: tuple[Place | None, ...] = () if wanted is None else wanted.outputs
    if spoken is not None and spoken.shape_tuple == mesh.shape_tuple:
        mesh = mesh.update(axis_types=spoken.axis_types)
    if not results and program is not None and spoken is not None and spoken.are_all_axes_explicit:
        specs = [PartitionSpec() if t.cut is None else t.cut.spec for t in program.out_types]
        results = tuple([NamedSharding(mesh, spec) for spec in specs])
    return Assignment(where, True, mesh, _on_mesh(mesh, given), _on_mesh(mesh, results))


def _lies(x: ConcreteArray) -> Place | None:
    """Returns how an array lies; None where nothing need be said of it: in the default memory of one device."""
    own = x.buffer._sharding
    if type(own) is Placement:
        return own.sharding
    return None if memory_in(x) is None else x.sharding


def _on_one(
    found: Assignment,
    inputs: Sequence[Place | None],
    held: int,
    wanted: Wanted | None,
    program: Program | None,
) -> Assignment:
    """Returns an assignment to one device with the memories that arrays lie in or users asked for.

    Args:
        inputs: how arrays lie, as far as they are there. held: how many are what the computation closes over.
    """
    if len(found.devices) != 1 or (wanted is None and not any(inputs)):
        return found
    asked = () if wanted is None else wanted.inputs
    count = held + len(asked) if program is None else len(program.inputs)
    given = [*inputs, *[None] * (count - len(inputs))]  # the arguments may not be there yet
    given = [None if x is None or x.ordered_devices != found.devices else x for x in given]
    if asked:
        given[held:] = [want or x for want, x in zip(asked, given[held:], strict=True)]
    outputs = () if wanted is None else wanted.outputs
    return attrs.evolve(
        found, inputs=tuple(given) if any(given) else (), outputs=outputs if any(outputs) else ()
    )


def _on_mesh(mesh: Mesh, places: Sequence[Place | None]) -> tuple[NamedSharding | None, ...]:
    """Says of a mesh what was said of its only device."""
    return tuple(
        [
            NamedSharding(mesh, PartitionSpec(), memory_kind=x.memory_kind)
            if isinstance(x, SingleDeviceSharding)
            else x
            for x in places
        ]
    )


def _otherwise(name: str, i: int, x: ConcreteArray, mine: Place, want: Place) -> ShardingError:
    if mine.memory_kind != want.memory_kind:
        lies, asks = f"in the memory {mine.memory_kind!r}", repr(want.memory_kind)
    else:
        lies, asks = [
            f"as {s.spec!r} on {s.mesh!r}" if isinstance(s, NamedSharding) else f"on {device_name(s.device)}"
            for s in (mine, want)
        ]
        asks = asks.removeprefix("as ")
    return ShardingError(
        f"{name}: argument {i} of type {x.type!r} lies {lies}, but in_shardings asks for {asks}; move it with device_put, "
        f"or leave in_shardings out"
    )


def _named_mesh(op: Placing, given: Sequence[NamedSharding]) -> NamedSharding:
    """Returns nothing but a mesh that an operation in a program names.

    Args:
        op: it names devices by their ids.
        given: shardings whose devices may be meant, such as those of a topology, which no platform lists.

    Raises:
        BackendError: there are no such devices.
    """
    what, platform = (
        ("with_sharding_constraint", op.platform) if isinstance(op, Constrain) else ("shard_map", op.backend)
    )
    ids, axes = op.devices or (), op.mesh or ()
    by_id: dict[int, Device] = {}
    # The platform need not have started.
    for there in (*[x.ordered_devices for x in given], None):
        by_id = {d.id: d for d in there or devices(platform) if d.platform == platform}
        if by_id.keys() >= set(ids):
            grid = np.array([by_id[i] for i in ids], object).reshape([n for _, n in axes])
            kinds = op.abstract_mesh.axis_types if isinstance(op, Constrain) else None
            return NamedSharding(Mesh(grid, [name for name, _ in axes], kinds), PartitionSpec())
    gone = next(i for i in ids if i not in by_id)
    raise BackendError(
        f"{what}: there is no device {platform}:{gone}; where the mesh is one of a topology, an argument or a result must "
        f"lie on it, by ShapeDtypeStruct(sharding=), in_shardings or out_shardings"
    )


def _abstract(program: Program) -> NamedSizes:
    """Returns the axes of a mesh without devices that a program names; () for none, or for one of one device."""
    found = [
        op.mesh
        for op in places_in(program)
        if op.mesh is not None and (isinstance(op, ParallelMap) or op.explicit)
    ]
    return found[0] if found and prod([n for _, n in found[0]]) > 1 else ()


def _of_first_devices(name: str, axes: NamedSizes, device: Device) -> NamedSharding:
    """Returns nothing but a mesh of the first devices of a platform."""
    there, count = device.client.local_devices(), prod([n for _, n in axes])
    if count > len(there):
        raise BackendError(
            f"{name}: maps over a mesh of {count} devices, of which there are {len(there)}; set EFFX_NUM_CPU_DEVICES before "
            f"the start for more CPU devices"
        )
    grid = np.array(there[:count], object).reshape([n for _, n in axes])
    return NamedSharding(Mesh(grid, [name for name, _ in axes]), PartitionSpec())


def _agreed(name: str, a: NamedSharding | None, b: NamedSharding | None) -> NamedSharding | None:
    """Returns the first of two shardings that lie on the same devices."""
    if a is None or b is None:
        return b if a is None else a
    if a.device_set != b.device_set:
        raise _different(name, f"the mesh {a.mesh!r}", f"the mesh {b.mesh!r}")
    return a


def _different(name: str, a: str, b: str) -> BackendError:
    return BackendError(
        f"{name}: arrays are committed to different devices, {a} and {b}; move them with device_put"
    )
