"""New arrays from Python data, and arrays of one value."""

from __future__ import annotations

from array import array as builtin_array
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from effx import dtypes
from effx.array import Array, Box, HostArray, arithmetic, shaping
from effx.array.promotion import as_operand, broadcast_to, convert, size_scalar, to_host_array
from effx.dtypes import DType, DTypeLike
from effx.effects import Frame, current_frame, perform
from effx.errors import BackendError, DTypeError, ShapeError, name_user_call
from effx.flags import debug_infs, debug_nans
from effx.handlers.staging.compile_time_eval import EvaluateKnown
from effx.handlers.staging.stage import Stage, make_literal
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.sizes.dimensions import has_symbolic, is_symbolic
from effx.ir.types import Shape, array_type
from effx.ir.values.scalars import check_fits
from effx.lower.placement.concrete import device_put, place_computed_data, place_on_device
from effx.numpy.signatures import typed_as_creation, typed_as_like
from effx.tracing.arguments import finalize_result
from effx.transforms.placement.filling import fill_like, placement_of
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

if TYPE_CHECKING:
    from effx.array import Number, Operand

__all__ = [
    "array", "asarray", "astype", "copy", "empty", "empty_like", "full", "full_like", "ones", "ones_like",
    "zeros", "zeros_like",
]  # fmt: skip

# Above this many elements an array of one value is computed on its device, not copied there.
_COPIED = 65536


def innermost_interceptor() -> Frame | None:
    """Returns the innermost frame that intercepts every operation; none where known values are evaluated at once."""
    frame = current_frame()
    while frame is not None and not frame.intercepts:
        frame = frame.outer
    return None if frame is None or isinstance(frame.handler, EvaluateKnown) else frame


def is_recorded() -> bool:
    """Whether a handler intercepts every operation, so that operations may be recorded in a program."""
    return innermost_interceptor() is not None


def make_constant(
    data: np.ndarray[Any, Any] | Number, dtype: DType, weak: bool = False, is_computed: bool = False
) -> Array:
    """Returns host data as an array: a number is a value of the function that is being staged, other data move.

    Args:
        data: the data.
        dtype: of the array.
        weak: whether it is weakly typed.
        is_computed: whether effx computed the data, so that no transfer guard applies.
    """
    shape = data.shape if isinstance(data, np.ndarray) else ()
    t = array_type(dtype, shape, weak)
    if not shape and (frame := innermost_interceptor()) is not None:
        number = HostArray(data, t)
        return make_literal(frame, number) if isinstance(frame.handler, Stage) else number
    return place_computed_data(data, t) if is_computed else place_on_device(data, t)


@runtime_checkable
class HasTypeAndShape(Protocol):
    """Anything with a shape and a dtype, whether it has elements or not."""

    @property
    def shape(self) -> Shape:
        """The sizes."""
        ...

    @property
    def dtype(self) -> DType:
        """The elements' dtype."""
        ...


def returnable_operand(x: Operand) -> Array:
    """Returns an operand that a function may return: as an array, with a copy of NumPy data."""
    if isinstance(x, Array):
        return x
    a = as_operand(x)
    return make_constant(a.value, a.type.dtype, a.type.weak) if type(a) is HostArray else a


def _nested_leaves(x: Any) -> Iterator[Any]:
    for item in x:
        if isinstance(item, list | tuple):
            yield from _nested_leaves(item)
        else:
            yield item


def _is_other_sequence(x: object) -> bool:
    """Returns whether a value has its items as a list has, without being one: a deque, a class of enum's members."""
    if isinstance(x, str | bytes | Mapping):
        return False
    if any([hasattr(x, name) for name in ("dtype", "__array__", "__jax_array__", "__effx_array__")]):
        return False
    # Of its class, not by getattr: list[int] forwards to list, and a member of an enum's class to that class's class.
    classes = type(x).__mro__
    return all([any([name in vars(c) for c in classes]) for name in ("__len__", "__getitem__")])


def _list_sequences(x: object) -> object:
    """Replaces other sequences in nested lists by lists, and buffers by arrays of NumPy."""
    if isinstance(x, builtin_array):
        return np.asarray(x)
    if isinstance(x, list | tuple) or _is_other_sequence(x):
        return [_list_sequences(item) for item in cast("Iterable[object]", x)]
    return x


def _replace_leaves(x: object) -> object:
    """Replaces what becomes an array in nested lists by the array."""
    if isinstance(x, list | tuple):
        return [_replace_leaves(item) for item in x]
    becomes_array = hasattr(x, "__jax_array__") or is_symbolic(x)
    return as_operand(cast("Operand", x)) if becomes_array else x


def _from_list(x: list[Any] | tuple[Any, ...], dtype: DType | None) -> Array:
    leaves = list(_nested_leaves(x))
    if any([hasattr(leaf, "__jax_array__") or is_symbolic(leaf) for leaf in leaves]):
        return _from_list(cast("list[object]", _replace_leaves(x)), dtype)
    if any([leaf is None for leaf in leaves]):
        raise DTypeError("array: None is no number")
    if any(
        [
            isinstance(leaf, Box) or (isinstance(leaf, Array) and (leaf.ndim or leaf.type.kind == "V"))
            for leaf in leaves
        ]
    ):
        # Arrays are joined on their device, level by level.
        parts = [
            _from_list(item, dtype) if isinstance(item, list | tuple) else as_operand(item) for item in x
        ]
        return _drop_weak_type(shaping.stack(parts), dtype)
    kinds = dict.fromkeys(
        [
            next(c for c in (bool, int, float, complex) if isinstance(leaf, c))  # of an enum's member too
            if isinstance(leaf, bool | int | float | complex)
            else leaf.dtype
            if hasattr(leaf, "dtype")
            else object
            for leaf in leaves
        ]
    )
    if object in kinds:
        if any(map(_is_other_sequence, leaves)):
            return _from_list(cast("list[object]", _list_sequences(x)), dtype)
        bad = next(
            leaf
            for leaf in leaves
            if not isinstance(leaf, bool | int | float | complex) and not hasattr(leaf, "dtype")
        )
        raise DTypeError(
            f"array: expected numbers or arrays in the list, got {bad!r} of type {type(bad).__name__}"
        )
    list_dtype = dtype
    if list_dtype is None:
        list_dtype = dtypes.result_type(*kinds) if kinds else dtypes.canonicalize(float)
    # What ml_dtypes adds to NumPy takes numbers only.
    numbers = x if list_dtype.isbuiltin == 1 or dtypes.is_key(list_dtype) else _unwrap_scalars(x)
    if dtypes.is_sub_byte(list_dtype):
        _check_sub_byte_integer(numbers, list_dtype)
    try:
        data = np.asarray(numbers, list_dtype)
    except ValueError:
        raise ShapeError("array: the nested lists differ in length") from None
    return make_constant(data, list_dtype)


def _check_sub_byte_integer(x: object, dtype: DType) -> None:
    """Refuses Python ints that a dtype of less than 8 bits cannot hold: ml_dtypes wraps what NumPy refuses."""
    if type(x) is int and dtypes.is_sub_byte(dtype) and dtypes.is_integer(dtype):
        check_fits(x, dtype)
    elif isinstance(x, list | tuple):
        for item in x:
            _check_sub_byte_integer(item, dtype)


def _unwrap_scalars(x: object) -> object:
    """Replaces scalar arrays in nested lists by their numbers."""
    if isinstance(x, list | tuple):
        return [_unwrap_scalars(item) for item in x]
    return x.item() if isinstance(x, Array) else x


def _drop_weak_type(x: Array, dtype: DType | None) -> Array:
    return convert(x, x.type.dtype if dtype is None else dtype)


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Makes an array from a number, nested lists, NumPy data, or another array.

    Args:
        object: the data. Lists may hold arrays, traced ones too.
        dtype: by default the promotion of all elements; a bare Python number gives a weak type.
        copy: False to return an array itself.
        order: "K" or "C"; there is no other memory order.
        ndmin: the least number of axes; axes of size 1 are added in front.
        device: where to put it.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Raises:
        DTypeError: an element is no number.
        ShapeError: nested lists of different lengths.
        OverflowError: a Python int that does not fit.

    >>> array([1, 2.5]), array(3)
    (Array([1. , 2.5], dtype=float32), Array(3, dtype=int32, weak_type=True))
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, array, object, dtype, copy=copy, order=order, ndmin=ndmin, device=device
        )
    if order not in ("K", "C", "A", None):
        raise ShapeError(f"array: order must be 'K' or 'C', got {order!r}")
    requested_dtype = None if dtype is None else dtypes.canonicalize_requested(dtype)
    result = _convert_object(object, requested_dtype, copy)
    t = result.type
    if t.ndim < ndmin:
        result = shaping.reshape(result, (1,) * (ndmin - t.ndim) + t.shape)
    if t.kind == "V":
        result = cast("Array", finalize_result(result))
    return result if device is None else device_put(result, device)


def _convert_object(x: Any, dtype: DType | None, copy: bool) -> Array:
    kind = type(x)
    if kind is float or kind is int or kind is bool or kind is complex:
        scalar_type, weak = dtypes.scalar_dtype(kind)
        if dtype is not None:
            scalar_type, weak = dtype, False
            _check_sub_byte_integer(x, dtype)
        return make_constant(np.array(x, scalar_type), scalar_type, weak)
    if isinstance(x, Array):
        if type(x) is HostArray:
            t = x.type if dtype is None else array_type(dtype, x.type.shape)
            return make_constant(np.asarray(x.value, t.dtype), t.dtype, t.weak)
        if dtype is not None and dtype != x.type.dtype:
            return arithmetic.astype(x, dtype)
        if dtype is not None and x.type.weak:
            return convert(x, dtype)
        return perform(arithmetic.COPY, (x,)) if copy else x
    if isinstance(x, list | tuple):
        return _from_list(x, dtype)
    if isinstance(x, np.ndarray | np.generic):
        host = to_host_array(x, dtype)
        return make_constant(np.asarray(host.value), host.type.dtype)
    if isinstance(x, memoryview | bytearray | range):
        return _convert_object(np.asarray(x), dtype, copy)
    if x is None:
        raise DTypeError("array: None is no number")
    if _is_other_sequence(x):
        return _convert_object(_list_sequences(x), dtype, copy)
    return _convert_object(as_operand(x), dtype, copy)


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Makes an array, without a copy where `a` is one already. Arguments as for `array`.

    >>> asarray([[1, 2], [3, 4]], dtype="float32").shape
    (2, 2)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, asarray, a, dtype, order, copy=copy, device=device)
    return array(a, dtype, copy=bool(copy), order=order, device=device)


def copy(a: Operand, order: str | None = None) -> Array:
    """A copy of an array.

    >>> copy(np.ones(2)).tolist()
    [1.0, 1.0]
    """
    return array(as_operand(a), order=order)


def astype(x: Operand, dtype: DTypeLike | None, /, *, copy: bool = False, device: object = None) -> Array:
    """The elements converted to a dtype; complex numbers lose their imaginary part.

    >>> astype(2.7, int).tolist()
    2
    """
    result = arithmetic.astype(returnable_operand(x), float if dtype is None else dtype)
    if copy and result is x:
        result = perform(arithmetic.COPY, (result,))
    return result if device is None else device_put(result, device)


def make_filled(shape: Shape, value: Number, dtype: DType, weak: bool = False) -> Array:
    """Returns an array of one value: a broadcast where it is recorded or large, else a copy from the host.

    Args:
        shape: of the array.
        value: of its elements.
        dtype: of the array.
        weak: whether it is weakly typed.

    Raises:
        BackendError, ShapeError: no memory holds so much.
    """
    if dtype == dtypes.float0:
        return _float0_array(shape)
    if type(value) is int and dtypes.is_integer(dtype):
        check_fits(value, dtype)
    if not shape:
        return make_constant(np.array(value).astype(dtype), dtype, weak)
    t = array_type(dtype, shape, weak)
    if is_symbolic(value):
        return BroadcastInDim(shape, ())(size_scalar(cast("int", value), dtype, weak))
    if is_recorded() or has_symbolic(shape) or t.size > _COPIED or debug_nans.value or debug_infs.value:
        try:
            return BroadcastInDim(shape, ())(
                HostArray(np.array(value).astype(dtype).item(), array_type(dtype, (), weak))
            )
        except (BackendError, ShapeError) as error:
            error.message = f"{name_user_call()}:{error.message.partition(':')[2]}"
            raise
    data = np.full(shape, value).astype(dtype)
    data.flags.writeable = False
    return place_computed_data(data, t)


def _float0_array(shape: Shape) -> Array:
    # No device holds float0, so outside of programs its arrays are NumPy's, as those of gradients of integers are.
    if is_recorded() or has_symbolic(shape):
        return BroadcastInDim(shape, ())(HostArray(False, array_type(dtypes.float0)))
    return cast("Array", np.zeros(shape, dtypes.float0))


def _check_shape(shape: Any) -> Shape:
    sizes = shaping.to_shape(shape)
    if any([n < 0 for n in sizes]):
        raise ShapeError(f"{name_user_call()}: sizes must not be negative, got {list(sizes)}")
    return sizes


def to_device(x: Array, device: object) -> Array:
    """Returns an array on a device; None for where it is."""
    return x if device is None else device_put(x, device)


@typed_as_creation
def zeros(
    shape: Any, dtype: DTypeLike | None = None, *, device: object = None, out_sharding: OutSharding = None
) -> Array:
    """Zeros of a shape; f32 by default.

    >>> zeros((2, 3)).shape
    (2, 3)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, zeros, shape, dtype, device=device)
    result_dtype = dtypes.canonicalize_requested(float if dtype is None else dtype)
    return to_device(make_filled(_check_shape(shape), 0, result_dtype), device)


@typed_as_creation
def ones(
    shape: Any, dtype: DTypeLike | None = None, *, device: object = None, out_sharding: OutSharding = None
) -> Array:
    """Ones of a shape; f32 by default.

    >>> ones(2, int).tolist()
    [1, 1]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, ones, shape, dtype, device=device)
    result_dtype = dtypes.canonicalize_requested(float if dtype is None else dtype)
    return to_device(make_filled(_check_shape(shape), 1, result_dtype), device)


@typed_as_creation
def empty(
    shape: Any, dtype: DTypeLike | None = None, *, device: object = None, out_sharding: OutSharding = None
) -> Array:
    """Zeros of a shape: memory is always initialised.

    >>> empty(2).tolist()
    [0.0, 0.0]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, empty, shape, dtype, device=device)
    return zeros(shape, dtype, device=device)


def full(
    shape: Any,
    fill_value: Operand,
    dtype: DTypeLike | None = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of a shape filled with a value, which may be an array that broadcasts.

    >>> full(2, 7).tolist()
    [7, 7]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, full, shape, fill_value, dtype, device=device)
    sizes = _check_shape(shape)
    kind = type(fill_value)
    if kind is float or kind is int or kind is bool or kind is complex:
        fill_dtype, weak = dtypes.scalar_dtype(kind)
        if dtype is not None:
            fill_dtype, weak = dtypes.canonicalize_requested(dtype), False
        return to_device(make_filled(sizes, fill_value, fill_dtype, weak), device)  # type: ignore[arg-type]  # a number, by its type
    value = returnable_operand(fill_value)
    if dtype is not None:
        value = arithmetic.astype(value, dtype)
    return to_device(broadcast_to(value, sizes), device)


def _refuse_complex_fill(fill_value: object, dtype: DType) -> None:
    if isinstance(fill_value, complex) and not dtypes.is_complex(dtype):
        raise DTypeError(
            f"{name_user_call()}: {dtypes.short_name(dtype)} cannot hold the fill value {fill_value}"
        )


def _like_arguments(
    a: Operand | HasTypeAndShape, dtype: DTypeLike | None, shape: Any
) -> tuple[Shape, DType, bool]:
    # A ShapeDtypeStruct has a type and no value.
    known = a if isinstance(a, Array | np.ndarray | HasTypeAndShape) else as_operand(a)
    sizes = tuple(known.shape) if shape is None else _check_shape(shape)
    if dtype is None:
        return sizes, *dtypes.weak_dtype(known)
    return sizes, dtypes.canonicalize_requested(dtype), False


def _make_filled_like(
    like: object, device: object, value: Number, sizes: Shape, dtype: DType, weak: bool
) -> Array:
    """Returns an array of one value on a device; None for the devices of an array of this shape."""

    def fill(shape: Shape) -> Array:
        return make_filled(shape, value, dtype, weak)

    return fill_like(like, sizes, fill) if device is None else to_device(fill(sizes), device)


@typed_as_like
def zeros_like(
    a: Operand | HasTypeAndShape,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros of another array's shape and dtype, unless these are given.

    >>> zeros_like(np.ones(2, "int8")).dtype
    dtype('int8')
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, zeros_like, a, dtype, shape, device=device)
    return _make_filled_like(a, device, 0, *_like_arguments(a, dtype, shape))


@typed_as_like
def ones_like(
    a: Operand | HasTypeAndShape,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Ones of another array's shape and dtype, unless these are given.

    >>> ones_like(np.zeros(2)).tolist()
    [1.0, 1.0]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, ones_like, a, dtype, shape, device=device)
    return _make_filled_like(a, device, 1, *_like_arguments(a, dtype, shape))


@typed_as_like
def empty_like(
    prototype: Operand | HasTypeAndShape,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros of another array's shape and dtype: memory is always initialised.

    >>> empty_like(np.ones(2)).tolist()
    [0.0, 0.0]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, empty_like, prototype, dtype, shape, device=device)
    arguments = _like_arguments(prototype, dtype, shape)
    return _make_filled_like(prototype, device, 0, *arguments)


def full_like(
    a: Operand | HasTypeAndShape,
    fill_value: Operand,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of another's shape and dtype filled with a value.

    >>> full_like(np.zeros(2), 7).tolist()
    [7.0, 7.0]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, full_like, a, fill_value, dtype, shape, device=device)
    sizes, result_dtype, weak = _like_arguments(a, dtype, shape)
    if type(fill_value) in (bool, int, float):
        number = cast("Number", fill_value)
        return _make_filled_like(a, device, number, sizes, result_dtype, weak)
    _refuse_complex_fill(fill_value, result_dtype)
    value = convert(arithmetic.astype(returnable_operand(fill_value), result_dtype), result_dtype, weak)
    if device is not None:
        return to_device(broadcast_to(value, sizes), device)
    if value.type.shape:
        whole, sharding = broadcast_to(value, sizes), placement_of(a, sizes)
        return fill_like(a, sizes, lambda _: whole) if sharding is None else device_put(whole, sharding)
    return fill_like(a, sizes, lambda shape: broadcast_to(value, shape))
