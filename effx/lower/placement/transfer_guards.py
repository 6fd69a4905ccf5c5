"""Guards of debugging flags at run time, against transfers between host and devices, runs of programs, arrays left to
the garbage collector, and programs of several processes that threads run in any order.
"""

import logging

from jaxlib._jax import guard_lib

from effx.errors import BackendError, active_source, source_of
from effx.flag_values import CollectionGuard, TransferGuard
from effx.flags import (
    Flag,
    array_garbage_collection_guard,
    debug_key_reuse,
    no_execution,
    overrides,
    thread_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from effx.ir.types import ArrayType

__all__ = [
    "check_execution",
    "guard_device_to_device",
    "guard_to_device",
    "guard_to_host",
    "has_active_guards",
]

_log = logging.getLogger("effx")
_GUARDS = (transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host)


# jaxlib itself reads these two: for arrays that the collector frees, and for the thread that runs a program of several
# processes.
_LEVELS = {
    "allow": guard_lib.GarbageCollectionGuardLevel.ALLOW,
    "log": guard_lib.GarbageCollectionGuardLevel.LOG,
    "fatal": guard_lib.GarbageCollectionGuardLevel.FATAL,
}


def _on_collection_guard(level: CollectionGuard) -> None:
    guard_lib.global_state().garbage_collect_array = _LEVELS[level]


def _on_collection_override(level: CollectionGuard) -> None:
    overridden = array_garbage_collection_guard in (overrides() or ())
    guard_lib.thread_local_state().garbage_collect_array = _LEVELS[level] if overridden else None


_guarded = [False]


def _on_thread_guard(on: bool) -> None:
    if on != _guarded[0]:  # set again by another thread, it stays with the first
        guard_lib.update_thread_guard_global_state(on)
        _guarded[0] = on


if array_garbage_collection_guard.value != "allow":
    _on_collection_guard(array_garbage_collection_guard.value)
array_garbage_collection_guard.subscribe_global(_on_collection_guard)
array_garbage_collection_guard.subscribe(_on_collection_override)
_on_thread_guard(thread_guard.value)
thread_guard.subscribe(_on_thread_guard)


def has_active_guards() -> bool:
    """Says whether a flag is on for which each call must go through Python."""
    return no_execution.value or debug_key_reuse.value or any([flag.value != "allow" for flag in _GUARDS])


def check_execution(name: str) -> None:
    """Raises an error where `no_execution` is on, before a program runs.

    Raises:
        BackendError: it is.
    """
    if no_execution.value:
        raise BackendError(f"{name}: no_execution is on, and running a program is refused")


def _check_transfer(
    flag: Flag[TransferGuard], function_name: str, t: ArrayType, way: str, explicit: bool
) -> None:
    level = flag.value
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    kind = "explicit" if explicit else "implicit"
    if level.startswith("log"):
        source = active_source.get()
        at = "" if source is None else f" at {source_of(source)}"
        _log.warning("%s: %s transfer of %r %s%s", function_name, kind, t, way, at)
        return
    advice = "" if explicit else "; say it with device_put or device_get"
    raise BackendError(
        f"{function_name}: {kind} transfer of {t!r} {way}, but {flag.name} is {level!r}{advice}"
    )


def guard_to_device(function_name: str, t: ArrayType, explicit: bool = False) -> None:
    """Checks a transfer from the host to a device against its guard.

    Args:
        function_name: the function that moves the data, for errors.
        t: their type.
        explicit: True where the user called for the transfer.

    Raises:
        BackendError: `transfer_guard_host_to_device` forbids it.
    """
    _check_transfer(transfer_guard_host_to_device, function_name, t, "from the host to a device", explicit)


def guard_device_to_device(function_name: str, t: ArrayType, explicit: bool = False) -> None:
    """Checks a transfer between devices, as `guard_to_device` does."""
    _check_transfer(transfer_guard_device_to_device, function_name, t, "between devices", explicit)


def guard_to_host(function_name: str, t: ArrayType, explicit: bool = False) -> None:
    """Checks a transfer from a device to the host, as `guard_to_device` does."""
    _check_transfer(transfer_guard_device_to_host, function_name, t, "from a device to the host", explicit)
