"""Arrays on several devices: their shards, moves, and uses on one device."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import BackendError, DonatedArrayError, DTypeError, ShapeError, ShardingError, TreeError
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.placement.shardings import (
    NamedSharding,
    SingleDeviceSharding,
    grid_sharding,
    mesh_buffer_sharding,
)
from effx.lower.runtime.executables import Executable

D = tuple(effx.devices())
X = np.arange(24, dtype=np.float32).reshape(4, 6)


def spread(grid: tuple[int, ...], cuts: tuple[int, ...], x: Any = X) -> ConcreteArray:
    """Puts an array on a grid of devices."""
    y = effx.device_put(x, grid_sharding(D[: int(np.prod(grid))], grid, cuts))
    assert isinstance(y, ConcreteArray)
    return y


GRIDS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((4,), (0,)),
    ((4,), ()),
    ((2, 3), (0, 1)),
    ((3, 2), (1, 0)),
    ((4, 2), (0,)),
    ((2, 4), (1,)),
    ((2, 2), ()),
]


@pytest.mark.parametrize(("grid", "cuts"), GRIDS, ids=str)
def test_parts(grid: tuple[int, ...], cuts: tuple[int, ...]) -> None:
    """Each device holds its shard, and together they are the array."""
    x = spread(grid, cuts)
    np.testing.assert_array_equal(np.asarray(x), X)
    sharding = x.sharding
    assert isinstance(sharding, NamedSharding)
    shards = x.addressable_shards
    assert [s.device for s in shards] == list(sharding.ordered_devices)
    seen: dict[str, list[int]] = {}
    for s in shards:
        np.testing.assert_array_equal(np.asarray(s.data), X[s.index])
        assert s.data.shape == sharding.shard_shape(X.shape)
        assert isinstance(s.data, ConcreteArray)
        assert s.data.devices() == {s.device}
        assert sharding.devices_indices_map(X.shape)[s.device] == s.index
        seen.setdefault(str(s.index), []).append(s.replica_id)
    assert all(sorted(ids) == list(range(len(ids))) for ids in seen.values())
    assert sharding.is_fully_replicated == (not cuts)
    assert x.devices() == sharding.device_set
    assert x.committed


def test_equivalent_shardings() -> None:
    """Two ways to say the same."""
    a, b = grid_sharding(D, (8,), (0,)), grid_sharding(D, (8, 1), (0, 1))
    assert a != b
    assert a.is_equivalent_to(b, 2)
    assert not a.is_equivalent_to(grid_sharding(D, (4, 2), (0,)), 2)
    assert not a.is_equivalent_to(SingleDeviceSharding(D[0]), 2)
    assert mesh_buffer_sharding(a, 2) is mesh_buffer_sharding(grid_sharding(D, (8,), (0,)), 2)


def test_one_device_has_one_part() -> None:
    """Ordinary arrays answer the same questions."""
    x = enp.ones((2, 3))
    assert isinstance(x, ConcreteArray)
    (shard,) = x.addressable_shards
    assert (shard.device, shard.index, shard.replica_id) == (x.device, (slice(None), slice(None)), 0)
    assert shard.data is x


@pytest.mark.parametrize(("grid", "cuts"), GRIDS, ids=str)
def test_computations_stay_on_the_devices(grid: tuple[int, ...], cuts: tuple[int, ...]) -> None:
    """Operations, jit and gradients run on the array's devices; NumPy and Python see the whole."""
    x = spread(grid, cuts)
    np.testing.assert_allclose(np.asarray(x * 2 + enp.sin(x)), X * 2 + np.sin(X), rtol=1e-6)
    assert (x + 1).sharding == x.sharding
    double = effx.jit(lambda v: v * 2)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(double(x)), 2 * X)
        np.testing.assert_array_equal(np.asarray(double(enp.asarray(X))), 2 * X)
    assert double(x).sharding == x.sharding
    with pytest.raises(
        BackendError, match=r"^add: arrays are committed to different devices, cpu:2 and the mesh"
    ):
        _ = x + effx.device_put(X, D[2])
    with pytest.raises(
        BackendError, match=r"is bound to cpu:3, but an argument is committed to cpu:0, cpu:1"
    ):
        effx.jit(lambda v: v * 2, device=D[3])(x)
    assert str(x) == str(X)
    assert repr(x) == repr(enp.asarray(X))
    assert float(x[1, 2]) == 8.0
    assert x.tolist() == X.tolist()
    assert effx.device_put(x, D[5]).devices() == {D[5]}
    np.testing.assert_array_equal(np.asarray(effx.device_put(x, D[5])), X)
    for same in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), effx.device_get(x)):
        np.testing.assert_array_equal(np.asarray(same), X)
    close = effx.grad(lambda v: (v**2).sum())(x)
    np.testing.assert_array_equal(np.asarray(close), 2 * X)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "complex64", "float16", "uint32"])
def test_dtypes(dtype: str) -> None:
    """Parts of every dtype come back as they were."""
    x = enp.asarray(X % 2).astype(dtype)
    y = spread((4,), (0,), x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))
    z = effx.pmap(lambda a: a)(y)
    np.testing.assert_array_equal(np.asarray(z), np.asarray(x))


def test_results_go_into_the_next_map_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy, and no Python: C++ has the compiled program at the second call."""
    f = effx.pmap(lambda v: v + 1)
    x = f(X)
    y = f(x)
    with monkeypatch.context() as patch:
        patch.setattr(Executable, "run", None)
        for _ in range(3):
            y = f(y)
    np.testing.assert_array_equal(np.asarray(y), X + 5)
    assert y.sharding == x.sharding
    # Another layout takes the way through Python, and gives the same.
    np.testing.assert_array_equal(np.asarray(f(spread((2, 3), (0, 1)))), X + 1)
    np.testing.assert_array_equal(np.asarray(f(effx.device_put(X, D[6]))), X + 1)
    np.testing.assert_array_equal(np.asarray(f(X)), X + 1)


def test_donation() -> None:
    """A donated array is deleted on all devices, and its use is an error."""
    f = effx.pmap(lambda v: v + 1, donate_argnums=0)
    x = effx.pmap(lambda v: v * 1)(X)
    y = f(x)
    np.testing.assert_array_equal(np.asarray(y), X + 1)
    assert x.is_deleted()
    with pytest.raises(DonatedArrayError, match=r"the array f32\[4,6\] was donated"):
        _ = x + 1
    y = effx.pmap(lambda v: v * 1)(X)
    y.delete()
    with pytest.raises(DonatedArrayError, match="was donated"):
        _ = y.addressable_shards


def test_put_sharded_and_replicated() -> None:
    """One array for each device, or one on all of them."""
    parts = [{"a": X[i], "b": float(i)} for i in range(4)]
    y = effx.device_put_sharded(parts, D[:4])
    np.testing.assert_array_equal(np.asarray(y["a"]), X)
    assert y["b"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert y["a"].sharding == grid_sharding(D[:4], (4,), (0,))
    z = effx.device_put_replicated((X[0], 2), D[2:5])
    np.testing.assert_array_equal(np.asarray(z[0]), np.stack([X[0]] * 3))
    assert z[1].tolist() == [2, 2, 2]
    assert z[0].devices() == set(D[2:5])
    assert effx.device_put_replicated(1.0, D[:1]).tolist() == [1.0]


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: effx.device_put_sharded([X], D[:2]),
        ShapeError,
        "device_put_sharded: needs one shard for each device, got 1 shards for 2 devices",
    ),
    (
        lambda: effx.device_put_sharded([X, X[0]], D[:2]),
        ShapeError,
        "device_put_sharded: shard 0 is f32[4,6], shard 1 is f32[6]",
    ),
    (
        lambda: effx.device_put_sharded([X, (X,)], D[:2]),
        TreeError,
        "device_put_sharded: shard 0 has the structure PyTreeDef(*), shard 1 has PyTreeDef((*,))",
    ),
    (
        lambda: effx.device_put_replicated(X, []),
        BackendError,
        "device_put_replicated: devices must name at least one device, got none",
    ),
    (
        lambda: effx.device_put_replicated(X, [D[0], D[0]]),
        BackendError,
        "device_put_replicated: devices repeats a device: cpu:0, cpu:0",
    ),
    (
        lambda: spread((4,), (0,)).device,
        BackendError,
        "x.device: f32[4,6] is on 4 devices; use x.devices() or x.sharding",
    ),
    (
        lambda: spread((4,), (0,)).__dlpack__(),
        DTypeError,
        "dlpack: f32[4,6] is on several devices; share x.addressable_shards[i].data",
    ),
    (
        lambda: effx.config.update("num_cpu_devices", 3),
        BackendError,
        (
            "num_cpu_devices: the CPU backend has started with 8; set EFFX_NUM_CPU_DEVICES, or the flag before "
            "anything is computed"
        ),
    ),
    (
        lambda: effx.device_put(X, grid_sharding(D[:3], (3,), (0,))),
        ShardingError,
        "NamedSharding: axis 0 of the shape (4, 6) is 4, which P('m0') cannot split into 3 equal parts",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=[e[2][:40] for e in ERRORS])
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    """The first line is the whole message."""
    effx.devices()
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).splitlines()[0] == text
    assert effx.config.num_cpu_devices == len(D)


@pytest.mark.unguarded
@pytest.mark.parametrize(
    ("variables", "update", "devices"),
    [
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, "", 4),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "EFFX_NUM_CPU_DEVICES": "1"}, "", 1),
        (
            {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
            'effx.config.update("num_cpu_devices", 3)',
            3,
        ),
        ({"XLA_FLAGS": "--xla_cpu_enable_fast_math=false"}, "", 1),
    ],
)
def test_xla_flags_count_devices_where_effx_has_no_flag(
    variables: dict[str, str], update: str, devices: int
) -> None:
    """As programs for JAX set them."""
    code = f"import effx\n{update}\nprint(effx.device_count(), effx.config.num_cpu_devices)"
    around = {name: value for name, value in os.environ.items() if name != "EFFX_NUM_CPU_DEVICES"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**around, **variables}
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(devices)] * 2


@pytest.mark.unguarded
def test_parts_are_read_without_importing_jax() -> None:
    """jaxlib would import jax, if it is installed, to give the parts a type."""
    code = """
import sys, effx, effx.numpy as enp, numpy as np
effx.config.update("num_cpu_devices", 3)
x = effx.pmap(lambda v: v + 1)(np.arange(3.0))
effx.device_get(x), x.addressable_shards, x + 1, print(x)
y = enp.ones(3) + 1
y.unsafe_buffer_pointer(), np.asarray(y), y.copy_to_host_async(), y.tolist(), np.from_dlpack(y), y.sharding, y.is_ready()
print("jax" in sys.modules, effx.device_count())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["[1. 2. 3.]", "False 3"]
