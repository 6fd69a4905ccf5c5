"""Gather and scatter: slices read from and written to computed indices. These are XLA's general forms, with
the index vector on the last axis of the indices. `x[i]` and `x.at[i]` cover most uses in fewer words.
"""

import enum
from collections.abc import Sequence
from itertools import pairwise
from typing import final

import attrs

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.indexing import resolve_fill_value
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.array.shaping import reshape, size_vector
from effx.errors import IndexingError, ShapeError, name_user_call
from effx.ir.ops import index as i
from effx.ir.ops.elementwise import Clamp
from effx.ir.ops.reduce import ReduceAnd
from effx.ir.types import ArrayType, Shape
from effx.ir.values.scalars import scalar
from effx.lax.operands import adapt_operands, int_tuple

__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "gather", "scatter",
    "scatter_add", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub",
]  # fmt: skip


class GatherScatterMode(enum.Enum):
    """The treatment of indices out of range.

    >>> import effx.lax as lax, effx.numpy as enp
    >>> x, dims = enp.array([1.0, 2.0]), lax.GatherDimensionNumbers((), (0,), (0,))
    >>> print(lax.gather(x, enp.array([[0], [5]]), dims, (1,), mode=lax.GatherScatterMode.CLIP))
    [1. 2.]
    >>> print(lax.gather(x, enp.array([[0], [5]]), dims, (1,), mode=lax.GatherScatterMode.FILL_OR_DROP))
    [ 1. nan]
    """

    CLIP = "clip"
    """They are clamped to the nearest index at which the slice fits."""
    FILL_OR_DROP = "fill"
    """Reading gives a fill value, writing does nothing."""
    PROMISE_IN_BOUNDS = "promise_in_bounds"
    """The caller promises that there are none."""
    ONE_HOT = "one_hot"
    """Reading and writing are products with one-hot vectors: reading gives zero, writing does nothing."""

    @classmethod
    def from_any(cls, s: "str | GatherScatterMode | None") -> "GatherScatterMode":
        """Returns a mode by its name; FILL_OR_DROP for None.

        Raises:
            IndexingError: there is no such mode.

        >>> GatherScatterMode.from_any("drop")
        <GatherScatterMode.FILL_OR_DROP: 'fill'>
        """
        return _resolve_mode(s, cls.FILL_OR_DROP)


_MODES = {**{m.value: m for m in GatherScatterMode}, "drop": GatherScatterMode.FILL_OR_DROP}


def _int_tuple(values: Sequence[int]) -> tuple[int, ...]:
    return int_tuple("dimension numbers", values, function_name="gather")


@final
@attrs.frozen
class GatherDimensionNumbers:
    """The roles of axes in a gather.

    Attributes:
        offset_dims: the result's axes that run along a slice, increasing.
        collapsed_slice_dims: axes of the operand with slice size 1 that the result does not have.
        start_index_map: for each entry of a start vector the operand's axis that it is for.
        operand_batching_dims, start_indices_batching_dims: batch axes of the operand and of the indices.

    >>> GatherDimensionNumbers((), (0,), (0,)).start_index_map
    (0,)
    """

    offset_dims: tuple[int, ...] = attrs.field(converter=_int_tuple)
    collapsed_slice_dims: tuple[int, ...] = attrs.field(converter=_int_tuple)
    start_index_map: tuple[int, ...] = attrs.field(converter=_int_tuple)
    operand_batching_dims: tuple[int, ...] = attrs.field(default=(), converter=_int_tuple)
    start_indices_batching_dims: tuple[int, ...] = attrs.field(default=(), converter=_int_tuple)


@final
@attrs.frozen
class ScatterDimensionNumbers:
    """The roles of axes in a scatter.

    Attributes:
        update_window_dims: axes of the updates that run along a window, increasing.
        inserted_window_dims: axes of the operand of window size 1 that the updates do not have.
        scatter_dims_to_operand_dims: for each entry of a start vector the operand's axis that it is for.
        operand_batching_dims, scatter_indices_batching_dims: batch axes of the operand and of the indices.

    >>> ScatterDimensionNumbers((), (0,), (0,)).inserted_window_dims
    (0,)
    """

    update_window_dims: tuple[int, ...] = attrs.field(converter=_int_tuple)
    inserted_window_dims: tuple[int, ...] = attrs.field(converter=_int_tuple)
    scatter_dims_to_operand_dims: tuple[int, ...] = attrs.field(converter=_int_tuple)
    operand_batching_dims: tuple[int, ...] = attrs.field(default=(), converter=_int_tuple)
    scatter_indices_batching_dims: tuple[int, ...] = attrs.field(default=(), converter=_int_tuple)


def _resolve_mode(mode: "str | GatherScatterMode | None", default: GatherScatterMode) -> GatherScatterMode:
    if mode is None:
        return default
    entry = mode if isinstance(mode, GatherScatterMode) else _MODES.get(mode)
    if entry is None:
        raise IndexingError(f"{name_user_call()}: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    return entry


def _check_indices(x: Operand) -> Array:
    array = as_operand(x)
    # Bounds must fit the indices' dtype.
    if array.type.kind in "iu" and dtypes.bits(array.type.dtype) < 32:
        return convert(array, dtypes.int32)
    return array


def _largest_starts(t: ArrayType, axes: tuple[int, ...], sizes: Sequence[int], indices: Array) -> Array:
    """The largest start for each entry of a start vector."""
    return size_vector([t.shape[a] - sizes[a] for a in axes], indices.type.dtype)


def gather(
    operand: Operand,
    start_indices: Operand,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Operand | None = None,
) -> Array:
    """Collects slices of an array at computed starts.

    Args:
        operand: of any dtype and shape.
        start_indices: integers `[*b, k]`: vectors of k starts.
        dimension_numbers: the roles of the axes.
        slice_sizes: the size of a slice along each axis of the operand.
        unique_indices, indices_are_sorted: promises, for speed.
        mode: for starts out of range: "clip" (the default), "fill", "promise_in_bounds" or "one_hot".
        fill_value: for "fill"; by default NaN, the smallest signed or the largest unsigned integer,
            or True.

    Returns:
        An array of the operand's dtype: axes `*b`, and those of a slice at `offset_dims`.

    Raises:
        DTypeError: the indices are not integers.
        ShapeError: shapes and dimension numbers do not fit.
        IndexingError: `mode` is unknown.

    >>> import numpy as np
    >>> numbers = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(np.array([5., 6., 7.], np.float32), np.array([[2], [9]]), numbers, (1,), mode="fill")
    Array([ 7., nan], dtype=float32)
    """
    x, indices = as_operand(operand), _check_indices(start_indices)
    chosen = _resolve_mode(mode, GatherScatterMode.CLIP)
    n = dimension_numbers
    _check_numbers(n, GatherDimensionNumbers)
    sizes = int_tuple("slice_sizes", slice_sizes)
    op = i.Gather(
        n.offset_dims,
        n.collapsed_slice_dims,
        n.start_index_map,
        sizes,
        n.operand_batching_dims,
        n.start_indices_batching_dims,
        bool(indices_are_sorted),
        bool(unique_indices),
    )
    result = op(x, indices)
    if chosen in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
        return result
    limits = broadcast_to(_largest_starts(x.type, n.start_index_map, sizes, indices), indices.type.shape)
    inside = ReduceAnd((indices.type.ndim - 1,))((indices >= 0) & (indices <= limits))
    # The mask has the batch axes; those of a slice are at offset_dims.
    shape = tuple([1 if a in n.offset_dims else m for a, m in enumerate(result.type.shape)])
    mask = broadcast_to(reshape(inside, shape), result.type.shape)
    fill = 0 if chosen is GatherScatterMode.ONE_HOT else fill_value
    return arithmetic.where(mask, result, resolve_fill_value(x.type, fill))


def _check_numbers(numbers: object, expected_class: type[object]) -> None:
    if not isinstance(numbers, expected_class):
        raise IndexingError(
            f"{name_user_call()}: dimension_numbers must be {expected_class.__name__}, got {type(numbers).__name__}"
        )
    for name in (
        "offset_dims",
        "collapsed_slice_dims",
        "update_window_dims",
        "inserted_window_dims",
        "operand_batching_dims",
    ):
        axes = getattr(numbers, name, ())
        if any([a >= b for a, b in pairwise(axes)]):
            raise ShapeError(f"{name_user_call()}: {name} must increase, got {axes}")


def _perform_scatter(
    combiner: str,
    operand: Operand,
    scatter_indices: Operand,
    updates: Operand,
    n: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | GatherScatterMode | None,
) -> Array:
    _check_numbers(n, ScatterDimensionNumbers)
    x, update = adapt_operands(operand, updates)
    indices = _check_indices(scatter_indices)
    chosen = _resolve_mode(mode, GatherScatterMode.FILL_OR_DROP)
    op = i.Scatter(
        n.update_window_dims,
        n.inserted_window_dims,
        n.scatter_dims_to_operand_dims,
        combiner,
        n.operand_batching_dims,
        n.scatter_indices_batching_dims,
        bool(indices_are_sorted),
        bool(unique_indices),
    )
    if chosen is GatherScatterMode.CLIP:
        op.infer(x.type, indices.type, update.type)  # checks the axes that the next lines read
        sizes = _window_sizes(x.type, update.type.shape, n)
        limits = _largest_starts(x.type, n.scatter_dims_to_operand_dims, sizes, indices)
        zero = scalar(0, indices.type.dtype)
        indices = Clamp()(zero, indices, broadcast_to(limits, indices.type.shape))
    return op(x, indices, update)


def _window_sizes(t: ArrayType, updates: Shape, n: ScatterDimensionNumbers) -> list[int]:
    sizes = iter([updates[a] for a in n.update_window_dims])
    left_out = n.inserted_window_dims + n.operand_batching_dims
    return [1 if a in left_out else next(sizes) for a in range(t.ndim)]


def scatter(
    operand: Operand,
    scatter_indices: Operand,
    updates: Operand,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns an array with elements replaced at computed indices; of equal indices an unspecified update
    wins.

    Args:
        operand: of any dtype and shape.
        scatter_indices: integers `[*b, k]`: vectors of k starts.
        updates: of the operand's dtype: axes `*b`, and those of a window.
        dimension_numbers: the roles of the axes.
        indices_are_sorted, unique_indices: promises, for speed.
        mode: for windows out of range: "drop" (the default), "clip", "promise_in_bounds" or "one_hot".

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: dtypes differ, or the indices are not integers.
        ShapeError: shapes and dimension numbers do not fit.
        IndexingError: `mode` is unknown.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter(np.array([5, 6, 7], np.int32), np.array([[0], [0], [9]]), np.array([9, 9, 1], np.int32), numbers)
    Array([9, 6, 7], dtype=int32)
    """
    return _perform_scatter(
        "set",
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_add(
    operand: Operand,
    scatter_indices: Operand,
    updates: Operand,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns an array with updates added at computed indices; at equal indices they are summed.

    Args:
        operand: of any dtype and shape.
        scatter_indices: integers `[*b, k]`: vectors of k starts.
        updates: of the operand's dtype: axes `*b`, and those of a window.
        dimension_numbers: the roles of the axes.
        indices_are_sorted, unique_indices: promises, for speed.
        mode: for windows out of range: "drop" (the default), "clip", "promise_in_bounds" or "one_hot".

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: dtypes differ, or the indices are not integers.
        ShapeError: shapes and dimension numbers do not fit.
        IndexingError: `mode` is unknown.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_add(np.array([5, 6, 7], np.int32), np.array([[0], [0], [9]]), np.array([1, 2, 9], np.int32), numbers)
    Array([8, 6, 7], dtype=int32)
    """
    return _perform_scatter(
        "add",
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_sub(
    operand: Operand,
    scatter_indices: Operand,
    updates: Operand,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns an array with updates subtracted at computed indices; at equal indices one after the other.

    Args:
        operand: of any dtype and shape.
        scatter_indices: integers `[*b, k]`: vectors of k starts.
        updates: of the operand's dtype: axes `*b`, and those of a window.
        dimension_numbers: the roles of the axes.
        indices_are_sorted, unique_indices: promises, for speed.
        mode: for windows out of range: "drop" (the default), "clip", "promise_in_bounds" or "one_hot".

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: dtypes differ, or the indices are not integers.
        ShapeError: shapes and dimension numbers do not fit.
        IndexingError: `mode` is unknown.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_sub(np.array([5, 6, 7], np.int32), np.array([[0], [0], [9]]), np.array([1, 2, 9], np.int32), numbers)
    Array([2, 6, 7], dtype=int32)
    """
    return _perform_scatter(
        "add",
        operand,
        scatter_indices,
        arithmetic.negative(updates),
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_mul(
    operand: Operand,
    scatter_indices: Operand,
    updates: Operand,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns an array multiplied by updates at computed indices; at equal indices one after the other.

    Args:
        operand: of any dtype and shape.
        scatter_indices: integers `[*b, k]`: vectors of k starts.
        updates: of the operand's dtype: axes `*b`, and those of a window.
        dimension_numbers: the roles of the axes.
        indices_are_sorted, unique_indices: promises, for speed.
        mode: for windows out of range: "drop" (the default), "clip", "promise_in_bounds" or "one_hot".

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: dtypes differ, or the indices are not integers.
        ShapeError: shapes and dimension numbers do not fit.
        IndexingError: `mode` is unknown.
        TransformError: it is differentiated by several updates without `unique_indices`: the derivative by one of equal
            indices' factors is the product of the others.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_mul(np.array([5, 6, 7], np.int32), np.array([[0], [0], [9]]), np.array([2, 3, 9], np.int32), numbers)
    Array([30, 6, 7], dtype=int32)
    """
    return _perform_scatter(
        "mul",
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_min(
    operand: Operand,
    scatter_indices: Operand,
    updates: Operand,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns an array with the minimum of elements and updates at computed indices.

    Args:
        operand: of any real dtype and shape.
        scatter_indices: integers `[*b, k]`: vectors of k starts.
        updates: of the operand's dtype: axes `*b`, and those of a window.
        dimension_numbers: the roles of the axes.
        indices_are_sorted, unique_indices: promises, for speed.
        mode: for windows out of range: "drop" (the default), "clip", "promise_in_bounds" or "one_hot".

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: dtypes differ, or the indices are not integers.
        ShapeError: shapes and dimension numbers do not fit.
        IndexingError: `mode` is unknown.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_min(np.array([5, 6, 7], np.int32), np.array([[0], [0], [9]]), np.array([3, 4, 9], np.int32), numbers)
    Array([3, 6, 7], dtype=int32)
    """
    return _perform_scatter(
        "min",
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_max(
    operand: Operand,
    scatter_indices: Operand,
    updates: Operand,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns an array with the maximum of elements and updates at computed indices.

    Args:
        operand: of any real dtype and shape.
        scatter_indices: integers `[*b, k]`: vectors of k starts.
        updates: of the operand's dtype: axes `*b`, and those of a window.
        dimension_numbers: the roles of the axes.
        indices_are_sorted, unique_indices: promises, for speed.
        mode: for windows out of range: "drop" (the default), "clip", "promise_in_bounds" or "one_hot".

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: dtypes differ, or the indices are not integers.
        ShapeError: shapes and dimension numbers do not fit.
        IndexingError: `mode` is unknown.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_max(np.array([5, 6, 7], np.int32), np.array([[0], [0], [9]]), np.array([9, 8, 9], np.int32), numbers)
    Array([9, 6, 7], dtype=int32)
    """
    return _perform_scatter(
        "max",
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )
