"""Where a jitted function runs: what its arguments, its options and its program say of devices, together."""

from collections.abc import Sequence
from typing import TypeAlias

from effx.array import Array
from effx.errors import BackendError
from effx.ir.ops.sharding import places_in
from effx.ir.program import Program
from effx.lower.placement.assignment import Assignment, Wanted, assignment_for, assignment_on
from effx.lower.placement.backends import default_device
from effx.lower.placement.concrete import ConcreteArray, is_spread, memory_in
from effx.lower.placement.meshes import ambient
from effx.lower.placement.shardings import Device, device_name, single

# The default device, and the mesh in force.
UsualPlace: TypeAlias = tuple[Device, object]


def usual_place(arrays: Sequence[ConcreteArray]) -> UsualPlace | None:
    """Returns what `placed` goes by for arrays of which users said nothing; None where they did of some.

    It takes a tenth of the time, for programs that C++ does not run: those come to Python in each call.
    """
    device = default_device()
    usual = single(device)
    for x in arrays:
        if x.buffer._sharding is not usual or x.buffer._committed:
            return None
    return device, ambient.value


def placed(
    where: tuple[str, str],
    device: Device | None,
    program: Program | None,
    arrays: Sequence[ConcreteArray],
    wanted: Wanted | None = None,
    held: Sequence[Array] = (),
) -> Assignment:
    """Returns where a call runs.

    Args:
        where: the transformation and the function's name, for errors.
        device: to which the function is bound.
        program: None for one that is not known yet.
        arrays: the arguments. wanted: how they shall lie, and the results.
        held: what the function closes over.

    Raises:
        BackendError: arguments are bound to other devices.
    """
    what, name = where
    found = assignment_for(program, name, arrays, wanted, held)
    if device is None or (found.committed and found.devices == (device,)):
        return found
    if found.committed:
        raise BackendError(
            f"{what}: {name} is bound to {device_name(device)}, "
            f"but an argument is committed to {', '.join(map(device_name, found.devices))}"
        )
    return Assignment((device,), True)


def planned(
    name: str, program: Program, held: Sequence[Array], wanted: Wanted | None, device: Device, bound: bool
) -> Assignment:
    """Returns where a staged function runs whose arguments are not there yet.

    Args:
        name: of the function, for errors.
        program: what was staged. held: what the function closes over.
        wanted: how arguments and results shall lie.
        device: where it runs if nothing else is said. bound: whether it is bound to that.
    """
    lie = any([type(x) is ConcreteArray and (is_spread(x) or memory_in(x) is not None) for x in held])
    if wanted is None and not places_in(program) and not lie:
        return assignment_on(program, device, bound)
    return assignment_for(program, name, (), wanted, held)
