"""A directory of cache entries that many processes use at once.

An entry is written to a file of its own and then renamed, so that no process reads half of one. On any failure
the cache warns once and does without the entry: a cache loses time at most, never a result.
"""

import contextlib
import os
import stat
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import final

__all__ = ["CacheFiles"]

_SUFFIX = ".effx"
_STALE = 3600.0  # seconds after which an unfinished file is removed
_warned_texts: set[str] = set()


def warn_once(text: str) -> None:
    """Warns, once for each text in a process."""
    if text not in _warned_texts:
        _warned_texts.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)


@final
class CacheFiles:
    """Entries by key in one directory, which is made when the first is written.

    Attributes:
        directory: readable by its owner only.
        most: how many bytes all entries may take; the least recently used are removed first.
    """

    def __init__(self, directory: Path, most: int) -> None:
        self.directory, self.most = directory, most
        self._lock = threading.Lock()
        self._size: int | None = None  # as far as this process knows

    def get(self, key: str) -> bytes | None:
        """Returns an entry, None where there is none that this user wrote."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                if not _is_owned_by_user(os.fstat(file.fileno())):
                    warn_once(f"cache: {path} belongs to another user and is ignored")
                    return None
                data = file.read()
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            warn_once(f"cache: cannot read {path}: {error.strerror}")
            return None
        return data

    def has_entry(self, key: str) -> bool:
        """Says whether there is an entry."""
        return self._path(key).exists()

    def write(self, key: str, data: bytes) -> None:
        """Writes an entry, whole or not at all."""
        if len(data) > self.most:
            return
        try:
            self._make_directory()
            handle, name = tempfile.mkstemp(dir=self.directory, prefix=".", suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(name, self._path(key))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            warn_once(f"cache: cannot write to {self.directory}: {error.strerror or error}")
            return
        with self._lock:
            self._size = None if self._size is None else self._size + len(data)
            if self._size is None or self._size > self.most:
                self._size = self._trim()

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"

    def _make_directory(self) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.directory.stat()
        if not _is_owned_by_user(status):
            raise PermissionError(0, "the directory belongs to another user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            self.directory.chmod(0o700)

    def _trim(self) -> int:
        """Removes unfinished files, and least recently used entries over the limit; returns the bytes left."""
        entries: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError):
            for item in os.scandir(self.directory):
                with contextlib.suppress(OSError):
                    status = item.stat()
                    if item.name.endswith(_SUFFIX):
                        entries.append((status.st_mtime, status.st_size, Path(item.path)))
                    elif item.name.endswith(".part") and time.time() - status.st_mtime > _STALE:
                        os.unlink(item.path)
        size = sum([n for _, n, _ in entries])
        for _, n, path in sorted(entries):
            if size <= self.most:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            size -= n
        return size


def _is_owned_by_user(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid == os.getuid()
