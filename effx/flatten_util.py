"""`ravel_pytree`: flatten pytrees of arrays to vectors."""

import math
from collections.abc import Callable
from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import astype
from effx.array.promotion import as_operand, convert, promote_dtypes
from effx.array.shaping import concatenate, reshape
from effx.errors import DTypeError, ShapeError
from effx.ir.types import ArrayType
from effx.lazy import list_names
from effx.numpy.creation import make_filled
from effx.tree.registry import PyTree, PyTreeDef, flatten, register_leaf

__all__ = ["ravel_pytree"]
__dir__ = list_names(__all__)


@final
@register_leaf
@attrs.frozen
class Unravel:
    """Converts a vector to a pytree. Two that do the same are equal, so jit may take one as a static argument.

    Attributes:
        tree: the pytree's structure. types: its leaves'. vector_type: the vector's.
    """

    tree: PyTreeDef
    types: tuple[ArrayType, ...]
    vector_type: ArrayType

    def __call__(self, vector: Array) -> PyTree:
        """Converts a vector to the pytree.

        Raises:
            ShapeError, DTypeError: it is another vector.
        """
        x = as_operand(vector, "unravel")
        shape, dtype = self.vector_type.shape, self.vector_type.dtype
        is_uniform = all([t.dtype == dtype for t in self.types])
        if x.type.shape != shape:
            raise ShapeError(f"unravel: takes a vector of shape {list(shape)}, got {x.type!r}")
        if x.type.dtype != dtype and not is_uniform:
            raise DTypeError(f"unravel: takes a vector of dtype {dtypes.short_name(dtype)}, got {x.type!r}")
        ends = [int(end) for end in np.cumsum([math.prod(t.shape) for t in self.types])]
        pieces = [x[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if not is_uniform:
            pieces = [astype(piece, t.dtype) for piece, t in zip(pieces, self.types, strict=True)]
        return self.tree.unflatten(
            [reshape(piece, t.shape) for piece, t in zip(pieces, self.types, strict=True)]
        )


def ravel_pytree(pytree: PyTree) -> tuple[Array, Callable[[Array], PyTree]]:
    """Concatenates the leaves of a pytree to a vector.

    Args:
        pytree: of arrays and numbers.

    Returns:
        A vector of the leaves' common dtype, and the function that converts such a vector back to the pytree, with each
        leaf in its own shape and dtype. Where all leaves have one dtype, a vector of another is taken too, and the
        leaves have that of the vector.

    Raises:
        DTypeError: a leaf is no array, or the function got a vector of another dtype for leaves of several.
        ShapeError: the function got an array of another shape.

    >>> flat, back = ravel_pytree({"a": np.ones((2, 2), np.float32), "b": 3.0})
    >>> flat
    Array([1., 1., 1., 1., 3.], dtype=float32)
    >>> print(back(flat * 2)["b"])
    6.0
    """
    leaves, tree = flatten(pytree)
    arrays = [as_operand(leaf) for leaf in leaves]
    types = [x.type for x in arrays]
    parts = [reshape(x, -1) for x in promote_dtypes(*arrays)] if arrays else []
    flat = concatenate(parts) if parts else make_filled((0,), 0, dtypes.canonicalize(float))
    flat = convert(flat, flat.type.dtype)
    return flat, Unravel(tree, tuple(types), flat.type)
