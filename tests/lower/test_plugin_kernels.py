"""Kernels of a GPU plugin's package reach XLA through the plugin's extension module."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from effx.lower.placement.plugin_kernels import kernel_package_name, register_plugin_kernels

LIBRARY = "/anywhere/jax_plugins/xla_cuda99/xla_cuda_plugin.so"
API = cast("Any", "the api")
EXTENSION = """
calls = []
def register_custom_call_target(c_api, fn_name, fn, xla_platform_name, api_version=0):
    calls.append((c_api, fn_name, fn, xla_platform_name, api_version))
def register_custom_type(c_api, type_name, type_id):
    calls.append((c_api, type_name, type_id))
def ffi_types():
    return {"Plans": "type"}
def ffi_handlers():
    return {"call_python": "handler", "xla_buffer_python_gpu_callback_cmd_buffer": "recorded"}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package of kernels, of a CUDA that does not exist."""
    folder = tmp_path / "jax_cuda99_plugin"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "cuda_plugin_extension.py").write_text(EXTENSION)
    (folder / "_solver.py").write_text(
        "def registrations():\n    return {'factorize': 'kernel', 'staged': {'execute': 'e'}}"
    )
    (folder / "_versions.py").write_text("number = 99")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("jax_cuda99_plugin")]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def calls(package: Path) -> list[tuple[object, ...]]:
    module: ModuleType | None = sys.modules.get("jax_cuda99_plugin.cuda_plugin_extension")
    return [] if module is None else module.calls


def test_types_come_before_kernels_of_all_modules(package: Path) -> None:
    assert kernel_package_name(LIBRARY) == package.name
    register_plugin_kernels("cuda", LIBRARY, API)
    assert calls(package) == [
        ("the api", "Plans", "type"),
        ("the api", "call_python", "handler", "CUDA", 1),
        ("the api", "factorize", "kernel", "CUDA", 1),
        ("the api", "staged", {"execute": "e"}, "CUDA", 1),
    ]


def test_nothing_is_registered_without_kernels(package: Path) -> None:
    """On other platforms, and for plugins whose package is not installed."""
    register_plugin_kernels("tpu", LIBRARY, API)
    register_plugin_kernels("cuda", "/anywhere/jax_plugins/xla_cuda98/xla_cuda_plugin.so", API)
    assert calls(package) == []


def test_kernels_that_do_not_load_are_left_out_with_a_warning(package: Path) -> None:
    (package / "_solver.py").write_text("raise ImportError('made for another Python')")
    with pytest.warns(RuntimeWarning) as caught:
        register_plugin_kernels("cuda", LIBRARY, API)
    assert [str(w.message) for w in caught] == [
        "devices: kernels for GPUs, in jax_cuda99_plugin._solver, were not loaded: made for another Python"
    ]
    assert [call[1] for call in calls(package)] == ["Plans", "call_python"]


def test_a_plugin_without_its_extension_registers_nothing(package: Path) -> None:
    (package / "cuda_plugin_extension.py").write_text("raise ImportError('no driver')")
    with pytest.warns(
        RuntimeWarning, match="jax_cuda99_plugin.cuda_plugin_extension, were not loaded: no driver"
    ):
        register_plugin_kernels("cuda", LIBRARY, API)
    assert calls(package) == []
