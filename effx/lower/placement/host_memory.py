"""The host's memory: what becomes of memory that arrays leave, and data that XLA uses without a copy of its own.

XLA:CPU allocates each result by malloc. glibc maps what is larger than 32 MB anew each time, and the kernel clears it
page by page: of 12.0 ms that `2 * x + 1` of 16 million floats took (two cores of an EPYC, 2026-11-28), 9.5 went to 15,626
page faults. Freed memory that the process keeps has its pages already.
"""

import ctypes
import os
import warnings
from typing import Final

import numpy as np

from effx.errors import BackendError
from effx.flags import HostMemory, host_memory
from effx.ir.values.described import HostData

__all__ = [
    "LEAST_BYTES_TO_SHARE",
    "copy_aligned",
    "is_shareable",
    "release_host_memory",
    "set_allocator_policy",
]

# Parameters of mallopt in glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
LARGEST_INT: Final = 2**31 - 1

# XLA:CPU copies data that is not aligned so.
ALIGNMENT: Final = 64
# Of 64 KB two copies take as long as one that is aligned, of 256 KB 1.3 times as long.
LEAST_BYTES_TO_SHARE: Final = 2**18


def is_shareable(data: HostData) -> bool:
    """Says whether XLA:CPU can use an array's memory as it is."""
    return data.flags.c_contiguous and data.ctypes.data % ALIGNMENT == 0


def copy_aligned(data: HostData) -> HostData:
    """Returns a copy that XLA:CPU uses without another one.

    From 4 MB on NumPy requests huge pages for it, which XLA does not: a copy of 64 MB takes 6.2 ms, XLA's own 23.
    """
    memory = np.empty(data.nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    copy = memory[start : start + data.nbytes].view(data.dtype).reshape(data.shape)
    copy[...] = data
    return copy


def set_allocator_policy() -> None:
    """Makes malloc keep what is freed, if `host_memory` says so. It serves threads that start later.

    Memory comes from one heap then: glibc gives threads heaps of 64 MB, and maps what does not fit in. It is one lock
    for all threads, and holes between small objects that live on keep a process larger than what it uses, so it is not
    the default: see docs/performance.md. Nor is a limit of 256 MB for what is kept at a heap's end: pieces of 16 to 32 MB
    are not mapped anew then, but training without donation took 1.3 to 1.8 times the memory.
    """
    _value_at_start.append(host_memory.value)
    if host_memory.value == "return":
        return
    libc = _find_glibc()
    if libc is None:
        warnings.warn(
            "host_memory: 'keep' needs the allocator of glibc, which this process does not use; memory is returned",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, LARGEST_INT)):
        libc.mallopt(parameter, value)


_value_at_start: list[HostMemory] = []  # once the CPU backend has started


def _check_unchanged_since_start(value: HostMemory) -> None:
    if _value_at_start and value != _value_at_start[0]:
        raise BackendError(
            f"host_memory: the CPU backend has started with {_value_at_start[0]!r}; set EFFX_HOST_MEMORY, or the flag "
            f"before anything is computed"
        )


host_memory.subscribe_global(_check_unchanged_since_start)


def release_host_memory() -> bool:
    """Gives the memory of arrays that are no more back to the system, and says whether there was any.

    The allocator keeps freed memory for the next array: up to 32 MB a piece, or all with
    `effx.config.update("host_memory", "keep")`. Call it before a pause, or before another process needs the memory.

    Returns:
        False as well where the C library is not glibc: nothing is done there.

    >>> import effx
    >>> effx.memory.release_host_memory() in (True, False)
    True
    """
    libc = _find_glibc()
    return libc is not None and bool(libc.malloc_trim(0))


def _find_glibc() -> ctypes.CDLL | None:
    try:
        is_glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError):  # Windows has no confstr, and other systems do not know the name
        return None
    return ctypes.CDLL(None) if is_glibc else None
