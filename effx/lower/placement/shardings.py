"""Shardings over devices: those that users see, and jaxlib's objects for them in buffers."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast, final

import attrs
import numpy as np
from jaxlib import _jax, version
from jaxlib._hlo import HloSharding
from jaxlib._jax import Device

from effx.errors import BackendError, OptionError, ShardingError
from effx.ir.meshes import AbstractMesh, PartitionSpec, check_spec, entry_axes, spec_axis_numbers
from effx.ir.types import ArrayType, Shape, TypeSharding, type_sharding
from effx.lower.placement.backends import is_local
from effx.lower.placement.layouts import (
    AutoLayout,
    Layout,
    RequestedLayout,
    default_layout,
    is_default_layout,
)
from effx.lower.placement.memories import device_name, nondefault_memory_kind, resolve_memory_kind
from effx.lower.placement.meshes import Mesh, ambient
from effx.lower.placement.tiling import Index, Tiling
from effx.tree.registry import register_leaf

__all__ = [
    "BufferSharding",
    "Device",
    "Format",
    "Index",
    "Location",
    "NamedSharding",
    "Sharding",
    "SingleDeviceSharding",
    "device_name",
    "format_of",
    "grid_sharding",
    "layout_of_buffer",
    "make_buffer_sharding",
    "make_location",
    "make_single_device_sharding",
    "mesh_buffer_sharding",
    "resolve_device",
    "resolve_memory",
    "single_device_buffer_sharding",
    "user_sharding",
]


class Sharding:
    """The sharding of an array over devices: the base of `NamedSharding` and `SingleDeviceSharding`.

    >>> import effx, effx.numpy as enp
    >>> sharding = enp.ones((4, 2)).sharding
    >>> isinstance(sharding, effx.sharding.Sharding), sharding.shard_shape((4, 2))
    (True, (4, 2))
    """

    __slots__ = ()
    memory_kind: str | None = None

    @abstractmethod
    def with_memory_kind(self, kind: str | None) -> "Sharding":
        """Returns the same sharding in another memory of the devices."""

    @property
    @abstractmethod
    def ordered_devices(self) -> tuple[Device, ...]:
        """The devices, in the order in which programs count them."""

    @abstractmethod
    def shard_shape(self, global_shape: Shape) -> Shape:
        """Returns the shape of one device's shard.

        Raises:
            ShardingError: an array of this shape cannot be sharded so.
        """

    @abstractmethod
    def index(self, k: int, shape: Shape) -> Index:
        """Returns the index of the k-th device's shard in an array of this shape."""

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Checks that arrays of a shape have enough axes for the sharding.

        Raises:
            ShardingError: there are too few.
        """
        tiling_of(self, len(aval_shape))

    @property
    @abstractmethod
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""

    @property
    def nondefault_memory(self) -> str | None:
        """The kind of the memory; None for the default one."""
        if self.memory_kind is None:
            return None
        return nondefault_memory_kind(self.ordered_devices[0], self.memory_kind)

    @property
    def device_set(self) -> set[Device]:
        """The devices, of all processes."""
        return set(self.ordered_devices)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process."""
        return {d for d in self.ordered_devices if is_local(d)}

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        """The devices in order, under JAX's private name, which programs read."""
        return self.ordered_devices

    @property
    def _addressable_device_assignment(self) -> tuple[Device, ...]:
        """The devices of this process, in order; orbax reads them under this private name."""
        return tuple([d for d in self.ordered_devices if is_local(d)])

    @property
    def has_addressable_devices(self) -> bool:
        """Whether some devices belong to this process."""
        return bool(self.addressable_devices)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return all([is_local(d) for d in self.ordered_devices])

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.ordered_devices)

    def devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """Returns for each device the index of its shard in an array of this shape."""
        self.shard_shape(global_shape)
        return {d: self.index(k, global_shape) for k, d in enumerate(self.ordered_devices)}

    def addressable_devices_indices_map(self, global_shape: Shape) -> Mapping[Device, Index]:
        """Returns the same for the devices of this process."""
        return {d: index for d, index in self.devices_indices_map(global_shape).items() if is_local(d)}

    def is_equivalent_to(self, other: object, ndim: int) -> bool:
        """Says whether both shard arrays with this many axes alike."""
        if not isinstance(other, Sharding):
            return False
        if any([type(getattr(x, "mesh", None)) is AbstractMesh for x in (self, other)]):
            if getattr(self, "mesh", None) != getattr(other, "mesh", None):
                return False
        elif self.ordered_devices != other.ordered_devices:
            return False
        if self.memory_kind != other.memory_kind:
            return False
        return self.num_devices == 1 or tiling_of(self, ndim).is_like(tiling_of(other, ndim))


@register_leaf
@final
@attrs.frozen(repr=False)
class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    Args:
        device: the one that holds the array.
        memory_kind: in which of its memories: the kind of one of `device.addressable_memories()`; None for the default
            one.

    Raises:
        ShardingError: the device has no such memory.

    >>> import effx, effx.numpy as enp
    >>> sharding = effx.sharding.SingleDeviceSharding(effx.devices()[0])
    >>> sharding.is_fully_replicated, sharding.shard_shape((4, 2))
    (True, (4, 2))
    >>> effx.device_put(enp.ones(3), sharding).sharding == sharding
    True
    """

    device: Device
    memory_kind: str | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        kind = resolve_memory_kind("SingleDeviceSharding", self.device, self.memory_kind)
        object.__setattr__(self, "memory_kind", kind)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={device_name(self.device)}, memory_kind={self.memory_kind})"

    @property
    def ordered_devices(self) -> tuple[Device, ...]:
        """The one device."""
        return (self.device,)

    @property
    def is_fully_replicated(self) -> bool:
        """True: the device holds the whole array."""
        return True

    def shard_shape(self, global_shape: Shape) -> Shape:
        """Returns the shape of the shard on the device: the whole shape."""
        return tuple(global_shape)

    def index(self, k: int, shape: Shape) -> Index:
        """Returns the index of the device's shard in an array of this shape: all of it."""
        return (slice(None),) * len(shape)

    def with_memory_kind(self, kind: str | None) -> "SingleDeviceSharding":
        """Returns the sharding on the same device in another of its memories."""
        return SingleDeviceSharding(self.device, memory_kind=kind)


def make_single_device_sharding(device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """Returns the sharding of arrays that are whole on one device.

    Args:
        device: the one that holds them.
        memory_kind: the kind of one of its memories; None for the default one.

    Raises:
        ShardingError: the device has no such memory.

    >>> import effx, effx.numpy as enp
    >>> sharding = effx.sharding.make_single_device_sharding(effx.devices()[0])
    >>> effx.device_put(enp.ones(3), sharding).sharding == sharding
    True
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


@register_leaf
@final
@attrs.frozen(eq=False, repr=False)
class NamedSharding(Sharding):
    """The sharding of an array along the named axes of a mesh.

    Each array axis is split into as many equal parts as the mesh axes that its entry names have devices; along the
    other axes of the mesh the parts are replicated.

    Args:
        mesh: the devices; or an AbstractMesh, as `get_abstract_mesh` gives it: constraints and types take such a sharding,
            but nothing can be placed by it until a mesh of devices is in force.
        spec: for each array axis the mesh axes that it is sharded over.
        memory_kind: the kind of one of the devices' memories, such as "pinned_host"; None for the default one.

    Raises:
        ShardingError: the mesh has no axis that `spec` names, or `spec` names one twice, or the devices have no such
            memory.

    >>> import effx
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> x = effx.device_put(effx.numpy.ones((4, 2)), NamedSharding(mesh, P("data")))
    >>> x.sharding.spec
    P('data')
    """

    mesh: Mesh | AbstractMesh
    spec: PartitionSpec
    memory_kind: str | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.mesh, Mesh | AbstractMesh):
            raise ShardingError(f"NamedSharding: expected a Mesh or an AbstractMesh, got {self.mesh!r}")
        spec = self.spec
        if not isinstance(spec, PartitionSpec):
            raise ShardingError(f"NamedSharding: expected a PartitionSpec, got {spec!r}")
        check_spec("NamedSharding", self.mesh, spec)
        if PartitionSpec.UNCONSTRAINED in spec.partitions:
            raise ShardingError(
                f"NamedSharding: only with_sharding_constraint leaves axes open, got {spec!r}"
            )
        if isinstance(self.mesh, AbstractMesh):
            return
        kind = resolve_memory_kind("NamedSharding", self.mesh.ordered[0], self.memory_kind)
        object.__setattr__(self, "memory_kind", kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NamedSharding)
            and self.memory_kind == other.memory_kind
            and self.spec.trim() == other.spec.trim()
            and self.mesh == other.mesh
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec.trim(), self.memory_kind))

    def __repr__(self) -> str:
        memory = (
            ""
            if self.memory_kind is None and type(self.mesh) is AbstractMesh
            else f", memory_kind={self.memory_kind}"
        )
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r}{memory})"

    @property
    def ordered_devices(self) -> tuple[Device, ...]:
        """The mesh's devices, the last axis fastest.

        Raises:
            ShardingError: the mesh is an AbstractMesh.
        """
        return self.device_mesh.ordered

    @property
    def device_mesh(self) -> Mesh:
        """The mesh of devices.

        Raises:
            ShardingError: the mesh is an AbstractMesh.
        """
        if isinstance(self.mesh, AbstractMesh):
            raise ShardingError(f"NamedSharding: {self!r} has no devices: its mesh is an AbstractMesh")
        return self.mesh

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return self.mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        sizes = self.mesh.shape
        cutting = [name for entry in self.spec.partitions for name in entry_axes(entry)]
        return all([sizes[name] == 1 for name in (*cutting, *self.spec.unreduced)])

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The mesh axes along which shards are replicated."""
        cutting = {a for axes in spec_axis_numbers(self.mesh, self.spec) for a in axes}
        replicated = frozenset([n for a, n in enumerate(self.mesh.axis_names) if a not in cutting])
        return replicated - self.spec.unreduced

    def without_unreduced(self) -> "NamedSharding":
        """Returns the sharding of the array after the sums that it still needs."""
        return self.update(spec=self.spec.update(unreduced=frozenset())) if self.spec.unreduced else self

    def tiling(self, ndim: int) -> Tiling:
        """Returns the tiling of an array with this many axes.

        Raises:
            ShardingError: the PartitionSpec has entries for more axes.
        """
        cuts = spec_axis_numbers(self.mesh, self.spec)
        if len(cuts) > ndim:
            raise ShardingError(
                f"NamedSharding: {self.spec!r} shards {len(cuts)} array axes, but the array has {ndim}"
            )
        unreduced = [a for a, name in enumerate(self.mesh.axis_names) if name in self.spec.unreduced]
        return Tiling(self.mesh.axis_sizes, (*cuts, *[()] * (ndim - len(cuts))), tuple(unreduced))

    def shard_shape(self, global_shape: Shape) -> Shape:
        """Returns the shape of each device's shard.

        Raises:
            ShardingError: an axis cannot be split into equal parts, or there are too few axes.
        """
        tiling = self.tiling(len(global_shape))
        for i, (n, parts) in enumerate(zip(global_shape, tiling.parts, strict=True)):
            if n % parts:
                raise ShardingError(
                    f"NamedSharding: axis {i} of the shape {tuple(global_shape)} is {n}, which {self.spec!r} cannot split "
                    f"into {parts} equal parts"
                )
        return tuple([n // parts for n, parts in zip(global_shape, tiling.parts, strict=True)])

    def index(self, k: int, shape: Shape) -> Index:
        """Returns the index of the k-th device's shard in an array of this shape."""
        return self.tiling(len(shape)).index(k, shape)

    def update(
        self,
        *,
        mesh: Mesh | AbstractMesh | None = None,
        spec: PartitionSpec | None = None,
        memory_kind: str | None = None,
    ) -> "NamedSharding":
        """Returns the sharding with some attributes replaced."""
        return NamedSharding(
            self.mesh if mesh is None else mesh,
            self.spec if spec is None else spec,
            memory_kind=self.memory_kind if memory_kind is None else memory_kind,
        )

    def with_memory_kind(self, kind: str | None) -> "NamedSharding":
        """Returns the same sharding in another memory of the devices."""
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)


@final
@register_leaf
@attrs.frozen
class Format:
    """A layout and a sharding, which `device_put`, `jit(in_shardings=, out_shardings=)` and ShapeDtypeStruct take in
    place of a sharding.

    Attributes:
        layout: a Layout, `Layout.AUTO`, or None to leave it open.
        sharding: where the parts are; None to leave it open, which a Layout does not allow.

    Raises:
        OptionError: `layout` is no layout, or `sharding` no sharding.
        ShardingError: a Layout comes without a sharding.

    >>> import effx, effx.numpy as enp
    >>> columns = Format(Layout((1, 0)), effx.sharding.SingleDeviceSharding(effx.devices()[0]))
    >>> x = effx.device_put(enp.ones((2, 3)), columns)
    >>> x.format.layout.major_to_minor
    (1, 0)
    """

    layout: RequestedLayout = None
    sharding: Sharding | None = None

    def __attrs_post_init__(self) -> None:
        if not (self.layout is None or isinstance(self.layout, Layout | AutoLayout)):
            raise OptionError(f"Format: layout must be a Layout, Layout.AUTO or None, got {self.layout!r}")
        if not (self.sharding is None or isinstance(self.sharding, Sharding)):
            raise OptionError(f"Format: sharding must be a sharding or None, got {self.sharding!r}")
        if isinstance(self.layout, Layout) and self.sharding is None:
            raise ShardingError(f"Format: {self.layout!r} needs a sharding, which says on which devices")


def format_of(sharding: Sharding, layout: Layout | None, t: ArrayType) -> Format:
    """Returns the format of arrays of a type; a layout of None stands for the one that their devices give them."""
    part = t.with_shape(sharding.shard_shape(t.shape))
    return Format(layout or default_layout(part, sharding.ordered_devices[0]), sharding)


def tiling_of(sharding: Sharding, ndim: int) -> Tiling:
    """Returns the tiling of arrays with this many axes under a sharding."""
    return sharding.tiling(ndim) if isinstance(sharding, NamedSharding) else Tiling((), ((),) * ndim)


def grid_sharding(
    devices: Sequence[Device],
    grid: tuple[int, ...],
    cuts: Sequence[int],
    names: Sequence[object] = (),
) -> NamedSharding:
    """Returns the sharding of an array whose first axes are sharded along axes of a grid of devices.

    Args:
        devices: as many as the product of the grid's sizes.
        grid: its sizes.
        cuts: for each of the array's first axes the axis of the grid.
        names: of the grid's first axes; the others, and names that come twice, are `m0` and so on.
    """
    axis_names: list[object] = []
    for i in range(len(grid)):
        name = names[i] if i < len(names) else f"m{i}"
        axis_names.append(f"m{i}" if name in axis_names else name)
    mesh = Mesh(np.array(list(devices), object).reshape(grid), axis_names)
    return NamedSharding(mesh, PartitionSpec(*[axis_names[a] for a in cuts]))


def sharding_from_hlo(hlo_sharding: HloSharding, devices: Sequence[Device], ndim: int) -> NamedSharding:
    """Returns XLA's sharding of an array as a NamedSharding on a new mesh, for one that no mesh of the user has."""
    blocks = hlo_sharding.tile_assignment_dimensions()
    ordered = [devices[k] for k in hlo_sharding.tile_assignment_devices()]
    return grid_sharding(ordered, tuple(blocks), range(ndim))


class _PythonSingleDeviceSharding(_jax.SingleDeviceSharding):
    """A single-device sharding for jaxlib 0.10, whose C++ calls these methods in Python."""

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


# jaxlib's own class where possible: C++ recognizes it by identity, which saves 0.1 us a call.
_Single = _jax.SingleDeviceSharding if version.__version_info__ >= (0, 12) else _PythonSingleDeviceSharding
_singles: dict[Device, _jax.SingleDeviceSharding] = {}
_singles_in_memory: dict[tuple[Device, str], _jax.SingleDeviceSharding] = {}


def single_device_buffer_sharding(device: Device, memory: str | None = None) -> _jax.SingleDeviceSharding:
    """Returns the one sharding object of buffers on a device.

    Args:
        device: the buffers' device. memory: the memory kind where it is not the default one.
    """
    if memory is not None:
        memory_sharding = _singles_in_memory.get((device, memory))
        return memory_sharding or _singles_in_memory.setdefault(
            (device, memory), _Single(device, memory_kind=memory)
        )
    sharding = _singles.get(device)
    if sharding is None:
        sharding = _singles.setdefault(device, _Single(device))
    return sharding


Location = Device | SingleDeviceSharding | NamedSharding | Format
"""Where an array is: a `SingleDeviceSharding` for a memory of a device other than its default one, and a `Format` with a
`Layout` for an array that does not lie as its device has it by default."""


def make_location(
    function_name: str, sharding: SingleDeviceSharding | NamedSharding, layout: Layout, t: ArrayType
) -> Location:
    """Returns the location of an array of a type with a sharding and a layout.

    Raises:
        ShapeError: the layout is for another number of axes.
        BackendError: the memory is not the default one, and the layout is.
    """
    layout.check_rank(function_name, t)
    part = t.with_shape(sharding.shard_shape(t.shape))
    if is_default_layout(layout, part, sharding.ordered_devices[0]):
        return sharding
    if sharding.nondefault_memory is not None:
        raise BackendError(
            f"{function_name}: in the memory {sharding.memory_kind!r} arrays lie row by row, got {layout!r}"
        )
    return Format(layout, sharding)


def make_buffer_sharding(location: Location, ndim: int) -> _jax.Sharding:
    """Returns jaxlib's sharding of buffers of arrays with this many axes at a location."""
    if isinstance(location, Format):
        return _layout_buffer_sharding(location, ndim)
    if isinstance(location, NamedSharding):
        return mesh_buffer_sharding(location, ndim)
    if isinstance(location, SingleDeviceSharding):
        return single_device_buffer_sharding(location.device, location.nondefault_memory)
    return single_device_buffer_sharding(location)


# C++ compares these by identity and runs repeated calls without Python.
@final
class BufferSharding(_jax.GSPMDSharding):
    """The sharding of buffers of an array on several devices: jaxlib's form of a `NamedSharding` for one rank.

    Also that of an array on one device in a layout of its own. There is one object for each sharding, rank and layout, so
    that C++ compares them by identity.
    """

    def __init__(
        self, sharding: NamedSharding | SingleDeviceSharding, ndim: int, layout: Layout | None = None
    ) -> None:
        self.tiling = tiling_of(sharding, ndim)
        self.layout = layout
        devices = _jax.DeviceList(sharding.ordered_devices)
        super().__init__(devices, self.tiling.hlo(), memory_kind=sharding.nondefault_memory)
        self.sharding = sharding
        self.is_fully_addressable = sharding.is_fully_addressable
        self.is_fully_replicated = sharding.is_fully_replicated
        self.is_on_mesh = isinstance(sharding, NamedSharding)
        self.type_sharding = type_sharding_of(sharding) if isinstance(sharding, NamedSharding) else None

    # By identity: the base compares devices and tilings, and knows no layouts.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return self.sharding.num_devices

    @property
    def memory_kind(self) -> str | None:
        """The kind of the devices' memory; None for the default."""
        return self._memory_kind

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return self.sharding.ordered_devices

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return self._hlo_sharding

    def shard_shape(self, shape: Shape) -> Shape:
        """The shape of each device's shard."""
        return self.sharding.shard_shape(shape)

    def is_like(self, other: "BufferSharding") -> bool:
        """Says whether both shard an array alike."""
        return self is other or (
            self.sharding.ordered_devices == other.sharding.ordered_devices
            and self.sharding.memory_kind == other.sharding.memory_kind
            and self.layout == other.layout
            and self.is_on_mesh is other.is_on_mesh
            and self._hlo_sharding == other._hlo_sharding
        )


def user_sharding(buffer_sharding: _jax.Sharding) -> SingleDeviceSharding | NamedSharding:
    """Returns the sharding, as users see it, that jaxlib's C++ holds."""
    if isinstance(buffer_sharding, BufferSharding):
        return buffer_sharding.sharding
    assert isinstance(buffer_sharding, _jax.SingleDeviceSharding)
    return SingleDeviceSharding(buffer_sharding._device, memory_kind=buffer_sharding._memory_kind)


def type_sharding_of(sharding: NamedSharding) -> TypeSharding | None:
    """Returns the type sharding of arrays with this sharding: over the Explicit axes of the mesh."""
    mesh = sharding.mesh.abstract_mesh
    if mesh.manual_axes and ambient.value is not None and ambient.value.shape_tuple == mesh.shape_tuple:
        mesh = ambient.value.abstract_mesh  # types have the mesh as it is outside of shard_map
    if not mesh.explicit_axes:
        return None
    spec = sharding.spec
    cuts = [entry_axes(entry) for entry in spec.partitions]
    return type_sharding(mesh, cuts, (spec.unreduced, spec.reduced))


def type_with_sharding(t: ArrayType, sharding: "_jax.Sharding") -> ArrayType:
    """Returns the type of arrays with this sharding: it has their sharding over Explicit axes of a mesh."""
    # An array's type contains its sharding, so keys of traces and kernels contain it without further code.
    return t.with_sharding(sharding.type_sharding if type(sharding) is BufferSharding else None)


@cache
def mesh_buffer_sharding(sharding: NamedSharding, ndim: int) -> BufferSharding:
    """Returns the one sharding object of buffers of arrays with this many axes on a mesh."""
    return BufferSharding(sharding, ndim)


@cache
def _layout_buffer_sharding(location: Format, ndim: int) -> BufferSharding:
    """Returns the one sharding object of buffers of arrays with this many axes in a layout of their own."""
    assert isinstance(location.layout, Layout)
    return BufferSharding(
        cast("SingleDeviceSharding | NamedSharding", location.sharding), ndim, location.layout
    )


def layout_of_buffer(buffer_sharding: _jax.Sharding) -> Layout | None:
    """Returns the layout of buffers with a sharding; None for the one that devices give them by default."""
    return buffer_sharding.layout if type(buffer_sharding) is BufferSharding else None


def resolve_device(target: object) -> Device | None:
    """Returns the device of a device, a single-device sharding, or a sequence of one of these; None for None.

    Raises:
        BackendError: it is neither.
    """
    if target is None or isinstance(target, Device):
        return target
    if isinstance(target, SingleDeviceSharding):
        return target.device
    if isinstance(target, Sequence) and len(target) == 1:
        return resolve_device(target[0])
    raise BackendError(f"device_put: expected a device or a sharding, got {target!r}")


def resolve_memory(target: object) -> str | None:
    """Returns the memory kind that a target of `resolve_device` names; None for the default one."""
    if isinstance(target, SingleDeviceSharding):
        return target.nondefault_memory
    return resolve_memory(target[0]) if isinstance(target, Sequence) and len(target) == 1 else None
