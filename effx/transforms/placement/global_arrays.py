"""Make arrays sharded over several devices from their shards (`make_array_from_callback`)."""

from collections.abc import Callable, Sequence
from typing import Any

from effx.array import Array
from effx.array.promotion import as_operand
from effx.dtypes import canonicalize
from effx.errors import DTypeError, ShapeError, ShardingError
from effx.ir.types import ArrayType, Shape, array_type
from effx.lower.placement import concrete
from effx.lower.placement.backends import is_local
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.placement.shardings import (
    Device,
    Index,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    mesh_buffer_sharding,
)
from effx.lower.placement.shards import assemble_buffer

__all__ = [
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
]


def _check_sharding(function_name: str, sharding: object) -> NamedSharding | SingleDeviceSharding:
    if not isinstance(sharding, NamedSharding | SingleDeviceSharding):
        raise ShardingError(
            f"{function_name}: expected a NamedSharding or a SingleDeviceSharding, got {sharding!r} of type "
            f"{type(sharding).__name__}"
        )
    return sharding


def _local_devices(sharding: Sharding) -> list[tuple[int, Device]]:
    return [(k, d) for k, d in enumerate(sharding.ordered_devices) if is_local(d)]


def _assemble_array(
    function_name: str, t: ArrayType, sharding: NamedSharding | SingleDeviceSharding, parts: Sequence[Array]
) -> Array:
    """Returns the array made of one shard for each device of this process."""
    part = t.with_shape(sharding.shard_shape(t.shape))
    local_devices = [d for _, d in _local_devices(sharding)]
    if len(parts) != len(local_devices):
        raise ShapeError(
            f"{function_name}: {t!r} on {len(local_devices)} devices of this process needs as many parts, got {len(parts)}"
        )
    for x, d in zip(parts, local_devices, strict=True):
        if not x.type.matches(part):
            raise ShapeError(
                f"{function_name}: the part of {t!r} on {d.platform}:{d.id} is {part!r}, got {x.type!r}"
            )
    if isinstance(sharding, SingleDeviceSharding):
        return concrete.device_put(parts[0], sharding)
    kind = sharding.memory_kind
    device_shardings = [SingleDeviceSharding(d, memory_kind=kind) for d in local_devices]
    raw_buffers = [
        concrete.buffer_for(concrete.to_concrete(concrete.device_put(x, device_sharding)), device_sharding)
        for x, device_sharding in zip(parts, device_shardings, strict=True)
    ]
    return ConcreteArray(
        assemble_buffer(t.strong(), mesh_buffer_sharding(sharding, t.ndim), raw_buffers, local_devices, True)
    )


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[Index], Any],
    dtype: Any = None,
) -> Array:
    """Makes an array from a callback that returns each device's part.

    Args:
        shape: the shape of the whole array.
        sharding: its sharding.
        data_callback: returns the part at an index, a tuple of slices; called once for each part on devices of this
            process.
        dtype: the array's dtype; by default that of the parts.

    Raises:
        ShardingError: an array of this shape cannot be sharded so.
        ShapeError: a part has a wrong shape.
        DTypeError: the parts' dtypes differ, or differ from `dtype`.

    >>> import effx, numpy as np
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(effx.make_mesh((1,), ("data",)), P("data"))
    >>> effx.make_array_from_callback((4,), rows, lambda index: np.arange(4)[index])
    Array([0, 1, 2, 3], dtype=int32)
    """
    function_name = "make_array_from_callback"
    target, sizes = _check_sharding(function_name, sharding), tuple(shape)
    target.shard_shape(sizes)
    parts_by_index: dict[str, Array] = {}
    parts: list[Array] = []
    for k, _ in _local_devices(target):
        index = target.index(k, sizes)
        part = parts_by_index.get(str(index))
        if part is None:
            part = parts_by_index[str(index)] = as_operand(data_callback(index))
        parts.append(part)
    if not parts and dtype is None:
        raise DTypeError(f"{function_name}: this process has no part, so that dtype must be given")
    element_dtype = parts[0].type.dtype if dtype is None else canonicalize(dtype)
    for x in parts:
        if x.type.dtype != element_dtype:
            raise DTypeError(f"{function_name}: parts must be of dtype {element_dtype}, got {x.type!r}")
    return _assemble_array(function_name, array_type(element_dtype, sizes), target, parts)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """Makes an array from parts that are on their devices already; nothing is copied.

    Args:
        shape: the shape of the whole array.
        sharding: its sharding.
        arrays: the parts on the devices of this process, in any order, each committed to its device.
        dtype: the array's dtype, needed if this process has no part.

    Raises:
        ShardingError: an array of this shape cannot be sharded so, or the parts are on other devices.
        ShapeError: a part has a wrong shape, or the number of parts is wrong.
        DTypeError: the parts' dtypes differ.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> part = effx.device_put(enp.arange(3), effx.devices()[0])
    >>> effx.make_array_from_single_device_arrays((3,), NamedSharding(mesh, P("data")), [part])
    Array([0, 1, 2], dtype=int32)
    """
    function_name = "make_array_from_single_device_arrays"
    target, sizes = _check_sharding(function_name, sharding), tuple(shape)
    by_device: dict[Device, Array] = {}
    for x in arrays:
        if not isinstance(x, ConcreteArray) or concrete.is_on_several_devices(x):
            raise ShardingError(f"{function_name}: each part must be an array on one device, got {x!r}")
        x._check_alive(function_name)
        by_device[x.device] = x
    local_devices = [d for _, d in _local_devices(target)]
    missing = [d for d in local_devices if d not in by_device]
    if missing or len(by_device) != len(local_devices) or len(by_device) != len(arrays):
        shown = ", ".join([f"{d.platform}:{d.id}" for d in local_devices])
        raise ShardingError(f"{function_name}: one part must be on each of {shown}, got {len(arrays)} parts")
    parts = [by_device[d] for d in local_devices]
    if not parts and dtype is None:
        raise DTypeError(f"{function_name}: this process has no part, so that dtype must be given")
    element_dtype = canonicalize(dtype) if not parts else parts[0].type.dtype
    for x in parts:
        if x.type.dtype != element_dtype:
            raise DTypeError(
                f"{function_name}: parts must be of one dtype, got {element_dtype} and {x.type!r}"
            )
    return _assemble_array(function_name, array_type(element_dtype, sizes), target, parts)


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Sequence[int] | None = None
) -> Array:
    """Makes an array from the data that each process has.

    Args:
        sharding: the sharding of the whole array.
        local_data: the data of this process: along each axis the parts of its devices in order, or the whole axis.
        global_shape: the shape of the whole array; by default processes have different parts along sharded axes.

    Raises:
        ShardingError: an array of this shape cannot be sharded so.
        ShapeError: along an axis, `local_data` has neither the size of this process's parts nor of the whole.

    >>> import effx, numpy as np
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(effx.make_mesh((1,), ("data",)), P("data"))
    >>> effx.make_array_from_process_local_data(rows, np.ones((2, 2), np.float32)).shape
    (2, 2)
    """
    function_name = "make_array_from_process_local_data"
    target, data = (
        _check_sharding(function_name, sharding),
        as_operand(local_data).host(function_name),
    )
    all_blocks = _blocks(target, data.ndim, range(target.num_devices))
    local_blocks = _blocks(target, data.ndim, [k for k, _ in _local_devices(target)])
    if global_shape is None:
        sizes: Shape = tuple(
            [
                n * len(all_) // max(len(blocks), 1)
                for n, all_, blocks in zip(data.shape, all_blocks, local_blocks, strict=True)
            ]
        )
    else:
        sizes = tuple(global_shape)
    part = target.shard_shape(sizes)
    if len(sizes) != data.ndim:
        raise ShapeError(
            f"{function_name}: global_shape {sizes} has {len(sizes)} axes, local_data {data.ndim}"
        )
    for i, (n, total, blocks, k) in enumerate(zip(data.shape, sizes, local_blocks, part, strict=True)):
        if n not in (total, len(blocks) * k):
            raise ShapeError(
                f"{function_name}: axis {i} of local_data has size {n}; this process has {len(blocks) * k} of the "
                f"{total} there are"
            )

    def local_block(index: Index) -> Any:
        slices: list[slice] = []
        for s, n, total, blocks, k in zip(index, data.shape, sizes, local_blocks, part, strict=True):
            start, stop, _ = s.indices(total)
            offset = start if n == total or not k else blocks.index(start // k) * k
            slices.append(slice(offset, offset + stop - start))
        return data[tuple(slices)]

    return make_array_from_callback(sizes, target, local_block, data.dtype)


def _blocks(
    sharding: NamedSharding | SingleDeviceSharding, ndim: int, device_numbers: Sequence[int]
) -> list[list[int]]:
    """Returns for each array axis the indices of the blocks that these devices hold."""
    if isinstance(sharding, SingleDeviceSharding):
        return [[0]] * ndim
    tiling = sharding.tiling(ndim)
    indices = [
        tiling.index(k, tiling.parts) for k in device_numbers
    ]  # indices into an array with one element per block
    return [
        sorted({s[i].indices(n)[0] for s in indices}) if n > 1 else [0] for i, n in enumerate(tiling.parts)
    ]
