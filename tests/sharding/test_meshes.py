"""Meshes, PartitionSpecs and NamedShardings against a model in NumPy, and what arrays on them say."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx.errors import DeviceCountError, ShardingError, TreeError
from effx.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)
from effx.sharding import PartitionSpec as P

D = effx.devices()
GRIDS = ((8,), (4, 2), (2, 4), (2, 2, 2), (1, 8), (3, 2), (1,), (5,))
NAMES = ("x", "y", "z")


def mesh_of(grid: tuple[int, ...], reverse: bool = False) -> Mesh:
    devices = D[: math.prod(grid)]
    return Mesh(np.array(devices[::-1] if reverse else devices).reshape(grid), NAMES[: len(grid)])


@st.composite
def shardings(draw: st.DrawFn, ndim: int = 2) -> tuple[NamedSharding, tuple[int, ...]]:
    """A sharding on some mesh, and the shape of an array that it can cut."""
    mesh = mesh_of(draw(st.sampled_from(GRIDS)), draw(st.booleans()))
    names = list(draw(st.permutations(mesh.axis_names)))
    entries: list[Any] = []
    shape: list[int] = []
    for _ in range(ndim):
        taken = names[: draw(st.integers(0, len(names)))]
        names = names[len(taken) :]
        entries.append(tuple(taken))
        shape.append(math.prod([mesh.shape[n] for n in taken]) * draw(st.integers(0, 2)))
    return NamedSharding(mesh, P(*entries[: draw(st.integers(0, ndim))])), tuple(shape)


def block(sharding: NamedSharding, x: Any, at: tuple[int, ...]) -> Any:
    """The part of an array for one place in the mesh, cut axis by axis."""
    mesh = sharding.mesh
    for axis, entry in enumerate(sharding.spec):
        for name in () if entry is None else entry if isinstance(entry, tuple) else (entry,):
            n = mesh.shape[name]
            x = np.split(x, n, axis)[at[mesh.axis_names.index(name)]]
    return x


@given(found=shardings())
def test_parts(found: tuple[NamedSharding, tuple[int, ...]]) -> None:
    """Each device holds the block that its place in the mesh says."""
    sharding, shape = found
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    y = effx.device_put(x, sharding)
    np.testing.assert_array_equal(np.asarray(y), x)
    assert y.sharding == sharding
    assert y.sharding.is_equivalent_to(sharding, 2)
    shards = {s.device: s for s in y.addressable_shards}
    seen: dict[str, list[int]] = {}
    for at in np.ndindex(sharding.mesh.axis_sizes):
        device: Any = sharding.device_mesh.devices[at]
        shard, wanted = shards[device], block(sharding, x, at)
        np.testing.assert_array_equal(np.asarray(shard.data), wanted)
        assert shard.data.shape == sharding.shard_shape(shape) == wanted.shape
        np.testing.assert_array_equal(x[shard.index], wanted)
        assert sharding.devices_indices_map(shape)[device] == shard.index
        seen.setdefault(str(shard.index), []).append(shard.replica_id)
    if x.size:  # empty parts look alike
        assert all(sorted(ids) == list(range(len(ids))) for ids in seen.values())
        assert sharding.is_fully_replicated == (len(seen) == 1)


@given(a=shardings(), data=st.data())
def test_moves(a: tuple[NamedSharding, tuple[int, ...]], data: st.DataObject) -> None:
    """From any sharding to any other, to one device and back, the elements are the same."""
    sharding, _ = a
    other, _ = data.draw(shardings())
    shape = (24 * 5, 24 * 5)
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    y = effx.device_put(effx.device_put(x, sharding), other)
    assert y.sharding == other
    np.testing.assert_array_equal(np.asarray(y), x)
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
    z = effx.device_put(y, D[3])
    assert z.sharding == SingleDeviceSharding(D[3])
    np.testing.assert_array_equal(np.asarray(effx.device_put(z, sharding)), x)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "complex64", "float16", "uint32", "int4"])
def test_dtypes(dtype: str) -> None:
    """Elements of all dtypes move between shardings."""
    mesh = mesh_of((4, 2))
    x = (enp.arange(32) % 2).astype(dtype).reshape(8, 4)
    y = effx.device_put(x, NamedSharding(mesh, P("x", "y")))
    z = effx.device_put(y, NamedSharding(mesh, P(None, ("x", "y")[:1])))
    assert z.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(z), np.asarray(x))


def test_keys() -> None:
    """Keys of random numbers are cut like other elements, and draw the same."""
    mesh = mesh_of((4, 2))
    keys = effx.random.split(effx.random.key(0), 8)
    spread = effx.device_put(keys, NamedSharding(mesh, P("x")))
    moved = effx.device_put(spread, NamedSharding(mesh, P(("x", "y"))))
    wanted = effx.vmap(lambda k: effx.random.normal(k, (3,)))(keys)
    for found in (spread, moved):
        np.testing.assert_array_equal(effx.vmap(lambda k: effx.random.normal(k, (3,)))(found), wanted)
    # A new key is bound to no device, so that it goes where other arrays lie.
    made: Any = effx.random.key(0)
    assert not made.committed
    placed = effx.jit(lambda k, x: x + effx.random.normal(k, (8,)))(
        made, effx.device_put(np.ones(8), spread.sharding)
    )
    assert placed.sharding.device_set == set(D)


def test_meshes() -> None:
    """What a mesh says of itself."""
    mesh = effx.make_mesh((4, 2), ("data", "model"), (AxisType.Auto, AxisType.Auto))
    assert dict(mesh.shape) == {"data": 4, "model": 2}
    assert (mesh.size, mesh.empty, mesh.axis_names, mesh.axis_sizes) == (8, False, ("data", "model"), (4, 2))
    assert mesh.device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert (mesh.auto_axes, mesh.manual_axes, mesh.explicit_axes) == (("data", "model"), (), ())
    assert mesh.are_all_axes_auto
    assert mesh.update_axis_types({"model": AxisType.Auto}) == mesh
    assert mesh.local_devices == D
    assert mesh.local_mesh == mesh
    assert not mesh.is_multi_process
    assert mesh.abstract_mesh == AbstractMesh((4, 2), ("data", "model"), AxisType.Auto)
    assert repr(mesh) == "Mesh('data': 4, 'model': 2, axis_types=(Auto, Auto))"
    assert mesh == Mesh(mesh.devices, mesh.axis_names, mesh.axis_types)
    assert hash(mesh) == hash(Mesh(mesh.devices, mesh.axis_names, mesh.axis_types))
    assert mesh != mesh.update(axis_names=("a", "b"))
    assert mesh != Mesh(mesh.devices[::-1], mesh.axis_names, mesh.axis_types)
    abstract = AbstractMesh((2,), "i", AxisType.Manual)
    assert abstract.are_all_axes_manual
    mixed = AbstractMesh((2, 3), ("i", "j"), (AxisType.Explicit, AxisType.Auto))
    assert (mixed.auto_axes, mixed.explicit_axes, mixed.manual_axes) == (("j",), ("i",), ())
    assert mixed.update_axis_types({"j": AxisType.Manual}).are_all_axes_explicit_or_manual
    assert abstract.update(axis_sizes=(3,)).size == 3
    assert pickle.loads(pickle.dumps(abstract)) == abstract
    assert effx.make_mesh((2,), ("i",), devices=D[4:]).device_ids.tolist() == [4, 5]


def test_partition_specs() -> None:
    """Specs are like tuples whose entries have one form each."""
    spec = P("x", ["y", "z"], None, ())
    assert spec.partitions == ("x", ("y", "z"), None, None)
    assert repr(spec) == "P('x', ('y', 'z'), None, None)"
    assert P(("x",)) == P("x")
    assert P("x") != P("x", None)
    assert hash(P("x", None)) == hash(P("x", ()))
    assert (len(spec), spec[1], next(iter(spec)), spec.index("x"), spec.count(None)) == (
        4,
        ("y", "z"),
        "x",
        0,
        2,
    )
    assert P("x") + P("y") == P("x", "y") == P("x") + ("y",)
    assert ("x",) + P("y") == P("x", "y")
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert pickle.loads(pickle.dumps(P(P.UNCONSTRAINED)))[0] is P.UNCONSTRAINED
    mesh = mesh_of((4, 2))
    assert NamedSharding(mesh, P("x")) == NamedSharding(mesh, P("x", None))
    assert hash(NamedSharding(mesh, P("x"))) == hash(NamedSharding(mesh, P("x", None)))
    assert NamedSharding(mesh, P("x")) != NamedSharding(mesh, P("y"))
    sharding = NamedSharding(mesh, P("x"))
    assert sharding.replicated_axes == frozenset({"y"})
    assert sharding.update(spec=P("y")).spec == P("y")
    assert (sharding.num_devices, sharding.is_fully_addressable, sharding.memory_kind) == (8, True, "device")
    assert sharding.addressable_devices == sharding.device_set == set(D)


def test_the_mesh_in_force() -> None:
    """A PartitionSpec alone means the mesh in force, in a block or from then on; jit stages anew for another."""
    mesh, other = mesh_of((4, 2)), mesh_of((2, 2))
    assert get_mesh().empty
    assert get_abstract_mesh().empty
    seen = []

    @effx.jit
    def f(x: Any) -> Any:
        seen.append(get_mesh())
        return effx.lax.with_sharding_constraint(x * 2, P("x"))

    with effx.set_mesh(mesh):
        assert get_mesh() == mesh
        assert f(enp.ones(8)).sharding == NamedSharding(mesh, P("x"))
        with effx.set_mesh(other):
            assert f(enp.ones(8)).sharding == NamedSharding(other, P("x"))
        assert f(enp.ones(8)).sharding == NamedSharding(mesh, P("x"))
        assert effx.device_put(np.ones(8), P("x")).sharding.mesh == mesh
    assert get_mesh().empty
    assert seen == [mesh, other]
    try:
        effx.set_mesh(mesh)
        assert f(enp.ones(8)).sharding == NamedSharding(mesh, P("x"))
    finally:
        effx.set_mesh(None)
    assert len(seen) == 2
    with use_abstract_mesh(AbstractMesh((4,), ("i",))):
        assert get_abstract_mesh().shape["i"] == 4
        assert get_mesh().empty
    with mesh, other as inner:
        assert inner is other
        assert get_mesh() == other
        with pytest.raises(ValueError, match="out of a block"), mesh:
            raise ValueError("out of a block")
        assert get_mesh() == other
    assert get_mesh().empty


def test_shardings_on_abstract_meshes() -> None:
    """They are the mesh in force's where it has the same axes, in programs, for device_put and for jit."""
    mesh = mesh_of((4, 2))
    with effx.set_mesh(mesh):
        rows = NamedSharding(get_abstract_mesh(), P("x"))
        made = effx.jit(lambda x: effx.lax.with_sharding_constraint(x * 2, rows))(enp.ones(8))
        assert made.sharding == NamedSharding(mesh, P("x"))
        assert effx.device_put(np.ones(8), rows).sharding == NamedSharding(mesh, P("x"))
        assert effx.jit(lambda x: x + 1, out_shardings=rows)(enp.ones(8)).sharding == NamedSharding(
            mesh, P("x")
        )
        assert effx.lax.with_sharding_constraint(enp.ones(8), rows).sharding == NamedSharding(mesh, P("x"))
    same = NamedSharding(mesh.abstract_mesh, P("x", None))
    assert rows == same
    assert hash(rows) == hash(same)
    assert rows.is_equivalent_to(same, 2)
    assert not rows.is_equivalent_to(NamedSharding(mesh, P("x")), 1)
    assert (rows.shard_shape((8,)), rows.num_devices, rows.memory_kind) == ((2,), 8, None)
    assert (
        repr(rows) == "NamedSharding(mesh=AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x'))"
    )
    assert pickle.loads(pickle.dumps(rows)) == rows
    constrained = effx.jit(lambda x: effx.lax.with_sharding_constraint(x * 2, rows))  # on the first devices
    np.testing.assert_array_equal(constrained(enp.ones(8)), 2 * np.ones(8))


@pytest.mark.parametrize("n", [1, 3, 6, 8])
def test_constraints_to_unequal_parts(n: int) -> None:
    """Inside of programs XLA pads them; results that cannot be in equal parts are whole."""
    mesh, x = mesh_of((4, 2)), np.arange(float(n), dtype=np.float32)
    rows = NamedSharding(mesh, P("x"))

    def f(x: Any) -> Any:
        return effx.lax.with_sharding_constraint(enp.sin(x), rows)

    for g in (f, lambda x: f(x) + 1, lambda x: f(x)[:1], effx.grad(lambda x: (f(x) ** 2).sum())):
        y = effx.jit(g)(x)
        np.testing.assert_allclose(
            y, g(x) if n == 8 else effx.jit(g)(effx.device_put(x, rows.update(spec=P()))), rtol=1e-6
        )
        assert {s.data.shape for s in y.addressable_shards} == {y.sharding.shard_shape(y.shape)}
    np.testing.assert_allclose(effx.jit(f)(x), np.sin(x), rtol=1e-6)
    doubled = effx.jit(lambda x: effx.lax.scan(lambda c, _: (f(c) * 2, None), x, None, length=2)[0])(x)
    np.testing.assert_allclose(doubled, 2 * np.sin(2 * np.sin(x)), rtol=1e-5)


def test_arrays_like_others_are_where_they_are() -> None:
    """Those of another shape too, if the other is whole."""
    x = effx.device_put(np.ones(4), D[1])
    whole, cut = [effx.device_put(np.ones(8), NamedSharding(mesh_of((4, 2)), s)) for s in (P(), P("x"))]
    for like in (effx.lax.full_like, enp.full_like):
        assert like(x, 2, shape=(3,)).sharding == like(x, 2).sharding == x.sharding
        assert like(whole, 2, shape=(3,)).sharding == like(whole, 2).sharding == whole.sharding
        assert like(cut, 2).sharding == cut.sharding
        np.testing.assert_array_equal(like(whole, 2, shape=(3,)), [2, 2, 2])
    assert effx.lax.full((2,), 3.0, sharding=x.sharding).sharding == x.sharding


MESH = mesh_of((4, 2))
ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: NamedSharding(MESH, P("z")),
        ShardingError,
        "NamedSharding: the mesh has no axis 'z', which P('z') names; it has ('x', 'y')",
    ),
    (
        lambda: NamedSharding(D[0], P("x")),  # type: ignore[arg-type]  # wrong on purpose
        ShardingError,
        "NamedSharding: expected a Mesh or an AbstractMesh, got CpuDevice(id=0)",
    ),
    (
        lambda: NamedSharding(MESH.abstract_mesh, P("x")).device_set,
        ShardingError,
        (
            "NamedSharding: NamedSharding(mesh=AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x')) has no "
            "devices: its mesh is an AbstractMesh"
        ),
    ),
    (
        lambda: effx.device_put(np.ones(8), NamedSharding(MESH.abstract_mesh, P("x"))),
        ShardingError,
        (
            "device_put: NamedSharding(mesh=AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x')) has no "
            "devices, and no mesh with its axes is in force; use effx.set_mesh"
        ),
    ),
    (
        lambda: NamedSharding(MESH, P("x", ("y", "x"))),
        ShardingError,
        "NamedSharding: P('x', ('y', 'x')) shards along the mesh axis 'x' twice",
    ),
    (
        lambda: NamedSharding(MESH, P(P.UNCONSTRAINED)),
        ShardingError,
        "NamedSharding: only with_sharding_constraint leaves axes open, got P(UNCONSTRAINED)",
    ),
    (
        lambda: NamedSharding(MESH, P("x"), memory_kind="hbm"),
        ShardingError,
        "NamedSharding: cpu:0 has no memory of the kind 'hbm'; it has 'device', 'pinned_host', 'unpinned_host'",
    ),
    (
        lambda: effx.device_put(np.ones((6, 2)), NamedSharding(MESH, P("x"))),
        ShardingError,
        "NamedSharding: axis 0 of the shape (6, 2) is 6, which P('x') cannot split into 4 equal parts",
    ),
    (
        lambda: effx.device_put(1.0, NamedSharding(MESH, P("x"))),
        ShardingError,
        "NamedSharding: P('x') shards 1 array axes, but the array has 0",
    ),
    (
        lambda: effx.device_put(np.ones(8), P("x")),
        ShardingError,
        (
            "device_put: P('x') alone means a sharding on the mesh in force, and there is none; use "
            "effx.set_mesh, or give a "
            "NamedSharding"
        ),
    ),
    (
        lambda: effx.lax.with_sharding_constraint(enp.ones(8), P("x")),
        ShardingError,
        (
            "with_sharding_constraint: P('x') alone means a sharding on the mesh in force, and there is none; use "
            "effx.set_mesh, or give a NamedSharding"
        ),
    ),
    (
        lambda: effx.lax.with_sharding_constraint(enp.ones(6), NamedSharding(MESH, P("x"))),
        ShardingError,
        "with_sharding_constraint: f32[6] cannot be sharded into equal parts by (x) of a mesh of {'x': 4, 'y': 2}",
    ),
    (
        lambda: effx.lax.with_sharding_constraint(enp.ones(8), "x"),
        ShardingError,
        "with_sharding_constraint: expected a NamedSharding or a PartitionSpec, got 'x' of type str",
    ),
    (
        lambda: effx.lax.with_sharding_constraint([enp.ones(6)], [NamedSharding(MESH, P("y"))] * 2),
        TreeError,
        (
            "with_sharding_constraint: the shardings are no prefix of the arrays: the prefix is a list of length "
            "2, the full "
            "tree a list of length 1"
        ),
    ),
    (lambda: Mesh(D, ("x", "y")), ShardingError, "Mesh: 1 axes have 2 names: sizes (8,), names ('x', 'y')"),
    (lambda: Mesh([D[0], D[0]], "x"), ShardingError, "Mesh: the device cpu:0 stands in the mesh twice"),
    (
        lambda: effx.make_mesh((8,), ("x",), AxisType.Manual),
        ShardingError,
        (
            "Mesh: axes of a mesh of devices are Auto or Explicit, got (Manual,): Manual are those over which a shard_map "
            "maps, inside of it"
        ),
    ),
    (lambda: Mesh([1, 2], "x"), ShardingError, "Mesh: expected devices, got 1 of type int"),
    (
        lambda: AbstractMesh((2, 2), ("x", "x")),
        ShardingError,
        "AbstractMesh: the axis name 'x' is given twice",
    ),
    (
        lambda: AbstractMesh((0,), ("x",)),
        ShardingError,
        "AbstractMesh: axis sizes must be positive ints, got (0,)",
    ),
    (
        lambda: effx.make_mesh((16,), ("x",)),
        DeviceCountError,
        (
            "make_mesh: a mesh of 16 needs 16 devices, but there are 8; set EFFX_NUM_CPU_DEVICES before the start for more "
            "CPU devices"
        ),
    ),
    (lambda: effx.set_mesh(3), ShardingError, "set_mesh: expected a Mesh, got 3 of type int"),  # type: ignore[arg-type]  # wrong on purpose
    (
        lambda: P({}),
        ShardingError,
        "PartitionSpec: an entry is None, the name of a mesh axis or a tuple of names, got {}",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    """The first line is the whole message."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value).splitlines()[0]
    assert message == text


def test_meshes_say_what_their_devices_are() -> None:
    """A function reads the devices of the mesh that it is traced for, and is lowered for their platform."""
    gpu = AbstractDevice("NVIDIA H100", 1, "cuda")
    mesh = AbstractMesh((4,), ("x",), AxisType.Explicit, abstract_device=gpu)
    assert mesh == AbstractMesh((4,), ("x",), AxisType.Explicit)
    assert mesh.update(axis_sizes=(2,)).abstract_device is gpu
    assert mesh.update(abstract_device=None).abstract_device is None
    seen: list[Any] = []

    @effx.jit
    def f(x: Any) -> Any:
        seen.append(effx.sharding.get_abstract_mesh().abstract_device)
        return 2 * x

    with effx.sharding.use_abstract_mesh(mesh):
        assert f.lower(np.ones(4)).platform == "cuda"
        assert f.trace(np.ones(4)).lower(lowering_platforms=["tpu"]).platform == "tpu"
    with effx.sharding.use_abstract_mesh(mesh.update(abstract_device=None)):
        assert f.lower(np.ones(4)).platform == "cpu"
    with effx.set_mesh(effx.make_mesh((4,), "x", AxisType.Explicit)) as devices:
        assert f.lower(np.ones(4)).platform == "cpu"
        assert isinstance(devices, Mesh)
        assert seen[-1] == AbstractDevice(effx.devices()[0].device_kind, None, "cpu")
        assert effx.typeof(effx.device_put(np.ones(4), P("x"))).sharding.mesh == devices.abstract_mesh
    assert seen[0] is gpu
    assert seen[1] is None
    with pytest.raises(ShardingError) as caught:
        AbstractMesh((4,), ("x",), abstract_device="cuda")  # type: ignore[arg-type]
    assert caught.value.message == (
        "AbstractMesh: abstract_device must be an AbstractDevice, got 'cuda' of type str"
    )
