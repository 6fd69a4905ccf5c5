"""The folder of a checkpoint, on a disk or at an address that tensorstore knows."""

import os
import shutil
from typing import TYPE_CHECKING, final

from effx.errors import CheckpointError
from effx.experimental.array_serialization.stores import context, errors_of, kvstore, tensorstore, url_of

if TYPE_CHECKING:
    import tensorstore as ts


@final
class Folder:
    """Files by name; each is written whole or not at all, and lies on the disk when `write` returns.

    Attributes:
        shown: its path, absolute, or its address.
    """

    def __init__(self, what: str, path: "str | os.PathLike[str]") -> None:
        self._what = what
        self.shown, self._is_url = url_of(path)
        if not self._is_url and os.path.exists(self.shown) and not os.path.isdir(self.shown):
            raise CheckpointError(f"{what}: {self.shown} is a file, and checkpoints are directories")
        with errors_of(what, self.shown):
            self._store: ts.KvStore = (
                tensorstore(what).KvStore.open(kvstore(self.shown), context=context(what)).result()
            )

    def read(self, name: str) -> bytes | None:
        """Returns a file; None if it is not there."""
        with errors_of(self._what, f"{self.shown}: {name}"):
            found = self._store.read(name).result()
        return found.value if found.state == "value" else None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file in place of what was there."""
        with errors_of(self._what, f"{self.shown}: {name}"):
            self._store.write(name, data).result()

    def names(self) -> set[str]:
        """Returns the names of files and folders in it."""
        if not self._is_url:
            return set(os.listdir(self.shown)) if os.path.isdir(self.shown) else set()
        with errors_of(self._what, self.shown):
            return {key.decode().partition("/")[0] for key in self._store.list().result()}

    def remove(self, name: str) -> None:
        """Removes a folder in it, with all that it holds."""
        if not self._is_url:
            shutil.rmtree(os.path.join(self.shown, name), ignore_errors=True)
            return
        # "0" is the character after "/".
        keys = tensorstore(self._what).KvStore.KeyRange(f"{name}/", f"{name}0")
        with errors_of(self._what, f"{self.shown}: {name}"):
            self._store.delete_range(keys).result()
