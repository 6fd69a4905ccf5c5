"""Reading by index, and the indices of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.indexing import iota_along_axis
from effx.array.promotion import as_operand, convert, promote_dtypes
from effx.array.reducing import refuse_out
from effx.errors import DTypeError, IndexingError, ShapeError
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.values.scalars import int_range, scalar
from effx.lax.operands import check_int
from effx.numpy.creation import make_constant, make_filled
from effx.numpy.known import bound_indices, known_data

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.dtypes import DTypeLike

__all__ = [
    "argwhere", "compress", "extract", "flatnonzero", "nonzero", "ravel_multi_index", "take",
    "take_along_axis", "unravel_index",
]  # fmt: skip


def take(
    a: Operand,
    indices: Operand,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Operand | None = None,
) -> Array:
    """Elements along an axis by index.

    Args:
        a: the array.
        indices: integers; negative ones count from the end, but for mode "clip".
        axis: None for all elements as one axis.
        out: not supported.
        mode: outside the bounds: "fill" (the default) gives NaN or the dtype's extreme, "clip" the nearest
            element, the first one for negative indices, "wrap" counts modulo the size.
        unique_indices, indices_are_sorted: promises, which XLA may use.
        fill_value: for mode "fill".

    >>> take(np.arange(3) * 10, np.array([2, 0])).tolist()
    [20, 0]
    """
    refuse_out(out)
    x, which = as_operand(a), as_operand(indices)
    return indexing.take(
        x, which, axis, mode, fill_value, ordered=bool(indices_are_sorted), unique=bool(unique_indices)
    )


def take_along_axis(
    arr: Operand,
    indices: Operand,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Operand | None = None,
    *,
    wrap_negative_indices: bool = True,
) -> Array:
    """Elements along one axis, by an array of indices that is aligned with the other axes.

    Args:
        arr: the array.
        indices: integers, of as many axes.
        axis: None for all elements as one axis.
        mode: outside the bounds: "fill" (the default), "clip", "wrap", or "one_hot", which gives zeros, as a product
            with a one-hot matrix would.
        fill_value: for mode "fill"; NaN or the dtype's extreme by default.
        wrap_negative_indices: False where negative indices are outside of the bounds.

    >>> take_along_axis(np.array([[3, 1]]), np.array([[1, 0]]), 1).tolist()
    [[1, 3]]
    """
    return indexing.take_along_axis(as_operand(arr), indices, axis, mode, fill_value, wrap_negative_indices)


def _check_mask(a: Operand) -> Array:
    x = as_operand(a)
    return x if x.type.kind == "b" else x != 0


_SHAPE_UNKNOWN = (
    "the shape would depend on the values of the abstract {}; "
    "give size=, or use the mask itself in effx.numpy.where"
)


def nonzero(a: Operand, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of elements that are not 0, one array for each axis.

    Args:
        a: the array; concrete unless `size` is given.
        size: how many indices to return.
        fill_value: pads the indices up to `size`, 0 by default; or one for each axis.

    Raises:
        ConcretizationError: `a` is abstract and `size` is not given.

    >>> nonzero(np.array([0, 5, 6]))[0].tolist()
    [1, 2]
    """
    x = as_operand(a)
    if not x.type.shape:
        raise ShapeError(f"nonzero: takes arrays with axes, got {x.type!r}; use atleast_1d")
    mask = _check_mask(x)
    integer = dtypes.canonicalize(int)
    if size is None:
        return tuple(
            [make_constant(i.astype(integer), integer) for i in np.nonzero(known_data(mask, _SHAPE_UNKNOWN))]
        )
    count = check_int("size", size)
    flat = shaping.reshape(mask, -1)
    n = flat.type.size
    # The k-th true element writes its index to k - 1; the others write out of bounds.
    rank = reducing.cumsum(flat) - 1
    target = arithmetic.where(flat, rank, scalar(count, integer))
    element_indices = make_filled((count,), n, integer).at[target].set(iota_along_axis((n,), 0), mode="drop")
    fills = fill_value if isinstance(fill_value, tuple | list) else (fill_value or 0,) * x.type.ndim
    results = []
    stride = n
    for length, fill in zip(x.type.shape, fills, strict=True):
        stride //= max(length, 1)
        along = arithmetic.remainder(arithmetic.floor_divide(element_indices, max(stride, 1)), max(length, 1))
        results.append(arithmetic.where(element_indices == n, convert(as_operand(fill), integer), along))
    return tuple(results)


def flatnonzero(a: Operand, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of elements that are not 0, among all elements as one axis.

    >>> flatnonzero(np.array([[0, 5], [6, 0]])).tolist()
    [1, 2]
    """
    return nonzero(shaping.reshape(as_operand(a), -1), size=size, fill_value=fill_value)[0]


def argwhere(a: Operand, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of elements that are not 0, one row for each.

    >>> argwhere(np.eye(2)).tolist()
    [[0, 0], [1, 1]]
    """
    x = as_operand(a)
    if not x.type.shape:
        count = len(nonzero(shaping.reshape(x, 1), size=size)[0])
        return make_filled((count, 0), 0, dtypes.canonicalize(int))
    return shaping.stack(nonzero(x, size=size, fill_value=fill_value), -1)


def compress(
    condition: Operand,
    a: Operand,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Operand = 0,
    out: None = None,
) -> Array:
    """The slices along an axis where a condition holds.

    Args:
        condition: a vector, concrete unless `size` is given; the longer one of it and the axis is cropped.
        a: the array.
        axis: None for all elements as one axis.
        size: how many slices to return: cropped or padded.
        fill_value: the padding for `size`.
        out: not supported.

    Raises:
        ConcretizationError: the condition is abstract, and `size` is not given.
        IndexingError: the condition holds beyond the axis.

    >>> compress(np.array([False, True]), np.array([3, 4])).tolist()
    [4]
    """
    refuse_out(out)
    mask = _check_mask(condition)
    if mask.type.ndim != 1:
        raise ShapeError(f"compress: the condition must be a vector, got {mask.type!r}")
    x = as_operand(a)
    if axis is None:
        x, axis = shaping.reshape(x, -1), 0
    along = shaping.normalize_axis(axis, x.type.ndim, x.type)
    n = x.type.shape[along]
    if size is not None:
        (at,) = nonzero(mask[:n], size=size, fill_value=n)
        selected = indexing.take(x, at, along, "clip")
        inside = shaping.reshape(at < n, (-1,) + (1,) * (x.type.ndim - along - 1))
        return arithmetic.where(inside, selected, convert(as_operand(fill_value), x.type.dtype))
    chosen = np.nonzero(known_data(mask, _SHAPE_UNKNOWN))[0]
    if chosen.size and chosen[-1] >= n:
        raise IndexingError(f"compress: index {chosen[-1]} is out of range for axis {axis} of {x.type!r}")
    return indexing.take(x, chosen.astype(np.int32), axis, "clip")


def extract(condition: Operand, arr: Operand, *, size: int | None = None, fill_value: Operand = 0) -> Array:
    """The elements where a condition holds. Arguments as for `compress`.

    >>> extract(np.array([False, True]), np.array([3, 4])).tolist()
    [4]
    """
    mask = shaping.reshape(_check_mask(condition), -1)
    return compress(mask, arr, size=size, fill_value=fill_value)


def _abstract_sizes(shape: Operand | Sequence[Operand]) -> list[Array] | None:
    """Returns a shape as arrays if one of its sizes is abstract."""
    is_vector = isinstance(shape, list | tuple) or (isinstance(shape, Array) and shape.ndim > 0)
    sizes = cast("list[Operand]", list(cast("Sequence[Operand]", shape)) if is_vector else [shape])
    if not any([isinstance(n, Array) and n.frame is not None for n in sizes]):
        return None
    arrays = promote_dtypes(*[as_operand(n) for n in sizes])
    for n in arrays:
        if n.type.kind not in "iu" or n.type.shape:
            raise ShapeError(f"unravel_index: a size must be an integer of rank 0, got {n.type!r}")
    return arrays


def unravel_index(indices: Operand, shape: Any) -> tuple[Array, ...]:
    """The indices on each axis of flat indices.

    Args:
        indices: integers; negative ones count from the end, and those out of bounds are clipped.
        shape: sizes, which may be abstract.

    >>> [int(i) for i in unravel_index(5, (2, 3))]
    [1, 2]
    """
    rest = as_operand(indices)
    abstract_sizes = _abstract_sizes(shape)
    sizes: Sequence[Operand]
    total: Operand
    last: Operand
    if abstract_sizes is None:
        sizes = known_sizes = shaping.to_shape(shape)
        count = math.prod(known_sizes)
        total, last = count, max(count - 1, 0)
    else:
        if abstract_sizes[0].type.weak:  # as Python's ints
            abstract_sizes = [convert(n, rest.type.dtype) for n in abstract_sizes]
        sizes = abstract_sizes
        total = reducing.prod(shaping.stack(abstract_sizes), dtype=abstract_sizes[0].type.dtype)
        last = arithmetic.maximum(total - 1, 0)
    rest = arithmetic.where(rest < 0, rest + total, rest)
    # Indices out of bounds are clipped.
    rest = arithmetic.clip(rest, 0, last)
    results: list[Array] = []
    for n in reversed(sizes):
        results.append(arithmetic.remainder(rest, n))
        rest = arithmetic.floor_divide(rest, n)
    return tuple(reversed(results))


def ravel_multi_index(
    multi_index: Sequence[Operand],
    dims: Any,
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The flat indices of indices on each axis.

    Args:
        multi_index: one integer array for each axis.
        dims: the shape.
        mode: for indices out of bounds: "raise", which needs concrete ones, "clip", "wrap", or "ignore" if there are none.
        order: "C" where the last axis is counted first, "F" where the first is.
        dtype: of the result; by default that of the indices, where the largest index of the shape fits.

    Raises:
        DTypeError: the dtype is no integer one, or does not hold the largest index of the shape.
        IndexingError: an index out of bounds, with mode "raise".
        ConcretizationError: abstract indices, with mode "raise".

    >>> int(ravel_multi_index((1, 2), (2, 3)))
    5
    """
    sizes = shaping.to_shape(dims)
    if len(multi_index) != len(sizes):
        raise ShapeError(f"ravel_multi_index: {len(multi_index)} indices for {len(sizes)} axes")
    if mode not in ("raise", "clip", "wrap", "ignore") or order not in ("C", "F"):
        raise IndexingError(
            f"ravel_multi_index: mode must be 'raise', 'clip', 'wrap' or 'ignore' and order 'C' or 'F', "
            f"got {mode!r} and {order!r}"
        )
    arrays = [as_operand(indices) for indices in multi_index]
    result_dtype = dtypes.result_type(int, *arrays) if dtype is None else dtypes.canonicalize_requested(dtype)
    if not dtypes.is_integer(result_dtype):
        raise DTypeError(f"ravel_multi_index: the dtype must be an integer one, got {result_dtype}")
    largest = math.prod(sizes) - 1
    if not is_symbolic(largest) and largest > int_range(result_dtype)[1]:
        raise DTypeError(
            f"ravel_multi_index: {result_dtype} does not hold the index {largest} of shape {list(sizes)}; give a wider dtype"
        )
    result: Array = scalar(0, result_dtype, weak=False)
    pairs = list(zip(arrays, sizes, strict=True))
    for axis, (i, n) in enumerate(pairs if order == "C" else reversed(pairs)):
        outside = f"out of bounds for axis {axis} of size {n}"
        inside = i if mode == "ignore" else bound_indices(i, n, mode, "coordinates array", outside)
        result = result * n + convert(inside, result_dtype)
    return result
