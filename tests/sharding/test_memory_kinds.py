"""Memories of devices: where arrays lie, what programs take from there and leave there, and what refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShardingError
from effx.experimental import topologies
from effx.memory import Space
from effx.sharding import NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P

D = effx.devices()
MESH = effx.make_mesh((4,), ("x",), devices=D[:4])
X = np.arange(8, dtype=np.float32)
KINDS = ["device", "pinned_host", "unpinned_host"]
ONE_HOST = SingleDeviceSharding(D[0], memory_kind="pinned_host")
HOST = NamedSharding(MESH, P("x"), memory_kind="pinned_host")
ROWS = NamedSharding(MESH, P("x"))
PLACES: dict[str, tuple[SingleDeviceSharding | NamedSharding, SingleDeviceSharding | NamedSharding]] = {
    "one device": (SingleDeviceSharding(D[0]), ONE_HOST),
    "rows": (ROWS, HOST),
    "copies": (NamedSharding(MESH, P()), NamedSharding(MESH, P(), memory_kind="pinned_host")),
    "mesh of one": (
        NamedSharding(effx.make_mesh((1,), ("x",)), P("x")),
        NamedSharding(effx.make_mesh((1,), ("x",)), P("x"), memory_kind="pinned_host"),
    ),
}
places = pytest.mark.parametrize("place", PLACES)


def kind(x: Any) -> str:
    """Returns in which memory an array lies, by the buffers themselves where XLA says."""
    found = {s.data.sharding.memory_kind for s in x.addressable_shards}
    assert found == {x.sharding.memory_kind}
    return str(found.pop())


def test_kinds_are_part_of_shardings() -> None:
    """Equality, hashes, repr; None is the default kind."""
    for plain, host in PLACES.values():
        assert plain.memory_kind == D[0].default_memory().kind == "device"
        assert plain == plain.with_memory_kind("device") == host.with_memory_kind(None)
        assert hash(plain) == hash(host.with_memory_kind(None))
        assert host == plain.with_memory_kind("pinned_host")
        assert hash(host) == hash(plain.with_memory_kind("pinned_host"))
        assert host != plain
        assert not host.is_equivalent_to(plain, 1)
        assert host.is_equivalent_to(plain.with_memory_kind("pinned_host"), 1)
        assert "memory_kind=pinned_host" in repr(host)
    assert HOST.update(spec=P()).memory_kind == "pinned_host"
    assert [m.kind for m in D[0].addressable_memories()] == KINDS
    assert D[0].memory("pinned_host").kind == "pinned_host"


@places
@pytest.mark.parametrize("memory", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int8", "complex64", "float8_e4m3fn"])
def test_there_and_back(place: str, memory: str, dtype: str) -> None:
    """Elements arrive; so do those of an array that was elsewhere."""
    plain = PLACES[place][0]
    value = np.asarray(enp.asarray(X % 2).astype(dtype))
    x = effx.device_put(value, plain.with_memory_kind(memory))
    assert kind(x) == memory
    assert x.sharding == plain.with_memory_kind(memory)
    assert x.committed
    np.testing.assert_array_equal(np.asarray(x), value)
    for other in KINDS:
        y = effx.device_put(x, plain.with_memory_kind(other))
        assert kind(y) == other
        assert np.asarray(y).tobytes() == value.tobytes()


@places
def test_shapes_and_keys(place: str) -> None:
    """Rank 0, no elements, and keys, whose type only the wrapper knows."""
    for value in (np.float32(3), np.zeros((0, 2), np.int16)):
        at = PLACES[place][1]
        spec = at.update(spec=P()) if isinstance(at, NamedSharding) else at
        x = effx.device_put(value, spec)
        assert kind(x) == "pinned_host"
        np.testing.assert_array_equal(np.asarray(x), value)
    keys = effx.random.split(effx.random.key(3), 4)
    held = effx.device_put(keys, PLACES[place][1])
    assert kind(held) == "pinned_host"
    assert effx.random.key_data(held).tolist() == effx.random.key_data(keys).tolist()
    assert effx.random.normal(held[1]).tolist() == effx.random.normal(keys[1]).tolist()


@places
def test_spaces(place: str) -> None:
    """Space moves arrays to another memory of the devices on which they lie."""
    plain, host = PLACES[place]
    x = effx.device_put(X, plain)
    there = effx.device_put(x, Space.Host)
    assert there.sharding == host
    assert effx.device_put(there, Space.Host) is there
    back = effx.device_put(there, Space.Device)
    assert back.sharding == plain
    assert effx.device_put(x, Space.Device) is x
    assert back.tolist() == there.tolist() == X.tolist()
    a, b = effx.device_put((X, {"w": X}), (Space.Host, Space.Device))
    assert (kind(a), kind(b["w"])) == ("pinned_host", "device")


def test_moves_between_devices() -> None:
    """A device alone means its default memory; shards are gathered and cut whatever the memory."""
    x = effx.device_put(X, HOST)
    assert effx.device_put(x, D[2]).sharding == SingleDeviceSharding(D[2])
    other = SingleDeviceSharding(D[5], memory_kind="unpinned_host")
    assert effx.device_put(x, other).sharding == other
    assert effx.device_put(effx.device_put(X, ONE_HOST), D[0]).sharding == SingleDeviceSharding(D[0])
    backwards = NamedSharding(
        effx.make_mesh((4,), ("x",), devices=D[3::-1]), P("x"), memory_kind="pinned_host"
    )
    for target in (HOST, HOST.update(spec=P()), backwards, ROWS.update(spec=P()), other):
        for source in (HOST, HOST.update(spec=P()), ROWS, ONE_HOST):
            y = effx.device_put(effx.device_put(X, source), target)
            assert y.sharding == target
            assert y.tolist() == X.tolist()
    copy = effx.device_put(x, HOST, may_alias=False)
    assert copy.sharding == HOST
    one = effx.device_put(X, ONE_HOST)
    assert effx.device_put(one, ONE_HOST, may_alias=False).sharding == ONE_HOST


@places
def test_arrays_of_parts(place: str) -> None:
    """Arrays made of parts lie where the sharding says, whatever the parts' memory."""
    plain, host = PLACES[place]
    x = effx.make_array_from_callback(X.shape, host, lambda index: X[index])
    y = effx.make_array_from_process_local_data(host, X)
    parts = [s.data for s in effx.device_put(X, plain).addressable_shards]
    z = effx.make_array_from_single_device_arrays(X.shape, host, parts)
    same = [s.data for s in x.addressable_shards]
    again = effx.make_array_from_single_device_arrays(X.shape, host, same)
    for found in (x, y, z, again):
        assert found.sharding == host
        assert kind(found) == "pinned_host"
        assert found.tolist() == X.tolist()
    pointers = [p.unsafe_buffer_pointer() for p in same]
    assert [s.data.unsafe_buffer_pointer() for s in again.addressable_shards] == pointers


@places
def test_operations_compute_in_the_default_memory(place: str) -> None:
    """Eager operations and jit read what lies elsewhere; their results lie where computations do."""
    plain, host = PLACES[place]
    x, h = effx.device_put(X, plain), effx.device_put(X, host)
    double = effx.jit(lambda a: a * 2)
    for _ in range(3):  # C++ calls the second time, and must tell the memories apart
        for given in (h, x):
            for y in (double(given), given + given, effx.jit(lambda a: a + a)(given)):
                assert kind(y) == "device"
                assert y.sharding.is_equivalent_to(plain, 1)
                assert y.tolist() == (X * 2).tolist()
    both = effx.jit(lambda a, b: a - b)
    assert [both(h, x).tolist(), both(x, h).tolist(), both(h, h).tolist()] == [[0.0] * 8] * 3
    assert h[3].item() == 3
    assert enp.sum(h).item() == 28
    assert kind(effx.jit(lambda a: a)(h)) == "pinned_host"  # passed through
    through = effx.jit(lambda a: (a, a + 1, effx.jit(lambda b: b)(a)))(h)
    assert [kind(y) for y in through] == ["pinned_host", "device", "pinned_host"]


@places
@pytest.mark.parametrize("memory", ["pinned_host", "unpinned_host"])
def test_out_shardings(place: str, memory: str) -> None:
    """Results lie in the memory that out_shardings names, also when C++ calls, and when they are donated to."""
    plain = PLACES[place][0]
    at = plain.with_memory_kind(memory)
    f = effx.jit(lambda a: (a * 2, a + 1), out_shardings=(at, plain))
    for _ in range(3):
        y, z = f(X)
        assert (kind(y), kind(z)) == (memory, "device")
        assert (y.sharding, z.sharding) == (at, plain)
        assert (y.tolist(), z.tolist()) == ((X * 2).tolist(), (X + 1).tolist())
        assert y.committed
    g = effx.jit(lambda a: a * 2, out_shardings=plain)
    assert kind(g(effx.device_put(X, at))) == "device"
    back = effx.jit(lambda a: effx.device_put(a, Space.Host), out_shardings=plain)
    assert kind(back(X)) == "device"


def test_another_device() -> None:
    """A sharding of one device binds the function to it."""
    at = SingleDeviceSharding(D[3], memory_kind="pinned_host")
    for f in (
        effx.jit(lambda a: a * 2, out_shardings=at),
        effx.jit(lambda a: a * 2, in_shardings=at, out_shardings=at),
    ):
        y = f(X)
        assert y.sharding == at
        assert y.tolist() == (X * 2).tolist()
        assert f(y).sharding == at
        assert f.lower(X).compile()(X).sharding == at


@places
def test_in_shardings(place: str) -> None:
    """Arguments are taken from the memory that in_shardings names, and moved there from the host."""
    plain, host = PLACES[place]
    f = effx.jit(lambda a, b: a * 2 + b, in_shardings=(host, plain), out_shardings=host)
    for given in (X, effx.device_put(X, host)):
        y = f(given, X)
        assert y.sharding == host
        assert y.tolist() == (X * 3).tolist()
    compiled = f.lower(X, X).compile()
    assert compiled.input_shardings == ((host, plain), {})
    assert compiled.output_shardings == host
    assert kind(compiled(X, X)) == "pinned_host"
    described = effx.ShapeDtypeStruct((8,), "float32", sharding=host)
    lowered = effx.jit(lambda a: a * 2).lower(described)
    assert lowered.as_text().count('mhlo.memory_kind = "pinned_host"') == 1
    assert lowered.compile().input_shardings == ((host,), {})


@places
def test_inside_of_programs(place: str) -> None:
    """device_put in a function says where its results lie; transformations pass it on."""
    plain, host = PLACES[place]
    x = effx.device_put(X, plain)
    ways: list[Callable[[Any], Any]] = [
        lambda a: effx.device_put(a * 2, Space.Host),
        lambda a: effx.device_put(a * 2, host),
        lambda a: effx.jit(lambda b: effx.device_put(b * 2, host))(a),
        lambda a: effx.checkpoint(lambda b: effx.device_put(b * 2, host))(a),
    ]
    for way in ways:
        y = effx.jit(way)(x)
        assert kind(y) == "pinned_host"
        assert y.sharding.is_equivalent_to(host, 1)
        assert y.tolist() == (X * 2).tolist()
        back = effx.jit(lambda a, way=way: effx.device_put(way(a), Space.Device))(x)
        assert kind(back) == "device"
        used = effx.jit(lambda a, way=way: way(a) + 1)(x)
        assert kind(used) == "device"
        assert used.tolist() == (X * 2 + 1).tolist()
        slope = effx.grad(lambda a, way=way: enp.sum(way(a) ** 2))
        assert slope(x).tolist() == effx.jit(slope)(x).tolist() == (8 * X).tolist()


def test_transformations() -> None:
    """vmap, scan and cond of functions that put values in the host's memory."""
    put = effx.jit(lambda a: effx.device_put(enp.sin(a), Space.Host))
    rows = X.reshape(4, 2)
    y = effx.jit(effx.vmap(put))(rows)
    assert kind(y) == "pinned_host"
    np.testing.assert_allclose(np.asarray(y), np.sin(rows), rtol=1e-6)

    def step(c: Any, a: Any) -> Any:
        held = effx.device_put(c + a, Space.Host)
        return effx.device_put(held, Space.Device), held * 2

    total, sums = effx.jit(lambda a: effx.lax.scan(step, enp.float32(0), a))(X)
    assert total.item() == 28
    assert sums.tolist() == (2 * np.cumsum(X)).tolist()
    chosen = effx.jit(lambda p, a: effx.lax.cond(p, lambda b: effx.device_put(b, Space.Host), lambda b: b, a))
    assert chosen(True, X).tolist() == chosen(False, X).tolist() == X.tolist()


def test_maps_over_devices() -> None:
    """shard_map and pmap take arrays out of any memory."""
    x = effx.device_put(X, HOST)

    def one(a: Any) -> Any:
        return a + effx.lax.psum(enp.sum(a), "x")

    summed: Any = effx.shard_map(one, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    for f in (summed, effx.jit(summed)):
        assert f(x).sharding == ROWS
        assert f(x).tolist() == (X + 28).tolist()
    assert kind(effx.jit(summed, out_shardings=HOST)(x)) == "pinned_host"
    mapped: Any = effx.pmap(lambda a: effx.lax.psum(a, "i"), axis_name="i")
    assert mapped(x[:4]).tolist() == [6.0] * 4


def test_constraints_and_resharding() -> None:
    """A sharding says in which memory, too, in a program and outside."""
    spread = HOST.update(spec=P())
    for way in (effx.lax.with_sharding_constraint, effx.sharding.reshard):
        for f in (way, effx.jit(way, static_argnums=1)):
            sharded: Any = effx.device_put(X, ROWS)
            y: Any = f(sharded, spread)
            assert y.sharding == spread
            assert y.tolist() == X.tolist()
    assert effx.sharding.reshard(effx.device_put(X, HOST), ROWS).sharding == ROWS


def test_donation_needs_the_same_memory() -> None:
    """Memory of one kind takes no result of another."""
    h = effx.device_put(X, ONE_HOST)
    double = effx.jit(lambda a: a * 2, donate_argnums=0, out_shardings=ONE_HOST)
    y = double(h)
    assert h.is_deleted()
    assert kind(y) == "pinned_host"
    assert y.tolist() == (X * 2).tolist()
    text = effx.jit(lambda a: a * 2, donate_argnums=0, out_shardings=ONE_HOST).lower(X).as_text()
    assert "jax.buffer_donor = true" in text
    assert "tf.aliasing_output" not in text


def test_offloaded_residuals_stay_between_calls() -> None:
    """What a policy offloads leaves the forward program in the host's memory; gradients are what they were."""
    policy = effx.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["h"]
    )

    def f(a: Any) -> Any:
        h = effx.ad_checkpoint.checkpoint_name(enp.sin(a), "h")
        return enp.sum(enp.cos(h) * h)

    forward = effx.jit(lambda a: effx.vjp(effx.checkpoint(f, policy=policy), a))
    value, pull = forward(X)
    kinds = [kind(r) for r in effx.tree.leaves(pull) if r.shape == X.shape]
    assert "pinned_host" in kinds
    (found,) = pull(enp.ones_like(value))
    np.testing.assert_allclose(np.asarray(found), np.asarray(effx.grad(f)(X)), rtol=1e-6)


def test_text_for_accelerators() -> None:
    """There XLA is told where values move; an argument is brought over before it is used."""
    f = effx.jit(lambda a: a * 2, in_shardings=ONE_HOST, out_shardings=ONE_HOST)
    text = f.trace(X).lower(lowering_platforms=("cuda",)).as_text()
    lines = [line.strip() for line in text.splitlines()]
    moves = [re.findall(r'_xla_buffer_placement = "(\w+)"', line) for line in lines]
    assert [m[0] for m in moves if m] == ["device", "pinned_host"]
    assert lines[1].count('mhlo.memory_kind = "pinned_host"') == 2
    order = [i for i, line in enumerate(lines) if "annotate_device_placement" in line or "multiply" in line]
    assert ["multiply" in lines[i] for i in order] == [False, True, False]


def test_executables_keep_memories() -> None:
    """A compiled function that goes through bytes takes and leaves arrays where it did."""
    from effx.experimental import serialize_executable

    for _, host in PLACES.values():
        f = effx.jit(lambda a: a * 2, in_shardings=(host,), out_shardings=host)
        compiled = f.lower(X).compile()
        again = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
        y = again(X)
        assert y.sharding == host
        assert y.tolist() == (X * 2).tolist()
        assert again.input_shardings == ((host,), {})


@places
def test_checkpoints_keep_memories(place: str, tmp_path: Path) -> None:
    """Arrays are saved from any memory, and loaded into that which is asked for."""
    pytest.importorskip("tensorstore")
    from effx.experimental import array_serialization

    plain, host = PLACES[place]
    tree = {"host": effx.device_put(X, host), "device": effx.device_put(X + 1, plain)}
    array_serialization.save(tree, tmp_path / "a")
    found = array_serialization.load(tmp_path / "a", {"host": plain, "device": host})
    assert (kind(found["host"]), kind(found["device"])) == ("device", "pinned_host")
    assert found["device"].sharding == host
    assert (found["host"].tolist(), found["device"].tolist()) == (X.tolist(), (X + 1).tolist())
    again = array_serialization.load(tmp_path / "a", tree)
    assert again["host"].sharding == host


def test_closed_over() -> None:
    """Arrays that a function closes over stay where they are."""
    h = effx.device_put(X, ONE_HOST)
    f = effx.jit(lambda a: a + h)
    assert f(X).tolist() == (X * 2).tolist()
    assert 'mhlo.memory_kind = "pinned_host"' in f.lower(X).as_text()
    assert kind(f(X)) == "device"
    spread = effx.device_put(X, HOST)
    assert effx.jit(lambda a: a + spread)(X).tolist() == (X * 2).tolist()


def test_devices_that_are_not_there() -> None:
    """Programs for a topology name memories too."""
    mesh = topologies.make_mesh(topologies.get_topology_desc("2x2", "cpu"), (2, 2), ("x", "y"))
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    rows = effx.ShapeDtypeStruct((8,), "float32", sharding=host.with_memory_kind(None))
    compiled = effx.jit(lambda a: effx.device_put(a * 2, Space.Host)).lower(rows).compile()
    assert compiled.output_shardings == host
    assert compiled.input_shardings == ((rows.sharding,), {})
    with pytest.raises(ShardingError) as caught:
        host.with_memory_kind("hbm")
    kinds = "'device', 'pinned_host', 'unpinned_host'"
    assert caught.value.message == f"NamedSharding: cpu:0 has no memory of the kind 'hbm'; it has {kinds}"


MISMATCH = (
    "<lambda>: argument 0 of type f32[8] is in the memory {!r}, but in_shardings asks for {!r}; move it with device_put, "
    "or leave in_shardings out"
)
ERRORS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: SingleDeviceSharding(D[0], memory_kind="hbm"),
        "SingleDeviceSharding: cpu:0 has no memory of the kind 'hbm'; it has 'device', 'pinned_host', 'unpinned_host'",
    ),
    (
        lambda: ROWS.with_memory_kind("hbm"),
        "NamedSharding: cpu:0 has no memory of the kind 'hbm'; it has 'device', 'pinned_host', 'unpinned_host'",
    ),
    (
        lambda: effx.device_put(X, Space.Any),
        "device_put: Space.Any is no memory in particular; give Space.Device or Space.Host",
    ),
    (
        lambda: effx.jit(lambda a: effx.device_put(a, Space.Any))(X),
        "device_put: Space.Any is no memory in particular; give Space.Device or Space.Host",
    ),
    (
        lambda: effx.jit(lambda a: a, in_shardings=HOST)(effx.device_put(X, ROWS)),
        MISMATCH.format("device", "pinned_host"),
    ),
    (
        lambda: effx.jit(lambda a: a, in_shardings=SingleDeviceSharding(D[0]), out_shardings=ONE_HOST)(
            effx.device_put(X, ONE_HOST)
        ),
        MISMATCH.format("pinned_host", "device"),
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[], object], message: str) -> None:
    """Whole texts."""
    with pytest.raises(ShardingError) as caught:
        call()
    assert caught.value.message == message
