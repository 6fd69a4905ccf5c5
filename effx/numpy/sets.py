"""Sets of elements: the distinct ones of an array, and what two arrays have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.indexing import iota_along_axis
from effx.array.promotion import as_operand, convert, promote_dtypes
from effx.array.shaping import normalize_axis
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.families.sort import Sort
from effx.lax.operands import check_count
from effx.numpy.creation import make_constant, make_filled
from effx.numpy.indexing import nonzero
from effx.numpy.known import known_data
from effx.numpy.sorting import searchsorted, sort

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from effx.array import Operand

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip


# Without a `size`, sets of concrete arrays are NumPy's on the host.
def _check_concrete(*arrays: Array) -> list[np.ndarray[Any, Any]]:
    for x in arrays:
        if dtypes.is_key(x.type.dtype):
            raise DTypeError(f"{name_user_call()}: random keys have no order, got {x.type!r}")
    unknown = "the number of distinct elements of the abstract {} is not known while it is traced; give size="
    return [known_data(x, unknown) for x in arrays]


def _differs_from_previous(x: Array, y: Array, equal_nan: bool = True) -> Array:
    both = (x != x) & (y != y)
    return (x != y) & arithmetic.NOT(both) if equal_nan and x.type.kind in "fc" else x != y


def _run_starts(ordered: list[Array], equal_nan: bool = True) -> Array:
    """Marks the first of each run of equal entries in columns that are sorted together."""
    n = ordered[0].type.shape[0]
    marks = make_filled((max(n - 1, 0),), False, dtypes.bool_)
    for column in ordered:
        marks = marks | _differs_from_previous(column[1:], column[:-1], equal_nan)
    return shaping.concatenate([make_filled((min(n, 1),), True, dtypes.bool_), marks], 0)


def _pad_missing(values: Array, is_present: Array, fill_value: Operand | None) -> Array:
    """Fills the rest of the result after the elements that were found: with a value, the first of them, or 0."""
    if 0 in values.type.shape:
        return values
    mask = shaping.reshape(is_present, (-1,) + (1,) * (values.type.ndim - 1))
    if fill_value is None:
        fill = arithmetic.where(mask[:1], values[:1], convert(as_operand(0), values.type.dtype))
    else:
        fill = convert(as_operand(fill_value), values.type.dtype)
    return arithmetic.where(mask, values, fill)


def _masked_indices(mask: Array, size: int) -> tuple[Array, Array]:
    """Returns the indices that a mask marks, padded with the first, and which of them are none of the padding."""
    n = mask.type.size
    (at,) = nonzero(mask, size=size, fill_value=n)
    return arithmetic.where(at < n, at, at[:1]), at < n


def _unique_of_size(
    x: Array, size: int, fill_value: Operand | None, equal_nan: bool, ordering: bool
) -> tuple[Array, Array, Array, Array]:
    """The distinct slices along the first axis, their counts, first index and inverse, for a given size.

    Without `ordering` the last two are not needed: then only the elements are sorted, where that is possible.

    A sort and a search for the starts of runs, so that it runs inside `jit` and `vmap`.
    """
    n, integer = x.type.shape[0], dtypes.canonicalize(int)
    if not n:
        if size and fill_value is None:
            raise ShapeError(f"unique: {x.type!r} has no element to fill {size} with; give fill_value=")
        values = make_filled((size, *x.type.shape[1:]), 0, x.type.dtype)
        none = make_filled((size,), 0, integer)
        return _pad_missing(values, none != 0, fill_value), none, none, make_filled((0,), 0, integer)
    alone = x.type.ndim == 1 and not ordering
    order = iota_along_axis((n,), 0)
    if alone:
        ordered = list(Sort(0, True)(x))
    else:
        rows = shaping.reshape(x, (n, -1))
        columns = [rows[:, i] for i in range(rows.type.shape[1])] or [make_filled((n,), 0, integer)]
        *ordered, order = Sort(0, True, len(columns))(*columns, convert(order, integer))
    starts = _run_starts(ordered, equal_nan)
    (runs,) = nonzero(starts, size=size + 1, fill_value=n)  # and the end of the last one
    counts = runs[1:] - runs[:-1]
    is_present = runs[:-1] < n
    at = arithmetic.where(is_present, runs[:-1], 0)
    if alone:
        return _pad_missing(indexing.take(ordered[0], at, 0, "clip"), is_present, fill_value), counts, at, at
    index = indexing.take(order, at, 0, "clip")
    values = _pad_missing(indexing.take(x, index, 0, "clip"), is_present, fill_value)
    group = convert(reducing.cumsum(starts), integer) - 1
    return values, counts, index, make_filled((n,), 0, integer).at[order].set(group, unique_indices=True)


def unique(
    ar: Operand,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Operand | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements of an array, sorted.

    Args:
        ar: the array; concrete unless `size` is given.
        return_index: True to return the index of each one's first occurrence too.
        return_inverse: True to return for each element its index in the result too, in the array's shape.
        return_counts: True to return how often each occurs too.
        axis: None for all elements as one axis; otherwise distinct slices.
        equal_nan: False to count each NaN as distinct.
        size: how many to return: truncated or padded. The counts of the padding are 0.
        fill_value: the padding for `size`; by default the smallest element.
        sorted: False permits any order; the order is the sorted one then too.

    Returns:
        The distinct elements, or a tuple that starts with them.

    Raises:
        ConcretizationError: the array is abstract, and `size` is not given.
        ShapeError: the array has no element to fill `size` with.

    >>> unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    >>> unique(np.array([3, 1, 3]), return_counts=True, size=3, fill_value=0)[1].tolist()
    [1, 2, 0]
    """
    a = as_operand(ar)
    along = 0 if axis is None else normalize_axis(axis, a.type.ndim, a.type)
    if size is not None:
        x = shaping.reshape(a, -1) if axis is None else shaping.moveaxis(a, along, 0)
        values, counts, index, inverse = _unique_of_size(
            x, check_count("size", size), fill_value, equal_nan, return_index or return_inverse
        )
        if return_inverse and axis is None:
            inverse = shaping.reshape(inverse, a.type.shape)
        items = [shaping.moveaxis(values, 0, along), index, inverse, counts]
    else:
        (data,) = _check_concrete(a)
        raw = data.astype(np.float32) if data.dtype.kind == "V" else data
        parts = np.unique(raw, True, True, True, axis, equal_nan=equal_nan)
        integer = dtypes.canonicalize(int)
        items = [make_constant(parts[0].astype(data.dtype), a.type.dtype)]
        items += [make_constant(np.asarray(part).astype(integer), integer) for part in parts[1:]]
    requested = (True, return_index, return_inverse, return_counts)
    results = tuple([part for part, is_requested in zip(items, requested, strict=True) if is_requested])
    return results[0] if len(results) == 1 else results


class UniqueAll(NamedTuple):
    """The distinct values, their first indices, the inverse and the counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The distinct values and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The distinct values, and the index of each element among them."""

    values: Array
    inverse_indices: Array


def unique_all(x: Operand, /, *, size: int | None = None, fill_value: Operand | None = None) -> UniqueAll:
    """The distinct elements, their first indices, the inverse and the counts; each NaN is distinct.

    >>> unique_all(np.array([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(
    x: Operand, /, *, size: int | None = None, fill_value: Operand | None = None
) -> UniqueCounts:
    """The distinct elements and how often each occurs; each NaN is distinct.

    >>> unique_counts(np.array([3, 1, 3])).values.tolist()
    [1, 3]
    """
    unique_results = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCounts(*unique_results)


def unique_inverse(
    x: Operand, /, *, size: int | None = None, fill_value: Operand | None = None
) -> UniqueInverse:
    """The distinct elements, and for each element its index among them; each NaN is distinct.

    >>> unique_inverse(np.array([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    unique_results = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverse(*unique_results)


def unique_values(x: Operand, /, *, size: int | None = None, fill_value: Operand | None = None) -> Array:
    """The distinct elements, sorted; each NaN is distinct.

    >>> unique_values(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    result: Array = unique(x, equal_nan=False, size=size, fill_value=fill_value)
    return result


_METHODS = ("auto", "compare_all", "binary_search", "sort")
# Up to this many comparisons, comparing all pairs is faster than sorting.
_PAIRS = 1 << 16


def isin(
    element: Operand,
    test_elements: Operand,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element occurs among others.

    Args:
        element: the elements, of any shape.
        test_elements: the elements to look for.
        assume_unique: permitted for NumPy's sake; no method gains by it.
        invert: True for whether it does not occur.
        method: "compare_all" compares all pairs; "binary_search" and "sort" both sort the others and look for
            each element by bisection; "auto" chooses by the number of pairs.

    Raises:
        DTypeError: another method.

    >>> isin(np.arange(3), np.array([1, 5])).tolist()
    [False, True, False]
    """
    if method not in _METHODS:
        raise OptionError(f"isin: method must be one of {', '.join(_METHODS)}, got {method!r}")
    x, others = promote_dtypes(as_operand(element), as_operand(test_elements))
    others = shaping.reshape(others, -1)
    if 0 in others.type.shape:
        return make_filled(x.type.shape, invert, dtypes.bool_)
    pairs = x.type.size * others.type.size
    if method == "compare_all" or (method == "auto" and pairs <= _PAIRS) or x.type.kind == "c":
        beside = shaping.reshape(others, (1,) * x.type.ndim + (-1,))
        is_member = reducing.any(shaping.expand_dims(x, -1) == beside, -1)
    else:
        ordered = sort(others)
        is_member = indexing.take(ordered, searchsorted(ordered, x), 0, "clip") == x
    return arithmetic.NOT(is_member) if invert else is_member


def _check_two_vectors(ar1: Operand, ar2: Operand) -> tuple[Array, Array]:
    x, y = promote_dtypes(as_operand(ar1), as_operand(ar2))
    return shaping.reshape(x, -1), shaping.reshape(y, -1)


def _compute_on_host(
    function: Callable[..., NDArray[np.generic]], x: Array, y: Array, **options: bool
) -> Array:
    """Returns what a function of NumPy gives for concrete elements."""
    first, second = _check_concrete(x, y)
    host_result = function(first, second, **options)
    return make_constant(host_result.astype(first.dtype), x.type.dtype)


class _MergedElements(NamedTuple):
    """The elements of two arrays x and y, sorted together; equal ones are a run.

    Attributes:
        values: the elements.
        origin: the index of each in x and y, one behind the other.
        group: the number of each one's run.
        in_x, in_y: True for the first of a run that has an element of x, or of y.
    """

    values: Array
    origin: Array
    group: Array
    in_x: Array
    in_y: Array


def _merge_sorted(x: Array, y: Array) -> _MergedElements:
    n, m = x.type.size, y.type.size
    integer = dtypes.int32
    together = shaping.concatenate([x, y], 0)
    values, origin = Sort(0, True)(together, iota_along_axis((n + m,), 0))
    starts = _run_starts([values])
    group = convert(reducing.cumsum(starts), integer) - 1
    none = make_filled((n + m,), 0, integer)
    in_x = none.at[group].add(convert(origin < n, integer))[group] > 0
    in_y = none.at[group].add(convert(origin >= n, integer))[group] > 0
    return _MergedElements(values, origin, group, starts & in_x, starts & in_y)


def _gather_padded(values: Array, at: Array, is_present: Array, fill_value: Operand | None) -> Array:
    if 0 in values.type.shape:
        return _pad_missing(make_filled(at.type.shape, 0, values.type.dtype), is_present, fill_value)
    return _pad_missing(indexing.take(values, at, 0, "clip"), is_present, fill_value)


def _take_masked(values: Array, mask: Array, size: int, fill_value: Operand | None) -> Array:
    at, is_present = _masked_indices(mask, check_count("size", size))
    return _gather_padded(values, at, is_present, fill_value)


def intersect1d(
    ar1: Operand,
    ar2: Operand,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Operand | None = None,
) -> Any:
    """The distinct elements that two arrays have in common, sorted.

    Args:
        ar1, ar2: the arrays; concrete unless `size` is given.
        assume_unique: a promise that no array has an element twice; the result is the same.
        return_indices: True to return their first indices in both arrays too.
        size: how many to return: truncated or padded.
        fill_value: the padding of the elements for `size`; by default the smallest. The padding of indices is
            the size of the array.

    Returns:
        The elements; with `return_indices` a tuple of elements and two arrays of indices.

    Raises:
        ConcretizationError: an array is abstract, and `size` is not given.

    >>> intersect1d(np.array([3, 1, 2]), np.array([2, 3, 5])).tolist()
    [2, 3]
    """
    x, y = _check_two_vectors(ar1, ar2)
    if size is None:
        first, second = _check_concrete(x, y)
        integer = dtypes.canonicalize(int)
        shared, *indices = np.intersect1d(first, second, assume_unique, return_indices=True)
        elements = make_constant(shared.astype(first.dtype), x.type.dtype)
        if not return_indices:
            return elements
        return (elements, *[make_constant(i.astype(integer), integer) for i in indices])
    values, origin, group, in_x, in_y = _merge_sorted(x, y)
    at, is_present = _masked_indices(in_x & in_y, check_count("size", size))
    result = _gather_padded(values, at, is_present, fill_value)
    if not return_indices:
        return result
    n, m, integer = x.type.size, y.type.size, dtypes.canonicalize(int)
    # The sort is stable: x's first occurrence starts the run, and y's is its first element that is not below n.
    firsts = (
        make_filled((n + m,), n + m, dtypes.int32).at[group].min(arithmetic.where(origin >= n, origin, n + m))
    )
    in_first = arithmetic.where(is_present, indexing.take(origin, at, 0, "clip"), n)
    in_second = arithmetic.where(is_present, indexing.take(firsts[group], at, 0, "clip") - n, m)
    return result, convert(in_first, integer), convert(in_second, integer)


def union1d(
    ar1: Operand, ar2: Operand, *, size: int | None = None, fill_value: Operand | None = None
) -> Array:
    """The distinct elements of two arrays, sorted.

    Args:
        ar1, ar2: the arrays; concrete unless `size` is given.
        size: how many to return: truncated or padded.
        fill_value: the padding for `size`; by default the smallest element.

    Raises:
        ConcretizationError: an array is abstract, and `size` is not given.

    >>> union1d(np.array([3, 1]), np.array([1, 2])).tolist()
    [1, 2, 3]
    """
    x, y = _check_two_vectors(ar1, ar2)
    if size is None:
        return _compute_on_host(np.union1d, x, y)
    result: Array = unique(shaping.concatenate([x, y], 0), size=size, fill_value=fill_value)
    return result


def setdiff1d(
    ar1: Operand,
    ar2: Operand,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Operand | None = None,
) -> Array:
    """The distinct elements of an array that another does not have, sorted.

    Args:
        ar1: the array; concrete unless `size` is given.
        ar2: what is left out.
        assume_unique: a promise that no array has an element twice: the result has the order of `ar1` then.
        size: how many to return: truncated or padded.
        fill_value: the padding for `size`; 0 by default.

    Raises:
        ConcretizationError: an array is abstract, and `size` is not given.

    >>> setdiff1d(np.array([3, 1, 2, 3]), np.array([2])).tolist()
    [1, 3]
    """
    x, y = [shaping.reshape(as_operand(z), -1) for z in (ar1, ar2)]
    promote_dtypes(x, y)  # refuses dtypes that do not compare; the result has that of x
    if size is None:
        first, second = _check_concrete(x, y)
        return make_constant(np.setdiff1d(first, second, assume_unique).astype(first.dtype), x.type.dtype)
    fill = 0 if fill_value is None else fill_value
    if assume_unique:
        return _take_masked(x, isin(x, y, invert=True), size, fill)
    if x.type.dtype != y.type.dtype:
        ordered = sort(x)
        before, after = ordered[:-1], ordered[1:]
        is_first = shaping.concatenate(
            [ordered[:1] == ordered[:1], (before != after) & (before == before)], 0
        )
        return _take_masked(ordered, is_first & isin(ordered, y, invert=True), size, fill)
    merged = _merge_sorted(x, y)
    return _take_masked(merged.values, merged.in_x & arithmetic.NOT(merged.in_y), size, fill)


def setxor1d(
    ar1: Operand,
    ar2: Operand,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Operand | None = None,
) -> Array:
    """The distinct elements that only one of two arrays has, sorted.

    Args:
        ar1, ar2: the arrays; concrete unless `size` is given.
        assume_unique: a promise that no array has an element twice; the result is the same.
        size: how many to return: truncated or padded.
        fill_value: the padding for `size`; by default the smallest.

    Raises:
        ConcretizationError: an array is abstract, and `size` is not given.

    >>> setxor1d(np.array([3, 1]), np.array([1, 2])).tolist()
    [2, 3]
    """
    x, y = _check_two_vectors(ar1, ar2)
    if size is None:
        return _compute_on_host(np.setxor1d, x, y, assume_unique=bool(assume_unique))
    merged = _merge_sorted(x, y)
    return _take_masked(merged.values, merged.in_x != merged.in_y, size, fill_value)
