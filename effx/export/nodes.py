"""Register the serialization of users' pytree nodes in artifacts.

Never: define the children of a node; the registry of pytrees does.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import attrs

from effx.errors import TreeError

__all__ = [
    "NodeForm",
    "form_named",
    "form_of",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
]

C = TypeVar("C", bound=type[Any])


@final
@attrs.frozen(eq=False)
class NodeForm:
    """How nodes of one class are written.

    Attributes:
        cls: the class.
        name: in artifacts.
        dump: writes a node's auxiliary data.
        load: reads them.
        build: makes a node of it and the children.
    """

    cls: type[Any]
    name: str
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]
    build: Callable[[Any, Sequence[Any]], Any]


_by_class: dict[type[Any], NodeForm] = {}
_by_name: dict[str, NodeForm] = {}


def register_pytree_node_serialization(
    nodetype: C,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> C:
    """Says how nodes of a class, which is registered as a pytree node, are written into artifacts and read from them.

    Args:
        nodetype: the class.
        serialized_name: its name in artifacts, for other processes.
        serialize_auxdata: writes a node's auxiliary data.
        deserialize_auxdata: reads them.
        from_children: makes a node of what was read and the children; by default as `tree_unflatten` does.

    Returns:
        The class.

    Raises:
        TreeError: the class or the name is registered already.

    >>> import effx, effx.numpy as enp
    >>> from effx import export
    >>> @effx.tree_util.register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, x, y): self.x, self.y = x, y
    ...     def tree_flatten(self): return (self.x, self.y), None
    ...     @classmethod
    ...     def tree_unflatten(cls, auxdata, children): return cls(*children)
    >>> _ = export.register_pytree_node_serialization(
    ...     Pair, serialized_name="example.Pair",
    ...     serialize_auxdata=lambda auxdata: b"", deserialize_auxdata=lambda data: None)
    >>> exported = export.export(effx.jit(lambda pair: Pair(pair.y, pair.x)))(Pair(1.0, 2.0))
    >>> print(export.deserialize(exported.serialize()).call(Pair(3.0, 4.0)).x)
    4.0
    """
    if nodetype in _by_class:
        raise TreeError(
            f"register_pytree_node_serialization: {nodetype.__name__} is registered already, as "
            f"{_by_class[nodetype].name!r}"
        )
    if serialized_name in _by_name:
        raise TreeError(
            f"register_pytree_node_serialization: the name {serialized_name!r} stands already for "
            f"{_by_name[serialized_name].cls.__name__}"
        )
    build = from_children or getattr(nodetype, "tree_unflatten", None)
    if build is None:
        raise TreeError(
            f"register_pytree_node_serialization: {nodetype.__name__} has no tree_unflatten; give from_children"
        )
    form = NodeForm(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, build)
    _by_class[nodetype] = _by_name[serialized_name] = form
    return nodetype


def register_namedtuple_serialization(nodetype: C, *, serialized_name: str) -> C:
    """Says how named tuples of a class are written into artifacts: their fields' names are compared when they are read.

    Args:
        nodetype: the class.
        serialized_name: its name in artifacts.

    Returns:
        The class.

    Raises:
        TreeError: the class is no named tuple, or the class or the name is registered already.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: float
    ...     y: float
    >>> register_namedtuple_serialization(Point, serialized_name="doctest.Point").__name__
    'Point'
    """
    fields = getattr(nodetype, "_fields", None)
    if not issubclass(nodetype, tuple) or fields is None:
        raise TreeError(f"register_namedtuple_serialization: {nodetype.__name__} is no named tuple")
    text = json.dumps(list(fields)).encode()

    def load(data: bytes) -> None:
        if data != text:
            raise TreeError(
                f"deserialize: {serialized_name!r} was written with the fields {data.decode()}, and has {text.decode()} here"
            )

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: text,
        deserialize_auxdata=load,
        from_children=lambda _, children: nodetype(*children),
    )


def form_of(cls: type[Any]) -> NodeForm:
    """Returns how nodes of a class are written.

    Raises:
        TreeError: it is not registered.
    """
    form = _by_class.get(cls)
    if form is None:
        kind = (
            "register_namedtuple_serialization"
            if hasattr(cls, "_fields")
            else "register_pytree_node_serialization"
        )
        raise TreeError(
            f"serialize: the structure has nodes of {cls.__name__}, and nothing says how to write them; "
            f"call effx.export.{kind}"
        )
    return form


def form_named(name: str) -> NodeForm:
    """Returns how nodes are read that have a name in an artifact.

    Raises:
        TreeError: it is not registered.
    """
    form = _by_name.get(name)
    if form is None:
        raise TreeError(
            f"deserialize: the artifact has nodes of {name!r}, which nothing here reads; "
            f"register the class under that name (effx.export.register_pytree_node_serialization)"
        )
    return form
