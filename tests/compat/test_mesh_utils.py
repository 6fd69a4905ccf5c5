"""Grids of devices, of one network and of several."""

from typing import Any

import numpy as np
import pytest

import effx
from effx.compat.modules.experimental.mesh_utils import create_device_mesh, create_hybrid_device_mesh
from effx.errors import CompatError, DeviceCountError
from effx.sharding import Mesh

CPUS = effx.devices("cpu")


class Fake:
    """A TPU, as far as is asked."""

    platform = "tpu"

    def __init__(self, number: int, process_index: int, slice_index: int) -> None:
        self.number, self.process_index, self.slice_index = number, process_index, slice_index

    def __repr__(self) -> str:
        return f"TPU{self.number}"


# Of slices 1, 0, 1, 0, …, two processes each; as JAX is given them, by which the expected numbers below were made.
TPUS: Any = [Fake(i, i // 2, 1 - i % 2) for i in range(8)]


def numbers(grid: Any) -> Any:
    return np.vectorize(lambda d: d.number)(grid).tolist()


def test_devices_in_order() -> None:
    grid = create_device_mesh((2, 4), CPUS[:8], contiguous_submeshes=True, allow_split_physical_axes=True)
    assert grid.shape == (2, 4)
    assert list(grid.flat) == CPUS[:8]
    assert Mesh(grid, ("a", "b")).shape == {"a": 2, "b": 4}
    assert create_device_mesh([len(effx.devices())]).tolist() == effx.devices()


def test_several_networks() -> None:
    """Along each axis the networks come first, then the devices of one."""
    assert numbers(create_hybrid_device_mesh((1, 4), (2, 1), TPUS)) == [[1, 3, 5, 7], [0, 2, 4, 6]]
    assert numbers(create_hybrid_device_mesh((2, 2), (1, 2), TPUS)) == [[1, 3, 0, 2], [5, 7, 4, 6]]
    unsorted = create_hybrid_device_mesh((2, 2), (1, 2), TPUS, should_sort_granules_by_key=False)
    assert numbers(unsorted) == [[0, 2, 1, 3], [4, 6, 5, 7]]
    by_process = create_hybrid_device_mesh((2, 1), (2, 2), TPUS, process_is_granule=True)
    assert numbers(by_process) == [[0, 2], [1, 3], [4, 6], [5, 7]]


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: create_device_mesh((3,), CPUS[:2]),
        DeviceCountError,
        "create_device_mesh: 2 devices do not make a mesh of 3",
    ),
    (
        lambda: create_device_mesh((8,), TPUS, contiguous_submeshes=True),
        CompatError,
        (
            "create_device_mesh: effx takes TPUs in their order and does not look at their network; give the devices in the "
            "order that you want, without contiguous_submeshes and allow_split_physical_axes"
        ),
    ),
    (
        lambda: create_hybrid_device_mesh((2,), (2, 1), TPUS),
        CompatError,
        "create_hybrid_device_mesh: mesh_shape (2,) and dcn_mesh_shape (2, 1) must have as many axes",
    ),
    (
        lambda: create_hybrid_device_mesh((2,), (4,), TPUS),
        DeviceCountError,
        "create_hybrid_device_mesh: 2 networks do not make a mesh of 4",
    ),
    (
        lambda: create_hybrid_device_mesh((2,), (2,), TPUS),
        DeviceCountError,
        "create_device_mesh: 4 devices do not make a mesh of 2",
    ),
]


@pytest.mark.parametrize(("act", "error", "text"), ERRORS)
def test_errors(act: Any, error: Any, text: str) -> None:
    with pytest.raises(error) as caught:
        act()
    assert caught.value.message == text


def test_devices_that_do_not_say_their_network() -> None:
    class Alone:
        platform, process_index = "gpu", 0

    device: Any = Alone()
    with pytest.raises(
        CompatError, match=r"has no slice_index; give process_is_granule=True$|has no slice_index; give"
    ):
        create_hybrid_device_mesh((1,), (1,), [device])
    assert create_hybrid_device_mesh((1,), (1,), [device], process_is_granule=True)[0] is device
