"""Symbolic shapes of arguments."""

from collections.abc import Sequence
from typing import Any

from effx import dtypes
from effx.array.promotion import as_operand
from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.dimensions import SymbolicScope, is_symbolic
from effx.ir.sizes.shape_text import spread_shape_texts, symbolic_shape
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.tree.registry import PyTree, flatten

__all__ = ["is_symbolic_dim", "symbolic_args_specs", "symbolic_dim_bounds"]


def is_symbolic_dim(p: object) -> bool:
    """Says whether a size has dimension variables.

    >>> from effx.export import symbolic_shape
    >>> b, n = symbolic_shape("b, 3")
    >>> is_symbolic_dim(b), is_symbolic_dim(n)
    (True, False)
    """
    return is_symbolic(p)


def symbolic_dim_bounds(dimension: int) -> tuple[float, float]:
    """Returns the bounds of a size over all values of its variables, infinite where there are none.

    >>> from effx.export import symbolic_shape
    >>> (b,) = symbolic_shape("b", constraints=["b <= 8"])
    >>> symbolic_dim_bounds(2 * b + 1)
    (3, 17)
    """
    return bounds(dimension)


def symbolic_args_specs(
    args: PyTree,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Returns shapes and dtypes of arguments with symbolic sizes.

    Args:
        args: arrays, or shapes and dtypes; from them come the dtypes, and the sizes for `_` and `...`.
        shapes_specs: a shape as text, or None for the array's own, for each array. One is for all arrays below its
            position in the tree.
        constraints: see `symbolic_shape`.
        scope: see `symbolic_shape`.

    Returns:
        `ShapeDtypeStruct`s in the structure of `args`.

    Raises:
        TreeError: the structure of `shapes_specs` is not the beginning of that of `args`.
        ValueError: a text is no shape.

    >>> import numpy as np
    >>> symbolic_args_specs((np.ones((2, 3)), np.ones(4)), ("b, ...", "2*b"))
    (ShapeDtypeStruct(shape=(b, 3), dtype=float32), ShapeDtypeStruct(shape=(2*b,), dtype=float32))
    """
    if scope is not None and len(constraints):
        raise ValueError(
            "symbolic_args_specs: a scope has its constraints already; give constraints or a scope, not both"
        )
    where = SymbolicScope(tuple(constraints)) if scope is None else scope
    texts, tree = flatten(shapes_specs, lambda x: x is None or isinstance(x, str))
    leaves, args_tree = flatten(args)
    results = []
    for text, leaf in zip(spread_shape_texts(texts, tree, args), leaves, strict=True):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            leaf = as_operand(leaf).type
        shape = symbolic_shape(text, scope=where, like=leaf.shape)
        results.append(ShapeDtypeStruct(shape, dtypes.canonicalize(leaf.dtype)))
    return args_tree.unflatten(results)
