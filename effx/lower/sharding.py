"""Where arrays lie: shardings as users see them, and the objects that jaxlib's C++ keeps in buffers."""

import math
from collections.abc import Sequence
from functools import cache
from typing import final

import attrs
from jaxlib import _jax, version
from jaxlib._hlo import HloSharding, OpSharding_Type
from jaxlib._jax import Device

from effx.errors import BackendError
from effx.ir.types import Shape

__all__ = [
    "Device",
    "Placement",
    "SingleDeviceSharding",
    "TiledSharding",
    "device_name",
    "device_of",
    "placement",
    "sharding_of",
    "single",
]


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

    def devices_indices_map(self, shape: Shape) -> dict[Device, tuple[slice, ...]]:
        """Returns for each device which part of an array of this shape it holds: the whole."""
        return {self.device: (slice(None),) * len(shape)}

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


@final
@attrs.frozen
class TiledSharding:
    """An array cut into equal parts that lie on several devices.

    The devices form a grid. Each of the array's first axes is cut along one axis of the grid; along the
    grid's other axes the parts are repeated.

    Attributes:
        devices: all devices of the grid, the last axis fastest.
        grid: the grid's sizes.
        cuts: for each of the array's first axes the axis of the grid along which it is cut.
    """

    devices: tuple[Device, ...]
    grid: tuple[int, ...]
    cuts: tuple[int, ...] = ()
    is_fully_addressable = True

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return all([self.grid[a] == 1 for a in self.cuts])

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.devices)

    @property
    def device_set(self) -> set[Device]:
        """The devices."""
        return set(self.devices)

    @property
    def memory_kind(self) -> str | None:
        """The kind of the devices' memory."""
        return self.devices[0].default_memory().kind

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of the part on each device."""
        return (*[shape[i] // self.grid[a] for i, a in enumerate(self.cuts)], *shape[len(self.cuts) :])

    def coordinates(self, k: int) -> tuple[int, ...]:
        """Returns the k-th device's coordinates in the grid."""
        found: list[int] = []
        for n in reversed(self.grid):
            found.append(k % n)
            k //= n
        return tuple(reversed(found))

    def index(self, k: int, shape: Shape) -> tuple[slice, ...]:
        """Returns which part of an array of this shape the k-th device holds."""
        at, part = self.coordinates(k), self.shard_shape(shape)
        cut = [slice(at[a] * part[i], (at[a] + 1) * part[i]) for i, a in enumerate(self.cuts)]
        return (*cut, *[slice(None)] * (len(shape) - len(cut)))

    def replica(self, k: int) -> int:
        """Counts the devices before the k-th that hold the same part."""
        count = 0
        for axis, i in enumerate(self.coordinates(k)):
            if axis not in self.cuts:
                count = count * self.grid[axis] + i
        return count

    def devices_indices_map(self, shape: Shape) -> dict[Device, tuple[slice, ...]]:
        """Returns for each device which part of an array of this shape it holds."""
        return {d: self.index(k, shape) for k, d in enumerate(self.devices)}

    def is_equivalent_to(self, other: object, ndim: int) -> bool:
        """Says whether both lay an array out alike."""
        if not isinstance(other, TiledSharding):
            return False
        return placement(self, ndim).is_like(placement(other, ndim))


@final
class Placement(_jax.GSPMDSharding):
    """What buffers of an array on several devices carry: jaxlib's form of a `TiledSharding` for one rank.

    There is one object for each sharding and rank, so that C++ compares them by identity.
    """

    is_fully_addressable = True

    def __init__(self, sharding: TiledSharding, ndim: int) -> None:
        super().__init__(_jax.DeviceList(sharding.devices), _hlo(sharding, ndim))
        self.sharding = sharding

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self.sharding.is_fully_replicated

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.sharding.devices)

    @property
    def memory_kind(self) -> str | None:
        """The kind of the devices' memory; None for the default."""
        return self._memory_kind

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return self.sharding.devices

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return self._hlo_sharding

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of the part on each device."""
        return self.sharding.shard_shape(shape)

    def is_like(self, other: "Placement") -> bool:
        """Says whether both lay an array out alike."""
        return self is other or (
            self.sharding.devices == other.sharding.devices and self._hlo_sharding == other._hlo_sharding
        )


def sharding_of(held: _jax.Sharding) -> SingleDeviceSharding | TiledSharding:
    """Returns the sharding, as users see it, that jaxlib's C++ holds."""
    if isinstance(held, Placement):
        return held.sharding
    assert isinstance(held, _jax.SingleDeviceSharding)
    return SingleDeviceSharding(held._device)


def _hlo(sharding: TiledSharding, ndim: int) -> HloSharding:
    grid, cuts = sharding.grid, sharding.cuts
    rest = [a for a in range(len(grid)) if a not in cuts]
    copies = math.prod([grid[a] for a in rest])
    if sharding.is_fully_replicated:
        return HloSharding.replicate()
    dims = [*[grid[a] for a in cuts], *[1] * (ndim - len(cuts))]
    subgroups = [] if copies == 1 else [OpSharding_Type.REPLICATED]
    return HloSharding.iota_tile([*dims, *[copies] * len(subgroups)], grid, [*cuts, *rest], subgroups)


@cache
def placement(sharding: TiledSharding, ndim: int) -> Placement:
    """Returns the one object with which buffers of arrays with this many axes are made."""
    return Placement(sharding, ndim)


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
