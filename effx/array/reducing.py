"""Reductions and cumulative reductions with NumPy's semantics; results are never weak."""

# The public names are NumPy's; inside this module they shadow the builtins on purpose.
import builtins
import math
from collections.abc import Sequence
from typing import Any

from effx import dtypes
from effx.array import ordering
from effx.array.arithmetic import inexact_dtype, real
from effx.array.arithmetic import where as select_where
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, convert, size_scalar
from effx.array.shaping import flatten_without_axis, normalize_axes, normalize_axis, reshape
from effx.dtypes import DType
from effx.effects import perform
from effx.errors import OptionError, ShapeError, name_user_call
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import ArrayType
from effx.ir.values.array import Array, Operand
from effx.ir.values.scalars import scalar

Axis = int | Sequence[int] | None


def _restore_axes(result: Array, t: ArrayType, axes: tuple[int, ...], keepdims: bool) -> Array:
    return (
        reshape(result, tuple([1 if i in axes else n for i, n in enumerate(t.shape)])) if keepdims else result
    )


def _apply_where(x: Array, where: Operand | None, fill: Operand | None) -> Array:
    if where is None:
        return x
    if fill is None:
        raise ShapeError(f"{name_user_call()}: where= needs initial=, because there may be no elements")
    mask = as_mask(where, x.type.ndim)
    shape = broadcast_shapes(x.type.shape, mask.type.shape)
    return select_where(mask, broadcast_to(x, shape), _convert_initial(fill, x.type.dtype))


def as_mask(where: Operand, ndim: int = 0) -> Array:
    """Returns the argument `where` as an array of at least `ndim` axes: masks may have fewer under every setting.

    Raises:
        OptionError: it is not boolean.
    """
    mask = as_operand(where)
    if mask.type.kind != "b":
        raise OptionError(f"{name_user_call()}: where must be boolean, got {mask.type!r}")
    missing = ndim - mask.type.ndim
    return reshape(mask, (1,) * missing + mask.type.shape) if missing > 0 else mask


def refuse_out(out: object) -> None:
    """Raises an error if an array to write to was given."""
    if out is not None:
        raise ShapeError(
            f"{name_user_call()}: arrays are immutable, so out= is not supported; use the result"
        )


def accumulation_dtype(dtype: DType) -> DType:
    """Returns the dtype in which numbers of a dtype are added up: f32 for floats of 16 bits, else the dtype itself."""
    return dtypes.float32 if dtype.itemsize == 2 and dtypes.is_floating(dtype) else dtype


def convert_as_asked(x: Array, dtype: DType) -> Array:
    """Converts to a dtype that the user asked for; what is to be real loses its imaginary part, as by `astype`."""
    return convert(real(x) if x.type.kind == "c" and not dtypes.is_complex(dtype) else x, dtype)


def sum_dtype(dtype: DType) -> DType:
    """Returns the dtype of NumPy's sum: integers at least as wide as the default integer."""
    if dtypes.keeps_64_bits(dtype):
        return dtype
    if dtype.kind == "u":
        return dtypes.canonicalize(dtypes.uint64)
    if dtype.kind in "bi":
        return dtypes.canonicalize(dtypes.int64)
    return dtype


def sum(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The sum over axes; 16-bit floats are summed in f32."""
    x = _apply_where(x, where, 0)
    t = x.type
    axes = normalize_axes(axis, t)
    result_dtype = sum_dtype(t.dtype) if dtype is None else dtypes.canonicalize_requested(dtype)
    if result_dtype == dtypes.bool_:  # as in NumPy
        truth = any(x, axis, keepdims)
        return truth if initial is None else truth | convert(as_operand(initial), dtypes.bool_)
    wide = accumulation_dtype(result_dtype)
    total = _restore_axes(
        convert(r.ReduceSum(axes)(convert_as_asked(x, wide)), result_dtype), t, axes, keepdims
    )
    return total if initial is None else total + _convert_initial(initial, result_dtype)


def prod(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The product over axes."""
    x = _apply_where(x, where, 1)
    t = x.type
    axes = normalize_axes(axis, t)
    result_dtype = sum_dtype(t.dtype) if dtype is None else dtypes.canonicalize_requested(dtype)
    if result_dtype == dtypes.bool_:  # as in NumPy
        truth = all(x, axis, keepdims)
        return truth if initial is None else truth & convert(as_operand(initial), dtypes.bool_)
    wide = accumulation_dtype(result_dtype)
    total = _restore_axes(
        convert(r.ReduceProd(axes)(convert_as_asked(x, wide)), result_dtype), t, axes, keepdims
    )
    return total if initial is None else total * _convert_initial(initial, result_dtype)


def _reduce_extreme(
    op: "type[r.ReduceMax | r.ReduceMin]",
    x: Array,
    axis: Axis,
    keepdims: bool,
    initial: Operand | None,
    where: Operand | None,
) -> Array:
    first = None if initial is None else _convert_initial(initial, x.type.dtype)
    x = _apply_where(x, where, first)
    t = x.type
    axes = normalize_axes(axis, t)
    if initial is None and builtins.any([t.shape[a] == 0 for a in axes]):
        raise ShapeError(
            f"{name_user_call()}: {t!r} has no elements over axes {axes}, and no initial value was given"
        )
    combine = e.Max() if op is r.ReduceMax else e.Min()
    if t.kind == "c":
        result = _restore_axes(convert(ordering.reduce_extreme(op(axes), x), t.dtype), t, axes, keepdims)
        return (
            result
            if first is None
            else ordering.compare_by_parts(combine, result, _broadcast_initial(first, result))
        )
    result = _restore_axes(convert(op(axes)(x), t.dtype), t, axes, keepdims)
    return result if first is None else perform(combine, (result, _broadcast_initial(first, result)))


def _convert_initial(initial: Operand, dtype: DType) -> Array:
    if isinstance(initial, int | float | complex):
        return scalar(initial, dtype)
    array = as_operand(initial)
    if array.type.ndim:
        raise ShapeError(f"{name_user_call()}: initial must be a scalar, got {array.type!r}")
    return convert(array, dtype)


def _broadcast_initial(first: Array, result: Array) -> Array:
    return broadcast_to(first, result.type.shape)


def max(
    x: Array,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The largest element over axes; NaN if there is one."""
    return _reduce_extreme(r.ReduceMax, x, axis, keepdims, initial, where)


def min(
    x: Array,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The smallest element over axes; NaN if there is one."""
    return _reduce_extreme(r.ReduceMin, x, axis, keepdims, initial, where)


def _to_bool(x: Array) -> Array:
    return x if x.type.kind == "b" else x != 0


def all(x: Array, axis: Axis = None, keepdims: bool = False, where: Operand | None = None) -> Array:
    """Whether all elements are true."""
    x = _apply_where(_to_bool(x), where, True)
    axes = normalize_axes(axis, x.type)
    return _restore_axes(r.ReduceAnd(axes)(x), x.type, axes, keepdims)


def any(x: Array, axis: Axis = None, keepdims: bool = False, where: Operand | None = None) -> Array:
    """Whether any element is true."""
    x = _apply_where(_to_bool(x), where, False)
    axes = normalize_axes(axis, x.type)
    return _restore_axes(r.ReduceOr(axes)(x), x.type, axes, keepdims)


def _count_elements(x: Array, axes: tuple[int, ...], where: Operand | None, keepdims: bool) -> Array | int:
    if where is None:
        count = 1
        for a in axes:
            count *= x.type.shape[a]
        return count
    return sum(broadcast_to(as_mask(where), x.type.shape), axes, dtypes.float32, keepdims)


def mean(
    x: Array, axis: Axis = None, dtype: Any = None, keepdims: bool = False, where: Operand | None = None
) -> Array:
    """The mean over axes; integers give floats, 16-bit floats are summed in f32."""
    result = inexact_dtype(x.type.dtype) if dtype is None else dtypes.canonicalize_requested(dtype)
    if where is not None:
        x = broadcast_to(x, broadcast_shapes(x.type.shape, as_mask(where).type.shape))
    axes = normalize_axes(axis, x.type)
    wide = accumulation_dtype(result)
    total = sum(convert_as_asked(x, wide), axes, wide, keepdims, where=where)
    count = _count_elements(x, axes, where, keepdims)
    number = convert(count, wide) if isinstance(count, Array) else size_scalar(count, wide)
    return convert(total / number, result)


def var(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
    around: Operand | None = None,
) -> Array:
    """The variance over axes, divided by the count less `ddof`; real for complex numbers. `around` is the mean.

    NaN where that divisor is not positive.
    """
    computed = inexact_dtype(x.type.dtype)
    result = dtypes.real_dtype(computed) if dtype is None else dtypes.canonicalize_requested(dtype)
    if computed.itemsize == 2:
        computed = dtypes.float32
    x = convert(x, computed)
    if where is not None:
        x = broadcast_to(x, broadcast_shapes(x.type.shape, as_mask(where).type.shape))
    axes = normalize_axes(axis, x.type)
    centered = x - (mean(x, axes, keepdims=True, where=where) if around is None else around)
    if x.type.kind == "c":
        re, im = perform(e.Real(), (centered,)), perform(e.Imag(), (centered,))
        squared = re * re + im * im
    else:
        squared = centered * centered
    count = _count_elements(x, axes, where, keepdims)
    return convert(
        sum(squared, axes, None, keepdims, where=where) / free_count(count, ddof, squared.type.dtype),
        result,
    )


def free_count(count: Array | int, ddof: float, dtype: DType) -> Array | float:
    """Returns the count of observations less `ddof`; NaN where none is left, since there is no variance then."""
    if not isinstance(count, Array) and not is_symbolic(count):
        return float(count - ddof) if count > ddof else math.nan
    rest = (convert(count, dtype) if isinstance(count, Array) else size_scalar(count, dtype)) - ddof
    return select_where(rest > 0, rest, math.nan)


def std(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
    around: Operand | None = None,
) -> Array:
    """The standard deviation over axes. Arguments as for `var`."""
    result = (
        dtypes.real_dtype(inexact_dtype(x.type.dtype))
        if dtype is None
        else dtypes.canonicalize_requested(dtype)
    )
    # The square of a deviation of 16 bits overflows where its root does not.
    wide = accumulation_dtype(result)
    return convert(
        perform(e.Sqrt(), (var(x, axis, wide, ddof, keepdims, where=where, around=around),)), result
    )


def _arg_reduction(
    op: "type[r.ArgMax | r.ArgMin]", x: Array, axis: int | None, keepdims: bool, dtype: Any
) -> Array:
    index_dtype = dtypes.canonicalize(dtypes.int64 if dtype is None else dtype)
    t = x.type
    if axis is None:
        result = _arg_reduction(op, reshape(x, -1), 0, False, dtype)
        return reshape(result, (1,) * t.ndim) if keepdims else result
    resolved_axis = normalize_axis(axis, t.ndim, t)
    reduction = op(resolved_axis, index_dtype)
    if t.kind == "c":
        return _restore_axes(ordering.arg_extreme(reduction, x), t, (resolved_axis,), keepdims)
    return _restore_axes(reduction(x), t, (resolved_axis,), keepdims)


def argmax(x: Array, axis: int | None = None, keepdims: bool = False, dtype: Any = None) -> Array:
    """The index of the first largest element; NaN counts as largest."""
    return _arg_reduction(r.ArgMax, x, axis, keepdims, dtype)


def argmin(x: Array, axis: int | None = None, keepdims: bool = False, dtype: Any = None) -> Array:
    """The index of the first smallest element; NaN counts as smallest."""
    return _arg_reduction(r.ArgMin, x, axis, keepdims, dtype)


def _reduce_cumulatively(
    op: "type[r.Cumulative]", x: Array, axis: int | None, dtype: Any, reverse: bool
) -> Array:
    x, resolved_axis = flatten_without_axis(x, axis)
    if dtype is not None:
        result_dtype = dtypes.canonicalize(dtype)
    else:
        result_dtype = dtypes.canonicalize(dtypes.int64) if x.type.kind == "b" else x.type.dtype
    if result_dtype == dtypes.bool_ and op in _OF_BOOLS:
        # As in NumPy: whether any, or all, elements so far are true.
        bytes_ = convert(convert(x, dtypes.bool_), dtypes.uint8)
        return convert(_OF_BOOLS[op](resolved_axis, reverse)(bytes_), dtypes.bool_)
    return op(resolved_axis, reverse)(convert(x, result_dtype))


_OF_BOOLS: dict[type[r.Cumulative], type[r.Cumulative]] = {r.CumSum: r.CumMax, r.CumProd: r.CumMin}


def cumsum(x: Array, axis: int | None = None, dtype: Any = None, reverse: bool = False) -> Array:
    """Cumulative sums along an axis."""
    return _reduce_cumulatively(r.CumSum, x, axis, dtype, reverse)


def cumprod(x: Array, axis: int | None = None, dtype: Any = None, reverse: bool = False) -> Array:
    """Cumulative products along an axis."""
    return _reduce_cumulatively(r.CumProd, x, axis, dtype, reverse)


def cummax(x: Array, axis: int | None = None, reverse: bool = False) -> Array:
    """Cumulative maxima along an axis."""
    return _reduce_cumulatively(r.CumMax, x, axis, None, reverse)


def cummin(x: Array, axis: int | None = None, reverse: bool = False) -> Array:
    """Cumulative minima along an axis."""
    return _reduce_cumulatively(r.CumMin, x, axis, None, reverse)
