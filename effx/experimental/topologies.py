"""Topologies: devices that need not be there, to compile for them ahead of time.

With a plugin, such as that of `libtpu`, programs are compiled for its devices as they would be on them. Without one,
CPUs can represent any accelerator: XLA's partitioner is the same for all, and its text can be read.
"""

from collections.abc import Sequence
from typing import final

import attrs
import numpy as np

from effx.errors import ShardingError
from effx.ir.meshes import MeshAxisName
from effx.lazy import list_names
from effx.lower.placement.backends import devices as all_devices
from effx.lower.placement.shardings import Device
from effx.lower.runtime.topologies import deserialize_devices, serialize_devices, topology_devices
from effx.sharding import Mesh
from effx.transforms.placement.meshes import make_mesh as mesh_of

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]
__dir__ = list_names(__all__)


def _device_list(devices: Sequence[Device]) -> list[Device]:
    return list(devices)


@final
@attrs.frozen
class TopologyDescription:
    """Devices, and how they hang together.

    Attributes:
        devices: in the order in which the topology counts them.

    >>> from effx.experimental.topologies import get_topology_desc
    >>> len(get_topology_desc("2x4", "cpu").devices)
    8
    """

    devices: list[Device] = attrs.field(converter=_device_list)

    def serialize(self) -> bytes:
        """Returns the description as bytes.

        Raises:
            BackendError: jaxlib is 0.10, or the devices' plugin has no such form.
        """
        return serialize_devices(self.devices)

    @classmethod
    def deserialize(cls, serialized: bytes) -> "TopologyDescription":
        """Returns what `serialize` described.

        Raises:
            BackendError: the bytes are something else, or jaxlib is 0.10.
        """
        return cls(deserialize_devices(serialized))


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """Returns the topology of the devices that are there.

    Args:
        platform: of which platform; None for the default one.

    Raises:
        BackendError: there is no such platform.

    >>> import effx
    >>> get_attached_topology().devices == effx.devices()
    True
    """
    return TopologyDescription(all_devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: "str | bool | int | Sequence[int] | float"
) -> TopologyDescription:
    """Returns a topology, whose devices need not exist.

    Programs are compiled for them by `jit(f).lower(x).compile()`, where `x` are ShapeDtypeStructs with shardings on a
    mesh of these devices. They hold no arrays and run nothing.

    Args:
        topology_name: for a TPU such as `v5e:16x16`, its kind and shape; for CPUs the sizes of a grid, such as `16x16`.
        platform: "tpu" by default, "cpu", or the name of a plugin.
        **kwargs: the plugin's options.

    Raises:
        BackendError: there is no plugin of the platform, or it has no such topology.

    >>> import effx
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = make_mesh(get_topology_desc("16x16", "cpu"), (16, 16), ("data", "model"))
    >>> x = effx.ShapeDtypeStruct((256, 256), "float32", sharding=NamedSharding(mesh, P("data", "model")))
    >>> compiled = effx.jit(lambda x: x @ x).lower(x).compile()
    >>> compiled.memory_analysis().argument_size_in_bytes
    1024
    """
    return TopologyDescription(
        topology_devices(topology_name, "tpu" if platform is None else platform, kwargs)
    )


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: "tuple[MeshAxisName, ...]",
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """Makes a mesh of all devices of a topology, in its order.

    A TPU's are in the order of their coordinates, so that a mesh of the topology's own shape has an axis along each
    ring of links.

    Args:
        topo: the topology.
        mesh_shape: the number of devices along each axis.
        axis_names: the axes' names, all different.
        contiguous_submeshes: True to require that the devices of each process form a block of the mesh.

    Raises:
        DeviceCountError: there are fewer devices.
        ShardingError: there are more, sizes and names do not fit together, or a process's devices are no block.

    >>> make_mesh(get_topology_desc("4x2", "cpu"), (4, 2), ("data", "model")).shape["data"]
    4
    """
    mesh = mesh_of(mesh_shape, axis_names, devices=topo.devices)
    if mesh.size != len(topo.devices):
        raise ShardingError(
            f"make_mesh: a mesh of {' x '.join(map(str, mesh.axis_sizes))} leaves out some of the topology's "
            f"{len(topo.devices)} devices"
        )
    if contiguous_submeshes and not _are_box_shaped(mesh):
        raise ShardingError("make_mesh: the devices of a process are no block of the mesh")
    return mesh


def _are_box_shaped(mesh: Mesh) -> bool:
    """Says whether each process's devices fill a box of the mesh."""
    owners = np.array([d.process_index for d in mesh.ordered]).reshape(mesh.axis_sizes)
    for owner in np.unique(owners):
        mine = owners == owner
        if not mine[np.ix_(*[np.unique(i) for i in mine.nonzero()])].all():
            return False
    return True
