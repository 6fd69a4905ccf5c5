"""Clear caches before executables exhaust the process's memory maps, whose number Linux limits.

XLA ends the process where it cannot get another one.
"""

import gc
import threading
from pathlib import Path

from effx.caching import clear_caches, clear_kernels
from effx.errors import BackendError

__all__ = ["free_memory_maps"]

EACH = 50  # maps that one executable takes at most; 6 to 7 are usual
_lock = threading.RLock()  # an object that is cleared may compile again in its finalizer


def count_memory_maps() -> int:
    """Returns how many memory maps this process has; 0 where the system does not report it."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def memory_map_limit() -> int:
    """Returns how many memory maps a process may have; a number out of reach where the system does not report it."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 2**60


class MemoryMapBudget:
    """The budget of memory maps: when to count them next, and from which number on to clear caches.

    Attributes:
        most: the number of maps from which on the process is full.
        enough: the number of maps from which on caches are cleared.
        uncounted: how many more compilations need no count.
    """

    def __init__(self) -> None:
        self.most = memory_map_limit() * 9 // 10
        self.enough = self.most * 2 // 3
        self.uncounted = 0

    def clear_if_needed(self) -> None:
        """Clears the cache of kernels, and if that does not free enough, all caches.

        Raises:
            BackendError: executables that the program itself holds fill the process.
        """
        self.uncounted -= 1
        if self.uncounted > 0:
            return
        count = count_memory_maps()
        # All caches of one kind go: C++ finds programs without Python, so that what was used last is not
        # known, and clearing all was preferred to a clock in each call.
        for clear in (clear_kernels, clear_caches):
            if count > self.enough:
                clear()
                gc.collect()
                count = count_memory_maps()
        if count > self.enough:
            # The executables are still referenced and nothing more can be freed, so the next clearing is half the way
            # on.
            self.enough = (count + self.most) // 2
        if count > self.most:
            raise BackendError(
                f"compile: this process has {count} of the {memory_map_limit()} memory maps that the system gives it, "
                "nearly all "
                f"for compiled programs; drop some, or raise vm.max_map_count"
            )
        self.uncounted = max(min(self.enough, self.most) - count, 0) // EACH


_budget = MemoryMapBudget()


def free_memory_maps() -> None:
    """Clears caches where executables have taken nearly all memory maps of this process.

    Raises:
        BackendError: executables that the program itself holds fill the process.
    """
    with _lock:
        _budget.clear_if_needed()
