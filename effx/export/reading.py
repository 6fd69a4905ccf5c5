"""Reads artifacts."""

import struct
from collections.abc import Callable
from typing import Any, TypeVar, final

from effx.errors import BackendError
from effx.export import layout
from effx.export.exported import (
    DisabledSafetyCheck,
    Exported,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from effx.export.nodes import form_named
from effx.export.writing import flatbuffers
from effx.ir.sizes.dimensions import SymbolicScope
from effx.ir.sizes.shape_text import parse_size
from effx.ir.types import ArrayType, array_type
from effx.tree.registry import PyTreeDef, flatten

__all__ = ["deserialize"]

T = TypeVar("T")


def deserialize(blob: bytes | bytearray) -> Exported:
    """Reads an exported function from bytes, which `Exported.serialize` gave here or in JAX.

    Args:
        blob: the bytes.

    Raises:
        BackendError: the bytes are no artifact, or one of another version or calling convention.
        TreeError: the arguments or results have nodes that are not registered here.

    >>> import effx, effx.numpy as enp
    >>> spec = effx.ShapeDtypeStruct(effx.export.symbolic_shape("n, 2"), enp.float32)
    >>> data = effx.export.export(effx.jit(lambda x: x.sum(0)))(spec).serialize(vjp_order=1)
    >>> read = deserialize(data)
    >>> read.in_avals, effx.grad(lambda x: read.call(x)[0])(enp.ones((3, 2))).tolist()
    ((f32[n,2],), [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    """
    if not isinstance(blob, bytes | bytearray):
        raise BackendError(f"deserialize: an artifact is bytes, got {blob!r} of type {type(blob).__name__}")
    library = flatbuffers("deserialize")
    try:
        root_offset = library.encode.Get(library.packer.uoffset, blob, 0)
        return _read_exported(_Table(library.table.Table(bytearray(blob), root_offset), library))
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError, KeyError, ValueError) as error:
        raise BackendError(f"deserialize: the bytes are no artifact, or damaged: {error}") from error


@final
class _Table:
    """A table, whose fields are read by their numbers."""

    def __init__(self, table: Any, library: Any) -> None:
        self._table, self._library = table, library

    def _field_offset(self, field: int) -> int:
        offset: int = self._table.Offset(4 + 2 * field)
        return offset

    def read_number(self, field: int, kind: str, default: int = 0) -> int:
        """Reads a number of a kind such as "Uint16"."""
        at = self._field_offset(field)
        flags = getattr(self._library.number_types, f"{kind}Flags")
        return int(self._table.Get(flags, at + self._table.Pos)) if at else default

    def read_text(self, field: int) -> str:
        """Reads a string; "" where there is none."""
        at = self._field_offset(field)
        return str(self._table.String(at + self._table.Pos).decode()) if at else ""

    def read_bytes(self, field: int) -> bytes:
        """Reads bytes."""
        at = self._field_offset(field)
        if not at:
            return b""
        start = self._table.Vector(at)
        return bytes(self._table.Bytes[start : start + self._table.VectorLen(at)])

    def read_table(self, field: int) -> "_Table | None":
        """Reads a table; None where there is none."""
        at = self._field_offset(field)
        if not at:
            return None
        where = self._table.Indirect(at + self._table.Pos)
        return _Table(self._library.table.Table(self._table.Bytes, where), self._library)

    def require_table(self, field: int) -> "_Table":
        """Reads a table that must be there."""
        result = self.read_table(field)
        if result is None:
            raise ValueError(f"field {field} is missing")
        return result

    def read_vector(self, field: int, width: int, read: Callable[[int], T]) -> list[T]:
        """Reads the elements of a vector by their positions."""
        at = self._field_offset(field)
        if not at:
            return []
        start, count = self._table.Vector(at), self._table.VectorLen(at)
        if start + count * width > len(self._table.Bytes):
            raise ValueError(f"field {field} is cut off")
        return [read(start + i * width) for i in range(count)]

    def read_tables(self, field: int) -> "list[_Table]":
        """Reads a vector of tables."""
        return self.read_vector(
            field,
            4,
            lambda at: _Table(
                self._library.table.Table(self._table.Bytes, self._table.Indirect(at)), self._library
            ),
        )

    def read_texts(self, field: int) -> list[str]:
        """Reads a vector of strings."""
        return self.read_vector(field, 4, lambda at: str(self._table.String(at).decode()))

    def read_numbers(self, field: int) -> list[int]:
        """Reads a vector of numbers of 2 bytes."""
        flags = self._library.number_types.Uint16Flags
        return self.read_vector(field, 2, lambda at: int(self._table.Get(flags, at)))


def _read_exported(table: _Table) -> Exported:
    version = table.read_number(layout.SERIALIZATION_VERSION, "Uint16")
    if version not in layout.READ:
        raise BackendError(
            f"deserialize: the artifact has serialization version {version}; "
            f"this effx reads {layout.READ[0]} to {layout.READ[-1]}"
        )
    convention = table.read_number(layout.CALLING_CONVENTION, "Uint16")
    low, high = minimum_supported_calling_convention_version, maximum_supported_calling_convention_version
    if not low <= convention <= high:
        raise BackendError(
            f"deserialize: the artifact has calling convention {convention}; this effx calls {low} to {high}"
        )
    name = table.read_text(layout.FUNCTION_NAME)
    effects = [*table.read_tables(layout.ORDERED_EFFECTS), *table.read_tables(layout.UNORDERED_EFFECTS)]
    if effects:
        raise BackendError(f"deserialize: {name} has effects, which effx does not run from artifacts")
    scope = SymbolicScope()
    vjp = table.read_table(layout.VJP)
    return Exported(
        name,
        _read_tree(table.require_table(layout.IN_TREE)),
        tuple([_read_array_type(t, scope) for t in table.read_tables(layout.IN_TYPES)]),
        _read_tree(table.require_table(layout.OUT_TREE)),
        tuple([_read_array_type(t, scope) for t in table.read_tables(layout.OUT_TYPES)]),
        table.read_number(layout.DEVICES, "Uint32") or table.read_number(layout.DEVICES_SHORT, "Int16"),
        tuple(table.read_texts(layout.PLATFORMS)),
        tuple([_read_check(t) for t in table.read_tables(layout.DISABLED_CHECKS)]),
        table.read_bytes(layout.MODULE),
        convention,
        tuple(table.read_numbers(layout.KEPT)),
        bool(table.read_number(layout.GLOBAL_CONSTANTS, "Bool")),
        None if vjp is None else lambda: _read_exported(vjp),
    )


def _read_array_type(table: _Table, scope: SymbolicScope) -> ArrayType:
    if table.read_number(layout.ARRAY_KIND, "Int8"):
        raise BackendError(
            "deserialize: the function takes or gives tokens, which effx does not run from artifacts"
        )
    shape = [parse_size(text, scope) for text in table.read_texts(layout.ARRAY_SHAPE)]
    return array_type(layout.DTYPES[table.read_number(layout.ARRAY_DTYPE, "Int8")], shape)


def _read_check(table: _Table) -> DisabledSafetyCheck:
    kind = layout.CHECKS[table.read_number(layout.CHECK_KIND, "Int8")]
    return DisabledSafetyCheck(kind, table.read_text(layout.CHECK_TARGET))


def _read_tree(table: _Table) -> PyTreeDef:
    return flatten(_read_node(table), lambda x: x is _LEAF)[1]


_LEAF = object()


def _read_node(table: _Table) -> Any:
    kind = table.read_number(layout.KIND, "Int8")
    children = [_read_node(child) for child in table.read_tables(layout.CHILDREN)]
    match kind:
        case layout.LEAF:
            return _LEAF
        case layout.NONE:
            return None
        case layout.TUPLE:
            return tuple(children)
        case layout.LIST:
            return children
        case layout.DICT:
            return dict(zip(table.read_texts(layout.CHILDREN_NAMES), children, strict=True))
        case layout.CUSTOM:
            form = form_named(table.read_text(layout.CUSTOM_NAME))
            return form.build(form.load(table.read_bytes(layout.CUSTOM_DATA)), children)
    raise ValueError(f"a structure has a node of kind {kind}")
