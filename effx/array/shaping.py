"""Changing shapes with NumPy's semantics."""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from effx.array.promotion import broadcast_to, promote_dtypes, size_scalar, to_host_array
from effx.dtypes import DType
from effx.errors import ConcretizationError, ShapeError, TracerIntegerConversionError, name_user_call
from effx.ir.ops.shape import BroadcastInDim, Concatenate, Reshape, Transpose
from effx.ir.sizes.dimensions import as_size, is_symbolic
from effx.ir.types import ArrayType, Shape
from effx.ir.values.array import Array, Operand


def normalize_axis(axis: int, ndim: int, of: ArrayType | None = None) -> int:
    """Returns the axis counted from 0.

    Raises:
        ShapeError: it is out of range.
    """
    try:
        position = index(axis)
    except TypeError:
        raise ShapeError(f"{name_user_call()}: an axis must be an int, got {axis!r}") from None
    if not -ndim <= position < ndim:
        of_what = f" of {of!r}" if of is not None else ""
        raise ShapeError(f"{name_user_call()}: axis {position} is out of range for the {ndim} axes{of_what}")
    return position + ndim if position < 0 else position


def flatten_without_axis(x: Array, axis: int | None) -> tuple[Array, int]:
    """Returns an array and its axis counted from 0; without an axis all elements as a vector."""
    return (reshape(x, -1), 0) if axis is None else (x, normalize_axis(axis, x.type.ndim, x.type))


def normalize_axes(axis: "int | Sequence[int] | None", t: ArrayType) -> tuple[int, ...]:
    """Returns distinct increasing axes counted from 0; None means all."""
    if axis is None:
        return tuple(range(t.ndim))
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    resolved_axes = [normalize_axis(a, t.ndim, t) for a in axes]
    if len(set(resolved_axes)) != len(resolved_axes):
        raise ShapeError(f"{name_user_call()}: axes {axes} repeat an axis of {t!r}")
    return tuple(sorted(resolved_axes))


def to_shape(shape: Any) -> Shape:
    """Returns a shape as a tuple of ints, from an int or a sequence of ints."""
    try:
        return (as_size(shape),)
    except ConcretizationError as error:
        raise _unknown_shape_error(shape, error) from None
    except TypeError:
        pass
    try:
        return tuple([as_size(n) for n in shape])
    except ConcretizationError as error:
        raise _unknown_shape_error(shape, error) from None
    except TypeError:
        raise ShapeError(
            f"{name_user_call()}: a shape must be an int or a sequence of ints, got {shape!r}"
        ) from None


def _unknown_shape_error(shape: object, error: ConcretizationError) -> ConcretizationError:
    result = TracerIntegerConversionError(
        f"{name_user_call()}: shapes must be known while tracing, got {shape!r}; take sizes from x.shape, or make the "
        f"argument that gives them static (static_argnums or static_argnames of jit)"
    )
    result.handlers = error.handlers
    return result


def reshape(x: Array, shape: Any, order: str = "C") -> Array:
    """The same elements under another shape; one size may be -1."""
    t = x.type
    sizes = to_shape(shape)
    if sizes.count(-1) > 1:
        raise ShapeError(f"reshape: only one size may be -1, got {list(sizes)}")
    if -1 in sizes:
        known = 1
        for n in sizes:
            known *= n if n != -1 else 1
        if known == 0 or t.size % known:
            raise ShapeError(f"reshape: {t!r} of {t.size} elements does not fit shape {list(sizes)}")
        sizes = tuple([t.size // known if n == -1 else n for n in sizes])
    if any(n < 0 for n in sizes):
        raise ShapeError(f"reshape: sizes must not be negative, got {list(sizes)}")
    if order == "F":
        return transpose(reshape(transpose(x, None), sizes[::-1]), None)
    if order != "C":
        raise ShapeError(f"reshape: order must be 'C' or 'F', got {order!r}")
    return x if sizes == t.shape else Reshape(sizes)(x)


def transpose(x: Array, axes: "Iterable[int] | int | None") -> Array:
    """Permutes the axes; None reverses them. One int is the axis of a vector."""
    t = x.type
    if axes is None:
        perm = tuple(range(t.ndim - 1, -1, -1))
    else:
        axes = tuple(axes) if isinstance(axes, Iterable) else (axes,)
        if len(axes) != t.ndim:
            raise ShapeError(
                f"transpose: axes must name each of the {t.ndim} axes of {t!r} once, got {axes!r}"
            )
        perm = tuple([normalize_axis(a, t.ndim, t) for a in axes])
    return x if perm == tuple(range(t.ndim)) else Transpose(perm)(x)


def matrix_transpose(x: Array) -> Array:
    """Exchanges the last two axes."""
    if x.type.ndim < 2:
        raise ShapeError(f"matrix_transpose: needs at least two axes, got {x.type!r}")
    return swapaxes(x, -1, -2)


def swapaxes(x: Array, axis1: int, axis2: int) -> Array:
    """Exchanges two axes."""
    t = x.type
    a, b = normalize_axis(axis1, t.ndim, t), normalize_axis(axis2, t.ndim, t)
    perm = list(range(t.ndim))
    perm[a], perm[b] = perm[b], perm[a]
    return x if a == b else Transpose(tuple(perm))(x)


def moveaxis(x: Array, source: "int | Sequence[int]", destination: "int | Sequence[int]") -> Array:
    """Moves axes to other indices; the rest keep their order."""
    t = x.type
    sources = list(source) if isinstance(source, Sequence) else [source]
    targets = list(destination) if isinstance(destination, Sequence) else [destination]
    if len(sources) != len(targets):
        raise ShapeError(f"moveaxis: {len(sources)} source axes and {len(targets)} destinations")
    start = [normalize_axis(a, t.ndim, t) for a in sources]
    end = [normalize_axis(a, t.ndim, t) for a in targets]
    if len(set(start)) != len(start) or len(set(end)) != len(end):
        raise ShapeError(f"moveaxis: an axis repeats: {sources} to {targets}")
    perm = [i for i in range(t.ndim) if i not in start]
    for position, axis in sorted(zip(end, start, strict=True)):
        perm.insert(position, axis)
    return transpose(x, perm)


def squeeze(x: Array, axis: "int | Sequence[int] | None" = None) -> Array:
    """Drops axes of size 1; all of them for None."""
    t = x.type
    if axis is None:
        axes = tuple([i for i, n in enumerate(t.shape) if n == 1])
    else:
        axes = normalize_axes(axis, t)
        for a in axes:
            if t.shape[a] != 1:
                raise ShapeError(f"squeeze: axis {a} of {t!r} has size {t.shape[a]}, not 1")
    return reshape(x, tuple([n for i, n in enumerate(t.shape) if i not in axes]))


def expand_dims(x: Array, axis: "int | Sequence[int]") -> Array:
    """Inserts axes of size 1 at indices of the result."""
    axes = list(axis) if isinstance(axis, Sequence) else [axis]
    ndim = x.type.ndim + len(axes)
    resolved_axes = [normalize_axis(a, ndim) for a in axes]
    if len(set(resolved_axes)) != len(resolved_axes):
        raise ShapeError(f"expand_dims: axes {axes} repeat an axis")
    shape = list(x.type.shape)
    for position in sorted(resolved_axes):
        shape.insert(position, 1)
    return reshape(x, shape)


def repeat(x: Array, repeats: int, axis: int | None = None) -> Array:
    """Repeats each element a fixed number of times along an axis, or along all of them as one."""
    x, axis = flatten_without_axis(x, axis)
    t = x.type
    count = as_size(repeats)
    if count < 0:
        raise ShapeError(f"repeat: repeats must not be negative, got {count}")
    shape = (*t.shape[: axis + 1], count, *t.shape[axis + 1 :])
    dims = tuple([i for i in range(t.ndim + 1) if i != axis + 1])
    return reshape(
        BroadcastInDim(shape, dims)(x), (*t.shape[:axis], t.shape[axis] * count, *t.shape[axis + 1 :])
    )


GROUP = 128


def concatenate(arrays: Sequence[Operand], axis: int | None = 0) -> Array:
    """Joins arrays along an axis after promotion of their dtypes."""
    if not arrays:
        raise ShapeError("concatenate: needs at least one array")
    parts = promote_dtypes(*arrays)
    if axis is None:
        parts, axis = [reshape(p, -1) for p in parts], 0
    if not parts[0].type.shape:
        raise ShapeError(f"concatenate: scalars cannot be joined, got {parts[0].type!r}; use stack")
    resolved_axis = normalize_axis(axis, parts[0].type.ndim, parts[0].type)
    # XLA compiles a concatenation in quadratic time, so many arrays are joined group by group.
    join = Concatenate(resolved_axis)
    while len(parts) > GROUP:
        groups = [parts[i : i + GROUP] for i in range(0, len(parts), GROUP)]
        parts = [join(*group) if len(group) > 1 else group[0] for group in groups]
    return parts[0] if len(parts) == 1 else join(*parts)


def stack(arrays: Sequence[Operand], axis: int = 0) -> Array:
    """Joins arrays of one shape along a new axis."""
    if not arrays:
        raise ShapeError("stack: needs at least one array")
    parts = promote_dtypes(*arrays)
    for p in parts:
        if p.type.shape != parts[0].type.shape:
            raise ShapeError(f"stack: shapes differ: {parts[0].type!r} and {p.type!r}")
    resolved_axis = normalize_axis(axis, parts[0].type.ndim + 1)
    return concatenate([expand_dims(p, resolved_axis) for p in parts], resolved_axis)


def size_vector(sizes: Sequence[int], dtype: DType, ndim: int = 1) -> Array:
    """Returns sizes, which may be symbolic, along the last of `ndim` axes; the others have size 1."""
    shape = (*(1,) * (ndim - 1), len(sizes))
    if any([is_symbolic(n) for n in sizes]):
        return reshape(stack([size_scalar(n, dtype, False) for n in sizes]), shape)
    return to_host_array(np.asarray(sizes, dtype).reshape(shape))


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Broadcasts arrays against each other, scalars too."""
    from effx.array.promotion import broadcast_shapes

    shape = broadcast_shapes(*[x.type.shape for x in arrays])
    return [broadcast_to(x, shape) for x in arrays]
