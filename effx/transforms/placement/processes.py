"""List devices and processes, and print versions (`devices`, `process_index`, `print_environment_info`)."""

import platform
import sys

import numpy as np

from effx.errors import BackendError
from effx.lower.placement import backends
from effx.lower.placement.backends import jaxlib_version
from effx.lower.placement.shardings import Device
from effx.version import __version__

__all__ = [
    "device_count",
    "devices",
    "host_count",
    "host_id",
    "host_ids",
    "local_device_count",
    "local_devices",
    "print_environment_info",
    "process_count",
    "process_index",
    "process_indices",
]


def devices(backend: str | None = None) -> list[Device]:
    """Returns all devices of a platform, by default of the best one available.

    >>> import effx
    >>> len(effx.devices("cpu")) == effx.device_count("cpu")
    True
    """
    return backends.devices(backend)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """Returns the devices of a platform that belong to one process.

    Args:
        process_index: the process's number; None for this process.
        backend: the platform; None for the best one available.
        host_id: the old name of `process_index`.

    Raises:
        BackendError: there is no such process.

    >>> import effx
    >>> effx.local_devices(0) == effx.local_devices()
    True
    """
    which = process_index if host_id is None else host_id
    if which is None:
        return backends.local_devices(backend)
    if which not in process_indices(backend):
        raise BackendError(
            f"local_devices: process_index must be one of {process_indices(backend)}, got {which!r}"
        )
    return [d for d in backends.devices(backend) if d.process_index == which]


def device_count(backend: str | None = None) -> int:
    """Returns the number of devices of a platform.

    >>> import effx
    >>> effx.device_count() == len(effx.devices())
    True
    """
    return len(backends.devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Returns the number of devices of a platform that belong to this process.

    >>> import effx
    >>> effx.local_device_count() == len(effx.local_devices())
    True
    """
    return len(backends.local_devices(backend))


def process_index(backend: str | None = None) -> int:
    """Returns the index of this process, from 0.

    >>> import effx
    >>> effx.process_index()
    0
    """
    return backends.client(backend).process_index()


def process_indices(backend: str | None = None) -> list[int]:
    """Returns the indices of the processes that have devices of a platform.

    >>> import effx
    >>> effx.process_indices()
    [0]
    """
    return sorted({d.process_index for d in backends.devices(backend)})


def process_count(backend: str | None = None) -> int:
    """Returns the number of processes that have devices of a platform.

    >>> import effx
    >>> effx.process_count()
    1
    """
    return len(process_indices(backend))


def host_id(backend: str | None = None) -> int:
    """Returns `process_index()`; this is its old name.

    >>> import effx
    >>> effx.host_id()
    0
    """
    return process_index(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """Returns `process_indices()`; this is its old name.

    >>> import effx
    >>> effx.host_ids()
    [0]
    """
    return process_indices(backend)


def host_count(backend: str | None = None) -> int:
    """Returns `process_count()`; this is its old name.

    >>> import effx
    >>> effx.host_count()
    1
    """
    return process_count(backend)


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints the information a bug report needs: versions, devices, platform.

    Args:
        return_string: True to return the text and print nothing.

    >>> import effx
    >>> effx.print_environment_info(True).split()[0]
    'effx:'
    """
    all_devices = devices()
    text = "\n".join(
        [
            f"effx: {__version__}",
            f"jaxlib: {jaxlib_version()}",
            f"numpy: {np.__version__}",
            f"python: {sys.version.replace(chr(10), ' ')}",
            f"devices: {len(all_devices)} of {all_devices[0].device_kind} ({len(local_devices())} local)",
            f"processes: {process_count()}",
            f"platform: {platform.platform()}",
        ]
    )
    if return_string:
        return text
    print(text)  # noqa: T201  the point
    return None
