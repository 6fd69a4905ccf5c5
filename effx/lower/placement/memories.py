"""The memories of devices: the memory kinds of each device, and `Space`.

Memories are part of shardings, not of types. A buffer's memory is in the one object that it carries for its
sharding and rank, so C++ distinguishes memories as it does devices. A program takes an argument from the
memory in which it is, moves it to the default one first, and computes there. JAX has memories in types
instead, so that `x + y` of two memories is an error, and a sum of host arrays a host computation.
"""

import enum
from typing import final

import attrs
from jaxlib import _jax
from jaxlib._jax import Device

from effx.errors import ShardingError

__all__ = [
    "Memories",
    "Space",
    "default_memory_kind",
    "memory_kind_of_space",
    "nondefault_memory_kind",
    "resolve_memory_kind",
]


_USUAL = ["device", "pinned_host", "unpinned_host"]


@final
class MemorySpace(enum.Enum):
    """A memory that every platform has, whatever it calls it; `device_put` takes it in place of a sharding.

    Attributes:
        Device: the memory that computations use.
        Host: the host's memory, pinned so that the device can copy from it by itself.
        Any: no memory in particular; nothing can be put there.

    >>> import effx, effx.numpy as enp
    >>> x = effx.device_put(enp.ones(3), effx.memory.Space.Host)
    >>> x.sharding.memory_kind, float(x.sum())
    ('pinned_host', 3.0)
    """

    Device = 1
    Host = 2
    Any = 3

    def __repr__(self) -> str:
        return str(self)


Space = MemorySpace


@final
@attrs.frozen
class Memories:
    """The memory kinds of a program's inputs and outputs.

    Attributes:
        inputs, outputs: for each the kind; None for that of the default memory.
        usual: the kind of the default memory.
    """

    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    usual: str

    @property
    def has_other_memories(self) -> bool:
        """Whether any is not the default one."""
        return any(self.inputs) or any(self.outputs)


def device_name(device: Device) -> str:
    """Returns `cpu:0`; devices print themselves differently from version to version."""
    return f"{device.platform}:{device.id}"


def default_memory_kind(device: Device) -> str:
    """Returns the kind of the memory that computations of a device use."""
    try:
        return device.default_memory().kind
    except (
        _jax.JaxRuntimeError,
        AttributeError,
    ):  # a CPU that is not there, or what stands for one, does not say
        return "device"


def resolve_memory_kind(function_name: str, device: Device, kind: str | None) -> str:
    """Returns the kind of one of a device's memories; that of the default one for None.

    Raises:
        ShardingError: the device has no such memory.
    """
    default = default_memory_kind(device)
    if kind is None or kind == default:
        return default
    # The devices of a topology may say nothing.
    kinds = [m.kind for m in device.addressable_memories()] or _USUAL
    if kind not in kinds:
        raise ShardingError(
            f"{function_name}: {device_name(device)} has no memory of the kind {kind!r}; it has "
            f"{', '.join(map(repr, kinds))}"
        )
    return kind


def nondefault_memory_kind(device: Device, kind: str | None) -> str | None:
    """Returns a memory kind; None for the default one, named or not."""
    return None if kind is None or kind == default_memory_kind(device) else kind


def memory_kind_of_space(function_name: str, space: Space, device: Device) -> str:
    """Returns what a device calls one of the memories that all have.

    Raises:
        ShardingError: nothing can be put there, or the device cannot reach the host's memory.
    """
    if space is Space.Any:
        raise ShardingError(
            f"{function_name}: Space.Any is no memory in particular; give Space.Device or Space.Host"
        )
    return resolve_memory_kind(function_name, device, None if space is Space.Device else "pinned_host")
