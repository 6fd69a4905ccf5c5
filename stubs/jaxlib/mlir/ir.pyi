# MLIR contexts and modules.

from collections.abc import Sequence
from types import TracebackType
from typing import BinaryIO

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
    def append_dialect_registry(self, registry: DialectRegistry) -> None: ...
    def load_all_available_dialects(self) -> None: ...

class DialectRegistry:
    def __init__(self) -> None: ...

class Module:
    @staticmethod
    def parse(asm: str | bytes, context: Context | None = None) -> Module: ...
    @property
    def context(self) -> Context: ...
    @property
    def operation(self) -> Operation: ...
    def dump(self) -> None: ...

class Operation:
    def get_asm(
        self,
        binary: bool = False,
        large_elements_limit: int | None = None,
        large_resource_limit: int | None = None,
        enable_debug_info: bool = False,
        pretty_debug_info: bool = False,
        print_generic_op_form: bool = False,
        use_local_scope: bool = False,
        use_name_loc_as_prefix: bool = False,
        assume_verified: bool = False,
        skip_regions: bool = False,
    ) -> object: ...
    def write_bytecode(self, file: BinaryIO, desired_version: int | None = None) -> None: ...
