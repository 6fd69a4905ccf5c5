"""The device assignment of a jitted function, from its arguments, its options and its program."""

from collections.abc import Sequence
from typing import TypeAlias

from effx.array import Array
from effx.errors import BackendError
from effx.ir.ops.sharding import mesh_operations
from effx.ir.program import Program
from effx.lower.placement.assignment import Assignment, RequestedShardings, assignment_for, assignment_on
from effx.lower.placement.backends import default_device
from effx.lower.placement.concrete import ConcreteArray, has_own_layout, is_on_several_devices, memory_kind_of
from effx.lower.placement.meshes import ambient
from effx.lower.placement.shardings import Device, device_name, single_device_buffer_sharding

# The default device, and the mesh in force.
DefaultPlacement: TypeAlias = tuple[Device, object]


def default_placement(arrays: Sequence[ConcreteArray]) -> DefaultPlacement | None:
    """Returns the default device and mesh if all arrays are uncommitted on that device; None otherwise.

    It takes a tenth of the time of `assign_devices`, for programs that C++ does not run: each of their calls runs
    in Python.
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
    """Returns the device assignment of a call.

    Args:
        owner: the transformation and the function's name, for errors.
        device: the device that the function is bound to.
        program: the staged program; None if it is not known yet.
        arrays: the arguments. shardings: the requested shardings of arguments and results.
        captured: the arrays that the function closes over.

    Raises:
        BackendError: arguments are bound to other devices.
    """
    assignment = assignment_for(program, owner[1], arrays, shardings, captured)
    return assignment if device is None else bind_to_device(owner, device, assignment)


def bind_to_device(owner: tuple[str, str], device: Device, assignment: Assignment) -> Assignment:
    """Returns the assignment of a function that is bound to a device, from that of its arguments."""
    if not assignment.committed:
        return Assignment((device,), True)
    if assignment.devices != (device,):
        transform_name, name = owner
        raise BackendError(
            f"{transform_name}: {name} is bound to {device_name(device)}, "
            f"but an argument is committed to {', '.join(map(device_name, assignment.devices))}"
        )
    return assignment


def plan_devices(
    owner: tuple[str, str],
    program: Program,
    captured: Sequence[Array],
    shardings: RequestedShardings | None,
    device: Device,
    is_bound: bool,
) -> Assignment:
    """Returns the device assignment of a staged function whose arguments are not known yet.

    Args:
        owner: the transformation and the function's name, for errors.
        program: the staged program. captured: the arrays that the function closes over.
        shardings: the requested shardings of arguments and results.
        device: the device to use if nothing else decides. is_bound: whether the function is bound to it.
    """
    is_sharded = any(
        [
            type(x) is ConcreteArray
            and (is_on_several_devices(x) or memory_kind_of(x) is not None or has_own_layout(x))
            for x in captured
        ]
    )
    if shardings is None and not mesh_operations(program) and not is_sharded:
        return assignment_on(program, device, is_bound)
    assignment = assignment_for(program, owner[1], (), shardings, captured)
    is_fixed = assignment.mesh is not None or len(assignment.devices) == 1
    return bind_to_device(owner, device, assignment) if is_bound and is_fixed else assignment
