"""Topologies: descriptions of devices that need not be present, for which programs are compiled and not run.

XLA compiles for a description of machines, a topology, whose devices have a client of their own that can do nothing
else. For a TPU the description comes from its plugin, which need not find a TPU. For a CPU it is that of a client with
so many devices, which is freed at once. jaxlib 0.10 has no compiler for such a description of CPUs, so there the
client is kept alive, and its devices are those of the topology.

Meshes, shardings and `Assignment` take such devices like others. What is compiled has no constants and no
result handlers, and `check_runnable_device` refuses what would run or hold arrays.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import TypeAlias

from jaxlib import _jax
from jaxlib._jax import Device

from effx.errors import BackendError
from effx.lower.compile_options import CompilerOptions, compile_options
from effx.lower.placement.backends import client, load_plugin
from effx.lower.runtime.phases import Phase
from effx.lower.text.hlo import mlir_module

__all__ = ["Options", "compile_for_topology", "deserialize_devices", "serialize_devices", "topology_devices"]

Options: TypeAlias = Mapping[str, str | bool | int | Sequence[int] | float]
# Descriptions as bytes are in jaxlib 0.11.2 and 0.12, which also compile for described CPUs; not in 0.10.
_to_bytes: Callable[[_jax.DeviceTopology], bytes] | None = getattr(_jax.DeviceTopology, "serialize", None)
_from_bytes: Callable[[bytes], _jax.DeviceTopology] | None = getattr(_jax.DeviceTopology, "deserialize", None)
DESCRIBES_CPUS = _to_bytes is not None
# More would be a mistake: each takes memory and a moment.
MOST = 1 << 16


def topology_devices(name: str, platform: str, options: Options) -> list[Device]:
    """Returns the devices of a topology.

    Args:
        name: as the platform's plugin reads it; of CPUs the sizes of a grid, such as `16x16`.
        platform: "cpu", or a platform with a plugin.
        options: the plugin's options.

    Raises:
        BackendError: there is no such platform, it has no such topology, or there are options for CPUs.
    """
    if platform == "cpu":
        if options:
            raise BackendError(
                f"get_topology_desc: a topology of CPUs takes a name such as '16x16' alone, got {', '.join(sorted(options))}"
            )
        return list(_cpu_devices(_count_devices(name)))
    load_plugin(platform)
    try:
        return _jax.get_default_c_api_topology(platform, name, options)._make_compile_only_devices()
    except _jax.JaxRuntimeError as error:
        raise BackendError(
            f"get_topology_desc: the {platform} plugin gives no topology {name!r}: {error}"
        ) from error


def _count_devices(name: str) -> int:
    sizes = [int(part) for part in name.split("x") if part.isascii() and part.isdigit()]
    if len(sizes) != name.count("x") + 1 or not 0 < prod(sizes) <= MOST:
        raise BackendError(
            f"get_topology_desc: a topology of CPUs is named by its sizes, such as '16x16', at most {MOST} devices in all, "
            f"got {name!r}"
        )
    return prod(sizes)


@cache
def _cpu_devices(count: int) -> tuple[Device, ...]:
    client("cpu")  # the one that computes comes first
    stand_in = _jax.get_tfrt_cpu_client(num_devices=count)
    if not DESCRIBES_CPUS:
        return tuple(stand_in.devices())
    # Read back from bytes, since a description of a client's devices keeps the client alive, with four threads a
    # device.
    return tuple(deserialize_devices(serialize_devices(stand_in.devices())))


def serialize_devices(devices: Sequence[Device]) -> bytes:
    """Returns the description of devices as bytes.

    Raises:
        BackendError: this jaxlib, or the devices' plugin, has no such form.
    """
    if _to_bytes is None:
        raise BackendError("serialize: jaxlib 0.10 does not write topologies; use a newer one")
    try:
        return _to_bytes(_jax.get_topology_for_devices(devices))
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"serialize: the topology cannot be written: {error}") from error


def deserialize_devices(data: bytes) -> list[Device]:
    """Returns the devices of a description.

    Raises:
        BackendError: it is none, or this jaxlib cannot read it.
    """
    if _from_bytes is None:
        raise BackendError("deserialize: jaxlib 0.10 does not read topologies; use a newer one")
    try:
        return _from_bytes(data)._make_compile_only_devices()
    except (_jax.JaxRuntimeError, ValueError) as error:
        raise BackendError(f"deserialize: the topology cannot be read: {error}") from error


def compile_for_topology(
    text: str, devices: tuple[Device, ...], name: str, options: CompilerOptions
) -> _jax.Executable:
    """Compiles a StableHLO module for the devices of a topology.

    Raises:
        BackendError: XLA refuses the text, or has no such option.
    """
    try:
        with Phase("/effx/compile", name):
            return devices[0].client.compile(
                mlir_module(text), _jax.DeviceList(devices), compile_options(devices, options)
            )
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"compile: XLA refused the program: {error}") from error
