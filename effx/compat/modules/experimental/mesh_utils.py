"""`jax.experimental.mesh_utils`: grids of devices for a mesh, in the devices' order, as `effx.make_mesh` takes them."""

from collections.abc import Sequence
from math import prod

import numpy as np

from effx.errors import CompatError, DeviceCountError
from effx.lower.placement.backends import devices as all_devices
from effx.lower.placement.meshes import Devices
from effx.lower.placement.shardings import Device

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> Devices:
    """Returns devices as an array of a shape, for `Mesh`.

    Args:
        mesh_shape: the axis with the most traffic last.
        devices: as many as that is; all by default.
        contiguous_submeshes, allow_split_physical_axes: how to follow the network of TPUs; others have none.

    Raises:
        DeviceCountError: there are more or fewer devices.
        CompatError: the network of TPUs is to be followed.

    >>> create_device_mesh((1, 1), all_devices()[:1]).shape
    (1, 1)
    """
    there = all_devices() if devices is None else list(devices)
    if len(there) != prod(mesh_shape):
        raise DeviceCountError(
            f"create_device_mesh: {len(there)} devices do not make a mesh of {' x '.join(map(str, mesh_shape))}"
        )
    if (contiguous_submeshes or allow_split_physical_axes) and any([d.platform == "tpu" for d in there]):
        raise CompatError(
            "create_device_mesh: effx takes TPUs in their order and does not look at their network; give the devices in "
            "the order that you want, without contiguous_submeshes and allow_split_physical_axes"
        )
    return _device_grid(there).reshape(tuple(mesh_shape))


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> Devices:
    """Returns devices of several fast networks, which a slower one joins, as an array for `Mesh`.

    Args:
        mesh_shape: of the devices in one fast network. dcn_mesh_shape: of these networks, with as many axes.
        devices: all by default.
        process_is_granule: True where each process has a network of its own; else devices say it, by `slice_index`.
        should_sort_granules_by_key: True for the networks in the order of their numbers; False for that of the devices.
        allow_split_physical_axes: as for `create_device_mesh`.

    Returns:
        An array of the product of both shapes: along each axis the networks, and within each its devices.

    Raises:
        DeviceCountError: there are more or fewer networks, or devices in one.
        CompatError: the shapes have not as many axes, devices do not say their network, or that of TPUs is to be followed.

    >>> create_hybrid_device_mesh((1, 1), (1, 1), all_devices()[:1], process_is_granule=True).shape
    (1, 1)
    """
    if len(mesh_shape) != len(dcn_mesh_shape):
        raise CompatError(
            f"create_hybrid_device_mesh: mesh_shape {tuple(mesh_shape)} and dcn_mesh_shape {tuple(dcn_mesh_shape)} must "
            f"have as many axes"
        )
    attribute = "process_index" if process_is_granule else "slice_index"
    networks: dict[int, list[Device]] = {}
    for d in all_devices() if devices is None else devices:
        number = getattr(d, attribute, None)
        if number is None:
            raise CompatError(
                f"create_hybrid_device_mesh: {d} has no {attribute}; give process_is_granule=True"
            )
        networks.setdefault(number, []).append(d)
    if len(networks) != prod(dcn_mesh_shape):
        raise DeviceCountError(
            f"create_hybrid_device_mesh: {len(networks)} networks do not make a mesh of "
            f"{' x '.join(map(str, dcn_mesh_shape))}"
        )
    grids = [
        create_device_mesh(mesh_shape, networks[k], allow_split_physical_axes=allow_split_physical_axes)
        for k in (sorted(networks) if should_sort_granules_by_key else networks)
    ]
    n = len(mesh_shape)
    full_grid = np.stack(grids).reshape((*dcn_mesh_shape, *mesh_shape))
    beside = full_grid.transpose([axis for i in range(n) for axis in (i, n + i)])
    return beside.reshape([a * b for a, b in zip(dcn_mesh_shape, mesh_shape, strict=True)])


def _device_grid(devices: Sequence[Device]) -> Devices:
    result: Devices = np.empty(len(devices), object)
    result[:] = devices
    return result
