"""Checkpoints of several processes: saved by some and loaded by others, and what happens where one fails."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import effx
from effx.experimental.array_serialization import load, save
from effx.sharding import Mesh, NamedSharding
from effx.sharding import PartitionSpec as P
from tests.distributed.conftest import Together
from tests.distributed.results import Ended
from tests.distributed.test_groups import JOIN

pytestmark = pytest.mark.skipif(find_spec("tensorstore") is None, reason="tensorstore is not installed")
START = (
    JOIN
    + """
from effx import errors
from effx.experimental.array_serialization import load, nonblocking_save, save
from effx.experimental.array_serialization.serialization import GlobalAsyncCheckpointManager
from effx.sharding import NamedSharding, PartitionSpec as P
grid = effx.make_mesh((2, 2), ("x", "y"))
def lies(*entries): return NamedSharding(grid, P(*entries))
X = np.arange(32, dtype=np.float32).reshape(8, 4)
def put(x, *entries): return effx.make_array_from_callback(x.shape, lies(*entries), lambda i: x[i])
folder = os.environ["FOLDER"]
"""
)


def run(together: Together, code: str, folder: Path, processes: int = 2) -> list[Ended]:
    """Runs code in processes that know a directory."""
    return together(START + code, [{"FOLDER": str(folder)}] * processes, timeout=100)


def check(ended: list[Ended]) -> None:
    """Checks that all processes ended well."""
    for process in ended:
        assert (process.status, process.out.splitlines()[-1:]) == (0, ["done"]), process.error


SAVING = """
tree = {
    "xy": put(X, "x", "y"), "y": put(X.astype("bfloat16"), None, "y"), "everywhere": put(X, None),
    "own": enp.asarray(X) + 1, "host": X, "step": 7,
    "keys": effx.device_put(effx.random.key_data(effx.random.key(3)), lies()),
}
save(tree, folder)
first = nonblocking_save(tree, folder + "/background")
second = nonblocking_save({"x": put(X + 1, "x")}, folder + "/background", overwrite=True)
multihost_utils.sync_global_devices("in between")
first.result(timeout=60), second.result(timeout=60)
found = load(folder + "/background", lies("y"))["x"]
np.testing.assert_array_equal(multihost_utils.process_allgather(found), X + 1)
print("done")
"""


def test_two_save_one_loads(together: Together, tmp_path: Path) -> None:
    """Each part is written once, by one process; one process loads all on its devices."""
    check(run(together, SAVING, tmp_path))
    wanted = np.arange(32, dtype=np.float32).reshape(8, 4)
    found = load(tmp_path, NamedSharding(Mesh(effx.devices()[:2], ("z",)), P()))
    np.testing.assert_array_equal(found["own"], wanted + 1)
    assert int(found["step"]) == 7
    for name in ("xy", "y", "everywhere", "host"):
        np.testing.assert_array_equal(np.asarray(found[name]).astype(np.float32), wanted)
        lies = NamedSharding(Mesh(effx.devices(), ("z",)), P("z"))
        np.testing.assert_array_equal(
            np.asarray(load(tmp_path, lies, mask={k: k == name for k in found})[name]), found[name]
        )
    (arrays,) = tmp_path.glob("arrays.*")
    counts = [
        len([p for p in (arrays / str(k)).rglob("*") if p.name != "zarr.json" and p.is_file()])
        for k in range(7)
    ]
    assert dict(zip(sorted(found), counts, strict=True)) == {
        "everywhere": 1, "host": 1, "keys": 1, "own": 1, "step": 1, "xy": 4, "y": 2,
    }  # fmt: skip


LOADING = """
found = load(folder, {"a": lies("x", "y"), "b": lies(("y", "x")), "c": None})
np.testing.assert_array_equal(multihost_utils.process_allgather(found["a"]), X)
np.testing.assert_array_equal(multihost_utils.process_allgather(found["b"]), X + 1)
assert found["c"].is_fully_addressable and float(found["c"]) == 3.0

# Each process reads what its devices want, and nothing else.
multihost_utils.sync_global_devices("loaded")
name = [n for n in os.listdir(folder) if n.startswith("arrays.")][0]
if number == 0:
    os.remove(f"{folder}/{name}/0/c/0/0")
multihost_utils.sync_global_devices("removed")
try:
    rows = load(folder, {"a": lies("x"), "b": lies(), "c": lies()})["a"]
    assert number == 1
    assert all([(np.asarray(s.data) == X[s.index]).all() for s in rows.addressable_shards])
except errors.CheckpointError as error:
    assert number == 0 and error.message.startswith(f"load: {folder}: the leaf ['a']: NOT_FOUND: chunk {{0, 0}}"), error
print("done")
"""


def test_one_saves_two_load(together: Together, tmp_path: Path) -> None:
    """Two processes load what one has saved; parts that only the other wants may be missing."""
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    rows = NamedSharding(Mesh(effx.devices(), ("z",)), P("z"))
    save({"a": effx.device_put(x, rows), "b": effx.device_put(x + 1, rows), "c": 3.0}, tmp_path)
    check(run(together, LOADING, tmp_path))


REFUSALS = """
def message(call):
    try:
        call()
    except errors.EffxError as error:
        print(type(error).__name__, error.message)

message(lambda: save({"a": number}, folder))
message(lambda: save({"a": 1} if number else {"b": 1}, folder))
message(lambda: save({"a": "text" if number else 1}, folder))
message(lambda: save({"a": 1}, folder if number else folder + "/elsewhere"))
save({"a": put(X, "x")}, folder)
message(lambda: save({"a": put(X, "x")}, folder))

from effx.experimental.array_serialization import arrays
right = arrays.to_stored
def full(*_):
    raise OSError(28, "No space left on device")
if number:
    arrays.to_stored = full
message(lambda: save({"a": put(X, "x")}, folder, overwrite=True))
arrays.to_stored = right
assert len([n for n in os.listdir(folder) if n.startswith("arrays.")]) == 1
np.testing.assert_array_equal(multihost_utils.process_allgather(load(folder, lies("y"))["a"]), X)

manager, path = GlobalAsyncCheckpointManager(timeout_secs=1), folder + "/w"
manager.serialize_with_paths([put(X, "x")], [path], on_commit_callback=lambda: print("stored"))
np.testing.assert_array_equal(multihost_utils.process_allgather(manager.deserialize_with_paths([lies("y")], [path])[0]), X)
if number:
    time.sleep(3)
else:
    manager.serialize_with_paths([X], [path + "2"])
    message(manager.wait_until_finished)
print("done")
"""


ALONE = (
    "is on devices of only one process, and processes 0 and 1 have different ones; make one array of all processes, or "
    "save what is equal"
)
EQUAL = "structure, paths, shapes, dtypes, overwrite and ts_specs must be equal"


def test_refusals(together: Together, tmp_path: Path) -> None:
    """All processes hear what has failed in one of them, and can go on."""
    ended = run(together, REFUSALS, tmp_path)
    check(ended)
    failed = "CheckpointError save: process 1 of 2 failed:"
    word = "the leaf ['a'] must be an array or a number, got 'text' of type str"
    texts = [
        f"ProcessMismatchError save: the leaf ['a'] {ALONE}",
        f"ProcessMismatchError save: processes 0 and 1 save different trees: {EQUAL}",
        f"{failed} {word}",
        f"{failed} {tmp_path} is not the directory of process 0: all processes must save to one file system",
        f"CheckpointError save: {tmp_path} has a checkpoint; overwrite=True replaces it",
        f"{failed} {tmp_path}: the leaf ['a']: [Errno 28] No space left on device",
    ]
    late = "BarrierTimeoutError serialize: not all processes have stored their parts within 1 s"
    said = [process.out.splitlines() for process in ended]
    assert said[0] == [*texts, "stored", late, "done"]
    texts[2] = f"DTypeError save: {word}"
    assert said[1] == [*texts, "done"]


KILLED = """
save({"a": put(X, "x")}, folder)
from effx.experimental.array_serialization import arrays
right = arrays.to_stored
def kill(data, form):
    if number:
        os.kill(os.getpid(), signal.SIGKILL)
    return right(data, form)
arrays.to_stored = kill
try:
    save({"a": put(X + 1, "x")}, folder, overwrite=True)
except errors.DistributedError as error:
    print(error.message)
os._exit(3)
"""


def test_a_process_that_is_killed(together: Together, tmp_path: Path) -> None:
    """The others hear of it, and the checkpoint that was there stays."""
    ended = run(together, KILLED, tmp_path)
    assert ended[1].status == -9
    assert ended[0].out == "save: process 1 of 2 is gone: it was ended from outside, or its machine was\n"
    np.testing.assert_array_equal(load(tmp_path, None)["a"], np.arange(32, dtype=np.float32).reshape(8, 4))
    save([1], tmp_path, overwrite=True)
    assert len(list(tmp_path.glob("arrays.*"))) == 1
