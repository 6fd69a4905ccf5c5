"""The device assignment of a program: its devices, and the shardings of its inputs and outputs.

The devices follow from committed arrays, from shardings that the user requests, and from the parallel maps in the
program. Inputs on all of these devices keep their shardings; uncommitted inputs are replicated.

It is decided here for eager kernels, for jitted calls and for what is lowered ahead of time, from closed-over
arrays as well; executables are found by the result. Names of mesh axes are the user's and stay out of the
text (`m0`, `m1`), so that equal programs are compiled once. A mesh in another order of the same devices is
another `sdy.mesh` with their numbers.
"""

from collections.abc import Sequence
from itertools import compress
from math import prod
from typing import cast, final

import attrs
import numpy as np

from effx.array import Array
from effx.errors import BackendError, ShardingError
from effx.ir.meshes import PartitionSpec, trim_spec
from effx.ir.ops.parallel import NamedSizes, ParallelMap
from effx.ir.ops.sharding import (
    Constrain,
    MeshOperation,
    has_unequal_parts,
    input_constraints,
    mesh_operations,
    output_memories,
)
from effx.ir.passes.partial_sums import has_sums
from effx.ir.passes.sharding_constraints import explicit_mesh
from effx.ir.program import Program
from effx.lower.placement.backends import default_device, devices
from effx.lower.placement.concrete import ConcreteArray, committed_device, memory_kind_of
from effx.lower.placement.layouts import NO_LAYOUTS, Layout, Layouts, RequestedLayout, is_default_layout
from effx.lower.placement.memories import (
    Memories,
    default_memory_kind,
    nondefault_memory_kind,
    resolve_memory_kind,
)
from effx.lower.placement.meshes import Mesh, ambient
from effx.lower.placement.parallel_maps import (
    Partitioning,
    device_count,
    devices_for,
    infer_partitioning,
    spans_devices,
)
from effx.lower.placement.shardings import (
    BufferSharding,
    Device,
    NamedSharding,
    SingleDeviceSharding,
    device_name,
    grid_sharding,
    layout_of_buffer,
)
from effx.lower.placement.tiling import Tiling

__all__ = ["Assignment", "RequestedShardings", "assignment_for", "assignment_on"]


ArraySharding = NamedSharding | SingleDeviceSharding
"""The sharding of one array; a `SingleDeviceSharding` for a memory of one device other than its default one."""


@final
@attrs.frozen
class RequestedShardings:
    """The shardings that a user requests, for all inputs and outputs or for none.

    Attributes:
        inputs, outputs: shardings, None for an unspecified one; () where all are unspecified.
        layouts: those that are requested.
    """

    inputs: tuple[ArraySharding | None, ...] = ()
    outputs: tuple[ArraySharding | None, ...] = ()
    layouts: Layouts = NO_LAYOUTS


@final
@attrs.frozen
class Assignment:
    """The devices of a program, and the shardings of its inputs and outputs.

    Attributes:
        devices: in the order in which the program counts them.
        committed: whether results are committed to them.
        mesh: the mesh of the devices, where inputs or outputs are sharded over one.
        inputs, outputs: the sharding of each; None where the program decides. () for None everywhere.
        layouts: those of inputs and outputs; None for the default one.
    """

    devices: tuple[Device, ...]
    committed: bool
    mesh: Mesh | None = None
    inputs: tuple[ArraySharding | None, ...] = ()
    outputs: tuple[ArraySharding | None, ...] = ()
    layouts: Layouts = NO_LAYOUTS

    @property
    def device(self) -> Device:
        """The first device."""
        return self.devices[0]

    def select_inputs(self, kept_mask: Sequence[bool]) -> "Assignment":
        """Returns the assignment of the program without the inputs that the mask leaves out."""
        if not (self.inputs or self.layouts):
            return self
        return attrs.evolve(
            self,
            inputs=tuple(compress(self.inputs, kept_mask)),
            layouts=attrs.evolve(self.layouts, inputs=tuple(compress(self.layouts.inputs, kept_mask))),
        )

    def partitioning(self, program: Program) -> Partitioning | None:
        """Returns the tilings of the program's inputs and outputs; None for one device."""
        maps = infer_partitioning(program)
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
            for i, op in enumerate(input_constraints(program)):
                if op is not None and self.matches_devices(op):
                    inputs[i] = Tiling(op.sizes, tuple([cut or () for cut in op.cuts]), op.unreduced)
        if has_unequal_parts(program):
            for i, t in enumerate(program.out_types):
                if any([n % count for n in t.shape]):  # an array has equal parts: this one is whole
                    outputs[i] = Tiling((count,), ((),) * t.ndim)
        for tilings, shardings, types in (
            (inputs, self.inputs, program.in_types),
            (outputs, self.outputs, program.out_types),
        ):
            for i, (sharding, t) in enumerate(zip(shardings, types, strict=False)):
                if isinstance(sharding, NamedSharding):
                    tilings[i] = sharding.tiling(t.ndim)
        return Partitioning(count, tuple(inputs), tuple(outputs), tuple([d.id for d in self.devices]))

    def nondefault_layouts(self, program: Program) -> Layouts:
        """Returns the layouts of a program's inputs and outputs; None for the ones that devices give them by default.

        Raises:
            ShapeError: a layout is for another number of axes.
        """
        sides: list[tuple[RequestedLayout, ...]] = []
        for layouts, shardings, types in (
            (self.layouts.inputs, self.inputs, program.in_types),
            (self.layouts.outputs, self.outputs, program.out_types),
        ):
            side: list[RequestedLayout] = []
            for i, (layout, t) in enumerate(zip(layouts, types, strict=False)):  # () for None everywhere
                sharding = shardings[i] if shardings else None
                if isinstance(layout, Layout):
                    layout.check_rank(program.name, t)
                    part = t if sharding is None else t.with_shape(sharding.shard_shape(t.shape))
                    if is_default_layout(layout, part, self.device):
                        layout = None
                side.append(layout)
            sides.append(tuple(side))
        return Layouts(*sides)

    def memories(self, program: Program) -> Memories:
        """Returns the memories of a program's inputs and outputs.

        An output is in the memory that the user requests, else in the one that the program moves it to.
        """
        inputs = [
            None if x is None else x.nondefault_memory for x in self.inputs or [None] * len(program.inputs)
        ]
        outputs: list[str | None] = []
        for i, memory in enumerate(output_memories(program)):
            requested = self.outputs[i] if self.outputs else None
            if requested is not None:
                outputs.append(requested.nondefault_memory)
            elif isinstance(memory, int):
                outputs.append(inputs[memory])
            else:
                kind = None if memory is None else resolve_memory_kind(program.name, self.device, memory)
                outputs.append(nondefault_memory_kind(self.device, kind))
        return Memories(tuple(inputs), tuple(outputs), default_memory_kind(self.device))

    def matches_devices(self, op: Constrain) -> bool:
        """Says whether a constraint's mesh has the devices in the same order."""
        return prod(op.sizes) == len(self.devices) and op.devices in (
            None,
            tuple([d.id for d in self.devices]),
        )

    def name_sharding(self, tiling: Tiling) -> NamedSharding:
        """Returns the NamedSharding that users see for a tiling over the devices."""
        mesh = self.mesh
        if mesh is not None and (
            mesh.axis_sizes == tiling.sizes or not (any(tiling.dims) or tiling.unreduced)
        ):
            names = mesh.axis_names
            entries = [tuple([names[a] for a in axes]) for axes in tiling.dims]
            unreduced = frozenset([names[a] for a in tiling.unreduced])
            return NamedSharding(mesh, PartitionSpec(*entries, unreduced=unreduced).trim())
        grid = grid_sharding(self.devices, tiling.sizes, ()).mesh
        spec = PartitionSpec(*[tuple([f"m{a}" for a in axes]) for axes in tiling.dims])
        return NamedSharding(grid, PartitionSpec(*trim_spec(spec)))


def assignment_on(program: Program, device: Device, committed: bool) -> Assignment:
    """Returns the assignment of a program to one device, or to as many of its platform as its parallel maps need."""
    where = devices_for(program, device)
    return Assignment(where, committed or where != (device,))


def assignment_for(
    program: Program | None,
    name: str,
    arrays: Sequence[ConcreteArray],
    requested: RequestedShardings | None = None,
    closed_over: Sequence[Array] = (),
) -> Assignment:
    """Returns the device assignment of a program that is called with these arrays.

    Args:
        program: one with parallel maps chooses devices itself; None where it is not staged yet.
        name: of the computation, for errors.
        arrays: its arguments.
        requested: the shardings that the user requests for the arguments.
        closed_over: arrays that the computation closes over: they are moved to its device, unless they are sharded.

    Raises:
        BackendError: arrays are committed to different devices, or parallel maps need more than there are.
        ShardingError: an argument has another sharding or layout than the user requests.
    """
    assignment = _assign_shardings(program, name, arrays, requested, closed_over)
    layouts = _assign_layouts(
        program, name, arrays, NO_LAYOUTS if requested is None else requested.layouts, closed_over
    )
    return attrs.evolve(assignment, layouts=layouts) if layouts else assignment


def _assign_layouts(
    program: Program | None,
    name: str,
    arrays: Sequence[ConcreteArray],
    requested: Layouts,
    closed_over: Sequence[Array],
) -> Layouts:
    """Returns the layouts of a program's inputs and outputs: an array comes in its own layout, unless another is requested.

    Raises:
        ShardingError: an argument that is committed has another layout than the user requests.
    """
    inputs: list[RequestedLayout] = [
        layout_of_buffer(x.buffer._sharding) if type(x) is ConcreteArray else None
        for x in (*closed_over, *arrays)
    ]
    if not (requested or any(inputs)):
        return requested
    if program is not None:  # the arguments may not be there yet
        inputs += [None] * (len(program.inputs) - len(inputs))
    for i, layout in enumerate(requested.inputs, len(closed_over)):
        k = i - len(closed_over)
        if isinstance(layout, Layout) and k < len(arrays):
            _check_layout(name, k, arrays[k], layout)
        if layout is not None:
            inputs[i] = layout
    return Layouts(tuple(inputs), requested.outputs)


def _check_layout(name: str, i: int, x: ConcreteArray, requested: Layout) -> None:
    """Checks that an argument which is committed has the layout that is requested for it."""
    requested.check_rank(name, x.type)
    own_layout = cast("Layout", x.format.layout)
    if x.committed and not own_layout.agrees_with(requested):
        raise ShardingError(
            f"{name}: argument {i} of type {x.type!r} has the layout {own_layout!r}, but in_shardings asks for "
            f"{requested!r}; move it with device_put, or leave the layout out"
        )


def _assign_shardings(
    program: Program | None,
    name: str,
    arrays: Sequence[ConcreteArray],
    requested: RequestedShardings | None,
    closed_over: Sequence[Array],
) -> Assignment:
    """Returns the device assignment that `assignment_for` returns, without layouts."""
    spans = program is not None and spans_devices(program)
    chosen: Device | None = None
    mesh_sharding: NamedSharding | None = None
    requested_shardings: list[ArraySharding | None] = (
        [] if requested is None else [*requested.inputs, *requested.outputs]
    )
    named_shardings = [x for x in requested_shardings if isinstance(x, NamedSharding)]
    for requested_sharding in requested_shardings:
        if isinstance(requested_sharding, SingleDeviceSharding):
            if chosen is not None and chosen != requested_sharding.device:
                raise _different_devices_error(
                    name, device_name(chosen), device_name(requested_sharding.device)
                )
            chosen = requested_sharding.device
    if program is not None:
        given_meshes = list(named_shardings)
        named: dict[object, MeshOperation] = {}
        for op in mesh_operations(program):  # nearly all on one mesh
            if op.devices is not None:
                mesh_key = (op.platform, op.explicit) if isinstance(op, Constrain) else (op.backend, ())
                named.setdefault((*mesh_key, op.devices, op.mesh), op)
        named_shardings += [_resolve_named_mesh(op, given_meshes) for op in named.values()]
    for sharding in named_shardings:
        mesh_sharding = _check_same_devices(name, mesh_sharding, sharding)
    inputs: list[ArraySharding | None] = []
    for x in closed_over:
        closed_sharding = _mesh_sharding(x) if type(x) is ConcreteArray else None
        if closed_sharding is not None:
            mesh_sharding = _check_same_devices(name, mesh_sharding, closed_sharding)
        inputs.append(_explicit_sharding(x) if type(x) is ConcreteArray else None)
    for i, x in enumerate(() if spans and mesh_sharding is None else arrays):
        own_sharding = _mesh_sharding(x)
        if own_sharding is not None:
            requested_input = requested.inputs[i] if requested is not None and requested.inputs else None
            if requested_input is not None and not requested_input.is_equivalent_to(
                own_sharding, x.type.ndim
            ):
                raise _sharding_mismatch_error(name, i, x, own_sharding, requested_input)
            mesh_sharding = _check_same_devices(name, mesh_sharding, own_sharding)
            inputs.append(own_sharding)
            continue
        inputs.append(_explicit_sharding(x))
        requested_input = requested.inputs[i] if requested is not None and requested.inputs else None
        if (
            isinstance(requested_input, SingleDeviceSharding)
            and x.committed
            and requested_input.nondefault_memory != memory_kind_of(x)
        ):
            raise _sharding_mismatch_error(name, i, x, x.sharding, requested_input)
        device = committed_device(x)
        if device is not None:
            if chosen is not None and chosen != device:
                raise _different_devices_error(name, device_name(chosen), device_name(device))
            chosen = device
    explicit = None if program is None else explicit_mesh(program)
    ambient_mesh = ambient.value
    if (
        mesh_sharding is None
        and explicit is not None
        and isinstance(ambient_mesh, Mesh)
        and ambient_mesh.shape_tuple == explicit.shape_tuple
    ):
        # Uncommitted arrays go to the mesh in force.
        mesh_sharding = NamedSharding(ambient_mesh, PartitionSpec())
        inputs += [None] * (len(arrays) + len(closed_over) - len(inputs))
    if mesh_sharding is None and program is not None and (sizes := _abstract_mesh_axes(program)):
        mesh_sharding = _mesh_of_first_devices(name, sizes, default_device() if chosen is None else chosen)
        inputs += [None] * (len(arrays) + len(closed_over) - len(inputs))
        chosen = None
    if mesh_sharding is None:
        device = default_device() if chosen is None else chosen
        committed = chosen is not None
        assignment = (
            Assignment((device,), committed) if program is None else assignment_on(program, device, committed)
        )
        return _assign_one_device(assignment, inputs, len(closed_over), requested, program)
    mesh_devices = mesh_sharding.ordered_devices
    if chosen is not None and (chosen,) != mesh_devices:
        raise _different_devices_error(name, device_name(chosen), f"the mesh {mesh_sharding.mesh!r}")
    if program is not None and len(mesh_devices) % max(device_count(program), 1):
        raise BackendError(
            f"{name}: a parallel map wants {device_count(program)} devices in a program that runs on the "
            f"{len(mesh_devices)} of "
            f"the mesh {mesh_sharding.mesh!r}"
        )
    if program is not None:  # the arguments may not be there yet
        inputs += [None] * (len(program.inputs) - len(inputs))
    if requested is not None and requested.inputs:
        requested_inputs = (*[None] * len(closed_over), *requested.inputs)
        inputs = [w if w is not None else x for w, x in zip(requested_inputs, inputs, strict=True)]
    # An array on the same devices in another order, or on others where a sharding is requested, is moved.
    input_shardings = [x if x is None or x.ordered_devices == mesh_devices else None for x in inputs]
    mesh = mesh_sharding.device_mesh
    results: tuple[ArraySharding | None, ...] = () if requested is None else requested.outputs
    if explicit is not None and explicit.shape_tuple == mesh.shape_tuple:
        mesh = mesh.update(axis_types=explicit.axis_types)
    elif isinstance(ambient_mesh, Mesh) and _has_same_axes(ambient_mesh, mesh):
        mesh = ambient_mesh  # the operations of a program do not say the types of axes
    if not results and program is not None and explicit is not None and explicit.are_all_axes_explicit:
        specs = [
            PartitionSpec() if t.explicit_sharding is None else t.explicit_sharding.spec
            for t in program.out_types
        ]
        results = tuple([NamedSharding(mesh, spec) for spec in specs])
    elif not results and program is not None and has_sums(program.out_types):
        # XLA tells neither what is reduced nor how much of what is unreduced it sharded over other axes.
        results = tuple(
            [
                NamedSharding(mesh, t.explicit_sharding.spec)
                if t.explicit_sharding is not None and t.explicit_sharding.spec.has_sums
                else None
                for t in program.out_types
            ]
        )
    return Assignment(
        mesh_devices, True, mesh, _shardings_on_mesh(mesh, input_shardings), _shardings_on_mesh(mesh, results)
    )


def _has_same_axes(a: Mesh, b: Mesh) -> bool:
    return a.ordered == b.ordered and a.shape_tuple == b.shape_tuple


def _explicit_sharding(x: ConcreteArray) -> ArraySharding | None:
    """Returns the sharding of an array; None for the default memory of one device."""
    return _mesh_sharding(x) or (None if memory_kind_of(x) is None else x.sharding)


def _mesh_sharding(x: ConcreteArray) -> NamedSharding | None:
    """Returns the sharding of an array on a mesh; None for one on a single device."""
    sharding = x.buffer._sharding
    if type(sharding) is BufferSharding and isinstance(sharding.sharding, NamedSharding):
        return sharding.sharding
    return None


def _assign_one_device(
    assignment: Assignment,
    inputs: Sequence[ArraySharding | None],
    closed_over_count: int,
    requested: RequestedShardings | None,
    program: Program | None,
) -> Assignment:
    """Returns an assignment to one device with the memories that arrays are in or users request.

    Args:
        inputs: shardings of the arrays known so far. closed_over_count: how many of them the computation closes over.
    """
    if len(assignment.devices) != 1 or (requested is None and not any(inputs)):
        return assignment
    requested_inputs = () if requested is None else requested.inputs
    count = closed_over_count + len(requested_inputs) if program is None else len(program.inputs)
    input_shardings = [*inputs, *[None] * (count - len(inputs))]  # the arguments may not be there yet
    input_shardings = [
        None if x is None or x.ordered_devices != assignment.devices else x for x in input_shardings
    ]
    if requested_inputs:
        input_shardings[closed_over_count:] = [
            want or x for want, x in zip(requested_inputs, input_shardings[closed_over_count:], strict=True)
        ]
    outputs = () if requested is None else requested.outputs
    return attrs.evolve(
        assignment,
        inputs=tuple(input_shardings) if any(input_shardings) else (),
        outputs=outputs if any(outputs) else (),
    )


def _shardings_on_mesh(
    mesh: Mesh, shardings: Sequence[ArraySharding | None]
) -> tuple[NamedSharding | None, ...]:
    """Returns requests for one device as shardings on the mesh of that device."""
    return tuple(
        [
            NamedSharding(mesh, PartitionSpec(), memory_kind=x.memory_kind)
            if isinstance(x, SingleDeviceSharding)
            else x
            for x in shardings
        ]
    )


def _sharding_mismatch_error(
    name: str, i: int, x: ConcreteArray, actual_sharding: ArraySharding, requested: ArraySharding
) -> ShardingError:
    if actual_sharding.memory_kind != requested.memory_kind:
        actual, expected = f"in the memory {actual_sharding.memory_kind!r}", repr(requested.memory_kind)
    else:
        actual, expected = [
            f"sharded as {s.spec!r} on {s.mesh!r}"
            if isinstance(s, NamedSharding)
            else f"on {device_name(s.device)}"
            for s in (actual_sharding, requested)
        ]
        expected = expected.removeprefix("sharded as ")
    return ShardingError(
        f"{name}: argument {i} of type {x.type!r} is {actual}, but in_shardings asks for {expected}; move it with "
        "device_put, "
        f"or leave in_shardings out"
    )


def _resolve_named_mesh(op: MeshOperation, candidates: Sequence[NamedSharding]) -> NamedSharding:
    """Returns a replicated sharding on the mesh that an operation in a program names.

    Args:
        op: it names devices by their ids.
        candidates: shardings whose devices the ids may name, such as those of a topology, which no platform lists.

    Raises:
        BackendError: there are no such devices.
    """
    function_name, platform = (
        ("with_sharding_constraint", op.platform) if isinstance(op, Constrain) else ("shard_map", op.backend)
    )
    ids, axes = op.devices or (), op.mesh or ()
    by_id: dict[int, Device] = {}
    # The platform need not have started.
    for known_devices in (*[x.ordered_devices for x in candidates], None):
        by_id = {d.id: d for d in known_devices or devices(platform) if d.platform == platform}
        if by_id.keys() >= set(ids):
            grid = np.array([by_id[i] for i in ids], object).reshape([n for _, n in axes])
            kinds = op.abstract_mesh.axis_types if isinstance(op, Constrain) else None
            return NamedSharding(Mesh(grid, [name for name, _ in axes], kinds), PartitionSpec())
    missing = next(i for i in ids if i not in by_id)
    raise BackendError(
        f"{function_name}: there is no device {platform}:{missing}; where the mesh is one of a topology, an argument "
        "or a result must "
        f"be on it, by ShapeDtypeStruct(sharding=), in_shardings or out_shardings"
    )


def _abstract_mesh_axes(program: Program) -> NamedSizes:
    """Returns the axes of a mesh without devices that a program names; () for none, or for one of one device."""
    named_meshes = [
        op.mesh
        for op in mesh_operations(program)
        if op.mesh is not None and (isinstance(op, ParallelMap) or op.explicit)
    ]
    return named_meshes[0] if named_meshes and prod([n for _, n in named_meshes[0]]) > 1 else ()


def _mesh_of_first_devices(name: str, axes: NamedSizes, device: Device) -> NamedSharding:
    """Returns a replicated sharding on a mesh of the first devices of a platform."""
    local_devices, count = device.client.local_devices(), prod([n for _, n in axes])
    if count > len(local_devices):
        raise BackendError(
            f"{name}: maps over a mesh of {count} devices, of which there are {len(local_devices)}; set "
            "EFFX_NUM_CPU_DEVICES before "
            f"the start for more CPU devices"
        )
    grid = np.array(local_devices[:count], object).reshape([n for _, n in axes])
    return NamedSharding(Mesh(grid, [name for name, _ in axes]), PartitionSpec())


def _check_same_devices(name: str, a: NamedSharding | None, b: NamedSharding | None) -> NamedSharding | None:
    """Returns the first of two shardings, which must have the same devices."""
    if a is None or b is None:
        return b if a is None else a
    if a.device_set != b.device_set:
        raise _different_devices_error(name, f"the mesh {a.mesh!r}", f"the mesh {b.mesh!r}")
    return a


def _different_devices_error(name: str, a: str, b: str) -> BackendError:
    return BackendError(
        f"{name}: arrays are committed to different devices, {a} and {b}; move them with device_put"
    )
