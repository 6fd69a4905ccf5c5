"""Where arrays lie: shardings as users see them, and the objects that jaxlib's C++ keeps in buffers.

Never: move data.
"""

from collections.abc import Sequence
from typing import final

import attrs
from jaxlib import _jax, version
from jaxlib._hlo import HloSharding
from jaxlib._jax import Device

from effx.errors import BackendError
from effx.ir.types import Shape

__all__ = ["Device", "SingleDeviceSharding", "device_name", "device_of", "single"]


@final
@attrs.frozen
class SingleDeviceSharding:
    """The whole array on one device.

    Attributes:
        device: where the array is.
    """

    device: Device
    is_fully_addressable = True
    is_fully_replicated = True
    num_devices = 1

    @property
    def device_set(self) -> set[Device]:
        """The one device."""
        return {self.device}

    @property
    def memory_kind(self) -> str | None:
        """The kind of the device's memory."""
        return self.device.default_memory().kind

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of the part on each device: the whole."""
        return shape

    def is_equivalent_to(self, other: object, ndim: int) -> bool:
        """Says whether both lay an array out alike."""
        return isinstance(other, SingleDeviceSharding) and other.device == self.device


class _Asked(_jax.SingleDeviceSharding):
    """For jaxlib 0.10, whose C++ asks shardings in Python how they look."""

    is_fully_addressable = True
    is_fully_replicated = True

    @property
    def memory_kind(self) -> str | None:
        """The kind of the device's memory; None for the default."""
        return self._memory_kind

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return (self._device,)

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return HloSharding.replicate()


# jaxlib's own class where that will do: C++ knows it by identity, which is 0.1 us of a call.
_Single = _jax.SingleDeviceSharding if version.__version_info__ >= (0, 12) else _Asked
_singles: dict[Device, _jax.SingleDeviceSharding] = {}


def single(device: Device) -> _jax.SingleDeviceSharding:
    """Returns the one object with which buffers of a device are made."""
    found = _singles.get(device)
    if found is None:
        found = _singles.setdefault(device, _Single(device))
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
        return target.device
    if isinstance(target, Sequence) and len(target) == 1:
        return device_of(target[0])
    raise BackendError(f"device_put: expected a device or a sharding, got {target!r}")
