"""Topologies: programs are compiled for devices that are not there, which hold nothing and run nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import BackendError, DeviceCountError, ShardingError
from effx.experimental import topologies
from effx.experimental.topologies import (
    TopologyDescription,
    get_attached_topology,
    get_topology_desc,
    make_mesh,
)
from effx.lower.placement.backends import find_plugins
from effx.lower.runtime.topologies import DESCRIBES_CPUS
from effx.sharding import Mesh, NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P

absent = pytest.mark.skipif(
    not DESCRIBES_CPUS, reason="in jaxlib 0.10 a client stands for CPUs that are not there"
)


def mesh_of(rows: int, columns: int) -> Mesh:
    return make_mesh(get_topology_desc(f"{rows}x{columns}", "cpu"), (rows, columns), ("data", "model"))


MESH = mesh_of(16, 16)


def struct(shape: tuple[int, ...], *entries: Any, mesh: Mesh = MESH) -> Any:
    return effx.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, P(*entries)))


def message(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def test_more_than_there_are() -> None:
    """A mesh of 256 can be compiled for by a process with 8 devices, which stay the ones that compute."""
    assert MESH.size == 256
    there = effx.devices()
    compiled = (
        effx.jit(lambda x, w: enp.tanh(x @ w))
        .lower(struct((512, 64), "data"), struct((64, 32), None, "model"))
        .compile()
    )
    stats = compiled.memory_analysis()
    assert stats.argument_size_in_bytes == (32 * 64 + 64 * 2) * 4
    assert stats.output_size_in_bytes == 32 * 2 * 4
    assert "num_partitions=256" in compiled.as_text()
    assert compiled.output_shardings.spec == P("data", "model")
    assert compiled.input_shardings[0][0] == struct((512, 64), "data").sharding
    assert effx.devices() == there
    assert enp.ones(3).devices() <= set(there)


def test_constraints_and_constants() -> None:
    """Constraints name the topology's devices; values that a function closes over need not be on them."""
    table = enp.asarray(np.arange(4096.0, dtype=np.float32).reshape(64, 64))

    def f(x: Any) -> Any:
        y = lax.with_sharding_constraint(x @ table, NamedSharding(MESH, P(None, "model")))
        return lax.scan(lambda c, row: (c + row, c * row), enp.zeros(64), y)

    compiled = effx.jit(f).lower(struct((256, 64), "data")).compile()
    assert "while" in compiled.as_text()


def test_gradients_and_donation() -> None:
    """Training steps compile, donated memory is used again, without a warning of memory that could not be."""
    noise = enp.asarray(np.ones((64, 64), np.float32))

    def step(w: Any, x: Any) -> Any:
        return w - effx.grad(lambda w: enp.sum((x @ (w + noise)) ** 2))(w)

    w, x = struct((64, 64), "data", "model"), struct((512, 64), "data")
    compiled = effx.jit(step, donate_argnums=0, out_shardings=w.sharding).lower(w, x).compile()
    assert compiled.memory_analysis().alias_size_in_bytes == 4 * 4 * 4


def test_attached() -> None:
    """The topology of what is there is what is there."""
    assert get_attached_topology("cpu").devices == effx.devices("cpu")
    mesh = make_mesh(get_attached_topology(), (4, 2), ("data", "model"), contiguous_submeshes=True)
    x = effx.device_put(np.arange(8.0), NamedSharding(mesh, P("data")))
    np.testing.assert_array_equal(x, np.arange(8.0))


@absent
def test_bytes() -> None:
    """A topology goes through bytes."""
    t = get_topology_desc("4x2", "cpu")
    again = TopologyDescription.deserialize(t.serialize())
    assert [(d.id, d.platform) for d in again.devices] == [(d.id, d.platform) for d in t.devices]
    mesh = make_mesh(again, (8,), ("data",))
    text = effx.jit(enp.sum).lower(struct((16,), "data", mesh=mesh)).compile().as_text()
    assert "all-reduce" in text
    with pytest.raises(BackendError) as e:
        TopologyDescription.deserialize(b"nothing")
    assert message(e.value).startswith("deserialize: the topology cannot be read: ")


@absent
def test_nothing_there() -> None:
    """Devices of a topology belong to no process, hold no arrays and run nothing."""
    assert MESH.local_devices == []
    sharding = NamedSharding(MESH, P("data"))
    assert not sharding.is_fully_addressable
    nothing = (
        "the device cpu:0 is part of a topology: programs are compiled for it and not run, and it holds no arrays; "
        "ShapeDtypeStruct(shape, dtype, sharding=) describes one with a sharding there"
    )
    for target in (sharding, SingleDeviceSharding(MESH.ordered[0]), MESH.ordered[0]):
        with pytest.raises(BackendError) as e:
            effx.device_put(np.ones(16), target)
        assert message(e.value) == f"device_put: {nothing}"
    compiled = effx.jit(enp.sin).lower(struct((16,), "data")).compile()
    with pytest.raises(BackendError) as e:
        compiled(enp.ones(16))
    assert message(e.value) == f"sin: {nothing}"
    with pytest.raises(BackendError) as e:
        effx.jit(enp.sin, in_shardings=sharding)(enp.ones(16))
    assert message(e.value) == f"sin: {nothing}"
    with pytest.raises(BackendError) as e:
        compiled.runtime_executable()
    assert message(e.value) == f"sin: {nothing}"
    with pytest.raises(BackendError) as e:
        compiled.cost_analysis()
    assert message(e.value).startswith("cost_analysis: XLA estimates no costs of sin: UNIMPLEMENTED: ")


@absent
def test_python_functions() -> None:
    """Programs that call them compile: their address has a meaning where they run."""
    called = effx.jit(lambda x: effx.pure_callback(np.sin, x, x)).lower(struct((16,), "data")).compile()
    assert "callback" in called.as_text()


@absent
def test_unknown_devices() -> None:
    """A constraint alone does not say which topology it means."""

    def f(x: Any) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(MESH, P("data")))

    with pytest.raises(BackendError) as e:
        effx.jit(f).lower(enp.ones(16)).compile()
    assert message(e.value) == (
        "with_sharding_constraint: there is no device cpu:8; where the mesh is one of a topology, an argument or a result "
        "must be on it, by ShapeDtypeStruct(sharding=), in_shardings or out_shardings"
    )


TPU = """
import effx
from effx.experimental import topologies
from effx.library.scaling import Hardware, plan
from effx.sharding import NamedSharding, PartitionSpec as P
mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:2x4"), (2, 4), ("data", "model"))
def struct(*spec):
    return effx.ShapeDtypeStruct((512, 512), "bfloat16", sharding=NamedSharding(mesh, P(*spec)))
lowered = effx.jit(lambda x, y: x @ y, out_shardings=NamedSharding(mesh, P())).lower(struct(None, "model"), struct("model"))
p = plan(lowered.compile(), Hardware("TPU v5e", 197e12, 819e9, 16e9, 1e11))
print(lowered.platform, p.flops, [(c.kind, c.axes, c.devices, c.bytes) for c in p.collectives])
print(effx.default_backend(), effx.numpy.ones(2).sum())
"""


@pytest.mark.skipif(not any([p.platform == "tpu" for p in find_plugins()]), reason="libtpu is not installed")
def test_tpus() -> None:
    """With TPUs' plugin programs are compiled for TPUs, where there are none; bfloat16 is sent as such."""
    environment = {
        **os.environ,
        "EFFX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", TPU], env=environment, capture_output=True, text=True, check=True, timeout=200
    )
    size = 2 * 3 / 4 * 512 * 512 * 2
    assert done.stdout.splitlines()[-2:] == [
        f"tpu {2 * 512**3 / 4} [('all-reduce', ('model',), 4, {size})]",
        "cpu 2.0",
    ]


NAMES = ["", "x", "4x", "0x4", "-4", "a", "4x4.0", "²", "65536x2"]


@pytest.mark.parametrize("name", NAMES)
def test_wrong_names(name: str) -> None:
    with pytest.raises(BackendError) as e:
        get_topology_desc(name, "cpu")
    assert message(e.value) == (
        f"get_topology_desc: a topology of CPUs is named by its sizes, such as '16x16', at most 65536 devices in all, "
        f"got {name!r}"
    )


@pytest.mark.skipif(DESCRIBES_CPUS, reason="this jaxlib writes topologies")
def test_no_bytes() -> None:
    with pytest.raises(BackendError) as e:
        get_topology_desc("4", "cpu").serialize()
    assert message(e.value) == "serialize: jaxlib 0.10 does not write topologies; use a newer one"
    with pytest.raises(BackendError) as e:
        TopologyDescription.deserialize(b"")
    assert message(e.value) == "deserialize: jaxlib 0.10 does not read topologies; use a newer one"


def test_refusals() -> None:
    with pytest.raises(BackendError) as e:
        get_topology_desc("4", "cpu", wrap=True)
    assert (
        message(e.value)
        == "get_topology_desc: a topology of CPUs takes a name such as '16x16' alone, got wrap"
    )
    with pytest.raises(BackendError) as e:
        get_topology_desc("4", "abacus")
    assert message(e.value).startswith("devices: there is no platform 'abacus' on this machine; found: cpu")
    t = get_topology_desc("4x2", "cpu")
    with pytest.raises(DeviceCountError) as d:
        make_mesh(t, (16,), ("data",))
    assert message(d.value).startswith("make_mesh: a mesh of 16 needs 16 devices, but there are 8")
    with pytest.raises(ShardingError) as s:
        make_mesh(t, (4,), ("data",))
    assert message(s.value) == "make_mesh: a mesh of 4 leaves out some of the topology's 8 devices"
    assert topologies.make_mesh(t, (2, 4), ("a", "b"), contiguous_submeshes=True).size == 8
