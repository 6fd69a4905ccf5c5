"""Where arrays lie: the sharding classes that jaxlib's C++ asks for layouts.

Never: move data.
"""

from collections.abc import Sequence
from typing import final

from jaxlib import _jax
from jaxlib._hlo import HloSharding
from jaxlib._jax import Device

from effx.errors import BackendError
from effx.ir.types import Shape

__all__ = ["Device", "SingleDeviceSharding", "device_name", "device_of", "single"]


@final
class SingleDeviceSharding(_jax.SingleDeviceSharding):
    """The whole array on one device. There is one object a device, so identity is equality.

    C++ hashes it on every call, which a method of Python's would make five times as slow.
    """

    # jaxlib's C++ and the runtime read these names.
    is_fully_addressable = True
    is_fully_replicated = True
    num_devices = 1

    @property
    def memory_kind(self) -> str | None:
        """The kind of the device's memory; None for the default."""
        return self._memory_kind

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return (self._device,)

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return HloSharding.replicate()

    @property
    def device_set(self) -> set[Device]:
        """The one device."""
        return {self._device}

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of the part on each device: the whole."""
        return shape

    def is_equivalent_to(self, other: object, ndim: int) -> bool:
        """Says whether both lay an array out alike."""
        return isinstance(other, SingleDeviceSharding) and other._device == self._device

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r})"


_singles: dict[Device, SingleDeviceSharding] = {}


def single(device: Device) -> SingleDeviceSharding:
    """Returns the one sharding object of a device."""
    found = _singles.get(device)
    if found is None:
        found = _singles.setdefault(device, SingleDeviceSharding(device))
    return found


def device_name(device: Device) -> str:
    """Returns `cpu:0`; devices print themselves differently from version to version."""
    return f"{device.platform}:{device.id}"


def device_of(target: object) -> Device | None:
    """Returns the device that a user named by a device or a single-device sharding; None for None.

    Raises:
        BackendError: it is neither.
    """
    if target is None or isinstance(target, Device):
        return target
    if isinstance(target, SingleDeviceSharding):
        return target._device
    if isinstance(target, Sequence) and len(target) == 1:
        return device_of(target[0])
    raise BackendError(f"device_put: expected a device or a sharding, got {target!r}")
