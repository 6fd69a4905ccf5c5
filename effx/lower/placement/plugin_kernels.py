"""Kernels that come with a GPU plugin: factorizations, sparse products, random bits, calls of Python functions.

They are in extension modules of the plugin's own package, `jax_cuda12_plugin` and the like. None of these imports jax.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from effx.errors import warn_user

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

XLA_PLATFORMS = {"cuda": "CUDA", "rocm": "ROCM"}
# Not registered: it is for calls that XLA records in a CUDA graph, and plugins of jaxlib 0.10 do not take that flag.
_COMMAND_BUFFER_HANDLER = "xla_buffer_python_gpu_callback_cmd_buffer"


class _KernelModule(Protocol):
    """An extension module with kernels: for each name a function, or one for each stage."""

    def registrations(self) -> "Mapping[str, object]": ...


class _PluginExtension(Protocol):
    """The plugin's extension module, which hands kernels to XLA."""

    def register_custom_call_target(
        self,
        c_api: "CapsuleType",
        fn_name: str,
        fn: object,
        xla_platform_name: str,
        api_version: int = 0,
    ) -> None: ...
    def register_custom_type(self, c_api: "CapsuleType", type_name: str, type_id: object) -> None: ...
    def ffi_types(self) -> "Mapping[str, object]": ...
    def ffi_handlers(self) -> "Mapping[str, object]": ...


def kernel_package_name(library: str) -> str:
    """Returns the name of the package with the kernels of a plugin's library.

    >>> kernel_package_name("/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so")
    'jax_cuda12_plugin'
    """
    return f"jax_{Path(library).parent.name.removeprefix('xla_')}_plugin"


def register_plugin_kernels(platform: str, library: str, api: "CapsuleType") -> None:
    """Hands XLA the kernels of a GPU plugin that has been loaded.

    Nothing happens for other platforms, nor where the package with the kernels is not installed. A module that does not
    load is left out with a warning, since most programs need none of its kernels.

    Args:
        platform: the plugin's.
        library: the path of its shared library.
        api: what loading the library gave.
    """
    package = kernel_package_name(library)
    if platform not in XLA_PLATFORMS or importlib.util.find_spec(package) is None:
        return
    loaded = _import_module(f"{package}.{platform}_plugin_extension")
    if loaded is None:
        return
    extension = cast("_PluginExtension", loaded)
    modules = [cast("_KernelModule", m) for m in _import_kernel_modules(package)]
    for name, type_id in extension.ffi_types().items():
        extension.register_custom_type(api, name, type_id)
    kernels = {
        name: kernel for name, kernel in extension.ffi_handlers().items() if name != _COMMAND_BUFFER_HANDLER
    }
    for module in modules:
        kernels.update(module.registrations())
    for name, kernel in kernels.items():
        extension.register_custom_call_target(api, name, kernel, XLA_PLATFORMS[platform], api_version=1)


def _import_module(name: str) -> ModuleType | None:
    """Imports an extension module; None, with a warning, where it does not load."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        warn_user(f"devices: kernels for GPUs, in {name}, were not loaded: {error}", RuntimeWarning)
        return None


def _import_kernel_modules(package: str) -> list[ModuleType]:
    """Imports the extension modules of a package that have kernels."""
    folder = importlib.import_module(package).__path__
    names = [m.name for m in pkgutil.iter_modules(folder) if m.name.startswith("_")]
    modules = [_import_module(f"{package}.{name}") for name in names]
    return [m for m in modules if m is not None and hasattr(m, "registrations")]
