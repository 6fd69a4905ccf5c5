"""Sorting, searching in sorted arrays, and counting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.indexing import positions
from effx.array.promotion import as_operand, broadcast_to, convert, promote_dtypes, scalar
from effx.array.shaping import normalize_axis
from effx.errors import ConcretizationError, DTypeError, ShapeError
from effx.families.sort import Sort
from effx.ir.ops.shape import Reverse
from effx.numpy.creation import as_int, constant, filled
from effx.transforms.jit import jit

if TYPE_CHECKING:
    from effx.array import Number, Operand

__all__ = ["argsort", "bincount", "digitize", "isin", "lexsort", "searchsorted", "sort", "unique"]


def sort(
    a: Operand,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """Sorted along an axis, NaN last.

    Args:
        a: the array.
        axis: None for all elements as one axis.
        kind, order: not supported.
        stable: whether equal elements keep their order.
        descending: True for the largest first.

    >>> sort(np.array([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    _no_kind("sort", kind, order)
    x = as_operand(a, "sort")
    if axis is None:
        x, axis = shaping.reshape(x, -1), 0
    place = normalize_axis("sort", axis, x.type.ndim, x.type)
    (result,) = Sort(place, stable)(x)
    return Reverse((place,))(result) if descending else result


def _no_kind(what: str, kind: object, order: object) -> None:
    if kind is not None or order is not None:
        raise DTypeError(f"{what}: kind and order are not supported; use stable=")


def argsort(
    a: Operand,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The indices that sort along an axis. Arguments as for `sort`.

    >>> argsort(np.array([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    _no_kind("argsort", kind, order)
    x = as_operand(a, "argsort")
    if axis is None:
        x, axis = shaping.reshape(x, -1), 0
    place = normalize_axis("argsort", axis, x.type.ndim, x.type)
    indices = positions(x.type.shape, place)
    if not descending:
        return Sort(place, stable)(x, indices)[1]
    # Sorting the reversed array and reversing the result keeps equal elements in order.
    flip = Reverse((place,))
    return flip(Sort(place, stable)(flip(x), flip(indices))[1])


def lexsort(keys: Sequence[Operand] | Array | np.ndarray[Any, Any], axis: int = -1) -> Array:
    """The indices that sort by several keys, the last key first.

    Args:
        keys: arrays of one shape.
        axis: the axis to sort along.

    >>> lexsort([np.array([2, 1, 1]), np.array([0, 1, 0])]).tolist()
    [2, 0, 1]
    """
    parts = [as_operand(key, "lexsort") for key in keys]
    if not parts:
        raise ShapeError("lexsort: needs at least one key")
    t = parts[0].type
    if not t.shape:
        return scalar(0, dtypes.canonicalize(int), False)
    place = normalize_axis("lexsort", axis, t.ndim, t)
    return Sort(place, True, len(parts))(*reversed(parts), positions(t.shape, place))[-1]


def _less(a: Array, b: Array) -> Array:
    # NaN counts as largest, as in sorting.
    return (a < b) | ((a == a) & (b != b)) if a.type.kind == "f" else a < b


@jit(static_argnames=("right",), inline=True)
def _search(a: Array, v: Array, right: bool) -> Array:
    """The index of each v in a, by bisection, with a static number of steps."""
    n = a.type.size
    dtype = dtypes.int32 if n < 2**31 else dtypes.canonicalize(int)
    low = broadcast_to(scalar(0, dtype, False), v.type.shape)
    high = broadcast_to(scalar(n, dtype, False), v.type.shape)
    for _ in range(n.bit_length()):
        middle = arithmetic.right_shift(low + high, 1)
        element = indexing.take(a, middle, 0, "clip")
        go_right = arithmetic.NOT(_less(v, element)) if right else _less(element, v)
        go_right = go_right & (low < high)
        low, high = arithmetic.where(go_right, middle + 1, low), arithmetic.where(go_right, high, middle)
    return convert(low, dtypes.canonicalize(int))


def searchsorted(
    a: Operand, v: Operand, side: str = "left", sorter: Operand | None = None, *, method: str = "scan"
) -> Array:
    """The indices at which values would be inserted in a sorted vector.

    Args:
        a: sorted, NaN last.
        v: values of any shape.
        side: "left" for the index before equal elements, "right" for the one after.
        sorter: indices that sort `a`.
        method: ignored: bisection always.

    >>> searchsorted(np.array([1, 2, 3]), np.array([2, 5])).tolist()
    [1, 3]
    """
    if side not in ("left", "right"):
        raise DTypeError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    x = as_operand(a, "searchsorted")
    if x.type.ndim != 1:
        raise ShapeError(f"searchsorted: takes a sorted vector, got {x.type!r}")
    if sorter is not None:
        x = indexing.take(x, as_operand(sorter, "searchsorted"), 0, "clip")
    x, values = promote_dtypes(x, as_operand(v, "searchsorted"))
    if not x.type.size:
        return filled(values.type.shape, 0, dtypes.canonicalize(int))
    return _search(x, values, side == "right")


def digitize(x: Operand, bins: Operand, right: bool = False) -> Array:
    """The bin of each number: i where `bins[i-1] <= x < bins[i]`.

    Args:
        x: numbers.
        bins: rising or falling edges.
        right: True where a bin holds its upper edge and not its lower one.

    >>> digitize(np.array([0.5, 2.5]), np.array([1.0, 2.0])).tolist()
    [0, 2]
    """
    edges = as_operand(bins, "digitize")
    if edges.type.ndim != 1:
        raise ShapeError(f"digitize: bins must be a vector, got {edges.type!r}")
    if not edges.type.size:
        return filled(as_operand(x, "digitize").type.shape, 0, dtypes.canonicalize(int))
    rising = searchsorted(edges, x, "left" if right else "right")
    falling = edges.type.size - searchsorted(edges[::-1], x, "right" if right else "left")
    return arithmetic.where(edges[-1] >= edges[0], rising, falling)


def bincount(
    x: Operand, weights: Operand | None = None, minlength: int = 0, *, length: int | None = None
) -> Array:
    """How often each non-negative integer occurs.

    Args:
        x: `i32[n]`; negative numbers count as 0.
        weights: what each occurrence counts, by default 1.
        minlength: the least size of the result.
        length: the size of the result, so that `x` may be abstract; larger numbers are left out.

    >>> bincount(np.array([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    a = as_operand(x, "bincount")
    if a.type.kind not in "biu" or a.type.ndim != 1:
        raise DTypeError(f"bincount: takes a vector of integers, got {a.type!r}")
    if length is None:
        try:
            data = a.host("bincount(x)")
        except ConcretizationError as error:
            raise ConcretizationError(
                f"bincount: the shape would depend on the values of the abstract {a.type!r}; give length="
            ) from error
        length = max(as_int("bincount", "minlength", minlength), int(data.max()) + 1 if data.size else 0)
    integer = dtypes.canonicalize(int)
    counted = scalar(1, integer, False) if weights is None else as_operand(weights, "bincount")
    if counted.type.shape not in ((), a.type.shape):
        raise ShapeError(f"bincount: weights {counted.type!r} do not fit {a.type!r}")
    zeros = filled((length,), 0, counted.type.dtype)
    return zeros.at[arithmetic.maximum(convert(a, integer), 0)].add(counted, mode="drop")


def unique(
    ar: Operand,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Number | None = None,
) -> Any:
    """The distinct elements of a concrete array, sorted.

    Args:
        ar: the array.
        return_index: True to return the index of each one's first occurrence too.
        return_inverse: True to return for each element its index in the result too.
        return_counts: True to return how often each occurs too.
        axis: None for all elements as one axis; otherwise distinct slices.
        equal_nan: False to count each NaN as distinct.
        size: how many to return: truncated or padded.
        fill_value: the padding for `size`; by default the smallest element.

    Returns:
        The distinct elements, or a tuple that starts with them.

    Raises:
        ConcretizationError: the array is abstract.

    >>> unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    a = as_operand(ar, "unique")
    try:
        data = a.host("unique(x)")
    except ConcretizationError as error:
        raise ConcretizationError(
            f"unique: the number of distinct elements of the abstract {a.type!r} is not known while it is traced"
        ) from error
    raw = data.astype(np.float32) if data.dtype.kind == "V" else data
    found = list(np.unique(raw, True, True, True, axis, equal_nan=equal_nan))
    along = 0 if axis is None else normalize_axis("unique", axis, data.ndim, a.type)
    if size is not None:
        missing = size - found[0].shape[along]
        for i, part, where in ((0, found[0], along), (1, found[1], 0), (3, found[3], 0)):
            cut = np.take(part, np.arange(min(size, part.shape[where])), where)
            if missing > 0:
                first = (
                    np.take(part, [0] * missing, where)
                    if part.shape[where]
                    else np.zeros((missing,), part.dtype)
                )
                fill = (
                    np.zeros_like(first)
                    if i == 3
                    else first
                    if i == 1 or fill_value is None
                    else np.full_like(first, fill_value)
                )
                cut = np.concatenate([cut, fill], where)
            found[i] = cut
    integer = dtypes.canonicalize(int)
    wanted = (True, return_index, return_inverse, return_counts)
    results = tuple([
        constant(np.asarray(part).astype(data.dtype if i == 0 else integer), data.dtype if i == 0 else integer)
        for i, part in enumerate(found) if wanted[i]
    ])  # fmt: skip
    return results[0] if len(results) == 1 else results


def isin(
    element: Operand, test_elements: Operand, assume_unique: bool = False, invert: bool = False
) -> Array:
    """Whether each element occurs among others.

    >>> isin(np.arange(3), np.array([1, 5])).tolist()
    [False, True, False]
    """
    x, others = promote_dtypes(as_operand(element, "isin"), as_operand(test_elements, "isin"))
    others = shaping.reshape(others, -1)
    if not others.type.size:
        return filled(x.type.shape, invert, dtypes.bool_)
    beside = shaping.reshape(others, (1,) * x.type.ndim + (-1,))
    found = reducing.any(shaping.expand_dims(x, -1) == beside, -1)
    return arithmetic.NOT(found) if invert else found
