"""Buffers on several devices: their parts, and putting data on several devices."""

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast, final

import attrs
import numpy as np
from jaxlib import _jax
from jaxlib._jax import ArrayImpl, Device

from effx import dtypes
from effx.ir.meshes import PartitionSpec
from effx.ir.types import ArrayType, Shape, array_type
from effx.ir.values.array import HostData
from effx.lower.placement.backends import is_local
from effx.lower.placement.resharding import rearranged
from effx.lower.placement.shardings import (
    NamedSharding,
    Placement,
    Sharding,
    placement,
    sharding_of,
    single,
    tiling_of,
    typed,
)
from effx.lower.placement.tiling import Tiling

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Shard(Generic[T]):
    """The part of an array, or of a buffer, that lies on one device.

    Attributes:
        device: where it lies.
        sharding: how the whole array lies.
        global_shape: the shape of the whole.
        data: the part, as an array or a buffer of its own; None where another process holds it.
    """

    device: Device
    sharding: Sharding
    global_shape: Shape
    data: T = attrs.field(default=cast("T", None))

    @property
    def index(self) -> tuple[slice, ...]:
        """Which part of the whole it is."""
        return self._tiling.index(self._place, self.global_shape)

    @property
    def replica_id(self) -> int:
        """How many devices before this one hold the same part."""
        return self._tiling.replica(self._place)

    @property
    def _tiling(self) -> Tiling:
        sharding, ndim = self.sharding, len(self.global_shape)
        return (
            placement(sharding, ndim).tiling
            if isinstance(sharding, NamedSharding)
            else tiling_of(sharding, ndim)
        )

    @property
    def _place(self) -> int:
        return self.sharding.ordered_devices.index(self.device)


def parts_of(buffer: ArrayImpl, t: ArrayType) -> list[Shard[ArrayImpl]]:
    """Returns the parts of a buffer on the devices of this process, in the order of the devices."""
    lies = buffer._sharding
    if type(lies) is not Placement:
        alone = sharding_of(lies)
        return [Shard(alone.ordered_devices[0], alone, t.shape, buffer)]
    sharding = lies.sharding
    memory = sharding.other_memory
    part = t.with_shape(sharding.shard_shape(t.shape))
    with NoJax():
        buffers = buffer._arrays
    here = [d for d in sharding.ordered_devices if is_local(d)]
    return [
        Shard(d, sharding, t.shape, b._rewrap_with_aval_and_sharding(part, single(d, memory)))
        for b, d in zip(buffers, here, strict=True)
    ]


def parts_elsewhere(buffer: ArrayImpl, t: ArrayType) -> list[Shard[None]]:
    """Returns where the parts of a buffer lie that other processes hold."""
    lies = buffer._sharding
    if type(lies) is not Placement:
        return []
    sharding = lies.sharding
    return [Shard(d, sharding, t.shape, None) for d in sharding.ordered_devices if not is_local(d)]


def start_copies(buffer: ArrayImpl, t: ArrayType) -> None:
    """Starts the copies to the host on all devices."""
    for part in parts_of(buffer, t):
        # On a CPU the conversion is a view, and there is nothing to start.
        if part.device.platform != "cpu":
            with NoJax():
                part.data._copy_single_device_array_to_host_async()


class NoJax:
    """Keeps this thread from importing jax, which jaxlib does to give parts a type if it can; it need not."""

    __slots__ = ("thread",)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "jax" and threading.get_ident() == self.thread:
            raise ImportError("effx never imports jax")

    def __enter__(self) -> None:
        self.thread = threading.get_ident()
        if "jax._src.config" not in sys.modules:
            sys.meta_path.insert(0, self)

    def __exit__(self, *error: object) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def to_devices(
    t: ArrayType,
    sharding: "_jax.Sharding",
    values: Sequence[HostData | np.generic | ArrayImpl],
    devices: Sequence[Device],
    committed: bool,
) -> ArrayImpl:
    """Returns a buffer of a type made of parts, one for each device."""
    t = typed(t, sharding)
    if not dtypes.is_key(t.dtype):
        # The type is final: jaxlib would narrow 64-bit data by the setting of whoever set it last.
        return _jax.batched_device_put(t, sharding, list(values), list(devices), committed, enable_x64=True)
    # jaxlib knows no dtype of keys.
    storage = dtypes.key_storage(t.dtype)
    stored: list[HostData | np.generic | ArrayImpl] = [
        np.asarray(x, order="C").view(storage)
        if isinstance(x, np.ndarray | np.generic)
        else x._rewrap_with_aval_and_sharding(array_type(storage, x.aval.shape), x._sharding)
        for x in values
    ]
    whole = to_devices(array_type(storage, t.shape), sharding, stored, devices, committed)
    return whole._rewrap_with_aval_and_sharding(t, sharding)


def on_devices(
    buffer: ArrayImpl,
    t: ArrayType,
    read: Callable[[], HostData],
    cut: Callable[[ArrayImpl, tuple[slice, ...]], ArrayImpl],
    sharding: NamedSharding,
) -> ArrayImpl:
    """Returns a buffer on several devices, copying where it does not lie so already.

    Args:
        buffer, t: with its type.
        read: gives its elements on the host.
        cut: gives a part of a buffer on one device.
        sharding: how the result lies.

    Raises:
        ShardingError: an axis cannot be cut into equal parts.
    """
    wanted = placement(sharding, t.ndim)
    given = buffer._sharding
    if given is wanted:
        return buffer
    sharding.shard_shape(t.shape)  # raises
    devices = sharding.ordered_devices
    if type(given) is Placement:
        if given.is_like(wanted):
            return buffer._rewrap_with_aval_and_sharding(t, wanted)
        if given.sharding.ordered_devices == devices:
            return _rearranged(buffer, t, wanted)
    here = [(k, d) for k, d in enumerate(devices) if is_local(d)]
    indices = [wanted.tiling.index(k, t.shape) for k, _ in here]
    parts: list[HostData | np.generic | ArrayImpl]
    if devices[0].platform == "cpu":  # the host's memory is the devices'
        data = read()
        parts = [data[index] for index in indices]
    else:
        whole = on_one_device(buffer, t)
        parts = [whole if sharding.is_fully_replicated else cut(whole, index) for index in indices]
    return to_devices(t, wanted, parts, [d for _, d in here], True)


def _rearranged(buffer: ArrayImpl, t: ArrayType, wanted: Placement) -> ArrayImpl:
    """Returns an array that lies otherwise on the same devices; programs move parts within the default memory only."""
    given = cast("Placement", buffer._sharding).sharding
    target = wanted.sharding
    if given.other_memory is None and target.other_memory is None:
        return rearranged(buffer, t, wanted)
    plain = placement(given.with_memory_kind(None), t.ndim)
    goal = placement(target.with_memory_kind(None), t.ndim)
    if not plain.is_like(goal):
        buffer = rearranged(_in_memory(buffer, t, plain), t, goal)
    return _in_memory(buffer, t, wanted)


def _in_memory(buffer: ArrayImpl, t: ArrayType, wanted: Placement) -> ArrayImpl:
    """Returns an array with the same parts in another memory of the same devices."""
    if cast("Placement", buffer._sharding).is_like(wanted):
        return buffer._rewrap_with_aval_and_sharding(t, wanted)
    parts = parts_of(buffer, t)
    return to_devices(t, wanted, [p.data for p in parts], [p.device for p in parts], True)


def on_one_device(buffer: ArrayImpl, t: ArrayType) -> ArrayImpl:
    """Returns a buffer that one device of this process holds whole, gathered there if need be."""
    given = buffer._sharding
    if type(given) is not Placement:
        return buffer
    if not given.is_fully_replicated:
        everywhere = NamedSharding(given.sharding.mesh, PartitionSpec())
        buffer = _rearranged(buffer, t, placement(everywhere, t.ndim))
    return parts_of(buffer, t)[0].data
