"""Move pytrees of arrays to devices and memories, and wait for them (`device_put`, `block_until_ready`)."""

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from effx.array import Array, Box, Operand
from effx.array.promotion import as_operand
from effx.dtypes import float0
from effx.errors import BackendError, ShapeError, TransformError, TreeError
from effx.ir.ops.checkpoint import Offload
from effx.ir.ops.sharding import Move
from effx.ir.values.array import Numeric
from effx.lower.placement import concrete
from effx.lower.placement.backends import default_device
from effx.lower.placement.concrete import join_shards
from effx.lower.placement.layouts import Layout
from effx.lower.placement.memories import Space, default_memory_kind, memory_kind_of_space
from effx.lower.placement.shardings import (
    Device,
    Format,
    NamedSharding,
    SingleDeviceSharding,
    device_name,
    grid_sharding,
)
from effx.tracing.arguments import finalize_result
from effx.transforms.placement.meshes import (
    broadcast_shardings,
    needs_current_mesh,
    sharding_on_current_mesh,
    with_layout,
    with_sharding,
)
from effx.tree.mapping import map as tree_map
from effx.tree.registry import PyTree, flatten

__all__ = [
    "block_until_ready",
    "copy_to_host_async",
    "device_get",
    "device_put",
    "device_put_replicated",
    "device_put_sharded",
    "live_arrays",
]

T = TypeVar("T")
Data = TypeVar("Data", bound=Numeric)
K = TypeVar("K")
M = TypeVar("M")


@overload
def device_put(
    x: Numeric, device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> Array: ...
@overload
def device_put(
    x: list[Data], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> list[Array]: ...
@overload
def device_put(
    x: list[Operand], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> list[Array]: ...
@overload
def device_put(
    x: tuple[Data, ...], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> tuple[Array, ...]: ...
@overload
def device_put(
    x: dict[K, Data], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> dict[K, Array]: ...
@overload
def device_put(
    x: dict[K, Operand], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> dict[K, Array]: ...
@overload
def device_put(
    x: list[dict[K, Data]], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> list[dict[K, Array]]: ...
@overload
def device_put(
    x: dict[K, list[Data]], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> dict[K, list[Array]]: ...
@overload
def device_put(
    x: dict[K, dict[M, Data]], device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> dict[K, dict[M, Array]]: ...
@overload
def device_put(x: T, device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None) -> T: ...
def device_put(
    x: PyTree, device: PyTree = None, *, donate: bool = False, may_alias: bool | None = None
) -> Any:
    """Moves the arrays of a pytree to a device, or shards them over several devices.

    Args:
        x: arrays, numbers, or a pytree of them.
        device: a device, a sharding, a Format, a PartitionSpec of the mesh in force, or a `memory.Space`, for which arrays
            keep their shardings; or a pytree of them that is a prefix of `x`. None for the default device, uncommitted.
        donate: True to donate the arrays: they are deleted if they were not on the device already.
        may_alias: False for results that share no memory with `x`; True and None allow them to share it.

    Raises:
        DTypeError: a leaf is neither an array nor a number.
        TransformError: both `donate` and `may_alias` are true.
        ShardingError: an array cannot be sharded so, no mesh is in force for a PartitionSpec, or `Space.Any` is given.
        TreeError: `device` is no prefix of `x`.

    >>> import effx
    >>> effx.device_put([1, 2.0])
    [Array(1, dtype=int32, weak_type=True), Array(2., dtype=float32, weak_type=True)]
    """
    if donate and may_alias:
        raise TransformError("device_put: a donated array cannot be shared; leave out donate or may_alias")

    def move_leaf(leaf: PyTree, target: object) -> PyTree:
        if needs_current_mesh(target):
            target = sharding_on_current_mesh("device_put", target)
        if isinstance(leaf, Box) and isinstance(target, Format):
            moved = leaf if target.sharding is None else move_leaf(leaf, target.sharding)
            return (
                with_layout("device_put", target.layout, moved)
                if isinstance(target.layout, Layout)
                else moved
            )
        if isinstance(leaf, Box) and (source := _source_of(leaf, target)) is not None:
            return Move(target, source.sharding if source.committed else None)(leaf)
        if isinstance(leaf, Box) and isinstance(target, NamedSharding | SingleDeviceSharding | Space):
            return _in_program(leaf, target)
        y = concrete.device_put(leaf, target)
        if y.type.dtype == float0:
            return finalize_result(y)
        if type(leaf) is not concrete.ConcreteArray or type(y) is not concrete.ConcreteArray:
            return y
        shared = concrete.shares_memory(leaf, y)
        if may_alias is False and shared:
            return concrete.copy_array(y)
        if donate and not shared:
            leaf.delete()
        return y

    leaves, form = flatten(x)
    targets = broadcast_shardings("device_put", device, x)
    return form.unflatten([move_leaf(leaf, target) for leaf, target in zip(leaves, targets, strict=True)])


def _source_of(x: Box, target: object) -> concrete.ConcreteArray | None:
    """Returns the array that a differentiated value is of; None in programs, whose devices are chosen for all of them.

    Over Explicit axes of a mesh the type of a value says how it, and its cotangent, is sharded.
    """
    if not isinstance(target, Device | NamedSharding | SingleDeviceSharding):
        return None
    if isinstance(target, NamedSharding) and target.mesh.explicit_axes:
        return None
    value: object = x
    while isinstance(value, Box):
        value = getattr(value.payload, "primal", None)
    return value if type(value) is concrete.ConcreteArray else None


def _in_program(x: Box, target: NamedSharding | SingleDeviceSharding | Space) -> Array:
    """Constrains the sharding and memory of a value in a program."""
    if isinstance(target, Space):
        if target is Space.Any:
            memory_kind_of_space("device_put", target, default_device())  # raises
        return Offload("device", "pinned_host", back=target is Space.Device)(x)
    y = with_sharding("device_put", target, x)
    return (
        y
        if target.nondefault_memory is not None
        else Offload(default_memory_kind(target.ordered_devices[0]), "pinned_host", back=True)(y)
    )


def _pmap_sharding(function_name: str, devices: Sequence[Device]) -> NamedSharding:
    """Returns the sharding of arrays whose leading axis has one entry on each device."""
    device_tuple = tuple(devices)
    for d in device_tuple:
        if not isinstance(d, Device):
            raise BackendError(
                f"{function_name}: devices must hold devices, got {d!r} of type {type(d).__name__}"
            )
    if not device_tuple:
        raise BackendError(f"{function_name}: devices must name at least one device, got none")
    if len(set(device_tuple)) != len(device_tuple):
        raise BackendError(
            f"{function_name}: devices repeats a device: {', '.join(map(device_name, device_tuple))}"
        )
    return grid_sharding(device_tuple, (len(device_tuple),), (0,))


def device_put_sharded(shards: Sequence[PyTree], devices: Sequence[Device]) -> Any:
    """Stacks one array per device into an array with one slice on each device, as `pmap` takes and returns them.

    Args:
        shards: one pytree of arrays for each device, with equal structures, shapes and dtypes.
        devices: where to put them.

    Returns:
        A pytree of arrays with a leading axis of the number of devices.

    Raises:
        ShapeError: there are not as many shards as devices, or shapes or dtypes differ.
        TreeError: the structures differ.
        BackendError: `devices` is empty, repeats a device or holds something else.

    >>> import effx
    >>> effx.device_put_sharded([2.0], effx.devices()[:1])
    Array([2.], dtype=float32)
    """
    sharding = _pmap_sharding("device_put_sharded", devices)
    if len(shards) != len(sharding.ordered_devices):
        raise ShapeError(
            f"device_put_sharded: needs one shard for each device, got {len(shards)} shards "
            f"for {len(sharding.ordered_devices)} devices"
        )
    flat = [flatten(shard) for shard in shards]
    tree = flat[0][1]
    for i, (_, other) in enumerate(flat):
        if other != tree:
            raise TreeError(f"device_put_sharded: shard 0 has the structure {tree}, shard {i} has {other}")
    stacked = [
        _stack_shards(list(parts), sharding) for parts in zip(*[leaves for leaves, _ in flat], strict=True)
    ]
    return tree.unflatten(stacked)


def _stack_shards(parts: list[PyTree], sharding: NamedSharding) -> Array:
    arrays = [as_operand(x) for x in parts]
    t = arrays[0].type.strong()
    for i, x in enumerate(arrays):
        if not x.type.matches(t):
            raise ShapeError(f"device_put_sharded: shard 0 is {t!r}, shard {i} is {x.type!r}")
    concrete_parts = [concrete.to_concrete(x) for x in arrays]
    for x in concrete_parts:
        x._check_alive("device_put_sharded")
    return join_shards(t.with_shape((len(arrays), *t.shape)), sharding, concrete_parts)


def device_put_replicated(x: PyTree, devices: Sequence[Device]) -> Any:
    """Puts a copy of each array on each device, stacked as `pmap` takes them.

    Args:
        x: arrays, numbers, or a pytree of them.
        devices: where to put the copies.

    Returns:
        A pytree of arrays with a leading axis of the number of devices.

    Raises:
        BackendError: `devices` is empty, repeats a device or holds something else.

    >>> import effx
    >>> effx.device_put_replicated(2.0, effx.devices()[:1])
    Array([2.], dtype=float32)
    """
    n = len(_pmap_sharding("device_put_replicated", devices).ordered_devices)
    return tree_map(lambda leaf: device_put_sharded([leaf] * n, devices), x)


def device_get(x: PyTree) -> Any:
    """Copies the arrays of a pytree to the host as NumPy arrays; other leaves are returned unchanged.

    >>> import effx, effx.numpy as enp
    >>> effx.device_get({"a": enp.ones(2)})
    {'a': array([1., 1.], dtype=float32)}
    """
    leaves = flatten(x)[0]
    for leaf in leaves:
        if type(leaf) is concrete.ConcreteArray:
            leaf.copy_to_host_async()
    return tree_map(lambda leaf: leaf.host("device_get") if isinstance(leaf, Array) else leaf, x)


def copy_to_host_async(x: T) -> T:
    """Starts copying a pytree's arrays to the host, for later conversions to NumPy; returns the pytree.

    Leaves without the method `copy_to_host_async` stay as they are.

    >>> import effx, effx.numpy as enp
    >>> effx.copy_to_host_async(enp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    for leaf in flatten(x)[0]:
        is_foreign = not isinstance(leaf, Array) and hasattr(leaf, "copy_to_host_async")
        if is_foreign or type(leaf) is concrete.ConcreteArray:
            leaf.copy_to_host_async()
    return x


def live_arrays(platform: str | None = None) -> list[Array]:
    """Returns the arrays that hold memory on a platform.

    Args:
        platform: its name; None for the default platform.

    >>> import effx, effx.numpy as enp
    >>> x = enp.ones(7)
    >>> any(y.shape == (7,) for y in effx.live_arrays())
    True
    """
    return concrete.live_arrays(platform)


def block_until_ready(x: T) -> T:
    """Waits until the arrays of a pytree have been computed; returns the pytree.

    >>> import effx, effx.numpy as enp
    >>> effx.block_until_ready(enp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    concrete.block_until_ready(flatten(x)[0])
    return x
