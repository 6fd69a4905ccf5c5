# Guards against transfers between host and devices that nobody asked for.

from enum import Enum

class TransferGuardLevel(Enum):
    ALLOW = 0
    LOG = 1
    DISALLOW = 2
    LOG_EXPLICIT = 3
    DISALLOW_EXPLICIT = 4

class GarbageCollectionGuardLevel(Enum):
    ALLOW = 0
    LOG = 1
    FATAL = 2

class GuardState:
    host_to_device: TransferGuardLevel | None
    device_to_device: TransferGuardLevel | None
    device_to_host: TransferGuardLevel | None
    explicit_device_put: bool
    explicit_device_get: bool
    garbage_collect_array: GarbageCollectionGuardLevel | None

def global_state() -> GuardState: ...
def thread_local_state() -> GuardState: ...
def update_thread_guard_global_state(arg: bool, /) -> None: ...
