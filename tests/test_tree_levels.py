"""One level of trees: which types are nodes, and their children."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import attrs
import pytest

import effx
from effx import tree_util
from effx.errors import TreeError


class Pair(NamedTuple):
    """A named tuple."""

    a: Any
    b: Any


@attrs.frozen
class Record:
    """An attrs class, which is a node without being registered."""

    x: Any
    y: Any = 2


NODES: list[tuple[Any, list[Any], list[str]]] = [
    ({"b": (2, 3), "a": 1}, [1, (2, 3)], ["['a']", "['b']"]),
    ([1, [2]], [1, [2]], ["[0]", "[1]"]),
    ((), [], []),
    (None, [], []),
    (Pair(1, [2]), [1, [2]], [".a", ".b"]),
    (Record([1]), [[1], 2], [".x", ".y"]),
    (collections.OrderedDict(b=1, a=2), [1, 2], ["['b']", "['a']"]),
    (tree_util.Partial(max, 1), [(1,), {}], ["[<flat index 0>]", "[<flat index 1>]"]),
]


@pytest.mark.parametrize(("node", "children", "keys"), NODES, ids=[type(n[0]).__name__ for n in NODES])
def test_nodes(node: Any, children: list[Any], keys: list[str]) -> None:
    """Children, their keys, and data that are equal where nodes differ in children only."""
    found, data = tree_util.flatten_one_level(node)
    assert list(found) == children
    pairs, again = tree_util.flatten_one_level_with_keys(node)
    assert [x for _, x in pairs] == children
    assert [tree_util.keystr((key,)) for key, _ in pairs] == keys
    other = effx.tree.map(lambda x: x, node)
    assert tree_util.flatten_one_level(other)[1] == data == again
    hash(data)
    assert tree_util.is_tree_node(type(node))
    # What is taken apart level by level is what flatten gives.
    assert effx.tree.leaves(list(found)) == effx.tree.leaves(node)


@pytest.mark.parametrize("leaf", [1, "a", 2.0, effx.numpy.ones(2)], ids=["int", "str", "float", "array"])
def test_leaves(leaf: Any) -> None:
    """Leaves have no level."""
    assert not tree_util.is_tree_node(type(leaf))
    for function in (tree_util.flatten_one_level, tree_util.flatten_one_level_with_keys):
        with pytest.raises(TreeError) as caught:
            function(leaf)
        assert (
            caught.value.message
            == f"{function.__name__}: expected a node, got a leaf of type {type(leaf).__name__}"
        )


def test_names_of_parameters() -> None:
    """Those of jax."""
    assert tree_util.all_leaves(iterable=[1, 2])
    assert tree_util.tree_broadcast(prefix_tree=1, full_tree=[0, 0]) == [1, 1]
    outer, inner = effx.tree.structure([0, 0]), effx.tree.structure({"a": 0})
    turned = tree_util.tree_transpose(
        outer_treedef=outer, inner_treedef=inner, pytree_to_transpose=[{"a": 1}, {"a": 2}]
    )
    assert turned == {"a": [1, 2]}
    assert tree_util.default_registry.is_node(list)
    key: tree_util.KeyEntry = tree_util.DictKey("a")
    assert isinstance(key, tree_util.KeyEntry)
