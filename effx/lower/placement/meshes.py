"""Meshes: devices laid out along named axes."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
from jaxlib._jax import Device

from effx.errors import ShardingError
from effx.flag_kinds import Override, UserContext
from effx.ir.meshes import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    AxisTypes,
    MeshAxes,
    MeshAxisName,
    check_mesh_axes,
    replace_axis_types,
)
from effx.lower.placement.backends import is_local, platform_of

__all__ = ["Mesh", "ambient"]

Devices: TypeAlias = npt.NDArray[np.object_]

# The mesh in force: where it is another one, functions are staged again.
# It is a user's context, which keys of traces hold anyway.
ambient: "UserContext[Mesh | AbstractMesh | None]" = UserContext(None)
# What a mesh in force without devices says of them: equal meshes may say different things.
ambient_device: "UserContext[AbstractDevice | None]" = UserContext(None)
# What `with mesh:` has entered, innermost last.
_entered_meshes: ContextVar[tuple[Override[Any], ...]] = ContextVar("entered meshes", default=())


@final
class Mesh(MeshAxes):
    """Devices laid out along named axes.

    Args:
        devices: an array of devices with one axis for each name; a sequence of devices, nested or not.
        axis_names: the axes' names, all different.
        axis_types: an AxisType for all axes or for each: Auto, the default.

    Raises:
        ShardingError: there are not as many names as axes, a device occurs twice, or a type is not Auto.

    >>> import effx, numpy as np
    >>> mesh = effx.sharding.Mesh(np.array(effx.devices()[:1]).reshape(1, 1), ("data", "model"))
    >>> mesh.shape["model"], mesh.axis_types
    (1, (Auto, Auto))
    """

    __slots__ = ("_hash", "axis_names", "axis_sizes", "axis_types", "devices", "ordered")
    axis_names: tuple[MeshAxisName, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]
    devices: Devices
    ordered: tuple[Device, ...]

    def __init__(
        self,
        devices: "Devices | Sequence[Any]",
        axis_names: "str | Sequence[MeshAxisName]",
        axis_types: AxisTypes = None,
    ) -> None:
        grid: Devices = np.array(devices, object)
        names, sizes, types = check_mesh_axes("Mesh", axis_names, grid.shape, axis_types)
        if AxisType.Manual in types:
            raise ShardingError(
                f"Mesh: axes of a mesh of devices are Auto or Explicit, got {types}: Manual are those over which a "
                f"shard_map maps, inside of it"
            )
        ordered: tuple[Any, ...] = tuple(grid.flat) if names else ()
        for d in ordered:
            # An object that says which device it stands for will do to plan with, and to draw shardings.
            if not isinstance(d, Device) and not (hasattr(d, "platform") and hasattr(d, "id")):
                raise ShardingError(f"Mesh: expected devices, got {d!r} of type {type(d).__name__}")
        if len(set(ordered)) != len(ordered):
            twice = next(d for i, d in enumerate(ordered) if d in ordered[:i])
            raise ShardingError(f"Mesh: the device {twice.platform}:{twice.id} stands in the mesh twice")
        grid.flags.writeable = False
        set_field = object.__setattr__
        set_field(self, "devices", grid)
        set_field(self, "ordered", ordered)
        set_field(self, "axis_names", names)
        set_field(self, "axis_sizes", sizes)
        set_field(self, "axis_types", types)
        set_field(self, "_hash", hash((ordered, names, sizes, types)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Mesh is immutable: cannot set {name!r}")

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Mesh)
            and self._hash == other._hash
            and self.ordered == other.ordered
            and self.axis_names == other.axis_names
            and self.axis_sizes == other.axis_sizes
            and self.axis_types == other.axis_types
        )

    def __hash__(self) -> int:
        value: int = self._hash
        return value

    def __repr__(self) -> str:
        return f"Mesh({self._axes_text()})"

    _hash: int

    def __copy__(self) -> "Mesh":
        """A mesh does not change."""
        return self

    def __deepcopy__(self, copies: dict[int, object]) -> "Mesh":
        """A mesh does not change, and there is one object for each device."""
        return self

    def __enter__(self) -> "Mesh":
        """Puts the mesh in force in a block, as `effx.set_mesh` does."""
        override = ambient(self)
        override.__enter__()
        _entered_meshes.set((*_entered_meshes.get(), override))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        *others, override = _entered_meshes.get()
        _entered_meshes.set(tuple(others))
        override.__exit__(kind, error, traceback)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        if self.empty or not isinstance(self.ordered[0], Device):
            return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)
        first = self.ordered[0]
        device = AbstractDevice(first.device_kind, getattr(first, "num_cores", None), platform_of(first))
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=device)

    @property
    def is_scalar(self) -> bool:
        """Whether it is one device without axes."""
        return not self.devices.ndim

    @property
    def device_ids(self) -> npt.NDArray[np.int64]:
        """The ids of the devices."""
        return np.array([d.id for d in self.ordered], np.int64).reshape(self.axis_sizes)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return [d for d in self.ordered if is_local(d)]

    @property
    def is_multi_process(self) -> bool:
        """Whether devices belong to other processes."""
        return len(self.local_devices) != len(self.ordered)

    @property
    def local_mesh(self) -> "Mesh":
        """The part of the mesh with this process's devices.

        Raises:
            ShardingError: that is no block.
        """
        mine = np.array([is_local(d) for d in self.ordered]).reshape(self.axis_sizes)
        block = np.ix_(*[np.unique(i) for i in mine.nonzero()])
        if not mine[block].all():
            raise ShardingError("local_mesh: the devices of this process are no block of the mesh")
        return Mesh(self.devices[block], self.axis_names, self.axis_types)

    def update(
        self,
        devices: "Devices | None" = None,
        axis_names: Sequence[MeshAxisName] | None = None,
        axis_types: AxisTypes = None,
    ) -> "Mesh":
        """Returns the mesh with some attributes replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def update_axis_types(self, name_to_type: Mapping[MeshAxisName, AxisType]) -> "Mesh":
        """Returns the mesh with other types of some axes."""
        return self.update(axis_types=replace_axis_types(self, name_to_type))
