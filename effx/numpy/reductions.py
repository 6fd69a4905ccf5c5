"""Reductions over axes, and cumulative ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from effx import dtypes
from effx.array import Array, reducing, shaping
from effx.array.arithmetic import to_inexact, where
from effx.array.promotion import as_operand, broadcast_to, convert, promote_dtypes, refuse_mixed_dtypes
from effx.array.reducing import refuse_out
from effx.array.shaping import normalize_axis
from effx.dtypes import DTypeLike
from effx.errors import ShapeError, name_user_call
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.values.overloads import with_overloads_of
from effx.ir.values.parameters import DT, Dims, F
from effx.ir.values.scalars import scalar
from effx.lax.operands import check_int
from effx.transforms.custom.custom_derivatives import custom_jvp

if TYPE_CHECKING:
    from effx.array import Number, Operand
    from effx.ir.values.array import Axis, Numeric, Scalar, bool_

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "minmax", "prod", "ptp", "std",
    "sum", "trapezoid", "var",
]  # fmt: skip


@overload
def sum(
    a: Array[F, *Dims] | Numeric,
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = False,
    initial: Operand | None = None,
    where: Operand | None = None,
    promote_integers: bool = True,
) -> Scalar[F]: ...
@overload
def sum(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
    promote_integers: bool = True,
) -> Array: ...
def sum(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over axes; integers are summed in the default integer dtype, 16-bit floats in f32.

    Args:
        a: the array.
        axis: an axis or several; None for all.
        dtype: of the sum and of the result.
        out: not supported.
        keepdims: True to keep the axes with size 1.
        initial: added to the sum.
        where: which elements to include; broadcasts against `a`.
        promote_integers: False to sum integers in their own dtype.

    >>> sum(np.ones((2, 3)), axis=0).tolist()
    [2.0, 2.0, 2.0]
    """
    refuse_out(out)
    x = as_operand(a)
    return reducing.sum(x, axis, _method_dtype(x, dtype, promote_integers), keepdims, initial, where)


@with_overloads_of(sum)
def prod(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product over axes. Arguments as for `sum`.

    >>> int(prod(np.array([2, 3])))
    6
    """
    refuse_out(out)
    x = as_operand(a)
    return reducing.prod(x, axis, _method_dtype(x, dtype, promote_integers), keepdims, initial, where)


def _method_dtype(x: Array, dtype: DTypeLike | None, promote_integers: bool) -> DTypeLike | None:
    return x.type.dtype if dtype is None and not promote_integers and x.type.kind in "iu" else dtype


@overload
def max(
    a: Array[DT, *Dims] | Numeric,
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Scalar[DT]: ...
@overload
def max(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array: ...
def max(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The largest element over axes; NaN if there is one. Arguments as for `sum`.

    Raises:
        ShapeError: no elements, or `where`, without `initial`.

    >>> int(max(np.array([2, 3])))
    3
    """
    refuse_out(out)
    return reducing.max(as_operand(a), axis, keepdims, initial, where)


@with_overloads_of(max)
def min(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The smallest element over axes; NaN if there is one. Arguments as for `sum`.

    Raises:
        ShapeError: no elements, or `where`, without `initial`.

    >>> int(min(np.array([2, 3])))
    2
    """
    refuse_out(out)
    return reducing.min(as_operand(a), axis, keepdims, initial, where)


amax, amin = max, min


def minmax(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | tuple[Number, Number] | None = None,
    where: Operand | None = None,
) -> tuple[Array, Array]:
    """The smallest and the largest element over axes.

    Args:
        a: real numbers.
        axis: an axis or several; None for all.
        out: not supported.
        keepdims: True to keep the axes with size 1.
        initial: takes part as one more element; or a pair, of which the minimum takes the first.
        where: which elements to include; it needs `initial`.

    >>> [int(x) for x in minmax(np.array([2, 7, 3]))]
    [2, 7]
    """
    refuse_out(out)
    x = as_operand(a)
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return reducing.min(x, axis, keepdims, low, where), reducing.max(x, axis, keepdims, high, where)


def ptp(a: Operand, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The largest less the smallest element over axes.

    >>> int(ptp(np.array([2, 7])))
    5
    """
    refuse_out(out)
    x = as_operand(a)
    return reducing.max(x, axis, keepdims) - reducing.min(x, axis, keepdims)


@overload
def mean(
    a: Array[F, *Dims] | Numeric,
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = False,
    *,
    where: Operand | None = None,
) -> Scalar[F]: ...
@overload
def mean(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
) -> Array: ...
def mean(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
) -> Array:
    """The mean over axes; integers give floats. Arguments as for `sum`.

    >>> float(mean(np.array([1, 2])))
    1.5
    """
    refuse_out(out)
    return reducing.mean(as_operand(a), axis, dtype, keepdims, where)


def var(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
    mean: Operand | None = None,
    correction: float | None = None,
) -> Array:
    """The variance over axes: the sum of squared distances from the mean by the count less `ddof`.

    Args:
        a: the array; of complex numbers the variance is real.
        axis: an axis or several; None for all.
        dtype: of the result.
        out: not supported.
        ddof: subtracted from the count; `correction` is the array API's name for it.
        keepdims: True to keep the axes with size 1.
        where: which elements to include.
        mean: the mean, if it is known, as with `keepdims`.
        correction: see `ddof`.

    >>> float(var(np.array([1.0, 3.0])))
    1.0
    """
    refuse_out(out)
    free = _resolve_ddof(ddof, correction)
    return reducing.var(as_operand(a), axis, dtype, free, keepdims, where=where, around=mean)


def std(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
    mean: Operand | None = None,
    correction: float | None = None,
) -> Array:
    """The standard deviation over axes: the root of the variance. Arguments as for `var`.

    >>> float(std(np.array([1.0, 3.0])))
    1.0
    """
    refuse_out(out)
    free = _resolve_ddof(ddof, correction)
    return reducing.std(as_operand(a), axis, dtype, free, keepdims, where=where, around=mean)


def _resolve_ddof(ddof: float, correction: float | None) -> float:
    if correction is None:
        return ddof
    if ddof != 0:
        raise ShapeError(
            f"{name_user_call()}: ddof and correction are two names for one number; give one of them"
        )
    return correction


@overload
def all(
    a: Operand,
    axis: None = None,
    out: None = None,
    keepdims: Literal[False] = False,
    *,
    where: Operand | None = None,
) -> Scalar[bool_]: ...
@overload
def all(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
) -> Array[bool_, *tuple[Any, ...]]: ...
def all(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
) -> Array:
    """Whether all elements over axes are true; numbers are true unless 0.

    >>> bool(all(np.array([1, 0])))
    False
    """
    refuse_out(out)
    return reducing.all(as_operand(a), axis, keepdims, where)


@with_overloads_of(all)
def any(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Operand | None = None,
) -> Array:
    """Whether any element over axes is true; numbers are true unless 0.

    >>> bool(any(np.array([1, 0])))
    True
    """
    refuse_out(out)
    return reducing.any(as_operand(a), axis, keepdims, where)


def argmax(a: Operand, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first largest element along an axis, or among all; NaN counts as largest.

    >>> int(argmax(np.array([1, 3, 2])))
    1
    """
    refuse_out(out)
    return reducing.argmax(as_operand(a), axis, bool(keepdims))


def argmin(a: Operand, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first smallest element along an axis, or among all; NaN counts as smallest.

    >>> int(argmin(np.array([3, 1, 2])))
    1
    """
    refuse_out(out)
    return reducing.argmin(as_operand(a), axis, bool(keepdims))


def count_nonzero(a: Operand, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of elements over axes that are not 0.

    >>> int(count_nonzero(np.array([1, 0, 3])))
    2
    """
    x = as_operand(a)
    return reducing.sum(x if x.type.kind == "b" else x != 0, axis, None, keepdims)


def cumsum(a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Cumulative sums along an axis; over all elements as one axis without it.

    >>> cumsum(np.arange(4)).tolist()
    [0, 1, 3, 6]
    """
    refuse_out(out)
    return reducing.cumsum(as_operand(a), axis, dtype)


def cumprod(a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Cumulative products along an axis; over all elements as one axis without it.

    >>> cumprod(np.array([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    refuse_out(out)
    return reducing.cumprod(as_operand(a), axis, dtype)


def cumulative_sum(
    x: Operand, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Cumulative sums along an axis, which may be left out for vectors; integers widen as in `sum`.

    Args:
        x: the array.
        axis: the axis.
        dtype: of the result.
        include_initial: True for a 0 in front.

    >>> cumulative_sum(np.arange(3), include_initial=True).tolist()
    [0, 0, 1, 3]
    """
    return _reduce_cumulatively(reducing.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Operand, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Cumulative products along an axis. Arguments as for `cumulative_sum`.

    >>> cumulative_prod(np.array([2, 3])).tolist()
    [2, 6]
    """
    return _reduce_cumulatively(reducing.cumprod, x, axis, dtype, 1 if include_initial else None)


def _reduce_cumulatively(
    run: Any, x: Operand, axis: int | None, dtype: DTypeLike | None, initial: int | None
) -> Array:
    a = as_operand(x)
    if axis is None:
        if a.type.ndim != 1:
            raise ShapeError(f"{name_user_call()}: needs axis= for more than one axis, got {a.type!r}")
        axis = 0
    resolved_axis = normalize_axis(axis, a.type.ndim, a.type)
    sum_dtype = reducing.sum_dtype(a.type.dtype) if dtype is None else dtypes.canonicalize_requested(dtype)
    result: Array = run(a, resolved_axis, sum_dtype)
    if initial is None:
        return result
    shape = (*a.type.shape[:resolved_axis], 1, *a.type.shape[resolved_axis + 1 :])
    first = (
        as_operand(np.full(shape, initial))
        if sum_dtype == dtypes.bool_
        else as_operand(np.full(shape, initial, np.int32))
    )
    return shaping.concatenate([convert(first, sum_dtype), result], resolved_axis)


def diff(
    a: Operand,
    n: int = 1,
    axis: int = -1,
    prepend: Operand | None = None,
    append: Operand | None = None,
) -> Array:
    """Differences of neighbours along an axis, taken n times; of booleans whether they differ.

    Args:
        a: the array.
        n: how often.
        axis: the axis.
        prepend, append: joined before the first and after the last element: arrays, or numbers for one
            element.

    >>> diff(np.array([1, 4, 9])).tolist()
    [3, 5]
    """
    x = as_operand(a)
    n = check_int("n", n)
    if n < 0:
        raise ShapeError(f"diff: n must not be negative, got {n}")
    resolved_axis = normalize_axis(axis, x.type.ndim, x.type)
    if n == 0:
        return x
    parts = []
    for end in (prepend, x, append):
        if end is None:
            continue
        part = as_operand(end)
        if not part.type.shape:
            part = shaping.reshape(part, (1,) * x.type.ndim)
            part = broadcast_to(part, (*x.type.shape[:resolved_axis], 1, *x.type.shape[resolved_axis + 1 :]))
        parts.append(part)
    if len(parts) > 1:
        x = shaping.concatenate(promote_dtypes(*parts), resolved_axis)
    before = (slice(None),) * resolved_axis
    for _ in range(n):
        later, sooner = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = later != sooner if x.type.kind == "b" else later - sooner
    return x


@functools.cache
def _sum_but_half_the_ends(axis: int) -> Callable[[Array], Array]:
    """Returns the sum along an axis whose first and last element count half.

    The sum of all comes from memory, so that XLA:CPU takes it from a library: a tenth of the time of a sum of the means of
    neighbours. Infinite ends are in that sum already. The derivative is the sum as it is linear.
    """
    before = (slice(None),) * axis

    def halve_ends(x: Array) -> Array:
        return x[(*before, 0)] * 0.5 + x[(*before, -1)] * 0.5

    @custom_jvp
    def add(x: Array) -> Array:
        ends = halve_ends(x)
        return reducing.sum(x, axis) - where(abs(ends) < math.inf, ends, scalar(0, ends.type.dtype))

    @add.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        return add(primals[0]), reducing.sum(tangents[0], axis) - halve_ends(tangents[0])

    return add


def trapezoid(y: Operand, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule.

    Args:
        y: values of the integrand.
        x: the points: a vector, or of y's shape; by default `dx` apart.
        dx: the distances of neighbours without x: one, or an array that broadcasts against them.
        axis: the axis.

    >>> float(trapezoid(np.array([1.0, 2.0, 3.0])))
    4.0
    """
    refuse_mixed_dtypes(y, x)
    values = as_operand(y)
    resolved_axis = normalize_axis(axis, values.type.ndim, values.type)
    values = to_inexact(values)
    size = values.type.shape[resolved_axis]
    before = (slice(None),) * resolved_axis
    if x is None:
        widths = as_operand(dx)
        if values.type.kind == "f" and not widths.type.ndim and not is_symbolic(size) and size > 1:
            return _sum_but_half_the_ends(resolved_axis)(values) * widths
    else:
        points = as_operand(x)
        if points.type.ndim == 1:
            points = shaping.reshape(points, (-1,) + (1,) * (values.type.ndim - resolved_axis - 1))
        widths = diff(points, axis=resolved_axis - values.type.ndim)
    heights = values[(*before, slice(1, None))] + values[(*before, slice(None, -1))]
    return reducing.sum(widths * heights, resolved_axis - values.type.ndim) * 0.5
