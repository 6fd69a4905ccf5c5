"""Platforms: clients, devices, and PJRT plugins for GPU and TPU.

A plugin is found by its shared library, never by importing jax's plugin modules, which import jax.
"""

import functools
import importlib.util
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

import attrs
from jaxlib import _jax, version

from effx import flags
from effx.errors import BackendError, warn_user
from effx.flags import num_cpu_devices, platforms
from effx.lower.placement import processes
from effx.lower.placement.plugin_kernels import register_plugin_kernels
from effx.lower.process_exit import in_xla, wait_at_exit

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

ALIASES = {"gpu": ("cuda", "rocm"), "cuda": ("cuda",), "rocm": ("rocm",), "tpu": ("tpu",), "cpu": ("cpu",)}
ORDER = ("tpu", "cuda", "rocm", "cpu")
# What brings the plugins that `find_plugins` looks for.
EXTRAS = {"tpu": "'effx[tpu]'", "cuda": "'effx[cuda12]' or 'effx[cuda13]'", "rocm": "'effx[rocm]'"}
# What XLA and the dynamic loader write, and what helps. NVIDIA's release notes of CUDA give the oldest drivers.
_REMEDIES = {
    r"No visible GPU|NO_DEVICE|no CUDA-capable|no ROCm-capable": (
        "the driver shows no GPU: nvidia-smi (rocminfo for AMD) must list one, and CUDA_VISIBLE_DEVICES must not hide it"
    ),
    r"driver version is insufficient|DRIVER_MISMATCH|unsupported toolchain|UNSUPPORTED_PTX": (
        "the driver is too old: CUDA 12 takes NVIDIA's 525 or newer, CUDA 13 takes 580 or newer; update the driver, or "
        "install 'effx[cuda12]' in place of 'effx[cuda13]'"
    ),
    r"lib(?:cu|nccl|nvrtc|nvshmem|nvJitLink)[\w.-]*so|[Cc]ould not (?:load|find) (?:lib|dynamic)|cuDNN": (
        "CUDA's libraries are missing, or others come before them in LD_LIBRARY_PATH: install 'effx[cuda12]' or "
        "'effx[cuda13]', which bring them"
    ),
    r"lib(?:amdhip|rocm|hip|roc|hsa)[\w.-]*so": (
        "ROCm's libraries are missing: install ROCm 7, and put its libraries where the dynamic loader finds them"
    ),
    r"metadata|tpu-env|No TPU|libtpu\.so.*in use|/dev/(?:accel|vfio)": "no TPU is here, or another process has it",
}


@final
@attrs.frozen
class Plugin:
    """A PJRT plugin.

    Attributes:
        platform: "cuda", "rocm", "tpu", or the name given in the environment.
        path: its shared library.
    """

    platform: str
    path: str


def _from_environment() -> Iterator[Plugin]:
    for variable in ("EFFX_PJRT_PLUGINS", "PJRT_NAMES_AND_LIBRARY_PATHS"):
        for entry in filter(None, os.environ.get(variable, "").split(",")):
            name, colon, path = entry.partition(":")
            if not colon or not name or not path:
                raise BackendError(f"{variable}: expected name:path pairs separated by commas, got {entry!r}")
            yield Plugin(name.strip(), path.strip())


def _package_folders(name: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return [Path(p) for p in spec.submodule_search_locations or ()] if spec is not None else []


def find_plugins() -> list[Plugin]:
    """Lists the PJRT plugins on this machine: from the environment, then from installed packages.

    Environment: `EFFX_PJRT_PLUGINS` (or `PJRT_NAMES_AND_LIBRARY_PATHS`), `name:path` pairs
    separated by commas. Packages: the folders of `jax_plugins`, and `libtpu`.

    Raises:
        BackendError: the environment variable is malformed.
    """
    plugins = list(_from_environment())
    for folder in _package_folders("jax_plugins"):
        for library in sorted(folder.glob("xla_*/xla_*_plugin.so")):
            kind = library.parent.name.removeprefix("xla_").rstrip("0123456789")
            plugins.append(Plugin(kind, str(library)))
    for folder in _package_folders("libtpu"):
        library = folder / "libtpu.so"
        if library.exists():
            plugins.append(Plugin("tpu", str(library)))
    known_platforms: set[str] = set()
    return [p for p in plugins if not (p.platform in known_platforms or known_platforms.add(p.platform))]  # type: ignore[func-returns-value]  # add() gives None on purpose


_lock = threading.RLock()
_clients: dict[str, _jax.Client] = {}
plugin_apis: "dict[str, CapsuleType]" = {}  # of plugins that effx has loaded, for XLA's profiler


def _check_not_started(count: int) -> None:
    cpu = _clients.get("cpu")
    if cpu is not None and cpu.local_device_count() != count:
        raise BackendError(
            f"num_cpu_devices: the CPU backend has started with {cpu.local_device_count()}; set EFFX_NUM_CPU_DEVICES, "
            f"or the flag before anything is computed"
        )


num_cpu_devices.subscribe_global(_check_not_started)


_warned: list[bool] = []
# Called in a child process of one in which XLA had started.
fork_counts: list[Callable[[], object]] = []
_is_child: list[bool] = []


def check_process() -> None:
    """Raises an error in a process without XLA's threads.

    Raises:
        BackendError: this process was forked from one in which XLA had started.
    """
    if _is_child:
        raise BackendError(
            "os.fork: this process was forked from one in which XLA had started, and XLA's threads do not live on: it can "
            "read arrays but not compute; use multiprocessing's start method 'spawn' or 'forkserver'"
        )


def _mark_child_process() -> None:
    if _clients:
        _is_child.append(True)
        for call in fork_counts:
            call()


def _note_fork() -> None:
    if _clients and not _warned:
        _warned.append(True)
        warnings.warn(
            "os.fork: XLA's threads do not live on in the child process, where a computation of effx is refused; "
            "use multiprocessing's start method 'spawn' or 'forkserver'",
            RuntimeWarning,
            stacklevel=2,
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_note_fork, after_in_child=_mark_child_process)


def _cpu_devices() -> int:
    """Returns the number of CPU devices: the flag's, or where that is not set XLA's own."""
    count = num_cpu_devices.value
    if count > 1 or num_cpu_devices.env in os.environ:
        return count
    flag_counts = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return max(int(flag_counts[-1]), 1) if flag_counts else count


def _start(platform: str) -> _jax.Client:
    if platform == "cpu":
        count = _cpu_devices()
        if count != num_cpu_devices.value:
            num_cpu_devices.set(count)
        return processes.start_cpu_client(count)
    for plugin in find_plugins():
        if plugin.platform == platform:
            return _start_plugin(plugin)
    raise _missing_plugin_error(platform)


def _missing_plugin_error(requested: str) -> BackendError:
    """Returns the error for a platform, or a name for several, of which there is no plugin."""
    known = ", ".join(["cpu", *[p.platform for p in find_plugins()]])
    names = [name for part in requested.split(",") for name in ALIASES.get(part, ())]
    extras = " or ".join([EXTRAS[name] for name in names if name in EXTRAS])
    where = f"; pip install {extras}, or name its plugin in EFFX_PJRT_PLUGINS" if extras else ""
    return BackendError(f"devices: there is no platform {requested!r} on this machine; found: {known}{where}")


def _memory_fraction() -> float | None:
    """Returns the fraction of a GPU's memory to preallocate; None for the plugin's own choice.

    Raises:
        BackendError: the environment variable holds no number.
    """
    variable = "XLA_PYTHON_CLIENT_MEM_FRACTION"
    fraction_text = os.environ.get(variable)
    try:
        return float(fraction_text) if fraction_text else None
    except ValueError:
        raise BackendError(f"{variable}: expected a number, got {fraction_text!r}") from None


def _load(plugin: Plugin) -> None:
    """Loads a plugin's library, once, without looking for its devices."""
    if not os.path.exists(plugin.path):
        raise BackendError(f"devices: the {plugin.platform} plugin's library {plugin.path} does not exist")
    if not _jax.pjrt_plugin_loaded(plugin.platform):
        api = plugin_apis[plugin.platform] = _jax.load_pjrt_plugin(plugin.platform, plugin.path, None)
        register_plugin_kernels(plugin.platform, plugin.path, api)
    if not _jax.pjrt_plugin_initialized(plugin.platform):
        _jax.initialize_pjrt_plugin(plugin.platform)


def _explain(plugin: Plugin, error: _jax.JaxRuntimeError) -> str:
    """Returns XLA's reason why a plugin does not start, and what to do where that is known."""
    from importlib import metadata  # only errors need it

    reason = str(error)
    name = Path(plugin.path).parent.name.replace("xla_", "jax-")  # jax-cuda12
    for package in (f"{name}-pjrt", f"{name}-plugin"):
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        if installed.split(".")[:3] != version.__version__.split(".")[:3]:
            ours = version.__version__
            return (
                f"{reason.rstrip('.')}; {package} is of version {installed}, and jaxlib of {ours}: install both of one "
                f"version, as {package}=={ours}"
            )
    for pattern, advice in _REMEDIES.items():
        if re.search(pattern, reason):
            return f"{reason.rstrip('.')}; {advice}"
    return reason


def load_plugin(platform: str) -> None:
    """Loads the plugin of a platform, whether or not its devices are present.

    Raises:
        BackendError: there is none, or it cannot be loaded.
    """
    check_process()
    with _lock:
        plugin = next((p for p in find_plugins() if p.platform == platform), None)
        if plugin is None:
            raise _missing_plugin_error(platform)
        try:
            _load(plugin)
        except _jax.JaxRuntimeError as error:
            raise BackendError(
                f"devices: the {platform} plugin at {plugin.path} was not loaded: {_explain(plugin, error)}"
            ) from error


def _start_plugin(plugin: Plugin) -> _jax.Client:
    try:
        _load(plugin)
        options = processes.plugin_options(plugin.platform)
        if plugin.platform in ("cuda", "rocm"):
            options["platform_name"] = plugin.platform
            fraction = _memory_fraction()
            if fraction is not None:
                options["memory_fraction"] = fraction
            if os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true").lower() in ("false", "0"):
                options["preallocate"] = False
        return _jax.get_c_api_client(plugin.platform, options, processes.distributed_client())
    except _jax.JaxRuntimeError as error:
        raise BackendError(
            f"devices: the {plugin.platform} plugin at {plugin.path} did not start: {_explain(plugin, error)}"
        ) from error


def _candidates(backend: str | None) -> list[str]:
    if backend is not None:
        return list(ALIASES.get(backend, (backend,)))
    if platforms.value:
        return [p for name in platforms.value.split(",") for p in ALIASES.get(name, (name,))]
    available = {p.platform for p in find_plugins()} | {"cpu"}
    return [*[p for p in ORDER if p in available], *sorted(available - set(ORDER))]


def client(backend: str | None = None) -> _jax.Client:
    """Returns the running client of a platform, starting it the first time.

    Args:
        backend: "cpu", "gpu", "cuda", "rocm", "tpu" or a plugin's name; None for the best there is.

    Raises:
        BackendError: the platform is not there, or its plugin does not start.
    """
    check_process()
    names = _candidates(backend)
    with _lock:
        for name in names:
            if name in _clients:
                return _clients[name]
        failure: BackendError | None = None
        there = {"cpu"} | {p.platform for p in find_plugins()}
        if there.isdisjoint(names):
            raise _missing_plugin_error(backend or str(platforms.value))
        for name in [n for n in names if n in there]:
            try:
                with in_xla:
                    _clients[name] = _start(name)
                    wait_at_exit(_clients[name])
                return _clients[name]
            except BackendError as error:
                # With no platform requested, a plugin that fails gives way to the next, with a warning.
                failure = failure or error
                if backend is None and not platforms.value and name != "cpu":
                    warn_user(f"{error.message}; trying the next platform", RuntimeWarning)
        assert failure is not None
        raise failure


def started_platforms() -> list[str]:
    """Returns the platforms that have started."""
    return list(_clients)


def devices(backend: str | None = None) -> list[_jax.Device]:
    """Returns all devices of a platform, those of other processes included."""
    return list(client(backend).devices())


def local_devices(backend: str | None = None) -> list[_jax.Device]:
    """Returns the devices of a platform that belong to this process."""
    return list(client(backend).local_devices())


def is_local(device: _jax.Device) -> bool:
    """Says whether a device belongs to this process."""
    return device.process_index == device.client.process_index() and is_runnable_device(device)


def is_runnable_device(device: _jax.Device) -> bool:
    """Says whether programs can run on a device: not on a topology's, for which they can only be compiled."""
    return type(device.client) is not _jax.CompileOnlyPyClient


def check_runnable_device(function_name: str, device: _jax.Device) -> None:
    """Raises an error for a device that is only described by a topology.

    Raises:
        BackendError: the device is part of a topology only.
    """
    if not is_runnable_device(device):
        raise BackendError(
            f"{function_name}: the device {device.platform}:{device.id} is part of a topology: programs are compiled "
            "for it and not "
            f"run, and it holds no arrays; ShapeDtypeStruct(shape, dtype, sharding=) describes one with a sharding there"
        )


@functools.cache
def _first_device(platform: str | None) -> _jax.Device:
    return local_devices(platform)[0]


def default_device() -> _jax.Device:
    """Returns the device of computations on uncommitted arrays: the flag's, or the first.

    Raises:
        BackendError: the flag names a platform that is not available.
    """
    if _is_child:
        check_process()
    chosen = flags.default_device.value
    if chosen is None or isinstance(chosen, str):
        return _first_device(chosen)
    if not isinstance(chosen, _jax.Device):
        raise BackendError(f"default_device: {chosen!r} is no device of effx")
    if processes.current_group and chosen.process_index != chosen.client.process_index():
        raise BackendError(
            f"default_device: {chosen!r} belongs to process {chosen.process_index}, this is process "
            f"{chosen.client.process_index()}"
        )
    return chosen


def default_backend() -> str:
    """Returns the name of the default platform: "cpu", "gpu" or "tpu".

    >>> import effx
    >>> effx.default_backend() == effx.devices()[0].platform
    True
    """
    return str(client().platform)


def platform_of(device: _jax.Device) -> str:
    """Returns the platform whose StableHLO forms a device takes: "cpu", "cuda", "rocm" or "tpu"."""
    name = device.platform
    if name != "gpu":
        return name
    return "rocm" if "rocm" in str(getattr(device.client, "platform_version", "")).lower() else "cuda"


def jaxlib_version() -> str:
    """Returns the version of jaxlib."""
    return version.__version__
