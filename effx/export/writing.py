"""Writes artifacts: FlatBuffers tables, from the leaves up."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from effx.errors import BackendError, DTypeError, TreeError
from effx.export import layout
from effx.export.exported import DisabledSafetyCheck, Exported
from effx.export.nodes import form_of
from effx.ir.types import ArrayType
from effx.tree.registry import PyTreeDef

__all__ = ["flatbuffers", "written"]


def flatbuffers(function_name: str) -> Any:
    """Returns the library of the format.

    Raises:
        BackendError: it is not installed.
    """
    try:
        return importlib.import_module("flatbuffers")
    except ImportError:
        raise BackendError(
            f"{function_name}: artifacts are FlatBuffers, and the package flatbuffers is not installed; pip install "
            "'effx[export]'"
        ) from None


def written(exported: Exported, vjp_order: int) -> bytearray:
    """Returns the bytes of an exported function; see `Exported.serialize`."""
    writer = _Writer(flatbuffers("serialize").Builder(65536))
    root = writer.write_exported(exported, vjp_order)
    writer.builder.Finish(root)
    output: bytearray = writer.builder.Output()
    return output


class _Writer:
    """Writes one artifact. A table's strings, vectors and tables are written before it."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def write_table(self, fields: int, slots: Sequence[tuple[Callable[..., None], int, Any, Any]]) -> int:
        """Writes a table: for each field its writer, number and value, and the default value, which is left out."""
        self.builder.StartObject(fields)
        for write, field, value, default in slots:
            write(field, value, default)
        end: int = self.builder.EndObject()
        return end

    def write_references(self, offsets: Sequence[int]) -> int:
        """Writes a vector of what was written before."""
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        end: int = self.builder.EndVector()
        return end

    def write_numbers(self, values: Sequence[int], width: int) -> int:
        """Writes a vector of unsigned numbers of 2 or 4 bytes."""
        self.builder.StartVector(width, len(values), width)
        prepend = self.builder.PrependUint16 if width == 2 else self.builder.PrependUint32
        for value in reversed(values):
            prepend(value)
        end: int = self.builder.EndVector()
        return end

    def write_strings(self, values: Sequence[str]) -> int:
        """Writes a vector of strings."""
        return self.write_references([self.builder.CreateString(v) for v in values])

    def write_tree(self, tree: PyTreeDef) -> int:
        """Writes a structure."""
        b = self.builder
        data = tree.node_data()
        if data is None:
            return self.write_table(layout.PYTREE_FIELDS, [(b.PrependInt8Slot, layout.KIND, layout.LEAF, 0)])
        cls, static = data
        children = self.write_references([self.write_tree(child) for child in tree.children()])
        slots: list[tuple[Callable[..., None], int, Any, Any]] = [
            (b.PrependUOffsetTRelativeSlot, layout.CHILDREN, children, 0)
        ]
        plain = {type(None): layout.NONE, tuple: layout.TUPLE, list: layout.LIST, dict: layout.DICT}
        kind = plain.get(cls, layout.CUSTOM)
        if kind == layout.DICT:
            if not all([isinstance(key, str) for key in static]):
                raise TreeError(f"serialize: the keys of dicts must be strings, got {list(static)}")
            slots.append(
                (b.PrependUOffsetTRelativeSlot, layout.CHILDREN_NAMES, self.write_strings(list(static)), 0)
            )
        elif kind == layout.CUSTOM:
            form = form_of(cls)
            name, rest = b.CreateString(form.name), b.CreateByteVector(form.dump(static))
            slots.append((b.PrependUOffsetTRelativeSlot, layout.CUSTOM_NAME, name, 0))
            slots.append((b.PrependUOffsetTRelativeSlot, layout.CUSTOM_DATA, rest, 0))
        slots.append((b.PrependInt8Slot, layout.KIND, kind, 0))
        return self.write_table(layout.PYTREE_FIELDS, slots)

    def write_array_type(self, t: ArrayType) -> int:
        """Writes a type."""
        b = self.builder
        if t.dtype not in layout.DTYPES:
            raise DTypeError(f"serialize: artifacts have no arrays of {t.dtype.name}, got {t!r}")
        shape = self.write_strings([str(n) for n in t.shape])
        return self.write_table(
            layout.ARRAY_FIELDS,
            [
                (b.PrependUOffsetTRelativeSlot, layout.ARRAY_SHAPE, shape, 0),
                (b.PrependInt8Slot, layout.ARRAY_DTYPE, layout.DTYPES.index(t.dtype), 0),
                (b.PrependInt8Slot, layout.ARRAY_MEMORY, layout.DEVICE_MEMORY, 0),
            ],
        )

    def write_check(self, check: DisabledSafetyCheck) -> int:
        """Writes a check that is not made."""
        b = self.builder
        target = b.CreateString(check.is_custom_call() or "")
        return self.write_table(
            layout.CHECK_FIELDS,
            [
                (b.PrependUOffsetTRelativeSlot, layout.CHECK_TARGET, target, 0),
                (b.PrependInt8Slot, layout.CHECK_KIND, layout.CHECKS.index(check.kind), 0),
            ],
        )

    def write_exported(self, e: Exported, vjp_order: int) -> int:
        """Writes a function, and the vjps that are requested."""
        b = self.builder
        vjp = self.write_exported(e.vjp(), vjp_order - 1) if vjp_order else None
        types = list(dict.fromkeys([*e.in_avals, *e.out_avals]))
        type_index = {t: i for i, t in enumerate(types)}

        def vector(values: Sequence[int]) -> int:
            return self.write_references(values)

        none = layout.SHARDING_FIELDS
        references = {
            layout.FUNCTION_NAME: b.CreateString(e.fun_name),
            layout.IN_TREE: self.write_tree(e.in_tree),
            layout.IN_TYPES: vector([self.write_array_type(t) for t in e.in_avals]),
            layout.OUT_TREE: self.write_tree(e.out_tree),
            layout.OUT_TYPES: vector([self.write_array_type(t) for t in e.out_avals]),
            layout.IN_SHARDINGS: vector([self.write_table(none, []) for _ in e.in_avals]),
            layout.OUT_SHARDINGS: vector([self.write_table(none, []) for _ in e.out_avals]),
            layout.PLATFORMS: self.write_strings(e.platforms),
            layout.ORDERED_EFFECTS: vector([]),
            layout.UNORDERED_EFFECTS: vector([]),
            layout.DISABLED_CHECKS: vector([self.write_check(c) for c in e.disabled_safety_checks]),
            layout.MODULE: b.CreateByteVector(e.mlir_module_serialized),
            layout.KEPT: self.write_numbers(e.module_kept_var_idx, 2),
            layout.UNIQUE_TYPES: vector([self.write_array_type(t) for t in types]),
            layout.UNIQUE_MESHES: vector([]),
            layout.UNIQUE_SHARDINGS: vector([]),
            layout.IN_TYPES_AT: self.write_numbers([type_index[t] for t in e.in_avals], 4),
            layout.OUT_TYPES_AT: self.write_numbers([type_index[t] for t in e.out_avals], 4),
            layout.IN_SHARDINGS_AT: self.write_numbers([0] * len(e.in_avals), 4),
            layout.OUT_SHARDINGS_AT: self.write_numbers([0] * len(e.out_avals), 4),
        }
        if vjp is not None:
            references[layout.VJP] = vjp
        slots: list[tuple[Callable[..., None], int, Any, Any]] = [
            (b.PrependUOffsetTRelativeSlot, at, offset, 0) for at, offset in references.items()
        ]
        slots += [
            (b.PrependUint16Slot, layout.SERIALIZATION_VERSION, layout.VERSION, 0),
            (b.PrependUint16Slot, layout.CALLING_CONVENTION, e.calling_convention_version, 0),
            (b.PrependBoolSlot, layout.GLOBAL_CONSTANTS, e.uses_global_constants, 0),
            (b.PrependUint32Slot, layout.DEVICES, e.nr_devices, 0),
        ]
        return self.write_table(layout.EXPORTED_FIELDS, slots)
