"""Compiled executables on disk, so that the next process need not compile them: `EFFX_CACHE_DIR`."""

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
from effx.lower.disk.cache_files import CacheFiles, say
from effx.lower.disk.executable_bytes import pack, surroundings, unpack

__all__ = ["compiled_before", "files_in_force", "keep_compiled", "key_of", "load_compiled"]


@lru_cache(maxsize=16)
def _files(directory: str, most: int) -> CacheFiles:
    return CacheFiles(Path(directory).expanduser(), most)


def files_in_force() -> CacheFiles | None:
    """Returns the cache of `cache_dir`, None where there is none."""
    directory = cache_dir.value
    return None if directory is None else _files(directory, cache_max_size.value)


# The lines of the user's that a text names do not change what it computes.
_LOCATIONS = re.compile(r"( loc\(#loc\d+\)$)|(^#loc\d+ = .*\n)", re.MULTILINE)


def key_of(text: str, devices: tuple[Device, ...], options: CompilerOptions) -> str:
    """Returns the key of the executable of a StableHLO module."""
    around = [surroundings(devices), [d.id for d in devices], options, os.environ.get("XLA_FLAGS", "")]
    return hashlib.sha256(f"{json.dumps(around)}\n{_LOCATIONS.sub('', text)}".encode()).hexdigest()


def compiled_before(
    text: str, devices: tuple[Device, ...], options: CompilerOptions
) -> _jax.LoadedExecutable | None:
    """Returns the executable of a StableHLO module if the cache has it."""
    if cache_dir.value is None:
        return None
    return load_compiled(key_of(text, devices, options), devices, options)


def load_compiled(
    key: str, devices: tuple[Device, ...], options: CompilerOptions
) -> _jax.LoadedExecutable | None:
    """Returns the executable with this key if the cache has it."""
    files = files_in_force()
    data = None if files is None else files.get(key)
    if files is None or data is None:
        return None
    try:
        return unpack(data, devices, compile_options(devices, options))
    except BackendError as error:
        say(f"cache: an entry in {files.directory} is ignored: {error.message}")
        return None


def keep_compiled(
    loaded: _jax.LoadedExecutable,
    text: str,
    devices: tuple[Device, ...],
    options: CompilerOptions,
    seconds: float,
) -> None:
    """Writes an executable into the cache if it took long enough to compile."""
    files = files_in_force()
    if files is None or seconds < cache_min_compile_seconds.value:
        return
    try:
        data = pack(loaded, devices, text)
    except BackendError as error:
        say(f"cache: {error.message}")
        return
    files.put(key_of(text, devices, options), data)
