"""Promotion of operands: to one dtype by table, then to one shape by NumPy broadcasting."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from effx import dtypes
from effx.dtypes import DType
from effx.errors import (
    DTypeError,
    ShapeError,
    TypePromotionError,
    name_user_call,
    user_passed_operands,
    warn_user,
)
from effx.flags import numpy_dtype_promotion, numpy_rank_promotion
from effx.ir.ops.convert import Bitcast, Convert
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.ops.sizes import SizeValue
from effx.ir.program import Literal
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import ArrayType, Shape, array_type
from effx.ir.values.array import Array, HostData, Number, Operand
from effx.ir.values.boxes import Box, HostArray
from effx.ir.values.scalars import int_range, scalar
from effx.ports import array_methods

if TYPE_CHECKING:
    import numpy.typing as npt


T = TypeVar("T")


def wrap_integer(value: int, dtype: DType) -> int:
    """Returns an int as a dtype of integers reads its lowest bits: -1 is 255 as u8, under `jit` and outside alike."""
    low, high = int_range(dtype)
    return value if low <= value <= high else (value - low) % (high - low + 1) + low


def size_scalar(n: int, dtype: DType, weak: bool = True) -> Array:
    """Returns a size, which may be symbolic, as a rank-0 array of `dtype`."""
    if is_symbolic(n):
        return convert(SizeValue(n)(), dtype, weak)
    return scalar(n if dtypes.is_integer(dtype) else float(n), dtype, weak)


def zeros(t: ArrayType) -> Array:
    """Returns zeros of a type; weak if the type is, and of keys those whose words are 0."""
    if dtypes.is_key(t.dtype):
        # No literal is a key, and a program that is staged would take a constant as one more operand.
        words = (*t.shape, dtypes.bits(t.dtype) // 32)
        return Bitcast(t.dtype)(zeros(array_type(dtypes.uint32, words)))
    zero = scalar(False if t.kind == "b" else 0, t.dtype, t.weak)
    return BroadcastInDim(t.shape, ())(zero) if t.shape else zero


# Conversions to arrays for classes without their own; libraries add theirs.
converters: dict[type, Callable[[Any], Any]] = {}


def as_operand(x: Operand, function_name: str = "") -> Array:
    """Returns `x` as an array that operations take; host data stays on the host.

    Raises:
        DTypeError: `x` is no array, number or NumPy array of a supported dtype.
    """
    if isinstance(x, Array):
        return x
    # `x * 2.0` is to be one equation. So a number becomes a rank-0 host array of the promoted dtype, weak,
    # which staging turns into a literal and the evaluator into a device scalar that it caches. NumPy arrays
    # become host arrays too, so that this layer needs no device.
    kind = type(x)
    if kind is float or kind is int or kind is bool or kind is complex:
        dtype, weak = dtypes.scalar_dtype(kind)
        return scalar(cast("Number", x), dtype, weak)
    if isinstance(x, np.ndarray | np.generic):
        return to_host_array(x, None, function_name)
    if isinstance(x, bool | int | float | complex):  # subclasses such as enums
        base = next(c for c in (bool, int, float, complex) if isinstance(x, c))
        return as_operand(base(x))  # type: ignore[arg-type]  # the union is not narrowed by base
    converter = getattr(x, "__effx_array__", None) or getattr(x, "__jax_array__", None)
    if converter is not None:
        return as_operand(converter(), function_name)
    if isinstance(x, list | tuple):
        raise DTypeError(
            f"{function_name or name_user_call()}: expected an array or a number, got a {kind.__name__}; "
            f"lists are converted only by array and asarray"
        )
    if hasattr(x, "__array__"):
        return to_host_array(np.asarray(x), None, function_name)
    if kind in converters:
        return as_operand(converters[kind](x), function_name)
    raise DTypeError(
        f"{function_name or name_user_call()}: expected an array or a number, got {x!r} of type {kind.__name__}"
    )


def convert_whole_float(value: T) -> T:
    """Returns a float that is whole as an int: `5e5 // 128` is meant as a count. All other values are unchanged.

    >>> convert_whole_float(3.0), convert_whole_float(2.5)
    (3, 2.5)
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return cast("T", int(value))
    return value


def as_operand_or_list(x: "Operand | Sequence[object]", function_name: str = "") -> Array:
    """Returns what a function takes as an array, where lists and tuples are taken too."""
    if isinstance(x, list | tuple):
        array: Array = array_methods.creation.asarray(x)
        return array
    return as_operand(cast("Operand", x), function_name)


def to_host_array(x: "npt.ArrayLike", dtype: DType | None = None, function_name: str = "") -> HostArray:
    """Returns NumPy data as a host array of this dtype, or of the canonical one, without copying where possible.

    Raises:
        OverflowError: no dtype is asked for, and 32 bits cannot hold an integer of 64.
        DTypeError: a masked array, whose mask would be lost.
    """
    if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
        raise DTypeError(
            f"{function_name or name_user_call()}: a masked array of NumPy has no counterpart here; fill it with "
            "x.filled(value), or pass x.data and the mask"
        )
    data = np.asarray(x)
    canonical = dtypes.canonicalize(data.dtype) if dtype is None else dtype
    if data.dtype != canonical:
        data = (
            data.astype(canonical)
            if dtype is not None
            else narrow_data(data, canonical, function_name=function_name)
        )
    return HostArray(data, array_type(canonical, data.shape))


def narrow_data(data: HostData, dtype: DType, *, function_name: str = "") -> HostData:
    """Converts NumPy data of 64 bits to the dtype that stands for theirs without `enable_x64`.

    Raises:
        OverflowError: an integer does not fit.
    """
    if data.dtype.kind in "iu" and dtype.kind in "iu" and data.size:
        low, high = int_range(dtype)
        for value in (int(data.min()), int(data.max())):
            if not low <= value <= high:
                raise OverflowError(
                    f"{function_name or name_user_call()}: {value} of {dtypes.short_name(data.dtype)} does not fit into "
                    f"{dtypes.short_name(dtype)}, which it becomes without enable_x64"
                )
    return data.astype(dtype)


def convert(x: Array, dtype: DType, weak: bool = False) -> Array:
    """Converts to a dtype; performs no operation if the dtype is the same."""
    t = x.type
    if t.dtype == dtype and t.weak == weak:
        return x
    if t.weak:
        # A Python number takes the dtype as it is, without rounding twice.
        new_type = array_type(dtype, t.shape, weak)
        if type(x) is HostArray and not isinstance(x.value, np.ndarray):
            number = _convert_number(x.value, dtype)
            if number is not None:
                return HostArray(number, new_type)
        elif type(x) is Box and type(x.payload) is Literal:
            number = _convert_number(x.payload.value, dtype)
            if number is not None:
                return Box(x.frame, Literal(number, new_type), new_type)
    return Convert(dtype, weak)(x)


def _convert_number(value: Number, dtype: DType) -> Number | None:
    """Converts a Python number to a dtype that holds it; None for another dtype, to which an operation converts."""
    if dtype.kind == "c" or (dtypes.is_floating(dtype) and not isinstance(value, complex)):
        return value
    if dtypes.is_integer(dtype) and isinstance(value, int):
        return wrap_integer(int(value), dtype)
    return None


def promote_dtypes(*operands: Operand) -> list[Array]:
    """Converts operands to their common dtype, by the promotion lattice."""
    arrays: list[Array] = []
    dtype: DType | None = None
    weak = False
    for x in operands:
        array = x if isinstance(x, Array) else as_operand(x)
        t = array.type
        arrays.append(array)
        if dtype is None:
            dtype, weak = t.dtype, t.weak
        elif t.dtype != dtype or t.weak != weak:
            dtype, weak = dtypes.promote(dtype, weak, t.dtype, t.weak)
    assert dtype is not None
    return [
        x if x.type.dtype == dtype and (x.type.weak == weak or not weak) else convert(x, dtype, weak)
        for x in arrays
    ]


def refuse_mixed_dtypes(*operands: object) -> None:
    """Refuses arrays of different dtypes under strict promotion, for functions that combine them only later.

    Python's numbers promote, and are left alone, as other values are.

    Raises:
        TypePromotionError: `numpy_dtype_promotion` is "strict", and the user has passed different dtypes.
    """
    if numpy_dtype_promotion.value == "strict":
        arrays = [as_operand(x) for x in operands if isinstance(x, Array | np.ndarray | np.generic)]
        if len({x.type.dtype for x in arrays if not x.type.weak}) > 1:
            promote_dtypes(*arrays)  # raises, if the user passed them


def promote_factors(*operands: Operand, preferred: object) -> list[Array]:
    """Like `promote_dtypes`, for products whose result has a dtype of its own if `preferred` is not None.

    Then small floats and integers, which promote to no others, become the least dtype with a promotion that holds them.
    """
    try:
        return promote_dtypes(*operands)
    except TypePromotionError:
        if preferred is None:
            raise
    arrays = [as_operand(x) for x in operands]
    return promote_dtypes(
        *[convert(x, _WIDER_DTYPES.get(x.type.dtype, x.type.dtype), x.type.weak) for x in arrays]
    )


_WIDER_DTYPES: dict[DType, DType] = {
    **dict.fromkeys(dtypes.TINY_FLOATS, dtypes.bfloat16),
    dtypes.int2: dtypes.int8, dtypes.int4: dtypes.int8, dtypes.uint2: dtypes.uint8, dtypes.uint4: dtypes.uint8,
}  # fmt: skip


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """Returns the NumPy broadcast of shapes.

    Raises:
        ShapeError: two sizes differ and neither is 1.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    ndim = max((len(s) for s in shapes), default=0)
    result = []
    for axis in range(-ndim, 0):
        size = 1
        for s in shapes:
            if len(s) >= -axis and s[axis] != 1:
                if size not in (1, s[axis]):
                    raise ShapeError(
                        f"{name_user_call()}: shapes do not fit: {', '.join(str(list(s)) for s in shapes)} "
                        f"differ on axis {axis}: {size} and {s[axis]}"
                    )
                size = s[axis]
        result.append(size)
    return tuple(result)


def broadcast_to(x: Array, shape: Shape) -> Array:
    """Broadcasts to a shape, as NumPy does.

    Raises:
        ShapeError: the shape is no broadcast of x's.
    """
    t = x.type
    if t.shape == shape:
        return x
    offset = len(shape) - t.ndim
    if offset < 0 or any([n not in (1, shape[i + offset]) for i, n in enumerate(t.shape)]):
        raise ShapeError(f"{name_user_call()}: {t!r} does not broadcast to shape {list(shape)}")
    return BroadcastInDim(shape, tuple(range(offset, len(shape))))(x)


def broadcast_arrays(
    arrays: Sequence[Array], keep_scalars: bool = True, checks_ranks: bool = True
) -> list[Array]:
    """Broadcasts arrays against each other but rank-0 ones, which elementwise operations broadcast.

    Args:
        arrays: the arrays.
        keep_scalars: False to broadcast those of rank 0 too.
        checks_ranks: False for functions to which `numpy_rank_promotion` does not apply.
    """
    shapes = {x.type.shape for x in arrays if x.type.shape or not keep_scalars}
    if len(shapes) < 2:
        return list(arrays)
    if checks_ranks and numpy_rank_promotion.value != "allow":
        check_rank_promotion([len(s) for s in shapes], arrays)
    shape = broadcast_shapes(*shapes)
    return [x if keep_scalars and not x.type.shape else broadcast_to(x, shape) for x in arrays]


def check_rank_promotion(ranks: Sequence[int], arrays: Sequence[Array]) -> None:
    """Warns of operands of different rank, or refuses them, as `numpy_rank_promotion` says; scalars fit any rank.

    Args:
        ranks: those that are compared, of the operands or of their batches.
        arrays: the operands, for the message.

    Raises:
        ShapeError: the setting is "raise", and the user has passed operands of different rank.
    """
    mode = numpy_rank_promotion.value
    if mode == "allow" or len({rank for rank in ranks if rank}) < 2 or not user_passed_operands():
        return
    text = f"{name_user_call()}: operands of different rank: {', '.join(repr(x.type) for x in arrays)}"
    if mode == "raise":
        raise ShapeError(f"{text}; numpy_rank_promotion is 'raise'")
    warn_user(text)


def promote(*operands: Operand) -> list[Array]:
    """Promotes operands to their common dtype and shape; rank-0 operands keep their rank."""
    return broadcast_arrays(promote_dtypes(*operands))
