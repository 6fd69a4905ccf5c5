"""`jax.custom_derivatives.zero_from_primal`: the zero tangents of values."""

from functools import partial

import numpy as np

from effx import dtypes
from effx import numpy as enp
from effx.transforms.custom_rules import SymbolicZero
from effx.transforms.staging import typeof
from effx.tree import PyTree
from effx.tree import map as map_tree

__all__ = ["zero_from_primal"]


def zero_from_primal(val: PyTree, symbolic_zeros: bool = False) -> PyTree:
    """Returns the zero tangent of each array of a tree.

    Args:
        val: a pytree of arrays and numbers.
        symbolic_zeros: whether to give `SymbolicZero`, which is known to be zero, instead of zeros.

    Returns:
        A tree of the same structure. Tangents of integers and bools have the dtype float0, of which there are only NumPy
        arrays.

    Raises:
        DTypeError: a leaf is neither array nor number.

    >>> zero_from_primal({"a": np.ones(2, "float32"), "n": 3}, symbolic_zeros=True)
    {'a': SymbolicZero(float32[2]), 'n': SymbolicZero(float0[])}
    >>> zero_from_primal(1.5).tolist(), zero_from_primal(np.arange(2)).dtype == dtypes.float0
    (0.0, True)
    """
    return map_tree(partial(_zero, symbolic=symbolic_zeros), val)


def _zero(x: PyTree, symbolic: bool) -> PyTree:
    kind = typeof(x)
    inexact = dtypes.issubdtype(kind.dtype, np.inexact)
    if symbolic:
        return SymbolicZero(kind.shape, kind.dtype if inexact else dtypes.float0, inexact and kind.weak)
    return enp.zeros(kind.shape, kind.dtype) if inexact else np.zeros(kind.shape, dtypes.float0)
