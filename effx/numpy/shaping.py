"""Changing shapes: reshaping, permuting, broadcasting, repeating, reversing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from effx import dtypes, lax
from effx.array import Array, arithmetic, indexing, promotion, reducing, shaping
from effx.array.promotion import as_operand, convert_whole_float, to_host_array
from effx.array.shaping import normalize_axes, normalize_axis
from effx.effects import current_frame
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.convert import Copy
from effx.ir.ops.shape import Iota, Pad, Reverse
from effx.ir.types import Shape, array_type
from effx.ir.values.scalars import scalar
from effx.lax.operands import check_count, check_int
from effx.numpy.creation import returnable_operand
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.ir.values.array import Axis

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "diag", "diagflat", "diagonal", "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose",
    "moveaxis", "ndim", "permute_dims", "ravel", "repeat", "reshape", "resize", "roll", "rollaxis", "rot90",
    "shape", "size", "squeeze", "swapaxes", "tile", "transpose",
]  # fmt: skip


def reshape(
    a: Operand, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: OutSharding = None
) -> Array:
    """The same elements in the same order under another shape; one size may be -1.

    Args:
        a: the array.
        shape: the sizes.
        order: "C" to count the last axis first, "F" for the first.
        copy: True for memory of its own; arrays are immutable, so nothing else depends on it.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Raises:
        ShapeError: the number of elements differs.

    >>> reshape(np.arange(4), (2, -1)).tolist()
    [[0, 1], [2, 3]]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, reshape, a, shape, order, copy=copy)
    reshaped = shaping.reshape(returnable_operand(a), shape, order)
    return Copy()(reshaped) if copy else reshaped


def ravel(a: Operand, order: str = "C", *, out_sharding: OutSharding = None) -> Array:
    """The elements as one axis.

    >>> ravel(np.ones((2, 2))).shape
    (4,)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, ravel, a, order)
    return shaping.reshape(returnable_operand(a), -1, order)


def transpose(a: Operand, axes: Iterable[int] | int | None = None) -> Array:
    """The axes permuted; reversed without `axes`.

    >>> transpose(np.ones((2, 3))).shape
    (3, 2)
    """
    return shaping.transpose(returnable_operand(a), axes)


def permute_dims(a: Operand, /, axes: Sequence[int]) -> Array:
    """The axes permuted: axis `axes[i]` becomes axis i.

    >>> permute_dims(np.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return shaping.transpose(returnable_operand(a), axes)


def matrix_transpose(x: Operand, /) -> Array:
    """The last two axes exchanged.

    >>> matrix_transpose(np.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    return shaping.matrix_transpose(returnable_operand(x))


def swapaxes(a: Operand, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    >>> swapaxes(np.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return shaping.swapaxes(returnable_operand(a), axis1, axis2)


def moveaxis(a: Operand, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other indices; the rest keep their order.

    >>> moveaxis(np.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return shaping.moveaxis(returnable_operand(a), source, destination)


def rollaxis(a: Operand, axis: int, start: int = 0) -> Array:
    """An axis moved before the axis at `start`.

    >>> rollaxis(np.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = returnable_operand(a)
    ndim = x.type.ndim
    resolved_axis = normalize_axis(axis, ndim, x.type)
    if not -ndim <= start <= ndim:
        raise ShapeError(f"rollaxis: start {start} is out of range for the {ndim} axes of {x.type!r}")
    target = start + ndim if start < 0 else start
    return shaping.moveaxis(x, resolved_axis, target - 1 if resolved_axis < target else target)


def squeeze(a: Operand, axis: Axis = None) -> Array:
    """Axes of size 1 dropped: the given ones, or all.

    >>> squeeze(np.ones((1, 3, 1))).shape
    (3,)
    """
    return shaping.squeeze(returnable_operand(a), axis)


def expand_dims(a: Operand, axis: int | Sequence[int]) -> Array:
    """Axes of size 1 inserted at indices of the result.

    >>> expand_dims(np.ones(3), 0).shape
    (1, 3)
    """
    return shaping.expand_dims(returnable_operand(a), axis)


def broadcast_to(array: Operand, shape: Any, *, out_sharding: OutSharding = None) -> Array:
    """Repeated to a shape, as NumPy broadcasts.

    >>> broadcast_to(np.arange(2), (2, 2)).tolist()
    [[0, 1], [0, 1]]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, broadcast_to, array, shape)
    return promotion.broadcast_to(returnable_operand(array), shaping.to_shape(shape))


def broadcast_arrays(*args: Operand) -> tuple[Array, ...]:
    """All arrays broadcast to one shape.

    >>> [x.shape for x in broadcast_arrays(np.ones((2, 1)), np.ones(3))]
    [(2, 3), (2, 3)]
    """
    return tuple(shaping.broadcast_arrays(*[returnable_operand(x) for x in args]))


def broadcast_shapes(*shapes: int | Sequence[int]) -> Shape:
    """The shape that shapes broadcast to.

    Raises:
        ShapeError: there is none, or a size is negative.

    >>> broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    return lax.broadcast_shapes(*[shaping.to_shape(s) for s in shapes])


def _at_least_ndim(arrays: tuple[Operand, ...], ndim: int) -> Any:
    results = []
    for x in arrays:
        a = returnable_operand(x)
        missing = ndim - a.type.ndim
        if missing > 0:
            # NumPy's rule for three axes: a vector becomes (1, n, 1), a matrix (m, n, 1).
            front = 0 if ndim == 3 and a.type.ndim == 2 else 1 if ndim == 3 and a.type.ndim == 1 else missing
            a = shaping.reshape(a, (1,) * front + a.type.shape + (1,) * (missing - front))
        results.append(a)
    return results[0] if len(results) == 1 else tuple(results)


def atleast_1d(*arys: Operand) -> Any:
    """With at least one axis: one array for one argument, else a tuple.

    >>> atleast_1d(3).shape
    (1,)
    """
    return _at_least_ndim(arys, 1)


def atleast_2d(*arys: Operand) -> Any:
    """With at least two axes: one array for one argument, else a tuple.

    >>> atleast_2d(np.ones(3)).shape
    (1, 3)
    """
    return _at_least_ndim(arys, 2)


def atleast_3d(*arys: Operand) -> Any:
    """With at least three axes: one array for one argument, else a tuple.

    >>> atleast_3d(np.ones(3)).shape
    (1, 3, 1)
    """
    return _at_least_ndim(arys, 3)


def flip(m: Operand, axis: Axis = None) -> Array:
    """The order reversed along axes; along all without `axis`.

    >>> flip(np.arange(3)).tolist()
    [2, 1, 0]
    """
    a = returnable_operand(m)
    axes = normalize_axes(axis, a.type)
    return Reverse(axes)(a) if axes else a


def fliplr(m: Operand) -> Array:
    """The columns of matrices in reverse order.

    >>> fliplr(np.eye(2)).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    a = returnable_operand(m)
    if a.type.ndim < 2:
        raise ShapeError(f"fliplr: needs at least two axes, got {a.type!r}")
    return flip(a, 1)


def flipud(m: Operand) -> Array:
    """The rows in reverse order.

    >>> flipud(np.arange(2)).tolist()
    [1, 0]
    """
    a = returnable_operand(m)
    if a.type.ndim < 1:
        raise ShapeError(f"flipud: needs at least one axis, got {a.type!r}")
    return flip(a, 0)


def rot90(m: Operand, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Rotated by k quarter turns in the plane of two axes, from the first toward the second.

    >>> rot90(np.arange(4).reshape(2, 2)).tolist()
    [[1, 3], [0, 2]]
    """
    a = returnable_operand(m)
    if not hasattr(axes, "__len__") or len(axes) != 2:
        raise ShapeError(f"rot90: needs two axes, got {axes!r}")
    first, second = (normalize_axis(i, a.type.ndim, a.type) for i in axes)
    if first == second:
        raise ShapeError(f"rot90: needs two different axes, got {axes!r}")
    quarters = check_int("k", convert_whole_float(k)) % 4
    if quarters == 0:
        return a
    if quarters == 2:
        return flip(a, (first, second))
    if quarters == 1:
        return shaping.swapaxes(flip(a, second), first, second)
    return flip(shaping.swapaxes(a, first, second), second)


def roll(a: Operand, shift: Operand | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    """Elements shifted along axes, cyclically.

    Args:
        a: the array.
        shift: by how much: an int or a traced integer, or one int for each axis.
        axis: along which axes; None for all elements as one axis.

    >>> roll(np.arange(3), 1).tolist()
    [2, 0, 1]
    """
    x = returnable_operand(a)
    if axis is None:
        return shaping.reshape(roll(shaping.reshape(x, -1), shift, 0), x.type.shape)
    axes = list(axis) if isinstance(axis, Sequence) else [axis]
    if isinstance(shift, Sequence):
        shifts: list[Any] = list(shift)
    elif isinstance(shift, Array | np.ndarray) and shift.ndim == 1:
        shift_array = as_operand(shift)
        shifts = [shift_array[i] for i in range(shift_array.type.shape[0])]
    else:
        shifts = [shift]
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for by, along in zip(shifts, axes, strict=True):
        x = _roll_axis(x, by, normalize_axis(along, x.type.ndim, x.type))
    return x


def _roll_axis(x: Array, by: Any, axis: int) -> Array:
    n, by = x.type.shape[axis], convert_whole_float(by)
    if n == 0:
        return x
    if isinstance(by, int | np.integer):
        cut = -int(by) % n
        if cut == 0:
            return x
        before = (slice(None),) * axis
        if current_frame() is None:  # one shape for all shifts, which one compiled kernel serves
            return shaping.concatenate([x, x], axis)[(*before, slice(cut, cut + n))]
        return shaping.concatenate([x[(*before, slice(cut, None))], x[(*before, slice(None, cut))]], axis)
    shift = returnable_operand(by)
    if shift.type.kind not in "iu" or shift.type.ndim:
        raise ShapeError(f"roll: a shift must be an integer, got {shift.type!r}")
    source_indices = Iota(array_type(dtypes.int32, (n,)), 0)() - shift
    return indexing.take(x, source_indices, axis, "wrap")


def tile(A: Operand, reps: int | Sequence[int]) -> Array:
    """The whole array repeated along each axis.

    >>> tile(np.arange(2), 2).tolist()
    [0, 1, 0, 1]
    """
    a = returnable_operand(A)
    counts = shaping.to_shape(reps)
    if any([n < 0 for n in counts]):
        raise ShapeError(f"tile: repetitions must not be negative, got {list(counts)}")
    ndim = max(len(counts), a.type.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    return lax.tile(shaping.reshape(a, (1,) * (ndim - a.type.ndim) + a.type.shape), counts)


def repeat(
    a: Operand,
    repeats: Operand,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Each element repeated along an axis.

    Args:
        a: the array.
        repeats: how often: an int, or an integer array with one number for each element.
        axis: None for all elements as one axis.
        total_repeat_length: the result's size, so that `repeats` may be abstract.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Raises:
        ConcretizationError: `repeats` is abstract, without `total_repeat_length`.
        DTypeError: `repeats` are no integers.

    >>> repeat(np.arange(2), 2).tolist(), repeat(np.arange(2), np.array([1, 2])).tolist()
    ([0, 0, 1, 1], [0, 1, 1])
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, repeat, a, repeats, axis, total_repeat_length=total_repeat_length
        )
    x = returnable_operand(a)
    if isinstance(repeats, int | np.integer) and total_repeat_length is None:
        return shaping.repeat(x, int(repeats), axis)
    x, resolved_axis = shaping.flatten_without_axis(x, axis)
    n = x.type.shape[resolved_axis]
    counts = returnable_operand(repeats)
    if total_repeat_length is not None:
        total_repeat_length = check_count("total_repeat_length", total_repeat_length)
    if counts.type.kind not in "biu":
        raise DTypeError(f"repeat: repeats must be integers, got {counts.type!r}")
    if counts.type.shape not in ((), (1,), (n,)):
        raise ShapeError(f"repeat: repeats {counts.type!r} do not fit axis {resolved_axis} of {x.type!r}")
    if total_repeat_length is None:
        known = np.broadcast_to(counts.host("repeat(repeats=x)"), (n,))
        which: Array = to_host_array(np.repeat(np.arange(n, dtype=np.int32), known))
        return indexing.take(x, which, resolved_axis, "clip")
    counts = promotion.broadcast_to(counts, (n,))
    # Element j of the result comes from the operand's element whose index is the number of ends <= j.
    ends = shaping.expand_dims(reducing.cumsum(counts), 0)
    output_indices = Iota(array_type(dtypes.int32, (total_repeat_length, n)), 0)()
    which = reducing.sum(output_indices >= ends, 1)
    return indexing.take(x, which, resolved_axis, "clip")


def resize(a: Operand, new_shape: Any) -> Array:
    """The elements repeated or truncated to fill a shape.

    >>> resize(np.arange(2), (3,)).tolist()
    [0, 1, 0]
    """
    x = shaping.reshape(returnable_operand(a), -1)
    shape = shaping.to_shape(new_shape)
    size = int(np.prod(shape, dtype=np.int64))
    if size == 0 or x.type.size == 0:
        return promotion.broadcast_to(scalar(0, x.type.dtype, x.type.weak), shape)
    return shaping.reshape(tile(x, -(-size // x.type.size))[:size], shape)


class _HasShape(Protocol):
    @property
    def shape(self) -> Shape: ...


def shape(a: Operand | _HasShape) -> Shape:
    """The sizes, outermost first.

    >>> shape(np.ones((2, 3)))
    (2, 3)
    """
    known = getattr(a, "shape", None)
    return tuple(known) if known is not None else returnable_operand(a).type.shape  # type: ignore[arg-type]  # a number, having no shape


def ndim(a: Operand | _HasShape) -> int:
    """The number of axes.

    >>> ndim(np.ones((2, 3)))
    2
    """
    return len(shape(a))


def size(a: Operand | _HasShape, axis: Axis = None) -> int:
    """The number of elements, or the product of the sizes of some axes.

    >>> size(np.ones((2, 3))), size(np.ones((2, 3)), 0)
    (6, 2)
    """
    sizes = shape(a)
    axes = normalize_axes(axis, array_type(dtypes.float32, sizes))
    return int(np.prod([sizes[i] for i in axes], dtype=np.int64))


def diagonal(a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as a new last axis.

    >>> diagonal(np.eye(2)).tolist()
    [1.0, 1.0]
    """
    first = check_int("offset", offset)
    return indexing.diagonal(returnable_operand(a), first, axis1, axis2)


def diag(v: Operand, k: int = 0) -> Array:
    """The matrix with a vector on its k-th diagonal, or the k-th diagonal of a matrix.

    >>> diag(np.array([1, 2])).tolist(), diag(np.eye(2)).tolist()
    ([[1, 0], [0, 2]], [1.0, 1.0])
    """
    a = returnable_operand(v)
    if a.type.ndim == 1:
        return diagflat(a, k)
    if a.type.ndim != 2:
        raise ShapeError(f"diag: takes a vector or a matrix, got {a.type!r}")
    return indexing.diagonal(a, check_int("k", k))


def diagflat(v: Operand, k: int = 0) -> Array:
    """The matrix with all elements on its k-th diagonal.

    >>> diagflat(np.array([[1, 2]])).tolist()
    [[1, 0], [0, 2]]
    """
    a = shaping.reshape(returnable_operand(v), -1)
    k = check_int("k", k)
    n = a.type.size + (k if k >= 0 else -k)
    t = array_type(dtypes.int32, (n, n))
    on = Iota(t, 1)() - Iota(t, 0)() == k
    low, high = (k, 0) if k >= 0 else (0, -k)
    row = shaping.expand_dims(_pad_edges(a, low, high), 0)
    return arithmetic.where(on, promotion.broadcast_to(row, (n, n)), scalar(0, a.type.dtype, a.type.weak))


def _pad_edges(a: Array, low: int, high: int) -> Array:
    return Pad((low,), (high,), (0,))(a, scalar(0, a.type.dtype, a.type.weak)) if low or high else a
