"""Trees of arrays that are saved and loaded again: on other devices, of all dtypes, of all structures."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import dtypes, errors
from effx.experimental.array_serialization import (
    load,
    load_pytreedef,
    nonblocking_load,
    nonblocking_save,
    save,
)
from effx.sharding import NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P
from effx.tree import Partial, register_record, static

pytestmark = pytest.mark.skipif(find_spec("tensorstore") is None, reason="tensorstore is not installed")
NAMES: list[Any] = [["x"], ["y"], ["x", "y"], ["y", "x"], [("x", "y")], [("y", "x")], []]
GRIDS = [(1, 1), (2, 1), (1, 4), (2, 2), (2, 4), (4, 2), (8, 1)]


def mesh(grid: tuple[int, int], first: int = 0) -> effx.sharding.Mesh:
    """A mesh of some of the devices, in another order for another first one."""
    n = grid[0] * grid[1]
    return effx.sharding.Mesh(np.roll(np.array(effx.devices()), first)[:n].reshape(grid), ("x", "y"))


def bits(x: object) -> tuple[object, object, bytes]:
    """What an array is, bit by bit."""
    data = np.asarray(x) if not isinstance(x, effx.Array) else x.host("test")
    return data.dtype, data.shape, data.tobytes()


def random_bits(dtype: dtypes.DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """An array of any numbers of a dtype, NaN among them."""
    raw = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    if dtype in (dtypes.int2, dtypes.int4):
        half = 1 << (dtypes.bits(dtype) - 1)
        return ((raw % (2 * half)).astype(np.int8) - half).astype(dtype).reshape(shape)
    if dtypes.bits(dtype) < 8:
        raw %= 1 << dtypes.bits(dtype)
    return raw.view(dtype).reshape(shape)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], NamedSharding, NamedSharding]:
    """An array, its sharding, and the requested sharding."""
    ndim = draw(st.integers(0, 3))
    shape = tuple([draw(st.sampled_from([0, 8, 16])) for _ in range(ndim)])
    dtype = draw(
        st.sampled_from([dtypes.float32, dtypes.bfloat16, dtypes.uint4, dtypes.bool_, dtypes.complex64])
    )

    def sharding() -> NamedSharding:
        entries: list[object] = [None] * ndim
        names: list[Any] = draw(st.sampled_from(NAMES))
        for name, axis in zip(names, draw(st.permutations(range(ndim))), strict=False):
            entries[axis] = name
        return NamedSharding(mesh(draw(st.sampled_from(GRIDS)), draw(st.integers(0, 7))), P(*entries))

    return random_bits(dtype, shape, draw(st.integers(0, 99))), sharding(), sharding()


@given(cases())
def test_any_mesh_to_any_mesh(case: tuple[np.ndarray[Any, Any], NamedSharding, NamedSharding]) -> None:
    """What was saved on one mesh is loaded on another, each device with its part; files are as many as parts."""
    x, here, there = case
    with tempfile.TemporaryDirectory() as folder:
        save({"x": effx.device_put(x, here)}, folder)
        found = load(folder, there)["x"]
        files = [p for p in Path(folder).glob("arrays.*/0/c*") for p in p.rglob("*") if p.is_file()]
        if x.ndim and x.size:
            assert len(files) == x.size // int(np.prod(here.shard_shape(x.shape)))
    assert found.sharding == there
    assert bits(found) == bits(x)
    for shard in found.addressable_shards:
        assert bits(shard.data) == bits(x[shard.index])


def test_dtypes(tmp_path: Path) -> None:
    """All of them, of three shapes, on many devices and on the host."""
    rows = NamedSharding(mesh((4, 2)), P("x", "y"))
    tree = {f"{d.name} {shape}": random_bits(d, shape) for d in dtypes.ALL for shape in [(), (0, 4), (8, 4)]}
    with effx.enable_x64(True):
        cut = {name: effx.device_put(x, rows if x.ndim else None) for name, x in tree.items()}
        for k, saved in enumerate((tree, cut)):
            save(saved, tmp_path / str(k))
            found = load(tmp_path / str(k), None)
            assert {name: bits(x) for name, x in found.items()} == {name: bits(x) for name, x in tree.items()}


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys(impl: str, tmp_path: Path) -> None:
    """Random keys draw the same numbers; one of them, and several in parts."""
    one = effx.random.key(3, impl=impl)
    many = effx.device_put(effx.random.split(one, 8), NamedSharding(mesh((4, 2)), P("x")))
    save((one, many), tmp_path)
    found = load(tmp_path, (None, NamedSharding(mesh((2, 4)), P("y"))))
    assert found[1].sharding.spec == P("y")
    for a, b in zip(found, (one, many), strict=True):
        assert a.dtype == b.dtype
        assert bits(effx.random.key_data(a)) == bits(effx.random.key_data(b))
    assert float(effx.random.normal(found[0])) == float(effx.random.normal(one))


class Point(NamedTuple):
    """A named tuple."""

    x: Any
    y: Any


@attrs.frozen
class Layer:
    """An attrs class, with a static field."""

    weight: Any
    name: str = attrs.field(default="dense", metadata={"static": True})


@register_record
@dataclasses.dataclass
class Options:
    """A class with a static field."""

    scale: Any
    kinds: Any = static()  # noqa: RUF009  a field


STRUCTURES: dict[str, Any] = {
    "leaf": np.arange(3),
    "none": None,
    "empty": {"a": [], "b": (), "c": {}, "d": None},
    "containers": {"b": [np.ones(2), (1, 2.5)], "a": {3: True, -1: np.float64(2)}, "é '\"": None},
    "ordered": collections.OrderedDict([("z", 1), ("a", [2])]),
    "named tuple": Point(1, Point([2], None)),
    "attrs": [Layer(np.ones(2)), Layer({"w": 1}, name="conv")],
    "static fields": Options(2.0, (None, True, 3, 0.1, "é", (1, ("a",)), np.dtype("float32"))),
    "large": {f"layer{i}": {"w": np.full((2, 2), i), "b": [i]} for i in range(40)},
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures(name: str, tmp_path: Path) -> None:
    """Structures come back as they were, with arrays or without."""
    tree = STRUCTURES[name]
    save(tree, tmp_path)
    found, stub = load(tmp_path, None), load_pytreedef(tmp_path)
    assert effx.tree.structure(found) == effx.tree.structure(stub) == effx.tree.structure(tree)
    for a, b, c in zip(*[effx.tree.leaves(t) for t in (found, stub, tree)], strict=True):
        np.testing.assert_array_equal(a, c)
        assert (b.shape, b.dtype) == (a.shape, getattr(c, "dtype", a.dtype))  # as saved, 64 bits too


def test_local_classes(tmp_path: Path) -> None:
    """A class that no name leads to is found where the tree of shardings has it."""

    @attrs.frozen
    class Local:
        w: Any

    save(Local(np.ones(2)), tmp_path)
    assert bits(load(tmp_path, Local(None)).w) == bits(np.ones(2, np.float32))
    with pytest.raises(errors.TreeError) as caught:
        load_pytreedef(tmp_path)
    assert caught.value.message == (
        f"load_pytreedef: {tmp_path}: there are nodes of {__name__}:test_local_classes.<locals>.Local, which this process "
        f"has not loaded; import its module, or give a tree of shardings that has such nodes"
    )


class Scaled:
    """A class that is registered with functions."""

    def __init__(self, x: Any, by: int) -> None:
        self.x, self.by = x, by


effx.tree.register_node(Scaled, lambda s: ((s.x,), s.by), lambda by, xs: Scaled(xs[0], by))


def test_registered_nodes(tmp_path: Path) -> None:
    """`effx.export` registers how other nodes are written; without that they are refused."""
    with pytest.raises(errors.TreeError) as caught:
        save([Scaled(1.0, 3)], tmp_path)
    assert caught.value.message == (
        f"save: nodes of {__name__}:Scaled are not written by themselves; "
        f"effx.export.register_pytree_node_serialization says how"
    )
    effx.export.register_pytree_node_serialization(
        Scaled,
        serialized_name="tests.checkpoints.Scaled",
        serialize_auxdata=lambda by: str(by).encode(),
        deserialize_auxdata=int,
        from_children=lambda by, xs: Scaled(xs[0], by),
    )
    save([Scaled(np.ones(2), 3)], tmp_path)
    (found,) = load(tmp_path, None)
    assert found.by == 3
    assert bits(found.x) == bits(np.ones(2, np.float32))


REGISTER = "effx.export.register_pytree_node_serialization says how"
STATIC = "static fields are written of None, bools, numbers, strings, dtypes and tuples of them"


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({1.5: 2}, "the keys of dicts must be strings or ints, got 1.5 of type float"),
        (
            collections.defaultdict(int, a=1),
            f"nodes of collections:defaultdict are not written by themselves; {REGISTER}",
        ),
        (
            Partial(max, 1),
            f"nodes of effx.tree.partial:Partial are not written by themselves; {REGISTER}",
        ),
        (
            Layer(1, name=b"no"),  # type: ignore[arg-type]  # what is refused
            f"the static field 'name' of {__name__}:Layer is b'no'; {STATIC}; {REGISTER} for others",
        ),
        ({"a": ["text"]}, "the leaf ['a'][0] must be an array or a number, got 'text' of type str"),
        (object, "the array must be an array or a number, got <class 'object'> of type type"),
        ([np.zeros(2, dtypes.float0)], "the leaf [0] is float0, of which nothing is stored"),
    ],
)
def test_what_cannot_be_saved(tree: Any, text: str, tmp_path: Path) -> None:
    """The error names the leaf and the reason, and nothing is written."""
    for function in (save, nonblocking_save):
        with pytest.raises((errors.TreeError, errors.DTypeError)) as caught:
            function(tree, tmp_path / "new")
        assert caught.value.message == f"{function.__name__}: {text}"
    assert not (tmp_path / "new").exists()


def test_tracers(tmp_path: Path) -> None:
    """Inside of jit there are no values to save."""
    with pytest.raises(errors.ConcretizationError) as caught:
        effx.jit(lambda x: save({"x": x}, tmp_path))(enp.ones(2))
    assert (
        caught.value.message == "save: the leaf ['x'] is f32[2] of a transformation, which has no value yet"
    )


def test_deleted_arrays(tmp_path: Path) -> None:
    """A donated array is an error."""
    x = enp.ones(2) + 1
    x.delete()
    with pytest.raises(errors.DonatedArrayError, match=r"^save: the array f32\[2\] was donated"):
        save([x], tmp_path)


def test_where_arrays_are_loaded(tmp_path: Path) -> None:
    """Shardings, specs of the mesh in force, devices, structs and arrays, for all leaves or for each."""
    grid, x = mesh((2, 4)), np.arange(16, dtype=np.float32).reshape(8, 2)
    save({"a": x, "b": [x, x]}, tmp_path)
    other = effx.devices()[3]
    with effx.set_mesh(grid):
        found = load(tmp_path, {"a": P("y"), "b": [other, effx.ShapeDtypeStruct((8, 2), "bfloat16")]})
    assert found["a"].sharding == NamedSharding(grid, P("y"))
    assert found["b"][0].sharding == SingleDeviceSharding(other)
    assert found["b"][0].committed
    assert bits(found["b"][1]) == bits(x.astype(dtypes.bfloat16))
    assert not found["b"][1].committed
    like = effx.device_put(x.astype(np.int32), NamedSharding(grid, P(("y", "x"))))
    found = load(tmp_path, {"a": like, "b": SingleDeviceSharding(other)})
    assert found["a"].sharding == like.sharding
    assert bits(found["a"]) == bits(like)
    assert [y.device for y in found["b"]] == [other, other]
    structs = effx.tree.map(lambda y: effx.ShapeDtypeStruct(y.shape, y.dtype), load_pytreedef(tmp_path))
    assert bits(load(tmp_path, structs)["b"][1]) == bits(x)
    found = load(tmp_path, None, mask={"a": False, "b": [True, False]})
    assert found["a"] is None
    assert found["b"][1] is None
    assert bits(found["b"][0]) == bits(x)


MESH = "P('x') alone means a sharding on the mesh in force, and there is none"


def test_what_cannot_be_loaded_so(tmp_path: Path) -> None:
    """Each error's text."""
    save({"a": np.ones((6, 2), np.float32), "c": np.ones(2, np.complex64), "i": np.array([1, 300])}, tmp_path)
    key = effx.ShapeDtypeStruct((2,), effx.random.key(0).dtype)

    def struct(n: int, dtype: str) -> effx.ShapeDtypeStruct:
        return effx.ShapeDtypeStruct((n,), dtype)

    grid, where = mesh((4, 2)), {k: f"{tmp_path}: the leaf ['{k}']" for k in "aci"}
    cases: list[tuple[type[errors.EffxError], Any, str]] = [
        (
            errors.ShapeError,
            {"a": struct(2, "float32"), "c": None, "i": None},
            f"{where['a']}: expected the shape (2,), (6, 2) is stored",
        ),
        (
            errors.ShardingError,
            NamedSharding(grid, P("x")),
            "NamedSharding: axis 0 of the shape (6, 2) is 6, which P('x') cannot split into 4 equal parts",
        ),
        (
            errors.ShardingError,
            P("x"),
            f"{MESH}; use effx.set_mesh, or give a NamedSharding",
        ),
        (
            errors.DTypeError,
            {"a": None, "c": struct(2, "float32"), "i": None},
            f"{where['c']}: c64 is stored, which does not convert to the real f32",
        ),
        (
            errors.DTypeError,
            {"a": None, "c": key, "i": None},
            f"{where['c']}: c64 is stored, which does not convert to key<fry>",
        ),
        (
            errors.DTypeError,
            {"a": None, "c": None, "i": struct(2, "uint8")},
            f"{where['i']}: i64 is stored, with numbers that u8 does not hold",
        ),
        (errors.TreeError, {"a": None, "c": None}, "shardings is no prefix of the checkpoint's tree: "),
        (
            errors.TreeError,
            {"a": None, "c": "cpu", "i": None},
            f"{where['c']}: expected a sharding or a ShapeDtypeStruct, got 'cpu' of type str",
        ),
    ]
    for error, shardings, text in cases:
        with pytest.raises(error) as caught:
            load(tmp_path, shardings)
        message = caught.value.message.removeprefix("load: ")
        assert message == text or (text.endswith(": ") and message.startswith(text)), message
    with pytest.raises(errors.TreeError) as caught:
        load(tmp_path, None, mask={"a": 1, "c": True, "i": True})
    assert caught.value.message == "load: mask must have bools, got 1 of type int"


def test_64_bits(tmp_path: Path) -> None:
    """NumPy's 64 bits are stored; where effx has 32, loading warns, and refuses what does not fit."""
    save({"f": np.array([0.1]), "i": np.array([5])}, tmp_path)
    with effx.enable_x64(True):
        assert bits(load(tmp_path, None)["f"]) == bits(np.array([0.1]))
    with pytest.warns(UserWarning, match="float64 is not enabled"):
        found = load(tmp_path, None)
    assert bits(found["f"]) == bits(np.array([0.1], np.float32))
    assert bits(found["i"]) == bits(np.array([5], np.int32))
    save(np.array([1 << 40]), tmp_path, overwrite=True)
    with pytest.raises(errors.DTypeError) as caught:
        load(tmp_path, None)
    assert (
        caught.value.message
        == f"load: {tmp_path}: the array: i64 is stored, with numbers that i32 does not hold"
    )


def test_background(tmp_path: Path) -> None:
    """Arrays may be donated as soon as the call returns; the future knows the tree, waits and raises."""
    rows = NamedSharding(mesh((4, 2)), P("x"))
    x = effx.device_put(np.arange(1 << 20, dtype=np.float32), rows)
    wanted = bits(np.asarray(x).copy())
    step = effx.jit(lambda x: x * 2, donate_argnums=0)
    futures = []
    for k in range(3):
        futures.append(nonblocking_save([x], tmp_path / str(k)))
        x = step(x)
    assert futures[0].pytree == [effx.ShapeDtypeStruct((1 << 20,), "float32")]
    assert not futures[0].cancel()
    assert [f.result(timeout=30) for f in futures] == [None] * 3
    loading = nonblocking_load(tmp_path / "0", rows)
    assert loading.pytree == [effx.ShapeDtypeStruct((1 << 20,), "float32", sharding=rows)]
    assert bits(loading.result(timeout=30)[0]) == wanted
    again = nonblocking_save([x], tmp_path / "0")
    with pytest.raises(errors.CheckpointError) as caught:
        again.result(timeout=30)
    text = f"nonblocking_save: {tmp_path / '0'} has a checkpoint; overwrite=True replaces it"
    assert caught.value.message == text

    async def wait() -> Any:
        # Blocking functions work in an event loop too, as in notebooks.
        save([x], tmp_path / "3")
        await nonblocking_save([x + 1], tmp_path / "3", overwrite=True)
        return await nonblocking_load(tmp_path / "3", None)

    assert bits(asyncio.run(wait())[0]) == bits(np.asarray(x) + 1)


def test_formats(tmp_path: Path) -> None:
    """The user chooses how arrays are stored, for all or for some; loading finds it by itself."""
    x = np.zeros((64, 64), np.float32)
    packed = {"driver": "zarr3", "metadata": {"codecs": [{"name": "zstd", "configuration": {"level": 3}}]}}
    tree = {"a": x, "b": effx.device_put(x, NamedSharding(mesh((2, 2)), P("x", "y")))}
    save(tree, tmp_path, ts_specs={"a": packed, "b": {"driver": "zarr"}})
    found = load(tmp_path, NamedSharding(mesh((4, 2)), P("y")))
    assert [bits(found[k]) for k in "ab"] == [bits(x)] * 2
    (stored,) = tmp_path.glob("arrays.*/0/c/0/0")
    assert stored.stat().st_size < 200
    assert len(list(tmp_path.glob("arrays.*/1/?.?"))) == 4
    cases: list[tuple[Any, type[errors.EffxError], str]] = [
        ({"a": packed}, errors.TreeError, "save: ts_specs is no prefix of the tree: "),
        ("zarr", errors.CheckpointError, "save: ts_specs has dicts with a 'driver', and None; got 'zarr'"),
        (
            {"driver": "zarr", "kvstore": "memory://"},
            errors.CheckpointError,
            "save: a spec cannot set where arrays are stored; got {'driver': 'zarr', 'kvstore': 'memory://'}",
        ),
    ]
    for specs, error, text in cases:
        with pytest.raises(error) as caught:
            save(tree, tmp_path / "new", ts_specs=specs)
        assert caught.value.message == text or (text.endswith(": ") and caught.value.message.startswith(text))
    with pytest.raises(errors.DTypeError) as caught:
        save([x.astype(dtypes.uint4)], tmp_path / "new", ts_specs={"driver": "zarr"})
    assert caught.value.message == (
        f"save: {tmp_path / 'new'}: the leaf [0]: the driver 'zarr' does not store u4; 'zarr3' does"
    )


def test_other_stores() -> None:
    """Addresses of tensorstore's are directories too."""
    folder = f"memory://tests/{next(itertools.count())}"
    x = effx.device_put(np.arange(8), NamedSharding(mesh((4, 2)), P("x")))
    save({"x": x}, folder)
    save({"x": x + 1}, folder, overwrite=True)
    assert bits(load(folder, NamedSharding(mesh((2, 4)), P("y")))["x"]) == bits(
        np.arange(1, 9, dtype=np.int32)
    )
    with pytest.raises(errors.CheckpointError) as caught:
        save({"x": x}, folder)
    assert caught.value.message == f"save: {folder} has a checkpoint; overwrite=True replaces it"


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths may be relative, and have all that file names may have."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b/c d%é", Path("x#?")):
        save([1], name)
        assert load(name, None)[0] == 1
    assert (tmp_path / "b/c d%é/checkpoint.json").is_file()


def test_large_shards_are_split() -> None:
    """Files have at most 64 MiB where sizes divide, and never cross parts."""
    from effx.experimental.array_serialization.stores import FILE_BYTES, chunk_shape

    for part in [(1 << 26,), (3, 1 << 24), (1, 1, 1 << 27), (7, 11, 1 << 20), (1 << 13, 1 << 13)]:
        chunk = chunk_shape(part, 4)
        assert np.prod(chunk) * 4 <= FILE_BYTES
        assert np.prod(chunk) * 4 > FILE_BYTES // 32
        assert all([n % k == 0 for n, k in zip(part, chunk, strict=True)])
    assert chunk_shape((), 4) == ()


def test_lazy() -> None:
    """effx starts without tensorstore; where it is not installed, the error says how to install it."""
    code = """
import sys, effx, effx.experimental
assert "tensorstore" not in sys.modules
from effx.experimental.array_serialization import save, load
from effx.experimental.array_serialization.serialization import GlobalAsyncCheckpointManager
assert "tensorstore" not in sys.modules
sys.modules["tensorstore"] = None
for call in (lambda: save([1], "/nowhere"), lambda: load("/nowhere", None)):
    try:
        call()
    except effx.errors.BackendError as error:
        print(error.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
        check=True,
    )
    text = "checkpoints are stored by tensorstore, which is not installed; pip install 'effx[checkpoint]'"
    assert done.stdout.splitlines() == [f"save: {text}", f"load: {text}"]
