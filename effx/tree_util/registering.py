"""Register node types, with the functions of `jax.tree_util`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar, cast

from effx.errors import TreeError
from effx.tree import PyTree, register_fields, register_node

__all__ = [
    "register_dataclass", "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys",
    "register_pytree_with_keys_class", "register_static",
]  # fmt: skip

T = TypeVar("T")
C = TypeVar("C", bound=type[object])


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[PyTree], Hashable]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[object, PyTree]], Hashable]] | None = None,
) -> None:
    """Make a class a node type.

    Args:
        nodetype: the class; subclasses are not affected.
        flatten_func: returns the children, and static data that is compared with `==`.
        unflatten_func: takes the static data and the children, and rebuilds the node.
        flatten_with_keys_func: like `flatten_func` with a key for each child.

    Raises:
        TreeError: `nodetype` is a node type already.

    >>> from effx.tree import leaves
    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, children: Pair(*children))
    >>> leaves(Pair(1, [2]))
    [1, 2]
    """
    register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: C) -> C:
    """Class decorator for a node type with methods `tree_flatten` and `tree_unflatten` (a classmethod).

    >>> from effx.tree import leaves
    >>> @register_pytree_node_class
    ... class Box:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten(self):
    ...         return (self.x,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, static, children):
    ...         return cls(*children)
    >>> leaves(Box({"a": 1}))
    [1]
    """
    node = cast("Any", cls)
    register_node(node, node.tree_flatten, node.tree_unflatten, who="register_pytree_node_class")
    return cls


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[object, PyTree]], Hashable]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[PyTree], Hashable]] | None = None,
) -> None:
    """Make a class a node type whose children have keys.

    Args:
        nodetype: the class; subclasses are not affected.
        flatten_with_keys: returns pairs of key and child, and static data.
        unflatten_func: takes the static data and the children, and rebuilds the node.
        flatten_func: a faster `flatten_with_keys` without keys.

    Raises:
        TreeError: `nodetype` is a node type already.

    >>> from effx.tree import GetAttrKey, keystr, leaves_with_path
    >>> class Sum:
    ...     def __init__(self, terms):
    ...         self.terms = terms
    >>> def apart(s):
    ...     return [(GetAttrKey("terms"), s.terms)], None
    >>> register_pytree_with_keys(Sum, apart, lambda _, children: Sum(*children))
    >>> keystr(leaves_with_path(Sum([1]))[0][0])
    '.terms[0]'
    """

    def without_keys(node: T) -> tuple[Iterable[PyTree], Hashable]:
        pairs, static = flatten_with_keys(node)
        return [child for _, child in pairs], static

    register_node(
        nodetype,
        flatten_func or without_keys,
        unflatten_func,
        flatten_with_keys,
        who="register_pytree_with_keys",
    )


def register_pytree_with_keys_class(cls: C) -> C:
    """Class decorator for a node type with `tree_flatten_with_keys` and `tree_unflatten` (a classmethod).

    A method `tree_flatten` is used where no keys are needed, if there is one.

    >>> from effx.tree import GetAttrKey, keystr, leaves_with_path
    >>> @register_pytree_with_keys_class
    ... class Tagged:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten_with_keys(self):
    ...         return ((GetAttrKey("x"), self.x),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, static, children):
    ...         return cls(*children)
    >>> keystr(leaves_with_path(Tagged(1))[0][0])
    '.x'
    """
    node = cast("Any", cls)
    plain = getattr(node, "tree_flatten", None)
    register_pytree_with_keys(node, node.tree_flatten_with_keys, node.tree_unflatten, plain)
    return cls


def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Make a class a node type that is rebuilt by calling it with its fields as keywords.

    Without this a dataclass is a leaf, unless a handler's class declares it as its payload or state.

    Args:
        nodetype: a dataclass, or any class that takes its fields as keywords.
        data_fields: names of the children; for a dataclass None means the fields without `static=True`
            in their metadata.
        meta_fields: names of the fields that are structure.
        drop_fields: names of fields that `__init__` fills in by default.

    Raises:
        TreeError: `nodetype` is a node type already, the names are not those of its fields, or `__init__` does not take
            one of them.

    >>> import effx
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Scaled:
    ...     x: float
    ...     unit: str = dataclasses.field(default="m", metadata={"static": True})
    >>> effx.tree.map(lambda x: x + 1, Scaled(1.0))
    Scaled(x=2.0, unit='m')
    """
    name = nodetype.__qualname__
    if (data_fields is None) != (meta_fields is None):
        raise TreeError("register_dataclass: got one of data_fields and meta_fields, expected both or none")
    if dataclasses.is_dataclass(nodetype):
        fields = {f.name: f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields}
        lost = [f.name for f in dataclasses.fields(nodetype) if not f.init and f.name not in drop_fields]
        if lost and data_fields is None:
            raise TreeError(
                f"register_dataclass: {name}: __init__ does not take {', '.join(lost)}, which would be lost when an "
                f"object is rebuilt; name what __init__ fills in drop_fields"
            )
        if data_fields is None or meta_fields is None:
            data_fields = [n for n, f in fields.items() if not f.metadata.get("static", False)]
            meta_fields = [n for n, f in fields.items() if f.metadata.get("static", False)]
        named = [*data_fields, *meta_fields]
        if sorted(named) != sorted(fields):
            raise TreeError(f"register_dataclass: {name}: got the fields {named}, expected {list(fields)}")
    if data_fields is None or meta_fields is None:
        raise TreeError(f"register_dataclass: {name} is no dataclass, expected data_fields and meta_fields")
    register_fields(nodetype, data_fields, meta_fields)
    return nodetype


def register_static(cls: C) -> C:
    """Class decorator for a node type without children: its objects are structure, compared with `==`.

    >>> from effx.tree import leaves
    >>> @register_static
    ... class Mode(str): ...
    >>> leaves([Mode("train"), 1])
    [1]
    """
    node = cast("Any", cls)
    register_node(
        node,
        lambda value: ((), value),
        lambda value, _: value,
        lambda value: ((), value),
        who="register_static",
    )
    return cls
