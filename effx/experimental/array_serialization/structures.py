"""The structure of a tree as JSON, and back.

Reading runs no code that the file names: classes are those that the caller's own tree has, or that this process has
loaded already and that are nodes of trees.
"""

import base64
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

import numpy as np

from effx.errors import CheckpointError, TreeError
from effx.export.nodes import form_named, form_of
from effx.tree.registry import (
    PyTree,
    PyTreeDef,
    flatten,
    named_tuples,
    record_fields,
    register_classes,
    users,
)

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Classes: TypeAlias = Mapping[str, type[object]]

_LEAF = "*"
_REGISTER = "effx.export.register_pytree_node_serialization says how"


def structure_to_json(function_name: str, tree: PyTreeDef) -> JSON:
    """Returns a structure as JSON.

    Raises:
        TreeError: it has nodes or keys without registered serialization.
    """
    data = tree.node_data()
    if data is None:
        return _LEAF
    cls, static = data
    children: list[JSON] = [structure_to_json(function_name, child) for child in tree.children()]
    if cls is type(None):
        return None
    if cls is list or cls is tuple:
        return {cls.__name__: children}
    if cls is dict or cls is OrderedDict:
        for key in static:
            if type(key) is not str and type(key) is not int:
                raise TreeError(
                    f"{function_name}: the keys of dicts must be strings or ints, got {key!r} of type {type(key).__name__}"
                )
        pairs: list[JSON] = [[key, child] for key, child in zip(static, children, strict=True)]
        return {"dict" if cls is dict else "ordered": pairs}
    try:
        form = form_of(cls)
    except TreeError:
        return {**_class_to_json(function_name, cls, static), "children": children}
    data64 = base64.b64encode(form.dump(static)).decode()
    return {"node": form.name, "data": data64, "children": children}


def _class_to_json(function_name: str, cls: type[object], static: object) -> dict[str, JSON]:
    fields = _field_names(cls)
    if fields is None:
        raise TreeError(
            f"{function_name}: nodes of {_class_name(cls)} are not written by themselves; {_REGISTER}"
        )
    data, meta = fields
    entries: dict[str, JSON] = {"class": _class_name(cls), "fields": list(data)}
    if meta:
        static_parts = cast("tuple[object, ...]", static)
        entries["static"] = {
            n: _static_to_json(function_name, cls, n, x) for n, x in zip(meta, static_parts, strict=True)
        }
    return entries


def _field_names(cls: type[object]) -> tuple[list[str], list[str]] | None:
    """Returns the names of the fields of a named tuple or a record: those that are children, and those that are static."""
    names: Iterable[str] | None = getattr(cls, "_fields", None)
    if issubclass(cls, tuple) and names is not None and cls not in named_tuples:
        return list(names), []
    return record_fields(cls)


def _class_name(cls: type[object]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _static_to_json(function_name: str, cls: type[object], field: str, x: object) -> JSON:
    if x is None or type(x) in (bool, int, float, str):
        return cast("JSON", x)
    if type(x) is tuple:
        return {"tuple": [_static_to_json(function_name, cls, field, y) for y in x]}
    if isinstance(x, np.dtype) and x.names is None:
        return {"dtype": x.name}
    raise TreeError(
        f"{function_name}: the static field {field!r} of {_class_name(cls)} is {x!r}; static fields are written of "
        "None, bools, numbers, "
        f"strings, dtypes and tuples of them; {_REGISTER} for others"
    )


# --- and back -------------------------------------------------------------------------------------


def structure_from_json(function_name: str, where: str, data: JSON, classes: Classes) -> PyTreeDef:
    """Returns the structure in JSON.

    Args:
        function_name, where: the function and the checkpoint, for errors.
        data: as `structure_to_json` gave it.
        classes: by name those that the caller's tree has.

    Raises:
        CheckpointError: it is no structure.
        TreeError: a class is not known here, or has other fields.
    """
    if data is None or data == _LEAF:
        return flatten(None if data is None else 0)[1]
    damaged = CheckpointError(f"{function_name}: {where}: the structure is damaged")
    if not isinstance(data, dict):
        raise damaged

    def child(x: JSON) -> PyTreeDef:
        return structure_from_json(function_name, where, x, classes)

    def children(key: str) -> list[PyTreeDef]:
        entry = data.get(key)
        if not isinstance(entry, list):
            raise damaged
        return [child(x) for x in entry]

    for kind in (list, tuple):
        if kind.__name__ in data:
            return _make_node_structure(kind, None, children(kind.__name__))
    for word, cls in (("dict", dict), ("ordered", OrderedDict)):
        pairs = data.get(word)
        if isinstance(pairs, list):
            keys, parts = (
                zip(*[_pair_from_json(x, damaged) for x in pairs], strict=True) if pairs else ((), ())
            )
            return _make_node_structure(cls, list(keys) if cls is dict else keys, [child(x) for x in parts])
    if "node" in data:
        return _registered_from_json(function_name, where, data, children("children"), damaged)
    name, fields, static = data.get("class"), data.get("fields"), data.get("static", {})
    if not isinstance(name, str) or not isinstance(static, dict):
        raise damaged
    known = _known_class(function_name, where, name, classes)
    field_names = _field_names(known)
    if field_names != (fields, list(static)):
        shown = "no fields that are known" if field_names is None else field_names[0] + field_names[1]
        raise TreeError(
            f"{function_name}: {where}: {name} was saved with the fields {[*cast('list[JSON]', fields), *static]}, and has "
            f"{shown} here"
        )
    rest = tuple([_static_from_json(x, damaged) for x in static.values()])
    return _make_node_structure(known, None if issubclass(known, tuple) else rest, children("children"))


def _pair_from_json(x: JSON, damaged: Exception) -> tuple[str | int, JSON]:
    match x:
        case [str() | int() as key, value]:
            return key, value
    raise damaged


def _make_node_structure(cls: type[object], static: object, children: list[PyTreeDef]) -> PyTreeDef:
    return PyTreeDef.from_node_data_and_children(users, (cls, static), children)


def _registered_from_json(
    function_name: str, where: str, data: dict[str, JSON], children: list[PyTreeDef], damaged: Exception
) -> PyTreeDef:
    name, rest = data["node"], data.get("data")
    if not isinstance(name, str) or not isinstance(rest, str):
        raise damaged
    try:
        form = form_named(name)
    except TreeError:
        raise TreeError(
            f"{function_name}: {where}: there are nodes of {name!r}, which nothing here reads; register the class "
            "under that name "
            f"(effx.export.register_pytree_node_serialization)"
        ) from None
    parts = [c.unflatten([0] * c.num_leaves) for c in children]
    return flatten(form.build(form.load(base64.b64decode(rest)), parts))[1]


def _known_class(function_name: str, where: str, name: str, classes: Classes) -> type[object]:
    if name in classes:
        return classes[name]
    module, _, path = name.partition(":")
    result: object = sys.modules.get(module)
    for part in path.split("."):
        result = getattr(result, part, None)
    # A name that leads elsewhere is refused too: a re-export, or what is no node.
    if not isinstance(result, type) or _class_name(result) != name:
        raise TreeError(
            f"{function_name}: {where}: there are nodes of {name}, which this process has not loaded; import its "
            "module, or give a "
            f"tree of shardings that has such nodes"
        )
    register_classes([result])
    if not users.is_node(result) and _field_names(result) is None:
        raise TreeError(
            f"{function_name}: {where}: {name} is no node of trees here; register it, as where it was saved"
        )
    return result


def _static_from_json(x: JSON, damaged: Exception) -> object:
    match x:
        case {"tuple": list() as parts}:
            return tuple([_static_from_json(y, damaged) for y in parts])
        case {"dtype": str() as name}:
            try:
                return np.dtype(name)
            except TypeError:
                raise damaged from None
        case None | bool() | int() | float() | str():
            return x
    raise damaged


def node_classes(tree: PyTree) -> Classes:
    """Returns by name the classes of nodes that a tree has."""
    entries: dict[str, type[object]] = {}

    def walk(structure: PyTreeDef) -> None:
        data = structure.node_data()
        if data is not None:
            entries[_class_name(data[0])] = data[0]
            for child in structure.children():
                walk(child)

    walk(flatten(tree)[1])
    return entries
