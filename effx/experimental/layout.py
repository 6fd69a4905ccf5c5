"""The layout of arrays in memory, which in effx is row by row, named as in `jax.experimental.layout`."""

from typing import TypeVar

from effx.lazy import list_names
from effx.lower.placement.formats import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]
__dir__ = list_names(__all__)

A = TypeVar("A")


def with_layout_constraint(x: A, layout: Layout) -> A:
    """Returns the arrays of a tree as they are: they have the one layout that there is.

    Args:
        x: a pytree of arrays.
        layout: of each.

    >>> print(with_layout_constraint(1.5, Layout(())))
    1.5
    """
    return x
