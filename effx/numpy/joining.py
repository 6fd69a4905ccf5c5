"""Joining arrays, and splitting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from effx import dtypes, lax
from effx.array import Array, Operand, arithmetic, indexing, shaping
from effx.array.arithmetic import astype
from effx.array.promotion import convert_whole_float, to_host_array
from effx.array.reducing import refuse_out
from effx.array.shaping import normalize_axis
from effx.dtypes import DTypeLike
from effx.errors import ShapeError, name_user_call
from effx.lax.operands import check_int
from effx.numpy.creation import make_filled, returnable_operand
from effx.numpy.indexing import nonzero
from effx.numpy.shaping import atleast_1d, atleast_2d, atleast_3d

__all__ = [
    "append", "array_split", "column_stack", "concat", "concatenate", "delete", "dsplit", "dstack",
    "hsplit", "hstack", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip

Arrays: TypeAlias = Array | np.ndarray[Any, Any] | Sequence[Operand]


def _check_arrays(arrays: Any) -> list[Array]:
    # An array is taken as the sequence of its rows.
    if isinstance(arrays, Array | np.ndarray):
        stacked = returnable_operand(arrays)
        return [stacked[i] for i in range(len(stacked))]
    return [returnable_operand(x) for x in arrays]


def _cast_result(x: Array, dtype: DTypeLike | None) -> Array:
    return x if dtype is None else astype(x, dtype)


def concatenate(arrays: Arrays, axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays along an existing axis.

    Args:
        arrays: of one shape but for `axis`.
        axis: None to join all elements as one axis.
        dtype: of the result; by default the promotion.

    >>> concatenate([np.ones(1), np.zeros(2)]).tolist()
    [1.0, 0.0, 0.0]
    """
    return _cast_result(shaping.concatenate(_check_arrays(arrays), axis), dtype)


def concat(arrays: Arrays, /, *, axis: int | None = 0) -> Array:
    """Joins arrays along an existing axis.

    >>> concat([np.ones(1), np.zeros(2)]).tolist()
    [1.0, 0.0, 0.0]
    """
    return shaping.concatenate(_check_arrays(arrays), axis)


def stack(arrays: Arrays, axis: int = 0, out: None = None, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays of one shape along a new axis.

    >>> stack([np.arange(2), np.arange(2)]).shape
    (2, 2)
    """
    refuse_out(out)
    return _cast_result(shaping.stack(_check_arrays(arrays), axis), dtype)


def unstack(x: Operand, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, one after the other.

    >>> [row.tolist() for row in unstack(np.eye(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    a = returnable_operand(x)
    if not a.type.shape:
        raise ShapeError(f"unstack: a scalar has no axes, got {a.type!r}")
    return lax.unstack(a, axis)


def vstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays as rows: along the first axis, vectors as matrices of one row.

    >>> vstack([np.arange(2), np.arange(2)]).shape
    (2, 2)
    """
    return _cast_result(shaping.concatenate([atleast_2d(x) for x in _check_arrays(tup)], 0), dtype)


def hstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays along the second axis; vectors along the first.

    >>> hstack([np.arange(2), np.arange(2)]).shape
    (4,)
    """
    parts = [atleast_1d(x) for x in _check_arrays(tup)]
    return _cast_result(shaping.concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1), dtype)


def dstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Joins arrays along the third axis.

    >>> dstack([np.arange(2), np.arange(2)]).shape
    (1, 2, 2)
    """
    return _cast_result(shaping.concatenate([atleast_3d(x) for x in _check_arrays(tup)], 2), dtype)


def column_stack(tup: Arrays) -> Array:
    """Joins vectors as columns of a matrix; matrices as they are.

    >>> column_stack([np.arange(2), np.arange(2)]).tolist()
    [[0, 0], [1, 1]]
    """
    parts = _check_arrays(tup)
    return shaping.concatenate([atleast_2d(x).T if x.type.ndim < 2 else x for x in parts], 1)


def append(arr: Operand, values: Operand, axis: int | None = None) -> Array:
    """Joins values to the end of an array; as one axis without `axis`.

    >>> append(np.arange(2), 5).tolist()
    [0, 1, 5]
    """
    return shaping.concatenate([returnable_operand(arr), returnable_operand(values)], axis)


def _split_axis(ary: Operand, sections: Any, axis: int, equal: bool) -> list[Array]:
    a = returnable_operand(ary)
    resolved_axis = normalize_axis(axis, a.type.ndim, a.type)
    n = a.type.shape[resolved_axis]
    if not isinstance(sections, Iterable) or (isinstance(sections, Array | np.ndarray) and not sections.ndim):
        count = check_int("the number of sections", convert_whole_float(sections))
        if count <= 0:
            raise ShapeError(f"{name_user_call()}: the number of sections must be positive, got {count}")
        if equal and n % count:
            raise ShapeError(
                f"{name_user_call()}: axis {resolved_axis} of {a.type!r} does not divide into {count} equal sections"
            )
        small, extra = n // count, n % count
        cuts = [0]
        for i in range(count):
            cuts.append(cuts[-1] + small + (i < extra))
    else:
        marks = sections.host("sections").tolist() if isinstance(sections, Array) else list(sections)
        cuts = [0, *[check_int("an index", m) for m in marks], n]
    before = (slice(None),) * resolved_axis
    return [a[(*before, slice(low, high))] for low, high in pairwise(cuts)]


def split(ary: Operand, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cuts an array into equal sections, or before the given indices.

    Raises:
        ShapeError: the sections would not be equal.

    >>> [x.tolist() for x in split(np.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return _split_axis(ary, indices_or_sections, axis, True)


def array_split(ary: Operand, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cuts an array into sections as equal as they can be, the longer ones first.

    >>> [x.tolist() for x in array_split(np.arange(3), 2)]
    [[0, 1], [2]]
    """
    return _split_axis(ary, indices_or_sections, axis, False)


def hsplit(ary: Operand, indices_or_sections: Any) -> list[Array]:
    """Cuts along the second axis; vectors along the first.

    >>> [x.shape for x in hsplit(np.ones((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    a = atleast_1d(returnable_operand(ary))
    return _split_axis(a, indices_or_sections, 0 if a.ndim == 1 else 1, True)


def vsplit(ary: Operand, indices_or_sections: Any) -> list[Array]:
    """Cuts along the first axis.

    >>> [x.shape for x in vsplit(np.ones((2, 4)), 2)]
    [(1, 4), (1, 4)]
    """
    return _split_axis(ary, indices_or_sections, 0, True)


def dsplit(ary: Operand, indices_or_sections: Any) -> list[Array]:
    """Cuts along the third axis.

    >>> [x.shape for x in dsplit(np.ones((1, 1, 2)), 2)]
    [(1, 1, 1), (1, 1, 1)]
    """
    return _split_axis(ary, indices_or_sections, 2, True)


def delete(arr: Operand, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """The array without some indices of an axis.

    Args:
        arr: the array.
        obj: an int, a slice, or an array of indices or booleans; concrete, unless it is an int or the
            indices are promised to be different.
        axis: None for all elements as one axis.
        assume_unique_indices: True to promise that no index occurs twice, so that abstract indices determine
            the shape by their number.

    Raises:
        ConcretizationError: abstract indices without the promise.

    >>> delete(np.arange(4), 1).tolist()
    [0, 2, 3]
    """
    a, resolved_axis = shaping.flatten_without_axis(returnable_operand(arr), axis)
    all_indices = np.arange(a.type.shape[resolved_axis], dtype=np.int32)
    if isinstance(obj, Array) and obj.type.kind in "iu" and (assume_unique_indices or not obj.type.ndim):
        at = shaping.reshape(obj, -1)
        n = all_indices.size
        mask = make_filled((n,), True, dtypes.bool_).at[arithmetic.where(at < 0, at + n, at)].set(False)
        return indexing.take(a, nonzero(mask, size=n - at.type.size)[0], resolved_axis, "clip")
    chosen = obj.host("delete(obj=x)") if isinstance(obj, Array) else obj
    try:
        kept_indices = np.delete(all_indices, chosen)
    except IndexError as error:
        raise ShapeError(f"delete: {error}") from None
    return indexing.take(a, to_host_array(kept_indices), resolved_axis, "clip")
