"""Arrays on several devices made of their parts."""

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
    placement,
)
from effx.lower.placement.shards import to_devices

__all__ = [
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
]


def _checked(what: str, sharding: object) -> NamedSharding | SingleDeviceSharding:
    if not isinstance(sharding, NamedSharding | SingleDeviceSharding):
        raise ShardingError(
            f"{what}: expected a NamedSharding or a SingleDeviceSharding, got {sharding!r} of type {type(sharding).__name__}"
        )
    return sharding


def _local(sharding: Sharding) -> list[tuple[int, Device]]:
    return [(k, d) for k, d in enumerate(sharding.ordered_devices) if is_local(d)]


def _made(
    what: str, t: ArrayType, sharding: NamedSharding | SingleDeviceSharding, parts: Sequence[Array]
) -> Array:
    """Returns the array of parts, one for each device of this process."""
    part = t.with_shape(sharding.shard_shape(t.shape))
    here = [d for _, d in _local(sharding)]
    if len(parts) != len(here):
        raise ShapeError(
            f"{what}: {t!r} on {len(here)} devices of this process needs as many parts, got {len(parts)}"
        )
    for x, d in zip(parts, here, strict=True):
        if not x.type.matches(part):
            raise ShapeError(f"{what}: the part of {t!r} on {d.platform}:{d.id} is {part!r}, got {x.type!r}")
    if isinstance(sharding, SingleDeviceSharding):
        return concrete.device_put(parts[0], sharding)
    kind = sharding.memory_kind
    places = [SingleDeviceSharding(d, memory_kind=kind) for d in here]
    buffers = [concrete.as_concrete(concrete.device_put(x, at)) for x, at in zip(parts, places, strict=True)]
    held = [b.buffer for b in buffers]
    return ConcreteArray(to_devices(t.strong(), placement(sharding, t.ndim), held, here, True))


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[Index], Any],
    dtype: Any = None,
) -> Array:
    """Makes an array by asking for each device's part of it.

    Args:
        shape: of the whole array.
        sharding: how it lies.
        data_callback: gives the part for an index, a tuple of slices; called once for each part that lies on devices of this
            process.
        dtype: of the array; that of the parts by default.

    Raises:
        ShardingError: an array of this shape cannot be cut so.
        ShapeError: a part is of another shape.
        DTypeError: parts have different dtypes, or another one than `dtype`.

    >>> import effx, numpy as np
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(effx.make_mesh((1,), ("data",)), P("data"))
    >>> effx.make_array_from_callback((4,), rows, lambda index: np.arange(4)[index])
    Array([0, 1, 2, 3], dtype=int32)
    """
    what = "make_array_from_callback"
    wanted, sizes = _checked(what, sharding), tuple(shape)
    wanted.shard_shape(sizes)
    seen: dict[str, Array] = {}
    parts: list[Array] = []
    for k, _ in _local(wanted):
        index = wanted.index(k, sizes)
        found = seen.get(str(index))
        if found is None:
            found = seen[str(index)] = as_operand(data_callback(index), what)
        parts.append(found)
    if not parts and dtype is None:
        raise DTypeError(f"{what}: this process has no part, so that dtype must be given")
    given = parts[0].type.dtype if dtype is None else canonicalize(dtype)
    for x in parts:
        if x.type.dtype != given:
            raise DTypeError(f"{what}: parts must be of dtype {given}, got {x.type!r}")
    return _made(what, array_type(given, sizes), wanted, parts)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """Makes an array of parts that lie on their devices already; nothing is copied.

    Args:
        shape: of the whole array.
        sharding: how it lies.
        arrays: the parts on the devices of this process, in any order, each committed to its device.
        dtype: of the array, where this process has no part.

    Raises:
        ShardingError: an array of this shape cannot be cut so, or the parts lie on other devices.
        ShapeError: a part is of another shape, or there are more or fewer.
        DTypeError: the parts have different dtypes.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> part = effx.device_put(enp.arange(3), effx.devices()[0])
    >>> effx.make_array_from_single_device_arrays((3,), NamedSharding(mesh, P("data")), [part])
    Array([0, 1, 2], dtype=int32)
    """
    what = "make_array_from_single_device_arrays"
    wanted, sizes = _checked(what, sharding), tuple(shape)
    by_device: dict[Device, Array] = {}
    for x in arrays:
        if not isinstance(x, ConcreteArray) or concrete.is_spread(x):
            raise ShardingError(f"{what}: each part must be an array on one device, got {x!r}")
        x._check_alive(what)
        by_device[x.device] = x
    here = [d for _, d in _local(wanted)]
    missing = [d for d in here if d not in by_device]
    if missing or len(by_device) != len(here) or len(by_device) != len(arrays):
        shown = ", ".join([f"{d.platform}:{d.id}" for d in here])
        raise ShardingError(f"{what}: one part must lie on each of {shown}, got {len(arrays)} parts")
    parts = [by_device[d] for d in here]
    if not parts and dtype is None:
        raise DTypeError(f"{what}: this process has no part, so that dtype must be given")
    given = canonicalize(dtype) if not parts else parts[0].type.dtype
    for x in parts:
        if x.type.dtype != given:
            raise DTypeError(f"{what}: parts must be of one dtype, got {given} and {x.type!r}")
    return _made(what, array_type(given, sizes), wanted, parts)


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Sequence[int] | None = None
) -> Array:
    """Makes an array of what each process has of it.

    Args:
        sharding: how the whole array lies.
        local_data: what this process has: along each axis the parts of its devices one after another, or all of it.
        global_shape: of the whole array; by default each process has other parts along the axes that are cut.

    Raises:
        ShardingError: an array of this shape cannot be cut so.
        ShapeError: `local_data` is neither what the devices of this process hold nor the whole, along an axis.

    >>> import effx, numpy as np
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(effx.make_mesh((1,), ("data",)), P("data"))
    >>> effx.make_array_from_process_local_data(rows, np.ones((2, 2), np.float32)).shape
    (2, 2)
    """
    what = "make_array_from_process_local_data"
    wanted, data = _checked(what, sharding), as_operand(local_data, what).host(what)
    every = _blocks(wanted, data.ndim, range(wanted.num_devices))
    mine = _blocks(wanted, data.ndim, [k for k, _ in _local(wanted)])
    if global_shape is None:
        sizes: Shape = tuple(
            [n * len(all_) // max(len(own), 1) for n, all_, own in zip(data.shape, every, mine, strict=True)]
        )
    else:
        sizes = tuple(global_shape)
    part = wanted.shard_shape(sizes)
    if len(sizes) != data.ndim:
        raise ShapeError(f"{what}: global_shape {sizes} has {len(sizes)} axes, local_data {data.ndim}")
    for i, (n, whole, own, k) in enumerate(zip(data.shape, sizes, mine, part, strict=True)):
        if n not in (whole, len(own) * k):
            raise ShapeError(
                f"{what}: axis {i} of local_data has size {n}; this process has {len(own) * k} of the {whole} there are"
            )

    def of(index: Index) -> Any:
        found: list[slice] = []
        for s, n, whole, own, k in zip(index, data.shape, sizes, mine, part, strict=True):
            start, stop, _ = s.indices(whole)
            at = start if n == whole or not k else own.index(start // k) * k
            found.append(slice(at, at + stop - start))
        return data[tuple(found)]

    return make_array_from_callback(sizes, wanted, of, data.dtype)


def _blocks(
    sharding: NamedSharding | SingleDeviceSharding, ndim: int, places: Sequence[int]
) -> list[list[int]]:
    """Returns for each array axis the numbers of the blocks that some devices hold."""
    if isinstance(sharding, SingleDeviceSharding):
        return [[0]] * ndim
    tiling = sharding.tiling(ndim)
    found = [tiling.index(k, tiling.parts) for k in places]  # of an array whose blocks have one element
    return [sorted({s[i].indices(n)[0] for s in found}) if n > 1 else [0] for i, n in enumerate(tiling.parts)]
