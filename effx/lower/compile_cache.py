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
from effx.lower.cache_files import CacheFiles, say
from effx.lower.compile_options import CompilerOptions, compile_options
from effx.lower.executable_bytes import pack, surroundings, unpack

__all__ = ["compiled_before", "keep_compiled"]


@lru_cache(maxsize=16)
def _files(directory: str, most: int) -> CacheFiles:
    return CacheFiles(Path(directory).expanduser(), most)


# The lines of the user's that a text names do not change what it computes.
_LOCATIONS = re.compile(r"( loc\(#loc\d+\)$)|(^#loc\d+ = .*\n)", re.MULTILINE)


def _key(text: str, devices: tuple[Device, ...], options: CompilerOptions) -> str:
    around = [surroundings(devices), [d.id for d in devices], options, os.environ.get("XLA_FLAGS", "")]
    return hashlib.sha256(f"{json.dumps(around)}\n{_LOCATIONS.sub('', text)}".encode()).hexdigest()


def compiled_before(
    text: str, devices: tuple[Device, ...], options: CompilerOptions
) -> _jax.LoadedExecutable | None:
    """Returns the executable of a StableHLO module if the cache has it."""
    directory = cache_dir.value
    if directory is None:
        return None
    data = _files(directory, cache_max_size.value).get(_key(text, devices, options))
    if data is None:
        return None
    try:
        return unpack(data, devices, compile_options(devices, options))
    except BackendError as error:
        say(f"cache: an entry in {directory} is ignored: {error.message}")
        return None


def keep_compiled(
    loaded: _jax.LoadedExecutable,
    text: str,
    devices: tuple[Device, ...],
    options: CompilerOptions,
    seconds: float,
) -> None:
    """Writes an executable into the cache if it took long enough to compile."""
    directory = cache_dir.value
    if directory is None or seconds < cache_min_compile_seconds.value:
        return
    try:
        data = pack(loaded, devices, text)
    except BackendError as error:
        say(f"cache: {error.message}")
        return
    _files(directory, cache_max_size.value).put(_key(text, devices, options), data)
