"""The structure of a tree as JSON, and back.

Reading runs no code that the file names: classes are those that the caller's own tree has, or that this process has loaded
already and that are nodes of trees.
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
    named,
    record_fields,
    settle_classes,
    users,
)

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Classes: TypeAlias = Mapping[str, type[object]]

_LEAF = "*"
_REGISTER = "effx.export.register_pytree_node_serialization says how"


def written(what: str, tree: PyTreeDef) -> JSON:
    """Returns a structure as JSON.

    Raises:
        TreeError: it has nodes or keys of which nobody has said how to write them.
    """
    data = tree.node_data()
    if data is None:
        return _LEAF
    cls, static = data
    children: list[JSON] = [written(what, child) for child in tree.children()]
    if cls is type(None):
        return None
    if cls is list or cls is tuple:
        return {cls.__name__: children}
    if cls is dict or cls is OrderedDict:
        for key in static:
            if type(key) is not str and type(key) is not int:
                raise TreeError(
                    f"{what}: the keys of dicts must be strings or ints, got {key!r} of type {type(key).__name__}"
                )
        pairs: list[JSON] = [[key, child] for key, child in zip(static, children, strict=True)]
        return {"dict" if cls is dict else "ordered": pairs}
    try:
        form = form_of(cls)
    except TreeError:
        return {**_class(what, cls, static), "children": children}
    data64 = base64.b64encode(form.dump(static)).decode()
    return {"node": form.name, "data": data64, "children": children}


def _class(what: str, cls: type[object], static: object) -> dict[str, JSON]:
    fields = _fields(cls)
    if fields is None:
        raise TreeError(f"{what}: nodes of {_name(cls)} are not written by themselves; {_REGISTER}")
    data, meta = fields
    found: dict[str, JSON] = {"class": _name(cls), "fields": list(data)}
    if meta:
        given = cast("tuple[object, ...]", static)
        found["static"] = {n: _static(what, cls, n, x) for n, x in zip(meta, given, strict=True)}
    return found


def _fields(cls: type[object]) -> tuple[list[str], list[str]] | None:
    """Returns the names of the fields of a named tuple or a record: those that are children, and those that are static."""
    names: Iterable[str] | None = getattr(cls, "_fields", None)
    if issubclass(cls, tuple) and names is not None and cls not in named:
        return list(names), []
    return record_fields(cls)


def _name(cls: type[object]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _static(what: str, cls: type[object], field: str, x: object) -> JSON:
    if x is None or type(x) in (bool, int, float, str):
        return cast("JSON", x)
    if type(x) is tuple:
        return {"tuple": [_static(what, cls, field, y) for y in x]}
    if isinstance(x, np.dtype) and x.names is None:
        return {"dtype": x.name}
    raise TreeError(
        f"{what}: the static field {field!r} of {_name(cls)} is {x!r}; static fields are written of None, bools, numbers, "
        f"strings, dtypes and tuples of them; {_REGISTER} for others"
    )


# --- and back -------------------------------------------------------------------------------------


def read(what: str, where: str, data: JSON, classes: Classes) -> PyTreeDef:
    """Returns the structure that JSON says.

    Args:
        what, where: the function and the checkpoint, for errors.
        data: as `written` gave it.
        classes: by name those that the caller's tree has.

    Raises:
        CheckpointError: it is no structure.
        TreeError: a class is not known here, or has other fields.
    """
    if data is None or data == _LEAF:
        return flatten(None if data is None else 0)[1]
    damaged = CheckpointError(f"{what}: {where}: the structure is damaged")
    if not isinstance(data, dict):
        raise damaged

    def child(x: JSON) -> PyTreeDef:
        return read(what, where, x, classes)

    def children(key: str) -> list[PyTreeDef]:
        found = data.get(key)
        if not isinstance(found, list):
            raise damaged
        return [child(x) for x in found]

    for kind in (list, tuple):
        if kind.__name__ in data:
            return _node(kind, None, children(kind.__name__))
    for word, cls in (("dict", dict), ("ordered", OrderedDict)):
        pairs = data.get(word)
        if isinstance(pairs, list):
            keys, parts = zip(*[_pair(x, damaged) for x in pairs], strict=True) if pairs else ((), ())
            return _node(cls, list(keys) if cls is dict else keys, [child(x) for x in parts])
    if "node" in data:
        return _registered(what, where, data, children("children"), damaged)
    name, fields, static = data.get("class"), data.get("fields"), data.get("static", {})
    if not isinstance(name, str) or not isinstance(static, dict):
        raise damaged
    known = _known(what, where, name, classes)
    given = _fields(known)
    if given != (fields, list(static)):
        shown = "no fields that are known" if given is None else given[0] + given[1]
        raise TreeError(
            f"{what}: {where}: {name} was saved with the fields {[*cast('list[JSON]', fields), *static]}, and has "
            f"{shown} here"
        )
    rest = tuple([_static_back(x, damaged) for x in static.values()])
    return _node(known, None if issubclass(known, tuple) else rest, children("children"))


def _pair(x: JSON, damaged: Exception) -> tuple[str | int, JSON]:
    match x:
        case [str() | int() as key, value]:
            return key, value
    raise damaged


def _node(cls: type[object], static: object, children: list[PyTreeDef]) -> PyTreeDef:
    return PyTreeDef.from_node_data_and_children(users, (cls, static), children)


def _registered(
    what: str, where: str, data: dict[str, JSON], children: list[PyTreeDef], damaged: Exception
) -> PyTreeDef:
    name, rest = data["node"], data.get("data")
    if not isinstance(name, str) or not isinstance(rest, str):
        raise damaged
    try:
        form = form_named(name)
    except TreeError:
        raise TreeError(
            f"{what}: {where}: there are nodes of {name!r}, which nothing here reads; register the class under that name "
            f"(effx.export.register_pytree_node_serialization)"
        ) from None
    parts = [c.unflatten([0] * c.num_leaves) for c in children]
    return flatten(form.build(form.load(base64.b64decode(rest)), parts))[1]


def _known(what: str, where: str, name: str, classes: Classes) -> type[object]:
    if name in classes:
        return classes[name]
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    # A name that leads elsewhere is refused too: a re-export, or what is no node.
    if not isinstance(found, type) or _name(found) != name:
        raise TreeError(
            f"{what}: {where}: there are nodes of {name}, which this process has not loaded; import its module, or give a "
            f"tree of shardings that has such nodes"
        )
    settle_classes([found])
    if not users.is_node(found) and _fields(found) is None:
        raise TreeError(
            f"{what}: {where}: {name} is no node of trees here; register it, as where it was saved"
        )
    return found


def _static_back(x: JSON, damaged: Exception) -> object:
    match x:
        case {"tuple": list() as parts}:
            return tuple([_static_back(y, damaged) for y in parts])
        case {"dtype": str() as name}:
            try:
                return np.dtype(name)
            except TypeError:
                raise damaged from None
        case None | bool() | int() | float() | str():
            return x
    raise damaged


def classes_of(tree: PyTree) -> Classes:
    """Returns by name the classes of nodes that a tree has."""
    found: dict[str, type[object]] = {}

    def walk(structure: PyTreeDef) -> None:
        data = structure.node_data()
        if data is not None:
            found[_name(data[0])] = data[0]
            for child in structure.children():
                walk(child)

    walk(flatten(tree)[1])
    return found
