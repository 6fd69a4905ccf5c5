"""Where a jitted function runs: what its arguments, its options and its program say of devices, together."""

from collections.abc import Sequence
from typing import TypeAlias

from effx.array import Array
from effx.errors import BackendError
from effx.ir.ops.sharding import mesh_operations
from effx.ir.program import Program
from effx.lower.placement.assignment import Assignment, RequestedShardings, assignment_for, assignment_on
from effx.lower.placement.backends import default_device
from effx.lower.placement.concrete import ConcreteArray, is_on_several_devices, memory_kind_of
from effx.lower.placement.meshes import ambient
from effx.lower.placement.shardings import Device, device_name, single_device_buffer_sharding

# The default device, and the mesh in force.
DefaultPlacement: TypeAlias = tuple[Device, object]


def default_placement(arrays: Sequence[ConcreteArray]) -> DefaultPlacement | None:
    """Returns what `assign_devices` goes by for arrays of which users said nothing; None where they did of some.

    It takes a tenth of the time, for programs that C++ does not run: those come to Python in each call.
    """
    device = default_device()
    default_sharding = single_device_buffer_sharding(device)
    for x in arrays:
        if x.buffer._sharding is not default_sharding or x.buffer._committed:
            return None
    return device, ambient.value


def assign_devices(
    owner: tuple[str, str],
    device: Device | None,
    program: Program | None,
    arrays: Sequence[ConcreteArray],
    shardings: RequestedShardings | None = None,
    captured: Sequence[Array] = (),
) -> Assignment:
    """Returns where a call runs.

    Args:
        owner: the transformation and the function's name, for errors.
        device: to which the function is bound.
        program: None for one that is not known yet.
        arrays: the arguments. shardings: how they shall lie, and the results.
        captured: what the function closes over.

    Raises:
        BackendError: arguments are bound to other devices.
    """
    transform_name, name = owner
    assignment = assignment_for(program, name, arrays, shardings, captured)
    if device is None or (assignment.committed and assignment.devices == (device,)):
        return assignment
    if assignment.committed:
        raise BackendError(
            f"{transform_name}: {name} is bound to {device_name(device)}, "
            f"but an argument is committed to {', '.join(map(device_name, assignment.devices))}"
        )
    return Assignment((device,), True)


def plan_devices(
    name: str,
    program: Program,
    captured: Sequence[Array],
    shardings: RequestedShardings | None,
    device: Device,
    is_bound: bool,
) -> Assignment:
    """Returns where a staged function runs whose arguments are not there yet.

    Args:
        name: of the function, for errors.
        program: what was staged. captured: what the function closes over.
        shardings: how arguments and results shall lie.
        device: where it runs if nothing else is said. is_bound: whether it is bound to that.
    """
    is_sharded = any(
        [
            type(x) is ConcreteArray and (is_on_several_devices(x) or memory_kind_of(x) is not None)
            for x in captured
        ]
    )
    if shardings is None and not mesh_operations(program) and not is_sharded:
        return assignment_on(program, device, is_bound)
    return assignment_for(program, name, (), shardings, captured)
