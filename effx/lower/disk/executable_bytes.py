"""Pack executables as bytes: the environment that they need, a checksum, and XLA's own form.

Loading such bytes runs code: anyone who can write them can do what the process may do.
"""

import functools
import hashlib
import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from jaxlib import _jax, version

from effx.dtypes import as_dtype
from effx.errors import BackendError
from effx.lower.ffi import lapack_target
from effx.lower.placement.shardings import Device
from effx.lower.process_exit import in_xla

__all__ = ["environment_fingerprint", "pack", "unpack"]

_MAGIC = b"effx executable 1\n"
_LAPACK = re.compile(r"@lapack_([sdcz])(\w+)_ffi\b")
_LETTERS = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}


@functools.cache
def _processor() -> str:
    """Returns a text that differs between processors for which XLA compiles different code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {hashlib.sha256(features.encode()).hexdigest()[:16]}"


def environment_fingerprint(devices: Sequence[Device]) -> dict[str, str]:
    """Returns the properties that must be equal where an executable is compiled and where it is loaded."""
    client = devices[0].client
    return {
        "jaxlib": version.__version__,
        "platform": f"{client.platform} {client.platform_version}",
        "devices": ", ".join([d.device_kind for d in devices]),
        "processor": _processor(),
    }


def pack(loaded: _jax.LoadedExecutable, devices: Sequence[Device], text: str) -> bytes:
    """Returns an executable as bytes.

    Args:
        loaded: XLA's executable. devices: those it runs on. text: the StableHLO it was compiled from.

    Raises:
        BackendError: the platform's executables cannot be written.
    """
    try:
        body = loaded.serialize()
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"serialize: XLA cannot write this executable: {error}") from error
    header = {"surroundings": environment_fingerprint(devices), "lapack": sorted(set(_LAPACK.findall(text)))}
    head = json.dumps(header).encode()
    rest = len(head).to_bytes(8, "little") + head + body
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def unpack(data: bytes, devices: Sequence[Device], options: _jax.CompileOptions) -> _jax.LoadedExecutable:
    """Loads an executable.

    Args:
        data: from `pack`. devices: those to run on. options: those it was compiled with.

    Raises:
        BackendError: the bytes are damaged, no executable, or one for another environment.
    """
    start = len(_MAGIC) + 32
    rest = data[start:]
    if not data.startswith(_MAGIC):
        raise BackendError("deserialize: these bytes are no executable of this version of effx")
    if hashlib.sha256(rest).digest() != data[len(_MAGIC) : start]:
        raise BackendError("deserialize: the executable is damaged: its checksum is wrong")
    size = int.from_bytes(rest[:8], "little")
    header = json.loads(rest[8 : 8 + size])
    here = environment_fingerprint(devices)
    for name, value in header["surroundings"].items():
        if here.get(name) != value:
            raise BackendError(
                f"deserialize: the executable was compiled for {name} {value!r}, here it is {here.get(name)!r}"
            )
    for letter, function in header["lapack"]:
        lapack_target(function, as_dtype(_LETTERS[letter]))
    try:
        with in_xla:
            return devices[0].client.deserialize_executable(
                rest[8 + size :], _jax.DeviceList(tuple(devices)), options
            )
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"deserialize: XLA cannot load the executable: {error}") from error
