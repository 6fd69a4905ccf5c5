"""The disk cache of compiled executables, `EFFX_CACHE_DIR`, from which later processes load them.

An executable is stored from 50 ms of compiling on: loading takes about a thirtieth of that (1 ms for 45, 15 for
420).
"""

import hashlib
import json
import os
import re
from functools import lru_cache
from pathlib import Path

from jaxlib import _jax
from jaxlib._jax import Device

from effx.errors import BackendError
from effx.flags import cache_dir, cache_max_size, cache_min_compile_seconds
from effx.lower.compile_options import CompilerOptions, compile_options
from effx.lower.disk.cache_files import CacheFiles, warn_once
from effx.lower.disk.executable_bytes import environment_fingerprint, pack, unpack

__all__ = ["active_cache_files", "cache_key", "load_compiled", "look_up_compiled", "store_compiled"]


@lru_cache(maxsize=16)
def _open_cache_files(directory: str, most: int) -> CacheFiles:
    return CacheFiles(Path(directory).expanduser(), most)


def active_cache_files() -> CacheFiles | None:
    """Returns the cache of `cache_dir`; None where it is not set."""
    directory = cache_dir.value
    return None if directory is None else _open_cache_files(directory, cache_max_size.value)


# The source locations in a text do not change what it computes.
_LOCATIONS = re.compile(r"( loc\(#loc\d+\)$)|(^#loc\d+ = .*\n)", re.MULTILINE)


def cache_key(text: str, devices: tuple[Device, ...], options: CompilerOptions) -> str:
    """Returns the key of the executable of a StableHLO module."""
    around = [
        environment_fingerprint(devices),
        [d.id for d in devices],
        options,
        os.environ.get("XLA_FLAGS", ""),
    ]
    return hashlib.sha256(f"{json.dumps(around)}\n{_LOCATIONS.sub('', text)}".encode()).hexdigest()


def look_up_compiled(
    text: str, devices: tuple[Device, ...], options: CompilerOptions
) -> _jax.LoadedExecutable | None:
    """Returns the executable of a StableHLO module if the cache has it."""
    if cache_dir.value is None:
        return None
    return load_compiled(cache_key(text, devices, options), devices, options)


def load_compiled(
    key: str, devices: tuple[Device, ...], options: CompilerOptions
) -> _jax.LoadedExecutable | None:
    """Returns the executable with this key if the cache has it."""
    files = active_cache_files()
    data = None if files is None else files.get(key)
    if files is None or data is None:
        return None
    try:
        return unpack(data, devices, compile_options(devices, options))
    except BackendError as error:
        warn_once(f"cache: an entry in {files.directory} is ignored: {error.message}")
        return None


def store_compiled(
    loaded: _jax.LoadedExecutable,
    text: str,
    devices: tuple[Device, ...],
    options: CompilerOptions,
    seconds: float,
) -> None:
    """Writes an executable into the cache if it took long enough to compile."""
    files = active_cache_files()
    if files is None or seconds < cache_min_compile_seconds.value:
        return
    try:
        data = pack(loaded, devices, text)
    except BackendError as error:
        warn_once(f"cache: {error.message}")
        return
    files.write(cache_key(text, devices, options), data)
