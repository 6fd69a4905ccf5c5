"""The parts of arrays on several devices: reading them, putting them together, and spreading arrays out.

Never: compile.
"""

import sys
import threading
from collections.abc import Sequence
from typing import cast, final

import attrs
import numpy as np
from jaxlib import _jax
from jaxlib._jax import ArrayImpl, Device

from effx.array import Array
from effx.array.values import HostData
from effx.errors import ShapeError
from effx.ir.types import ArrayType
from effx.lower.concrete import ConcreteArray, buffer_on, put
from effx.lower.sharding import Placement, SingleDeviceSharding, TiledSharding, placement, single

__all__ = ["Shard", "assembled", "buffer_for", "joined", "on_devices", "shards_of", "start_copies"]


@final
@attrs.frozen(eq=False)
class Shard:
    """The part of an array that lies on one device.

    Attributes:
        data: the part, as an array of its own.
        device: where it lies.
        index: which part of the whole it is.
        replica_id: how many devices before this one hold the same part.
    """

    data: Array
    device: Device
    index: tuple[slice, ...]
    replica_id: int


def assembled(x: ConcreteArray) -> HostData:
    """Puts the parts of an array on several devices together on the host."""
    parts = shards_of(x)
    if x.buffer._sharding.is_fully_replicated:  # type: ignore[attr-defined]  # a Placement
        return parts[0].data.host("numpy.asarray(x)")
    whole = np.empty(x.type.shape, x.type.dtype)
    start_copies(x)
    for part in parts:
        if part.replica_id == 0:
            whole[part.index] = part.data.host("numpy.asarray(x)")
    whole.flags.writeable = False
    return whole


def shards_of(x: ConcreteArray) -> list[Shard]:
    """Returns the parts of an array, in the devices' order."""
    sharding, shape = x.sharding, x.type.shape
    if isinstance(sharding, SingleDeviceSharding):
        return [Shard(x, sharding.device, (slice(None),) * len(shape), 0)]
    t = x.type.with_shape(sharding.shard_shape(shape))
    with _NoJax():
        buffers = x.buffer._arrays
    return [
        Shard(
            ConcreteArray(b._rewrap_with_aval_and_sharding(t, single(d))),
            d,
            sharding.index(k, shape),
            sharding.replica(k),
        )
        for k, (b, d) in enumerate(zip(buffers, sharding.devices, strict=True))
    ]


def start_copies(x: ConcreteArray) -> None:
    """Starts the copies to the host on all devices."""
    for part in shards_of(x):
        # On a CPU the conversion is a view, and there is nothing to start.
        if part.device.platform != "cpu":
            with _NoJax():
                cast("ConcreteArray", part.data).buffer._copy_single_device_array_to_host_async()


class _NoJax:
    """Keeps this thread from importing jax, which jaxlib does to give parts a type if it can; it need not."""

    __slots__ = ("thread",)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "jax" and threading.get_ident() == self.thread:
            raise ImportError("effx never imports jax")

    def __enter__(self) -> None:
        self.thread = threading.get_ident()
        if "jax" not in sys.modules:
            sys.meta_path.insert(0, self)

    def __exit__(self, *error: object) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def on_devices(x: ConcreteArray, sharding: TiledSharding) -> ArrayImpl:
    """Returns the array's buffer on several devices, copying where it does not lie so already."""
    t = x.type
    wanted = placement(sharding, t.ndim)
    given = x.buffer._sharding
    if given is wanted:
        return x.buffer
    for i, axis in enumerate(sharding.cuts):
        if i >= t.ndim or t.shape[i] % sharding.grid[axis]:
            raise ShapeError(
                f"device_put: axis {i} of {t!r} cannot be cut into {sharding.grid[axis]} equal parts"
            )
    devices = list(sharding.devices)
    if type(given) is Placement and given.is_like(wanted):
        return x.buffer._rewrap_with_aval_and_sharding(t, wanted)
    data = x.host("move")
    parts = [data[sharding.index(k, t.shape)] for k in range(len(devices))]
    return _jax.batched_device_put(t, wanted, parts, devices, True, enable_x64=True)


def joined(t: ArrayType, sharding: TiledSharding, parts: Sequence[ConcreteArray]) -> ConcreteArray:
    """Makes one array of parts, one for each device, that lie there or are moved."""
    wanted = placement(sharding, t.ndim)
    devices = list(sharding.devices)
    part = t.with_shape(sharding.shard_shape(t.shape))
    if sharding.num_devices == 1:
        return put(parts[0].host("move").reshape(t.shape), t, devices[0])
    buffers = [p.host("move").reshape(part.shape) for p in parts]
    return ConcreteArray(_jax.batched_device_put(t, wanted, buffers, devices, True, enable_x64=True))


def buffer_for(x: ConcreteArray, sharding: "Device | TiledSharding") -> ArrayImpl:
    """Returns the array's buffer as a computation wants it, copying one that lies elsewhere."""
    return on_devices(x, sharding) if isinstance(sharding, TiledSharding) else buffer_on(x, sharding)
