"""Where data lies, for pytrees: devices, moving to and from them, waiting.

Never: compile.
"""

from typing import Any, TypeVar

from effx.array import Array
from effx.lower import backends, concrete
from effx.lower.sharding import Device
from effx.tree import map as tree_map
from effx.tree.registry import PyTree, flatten

__all__ = [
    "block_until_ready",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "local_device_count",
    "local_devices",
]

T = TypeVar("T")


def devices(backend: str | None = None) -> list[Device]:
    """Returns all devices of a platform, by default of the best one there is.

    >>> import effx
    >>> len(effx.devices("cpu")) == effx.device_count("cpu")
    True
    """
    return backends.devices(backend)


def local_devices(backend: str | None = None) -> list[Device]:
    """Returns the devices of a platform that belong to this process."""
    return backends.local_devices(backend)


def device_count(backend: str | None = None) -> int:
    """Returns the number of devices of a platform."""
    return len(backends.devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Returns the number of devices of a platform that belong to this process."""
    return len(backends.local_devices(backend))


def device_put(x: PyTree, device: object = None) -> Any:
    """Moves the arrays of a pytree to a device.

    Args:
        x: arrays, numbers, or a pytree of them.
        device: a device or sharding; None for the default device, to which nothing is bound.

    Raises:
        DTypeError: a leaf is no array or number.

    >>> import effx
    >>> effx.device_put([1, 2.0])
    [Array(1, dtype=int32, weak_type=True), Array(2., dtype=float32, weak_type=True)]
    """
    return tree_map(lambda leaf: concrete.device_put(leaf, device), x)


def device_get(x: PyTree) -> Any:
    """Copies the arrays of a pytree to the host as NumPy arrays; what is no array stays.

    >>> import effx, effx.numpy as enp
    >>> effx.device_get({"a": enp.ones(2)})
    {'a': array([1., 1.], dtype=float32)}
    """
    leaves = flatten(x)[0]
    for leaf in leaves:
        if type(leaf) is concrete.ConcreteArray:
            leaf.copy_to_host_async()
    return tree_map(lambda leaf: leaf.host("device_get") if isinstance(leaf, Array) else leaf, x)


def block_until_ready(x: T) -> T:
    """Waits until the arrays of a pytree have been computed; returns the pytree.

    >>> import effx, effx.numpy as enp
    >>> effx.block_until_ready(enp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    concrete.block_until_ready(flatten(x)[0])
    return x
