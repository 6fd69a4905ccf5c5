"""Make meshes, set the mesh in force, and constrain or change shardings (`make_mesh`, `set_mesh`, `reshard`)."""

from collections.abc import Sequence
from contextlib import ContextDecorator
from math import prod
from types import TracebackType
from typing import Any, TypeGuard, TypeVar, cast, final

import numpy as np

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.effects import axes_in_scope, current_frame
from effx.errors import BackendError, DeviceCountError, ShardingError, TreeError
from effx.handlers.staging.parallel_maps import enclosing_replicas
from effx.handlers.staging.stage import track_axes_from_here
from effx.ir.meshes import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    MeshAxisName,
    PartitionSpec,
    check_spec,
    entry_axes,
)
from effx.ir.ops.checkpoint import Offload
from effx.ir.ops.layout import ConstrainLayout
from effx.ir.ops.sharding import Constrain
from effx.ir.types import ArrayType
from effx.lower.placement.backends import devices as all_devices
from effx.lower.placement.concrete import ConcreteArray, device_put, memory_kind_of, to_concrete
from effx.lower.placement.layouts import Layout
from effx.lower.placement.memories import Space
from effx.lower.placement.meshes import Mesh, ambient, ambient_device
from effx.lower.placement.shardings import Device, Format, NamedSharding, Sharding, SingleDeviceSharding
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, flatten

__all__ = [
    "get_abstract_mesh",
    "get_mesh",
    "make_mesh",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
    "with_sharding_constraint",
]

T = TypeVar("T")

_EMPTY, _ABSTRACT = Mesh(np.empty((), object), ()), AbstractMesh((), ())


def make_mesh(
    axis_sizes: Sequence[int],
    axis_names: "str | Sequence[MeshAxisName]",
    axis_types: "AxisType | Sequence[AxisType] | None" = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """Makes a mesh of the first devices.

    Args:
        axis_sizes: the number of devices along each axis.
        axis_names: the axes' names, all different.
        axis_types: an AxisType for all axes or for each: Auto, the default.
        devices: the devices, as many as `axis_sizes` requires or more; all devices by default.

    Raises:
        DeviceCountError: there are fewer devices.
        ShardingError: sizes, names and types do not match.

    >>> import effx
    >>> effx.make_mesh((1, 1), ("data", "model")).shape["data"]
    1
    """
    sizes = tuple(axis_sizes)
    AbstractMesh(sizes, axis_names, axis_types)  # checks them
    available = list(all_devices()) if devices is None else list(devices)
    if prod(sizes) > len(available):
        raise DeviceCountError(
            f"make_mesh: a mesh of {' x '.join(map(str, sizes))} needs {prod(sizes)} devices, but there are "
            f"{len(available)}; "
            f"set EFFX_NUM_CPU_DEVICES before the start for more CPU devices"
        )
    grid = np.empty(prod(sizes), object)
    grid[:] = available[: prod(sizes)]
    return Mesh(grid.reshape(sizes), axis_names, axis_types)


@final
class MeshContext(ContextDecorator):
    """The context manager that `set_mesh` returns: on exit it restores the previous mesh."""

    __slots__ = ("_before", "_mesh", "_overrides")

    def __init__(self, mesh: Mesh | AbstractMesh | None) -> None:
        self._mesh, self._before = mesh, (ambient.outside, ambient_device.outside)
        ambient.assign(mesh)
        ambient_device.assign(_described_device(mesh))

    def __enter__(self) -> Mesh | AbstractMesh | None:
        mesh, device = self._before
        ambient.assign(mesh)
        ambient_device.assign(device)
        self._overrides = (ambient(self._mesh), ambient_device(_described_device(self._mesh)))
        for override in self._overrides:
            override.__enter__()
        return self._mesh

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for override in reversed(self._overrides):
            override.__exit__(kind, error, traceback)


def _described_device(mesh: Mesh | AbstractMesh | None) -> AbstractDevice | None:
    """Returns what a mesh without devices says of them."""
    return mesh.abstract_device if isinstance(mesh, AbstractMesh) else None


def set_mesh(mesh: Mesh | None) -> MeshContext:
    """Sets the mesh in force: a PartitionSpec alone then means a sharding on it.

    Args:
        mesh: the mesh; None for none.

    Returns:
        A context manager that limits the mesh to a `with` block; without `with` the mesh stays in force.

    Raises:
        ShardingError: `mesh` is no Mesh.

    >>> import effx
    >>> from effx.sharding import PartitionSpec as P
    >>> with effx.set_mesh(effx.make_mesh((1,), ("data",))):
    ...     x = effx.device_put(effx.numpy.ones(4), P("data"))
    >>> x.sharding.spec
    P('data')
    """
    if mesh is not None and not isinstance(mesh, Mesh):
        raise ShardingError(f"set_mesh: expected a Mesh, got {mesh!r} of type {type(mesh).__name__}")
    return MeshContext(mesh)


def use_abstract_mesh(mesh: AbstractMesh) -> MeshContext:
    """Sets a mesh without devices in force for a `with` block: functions are traced for it.

    Raises:
        ShardingError: `mesh` is no AbstractMesh.

    >>> from effx.sharding import AbstractMesh, get_abstract_mesh, use_abstract_mesh
    >>> with use_abstract_mesh(AbstractMesh((4,), ("data",))):
    ...     get_abstract_mesh().size
    4
    """
    if not isinstance(mesh, AbstractMesh):
        raise ShardingError(
            f"use_abstract_mesh: expected an AbstractMesh, got {mesh!r} of type {type(mesh).__name__}"
        )
    return MeshContext(mesh)


def get_mesh() -> Mesh:
    """Returns the mesh in force, or a mesh without axes if there is none.

    >>> import effx
    >>> effx.sharding.get_mesh().empty
    True
    """
    mesh = ambient.value
    return mesh if isinstance(mesh, Mesh) else _EMPTY


def get_abstract_mesh() -> AbstractMesh:
    """Returns the mesh in force without its devices, or a mesh without axes if there is none. Axes over which an
    enclosing `shard_map` maps have the type Manual.

    >>> import effx
    >>> with effx.set_mesh(effx.make_mesh((1,), ("data",))):
    ...     print(effx.sharding.get_abstract_mesh().shape["data"])
    1
    >>> effx.sharding.get_abstract_mesh().empty
    True
    """
    mesh = ambient.value
    if mesh is None:
        return _ABSTRACT
    manual = manual_axes(mesh)
    abstract = mesh.abstract_mesh
    return abstract.update_axis_types(dict.fromkeys(manual, AxisType.Manual)) if manual else abstract


def manual_axes(mesh: Mesh | AbstractMesh) -> tuple[MeshAxisName, ...]:
    """Returns the axes of a mesh over which an enclosing `shard_map` maps."""
    if "shard_map" not in enclosing_replicas():
        return ()
    names = [name for name, _ in axes_in_scope()]
    return tuple([n for n in mesh.axis_names if n in names])


def describe_type_sharding(t: ArrayType) -> NamedSharding:
    """Returns the sharding that a type shows, as users see it: see `ArrayType.sharding`."""
    if t.explicit_sharding is None:
        return NamedSharding(get_abstract_mesh(), PartitionSpec(*[None] * t.ndim))
    mesh = t.explicit_sharding.mesh
    current = ambient.value
    if current is not None and current.shape_tuple == mesh.shape_tuple:
        mesh = mesh.update(abstract_device=current.abstract_mesh.abstract_device)
    manual = manual_axes(mesh)
    if manual:
        mesh = mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
    unreduced, reduced = [names.difference(manual) for names in t.explicit_sharding.sums]
    spec = PartitionSpec(*t.explicit_sharding.mesh_axes(t.ndim), unreduced=unreduced, reduced=reduced)
    return NamedSharding(mesh, spec)


def _mesh_in_force(mesh: Mesh | AbstractMesh) -> Mesh | AbstractMesh:
    """Returns the mesh in force instead of an AbstractMesh of it, which has no devices and may have Manual axes."""
    current = ambient.value
    if type(mesh) is Mesh or current is None or current.shape_tuple != mesh.shape_tuple:
        return mesh
    types = [
        kind if wanted is AxisType.Manual else wanted
        for kind, wanted in zip(current.axis_types, mesh.axis_types, strict=True)
    ]
    return current.update(axis_types=types)


def needs_current_mesh(sharding: object) -> TypeGuard[PartitionSpec | NamedSharding]:
    """Returns whether a sharding has no devices but those of the mesh in force."""
    return isinstance(sharding, PartitionSpec) or (
        isinstance(sharding, NamedSharding) and type(sharding.mesh) is AbstractMesh
    )


def sharding_on_current_mesh(function_name: str, sharding: PartitionSpec | NamedSharding) -> NamedSharding:
    """Returns the sharding of a PartitionSpec, or of a spec on an AbstractMesh, on the mesh in force.

    Raises:
        ShardingError: no mesh with devices is in force, or not one of the same axes.
    """
    mesh = ambient.value
    if isinstance(sharding, NamedSharding):
        if not isinstance(mesh, Mesh) or mesh.shape_tuple != sharding.mesh.shape_tuple:
            raise ShardingError(
                f"{function_name}: {sharding!r} has no devices, and no mesh with its axes is in force; use effx.set_mesh"
            )
        mesh = cast("Mesh", _mesh_in_force(sharding.mesh))
        return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)
    if not isinstance(mesh, Mesh):
        raise ShardingError(
            f"{function_name}: {sharding!r} alone means a sharding on the mesh in force, and there is none; "
            f"use effx.set_mesh, or give a NamedSharding"
        )
    return NamedSharding(mesh, sharding)


def make_sharding_constraint(function_name: str, sharding: object, ndim: int) -> Constrain | None:
    """Returns the sharding constraint operation for an array with `ndim` axes; None for one device.

    Raises:
        ShardingError: `sharding` is no sharding, or has more axes, or no mesh is in force.
    """
    if isinstance(sharding, SingleDeviceSharding):
        return None
    mesh: Mesh | AbstractMesh | None
    if isinstance(sharding, NamedSharding):
        mesh, spec = _mesh_in_force(sharding.mesh), sharding.spec
        if mesh.empty:  # that of types without a mesh
            return None
    elif isinstance(sharding, PartitionSpec):
        mesh, spec = ambient.value, sharding
        if mesh is None:
            sharding_on_current_mesh(function_name, spec)
        assert mesh is not None
        check_spec(function_name, mesh, spec)
    else:
        raise ShardingError(
            f"{function_name}: expected a NamedSharding or a PartitionSpec, got {sharding!r} of type "
            f"{type(sharding).__name__}"
        )
    for name in [n for entry in spec.partitions for n in entry_axes(entry)]:
        if name in manual_axes(mesh):
            raise ShardingError(
                f"{function_name}: {spec!r} shards along {name!r}, over which an outer shard_map maps: each device has "
                "its own part "
                f"already"
            )
    for name in (spec.unreduced | spec.reduced).intersection(manual_axes(mesh)):
        raise ShardingError(
            f"{function_name}: {spec!r} is unreduced or reduced along {name!r}, over which an outer shard_map maps; inside "
            "of it use lax.pcast"
        )
    if len(spec) > ndim:
        raise ShardingError(f"{function_name}: {spec!r} speaks of {len(spec)} axes, but the array has {ndim}")
    return make_mesh_constraint(mesh, spec, ndim)


def make_mesh_constraint(mesh: Mesh | AbstractMesh, spec: PartitionSpec, ndim: int) -> Constrain:
    """Returns the operation that constrains an array with `ndim` axes to a spec on a mesh."""
    axis_index = {name: i for i, name in enumerate(mesh.axis_names)}
    dimension_axes = [
        None if entry is PartitionSpec.UNCONSTRAINED else tuple([axis_index[n] for n in entry_axes(entry)])
        for entry in spec.partitions
    ]
    devices = platform = None
    if isinstance(mesh, Mesh):
        devices, platform = tuple([d.id for d in mesh.ordered]), mesh.ordered[0].platform
    replicated = [()] * (ndim - len(dimension_axes))
    unreduced, reduced = [
        tuple(sorted([axis_index[n] for n in names])) for names in (spec.unreduced, spec.reduced)
    ]
    return Constrain(
        mesh.shape_tuple,
        (*dimension_axes, *replicated),
        devices,
        platform,
        mesh.explicit_axes,
        unreduced,
        reduced,
    )


def with_sharding(function_name: str, sharding: object, x: Array) -> Array:
    """Constrains an array's sharding and memory, and by a Format its layout.

    In a program the default memory is no constraint: values are there unless they were moved elsewhere.
    """
    if isinstance(sharding, Format):
        y = x if sharding.sharding is None else with_sharding(function_name, sharding.sharding, x)
        return with_layout(function_name, sharding.layout, y) if isinstance(sharding.layout, Layout) else y
    if isinstance(sharding, SingleDeviceSharding) and type(x) is not Box and current_frame() is None:
        return device_put(x, sharding)
    op = make_sharding_constraint(function_name, sharding, x.type.ndim)
    if op is not None and current_frame() is None:
        op.check_equal_parts(x.type)
    if op is not None and op.explicit:
        track_axes_from_here()
    y = x if op is None else op(x)
    if not isinstance(sharding, Sharding):
        return y
    kind = sharding.nondefault_memory
    if kind is not None:
        return Offload("device", kind)(y)
    return (
        Offload("device", "pinned_host", back=True)(y)
        if type(y) is ConcreteArray and memory_kind_of(y) is not None
        else y
    )


def with_layout(function_name: str, layout: Layout, x: Array) -> Array:
    """Constrains the layout of an array; one that no transformation holds is laid out so.

    Raises:
        ShapeError: the layout is for another number of axes.
        BackendError: it has tiles, or packs elements, and `x` is a value of a program.
    """
    layout.check_rank(function_name, x.type)
    if not isinstance(x, Box) and current_frame() is None:
        array = to_concrete(x)
        is_laid_out = cast("Layout", array.format.layout).agrees_with(layout)
        return array if is_laid_out else device_put(array, Format(layout, array.sharding))
    if layout.tiling is not None or layout.sub_byte_element_size_in_bits:
        raise BackendError(
            f"{function_name}: XLA takes the order of axes inside of programs only, got {layout!r}"
        )
    return ConstrainLayout(layout.major_to_minor)(x)


def is_sharding(x: object) -> bool:
    """Returns whether a value is a leaf in a pytree of shardings."""
    return x is None or isinstance(x, Sharding | PartitionSpec | Device | Space | Format)


def broadcast_shardings(function_name: str, shardings: PyTree, tree: PyTree) -> list[Any]:
    """Returns the sharding for each leaf of a pytree, from a prefix of it.

    Raises:
        TreeError: the shardings are no prefix of the pytree.
    """
    try:
        return broadcast_prefix(shardings, tree, is_sharding)
    except TreeError as error:
        reason = error.message.partition(": ")[2]
        raise TreeError(f"{function_name}: the shardings are no prefix of the arrays: {reason}") from None


def with_sharding_constraint(x: T, shardings: PyTree) -> T:
    """Constrains the shardings of arrays at this point of a program; XLA's partitioner chooses those in between.

    Args:
        x: a pytree of arrays.
        shardings: a NamedSharding, a Format, or a PartitionSpec of the mesh in force, for all; or a pytree of them that is a
            prefix of `x`, in which None leaves arrays unconstrained, as `PartitionSpec.UNCONSTRAINED` does one axis.

    Returns:
        The same values. Derivatives get the same sharding, and under vmap the batch axis is left to the partitioner.

    Raises:
        ShardingError: an array cannot be sharded so, or a PartitionSpec is given and no mesh is in force.
        TreeError: `shardings` is no prefix of `x`.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> rows = NamedSharding(effx.make_mesh((1,), ("data",)), P("data"))
    >>> effx.jit(lambda x: effx.lax.with_sharding_constraint(x * 2, rows))(enp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return reshard_as("with_sharding_constraint", x, shardings)


def reshard(xs: T, out_shardings: PyTree) -> T:
    """Changes the shardings of arrays, in programs and outside of them.

    Args:
        xs: a pytree of arrays.
        out_shardings: as for `with_sharding_constraint`.

    Raises:
        ShardingError: an array cannot be sharded so, or a PartitionSpec is given and no mesh is in force.
        TreeError: `out_shardings` is no prefix of `xs`.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import AxisType, PartitionSpec as P
    >>> with effx.set_mesh(effx.make_mesh((1,), ("data",), AxisType.Explicit)):
    ...     print(effx.sharding.reshard(enp.ones(4), P("data")).sharding.spec)
    P('data')
    """
    return reshard_as("reshard", xs, out_shardings)


def reshard_as(function_name: str, xs: T, out_shardings: PyTree) -> T:
    """Changes shardings as `reshard` does, on behalf of a function that errors name."""
    leaves, form = flatten(xs)
    leaf_shardings = broadcast_shardings(function_name, out_shardings, xs)
    results: list[PyTree] = []
    for leaf, sharding in zip(leaves, leaf_shardings, strict=True):
        if sharding is None:
            results.append(leaf)
            continue
        array: Array = as_operand(leaf, function_name)
        results.append(with_sharding(function_name, sharding, array))
    result: T = form.unflatten(results)
    return result
