"""The layout of arrays in memory, named as in `jax.experimental.layout`."""

from typing import TypeVar

from effx.array.promotion import as_operand
from effx.errors import OptionError
from effx.lazy import list_names
from effx.lower.placement.layouts import AutoLayout, Layout
from effx.lower.placement.shardings import Format
from effx.transforms.placement.meshes import with_layout
from effx.tree.mapping import map as tree_map

__all__ = ["AutoLayout", "Format", "Layout", "with_layout_constraint"]
__dir__ = list_names(__all__)

A = TypeVar("A")


def with_layout_constraint(x: A, layout: Layout) -> A:
    """Constrains the order of axes in memory of arrays at this point of a program.

    Derivatives get the same layout; under vmap the batch axis runs slowest. Outside of programs the arrays are laid out so.

    Args:
        x: a pytree of arrays.
        layout: of each.

    Returns:
        The same values.

    Raises:
        OptionError: `layout` is no Layout.
        ShapeError: it is for another number of axes.
        BackendError: it has tiles, or packs elements, and `x` is a value of a program.

    >>> import effx, effx.numpy as enp
    >>> columns = Layout((1, 0))
    >>> effx.jit(lambda x: with_layout_constraint(x, columns) @ x)(enp.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if not isinstance(layout, Layout):
        raise OptionError(f"with_layout_constraint: layout must be a Layout, got {layout!r}")
    what = "with_layout_constraint"
    result: A = tree_map(lambda leaf: with_layout(what, layout, as_operand(leaf, what)), x)
    return result
