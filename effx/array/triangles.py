"""Triangles of matrices, and masks of diagonals."""

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import where
from effx.array.promotion import broadcast_to, convert
from effx.ir.ops.shape import Iota
from effx.ir.types import Shape, array_type
from effx.ir.values.scalars import scalar


def band_mask(shape: Shape, k: int | Array, test: str = "GE") -> Array:
    """Returns `bool[*shape]`: on ("EQ"), or on and below ("GE"), the k-th diagonal of the last two axes."""
    dtype = dtypes.int64 if isinstance(k, Array) and dtypes.bits(k.type.dtype) == 64 else dtypes.int32
    t = array_type(dtype, shape)
    rows, columns = Iota(t, len(shape) - 2)(), Iota(t, len(shape) - 1)()
    if isinstance(k, Array):
        shifted = rows + convert(k, dtype)
    else:
        shifted = rows + scalar(k, dtype) if k else rows
    return shifted >= columns if test == "GE" else shifted == columns


def tril(x: Array, k: int = 0) -> Array:
    """Returns the matrices with zeros above the k-th diagonal."""
    return where(_is_below_diagonal(x, k), x, scalar(0, x.type.dtype, x.type.weak))


def triu(x: Array, k: int = 0) -> Array:
    """Returns the matrices with zeros below the k-th diagonal."""
    return where(_is_below_diagonal(x, k - 1), scalar(0, x.type.dtype, x.type.weak), x)


def _is_below_diagonal(x: Array, k: int) -> Array:
    return broadcast_to(band_mask(x.type.shape[-2:], k), x.type.shape)
