"""Buffers on several devices: their shards, and how they are assembled, resharded and gathered."""

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
from effx.lower.placement.key_storage import check_keys_for_tpu
from effx.lower.placement.resharding import reshard_buffer, restore_default_layout
from effx.lower.placement.shardings import (
    BufferSharding,
    Format,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    make_buffer_sharding,
    mesh_buffer_sharding,
    single_device_buffer_sharding,
    tiling_of,
    type_with_sharding,
    user_sharding,
)
from effx.lower.placement.tiling import Tiling

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Shard(Generic[T]):
    """The part of an array, or of a buffer, on one device.

    Attributes:
        device: the one that holds it.
        sharding: the sharding of the whole array.
        global_shape: the shape of the whole array.
        data: the part, as an array or a buffer of its own; None where another process holds it.

    >>> import effx.numpy as enp
    >>> shard, = enp.array([1.0, 2.0]).addressable_shards
    >>> print(shard.data, shard.index, shard.replica_id)
    [1. 2.] (slice(None, None, None),) 0
    """

    device: Device
    sharding: Sharding
    global_shape: Shape
    data: T = attrs.field(default=cast("T", None))

    @property
    def index(self) -> tuple[slice, ...]:
        """The index of the shard in the whole array."""
        return self._tiling.index(self._device_index, self.global_shape)

    @property
    def replica_id(self) -> int:
        """The number of devices before this one that hold the same part."""
        return self._tiling.replica(self._device_index)

    @property
    def _tiling(self) -> Tiling:
        sharding, ndim = self.sharding, len(self.global_shape)
        return (
            mesh_buffer_sharding(sharding, ndim).tiling
            if isinstance(sharding, NamedSharding)
            else tiling_of(sharding, ndim)
        )

    @property
    def _device_index(self) -> int:
        return self.sharding.ordered_devices.index(self.device)


def addressable_parts(buffer: ArrayImpl, t: ArrayType) -> list[Shard[ArrayImpl]]:
    """Returns the parts of a buffer on the devices of this process, in the order of the devices."""
    buffer_sharding = buffer._sharding
    if type(buffer_sharding) is not BufferSharding or not buffer_sharding.is_on_mesh:
        single_sharding = user_sharding(buffer_sharding)
        return [Shard(single_sharding.ordered_devices[0], single_sharding, t.shape, buffer)]
    sharding = buffer_sharding.sharding
    memory = sharding.nondefault_memory
    part = t.with_shape(sharding.shard_shape(t.shape))
    with JaxImportBlocker():
        buffers = buffer._arrays
    local_devices = [d for d in sharding.ordered_devices if is_local(d)]
    return [
        Shard(
            d,
            sharding,
            t.shape,
            b._rewrap_with_aval_and_sharding(
                part,
                single_device_buffer_sharding(d, memory)
                if buffer_sharding.layout is None
                else make_buffer_sharding(
                    Format(buffer_sharding.layout, SingleDeviceSharding(d, memory_kind=memory)), t.ndim
                ),
            ),
        )
        for b, d in zip(buffers, local_devices, strict=True)
    ]


def remote_parts(buffer: ArrayImpl, t: ArrayType) -> list[Shard[None]]:
    """Returns the shards of a buffer that other processes hold, without data."""
    sharding = user_sharding(buffer._sharding)
    if isinstance(sharding, SingleDeviceSharding):
        return []
    return [Shard(d, sharding, t.shape, None) for d in sharding.ordered_devices if not is_local(d)]


def start_host_copies(buffer: ArrayImpl, t: ArrayType) -> None:
    """Starts the copies to the host on all devices."""
    for part in addressable_parts(buffer, t):
        # On a CPU the conversion is a view, and there is nothing to start.
        if part.device.platform != "cpu":
            with JaxImportBlocker():
                part.data._copy_single_device_array_to_host_async()


class JaxImportBlocker:
    """Keeps this thread from importing jax: jaxlib tries that to give shards a type, and does without."""

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


def assemble_buffer(
    t: ArrayType,
    sharding: "_jax.Sharding",
    values: Sequence[HostData | np.generic | ArrayImpl],
    devices: Sequence[Device],
    committed: bool,
) -> ArrayImpl:
    """Returns a buffer of a type that is assembled of parts, one for each device.

    Raises:
        BackendError: TPUs do not store elements of the type.
    """
    t = type_with_sharding(t, sharding)
    if not dtypes.is_stored_as_other(t.dtype):
        # The type is final: jaxlib would narrow 64-bit data by its own global setting.
        return _jax.batched_device_put(t, sharding, list(values), list(devices), committed, enable_x64=True)
    if devices and devices[0].platform == "tpu":
        check_keys_for_tpu([t])
    # jaxlib has neither keys nor float0.
    storage = dtypes.storage(t.dtype)
    stored: list[HostData | np.generic | ArrayImpl] = [
        _as_stored(np.asarray(x, order="C"), storage)
        if isinstance(x, np.ndarray | np.generic)
        else x._rewrap_with_aval_and_sharding(array_type(storage, x.aval.shape), x._sharding)
        for x in values
    ]
    storage_buffer = assemble_buffer(array_type(storage, t.shape), sharding, stored, devices, committed)
    return storage_buffer._rewrap_with_aval_and_sharding(t, sharding)


def _as_stored(value: HostData, storage: dtypes.DType) -> HostData:
    return np.zeros(value.shape, storage) if value.dtype == dtypes.float0 else value.view(storage)


def reshard_to_mesh(
    buffer: ArrayImpl,
    t: ArrayType,
    read: Callable[[], HostData],
    slice_part: Callable[[ArrayImpl, tuple[slice, ...]], ArrayImpl],
    sharding: NamedSharding,
) -> ArrayImpl:
    """Returns a buffer with a sharding over a mesh, copied where it has another one.

    Args:
        buffer, t: the buffer and its type.
        read: returns its elements on the host.
        slice_part: returns a part of a buffer on one device.
        sharding: the sharding of the result.

    Raises:
        ShardingError: an axis cannot be split into equal parts.
    """
    target = mesh_buffer_sharding(sharding, t.ndim)
    if buffer._sharding is target:
        return buffer
    buffer = restore_default_layout(buffer, t)
    current = buffer._sharding
    sharding.shard_shape(t.shape)  # raises
    devices = sharding.ordered_devices
    if type(current) is BufferSharding:
        if current.is_like(target):
            return buffer._rewrap_with_aval_and_sharding(type_with_sharding(t, target), target)
        if current.sharding.ordered_devices == devices:
            return _reshard_with_memories(buffer, t, target)
    if sharding.spec.unreduced:  # a term for each device, of which all but the first are zero
        buffer = reshard_to_mesh(buffer, t, read, slice_part, sharding.without_unreduced())
        return _reshard_with_memories(buffer, t, target)
    local_devices = [(k, d) for k, d in enumerate(devices) if is_local(d)]
    indices = [target.tiling.index(k, t.shape) for k, _ in local_devices]
    parts: list[HostData | np.generic | ArrayImpl]
    if devices[0].platform == "cpu":  # devices of a CPU use the host's memory
        data = read()
        parts = [data[index] for index in indices]
    else:
        full_buffer = gather_on_one_device(buffer, t)
        parts = [
            full_buffer if sharding.is_fully_replicated else slice_part(full_buffer, index)
            for index in indices
        ]
    return assemble_buffer(t, target, parts, [d for _, d in local_devices], True)


def _reshard_with_memories(buffer: ArrayImpl, t: ArrayType, result_sharding: BufferSharding) -> ArrayImpl:
    """Returns a buffer with another sharding over the same devices; programs reshard in the default memory only."""
    source = cast("NamedSharding", cast("BufferSharding", buffer._sharding).sharding)
    target = cast("NamedSharding", result_sharding.sharding)
    if source.spec.unreduced - target.spec.unreduced and target.spec.unreduced - source.spec.unreduced:
        # Shardy takes sums or leaves them, not both at once.
        reduced = mesh_buffer_sharding(source.without_unreduced(), t.ndim)
        return _reshard_with_memories(_reshard_with_memories(buffer, t, reduced), t, result_sharding)
    if source.nondefault_memory is None and target.nondefault_memory is None:
        return reshard_buffer(buffer, t, result_sharding)
    # XLA's partitioner moves parts within the default memory only, so other arrays are resharded by way of
    # it.
    default_source = mesh_buffer_sharding(source.with_memory_kind(None), t.ndim)
    default_target = mesh_buffer_sharding(target.with_memory_kind(None), t.ndim)
    if not default_source.is_like(default_target):
        buffer = reshard_buffer(_move_to_memory(buffer, t, default_source), t, default_target)
    return _move_to_memory(buffer, t, result_sharding)


def _move_to_memory(buffer: ArrayImpl, t: ArrayType, target: BufferSharding) -> ArrayImpl:
    """Returns a buffer with the same shards in another memory of the same devices."""
    if cast("BufferSharding", buffer._sharding).is_like(target):
        return buffer._rewrap_with_aval_and_sharding(type_with_sharding(t, target), target)
    parts = addressable_parts(buffer, t)
    return assemble_buffer(t, target, [p.data for p in parts], [p.device for p in parts], True)


def gather_on_one_device(buffer: ArrayImpl, t: ArrayType) -> ArrayImpl:
    """Returns a buffer with the whole array on one device of this process, row by row, gathered if necessary."""
    buffer = restore_default_layout(buffer, t)
    current = buffer._sharding
    if type(current) is not BufferSharding:
        return buffer
    if not current.is_fully_replicated:
        replicated = NamedSharding(cast("NamedSharding", current.sharding).mesh, PartitionSpec())
        buffer = _reshard_with_memories(buffer, t, mesh_buffer_sharding(replicated, t.ndim))
    return addressable_parts(buffer, t)[0].data
