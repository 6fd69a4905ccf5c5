"""Finding PJRT plugins: environment, packages, and what happens when one does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from effx import errors
from effx.lower.placement import backends


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EFFX_PJRT_PLUGINS", "PJRT_NAMES_AND_LIBRARY_PATHS"):
        monkeypatch.delenv(name, raising=False)


def test_plugins_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", "abacus:/opt/abacus.so, cuda:/opt/cuda.so")
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "cuda:/other/cuda.so,tpu:/other/tpu.so")
    found = {p.platform: p.path for p in backends.find_plugins()}
    assert found["abacus"] == "/opt/abacus.so"
    assert found["cuda"] == "/opt/cuda.so"  # the first one named wins
    assert found["tpu"] == "/other/tpu.so"


def test_malformed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", "abacus")
    with pytest.raises(errors.BackendError) as caught:
        backends.find_plugins()
    assert caught.value.message == (
        "EFFX_PJRT_PLUGINS: expected name:path pairs separated by commas, got 'abacus'"
    )


def test_plugins_from_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The layout of NVIDIA's and AMD's packages; their Python files, which import jax, stay unread.
    for folder, library in (("xla_cuda13", "xla_cuda_plugin.so"), ("xla_rocm7", "xla_rocm_plugin.so")):
        package = tmp_path / "jax_plugins" / folder
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('must not be imported')")
        (package / library).write_bytes(b"")
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu" / "__init__.py").write_text("raise ImportError('must not be imported')")
    (tmp_path / "libtpu" / "libtpu.so").write_bytes(b"")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {p.platform: Path(p.path).name for p in backends.find_plugins()}
    assert found == {"cuda": "xla_cuda_plugin.so", "rocm": "xla_rocm_plugin.so", "tpu": "libtpu.so"}


def test_missing_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "abacus.so"
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", f"abacus:{path}")
    with pytest.raises(errors.BackendError) as caught:
        backends.client("abacus")
    assert caught.value.message == f"devices: the abacus plugin's library {path} does not exist"


def test_library_that_does_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "abacus.so"
    path.write_bytes(b"not a library")
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", f"abacus:{path}")
    with pytest.raises(errors.BackendError) as caught:
        backends.client("abacus")
    assert caught.value.message.startswith(f"devices: the abacus plugin at {path} did not start: ")


@pytest.mark.unguarded
def test_a_plugin_that_fails_gives_way_aloud(tmp_path: Path) -> None:
    path = tmp_path / "cuda.so"
    path.write_bytes(b"not a library")
    code = """
import warnings, effx, effx.numpy as enp
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = enp.ones(2) + 1.0
assert any("trying the next platform" in str(w.message) for w in caught), caught
print(x, effx.default_backend())
"""
    environment = {**os.environ, "EFFX_PJRT_PLUGINS": f"cuda:{path}"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[2. 2.] cpu\n"


def test_start_prints_nothing() -> None:
    """A first array in a fresh process prints the result, and XLA prints nothing on the error stream."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", "import effx.numpy as enp; print(enp.ones(2))"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("[1. 1.]\n", "")


def test_a_fork_is_warned_of_once() -> None:
    """Threads do not survive a fork; a child that computes nothing does no harm, so it is a warning."""
    code = """
import os, warnings
import effx.numpy as enp
def fork():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    return [str(w.message) for w in said if w.category is RuntimeWarning]
print(fork())
enp.ones(2)
print(*fork())
print(fork())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == [
        "[]",
        (
            "os.fork: XLA's threads do not live on in the child process, where a computation of effx is refused; "
            "use multiprocessing's start method 'spawn' or 'forkserver'"
        ),
        "[]",
    ]
