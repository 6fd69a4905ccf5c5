"""Segment reductions: combine the rows with equal segment numbers (`segment_sum`).

An element's segment is given by its number, not by its position, so segments need not be contiguous.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from effx import dtypes
from effx.array import Array, Number, Operand, arithmetic, indexing, reducing
from effx.array.promotion import as_operand, to_host_array
from effx.array.shaping import concatenate, reshape
from effx.errors import ConcretizationError, DTypeError, ShapeError
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.types import Shape, highest_value, lowest_value
from effx.ir.values.scalars import scalar
from effx.lax.control.associative import associative_scan
from effx.lax.index import GatherScatterMode
from effx.lax.operands import check_int
from effx.lazy import list_names
from effx.numpy.sorting import argsort
from effx.transforms.autodiff.core import jvp
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
__dir__ = list_names(__all__)

REDUCTIONS: dict[str, Callable[[Array, int], Array]] = {
    "add": reducing.sum, "mul": reducing.prod, "max": reducing.max, "min": reducing.min,
}  # fmt: skip

Mode = str | GatherScatterMode | None


def _neutral_element(reduction: str, x: Array) -> Number:
    """Returns the value of a segment without elements, for `segment_sum` and the others."""
    kind = x.type.kind
    if reduction in ("segment_sum", "segment_prod"):
        if kind == "b":
            raise DTypeError(f"{reduction}: takes numbers, got {x.type!r}; use segment_max or segment_min")
        return int(reduction == "segment_prod")
    if kind == "c":
        raise DTypeError(f"{reduction}: complex numbers have no order, got {x.type!r}")
    return lowest_value(x.type) if reduction == "segment_max" else highest_value(x.type)


def _reduce_segments(
    function: Callable[..., Array],
    combiner: str,
    data: Operand,
    segment_ids: Operand,
    num_segments: int | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: int | None,
    mode: Mode,
    out_sharding: OutSharding,
) -> Array:
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, function, data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
            mode,
        )  # fmt: skip
    what = function.__name__
    x, ids = as_operand(data), as_operand(segment_ids)
    if ids.type.kind not in "iu":
        raise DTypeError(f"{what}: segment_ids must be integers, got {ids.type!r}")
    if ids.type.ndim != 1 or x.type.shape[:1] != ids.type.shape:
        raise ShapeError(
            f"{what}: segment_ids must number the elements of data's first axis, got {ids.type!r} for {x.type!r}"
        )
    if num_segments is None:
        try:
            numbers = np.asarray(ids)
        except ConcretizationError as error:
            raise ConcretizationError(
                f"{what}: num_segments must be given where the segment_ids {ids.type!r} are abstract"
            ) from error
        num_segments = int(numbers.max(initial=-1)) + 1
    count = check_int("num_segments", num_segments)
    if count < 0:
        raise ShapeError(f"{what}: num_segments must not be negative, got {count}")
    mode_name = GatherScatterMode.from_any(mode).value
    index_mode = "drop" if mode_name in ("fill", "one_hot") else mode_name
    n, rest, dtype = ids.type.size, x.type.shape[1:], x.type.dtype
    size = n if bucket_size is None else check_int("bucket_size", bucket_size)
    if bucket_size is not None and size < 1:
        raise ShapeError(f"{what}: bucket_size must be positive, got {size}")
    buckets = -(-n // max(size, 1))
    start = _neutral_element(what, x)
    if bucket_size is None or buckets < 2:
        shape, bucket = (count, *rest), 0
    else:
        shape, bucket = (buckets, count, *rest), size
    if not count or 0 in x.type.shape:
        return BroadcastInDim((count, *rest), ())(scalar(start, dtype, weak=False))
    if combiner == "mul" and x.type.kind in "fc":
        return _products(shape, bucket, bool(indices_are_sorted), bool(unique_indices), index_mode, ids, x)
    return _combine_segments(
        x, ids, combiner, start, shape, bucket, bool(indices_are_sorted), bool(unique_indices), index_mode
    )


@jit(static_argnames=("combiner", "start", "shape", "bucket", "ordered", "unique", "mode"), inline=True)
def _combine_segments(
    x: Array,
    ids: Array,
    combiner: str,
    start: Number,
    shape: Shape,
    bucket: int,
    ordered: bool,
    unique: bool,
    mode: str,
) -> Array:
    """Returns the reduced segments; from as many buckets as the first axis of `shape`, unless `bucket` is 0."""
    out = BroadcastInDim(shape, ())(scalar(start, x.type.dtype, weak=False))
    index: Array | tuple[Array, Array] = ids
    if bucket:
        index = to_host_array(np.arange(ids.type.size, dtype=np.int32) // bucket), ids
    # Negative numbers are out of bounds: segments are not counted from the end.
    lookup = indexing.IndexingMode(None if mode == "promise_in_bounds" else mode, ordered, unique, False)
    combined = indexing.update_at(out, index, x, combiner, lookup)
    return REDUCTIONS[combiner](combined, 0) if bucket else combined


@partial(custom_jvp, nondiff_argnums=(0, 1, 2, 3, 4))
def _products(
    shape: Shape, bucket: int, ordered: bool, unique: bool, mode: str, ids: Array, x: Array
) -> Array:
    """Returns the products of floating or complex numbers, with a derivative of every order."""
    return _combine_segments(x, ids, "mul", 1, shape, bucket, ordered, unique, mode)


@_products.defjvp
def _products_jvp(
    shape: Shape,
    bucket: int,
    ordered: bool,
    unique: bool,
    mode: str,
    primals: tuple[Array, Array],
    tangents: tuple[Array, Array],
) -> tuple[Array, Array]:
    ids, x = primals
    count = shape[1] if bucket else shape[0]
    # A scatter's derivative would need the product of all factors but one, which no division gives where one is 0.
    _, dy = jvp(lambda x: _products_in_order(x, ids, count, mode), (x,), (tangents[1],))
    return _products(shape, bucket, ordered, unique, mode, ids, x), dy


@jit(static_argnames=("count", "mode"), inline=True)
def _products_in_order(x: Array, ids: Array, count: int, mode: str) -> Array:
    """Multiplies neighbours: the elements are sorted by their segments, of which each starts anew."""
    if mode == "clip":
        ids = arithmetic.clip(ids, 0, count - 1)
    elif mode == "wrap":
        ids = arithmetic.remainder(ids, count)
    order = argsort(ids)
    ids, x = ids[order], x[order]
    trailing_ones = (1,) * (x.type.ndim - 1)
    changes = ids[1:] != ids[:-1]
    first = concatenate([to_host_array([True]), changes])
    last = concatenate([changes, to_host_array([True])])

    def combine(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
        (f, p), (g, q) = left, right
        return f | g, arithmetic.where(g, q, p * q)

    _, products = associative_scan(combine, (reshape(first, (-1, *trailing_ones)), x))
    empty = BroadcastInDim((count, *x.type.shape[1:]), ())(scalar(0, x.type.dtype, weak=False))
    lookup = indexing.IndexingMode("drop", wraps=False)
    # One element of each segment counts, so that this is no sum.
    products_by_segment = indexing.update_at(
        empty, ids, arithmetic.where(reshape(last, (-1, *trailing_ones)), products, 0), "add", lookup
    )
    none = BroadcastInDim((count,), ())(scalar(True, dtypes.bool_, weak=False))
    filled = indexing.update_at(none, ids, False, "set", lookup)
    return arithmetic.where(reshape(filled, (-1, *trailing_ones)), 1, products_by_segment)


def segment_sum(
    data: Operand,
    segment_ids: Operand,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums the elements of each segment.

    Args:
        data: `[n, *rest]`.
        segment_ids: `[n]` integers: the segment of each element.
        num_segments: the number of segments; by default one more than the largest number, which must then be
            concrete.
        indices_are_sorted: True promises that `segment_ids` do not decrease.
        unique_indices: True promises that no number repeats.
        bucket_size: the elements are combined in groups of at most so many neighbours, and then the groups, which
            rounds less; by default in one.
        mode: the treatment of numbers outside of `[0, num_segments)`: "drop" (the default) leaves their elements out, "clip"
            takes the nearest segment, "promise_in_bounds" promises that there are none.
        out_sharding: the result's sharding; by default from the operands.

    Returns:
        `[num_segments, *rest]` of data's dtype; 0 for a segment without elements.

    Raises:
        DTypeError: the segment numbers are no integers.
        ShapeError: the number of segment numbers is not that of elements.
        ConcretizationError: abstract numbers without `num_segments`.

    >>> segment_sum(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 0]))
    Array([5., 0., 2.], dtype=float32)
    """
    return _reduce_segments(
        segment_sum, "add", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
        mode, out_sharding,
    )  # fmt: skip


def segment_prod(
    data: Operand,
    segment_ids: Operand,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Multiplies the elements of each segment; 1 for a segment without elements. Arguments as for `segment_sum`.

    >>> segment_prod(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 0]))
    Array([4., 1., 2.], dtype=float32)
    """
    return _reduce_segments(
        segment_prod, "mul", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
        mode, out_sharding,
    )  # fmt: skip


def segment_max(
    data: Operand,
    segment_ids: Operand,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The largest element of each segment; of one without elements minus infinity, or the least integer.

    Arguments as for `segment_sum`.

    >>> segment_max(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 0]))
    Array([  4., -inf,   2.], dtype=float32)
    """
    return _reduce_segments(
        segment_max, "max", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
        mode, out_sharding,
    )  # fmt: skip


def segment_min(
    data: Operand,
    segment_ids: Operand,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The smallest element of each segment; of one without elements infinity, or the largest integer.

    Arguments as for `segment_sum`.

    >>> segment_min(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 0]))
    Array([ 1., inf,  2.], dtype=float32)
    """
    return _reduce_segments(
        segment_min, "min", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size,
        mode, out_sharding,
    )  # fmt: skip
