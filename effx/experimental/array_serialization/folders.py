"""The folder of a checkpoint, on a disk or at an address of tensorstore's."""

import os
import shutil
from typing import TYPE_CHECKING, final

from effx.errors import CheckpointError
from effx.experimental.array_serialization.stores import (
    display_url,
    import_tensorstore,
    kvstore_spec,
    raise_as_storage_errors,
    shared_context,
)

if TYPE_CHECKING:
    import tensorstore as ts


@final
class CheckpointFolder:
    """Files by name; each is written whole or not at all, and is on the disk when `write` returns.

    Attributes:
        shown: its path, absolute, or its address.
    """

    def __init__(self, function_name: str, path: "str | os.PathLike[str]") -> None:
        self._what = function_name
        self.shown, self._is_url = display_url(path)
        if not self._is_url and os.path.exists(self.shown) and not os.path.isdir(self.shown):
            raise CheckpointError(f"{function_name}: {self.shown} is a file, and checkpoints are directories")
        with raise_as_storage_errors(function_name, self.shown):
            self._store: ts.KvStore = (
                import_tensorstore(function_name)
                .KvStore.open(kvstore_spec(self.shown), context=shared_context(function_name))
                .result()
            )

    def read(self, name: str) -> bytes | None:
        """Returns a file; None if it is not there."""
        with raise_as_storage_errors(self._what, f"{self.shown}: {name}"):
            result = self._store.read(name).result()
        return result.value if result.state == "value" else None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, replacing an old one."""
        with raise_as_storage_errors(self._what, f"{self.shown}: {name}"):
            self._store.write(name, data).result()

    def names(self) -> set[str]:
        """Returns the names of files and folders in it."""
        if not self._is_url:
            return set(os.listdir(self.shown)) if os.path.isdir(self.shown) else set()
        with raise_as_storage_errors(self._what, self.shown):
            return {key.decode().partition("/")[0] for key in self._store.list().result()}

    def remove(self, name: str) -> None:
        """Removes a folder in it, with all that it holds."""
        if not self._is_url:
            shutil.rmtree(os.path.join(self.shown, name), ignore_errors=True)
            return
        # "0" is the character after "/".
        keys = import_tensorstore(self._what).KvStore.KeyRange(f"{name}/", f"{name}0")
        with raise_as_storage_errors(self._what, f"{self.shown}: {name}"):
            self._store.delete_range(keys).result()
