# MLIR contexts and modules.

from collections.abc import Sequence
from types import TracebackType

class Context:
    def __init__(
        self, load_on_create_dialects: Sequence[str] | None = None, thread_pool: object | None = None
    ) -> None: ...
    def __enter__(self, /) -> Context: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Module:
    @property
    def context(self) -> Context: ...
    def dump(self) -> None: ...
