"""The cache of compiled programs on disk: hits in the next process, and no fault but lost time."""

import errno
import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors
from effx.lower.compile_options import compile_options
from effx.lower.disk import cache_files, compile_cache, executable_bytes
from effx.lower.disk.cache_files import CacheFiles

HERE = (effx.devices()[0],)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A cache in force, that keeps whatever is compiled, but no staged programs: those are tested elsewhere."""
    path = tmp_path / "cache"
    cache_files._warned_texts.clear()
    flags = effx.flags
    with flags.cache_dir(str(path)), flags.cache_min_compile_seconds(0.0), flags.cache_programs(False):
        yield path


def computed(n: int) -> list[float]:
    """What is compiled anew each time, were it not for the cache on disk."""
    effx.clear_caches()
    return effx.jit(lambda x: enp.sin(x) * 2.0)(enp.arange(float(n))).tolist()  # type: ignore[no-any-return]  # floats


def entries(path: Path) -> list[Path]:
    return sorted(path.glob("*.effx"))


def wanted(n: int) -> Any:
    return np.sin(np.arange(n, dtype=np.float32)) * 2


PROGRAM = """
import logging, effx, effx.numpy as enp
logging.basicConfig(format="%(message)s")
with effx.log_compiles():
    print(effx.jit(lambda x: enp.linalg.svd(x)[1] + enp.cumsum(x)[:5])(enp.eye(5) * 3.0).tolist())
"""


def test_the_next_process_compiles_nothing(tmp_path: Path) -> None:
    """LAPACK's functions are known again to it; no other user can read the entries."""
    environment = {
        "EFFX_CACHE_DIR": str(tmp_path / "new" / "cache"),
        "EFFX_CACHE_MIN_COMPILE_SECONDS": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        for _ in range(2)
    ]
    assert "Finished XLA compilation of jit(<lambda>)" in runs[0].stderr
    assert "XLA compilation" not in runs[1].stderr
    assert runs[0].stdout == runs[1].stdout
    found = tmp_path / "new" / "cache"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in found.iterdir()} == {0o600}


def test_lines_do_not_matter(directory: Path) -> None:
    """A function that moved in its file is the same; one that computes otherwise is not."""
    effx.clear_caches()
    effx.jit(lambda x: enp.cos(x) * 3.0)(1.0)
    count = len(entries(directory))
    effx.clear_caches()
    effx.jit(lambda x: enp.cos(x) * 3.0)(1.0)
    assert len(entries(directory)) == count > 0
    effx.jit(lambda x: enp.cos(x) * 4.0)(1.0)
    assert len(entries(directory)) > count


def test_quick_compilations_are_not_cached(directory: Path) -> None:
    with effx.flags.cache_min_compile_seconds(60.0):
        computed(3)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-1], "is damaged: its checksum is wrong"),
        (lambda data: data[:40], "is damaged: its checksum is wrong"),
        (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "is damaged: its checksum is wrong"),
        (lambda data: b"", "these bytes are no executable of this version of effx"),
        (lambda data: b"#!/bin/sh\n" + data, "these bytes are no executable of this version of effx"),
    ],
)
def test_damaged_entries(directory: Path, damage: Any, said: str) -> None:
    """They are ignored, with one warning, and written anew."""
    computed(7)
    whole = {path: path.read_bytes() for path in entries(directory)}
    for path, data in whole.items():
        path.write_bytes(damage(data))
    with pytest.warns(RuntimeWarning, match=said) as caught:
        np.testing.assert_allclose(computed(7), wanted(7), rtol=1e-6)
    assert len(caught) == 1
    assert {path: path.read_bytes()[:18] for path in whole} == {
        path: data[:18] for path, data in whole.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(computed(7), wanted(7), rtol=1e-6)


def test_other_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable for another machine is refused by name."""
    compiled = effx.jit(lambda x: x + 1).lower(1.0).compile()
    data = executable_bytes.pack(compiled.runtime_executable(), HERE, "")
    loaded = executable_bytes.unpack(data, HERE, compile_options(HERE))
    assert loaded.local_devices() == list(HERE)
    monkeypatch.setattr(executable_bytes, "_processor", lambda: "pdp11")
    with pytest.raises(errors.BackendError) as error:
        executable_bytes.unpack(data, HERE, compile_options(HERE))
    assert error.value.message.startswith("deserialize: the executable was compiled for processor '")
    assert error.value.message.endswith("', here it is 'pdp11'")


def test_full_disk(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result comes all the same, with one warning, and nothing half written stays."""
    computed(3)
    before = sorted(directory.iterdir())

    class Full:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def write(self, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(handle: int, mode: str) -> Full:
        os.close(handle)
        return Full()

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.warns(RuntimeWarning, match=f"cache: cannot write to {directory}: No space left on device"):
        np.testing.assert_allclose(computed(9), wanted(9), rtol=1e-6)
    assert sorted(directory.iterdir()) == before


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    cache_files._warned_texts.clear()
    (tmp_path / "file").write_text("")
    with (
        effx.flags.cache_dir(str(tmp_path / "file")),
        effx.flags.cache_min_compile_seconds(0.0),
        pytest.warns(RuntimeWarning, match="cache: cannot"),
    ):
        np.testing.assert_allclose(computed(4), wanted(4), rtol=1e-6)


def test_open_directories_are_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    CacheFiles(tmp_path, 100).write("a", b"1")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    files = CacheFiles(tmp_path, 25)
    for i, key in enumerate("abcde"):
        files.write(key, b"0123456789")
        if (tmp_path / f"{key}.effx").exists():
            os.utime(tmp_path / f"{key}.effx", (i, i))
        files.get("a")
    assert [p.stem for p in entries(tmp_path)] == ["a", "e"]
    files.write("large", b"0" * 26)
    assert files.get("large") is None
    left = tmp_path / ".old.part"
    left.write_text("")
    os.utime(left, (0, 0))
    CacheFiles(tmp_path, 25).write("f", b"0")
    assert not left.exists()


WRITER = """
import hashlib, itertools, sys
from pathlib import Path
from effx.lower.disk.cache_files import CacheFiles
files = CacheFiles(Path(sys.argv[1]), 2**30)
print(flush=True)
for i in itertools.count():
    data = str(i).encode() * 200_000
    files.write(str(i % 3), hashlib.sha256(data).digest() + data)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_killed_writers(tmp_path: Path) -> None:
    """Writers of the same entries that are killed at random times never leave half of one."""
    rng, environment = random.Random(0), {"PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(25):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path)], env=environment, stdout=subprocess.PIPE
            )
            for _ in range(4)
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.read(1)
            writer.stdout.close()
        time.sleep(rng.random() / 20)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait(30)
        for path in entries(tmp_path):
            data = path.read_bytes()
            assert data[:32] == hashlib.sha256(data[32:]).digest()
    assert entries(tmp_path)


def test_many_threads(directory: Path) -> None:
    """16 threads compile the same and other programs at once; each gets its own right result."""
    found: list[tuple[int, list[float]]] = []

    def work(n: int) -> None:
        with effx.flags.cache_dir(str(directory)), effx.flags.cache_min_compile_seconds(0.0):
            found.append((n, effx.jit(lambda x: enp.sin(x) * 2.0)(enp.arange(float(n))).tolist()))

    effx.clear_caches()
    threads = [threading.Thread(target=work, args=(3 + i % 4,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 16
    for n, values in found:
        np.testing.assert_allclose(values, wanted(n), rtol=1e-6)
    assert compile_cache._open_cache_files(str(directory), effx.config.cache_max_size).directory == directory
