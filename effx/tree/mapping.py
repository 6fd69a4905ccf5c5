"""Operations on trees: flatten, unflatten, map over and reduce their leaves."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, cast, overload

from effx.effects import Value
from effx.errors import TreeError
from effx.tree.prefixes import broadcast_prefix, flatten_prefix, flatten_up_to
from effx.tree.registry import (
    IsLeaf,
    KeyPath,
    PyTree,
    PyTreeDef,
    check_nesting_depth,
    flatten,
    register_and_repeat,
    tuple_structure,
    users,
)

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance

__all__ = [
    "all", "all_leaves", "broadcast", "flatten_with_path", "leaves", "leaves_with_path", "map",
    "map_with_path", "reduce", "reduce_associative", "structure", "transpose", "treedef_children",
    "treedef_is_leaf", "treedef_tuple", "unflatten",
]  # fmt: skip

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
K = TypeVar("K")
# Leaves are usually arrays, which are above this layer.
L = TypeVar("L", bound="Value | complex | np.ndarray[Any, Any] | np.generic")
L2 = TypeVar("L2", bound="Value | complex | np.ndarray[Any, Any] | np.generic")
L3 = TypeVar("L3", bound="Value | complex | np.ndarray[Any, Any] | np.generic")
K2 = TypeVar("K2")
D = TypeVar("D", bound="DataclassInstance | AttrsRecord | NamedFields")


class AttrsRecord(Protocol):
    """An attrs class. attrs' own `AttrsInstance` is one to mypy alone: to other checkers everything is an instance."""

    __attrs_attrs__: ClassVar[PyTree]


class NamedFields(Protocol):
    """A named tuple."""

    @property
    def _fields(self) -> tuple[str, ...]: ...


class WithDefault(Protocol[R_co]):
    """A function of a leaf, with another argument by default, as in `lambda x, i=i: x[i]`."""

    def __call__(self, x: PyTree, y: PyTree = ..., /) -> R_co: ...


def unflatten(treedef: PyTreeDef, leaves: Iterable[PyTree]) -> PyTree:
    """Build a tree from its structure and leaves: the inverse of `flatten`.

    >>> unflatten(structure((0, [0])), [1, 2])
    (1, [2])
    """
    try:
        return treedef.unflatten(leaves)
    except ValueError as error:
        # An error of a node's own unflatten function passes unchanged.
        leaf_list = list(leaves) if isinstance(leaves, Sequence) else None
        if leaf_list is None or len(leaf_list) == treedef.num_leaves:
            raise
        raise TreeError(
            f"tree.unflatten: got {len(leaf_list)} leaves, expected {treedef.num_leaves} for {treedef}"
        ) from error


def leaves(tree: PyTree, is_leaf: IsLeaf | None = None) -> list[PyTree]:
    """The leaves of a tree, in order.

    >>> leaves({"b": 2, "a": (1, None)})
    [1, 2]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: PyTree, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a tree.

    >>> structure([1, (2, None)])
    PyTreeDef([*, (*, None)])
    """
    return flatten(tree, is_leaf)[1]


@overload
def map(f: Callable[[PyTree], L], tree: D, *, is_leaf: None = None) -> D: ...
@overload
def map(f: Callable[[PyTree], R], tree: L, *, is_leaf: None = None) -> R: ...
@overload
def map(f: Callable[[PyTree], R], tree: NamedFields, *, is_leaf: None = None) -> PyTree: ...
@overload
def map(f: Callable[[PyTree], R], tree: tuple[L], *, is_leaf: None = None) -> tuple[R]: ...
@overload
def map(f: Callable[[PyTree], R], tree: tuple[L, L2], *, is_leaf: None = None) -> tuple[R, R]: ...
@overload
def map(f: Callable[[PyTree], R], tree: tuple[L, L2, L3], *, is_leaf: None = None) -> tuple[R, R, R]: ...
@overload
def map(f: Callable[[PyTree], R], tree: tuple[L, ...], *, is_leaf: None = None) -> tuple[R, ...]: ...
@overload
def map(f: Callable[[PyTree], R], tree: list[L], *, is_leaf: None = None) -> list[R]: ...
@overload
def map(f: Callable[[PyTree], R], tree: dict[K, L], *, is_leaf: None = None) -> dict[K, R]: ...
@overload
def map(
    f: Callable[[PyTree], R], tree: dict[K, dict[K2, L]], *, is_leaf: None = None
) -> dict[K, dict[K2, R]]: ...
@overload
def map(f: Callable[[PyTree], R], tree: list[dict[K, L]], *, is_leaf: None = None) -> list[dict[K, R]]: ...
@overload
def map(f: Callable[[PyTree], R], tree: PyTree, *, is_leaf: IsLeaf | None = None) -> PyTree: ...
@overload
def map(f: Callable[[PyTree, PyTree], L], tree: D, other: PyTree, /, *, is_leaf: None = None) -> D: ...
@overload
def map(f: Callable[[PyTree, PyTree], R], tree: L, other: PyTree, /, *, is_leaf: None = None) -> R: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: NamedFields, other: PyTree, /, *, is_leaf: None = None
) -> PyTree: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: tuple[L], other: PyTree, /, *, is_leaf: None = None
) -> tuple[R]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: tuple[L, L2], other: PyTree, /, *, is_leaf: None = None
) -> tuple[R, R]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: tuple[L, L2, L3], other: PyTree, /, *, is_leaf: None = None
) -> tuple[R, R, R]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: tuple[L, ...], other: PyTree, /, *, is_leaf: None = None
) -> tuple[R, ...]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: list[L], other: PyTree, /, *, is_leaf: None = None
) -> list[R]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: dict[K, L], other: PyTree, /, *, is_leaf: None = None
) -> dict[K, R]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: dict[K, dict[K2, L]], other: PyTree, /, *, is_leaf: None = None
) -> dict[K, dict[K2, R]]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: list[dict[K, L]], other: PyTree, /, *, is_leaf: None = None
) -> list[dict[K, R]]: ...
@overload
def map(
    f: Callable[[PyTree, PyTree], R], tree: PyTree, other: PyTree, /, *, is_leaf: IsLeaf | None = None
) -> PyTree: ...
@overload
def map(
    f: Callable[..., L], tree: D, other: PyTree, another: PyTree, /, *rest: PyTree, is_leaf: None = None
) -> D: ...
@overload
def map(
    f: Callable[..., R], tree: L, other: PyTree, another: PyTree, /, *rest: PyTree, is_leaf: None = None
) -> R: ...
@overload
def map(
    f: Callable[..., R],
    tree: tuple[L],
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: None = None,
) -> tuple[R]: ...
@overload
def map(
    f: Callable[..., R],
    tree: tuple[L, L2],
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: None = None,
) -> tuple[R, R]: ...
@overload
def map(
    f: Callable[..., R],
    tree: tuple[L, L2, L3],
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: None = None,
) -> tuple[R, R, R]: ...
@overload
def map(
    f: Callable[..., R],
    tree: tuple[L, ...],
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: None = None,
) -> tuple[R, ...]: ...
@overload
def map(
    f: Callable[..., R], tree: list[L], other: PyTree, another: PyTree, /, *rest: PyTree, is_leaf: None = None
) -> list[R]: ...
@overload
def map(
    f: Callable[..., R],
    tree: dict[K, L],
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: None = None,
) -> dict[K, R]: ...
@overload
def map(
    f: Callable[..., R],
    tree: dict[K, dict[K2, L]],
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: None = None,
) -> dict[K, dict[K2, R]]: ...
@overload
def map(
    f: Callable[..., R],
    tree: list[dict[K, L]],
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: None = None,
) -> list[dict[K, R]]: ...
@overload
def map(
    f: Callable[..., R],
    tree: PyTree,
    other: PyTree,
    another: PyTree,
    /,
    *rest: PyTree,
    is_leaf: IsLeaf | None = None,
) -> PyTree: ...
@overload  # mypy compares the parameters of a lambda with those of an overload, defaults too
def map(  # type: ignore[overload-cannot-match]
    f: WithDefault[R], tree: PyTree, *, is_leaf: IsLeaf | None = None
) -> PyTree: ...
def map(f: Callable[..., R], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf | None = None) -> PyTree:
    """Apply a function to the leaves of one or more trees.

    Args:
        f: takes a leaf of `tree`, and the corresponding part of each of `rest`.
        tree: its structure is the result's.
        rest: trees of which `tree` is a prefix.
        is_leaf: where it is true of a subtree of `tree`, the subtree is a leaf.

    Raises:
        TreeError: `tree` is no prefix of one of `rest`.

    >>> map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    tree_leaves, treedef = flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten(builtins.map(f, tree_leaves))
    others = [
        flatten_prefix(treedef, other, tree, is_leaf, "tree.map", ("tree 1", f"tree {i}"))
        for i, other in enumerate(rest, 2)
    ]
    return treedef.unflatten(builtins.map(f, tree_leaves, *others))


def transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: PyTree
) -> PyTree:
    """Turn a tree of trees inside out.

    Args:
        outer_treedef: the structure at the root of the tree.
        inner_treedef: the structure at each leaf of `outer_treedef`; None takes that of the first.
        pytree_to_transpose: the tree.

    Raises:
        TreeError: the structure of the tree is not the inner one inside the outer one.

    >>> transpose(structure([0, 0]), structure({"a": 0}), [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    outer, inner, tree = outer_treedef, inner_treedef, pytree_to_transpose
    flat_leaves, treedef = flatten(tree)
    if inner is None:
        if outer.num_leaves == 0:
            raise TreeError(f"tree.transpose: inner structure needed, as {outer} has no leaves")
        inner = structure(flatten_up_to(outer, tree)[0])
    expected = outer.compose(inner)
    # The structure of a node that holds another among its own data is not that of its children put together.
    if treedef != expected and not (_holds_structure(outer) and treedef.num_leaves == expected.num_leaves):
        raise TreeError(f"tree.transpose: got {treedef}, expected {expected}")
    count = inner.num_leaves
    return inner.unflatten([outer.unflatten(flat_leaves[i::count]) for i in range(count)])


def _holds_structure(treedef: PyTreeDef) -> bool:
    """Says whether a node of a structure has a structure among its data, as a cache of flat trees has."""
    node = treedef.node_data()
    if node is None:
        return False
    data = node[1] if isinstance(node[1], tuple | list) else (node[1],)
    return any([isinstance(x, PyTreeDef) for x in data]) or any(
        [_holds_structure(child) for child in treedef.children()]
    )


_MISSING: Final = object()


def reduce(
    function: Callable[[T, Any], T],
    tree: PyTree,
    initializer: T | object = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> T:
    """Fold the leaves from left to right.

    >>> reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, 0)
    6
    """
    tree_leaves = leaves(tree, is_leaf)
    if initializer is _MISSING:
        if not tree_leaves:
            raise TreeError("tree.reduce: got a tree without leaves and no initializer")
        return cast("T", functools.reduce(function, tree_leaves))
    return functools.reduce(function, tree_leaves, cast("T", initializer))


def reduce_associative(
    operation: Callable[[T, T], T],
    tree: PyTree,
    *,
    identity: T | object = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> T:
    """Combine the leaves in pairs, so that n leaves take log2 n levels.

    >>> reduce_associative(lambda x, y: f"({x}{y})", list("abcd"))
    '((ab)(cd))'
    """
    values = cast("list[T]", leaves(tree, is_leaf))
    if not values:
        if identity is _MISSING:
            raise TreeError("tree.reduce_associative: got a tree without leaves and no identity")
        return cast("T", identity)
    while len(values) > 1:
        pairs = [operation(x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def all(tree: PyTree, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether every leaf is true.

    >>> all({"a": True, "b": [1, 0]})
    False
    """
    return builtins.all(leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[PyTree], is_leaf: IsLeaf | None = None) -> bool:
    """Whether each value is a leaf.

    >>> all_leaves([1, "a"]), all_leaves([1, None])
    (True, False)
    """
    items = list(iterable)
    own_leaves = leaves(items, is_leaf)
    return len(own_leaves) == len(items) and builtins.all(
        x is y for x, y in zip(own_leaves, items, strict=True)
    )


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is that of a single leaf; that of None is not.

    >>> treedef_is_leaf(structure(1)), treedef_is_leaf(structure(None))
    (True, False)
    """
    return treedef.node_data() is None


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of a root's children.

    >>> treedef_children(structure([1, (2, 3)]))
    [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees with these structures.

    >>> treedef_tuple([structure(1), structure([2])])
    PyTreeDef((*, [*]))
    """
    return tuple_structure(treedefs)


def flatten_with_path(
    tree: PyTree, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, PyTree]], PyTreeDef]:
    """Like `flatten`, with the key path of each leaf.

    Args:
        tree: any value.
        is_leaf: called with each subtree, or with its path and itself.
        is_leaf_takes_path: whether `is_leaf` takes the path too.

    >>> flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    predicate = is_leaf
    if is_leaf is not None and not is_leaf_takes_path:
        plain = is_leaf

        def predicate(_path: KeyPath, subtree: PyTree) -> bool:
            return plain(subtree)

    check_nesting_depth(tree, None if is_leaf_takes_path else is_leaf)
    return register_and_repeat(
        lambda: users.flatten_with_path(tree, predicate),
        users.flatten_with_path(tree, predicate),
        lambda flat: [leaf for _, leaf in flat[0]],
    )


def leaves_with_path(
    tree: PyTree, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, PyTree]]:
    """The key paths and leaves of a tree, in order.

    >>> leaves_with_path((5,))
    [((SequenceKey(idx=0),), 5)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable[..., R],
    tree: PyTree,
    *rest: PyTree,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> PyTree:
    """Like `map`, with the key path as the function's first argument.

    >>> from effx.tree import keystr
    >>> map_with_path(lambda path, x: f"{keystr(path)}={x}", {"a": [1]})
    {'a': ["['a'][0]=1"]}
    """
    paths_and_leaves, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [
        flatten_prefix(
            treedef,
            other,
            tree,
            is_leaf if not is_leaf_takes_path else None,
            "tree.map_with_path",
            ("tree 1", f"tree {i}"),
        )
        for i, other in enumerate(rest, 2)
    ]
    paths = [path for path, _ in paths_and_leaves]
    return treedef.unflatten(builtins.map(f, paths, [leaf for _, leaf in paths_and_leaves], *others))


def broadcast(prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf | None = None) -> PyTree:
    """A tree with the structure of `full_tree` and the leaves of `prefix_tree`.

    >>> broadcast((0, 1), ([5, 6], 7))
    ([0, 0], 1)
    """
    return structure(full_tree).unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))
