"""Flatten one level of a tree: test for nodes, and list a node's children."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from effx.errors import TreeError
from effx.tree.registry import GetAttrKey, PyTree, is_record, named_tuples, register_leaf_classes, users

C = TypeVar("C")

__all__ = ["flatten_one_level", "flatten_one_level_with_keys", "is_tree_node"]


def is_tree_node(typ: type[object]) -> bool:
    """Whether objects of a type are nodes: containers, registered types and attrs classes.

    >>> is_tree_node(dict), is_tree_node(int)
    (True, False)
    """
    plain = issubclass(typ, tuple) and hasattr(typ, "_fields")
    return plain or users.is_node(typ) or is_record(typ)


def _flatten_node(
    function_name: str, apart: Callable[[PyTree], tuple[Iterable[C], Hashable] | None], tree: PyTree
) -> tuple[Iterable[C], Hashable]:
    register_leaf_classes([tree])  # attrs classes are registered on first use
    if is_tree_node(type(tree)) and (result := apart(tree)) is not None:
        return result
    raise TreeError(f"{function_name}: expected a node, got a leaf of type {type(tree).__name__}")


def flatten_one_level(tree: PyTree) -> tuple[Iterable[PyTree], Hashable]:
    """Flattens one node.

    Args:
        tree: a node.

    Returns:
        Its children, and its static data.

    Raises:
        TreeError: `tree` is a leaf.

    >>> children, data = flatten_one_level({"a": [1, 2], "b": 3})
    >>> list(children), data
    ([[1, 2], 3], ('a', 'b'))
    """
    return _flatten_node("flatten_one_level", users.flatten_one_level, tree)


def flatten_one_level_with_keys(tree: PyTree) -> tuple[Iterable[tuple[object, PyTree]], Hashable]:
    """Flattens one node, with a key for each child.

    Args:
        tree: a node.

    Raises:
        TreeError: `tree` is a leaf.

    >>> children, data = flatten_one_level_with_keys((5, [6]))
    >>> list(children)
    [(SequenceKey(idx=0), 5), (SequenceKey(idx=1), [6])]
    """
    if isinstance(tree, tuple) and hasattr(tree, "_fields") and type(tree) not in named_tuples:
        # jaxlib 0.10 names all fields by the first.
        return [(GetAttrKey(name), x) for name, x in zip(tree._fields, tree, strict=True)], type(tree)
    return _flatten_node("flatten_one_level_with_keys", users.flatten_one_level_with_keys, tree)
