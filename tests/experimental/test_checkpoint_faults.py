"""Checkpoints that are incomplete, damaged, or whose saving was interrupted: an error, never zeros."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import effx
from effx import errors
from effx.experimental.array_serialization import load, load_pytreedef, nonblocking_save, save
from effx.sharding import Mesh, NamedSharding
from effx.sharding import PartitionSpec as P

pytestmark = pytest.mark.skipif(find_spec("tensorstore") is None, reason="tensorstore is not installed")
TREE = {"a": np.arange(16, dtype=np.float32), "b": [np.zeros((4, 4), np.int32)]}


def rows(n: int = 4) -> NamedSharding:
    """Arrays in parts on n devices."""
    return NamedSharding(Mesh(effx.devices()[:n], ("x",)), P("x"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of arrays in four parts, zeros among them."""
    save(effx.device_put(TREE, rows()), tmp_path)
    return tmp_path


def arrays(folder: Path) -> Path:
    """The folder of a checkpoint's arrays; there is one."""
    (found,) = folder.glob("arrays.*")
    return found


def refused(folder: Path, *, shardings: Any = None) -> str:
    """The text of the error when a checkpoint is loaded."""
    with pytest.raises(errors.CheckpointError) as caught:
        load(folder, shardings)
    return caught.value.message.removeprefix(f"load: {folder}: ")


@pytest.mark.parametrize("part", ["a", "b"])
def test_missing_parts(folder: Path, part: str) -> None:
    """A missing file is an error that names the leaf, also where its numbers were zeros; other leaves can be loaded."""
    number, name, keep = (
        (0, "['a']", {"a": False, "b": True}) if part == "a" else (1, "['b'][0]", {"a": True, "b": False})
    )
    path = arrays(folder) / (f"{number}/c/2" if part == "a" else f"{number}/c/2/0")
    path.unlink()
    for shardings in (None, rows(2)):
        text = refused(folder, shardings=shardings)
        where = "{2}" if part == "a" else "{2, 0}"
        assert text == f'the leaf {name}: NOT_FOUND: chunk {where} stored at local file "{path}" is missing'
    load(folder, rows(2), mask=keep)


def test_missing_array(folder: Path) -> None:
    """The same for what describes an array."""
    (arrays(folder) / "0/zarr.json").unlink()
    assert refused(folder).startswith(
        "the leaf ['a']: NOT_FOUND: Error opening \"zarr3\" driver: Metadata at "
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [(lambda b: b[:-5], "FAILED_PRECONDITION"), (lambda b: bytes([b[0] ^ 1]) + b[1:], "DATA_LOSS")],
)
def test_damaged_parts(folder: Path, change: Callable[[bytes], bytes], text: str) -> None:
    """A truncated shard, and one in which a bit has changed."""
    path = arrays(folder) / "0/c/1"
    path.write_bytes(change(path.read_bytes()))
    assert refused(folder).startswith(f"the leaf ['a']: {text}: Error reading local file \"{path}\"")


def test_arrays_that_do_not_fit(folder: Path) -> None:
    """What describes the tree and what describes an array must agree."""
    file = folder / "checkpoint.json"
    data = json.loads(file.read_text())
    data["leaves"][0]["dtype"] = "i32"
    file.write_text(json.dumps(data))
    assert refused(folder) == "the leaf ['a']: expected i32[16], f32[16] is stored"
    data["leaves"][0]["dtype"], data["leaves"][0]["shape"] = "f32", [32]
    file.write_text(json.dumps(data))
    with pytest.raises(errors.ShapeError) as caught:
        load(folder, None)
    assert (
        caught.value.message == f"load: {folder}: the leaf ['a']: expected the shape (32,), (16,) is stored"
    )


DESCRIPTIONS: dict[str, tuple[Callable[[str], str], str]] = {
    "empty": (lambda t: "", "checkpoint.json is none of effx's, or damaged"),
    "half": (lambda t: t[: len(t) // 2], "checkpoint.json is none of effx's, or damaged"),
    "other": (lambda t: '{"version": 1}', "checkpoint.json is none of effx's, or damaged"),
    "later": (lambda t: t.replace('"version": 1', '"version": 2'), "the checkpoint is of version 2, this effx reads 1"),
    "leaves": (lambda t: t.replace('"shape"', '"size"'), "checkpoint.json is damaged"),
    "dtype": (lambda t: t.replace('"i32"', '"i33"'), "checkpoint.json is damaged"),
    "structure": (lambda t: t.replace('"list"', '"set"'), "the structure is damaged"),
    "count": (
        lambda t: t.replace('"*"', "null", 1),
        "checkpoint.json is damaged: the structure has 1 leaves, and 2 are described",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_damaged_descriptions(folder: Path, name: str) -> None:
    """A file that is no description of a checkpoint is an error, for loading and for saving over it."""
    change, text = DESCRIPTIONS[name]
    file = folder / "checkpoint.json"
    file.write_text(change(file.read_text()))
    assert refused(folder) == text
    with pytest.raises(errors.CheckpointError):
        load_pytreedef(folder)
    if name == "other":
        with pytest.raises(errors.CheckpointError) as caught:
            save(TREE, folder, overwrite=True)
        assert caught.value.message == f"save: {folder}: {text}"


IMPORT = "import its module, or give a tree of shardings that has such nodes"


def test_code_in_checkpoints(folder: Path) -> None:
    """A class that the file names is neither imported nor called."""
    file = folder / "checkpoint.json"
    for name in ("antigravity:Nothing", "os:system", "subprocess:Popen", "builtins:dict"):
        data = json.loads(file.read_text())
        data["tree"] = {"class": name, "fields": ["a", "b"], "children": ["*", "*"]}
        file.write_text(json.dumps(data))
        with pytest.raises(errors.TreeError) as caught:
            load(folder, None)
        start = f"load: {folder}: "
        assert caught.value.message in (
            f"{start}there are nodes of {name}, which this process has not loaded; {IMPORT}",
            f"{start}{name} is no node of trees here; register it, as where it was saved",
            f"{start}{name} was saved with the fields ['a', 'b'], and has no fields that are known here",
        )
    assert "antigravity" not in sys.modules


def test_nothing_there(tmp_path: Path) -> None:
    """A place without a checkpoint, and one that is a file."""
    with pytest.raises(errors.CheckpointError) as caught:
        load(tmp_path / "no", None)
    text = f"there is no checkpoint at {tmp_path / 'no'}: it has no checkpoint.json, which a save writes last"
    assert caught.value.message == f"load: {text}"
    (tmp_path / "file").write_text("")
    for call in (lambda: load(tmp_path / "file", None), lambda: save([1], tmp_path / "file")):
        with pytest.raises(errors.CheckpointError) as caught:
            call()
        assert caught.value.message.endswith(
            f": {tmp_path / 'file'} is a file, and checkpoints are directories"
        )


def test_overwriting(folder: Path) -> None:
    """Only when it is asked for; what else is in the directory stays."""
    (folder / "notes.txt").write_text("mine")
    before = arrays(folder)
    with pytest.raises(errors.CheckpointError) as caught:
        save([1], folder)
    assert caught.value.message == f"save: {folder} has a checkpoint; overwrite=True replaces it"
    assert before == arrays(folder)
    save([1], folder, overwrite=True)
    assert load(folder, None)[0] == 1
    assert arrays(folder) != before
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_save_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint that was there stays, nothing of the new one does, and the error names path and leaf."""
    from effx.experimental.array_serialization import arrays as inner
    from effx.experimental.array_serialization import stores

    right = stores.to_stored

    def wrong(data: Any, form: Any) -> Any:
        if data.shape == (3,):
            raise OSError(28, "No space left on device")
        return right(data, form)

    monkeypatch.setattr(inner, "to_stored", wrong)
    with pytest.raises(errors.CheckpointError) as caught:
        save({"a": np.ones(2), "b": np.ones(3)}, folder, overwrite=True)
    assert caught.value.message == f"save: {folder}: the leaf ['b']: [Errno 28] No space left on device"
    future = nonblocking_save({"a": np.ones(2), "b": np.ones(3)}, folder, overwrite=True)
    assert isinstance(future.exception(timeout=30), errors.CheckpointError)
    arrays(folder)
    np.testing.assert_array_equal(load(folder, None)["a"], TREE["a"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_directories_that_cannot_be_written(tmp_path: Path) -> None:
    """The system's reason is in the error."""
    tmp_path.chmod(0o500)
    with pytest.raises(errors.CheckpointError, match="Permission denied"):
        save([1], tmp_path / "new")
    tmp_path.chmod(0o700)


KILLED = """
import os, signal, sys
import numpy as np
from effx.experimental.array_serialization import folders, arrays, save

folder, where = sys.argv[1:]
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if where == "commit":
    kind, write = folders.CheckpointFolder, folders.CheckpointFolder.write
    kind.write = lambda self, name, data: kill() if name == "checkpoint.json" else write(self, name, data)
elif where == "middle":
    stored = arrays.to_stored
    arrays.to_stored = lambda data, form: kill() if data.shape == (3,) else stored(data, form)
elif where == "cleaning":
    folders.CheckpointFolder.remove = kill
print("ready", flush=True)
ones = [np.ones(k, np.float32) for k in (2, 3)]
many = [np.full(1 << 22, k, np.float32) for k in range(8)]
save({"a": ones[0], "b": ones[1], "c": many}, folder, overwrite=True)
"""


def killed(folder: Path, where: str, delay: float | None = None) -> None:
    """Saves in a process that is killed."""
    command = [sys.executable, "-c", KILLED, str(folder), where]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    if delay is not None:
        time.sleep(delay)
        process.kill()
    status, error = process.wait(timeout=60), process.communicate()[1]
    assert status == -signal.SIGKILL or (delay is not None and status == 0), error


@pytest.mark.parametrize(
    ("where", "old"),
    [("middle", False), ("middle", True), ("commit", False), ("commit", True), ("cleaning", True)],
)
def test_killed_while_saving(where: str, old: bool, tmp_path: Path) -> None:
    """The old checkpoint is there, or none, or the new one whole; the next save works and clears up."""
    if old:
        save({"a": np.zeros(2, np.float32)}, tmp_path)
    killed(tmp_path, where)
    if where == "cleaning":
        assert load(tmp_path, None)["c"][7][0] == 7
    elif old:
        assert load(tmp_path, None)["a"].tolist() == [0, 0]
    else:
        with pytest.raises(errors.CheckpointError) as caught:
            load(tmp_path, None)
        assert caught.value.message == (
            f"load: there is no checkpoint at {tmp_path}: it has no checkpoint.json, which a save writes last"
        )
    assert len(list(tmp_path.glob("arrays.*"))) == 1 + old
    save([5], tmp_path, overwrite=old)
    assert load(tmp_path, None)[0] == 5
    arrays(tmp_path)


def kill_at_random(folder: Path, times: int) -> None:
    save({"a": np.zeros(2, np.float32), "c": [np.full(1, k, np.float32) for k in range(8)]}, folder)
    for _ in range(times):
        killed(folder, "", random.random() * 0.4)
        found = load(folder, None)
        assert [c[0] for c in found["c"]] == list(range(8))
        assert set(np.asarray(found["a"]).tolist()) in ({0.0}, {1.0})


def test_killed_at_random(tmp_path: Path) -> None:
    """Whenever it is killed, a whole checkpoint is there."""
    kill_at_random(tmp_path, 3)


@pytest.mark.deep
def test_killed_at_random_often(tmp_path: Path) -> None:
    """Likewise, often."""
    kill_at_random(tmp_path, 50)
