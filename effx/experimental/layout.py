"""The layout of arrays in memory, named as in `jax.experimental.layout`."""

from typing import TypeVar

from effx.array.promotion import as_operand
from effx.errors import OptionError
from effx.lazy import list_names
from effx.lower.placement.layouts import AutoLayout, Layout
from effx.lower.placement.shardings import Format
from effx.transforms.placement.meshes import with_layout
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, flatten

__all__ = ["AutoLayout", "Format", "Layout", "with_layout_constraint"]
__dir__ = list_names(__all__)

A = TypeVar("A")


def with_layout_constraint(x: A, layouts: PyTree) -> A:
    """Constrains the order of axes in memory of arrays at this point of a program.

    Derivatives get the same layout; under vmap the batch axis runs slowest. Outside of programs an array that lies otherwise
    is copied, and committed to its devices.

    Args:
        x: a pytree of arrays.
        layouts: a Layout for all; or a pytree of them that is a prefix of `x`, in which None leaves arrays as they lie.

    Returns:
        The same values.

    Raises:
        OptionError: a leaf of `layouts` is no Layout.
        TreeError: `layouts` is no prefix of `x`.
        ShapeError: a layout is for another number of axes.
        BackendError: a layout has tiles, or packs elements, and the array is a value of a transformation.

    >>> import effx, effx.numpy as enp
    >>> columns = Layout((1, 0))
    >>> effx.jit(lambda x: with_layout_constraint(x, columns) @ x)(enp.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    what = "with_layout_constraint"
    leaves, form = flatten(x)
    results: list[PyTree] = []
    for leaf, layout in zip(leaves, broadcast_prefix(layouts, x, lambda y: y is None), strict=True):
        if not (layout is None or isinstance(layout, Layout)):
            raise OptionError(f"{what}: layouts must hold Layouts and None, got {layout!r}")
        results.append(leaf if layout is None else with_layout(what, layout, as_operand(leaf)))
    result: A = form.unflatten(results)
    return result
