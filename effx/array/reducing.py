"""Reductions and cumulative reductions with NumPy's semantics; results are never weak."""

# The public names are NumPy's; inside this module they shadow the builtins on purpose.
import builtins
from collections.abc import Sequence
from typing import Any

from effx import dtypes
from effx.array import ordering
from effx.array.arithmetic import inexact_dtype
from effx.array.arithmetic import where as select_where
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, convert, scalar, size_scalar
from effx.array.shaping import normalize_axes, normalize_axis, reshape
from effx.dtypes import DType
from effx.effects import perform
from effx.errors import ShapeError
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import ArrayType
from effx.ir.values.array import Array, Operand

Axis = int | Sequence[int] | None


def _keep(result: Array, t: ArrayType, axes: tuple[int, ...], keepdims: bool) -> Array:
    return (
        reshape(result, tuple([1 if i in axes else n for i, n in enumerate(t.shape)])) if keepdims else result
    )


def _masked(x: Array, where: Operand | None, fill: Operand | None, what: str) -> Array:
    if where is None:
        return x
    if fill is None:
        raise ShapeError(f"{what}: where= needs initial=, because there may be no elements")
    mask = as_operand(where)
    shape = broadcast_shapes(x.type.shape, mask.type.shape)
    return select_where(mask, broadcast_to(x, shape), _first(what, fill, x.type.dtype))


def no_out(what: str, out: object) -> None:
    """Raises an error if an array to write to was given."""
    if out is not None:
        raise ShapeError(f"{what}: arrays are immutable, so out= is not supported; use the result")


def sum_dtype(dtype: DType) -> DType:
    """Returns the dtype of NumPy's sum: integers at least as wide as the default integer."""
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
    x = _masked(x, where, 0, "sum")
    t = x.type
    axes = normalize_axes("sum", axis, t)
    result_dtype = sum_dtype(t.dtype) if dtype is None else dtypes.requested(dtype)
    wide = dtypes.float32 if result_dtype.itemsize == 2 and dtypes.is_floating(result_dtype) else result_dtype
    total = _keep(convert(r.ReduceSum(axes)(convert(x, wide)), result_dtype), t, axes, keepdims)
    return total if initial is None else convert(total + initial, result_dtype)


def prod(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The product over axes."""
    x = _masked(x, where, 1, "prod")
    t = x.type
    axes = normalize_axes("prod", axis, t)
    result_dtype = sum_dtype(t.dtype) if dtype is None else dtypes.requested(dtype)
    wide = dtypes.float32 if result_dtype.itemsize == 2 and dtypes.is_floating(result_dtype) else result_dtype
    total = _keep(convert(r.ReduceProd(axes)(convert(x, wide)), result_dtype), t, axes, keepdims)
    return total if initial is None else convert(total * initial, result_dtype)


def _extreme(
    op: "type[r.ReduceMax | r.ReduceMin]",
    x: Array,
    axis: Axis,
    keepdims: bool,
    initial: Operand | None,
    where: Operand | None,
) -> Array:
    what = "max" if op is r.ReduceMax else "min"
    first = None if initial is None else _first(what, initial, x.type.dtype)
    x = _masked(x, where, first, what)
    t = x.type
    axes = normalize_axes(what, axis, t)
    if initial is None and builtins.any([t.shape[a] == 0 for a in axes]):
        raise ShapeError(f"{what}: {t!r} has no elements over axes {axes}, and no initial value was given")
    combine = e.Max() if op is r.ReduceMax else e.Min()
    if t.kind == "c":
        result = _keep(convert(ordering.extreme(op(axes), x), t.dtype), t, axes, keepdims)
        return result if first is None else ordering.by_parts(combine, result, _spread(first, result))
    result = _keep(convert(op(axes)(x), t.dtype), t, axes, keepdims)
    return result if first is None else perform(combine, (result, _spread(first, result)))


def _first(what: str, initial: Operand, dtype: DType) -> Array:
    if isinstance(initial, int | float | complex):
        return scalar(initial, dtype)
    array = as_operand(initial, what)
    if array.type.ndim:
        raise ShapeError(f"{what}: initial must be a scalar, got {array.type!r}")
    return convert(array, dtype)


def _spread(first: Array, result: Array) -> Array:
    return broadcast_to(first, result.type.shape)


def max(
    x: Array,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The largest element over axes; NaN if there is one."""
    return _extreme(r.ReduceMax, x, axis, keepdims, initial, where)


def min(
    x: Array,
    axis: Axis = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The smallest element over axes; NaN if there is one."""
    return _extreme(r.ReduceMin, x, axis, keepdims, initial, where)


def _truth(x: Array) -> Array:
    return x if x.type.kind == "b" else x != 0


def all(x: Array, axis: Axis = None, keepdims: bool = False, where: Operand | None = None) -> Array:
    """Whether all elements are true."""
    x = _masked(_truth(x), where, True, "all")
    axes = normalize_axes("all", axis, x.type)
    return _keep(r.ReduceAnd(axes)(x), x.type, axes, keepdims)


def any(x: Array, axis: Axis = None, keepdims: bool = False, where: Operand | None = None) -> Array:
    """Whether any element is true."""
    x = _masked(_truth(x), where, False, "any")
    axes = normalize_axes("any", axis, x.type)
    return _keep(r.ReduceOr(axes)(x), x.type, axes, keepdims)


def _count(x: Array, axes: tuple[int, ...], where: Operand | None, keepdims: bool) -> Array | int:
    if where is None:
        count = 1
        for a in axes:
            count *= x.type.shape[a]
        return count
    return sum(broadcast_to(as_operand(where), x.type.shape), axes, dtypes.float32, keepdims)


def mean(
    x: Array, axis: Axis = None, dtype: Any = None, keepdims: bool = False, where: Operand | None = None
) -> Array:
    """The mean over axes; integers give floats, 16-bit floats are summed in f32."""
    result = inexact_dtype(x.type.dtype) if dtype is None else dtypes.requested(dtype)
    if where is not None:
        x = broadcast_to(x, broadcast_shapes(x.type.shape, as_operand(where).type.shape))
    axes = normalize_axes("mean", axis, x.type)
    wide = dtypes.float32 if result.itemsize == 2 and dtypes.is_floating(result) else result
    total = sum(convert(x, wide), axes, wide, keepdims, where=where)
    count = _count(x, axes, where, keepdims)
    number = convert(count, wide) if isinstance(count, Array) else size_scalar(count, wide)
    return convert(total / number, result)


def var(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Operand | None = None,
    around: Operand | None = None,
) -> Array:
    """The variance over axes, divided by the count less `ddof`; real for complex numbers. `around` is the mean."""
    computed = inexact_dtype(x.type.dtype)
    result = dtypes.real_dtype(computed) if dtype is None else dtypes.requested(dtype)
    if computed.itemsize == 2:
        computed = dtypes.float32
    x = convert(x, computed)
    if where is not None:
        x = broadcast_to(x, broadcast_shapes(x.type.shape, as_operand(where).type.shape))
    axes = normalize_axes("var", axis, x.type)
    centered = x - (mean(x, axes, keepdims=True, where=where) if around is None else around)
    if x.type.kind == "c":
        re, im = perform(e.Real(), (centered,)), perform(e.Imag(), (centered,))
        squared = re * re + im * im
    else:
        squared = centered * centered
    count = _count(x, axes, where, keepdims)
    if isinstance(count, Array):
        divisor: Array | float = convert(count, squared.type.dtype) - ddof
    elif is_symbolic(count):
        divisor = size_scalar(count, squared.type.dtype) - ddof
    else:
        divisor = float(count - ddof)
    return convert(sum(squared, axes, None, keepdims, where=where) / divisor, result)


def std(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Operand | None = None,
    around: Operand | None = None,
) -> Array:
    """The standard deviation over axes. Arguments as for `var`."""
    return perform(e.Sqrt(), (var(x, axis, dtype, ddof, keepdims, where, around),))


def _arg(op: "type[r.ArgMax | r.ArgMin]", x: Array, axis: int | None, keepdims: bool, dtype: Any) -> Array:
    what = "argmax" if op is r.ArgMax else "argmin"
    index_dtype = dtypes.canonicalize(dtypes.int64 if dtype is None else dtype)
    t = x.type
    if axis is None:
        result = _arg(op, reshape(x, -1), 0, False, dtype)
        return reshape(result, (1,) * t.ndim) if keepdims else result
    place = normalize_axis(what, axis, t.ndim, t)
    found = op(place, index_dtype)
    if t.kind == "c":
        return _keep(ordering.arg_extreme(found, x), t, (place,), keepdims)
    return _keep(found(x), t, (place,), keepdims)


def argmax(x: Array, axis: int | None = None, keepdims: bool = False, dtype: Any = None) -> Array:
    """The index of the first largest element; NaN counts as largest."""
    return _arg(r.ArgMax, x, axis, keepdims, dtype)


def argmin(x: Array, axis: int | None = None, keepdims: bool = False, dtype: Any = None) -> Array:
    """The index of the first smallest element; NaN counts as smallest."""
    return _arg(r.ArgMin, x, axis, keepdims, dtype)


def _cumulative(
    op: "type[r.Cumulative]", x: Array, axis: int | None, dtype: Any, reverse: bool, what: str
) -> Array:
    if axis is None:
        x, axis = reshape(x, -1), 0
    place = normalize_axis(what, axis, x.type.ndim, x.type)
    if dtype is not None:
        found = dtypes.canonicalize(dtype)
    else:
        found = dtypes.canonicalize(dtypes.int64) if x.type.kind == "b" else x.type.dtype
    return op(place, reverse)(convert(x, found))


def cumsum(x: Array, axis: int | None = None, dtype: Any = None, reverse: bool = False) -> Array:
    """Cumulative sums along an axis."""
    return _cumulative(r.CumSum, x, axis, dtype, reverse, "cumsum")


def cumprod(x: Array, axis: int | None = None, dtype: Any = None, reverse: bool = False) -> Array:
    """Cumulative products along an axis."""
    return _cumulative(r.CumProd, x, axis, dtype, reverse, "cumprod")


def cummax(x: Array, axis: int | None = None, reverse: bool = False) -> Array:
    """Cumulative maxima along an axis."""
    return _cumulative(r.CumMax, x, axis, None, reverse, "cummax")


def cummin(x: Array, axis: int | None = None, reverse: bool = False) -> Array:
    """Cumulative minima along an axis."""
    return _cumulative(r.CumMin, x, axis, None, reverse, "cummin")
