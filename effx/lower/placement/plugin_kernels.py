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

from effx.errors import BackendError

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

XLA_PLATFORMS = {"cuda": "CUDA", "rocm": "ROCM"}
# Not registered: XLA may record its calls in a CUDA graph, which plugins of jaxlib 0.10 refuse to be told.
_RECORDED = "xla_buffer_python_gpu_callback_cmd_buffer"


class _Kernels(Protocol):
    """An extension module with kernels: for each name a function, or one for each stage."""

    def registrations(self) -> "Mapping[str, object]": ...


class _Extension(Protocol):
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


def package_of_kernels(library: str) -> str:
    """Returns the name of the package with the kernels of a plugin's library.

    >>> package_of_kernels("/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so")
    'jax_cuda12_plugin'
    """
    return f"jax_{Path(library).parent.name.removeprefix('xla_')}_plugin"


def register_plugin_kernels(platform: str, library: str, api: "CapsuleType") -> None:
    """Hands XLA the kernels of a GPU plugin that has been loaded.

    Nothing happens for other platforms, nor where the package with the kernels is not installed: programs without
    factorizations need none.

    Args:
        platform: the plugin's.
        library: the path of its shared library.
        api: what loading the library gave.

    Raises:
        BackendError: the package is for another version of the plugin, or of Python.
    """
    package = package_of_kernels(library)
    if platform not in XLA_PLATFORMS or importlib.util.find_spec(package) is None:
        return
    try:
        extension = cast("_Extension", importlib.import_module(f"{package}.{platform}_plugin_extension"))
        modules = [cast("_Kernels", m) for m in _import_kernel_modules(package)]
    except ImportError as error:
        raise BackendError(
            f"devices: the kernels of the {platform} plugin, in {package}, cannot be loaded: {error}"
        ) from error
    for name, type_id in extension.ffi_types().items():
        extension.register_custom_type(api, name, type_id)
    kernels = {name: kernel for name, kernel in extension.ffi_handlers().items() if name != _RECORDED}
    for module in modules:
        kernels.update(module.registrations())
    for name, kernel in kernels.items():
        extension.register_custom_call_target(api, name, kernel, XLA_PLATFORMS[platform], 1)


def _import_kernel_modules(package: str) -> list[ModuleType]:
    """Imports the extension modules of a package that have kernels."""
    folder = importlib.import_module(package).__path__
    names = [m.name for m in pkgutil.iter_modules(folder) if m.name.startswith("_")]
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    return [m for m in modules if hasattr(m, "registrations")]
