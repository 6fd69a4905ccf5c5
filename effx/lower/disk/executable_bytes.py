"""Pack executables as bytes: the environment that they need, a checksum, and XLA's own form.

Loading such bytes runs code: anyone who can write them can do what the process may do.
"""

import functools
import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxlib import _jax, version

from effx.dtypes import as_dtype
from effx.errors import BackendError
from effx.lower.ffi import lapack_target
from effx.lower.placement.shardings import Device
from effx.lower.process_exit import in_xla

__all__ = ["environment_fingerprint", "join_with_header", "pack", "split_header", "unpack"]

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


def join_with_header(magic: bytes, header: Mapping[str, object], body: bytes) -> bytes:
    """Returns the magic bytes, a checksum of what follows, the header's size, the header as JSON, and the body."""
    head = json.dumps(header).encode()
    rest = len(head).to_bytes(8, "little") + head + body
    return magic + hashlib.sha256(rest).digest() + rest


def split_header(magic: bytes, noun: str, data: bytes) -> tuple[dict[str, Any], bytes]:
    """Returns the header and the body of bytes from `join_with_header`; errors call them by the noun.

    Raises:
        BackendError: they are damaged, or do not begin with the magic bytes.
    """
    if not data.startswith(magic):
        raise BackendError(f"deserialize: these bytes are no {noun} of this version of effx")
    start = len(magic) + 32
    rest = data[start:]
    if hashlib.sha256(rest).digest() != data[len(magic) : start]:
        raise BackendError(f"deserialize: the {noun} is damaged: its checksum is wrong")
    size = int.from_bytes(rest[:8], "little")
    header: dict[str, Any] = json.loads(rest[8 : 8 + size])
    return header, rest[8 + size :]


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
    return join_with_header(_MAGIC, header, body)


def unpack(data: bytes, devices: Sequence[Device], options: _jax.CompileOptions) -> _jax.LoadedExecutable:
    """Loads an executable.

    Args:
        data: from `pack`. devices: those to run on. options: those it was compiled with.

    Raises:
        BackendError: the bytes are damaged, no executable, or one for another environment.
    """
    header, body = split_header(_MAGIC, "executable", data)
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
            return devices[0].client.deserialize_executable(body, _jax.DeviceList(tuple(devices)), options)
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"deserialize: XLA cannot load the executable: {error}") from error
