"""Flat lists of values with the groups that they form, as JAX's loops have them among their parameters.

`jax.lax.scan_p` says so which of its operands are constants, carries and slices.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import final

import attrs

__all__ = ["FlatTree", "nones", "pack"]


@final
@attrs.frozen(repr=False)
class FlatTree:
    """A tree of tuples by its leaves.

    Attributes:
        vals: the leaves in order.
        groups: the subtrees; None for a flat list of leaves.

    >>> tree = pack((nones(2), nones(1)))
    >>> tree, tree.update("abc").unpack()
    (((None, None), (None,)), (('a', 'b'), ('c',)))
    """

    vals: tuple[object, ...]
    groups: "tuple[FlatTree, ...] | None" = None

    def __len__(self) -> int:
        return len(self.vals)

    def __iter__(self) -> Iterator[object]:
        return iter(self.vals)

    def update(self, vals: Iterable[object]) -> "FlatTree":
        """Returns the same tree of other leaves.

        Raises:
            ValueError: there are more or fewer.
        """
        leaves = tuple(vals)
        if len(leaves) != len(self.vals):
            raise ValueError(f"FlatTree.update: expected {len(self.vals)} values, got {len(leaves)}")
        if self.groups is None:
            return FlatTree(leaves)
        parts, start = [], 0
        for group in self.groups:
            parts.append(group.update(leaves[start : start + len(group)]))
            start += len(group)
        return FlatTree(leaves, tuple(parts))

    def unpack(self) -> "tuple[FlatTree, ...]":
        """Returns the subtrees.

        Raises:
            ValueError: the tree is a flat list.
        """
        if self.groups is None:
            raise ValueError("FlatTree.unpack: the tree is a flat list of values")
        return self.groups

    def __repr__(self) -> str:
        return repr(self.vals if self.groups is None else self.groups)


def nones(n: int) -> FlatTree:
    """Returns a flat list of n Nones."""
    return FlatTree((None,) * n)


def pack(trees: Sequence[FlatTree]) -> FlatTree:
    """Returns the tree of subtrees.

    >>> pack((nones(1), nones(2))).unpack()[1].vals
    (None, None)
    """
    return FlatTree(tuple([leaf for tree in trees for leaf in tree.vals]), tuple(trees))
