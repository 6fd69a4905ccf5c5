"""Making arrays, and changing shapes."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from effx import dtypes
from effx.array import Array, Operand, promotion, shaping
from effx.array.promotion import as_operand, convert
from effx.dtypes import DType, DTypeLike
from effx.errors import DTypeError, ShapeError
from effx.ir.ops import shape as s
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import Shape, array_type
from effx.ir.values.array import HostData
from effx.lax.operands import adapt_operands, check_int, element_count, int_tuple
from effx.transforms.placement.filling import fill_like
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes", "broadcast_to_rank",
    "broadcasted_iota", "collapse", "concatenate", "empty", "expand_dims", "full", "full_like", "iota",
    "pad", "reshape", "rev", "split", "squeeze", "stack", "tile", "transpose", "unstack",
]  # fmt: skip


@runtime_checkable
class HasShape(Protocol):
    """Anything with a shape and a dtype: arrays, and descriptions of arrays."""

    @property
    def shape(self) -> Shape:
        """The sizes."""
        ...

    @property
    def dtype(self) -> DType:
        """The dtype."""
        ...


def full(
    shape: int | Sequence[int],
    fill_value: Operand,
    dtype: "DTypeLike | None" = None,
    *,
    sharding: OutSharding = None,
) -> Array:
    """Returns an array of one value.

    Args:
        shape: the result's shape.
        fill_value: a scalar.
        dtype: by default the value's; the result is then weakly typed if the value is a Python number.
        sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: `fill_value` is no scalar, or a size is negative.

    >>> full((2,), 1.5)
    Array([1.5, 1.5], dtype=float32, weak_type=True)
    """
    if sharding is not None:
        return apply_with_sharding(sharding, full, shape, fill_value, dtype)
    value = as_operand(fill_value)
    if value.type.shape:
        raise ShapeError(f"full: the fill value must be a scalar, got {value.type!r}")
    sizes = shaping.to_shape(shape)
    if dtype is not None:
        value = convert(value, dtypes.canonicalize_requested(dtype))
    return s.BroadcastInDim(sizes, ())(value)


def full_like(
    x: Operand | HasShape,
    fill_value: Operand,
    dtype: "DTypeLike | None" = None,
    shape: int | Sequence[int] | None = None,
    sharding: OutSharding = None,
) -> Array:
    """Returns an array of one value with another array's shape and dtype.

    Args:
        x: an array or anything with `shape` and `dtype`; its values are not used.
        fill_value: a scalar.
        dtype, shape: used instead of x's.
        sharding: the sharding of the result; by default replicated.

    Returns:
        An array of x's shape and dtype, weakly typed if x is and no dtype is given.

    Raises:
        ShapeError: `fill_value` is no scalar.

    >>> import numpy as np
    >>> full_like(np.zeros(2, np.int32), 7)
    Array([7, 7], dtype=int32)
    """
    if sharding is not None:
        return apply_with_sharding(sharding, full_like, x, fill_value, dtype, shape)
    if not isinstance(x, Array) and isinstance(x, HasShape):
        likeness = array_type(dtypes.canonicalize(x.dtype), x.shape)
    else:
        likeness = as_operand(x).type
    sizes = likeness.shape if shape is None else shaping.to_shape(shape)
    filled = fill_like(
        x, sizes, lambda sizes: full(sizes, fill_value, likeness.dtype if dtype is None else dtype)
    )
    return convert(filled, likeness.dtype, True) if likeness.weak and dtype is None else filled


def iota(dtype: DTypeLike, size: int) -> Array:
    """Counts from 0.

    Args:
        dtype: integer, floating or complex.
        size: how many numbers.

    Returns:
        An array `[size]`: 0, 1, 2, ….

    Raises:
        DTypeError: the dtype is bool.
        ShapeError: the size is negative.

    >>> iota(int, 4)
    Array([0, 1, 2, 3], dtype=int32)
    """
    return broadcasted_iota(dtype, (check_int("size", size),), 0)


def broadcasted_iota(
    dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: OutSharding = None
) -> Array:
    """Counts from 0 along one axis.

    Args:
        dtype: integer, floating or complex.
        shape: the result's shape.
        dimension: the axis to count along.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape whose elements are their indices along the axis.

    Raises:
        DTypeError: the dtype is bool.
        ShapeError: the axis is out of range, or a size is negative.

    >>> broadcasted_iota(int, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, broadcasted_iota, dtype, shape, dimension)
    sizes = int_tuple("shape", shape)
    return s.Iota(
        array_type(dtypes.canonicalize_requested(dtype), sizes),
        check_int("dimension", dimension),
    )()


def broadcast(operand: Operand, sizes: Sequence[int], *, out_sharding: OutSharding = None) -> Array:
    """Repeats an array along new leading axes.

    Args:
        operand: `[*s]` of any dtype.
        sizes: of the new axes.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array `[*sizes, *s]`.

    Raises:
        ShapeError: a size is negative.

    >>> broadcast(1.0, (2,))
    Array([1., 1.], dtype=float32, weak_type=True)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, broadcast, operand, sizes)
    x = as_operand(operand)
    new = int_tuple("sizes", sizes)
    if not new:
        return x
    return s.BroadcastInDim((*new, *x.type.shape), tuple(range(len(new), len(new) + x.type.ndim)))(x)


def broadcast_in_dim(
    operand: Operand,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Repeats an array along new axes, and along axes of size 1.

    Args:
        operand: of any dtype and shape.
        shape: the result's shape.
        broadcast_dimensions: for each axis of the operand the axis of the result that it becomes,
            increasing.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: the axes do not fit.

    >>> import numpy as np
    >>> broadcast_in_dim(np.array([1, 2], np.int32), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, broadcast_in_dim, operand, shape, broadcast_dimensions)
    x = as_operand(operand)
    sizes = int_tuple("shape", shape)
    return s.BroadcastInDim(sizes, int_tuple("broadcast_dimensions", broadcast_dimensions))(x)


def reshape(
    operand: Operand,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Returns the same elements under another shape.

    Args:
        operand: of any dtype and shape.
        new_sizes: the result's shape.
        dimensions: the order in which the operand's axes are read, row-major by default.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of the new sizes.

    Raises:
        ShapeError: the sizes have another number of elements, or one is negative.

    >>> reshape(iota(int, 4), (2, 2))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, reshape, operand, new_sizes, dimensions)
    x = as_operand(operand)
    if dimensions is not None:
        x = transpose(x, dimensions)
    return s.Reshape(int_tuple("new_sizes", new_sizes))(x)


def transpose(operand: Operand, permutation: Sequence[int]) -> Array:
    """Permutes axes.

    Args:
        operand: of any dtype and shape.
        permutation: axis `permutation[i]` becomes axis i.

    Returns:
        An array of the permuted shape.

    Raises:
        ShapeError: it is no permutation of the operand's axes.

    >>> transpose(broadcasted_iota(int, (2, 3), 1), (1, 0)).shape
    (3, 2)
    """
    x = as_operand(operand)
    perm = int_tuple("permutation", permutation)
    return x if perm == tuple(range(x.type.ndim)) else s.Transpose(perm)(x)


def rev(operand: Operand, dimensions: Sequence[int]) -> Array:
    """Reverses the order along some axes.

    Args:
        operand: of any dtype and shape.
        dimensions: the axes.

    Returns:
        An array of the operand's type.

    Raises:
        ShapeError: an axis is out of range or repeats.

    >>> rev(iota(int, 3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return s.Reverse(int_tuple("dimensions", dimensions))(as_operand(operand))


def concatenate(operands: Array | HostData | Sequence[Operand], dimension: int) -> Array:
    """Joins arrays along an axis.

    Args:
        operands: of one dtype, and of one shape but for the axis; an array is taken as its rows.
        dimension: the axis.

    Returns:
        An array whose size along the axis is the sum of the operands'.

    Raises:
        DTypeError: dtypes differ.
        ShapeError: shapes differ, the axis is out of range, or there are no operands.

    >>> concatenate([iota(int, 2), iota(int, 1)], 0)
    Array([0, 1, 0], dtype=int32)
    """
    arrays = [as_operand(x) for x in operands]
    op = s.Concatenate(check_int("dimension", dimension))
    if len(arrays) != 1:
        return op(*arrays)
    op.infer(arrays[0].type)  # checks the axis
    return arrays[0]


def pad(operand: Operand, padding_value: Operand, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Adds elements at the edges of an array and between its elements.

    Args:
        operand: of any dtype and shape.
        padding_value: a scalar of the operand's dtype.
        padding_config: for each axis the amounts (at the start, at the end, between two elements). The first
            two may be negative, to remove elements.

    Returns:
        An array of the padded shape.

    Raises:
        DTypeError: the dtypes differ.
        ShapeError: an amount is missing, or removes too many elements.

    >>> pad(iota(int, 3), 9, [(1, 0, 1)])
    Array([9, 0, 9, 1, 9, 2], dtype=int32)
    """
    x, value = adapt_operands(operand, padding_value)
    if value.type.dtype != x.type.dtype:
        raise DTypeError(f"pad: dtypes differ: x is {x.type!r}, the padding value is {value.type!r}")
    amounts = [int_tuple("padding_config", triple) for triple in padding_config]
    if any(len(triple) != 3 for triple in amounts):
        raise ShapeError(
            f"pad: padding_config must hold triples (low, high, interior), got {padding_config!r}"
        )
    if len(amounts) != x.type.ndim:
        raise ShapeError(
            f"pad: padding_config must have one triple for each axis of {x.type!r}, got {len(amounts)}"
        )
    low, high, interior = (tuple([triple[i] for triple in amounts]) for i in range(3))
    return s.Pad(low, high, interior)(x, value)


def squeeze(array: Operand, dimensions: Sequence[int]) -> Array:
    """Drops axes of size 1.

    Args:
        array: of any dtype and shape.
        dimensions: the axes; negative ones count from the end.

    Returns:
        An array without the axes.

    Raises:
        ShapeError: an axis is out of range, repeats, or has another size.

    >>> squeeze(broadcast(1.0, (1, 2)), (0,))
    Array([1., 1.], dtype=float32, weak_type=True)
    """
    return shaping.squeeze(as_operand(array), int_tuple("dimensions", dimensions))


def expand_dims(array: Operand, dimensions: Sequence[int]) -> Array:
    """Inserts axes of size 1.

    Args:
        array: of any dtype and shape.
        dimensions: the indices of the new axes in the result; negative ones count from the end.

    Returns:
        An array with the axes.

    Raises:
        ShapeError: an index is out of range or repeats.

    >>> expand_dims(iota(int, 2), (0, -1)).shape
    (1, 2, 1)
    """
    return shaping.expand_dims(as_operand(array), int_tuple("dimensions", dimensions))


def collapse(operand: Operand, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Joins neighbouring axes into one.

    Args:
        operand: of any dtype and shape.
        start_dimension: the first axis.
        stop_dimension: the axis after the last one; by default all from the first are joined. Negative axes
            count from the end.

    Returns:
        An array with one axis instead of several.

    Raises:
        ShapeError: the axes are out of range or in the wrong order.

    >>> collapse(broadcast(1.0, (2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    x = as_operand(operand)
    ndim = x.type.ndim
    first, last, _ = slice(start_dimension, stop_dimension).indices(ndim)
    stop = ndim if stop_dimension is None else stop_dimension
    if not (-ndim <= start_dimension <= ndim and -ndim <= stop <= ndim and first < last):
        raise ShapeError(f"collapse: {x.type!r} has no axes from {start_dimension} up to {stop}")
    sizes = x.type.shape
    return s.Reshape((*sizes[:first], element_count(sizes[first:last]), *sizes[last:]))(x)


def split(operand: Operand, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Cuts an array into pieces along an axis.

    Args:
        operand: of any dtype and shape.
        sizes: of the pieces; their sum is the axis' size.
        axis: the axis to split.

    Returns:
        The pieces.

    Raises:
        ShapeError: the axis is out of range, or the sum of the sizes is another.

    >>> split(iota(int, 3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    x = as_operand(operand)
    t, pieces = x.type, int_tuple("sizes", sizes)
    if not 0 <= axis < t.ndim:
        raise ShapeError(f"split: axis {axis} is out of range for {t!r}, which has {t.ndim} axes")
    if sum(pieces) != t.shape[axis] or any(n < 0 for n in pieces):
        raise ShapeError(f"split: sizes {list(pieces)} do not add up to axis {axis} of {t!r}")
    result, offset = [], 0
    for n in pieces:
        start = tuple([offset if i == axis else 0 for i in range(t.ndim)])
        limit = tuple([offset + n if i == axis else m for i, m in enumerate(t.shape)])
        result.append(s.Slice(start, limit, (1,) * t.ndim)(x))
        offset += n
    return result


def stack(operands: Sequence[Operand], axis: int = 0) -> Array:
    """Returns arrays of one dtype and shape joined along a new axis.

    Args:
        operands: the arrays, at least one.
        axis: the new axis.

    Raises:
        DTypeError, ShapeError: the arrays differ, or the axis is out of range.

    >>> import numpy as np
    >>> stack([np.arange(2, dtype=np.int32), np.arange(2, dtype=np.int32)]).shape
    (2, 2)
    """
    parts = [as_operand(x) for x in operands]
    if not parts:
        raise ShapeError("stack: takes at least one array")
    resolved_axis = shaping.normalize_axis(axis, parts[0].type.ndim + 1)
    return concatenate([expand_dims(x, (resolved_axis,)) for x in parts], resolved_axis)


def unstack(x: Operand, axis: int = 0) -> tuple[Array, ...]:
    """Returns the slices along an axis.

    Args:
        x: an array with at least one axis.
        axis: the axis, which the slices do not have.

    Raises:
        ShapeError: the axis is out of range.

    >>> import numpy as np
    >>> [int(x) for x in unstack(np.array([1, 2], np.int32))]
    [1, 2]
    """
    a = as_operand(x)
    resolved_axis = shaping.normalize_axis(axis, a.type.ndim, a.type)
    moved = shaping.moveaxis(a, resolved_axis, 0)
    # Indices are operands of one compiled program, where static slices would each be their own.
    return tuple([moved[i] for i in range(moved.type.shape[0])])


def tile(operand: Operand, reps: Sequence[int]) -> Array:
    """Returns an array repeated along its axes.

    Args:
        operand: of any dtype and shape.
        reps: how often, for each axis.

    Raises:
        ShapeError: another number of repetitions, or a negative one.

    >>> import numpy as np
    >>> tile(np.arange(2, dtype=np.int32), (2,)).tolist()
    [0, 1, 0, 1]
    """
    x, counts = as_operand(operand), int_tuple("reps", reps)
    if len(counts) != x.type.ndim or any([n < 0 for n in counts]):
        raise ShapeError(
            f"tile: needs a repetition of at least 0 for each axis of {x.type!r}, got {list(counts)}"
        )
    doubled = tuple([n for pair in zip(counts, x.type.shape, strict=True) for n in pair])
    spread = broadcast_in_dim(x, doubled, tuple(range(1, 2 * x.type.ndim, 2)))
    return reshape(spread, tuple([n * m for n, m in zip(counts, x.type.shape, strict=True)]))


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """Returns the shape to which shapes broadcast, by NumPy's rule.

    Raises:
        ShapeError: they do not, or a size is negative.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    checked = [int_tuple("a shape", s) for s in shapes]
    for sizes in checked:
        if any([not is_symbolic(n) and n < 0 for n in sizes]):
            raise ShapeError(f"broadcast_shapes: sizes must not be negative, got {list(sizes)}")
    return promotion.broadcast_shapes(*checked)


def broadcast_to_rank(x: Operand, rank: int) -> Array:
    """Returns an array with axes of size 1 in front, up to a number of axes.

    Args:
        x: of any dtype and shape.
        rank: how many axes the result has.

    Raises:
        ShapeError: x has more.

    >>> import numpy as np
    >>> broadcast_to_rank(np.zeros(3), 3).shape
    (1, 1, 3)
    """
    a = as_operand(x)
    if a.type.ndim > rank:
        raise ShapeError(f"broadcast_to_rank: {a.type!r} has more than {rank} axes")
    return expand_dims(a, tuple(range(rank - a.type.ndim)))


def broadcast_like(arr: Operand, like_arr: Operand) -> Array:
    """Returns an array broadcast to the shape of another.

    Args:
        arr: of any dtype.
        like_arr: an array with the shape of the result.

    Raises:
        ShapeError: it does not broadcast.

    >>> import numpy as np
    >>> broadcast_like(np.zeros(3), np.zeros((2, 3))).shape
    (2, 3)
    """
    return promotion.broadcast_to(as_operand(arr), as_operand(like_arr).type.shape)


def empty(shape: int | Sequence[int], dtype: DTypeLike, *, out_sharding: OutSharding = None) -> Array:
    """Returns zeros: memory is always initialised.

    Args:
        shape: the sizes.
        dtype: of the elements.
        out_sharding: the sharding of the result; by default replicated.

    >>> empty((2,), "float32").tolist()
    [0.0, 0.0]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, empty, shape, dtype)
    return full(shape, 0, dtype)
