"""Sorting: floats ascend, -0.0 equals 0.0 where other operands are sorted along, NaN is last."""

from collections.abc import Sequence
from typing import cast, overload

from effx.array import Array, Operand
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.errors import ShapeError
from effx.families.sort import Sort
from effx.families.topk import TopK
from effx.ir.sizes.dimensions import is_symbolic
from effx.lax.operands import check_int, resolve_axis

__all__ = ["sort", "sort_key_val", "top_k"]


@overload
def sort(operand: Array, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Array: ...
@overload
def sort(
    operand: tuple[Operand, ...] | list[Operand],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> tuple[Array, ...]: ...
@overload
def sort(operand: Operand, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Array: ...
def sort(
    operand: Operand | Sequence[Operand], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """Sorts an array, or several together, along an axis.

    Args:
        operand: an array, or a sequence of arrays of one shape.
        dimension: the axis; negative ones count from the end.
        is_stable: whether equal keys keep their order.
        num_keys: how many of the arrays are keys, compared lexicographically; the others are permuted
            likewise.

    Returns:
        The sorted array, or a tuple of the arrays.

    Raises:
        ShapeError: the axis is out of range, shapes differ, or `num_keys` is out of range.

    >>> import numpy as np
    >>> sort((np.array([2, 1], np.int32), np.array([5, 6], np.int32)))
    (Array([1, 2], dtype=int32), Array([6, 5], dtype=int32))
    """
    several = isinstance(operand, list | tuple)
    operands = operand if isinstance(operand, list | tuple) else (cast("Operand", operand),)
    arrays = [as_operand(x) for x in operands]
    if not arrays:
        raise ShapeError("sort: takes at least one operand, got none")
    axis = resolve_axis(dimension, arrays[0].type)
    results = Sort(axis, bool(is_stable), check_int("num_keys", num_keys))(*arrays)
    return results if several else results[0]


def sort_key_val(
    keys: Operand, values: Operand, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sorts keys along an axis, and values along with them.

    Args:
        keys: of any dtype and shape.
        values: of the keys' shape.
        dimension: the axis; negative ones count from the end.
        is_stable: whether equal keys keep their order.

    Returns:
        The sorted keys and the values in their order.

    Raises:
        ShapeError: the axis is out of range, or shapes differ.

    >>> import numpy as np
    >>> sort_key_val(np.array([2, 1], np.int32), np.array([5, 6], np.int32))[1]
    Array([6, 5], dtype=int32)
    """
    k, v = sort((keys, values), dimension, is_stable)
    return k, v


def top_k(operand: Operand, k: int, *, axis: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Returns the largest elements along an axis and their indices.

    Args:
        operand: boolean, integer, floating or complex, with at least one axis.
        k: how many, from 0 to the axis' size.
        axis: the axis; negative ones count from the end.
        is_stable: True so that of equal elements the earlier comes first; else XLA may choose.

    Returns:
        The k largest, in descending order with NaN first, and their i32 indices along the axis.

    Raises:
        ShapeError: the axis or k is out of range, or the axis is longer than i32 indices reach.

    >>> import numpy as np
    >>> top_k(np.array([3, 9, 5], np.int32), 2)
    (Array([9, 5], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = as_operand(operand)
    t, count = x.type, check_int("k", k)
    resolved_axis = resolve_axis(axis, t)
    if not 0 <= count <= t.shape[resolved_axis]:
        raise ShapeError(
            f"top_k: k must be from 0 to {t.shape[resolved_axis]}, the size of axis {resolved_axis} of {t!r}, got {count}"
        )
    size = t.shape[resolved_axis]
    if not is_symbolic(size) and size > 2**31:
        raise ShapeError(
            f"top_k: axis {resolved_axis} of {t!r} is longer than the 2**31 elements that i32 indices reach"
        )
    last = t.ndim - 1
    values, indices = TopK(count, bool(is_stable))(moveaxis(x, resolved_axis, last))
    return moveaxis(values, last, resolved_axis), moveaxis(indices, last, resolved_axis)
