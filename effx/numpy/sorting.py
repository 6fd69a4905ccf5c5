"""Sorting, searching in sorted arrays, and counting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from effx import dtypes, lax
from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.indexing import iota_along_axis
from effx.array.promotion import as_operand, broadcast_to, convert, promote_dtypes, refuse_mixed_dtypes
from effx.array.shaping import normalize_axis
from effx.dtypes import DType
from effx.errors import DTypeError, IndexingError, OptionError, ShapeError, name_user_call
from effx.families.sort import Sort
from effx.ir.ops.shape import Reverse
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.values.scalars import scalar
from effx.lax.operands import check_int
from effx.numpy.creation import make_filled
from effx.numpy.known import known_data
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.dtypes import DTypeLike

__all__ = [
    "argpartition", "argsort", "bincount", "digitize", "lexsort", "partition", "searchsorted", "sort",
    "sort_complex", "top_k",
]  # fmt: skip


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
    x, axis_index = _sort_operand(a, axis, kind, order)
    (result,) = Sort(axis_index, stable)(x)
    return Reverse((axis_index,))(result) if descending else result


def _sort_operand(a: Operand, axis: int | None, kind: object, order: object) -> tuple[Array, int]:
    """Returns the array and the axis to sort along."""
    if kind is not None or order is not None:
        raise DTypeError(f"{name_user_call()}: kind and order are not supported; use stable=")
    return shaping.flatten_without_axis(as_operand(a), axis)


def argsort(
    a: Operand,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """The indices that sort along an axis. Arguments as for `sort`; `dtype` is that of the indices.

    >>> argsort(np.array([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    x, axis_index = _sort_operand(a, axis, kind, order)
    indices = iota_along_axis(x.type.shape, axis_index)
    if dtype is not None:
        indices = convert(indices, dtypes.canonicalize_requested(dtype))
    if not descending:
        return Sort(axis_index, stable)(x, indices)[1]
    # Sorting the reversed array and reversing the result keeps equal elements in order.
    flip = Reverse((axis_index,))
    return flip(Sort(axis_index, stable)(flip(x), flip(indices))[1])


def _check_kth(a: Operand, kth: int, axis: int) -> Array:
    """Returns the array; raises where no element has the index, or complex numbers are given."""
    x = as_operand(a)
    n = x.type.shape[normalize_axis(axis, x.type.ndim, x.type)]
    if x.type.kind == "c":
        raise DTypeError(f"{name_user_call()}: takes real numbers, got {x.type!r}")
    if not -n <= check_int("kth", kth) < n:
        raise IndexingError(f"{name_user_call()}: kth {kth} is out of range for axis {axis} of {x.type!r}")
    return x


def partition(a: Operand, kth: int, axis: int = -1) -> Array:
    """The elements with the k-th smallest at its sorted index, none larger before it and none smaller after it.

    Args:
        a: real numbers; NaN counts as largest.
        kth: an index; a negative one counts from the end.
        axis: along which axis.

    Raises:
        IndexingError: `kth` is out of range.
        DTypeError: complex numbers.

    >>> partition(np.array([3, 1, 2]), 1).tolist()
    [1, 2, 3]
    """
    return sort(_check_kth(a, kth, axis), axis, stable=False)


def argpartition(a: Operand, kth: int, axis: int = -1) -> Array:
    """The indices that partition. Arguments as for `partition`.

    >>> argpartition(np.array([3, 1, 2]), 1).tolist()
    [1, 2, 0]
    """
    return argsort(_check_kth(a, kth, axis), axis, stable=False)


def sort_complex(a: Operand) -> Array:
    """Sorted along the last axis, first by real and then by imaginary parts, as complex numbers.

    >>> sort_complex(np.array([2, 1])).tolist()
    [(1+0j), (2+0j)]
    """
    x = arithmetic.to_inexact(as_operand(a))
    return sort(convert(x, x.type.dtype if x.type.kind == "c" else dtypes.complex_dtype(x.type.dtype)))


def top_k(
    a: Operand, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True
) -> tuple[Array, Array]:
    """The largest or smallest elements along an axis, and their indices.

    Args:
        a: the array.
        k: how many, from 0 to the size of the axis.
        axis: along which axis.
        mode: "largest" for descending order with NaN first, or "smallest" for ascending order with NaN last.
        sorted: False permits any order; the order is the sorted one then too.

    Returns:
        The elements, and their indices (int32). Of equal elements the earlier comes first.

    Raises:
        DTypeError: another mode.
        ShapeError: the axis or k is out of range.

    >>> [x.tolist() for x in top_k(np.array([3, 9, 5]), 2)]
    [[9, 5], [1, 2]]
    """
    if mode == "largest":
        return lax.top_k(a, k, axis=axis)
    if mode != "smallest":
        raise OptionError(f"top_k: mode must be 'largest' or 'smallest', got {mode!r}")
    x = as_operand(a)
    along = normalize_axis(axis, x.type.ndim, x.type)
    n = x.type.shape[along]
    if not 0 <= check_int("k", k) <= n:
        raise ShapeError(f"top_k: k must be from 0 to {n}, the size of axis {along} of {x.type!r}, got {k}")
    values, indices = Sort(along)(x, iota_along_axis(x.type.shape, along))
    first = (slice(None),) * along + (slice(k),)
    return values[first], indices[first]


def lexsort(keys: Sequence[Operand] | Array | np.ndarray[Any, Any], axis: int = -1) -> Array:
    """The indices that sort by several keys, the last key first.

    Args:
        keys: arrays of one shape.
        axis: the axis to sort along.

    >>> lexsort([np.array([2, 1, 1]), np.array([0, 1, 0])]).tolist()
    [2, 0, 1]
    """
    parts = [as_operand(key) for key in keys]
    if not parts:
        raise ShapeError("lexsort: needs at least one key")
    t = parts[0].type
    if not t.shape:
        return scalar(0, dtypes.canonicalize(int), False)
    resolved_axis = normalize_axis(axis, t.ndim, t)
    return Sort(resolved_axis, True, len(parts))(*reversed(parts), iota_along_axis(t.shape, resolved_axis))[
        -1
    ]


def _is_less(a: Array, b: Array) -> Array:
    # NaN counts as largest, as in sorting.
    return (a < b) | ((a == a) & (b != b)) if a.type.kind == "f" else a < b


@jit(static_argnames=("right", "unrolled"), inline=True)
def _bisect(a: Array, v: Array, right: bool, unrolled: bool = False) -> Array:
    """The index of each v in a, by bisection, with a static number of steps."""
    n, dtype = a.type.size, _position_dtype(a)
    bits = 30 if is_symbolic(n) else n.bit_length()
    steps, largest = bits, scalar(1 << (bits - 1), dtype, False)

    # One loop with a gather, a comparison and a choice for each bit of the size.
    def step(i: Array, lower_bounds: Array) -> Array:
        # So many elements are before v; are `width` more?
        further = lower_bounds + arithmetic.right_shift(largest, i)
        here = indexing.gather_along_axis(a, further - 1, 0)
        return arithmetic.where(_is_before(here, v, right) & (further <= n), further, lower_bounds)

    lower_bounds = broadcast_to(scalar(0, dtype, False), v.type.shape)
    return lax.fori_loop(0, steps, step, lower_bounds, unroll=unrolled)


def _position_dtype(a: Array) -> DType:
    """The dtype of indices into a sorted vector: int32 where they fit, with 64-bit types too, as in JAX."""
    # A symbolic number of elements is taken to be below 2^30.
    small = is_symbolic(a.type.size) or a.type.size.bit_length() <= 30
    return dtypes.int32 if small else dtypes.canonicalize(int)


def searchsorted(
    a: Operand, v: Operand, side: str = "left", sorter: Operand | None = None, *, method: str = "scan"
) -> Array:
    """The indices at which values would be inserted in a sorted vector.

    Args:
        a: sorted, NaN last.
        v: values of any shape.
        side: "left" for the index before equal elements, "right" for the one after.
        sorter: indices that sort `a`.
        method: "scan" bisects in a loop, "scan_unrolled" without one, "sort" sorts both together, "compare_all"
            compares all pairs.

    Raises:
        DTypeError: another side or method.

    >>> searchsorted(np.array([1, 2, 3]), np.array([2, 5])).tolist()
    [1, 3]
    """
    if side not in ("left", "right"):
        raise OptionError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if method not in _METHODS:
        raise OptionError(f"searchsorted: method must be one of {', '.join(_METHODS)}, got {method!r}")
    x = as_operand(a)
    if x.type.ndim != 1:
        raise ShapeError(f"searchsorted: takes a sorted vector, got {x.type!r}")
    if sorter is not None:
        x = indexing.take(x, as_operand(sorter), 0, "clip")
    x, values = promote_dtypes(x, as_operand(v))
    if 0 in x.type.shape:
        return make_filled(values.type.shape, 0, _position_dtype(x))
    right = side == "right"
    if method == "compare_all":
        before = _is_before(x, shaping.expand_dims(values, -1), right)
        return convert(reducing.sum(before, -1), _position_dtype(x))
    if method == "sort":
        return _count_before(x, values, right)
    return _bisect(x, values, right, method == "scan_unrolled")


_METHODS = ("scan", "scan_unrolled", "sort", "compare_all", "default")


def _is_before(a: Array, v: Array, right: bool) -> Array:
    """Whether elements of `a` come before the index at which v would be inserted."""
    return arithmetic.NOT(_is_less(v, a)) if right else _is_less(a, v)


def _count_before(a: Array, v: Array, right: bool) -> Array:
    """How many elements of `a` a stable sort of both puts before each v."""
    n, flat = a.type.size, shaping.reshape(v, -1)
    parts = [a, flat] if right else [flat, a]
    together = shaping.concatenate(parts, 0)
    origin = iota_along_axis(together.type.shape, 0)
    origin = Sort(0, True)(together, origin)[1]
    of_v = origin >= n if right else origin < flat.type.size
    rank = reducing.cumsum(convert(arithmetic.NOT(of_v), _position_dtype(a)))
    ranks_by_element = make_filled(together.type.shape, 0, rank.type.dtype).at[origin].set(rank)
    return shaping.reshape(
        ranks_by_element[n:] if right else ranks_by_element[: flat.type.size], v.type.shape
    )


def digitize(x: Operand, bins: Operand, right: bool = False, *, method: str | None = None) -> Array:
    """The bin of each number: i where `bins[i-1] <= x < bins[i]`.

    Args:
        x: numbers.
        bins: rising or falling edges.
        right: True where a bin holds its upper edge and not its lower one.
        method: as for `searchsorted`; "scan" by default.

    >>> digitize(np.array([0.5, 2.5]), np.array([1.0, 2.0])).tolist()
    [0, 2]
    """
    refuse_mixed_dtypes(x, bins)
    edges = as_operand(bins)
    if edges.type.ndim != 1:
        raise ShapeError(f"digitize: bins must be a vector, got {edges.type!r}")
    if 0 in edges.type.shape:
        return make_filled(as_operand(x).type.shape, 0, _position_dtype(edges))
    how, side = "scan" if method is None else method, "left" if right else "right"
    first, last = edges[0], edges[-1]
    is_falling = (last < first) | ((first != first) & (last == last))  # NaN is above all numbers
    position = searchsorted(arithmetic.where(is_falling, edges[::-1], edges), x, side, method=how)
    return arithmetic.where(is_falling, edges.type.size - position, position)


def bincount(
    x: Operand,
    weights: Operand | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """How often each non-negative integer occurs.

    Args:
        x: `i32[n]`; negative numbers count as 0.
        weights: what each occurrence counts, by default 1.
        minlength: the least size of the result.
        length: the size of the result, so that `x` may be abstract; larger numbers are left out.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    >>> bincount(np.array([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, bincount, x, weights, minlength, length=length)
    a = as_operand(x)
    if a.type.kind not in "biu" or a.type.ndim != 1:
        raise DTypeError(f"bincount: takes a vector of integers, got {a.type!r}")
    if length is None:
        unknown = "the shape would depend on the values of the abstract {}; give length="
        data = known_data(a, unknown)
        length = max(check_int("minlength", minlength), int(data.max()) + 1 if data.size else 0)
    length = check_int("length", length)
    integer = dtypes.canonicalize(int)
    counted = scalar(1, integer, False) if weights is None else as_operand(weights)
    if counted.type.shape not in ((), a.type.shape):
        raise ShapeError(f"bincount: weights {counted.type!r} do not fit {a.type!r}")
    zeros = make_filled((length,), 0, counted.type.dtype)
    return zeros.at[arithmetic.maximum(convert(a, integer), 0)].add(counted, mode="drop")
