"""`jax.tree_util`: where JAX's functions of trees give other objects than effx's."""

from collections.abc import Callable
from functools import partial

from effx.errors import TreeError
from effx.tree.prefixes import prefix_errors as describe_prefix_errors
from effx.tree.registry import IsLeaf, PyTree

__all__ = ["prefix_errors"]


def prefix_errors(
    prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf | None = None
) -> list[Callable[[str], TreeError]]:
    """Returns a function for each place at which a tree is no prefix of another, from the prefix's name to an error.

    >>> make_error, = prefix_errors([1], [2, 3])
    >>> print(make_error("in_axes").message)
    in_axes is a list of length 1, the full tree a list of length 2
    """

    def make_error(i: int, name: str) -> TreeError:
        return TreeError(describe_prefix_errors(prefix_tree, full_tree, is_leaf, prefix_name=name)[i])

    return [
        partial(make_error, i) for i in range(len(describe_prefix_errors(prefix_tree, full_tree, is_leaf)))
    ]
