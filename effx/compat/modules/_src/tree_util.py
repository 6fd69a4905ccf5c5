"""`jax._src.tree_util`: flax reads here which classes are nodes, and why one tree is no prefix of another, orbax imports a
function of `jax.tree_util`.
"""

from collections.abc import Callable

from effx.tree.prefixes import find_mismatches
from effx.tree.registry import IsLeaf, PyTree
from effx.tree_util import flatten_one_level, is_tree_node, keystr

__all__ = ["_registry", "flatten_one_level", "prefix_errors"]


def prefix_errors(
    prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf | None = None
) -> list[Callable[[str], ValueError]]:
    """Returns an error for each place where a tree is no prefix of another, as a function of the prefix's name.

    >>> print(prefix_errors({"a": [1, 2]}, {"a": [1, 2, 3]})[0]("in_axes"))
    pytree structure error at in_axes['a']: the prefix is a list of length 2, the full tree a list of length 3
    """
    mismatches = find_mismatches(prefix_tree, full_tree, is_leaf, "the prefix", "the full tree")
    return [_error_maker(keystr(path), text) for path, text in mismatches]


def _error_maker(where: str, text: str) -> Callable[[str], ValueError]:
    return lambda name: ValueError(f"pytree structure error at {name}{where}: {text}")


class _Registry:
    """The classes whose instances are nodes, looked up here instead of in a dict as in JAX."""

    def __contains__(self, cls: object) -> bool:
        return isinstance(cls, type) and is_tree_node(cls)


_registry = _Registry()
