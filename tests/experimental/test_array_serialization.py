"""Arrays in tensorstore one by one, and the manager that writes them in the background; jax reads and writes the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors
from effx.experimental.array_serialization.arrays import ByteLimiter, gather_all
from effx.experimental.array_serialization.serialization import (
    GlobalAsyncCheckpointManager,
    async_deserialize,
    async_serialize,
    get_tensorstore_spec,
    is_remote_storage,
    run_deserialization,
    run_serialization,
)
from effx.sharding import Mesh, NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P

pytestmark = pytest.mark.skipif(find_spec("tensorstore") is None, reason="tensorstore is not installed")
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def on(n: int, *entries: str | None) -> NamedSharding:
    """Arrays in parts on n devices."""
    return NamedSharding(Mesh(effx.devices()[:n], ("x",)), P(*entries))


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize("ocdbt", [False, True])
def test_drivers(driver: str, ocdbt: bool, tmp_path: Path) -> None:
    """Formats, one file for a part or one database, from one mesh to another."""
    specs = [get_tensorstore_spec(tmp_path / name, ocdbt=ocdbt, driver=driver) for name in ("a", "b", "c")]
    x, y, z = effx.device_put(X, on(4, "x")), effx.device_put(X, on(2, None, "x")), enp.asarray(3)
    run_serialization([x, y, z], specs)
    shardings = [on(8, "x"), on(2, "x"), SingleDeviceSharding(effx.devices()[5])]
    found = run_deserialization(shardings, specs)
    assert [a.sharding for a in found] == shardings
    for a, b in zip(found, (X, X, 3), strict=True):
        np.testing.assert_array_equal(a, b)
    found = run_deserialization(
        shardings, specs, [(8, 4), (8, 4), ()], ["int32", "bfloat16", None], concurrent_gb=1
    )
    assert [a.dtype.name for a in found] == ["int32", "bfloat16", "int32"]
    np.testing.assert_array_equal(found[0], X)


def test_specs(tmp_path: Path) -> None:
    """What specs say of paths, addresses and arrays."""
    spec = get_tensorstore_spec("gs://bucket/run/w", ocdbt=True, process_idx=3, driver="zarr3")
    assert spec == {
        "driver": "zarr3",
        "kvstore": {
            "driver": "ocdbt",
            "base": {"driver": "gcs", "bucket": "bucket", "path": "run/process_3/"},
            "path": "w/",
        },
    }
    assert get_tensorstore_spec("s3://bucket/run/w")["kvstore"] == {
        "driver": "s3",
        "bucket": "bucket",
        "path": "run/w/",
    }
    assert [is_remote_storage(x) for x in (spec, "gs://a/b", "/a", get_tensorstore_spec("/a"))] == [
        True,
        True,
        False,
        False,
    ]
    import tensorstore as ts

    x = effx.device_put(X, on(4, None, "x"))
    for driver in ("zarr", "zarr3"):
        store = ts.open(get_tensorstore_spec(tmp_path / driver, arr=x, driver=driver), create=True).result()
        assert (store.shape, store.dtype.numpy_dtype) == ((8, 4), np.dtype(np.float32))
        assert store.chunk_layout.write_chunk.shape == (8, 1)
    with pytest.raises(errors.DTypeError) as caught:
        get_tensorstore_spec("/w", arr=effx.random.key(0))
    assert (
        caught.value.message
        == "get_tensorstore_spec: the driver 'zarr' does not store key<fry>; 'zarr3' does"
    )


def test_bit_patterns(tmp_path: Path) -> None:
    """zarr3 says the dtypes that tensorstore does not know, so that nothing else need say them."""
    given = [
        enp.arange(4).astype("uint4"),
        effx.random.split(effx.random.key(0), 4),
        enp.arange(4).astype("float8_e4m3"),
    ]
    specs = [get_tensorstore_spec(tmp_path / str(k), driver="zarr3") for k in range(3)]
    run_serialization(given, specs)
    for a, b in zip(run_deserialization([on(4, "x")] * 3, specs), given, strict=True):
        assert a.dtype == b.dtype
        assert a.host("test").tobytes() == b.host("test").tobytes()


def test_coroutines(tmp_path: Path) -> None:
    """They run together; futures of what is stored are given back; a limit of bytes holds for all."""
    import tensorstore as ts

    x = effx.device_put(X, on(4, "x"))
    spec = get_tensorstore_spec(tmp_path / "w", driver="zarr3")

    async def main() -> list[Any]:
        commits: list[Any] = []
        await async_serialize(x, spec, commits)
        assert len(commits) == 4
        for f in commits:
            await f
        limiter = ByteLimiter(64)
        struct = effx.ShapeDtypeStruct((8, 4), "int32", sharding=on(2, "x"))
        return await gather_all([
            async_deserialize(on(8, "x"), spec, byte_limiter=limiter),
            async_deserialize(struct, ts.Spec(spec), byte_limiter=limiter),
            async_deserialize(on(8, "x"), spec, (8, 4), np.float16, limiter),
        ])  # fmt: skip

    found = asyncio.run(main())
    assert [a.dtype.name for a in found] == ["float32", "int32", "float16"]
    for a in found:
        np.testing.assert_array_equal(a, X)


def test_transactions(tmp_path: Path) -> None:
    """What is written in a transaction is there when it is committed."""
    import tensorstore as ts

    spec = get_tensorstore_spec(tmp_path / "w", ocdbt=True, driver="zarr3")
    lies = SingleDeviceSharding(effx.devices()[0])

    async def write(transaction: Any) -> None:
        await async_serialize(enp.asarray(X), spec, transaction=transaction)

    with ts.Transaction() as transaction:
        asyncio.run(write(transaction))
        with pytest.raises(errors.CheckpointError, match="NOT_FOUND"):
            run_deserialization([lies], [spec])
    np.testing.assert_array_equal(run_deserialization([lies], [spec])[0], X)
    manager = GlobalAsyncCheckpointManager()
    manager.serialize([enp.asarray(X) + 1], [spec], transaction=ts.Transaction())
    np.testing.assert_array_equal(manager.deserialize([lies], [spec])[0], X + 1)


def test_manager(tmp_path: Path) -> None:
    """The callback comes when all is stored; arrays may be donated at once; one set is written after another."""
    manager = GlobalAsyncCheckpointManager()
    done: list[int] = []
    x = effx.device_put(np.arange(1 << 20, dtype=np.float32), on(8, "x"))
    step = effx.jit(lambda x: x + 1, donate_argnums=0)
    for k in range(3):
        path = str(tmp_path / str(k))
        manager.serialize_with_paths([x], [path], on_commit_callback=partial(done.append, k))
        x = step(x)
    manager.check_for_errors()
    manager.wait_until_finished()
    assert done == [0, 1, 2]
    for k in range(3):
        (found,) = manager.deserialize_with_paths([on(2, "x")], [str(tmp_path / str(k))])
        np.testing.assert_array_equal(found, np.arange(1 << 20) + k)


def test_failures_in_the_background(tmp_path: Path) -> None:
    """What the callback raises comes out once, where it is waited for."""
    manager = GlobalAsyncCheckpointManager()

    def fail() -> None:
        raise OSError("no rename")

    manager.serialize_with_paths([enp.ones(2)], [str(tmp_path / "w")], on_commit_callback=fail)
    with pytest.raises(OSError, match=r"^no rename$"):
        manager.wait_until_finished()
    manager.wait_until_finished()
    manager.check_for_errors()


def test_refusals(tmp_path: Path) -> None:
    """Each error's text."""
    spec, lies = get_tensorstore_spec(tmp_path / "w", driver="zarr3"), SingleDeviceSharding(effx.devices()[0])
    run_serialization([enp.asarray(X)], [spec])
    place, one = str(tmp_path / "w"), enp.asarray(1)
    wrong: Any = P("x")
    cases: list[tuple[type[errors.EffxError], Any, str]] = [
        (
            errors.CheckpointError,
            lambda: run_serialization([one], []),
            "run_serialization: 1 arrays have 0 tensorstore_specs",
        ),
        (
            errors.CheckpointError,
            lambda: run_deserialization([lies], [spec], []),
            "run_deserialization: 1 shardings have 0 global_shapes",
        ),
        (
            errors.CheckpointError,
            lambda: run_serialization([one], [{}]),
            "run_serialization: a spec of tensorstore has a 'driver', got {}",
        ),
        (
            errors.ShapeError,
            lambda: run_deserialization([lies], [spec], [(8, 5)]),
            f"run_deserialization: {place}: expected the shape (8, 5), (8, 4) is stored",
        ),
        (
            errors.ShardingError,
            lambda: run_deserialization([wrong], [spec]),
            "run_deserialization: expected a sharding or a ShapeDtypeStruct, got P('x') of type PartitionSpec",
        ),
        (
            errors.ShardingError,
            lambda: run_deserialization([on(8, None, "x")], [spec]),
            "NamedSharding: axis 1 of the shape (8, 4) is 4, which P(None, 'x') cannot split into 8 equal parts",
        ),
        (
            errors.ConcretizationError,
            lambda: effx.jit(lambda x: run_serialization([x], [spec]))(1.0),
            "run_serialization: got f32[]~ of a transformation, which has no value yet",
        ),
    ]
    for error, call, text in cases:
        with pytest.raises(error) as caught:
            call()
        assert caught.value.message == text
    with pytest.raises(errors.CheckpointError) as caught:
        run_serialization([enp.ones((3, 3))], [spec])
    assert caught.value.message.startswith(f"run_serialization: {place}: FAILED_PRECONDITION: ")


WITH_JAX = """
import sys
from functools import partial
import numpy as np, jax
from jax.experimental.array_serialization import serialization
mine, theirs = sys.argv[1:]
lies = jax.sharding.SingleDeviceSharding(jax.devices()[0])
def spec(path): return serialization.ts_impl.get_tensorstore_spec(path, ocdbt=False, driver="zarr3")
for dtype in ("float32", "bfloat16", "int4"):
    x = (np.arange(32).reshape(8, 4) % 8).astype(dtype)
    (found,) = serialization.run_deserialization([lies], [spec(f"{mine}/{dtype}")])
    assert found.dtype == x.dtype and (np.asarray(found) == x).all()
    serialization.run_serialization([jax.numpy.asarray(x)], [spec(f"{theirs}/{dtype}")])
"""


def test_jax_reads_and_writes_the_same(tmp_path: Path) -> None:
    """Arrays that effx wrote, jax reads, and the other way."""
    pytest.importorskip("jax")
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    kinds = ("float32", "bfloat16", "int4")
    given = [effx.device_put((X % 8).astype(enp.dtype(d)), on(4, "x")) for d in kinds]
    run_serialization(given, [get_tensorstore_spec(mine / d, driver="zarr3") for d in kinds])
    command = [sys.executable, "-c", WITH_JAX, str(mine), str(theirs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    found = run_deserialization(
        [on(2, "x")] * 3, [get_tensorstore_spec(theirs / d, driver="zarr3") for d in kinds]
    )
    for a, b in zip(found, given, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
