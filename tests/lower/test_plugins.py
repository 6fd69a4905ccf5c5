"""Plugins that are not there, are none, or are too old; in which order they are tried; and what importing costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path

import ml_dtypes
import pytest
from jaxlib import _jax, version

import effx
from effx import flags
from effx.errors import BackendError
from effx.lower.placement import backends

MISSING = {
    "tpu": (
        "devices: there is no platform 'tpu' on this machine; found: cpu; pip install "
        "'effx[tpu]', or name its plugin in EFFX_PJRT_PLUGINS"
    ),
    "cuda": (
        "devices: there is no platform 'cuda' on this machine; found: cpu; pip install "
        "'effx[cuda12]' or 'effx[cuda13]', or name its plugin in EFFX_PJRT_PLUGINS"
    ),
    "rocm": (
        "devices: there is no platform 'rocm' on this machine; found: cpu; pip install "
        "'effx[rocm]', or name its plugin in EFFX_PJRT_PLUGINS"
    ),
    "gpu": (
        "devices: there is no platform 'gpu' on this machine; found: cpu; pip install "
        "'effx[cuda12]' or 'effx[cuda13]' or 'effx[rocm]', or name its plugin in EFFX_PJRT_PLUGINS"
    ),
    "abacus": "devices: there is no platform 'abacus' on this machine; found: cpu",
}


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment, no packages, and nothing running but the CPU."""
    for name in ("EFFX_PJRT_PLUGINS", "PJRT_NAMES_AND_LIBRARY_PATHS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(backends, "_package_folders", lambda name: [])
    running = {name: client for name, client in backends._clients.items() if name == "cpu"}
    monkeypatch.setattr(backends, "_clients", running)


@pytest.mark.parametrize("way", ["asked for", "flag"])
@pytest.mark.parametrize("name", MISSING)
def test_no_plugin(name: str, way: str) -> None:
    """The error names the platform, and where its plugin would be."""
    flag, asked = (None, name) if way == "asked for" else (name, None)
    with flags.platforms(flag), pytest.raises(BackendError) as caught:
        effx.devices(asked)
    assert caught.value.message == MISSING[name]


def test_several_platforms_by_the_flag() -> None:
    """The first that is there is taken; where none is, all that were asked for are named."""
    with flags.platforms("tpu,cpu"):
        assert backends.client().platform == "cpu"
    with flags.platforms("tpu,gpu"), pytest.raises(BackendError) as caught:
        backends.client()
    assert caught.value.message == (
        "devices: there is no platform 'tpu,gpu' on this machine; found: cpu; pip install 'effx[tpu]' or "
        "'effx[cuda12]' or 'effx[cuda13]' or 'effx[rocm]', or name its plugin in EFFX_PJRT_PLUGINS"
    )


# As XLA lays out what `GetPjrtApi` gives: sizes, and then the version.
OLD = """
#include <stddef.h>
struct version { size_t size; void *extensions; int major, minor; };
struct api { size_t size; void *extensions; struct version version; void *functions[200]; };
void *GetPjrtApi(void) {
    static struct api api = {sizeof(struct api), 0, {sizeof(struct version), 0, 0, 1}, {0}};
    return &api;
}
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files that are no plugins, by what is wrong with them."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "empty.so").write_bytes(b"not a library")
    found = {
        "absent": folder / "absent.so",
        "no library": folder / "empty.so",
        "another library": _other_library(),
    }
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is not None:
        (folder / "old.c").write_text(OLD)
        found["too old"] = folder / "old.so"
        command = [compiler, "-shared", "-fPIC", str(folder / "old.c"), "-o", str(found["too old"])]
        subprocess.run(command, check=True, timeout=100)
    return found


def _other_library() -> Path:
    return next(Path(ml_dtypes.__file__).parent.glob("_ml_dtypes_ext*.so"))


# What is said behind the plugin's name and file.
WRONG = {
    "absent": "",
    "no library": "INTERNAL: Failed to open {path}: ",
    "another library": "NOT_FOUND: GetPjrtApi not found in {path}",
    "too old": "INVALID_ARGUMENT: Plugin PJRT API version 0.1 is older than the minimum supported version 0.",
}


@pytest.mark.parametrize("platform", ["tpu", "cuda", "rocm"])
@pytest.mark.parametrize("wrong", WRONG)
def test_plugins_that_do_not_start(
    wrong: str, platform: str, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for, they are errors that name the file; else the next platform runs, with a warning at the user's line."""
    if wrong not in libraries:
        pytest.skip("there is no C compiler")
    path = libraries[wrong]
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", f"{platform}:{path}")
    text = f"devices: the {platform} plugin at {path} did not start: {WRONG[wrong].format(path=path)}"
    if wrong == "absent":
        text = f"devices: the {platform} plugin's library {path} does not exist"
    with pytest.raises(BackendError) as caught:
        effx.devices(platform)
    assert caught.value.message.startswith(text)
    if wrong != "absent":
        assert caught.value.error_code_string in ("INTERNAL", "NOT_FOUND", "INVALID_ARGUMENT")
    cpu = backends.client("cpu")
    monkeypatch.setattr(backends, "_clients", {})
    monkeypatch.setattr(backends, "_start", lambda name: cpu if name == "cpu" else _start(name))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert effx.devices() == cpu.devices()
    assert [str(w.message) for w in said] == [f"{caught.value.message}; trying the next platform"]
    assert (said[0].category, said[0].filename) == (RuntimeWarning, __file__)


_start = backends._start


@pytest.mark.filterwarnings("ignore:.*trying the next platform")
def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """TPUs come before GPUs, and these before the CPU; plugins of other names are for those who ask for them."""
    plugins = ["abacus", "rocm", "cuda", "tpu"]
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", ",".join([f"{p}:/absent/{p}.so" for p in plugins]))
    tried: list[str] = []

    def start(platform: str) -> object:
        tried.append(platform)
        raise BackendError(f"{platform} does not start")

    monkeypatch.setattr(backends, "_start", start)
    asked = {
        None: ["tpu", "cuda", "rocm", "cpu", "abacus"],
        "gpu": ["cuda", "rocm"],
        "tpu": ["tpu"],
        "abacus": ["abacus"],
    }
    for name, order in asked.items():
        monkeypatch.setattr(backends, "_clients", {})
        tried.clear()
        with pytest.raises(BackendError, match=f"^{order[0]} does not start"):
            backends.client(name)
        assert tried == order
    tried.clear()
    with flags.platforms("abacus,gpu,cpu"), pytest.raises(BackendError):
        backends.client()
    assert tried == ["abacus", "cuda", "rocm", "cpu"]


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library named in the environment is taken before those of packages; of these, one that is there."""
    for name in ("xla_cuda12", "xla_cuda13"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "xla_cuda_plugin.so").write_bytes(b"")
    (tmp_path / "libtpu.so").write_bytes(b"")
    monkeypatch.setattr(backends, "_package_folders", lambda name: [tmp_path])
    found = [(p.platform, p.path) for p in backends.find_plugins()]
    assert found == [
        ("cuda", str(tmp_path / "xla_cuda12" / "xla_cuda_plugin.so")),
        ("tpu", str(tmp_path / "libtpu.so")),
    ]
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", "tpu:/mine/libtpu.so")
    assert [(p.platform, p.path) for p in backends.find_plugins()] == [
        ("tpu", "/mine/libtpu.so"),
        ("cuda", str(tmp_path / "xla_cuda12" / "xla_cuda_plugin.so")),
    ]


def test_memory_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no number is refused by the variable's name."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "half")
    with pytest.raises(BackendError) as caught:
        backends._memory_fraction()
    assert caught.value.message == "XLA_PYTHON_CLIENT_MEM_FRACTION: expected a number, got 'half'"
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5")
    assert backends._memory_fraction() == 0.5


@pytest.mark.unguarded
def test_importing_looks_for_nothing(tmp_path: Path) -> None:
    """Importing effx neither looks for plugins nor starts XLA; the first array does, and imports no plugin's package."""
    for name in ("libtpu", "jax_plugins"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemError('must not be imported')")
    code = """
import sys
asked = []
class Listening:
    def find_spec(self, name, path=None, target=None):
        asked.append(name)
sys.meta_path.insert(0, Listening())
import effx, effx.numpy as enp, effx.random, effx.nn, effx.lax
from effx.lower.placement import backends
print({"libtpu", "jax_plugins"} & set(asked), backends._clients)
enp.ones(2) + 1
print(sorted({"libtpu", "jax_plugins"} & set(asked)), list(backends._clients), "libtpu" in sys.modules)
"""
    environment = {k: v for k, v in os.environ.items() if k != "EFFX_PLATFORMS"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "set() {}\n['jax_plugins', 'libtpu'] ['cpu'] False\n"


# What XLA and the dynamic loader say, and what helps.
ADVICE = {
    "FAILED_PRECONDITION: No visible GPU devices.": "the driver shows no GPU: nvidia-smi",
    "INTERNAL: no supported devices found: CUDA_ERROR_NO_DEVICE": "the driver shows no GPU: nvidia-smi",
    "INTERNAL: CUDA driver version is insufficient for CUDA runtime version": (
        "the driver is too old: CUDA 12 takes NVIDIA's 525 or newer, CUDA 13 takes 580 or newer"
    ),
    "INTERNAL: Failed to open /p/xla_cuda_plugin.so: libcudnn.so.9: cannot open shared object file": (
        "CUDA's libraries are missing, or others come before them in LD_LIBRARY_PATH: install 'effx[cuda12]'"
    ),
    "INTERNAL: Failed to open /p/xla_rocm_plugin.so: libamdhip64.so.7: cannot open": "ROCm's libraries are missing",
    "INTERNAL: Failed to fetch URL of the metadata server": "no TPU is here, or another process has it",
}


@pytest.mark.parametrize("reason", ADVICE)
def test_advice(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(plugin: object) -> None:
        raise _jax.JaxRuntimeError(reason)

    monkeypatch.setenv("EFFX_PJRT_PLUGINS", "cuda:/p/xla_cuda12/xla_cuda_plugin.so")
    monkeypatch.setattr(backends, "_load", refuse)
    for start in (effx.devices, backends.load_plugin):
        with pytest.raises(BackendError) as caught:
            start("cuda")
        assert f": {reason.rstrip('.')}; {ADVICE[reason]}" in caught.value.message


def test_a_plugin_of_another_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever XLA says of it, the versions are why."""

    def refuse(plugin: object) -> None:
        raise _jax.JaxRuntimeError("INTERNAL: symbol lookup error")

    monkeypatch.setattr(metadata, "version", lambda package: "0.4.2")
    monkeypatch.setenv("EFFX_PJRT_PLUGINS", "cuda:/p/xla_cuda12/xla_cuda_plugin.so")
    monkeypatch.setattr(backends, "_load", refuse)
    with pytest.raises(BackendError) as caught:
        effx.devices("cuda")
    ours = version.__version__
    assert caught.value.message.endswith(
        f"symbol lookup error; jax-cuda12-pjrt is of version 0.4.2, and jaxlib of {ours}: install both of one version, as "
        f"jax-cuda12-pjrt=={ours}"
    )
