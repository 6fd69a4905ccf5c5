"""Slices: static ones, and blocks of fixed size at computed starts.

A computed start that is out of range is clamped, so that the block fits.
"""

from collections.abc import Sequence

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, convert, promote_dtypes
from effx.array.shaping import reshape
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.ir.ops import shape as s
from effx.ir.types import ArrayType
from effx.ir.values.scalars import scalar
from effx.lax.operands import adapt_operands, check_int, int_tuple, resolve_axis

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "index_in_dim", "slice", "slice_in_dim",
]  # fmt: skip


def slice(
    operand: Operand,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Cuts out the elements from a start up to a limit along every axis.

    Args:
        operand: of any dtype and shape.
        start_indices, limit_indices: for each axis, `0 <= start <= limit <= size`.
        strides: steps, at least 1; all 1 by default.

    Returns:
        An array of the operand's dtype and rank.

    Raises:
        ShapeError: bounds are out of range, or one is missing.

    >>> import numpy as np
    >>> slice(np.arange(6, dtype=np.int32), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    x = as_operand(operand)
    steps = (1,) * x.type.ndim if strides is None else int_tuple("strides", strides)
    start, limit = (
        int_tuple("start_indices", start_indices),
        int_tuple("limit_indices", limit_indices),
    )
    return s.Slice(start, limit, steps)(x)


def slice_in_dim(
    operand: Operand, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """Cuts out the elements from a start up to a limit along one axis.

    Args:
        operand: of any dtype and shape.
        start_index, limit_index: None for the axis' ends; negative ones count from its end.
        stride: the step, at least 1.
        axis: the axis; negative ones count from the end.

    Returns:
        An array of the operand's dtype and rank.

    Raises:
        ShapeError: the axis or a bound is out of range.

    >>> import numpy as np
    >>> slice_in_dim(np.arange(6, dtype=np.int32), -4, None, 2)
    Array([2, 4], dtype=int32)
    """
    x = as_operand(operand)
    resolved_axis = resolve_axis(axis, x.type)
    n = x.type.shape[resolved_axis]
    first, last = (
        0 if start_index is None else check_int("start_index", start_index),
        n if limit_index is None else check_int("limit_index", limit_index),
    )
    first, last = first + n if first < 0 else first, last + n if last < 0 else last
    start = [first if i == resolved_axis else 0 for i in range(x.type.ndim)]
    limit = [last if i == resolved_axis else m for i, m in enumerate(x.type.shape)]
    return slice(
        x,
        start,
        limit,
        [check_int("stride", stride) if i == resolved_axis else 1 for i in range(x.type.ndim)],
    )


def index_in_dim(operand: Operand, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Reads at one index of an axis.

    Args:
        operand: of any dtype and shape.
        index: the index; negative ones count from the end.
        axis: the axis; negative ones count from the end.
        keepdims: False to drop the axis instead of keeping it with size 1.

    Returns:
        An array of the operand's dtype.

    Raises:
        ShapeError: the axis or the index is out of range.

    >>> import numpy as np
    >>> index_in_dim(np.arange(3, dtype=np.int32), -1, keepdims=False)
    Array(2, dtype=int32)
    """
    x = as_operand(operand)
    axis = resolve_axis(axis, x.type)
    n, index = x.type.shape[axis], check_int("index", index)
    if not -n <= index < n:
        raise ShapeError(f"index_in_dim: index {index} is out of range for axis {axis} of {x.type!r}")
    result = slice_in_dim(x, index % n, index % n + 1, 1, axis)
    return result if keepdims else _drop_axis(result, axis)


def _drop_axis(x: Array, axis: int) -> Array:
    shape = x.type.shape
    return reshape(x, (*shape[:axis], *shape[axis + 1 :]))


def _convert_starts(
    t: ArrayType, starts: Array | Sequence[Operand], allow_negative: bool | Sequence[bool]
) -> list[Array]:
    """Converts starts to one integer dtype, and counts negative ones from the end."""
    if isinstance(starts, Array):
        if starts.type.ndim != 1:
            raise ShapeError(
                f"{name_user_call()}: start indices must be a sequence of scalars or one vector, got {starts.type!r}"
            )
        count = starts.type.shape[0]
        parts: list[Operand] = [reshape(slice_in_dim(starts, i, i + 1), ()) for i in range(count)]
    else:
        parts = list(starts)
    if len(parts) != t.ndim:
        raise ShapeError(f"{name_user_call()}: needs one start for each axis of {t!r}, got {len(parts)}")
    allowed = [allow_negative] * t.ndim if isinstance(allow_negative, bool) else list(allow_negative)
    if len(allowed) != t.ndim:
        raise ShapeError(
            f"{name_user_call()}: allow_negative_indices must have one entry for each axis of {t!r}, got {len(allowed)}"
        )
    result: list[Array] = []
    strong: set[dtypes.DType] = set()
    for part, n, wraps in zip(parts, t.shape, allowed, strict=True):
        if type(part) is int:
            result.append(scalar(part + n if part < 0 and wraps else part, dtypes.int32))
            continue
        start = as_operand(part)
        start_dtype = start.type.dtype
        if start.type.kind not in "iu" or start.type.shape:
            raise DTypeError(f"{name_user_call()}: start indices must be integer scalars, got {start.type!r}")
        if start.type.kind == "i" and wraps:
            wide = convert(start, dtypes.int32) if dtypes.bits(start.type.dtype) < 32 else start
            start = arithmetic.where(wide < 0, wide + n, wide)
        result.append(start)
        strong.add(start_dtype)
    if len(strong) > 1:
        names = ", ".join(sorted([dtypes.short_name(d) for d in strong]))
        raise DTypeError(f"{name_user_call()}: start indices must have one dtype, got {names}")
    return promote_dtypes(*result) if result else []


def dynamic_slice(
    operand: Operand,
    start_indices: Array | Sequence[Operand],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Cuts out a block of fixed size at a computed start.

    Args:
        operand: of any dtype and shape.
        start_indices: one integer scalar for each axis, or a vector of them. Starts are clamped so that the
            block fits.
        slice_sizes: the block's sizes.
        allow_negative_indices: whether negative starts count from the end, for all axes or for each.

    Returns:
        An array of the operand's dtype and the block's shape.

    Raises:
        DTypeError: a start is no integer scalar, or starts have several dtypes.
        ShapeError: a start is missing, or the block is larger than the operand.

    >>> import numpy as np
    >>> dynamic_slice(np.arange(5, dtype=np.int32), (9,), (2,))
    Array([3, 4], dtype=int32)
    """
    x = as_operand(operand)
    starts = _convert_starts(x.type, start_indices, allow_negative_indices)
    return s.DynamicSlice(int_tuple("slice_sizes", slice_sizes))(x, *starts)


def _starts_along_axis(t: ArrayType, start: Operand, axis: int) -> list[Operand]:
    return [start if i == axis else 0 for i in range(t.ndim)]


def dynamic_slice_in_dim(
    operand: Operand,
    start_index: Operand,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Cuts out a fixed number of elements along one axis at a computed start.

    Args:
        operand: of any dtype and shape.
        start_index: an integer scalar, clamped so that the slice fits.
        slice_size: the number of elements.
        axis: the axis; negative ones count from the end.
        allow_negative_indices: whether a negative start counts from the end.

    Returns:
        An array of the operand's dtype and rank.

    Raises:
        DTypeError: the start is no integer scalar.
        ShapeError: the axis is out of range, or smaller than the slice.

    >>> import numpy as np
    >>> dynamic_slice_in_dim(np.arange(5, dtype=np.int32), -2, 2)
    Array([3, 4], dtype=int32)
    """
    x = as_operand(operand)
    resolved_axis = resolve_axis(axis, x.type)
    sizes = [slice_size if i == resolved_axis else n for i, n in enumerate(x.type.shape)]
    return dynamic_slice(
        x,
        _starts_along_axis(x.type, start_index, resolved_axis),
        sizes,
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_index_in_dim(
    operand: Operand,
    index: Operand,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Reads at a computed index of an axis.

    Args:
        operand: of any dtype and shape.
        index: an integer scalar, clamped to the axis.
        axis: the axis; negative ones count from the end.
        keepdims: False to drop the axis instead of keeping it with size 1.
        allow_negative_indices: whether a negative index counts from the end.

    Returns:
        An array of the operand's dtype.

    Raises:
        DTypeError: the index is no integer scalar.
        ShapeError: the axis is out of range, or has no elements.

    >>> import numpy as np
    >>> dynamic_index_in_dim(np.arange(5, dtype=np.int32), 3, keepdims=False)
    Array(3, dtype=int32)
    """
    x = as_operand(operand)
    resolved_axis = resolve_axis(axis, x.type)
    result = dynamic_slice_in_dim(x, index, 1, resolved_axis, allow_negative_indices=allow_negative_indices)
    return result if keepdims else _drop_axis(result, resolved_axis)


def dynamic_update_slice(
    operand: Operand,
    update: Operand,
    start_indices: Array | Sequence[Operand],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Returns an array with a block replaced at a computed start.

    Args:
        operand: of any dtype and shape.
        update: the block, of the operand's dtype and rank.
        start_indices: one integer scalar for each axis, or a vector of them, clamped so that the block fits.
        allow_negative_indices: whether negative starts count from the end, for all axes or for each.

    Returns:
        An array of the operand's dtype and shape.

    Raises:
        DTypeError: dtypes differ, or a start is no integer scalar.
        ShapeError: a start is missing, or the block does not fit.

    >>> import numpy as np
    >>> dynamic_update_slice(np.arange(4, dtype=np.int32), np.array([8, 9], np.int32), (1,))
    Array([0, 8, 9, 3], dtype=int32)
    """
    x, block = adapt_operands(operand, update)
    starts = _convert_starts(x.type, start_indices, allow_negative_indices)
    return s.DynamicUpdateSlice()(x, block, *starts)


def dynamic_update_slice_in_dim(
    operand: Operand, update: Operand, start_index: Operand, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """Returns an array with a slice of one axis replaced at a computed start.

    Args:
        operand: of any dtype and shape.
        update: of the operand's dtype and rank.
        start_index: an integer scalar, clamped so that the update fits.
        axis: the axis; negative ones count from the end.
        allow_negative_indices: whether a negative start counts from the end.

    Returns:
        An array of the operand's dtype and shape.

    Raises:
        DTypeError: dtypes differ, or the start is no integer scalar.
        ShapeError: the axis is out of range, or the update does not fit.

    >>> import numpy as np
    >>> dynamic_update_slice_in_dim(np.arange(4, dtype=np.int32), np.array([9], np.int32), -1, 0)
    Array([0, 1, 2, 9], dtype=int32)
    """
    x, block = adapt_operands(operand, update)
    resolved_axis = resolve_axis(axis, x.type)
    starts = _starts_along_axis(x.type, start_index, resolved_axis)
    return dynamic_update_slice(x, block, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: Operand, update: Operand, index: Operand, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """Returns an array with the slice at a computed index of an axis replaced.

    Args:
        operand: of any dtype and shape.
        update: of the operand's dtype; without the axis, or with size 1 there.
        index: an integer scalar, clamped to the axis.
        axis: the axis; negative ones count from the end.
        allow_negative_indices: whether a negative index counts from the end.

    Returns:
        An array of the operand's dtype and shape.

    Raises:
        DTypeError: dtypes differ, or the index is no integer scalar.
        ShapeError: the axis is out of range, or the update does not fit.

    >>> import numpy as np
    >>> dynamic_update_index_in_dim(np.arange(4, dtype=np.int32), 9, 1, 0)
    Array([0, 9, 2, 3], dtype=int32)
    """
    x, row = adapt_operands(operand, update)
    resolved_axis = resolve_axis(axis, x.type)
    if row.type.ndim != x.type.ndim:
        row = reshape(row, (*row.type.shape[:resolved_axis], 1, *row.type.shape[resolved_axis:]))
    return dynamic_update_slice_in_dim(
        x, row, index, resolved_axis, allow_negative_indices=allow_negative_indices
    )
