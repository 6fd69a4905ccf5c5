"""Ranks, the most frequent element, and the standard error of the mean."""

import math
from typing import NamedTuple

from effx import dtypes
from effx.array import Array, Operand, reducing
from effx.array.arithmetic import inexact_dtype, to_inexact, where
from effx.array.indexing import take_along_axis
from effx.array.promotion import as_operand, broadcast_to, convert, to_host_array
from effx.array.shaping import concatenate, moveaxis, normalize_axis, reshape
from effx.errors import DTypeError, OptionError, name_user_call
from effx.ir.values.scalars import scalar
from effx.lax.elementwise.exponential import sqrt
from effx.lax.shape import iota
from effx.lazy import list_names
from effx.numpy.sorting import argsort, sort
from effx.transforms.jit.jit import jit

__all__ = ["ModeResult", "mode", "rankdata", "sem"]
__dir__ = list_names(__all__)

RANKS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """What `mode` returns.

    Attributes:
        mode: the most frequent elements.
        count: how often they occur.

    >>> import effx.numpy as enp
    >>> from effx.scipy.stats import mode
    >>> result = mode(enp.array([1, 2, 2]))
    >>> print(result.mode, result.count)
    2 2
    """

    mode: Array
    count: Array  # type: ignore[assignment]  # the name in SciPy, which hides the method of tuples


def _check_elements(a: Operand, axis: int | None, nan_policy: str) -> Array:
    """Returns real elements with the axis last; all elements for None."""
    x = as_operand(a)
    if x.type.kind == "c":
        raise DTypeError(f"{name_user_call()}: complex numbers have no order, got {x.type!r}")
    if nan_policy not in ("propagate", "omit"):
        raise OptionError(f"{name_user_call()}: nan_policy must be 'propagate' or 'omit', got {nan_policy!r}")
    if axis is None:
        return reshape(x, (-1,))
    return moveaxis(x, normalize_axis(axis, x.type.ndim, x.type), -1)


def _is_missing(x: Array) -> Array:
    return x != x


def _find_runs(ordered: Array) -> tuple[Array, Array, Array]:
    """Returns, for sorted elements along the last axis, positions, whether another element begins, and where its run
    began.

    NaNs are alike.
    """
    position = iota(dtypes.canonicalize(dtypes.int64), ordered.type.shape[-1])
    before, after = ordered[..., :-1], ordered[..., 1:]
    fresh = (before != after) & ~(_is_missing(before) & _is_missing(after))
    first = broadcast_to(to_host_array([True]), (*ordered.type.shape[:-1], 1))
    fresh = concatenate([first, fresh], -1)
    return position, fresh, reducing.cummax(where(fresh, position, 0), -1)


@jit(static_argnames=("axis", "nan_policy", "keepdims"))
def mode(
    a: Operand, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent element along an axis, the least of several, and how often it occurs.

    Args:
        a: real numbers of any shape.
        axis: the axis; None for all elements.
        nan_policy: "propagate" counts NaN as an element, "omit" leaves it out.
        keepdims: True to keep the axis with size 1.

    Returns:
        A pair `(mode, count)`; NaN and 0 where there is no element to count.

    Raises:
        DTypeError: a is complex, or no array, or the policy another.
        ShapeError: there is no such axis.

    >>> import numpy as np
    >>> mode(np.array([3, 1, 2, 2]))
    ModeResult(mode=Array(2, dtype=int32), count=Array(2, dtype=int32))
    """
    x = _check_elements(a, axis, nan_policy)
    dtype = dtypes.canonicalize(dtypes.int64)
    if x.type.shape[-1] == 0:
        sizes = x.type.shape[:-1]
        result_dtype = broadcast_to(scalar(math.nan, inexact_dtype(x.type.dtype), False), sizes)
        count = broadcast_to(scalar(0, dtype, False), sizes)
    else:
        ordered = sort(x, axis=-1)
        position, _, start = _find_runs(ordered)
        counts = position - start + 1
        if nan_policy == "omit":
            counts = where(_is_missing(ordered), 0, counts)
        index = reducing.argmax(counts, -1, True)
        # Where all are left out, so is the first, which is NaN.
        result_dtype = take_along_axis(ordered, index, -1)[..., 0]
        count = take_along_axis(counts, index, -1)[..., 0]
    if keepdims:
        full = as_operand(a).type.shape
        kept_shape = tuple([1 if axis is None or i == axis % len(full) else n for i, n in enumerate(full)])
        result_dtype, count = reshape(result_dtype, kept_shape), reshape(count, kept_shape)
    return ModeResult(result_dtype, convert(count, dtype))


@jit(static_argnames=("method", "axis", "nan_policy"))
def rankdata(
    a: Operand, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The ranks of elements, from 1 on.

    Args:
        a: real numbers of any shape.
        method: the rank of equal elements: the "average" of their ranks, their "min" or "max", the same number
            and the next element the next ("dense"), or each its own in their order ("ordinal").
        axis: the axis along which there is an order; None for that of all elements, as a vector.
        nan_policy: where NaN occurs, "propagate" makes all ranks NaN, "omit" those of NaN only.

    Returns:
        Floats of the axis' shape.

    Raises:
        DTypeError: a is complex, or no array, or the method or policy another.
        ShapeError: there is no such axis.

    >>> import numpy as np
    >>> rankdata(np.array([3, 1, 2, 2])).tolist()
    [4.0, 1.0, 2.5, 2.5]
    """
    if method not in RANKS:
        raise OptionError(f"rankdata: method must be one of {', '.join(RANKS)}, got {method!r}")
    x = _check_elements(a, axis, nan_policy)
    dtype = dtypes.canonicalize(dtypes.float64)
    n = x.type.shape[-1]
    if n == 0:
        return convert(x, dtype)
    order = argsort(x, axis=-1)
    inverse_order = argsort(order, axis=-1)  # the inverse
    if method == "ordinal":
        ranks = convert(inverse_order, dtype) + 1.0
    else:
        position, fresh, start = _find_runs(take_along_axis(x, order, -1))
        low = convert(start, dtype) + 1.0
        last = concatenate([fresh[..., 1:], fresh[..., :1]], -1)  # the first is always fresh
        high = convert(reducing.cummin(where(last, position, n), -1, reverse=True), dtype) + 1.0
        each = {
            "min": low,
            "max": high,
            "average": (low + high) * 0.5,
            "dense": convert(reducing.cumsum(convert(fresh, position.type.dtype), -1), dtype),
        }[method]
        ranks = take_along_axis(each, inverse_order, -1)
    missing = _is_missing(x)
    bad = missing if nan_policy == "omit" else reducing.any(missing, -1, keepdims=True)
    ranks = where(bad, math.nan, ranks)
    return ranks if axis is None else moveaxis(ranks, -1, axis)


@jit(static_argnames=("axis", "ddof", "nan_policy", "keepdims"))
def sem(
    a: Operand, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Array:
    """The standard error of the mean: the standard deviation divided by the root of the number of elements.

    Args:
        a: real numbers of any shape.
        axis: the axis; None for all elements.
        ddof: what the variance's divisor is less than the number of elements.
        nan_policy: "propagate" makes the result NaN where NaN occurs, "omit" leaves NaN out.
        keepdims: True to keep the axis with size 1.

    Raises:
        DTypeError: a is complex, or no array, or the policy another.
        ShapeError: there is no such axis.

    >>> import numpy as np
    >>> f"{float(sem(np.array([1.0, 2.0, 4.0]))):.4f}"
    '0.8819'
    """
    x = to_inexact(_check_elements(a, axis, nan_policy))
    used = ~_is_missing(x) if nan_policy == "omit" else x.type.shape[-1] > -1
    wide = convert(x, dtypes.float32) if x.type.dtype.itemsize < 4 else x
    here = broadcast_to(as_operand(used), x.type.shape)
    count = convert(reducing.sum(here, -1, keepdims=True), wide.type.dtype)
    values = where(here, wide, 0.0)
    rest = where(here, wide - reducing.sum(values, -1, keepdims=True) / count, 0.0)
    free = count - float(ddof)
    variance = reducing.sum(rest * rest, -1, keepdims=True) / where(free > 0.0, free, math.nan)
    result = convert(sqrt(variance / count), x.type.dtype)
    if not keepdims:
        return result[..., 0]
    return reshape(result, (1,) * as_operand(a).type.ndim) if axis is None else moveaxis(result, -1, axis)
