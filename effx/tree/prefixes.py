"""Trees as prefixes of other trees: flatten up to a prefix, broadcast one, and explain mismatches."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from effx.errors import TreeError
from effx.tree.registry import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeaf,
    KeyPath,
    PyTree,
    PyTreeDef,
    SequenceKey,
    flatten,
    named_tuples,
    users,
)

_MISSING: Final = object()
_NAMES: Final = ("the prefix", "the full tree")


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A key path as text.

    Args:
        keys: the path.
        simple: True for bare names and indices, instead of Python's access syntax.
        separator: the text between keys.

    >>> keystr((DictKey("a"), SequenceKey(1), GetAttrKey("x")))
    "['a'][1].x"
    >>> keystr((DictKey("a"), SequenceKey(1)), simple=True, separator="/")
    'a/1'
    """
    return separator.join([_key_text(key) if simple else str(key) for key in keys])


def _key_text(key: object) -> str:
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, GetAttrKey):
        return key.name
    return str(key.key) if isinstance(key, (DictKey, FlattenedIndexKey)) else str(key)


def flatten_up_to(treedef: PyTreeDef, tree: PyTree) -> list[PyTree]:
    """The subtrees of a tree at the leaves of a structure.

    Raises:
        TreeError: the structure is no prefix of the tree.

    >>> flatten_up_to(flatten((0, 0))[1], (1, [2, 3]))
    [1, [2, 3]]
    """
    return flatten_prefix(treedef, tree, _MISSING, None, "tree.flatten_up_to", ("the structure", "the tree"))


def flatten_prefix(
    treedef: PyTreeDef,
    tree: PyTree,
    prefix: PyTree,
    is_leaf: IsLeaf | None,
    who: str,
    names: tuple[str, str],
) -> list[PyTree]:
    """`flatten_up_to` for a function `who`, which has the tree of `treedef`."""
    try:
        return treedef.flatten_up_to(tree)
    except (ValueError, TypeError) as error:
        messages: list[str] = []
        # A user's unflatten function may refuse the placeholders; then jaxlib's message is used.
        with suppress(Exception):
            if prefix is _MISSING:
                prefix = treedef.unflatten([0] * treedef.num_leaves)
            messages = prefix_errors(prefix, tree, is_leaf, *names)
        raise TreeError(f"{who}: {'; '.join(messages) or error}") from None


def broadcast_prefix(prefix: PyTree, full: PyTree, is_leaf: IsLeaf | None = None) -> list[PyTree]:
    """The leaf of `prefix` for each leaf of `full`.

    Raises:
        TreeError: `prefix` is no prefix of `full`.

    >>> broadcast_prefix((0, 1), ([5, 6], 7))
    [0, 0, 1]
    """
    prefix_leaves, treedef = flatten(prefix, is_leaf)
    result: list[PyTree] = []
    subtrees = flatten_prefix(treedef, full, prefix, is_leaf, "tree.broadcast_prefix", _NAMES)
    for leaf, subtree in zip(prefix_leaves, subtrees, strict=True):
        result.extend([leaf] * flatten(subtree)[1].num_leaves)
    return result


def prefix_errors(
    prefix: PyTree,
    full: PyTree,
    is_leaf: IsLeaf | None = None,
    prefix_name: str = "the prefix",
    full_name: str = "the full tree",
) -> list[str]:
    """Explain where and why `prefix` is no prefix of `full`; empty if it is one.

    Args:
        prefix: the tree that should be the prefix.
        full: the tree that it should be a prefix of.
        is_leaf: as in `flatten`, for `prefix`.
        prefix_name: what the messages call `prefix`.
        full_name: what the messages call `full`.

    >>> prefix_errors({"a": [1, 2]}, {"a": [1, 2, 3]}, prefix_name="in_axes", full_name="the argument")
    ["at ['a'] in_axes is a list of length 2, the argument a list of length 3"]
    """
    flatten(prefix, is_leaf)
    flatten(full)
    return [
        f"at {keystr(path)} {text}" if path else text
        for path, text in find_mismatches(prefix, full, is_leaf, prefix_name, full_name)
    ]


def find_mismatches(
    prefix: PyTree,
    full: PyTree,
    is_leaf: IsLeaf | None,
    a_name: str,
    b_name: str,
    path: KeyPath = (),
) -> Iterable[tuple[KeyPath, str]]:
    """Yields where two trees differ, and how, as `prefix_errors` says it."""
    if is_leaf is not None and is_leaf(prefix):
        return
    a = users.flatten_one_level_with_keys(prefix)
    if a is None:
        return
    b = users.flatten_one_level_with_keys(full)
    if b is None or type(prefix) is not type(full):
        yield path, f"{a_name} is {_describe_node(prefix)}, {b_name} {_describe_node(full)}"
        return
    a_children, b_children = list(a[0]), list(b[0])
    if isinstance(prefix, tuple) and hasattr(prefix, "_fields") and type(prefix) not in named_tuples:
        # jaxlib 0.10 gives every child of a named tuple the first one's key.
        a_children = [(GetAttrKey(name), x) for name, x in zip(prefix._fields, prefix, strict=True)]
    if isinstance(prefix, dict) and prefix.keys() != full.keys():
        missing = [key for key in full if key not in prefix]
        extra = [key for key in prefix if key not in full]
        parts = [f"lacks the keys {missing}"] * bool(missing) + [f"has the keys {extra} too many"] * bool(
            extra
        )
        yield path, f"{a_name} {' and '.join(parts)}, {b_name} has {list(full)}"
    elif len(a_children) != len(b_children):
        a_text, b_text = [
            f"{_describe_node(tree)} of length {len(children)}"
            for tree, children in ((prefix, a_children), (full, b_children))
        ]
        yield path, f"{a_name} is {a_text}, {b_name} {b_text}"
    elif a[1] != b[1]:
        yield path, f"{a_name} is {_describe_node(prefix)} with static data {a[1]}, {b_name} has {b[1]}"
    else:
        for (key, x), (_, y) in zip(a_children, b_children, strict=True):
            yield from find_mismatches(x, y, is_leaf, a_name, b_name, (*path, key))


def _describe_node(tree: PyTree) -> str:
    name = type(tree).__name__
    if tree is None:
        return "None"
    if users.flatten_one_level(tree) is None:
        return f"a leaf of type {name}"
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
