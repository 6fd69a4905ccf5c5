"""The small names of `effx.sharding`, `effx.stages`, `effx.typing` and `effx` itself that speak of devices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShardingError
from effx.sharding import Mesh, NamedSharding, SingleDeviceSharding, make_single_device_sharding
from effx.sharding import PartitionSpec as P

D = effx.devices()
MESH = effx.make_mesh((4, 2), ("x", "y"))
X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.mark.parametrize("spec", [P(), P("x"), P("y", "x"), P(None, ("y",)), P(("y", "x"))], ids=str)
def test_shards(spec: P) -> None:
    """A shard made by hand is that of the array: index and replica follow from the sharding."""
    x = effx.device_put(X, NamedSharding(MESH, spec))
    seen: dict[str, int] = {}
    for d, s in zip(MESH.ordered, x.addressable_shards, strict=True):
        made: effx.Shard[None] = effx.Shard(d, x.sharding, X.shape)
        assert (made.index, made.replica_id, made.data) == (s.index, s.replica_id, None)
        assert (s.device, s.sharding, s.global_shape) == (d, x.sharding, X.shape)
        np.testing.assert_array_equal(np.asarray(s.data), X[s.index])
        assert s.replica_id == seen.get(str(s.index), 0)
        seen[str(s.index)] = s.replica_id + 1
    (alone,) = effx.device_put(X, D[1]).addressable_shards
    assert (alone.device, alone.replica_id, alone.sharding) == (D[1], 0, SingleDeviceSharding(D[1]))
    assert alone.index == (slice(None), slice(None))


def test_make_single_device_sharding() -> None:
    """It is the class, by a function."""
    assert make_single_device_sharding(D[1]) == SingleDeviceSharding(D[1])
    host = make_single_device_sharding(D[1], memory_kind="pinned_host")
    assert (host.device, host.memory_kind) == (D[1], "pinned_host")


def test_meshes() -> None:
    """Scalar meshes, copies, and the mesh in force under its short names."""
    assert Mesh(np.array(D[0], object), ()).is_scalar
    assert not MESH.is_scalar
    assert not effx.make_mesh((1,), ("x",)).is_scalar
    assert copy.copy(MESH) is copy.deepcopy(MESH) is MESH
    assert copy.deepcopy({"at": NamedSharding(MESH, P("x"))})["at"] == NamedSharding(MESH, P("x"))
    assert effx.get_mesh().empty
    with effx.set_mesh(MESH):
        assert effx.get_mesh() == MESH
        assert effx.get_abstract_mesh() == MESH.abstract_mesh
    with effx.use_abstract_mesh(MESH.abstract_mesh):
        assert effx.get_abstract_mesh().shape == {"x": 4, "y": 2}
    assert effx.get_abstract_mesh().empty


def test_smap_is_a_decorator() -> None:
    """Without a function smap waits for one."""

    @effx.smap(in_axes=0, out_axes=0, axis_name="x")
    def f(x: Any) -> Any:
        return x + effx.lax.psum(enp.sum(x), "x")

    with effx.set_mesh(MESH):
        assert f(X).tolist() == (X + X.sum()).tolist()


def test_stages() -> None:
    """The stages are those through which functions go."""
    f = effx.jit(enp.sin)
    traced = f.trace(1.0)
    lowered = traced.lower()
    compiled = lowered.compile()
    found = [effx.stages.Traced, effx.stages.Lowered, effx.stages.Compiled]
    assert [type(x) for x in (traced, lowered, compiled)] == found
    assert traced.effects == frozenset()
    assert traced.out_avals == compiled.out_avals == effx.typeof(traced.out_info)
    assert traced.out_info == compiled.out_info
    (info,) = compiled.args_info[0]
    assert type(info) is effx.stages.ArgInfo
    options: effx.stages.CompilerOptions = {"xla_embed_ir_in_executable": True}
    assert lowered.compile(options)(1.0).item() == pytest.approx(np.sin(1.0))
    wrapped: effx.stages.Wrapped[..., Any] = f
    assert wrapped(0.0).item() == 0


def test_typing() -> None:
    """Annotations mean what functions take."""

    def double(x: effx.typing.ArrayLike, dtype: effx.typing.DTypeLike) -> Any:
        return enp.asarray(x, dtype) * 2

    for x in (1, 2.0, True, np.float32(3), np.ones(2), enp.ones(2)):
        assert isinstance(x, effx.Array | bool | int | float | np.generic | np.ndarray)
        assert double(x, "float32").dtype == np.float32


ERRORS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: NamedSharding(MESH, P("x", None, "y")).check_compatible_aval((8, 4)),
        "NamedSharding: P('x', None, 'y') shards 3 array axes, but the array has 2",
    ),
    (
        lambda: make_single_device_sharding(D[0], memory_kind="hbm"),
        "SingleDeviceSharding: cpu:0 has no memory of the kind 'hbm'; it has 'device', 'pinned_host', 'unpinned_host'",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[], object], message: str) -> None:
    """Whole texts."""
    with pytest.raises(ShardingError) as caught:
        call()
    assert caught.value.message == message


def test_shapes_that_fit() -> None:
    """Only the number of axes counts."""
    for sharding in (SingleDeviceSharding(D[0]), NamedSharding(MESH, P("x", None))):
        for shape in ((8, 4), (7, 3), (0, 2, 2)):
            sharding.check_compatible_aval(shape)
    SingleDeviceSharding(D[0]).check_compatible_aval(())
