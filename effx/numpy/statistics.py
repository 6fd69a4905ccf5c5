"""Order statistics, weighted means and covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from effx import dtypes
from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.promotion import (
    as_operand,
    broadcast_to,
    convert,
    promote_dtypes,
    refuse_mixed_dtypes,
    size_scalar,
)
from effx.array.shaping import normalize_axes, normalize_axis
from effx.effects import perform
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.families.order_statistics import OrderStatistics
from effx.families.sort import Sort
from effx.ir.ops import elementwise as e
from effx.ir.sizes.division import maximum
from effx.ir.values.scalars import scalar
from effx.numpy.logic import isnan
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.dtypes import DTypeLike
    from effx.ir.values.array import Axis

__all__ = [
    "average", "corrcoef", "cov", "median", "nanmedian", "nanpercentile", "nanquantile", "percentile",
    "quantile",
]  # fmt: skip

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


@jit(static_argnames=("axes", "method", "keepdims", "skip"), inline=True)
def _quantile(a: Array, q: Array, axes: tuple[int, ...], method: str, keepdims: bool, skip: bool) -> Array:
    """Quantiles over axes; `skip` leaves NaN out, which else makes the result NaN."""
    remaining_axes = [i for i in range(a.type.ndim) if i not in axes]
    sizes = [a.type.shape[i] for i in remaining_axes]
    flat = shaping.reshape(shaping.transpose(a, (*remaining_axes, *axes)), (*sizes, -1))
    n = flat.type.shape[-1]
    missing = isnan(flat)
    # Positions in f32 at least: a 16-bit float counts to 256 only.
    wide = dtypes.float32 if a.type.dtype.itemsize < 4 else a.type.dtype
    points = shaping.reshape(convert(q, wide), (-1,) + (1,) * len(sizes))
    if skip:
        last: Array = convert(n - 1 - reducing.sum(missing, -1), wide)
        position: Array = points * shaping.expand_dims(last, 0)
    else:
        position = points * size_scalar(n - 1, wide, False)
    low, high = perform(arithmetic.FLOOR, (position,)), perform(e.Ceil(), (position,))
    weight = position - low
    end = size_scalar(n - 1, dtypes.int32, False)

    def rank(position: Array) -> Array:
        return arithmetic.clip(convert(position, dtypes.int32), 0, end)

    def at(where: Array) -> tuple[Array, Array]:
        """Returns the elements of ranks, and those of the next ones."""
        ranks = broadcast_to(shaping.moveaxis(rank(where), 0, -1), (*sizes, points.type.shape[0]))
        elements, following = OrderStatistics()(flat, ranks)
        return convert(shaping.moveaxis(elements, -1, 0), wide), convert(
            shaping.moveaxis(following, -1, 0), wide
        )

    if method in ("linear", "midpoint"):
        below, following = at(low)
        above = arithmetic.where(rank(high) > rank(low), following, below)
        if method == "midpoint":
            result = (below + above) * 0.5
        else:
            # An infinite neighbour of weight 0 would give NaN.
            result = arithmetic.where(weight == 0, below, below * (1 - weight) + above * weight)
    else:
        nearest = {"lower": low, "higher": high}
        result, _ = at(
            nearest[method] if method in nearest else perform(arithmetic.ROUND_TO_EVEN, (position,))
        )
    bad = reducing.all(missing, -1) if skip else reducing.any(missing, -1)
    undefined = shaping.expand_dims(bad, 0) | isnan(points)
    shape = (result.type.shape[0], *sizes)
    result = arithmetic.where(broadcast_to(undefined, shape), scalar(math.nan, wide), result)
    full = [1 if i in axes else m for i, m in enumerate(a.type.shape)] if keepdims else sizes
    return convert(shaping.reshape(result, (*q.type.shape, *full)), a.type.dtype)


def _order_statistic(
    a: Operand,
    q: Operand,
    axis: Axis,
    method: str,
    keepdims: bool,
    skip: bool,
    scale: float = 1.0,
    weights: Operand | None = None,
) -> Array:
    x, points = as_operand(a), as_operand(q)
    if method not in METHODS:
        raise OptionError(f"{name_user_call()}: method must be one of {', '.join(METHODS)}, got {method!r}")
    if x.type.kind == "c" or points.type.kind == "c":
        raise DTypeError(
            f"{name_user_call()}: complex numbers have no order, got {x.type!r} and {points.type!r}"
        )
    if points.type.ndim > 1:
        raise ShapeError(f"{name_user_call()}: q must be a number or a vector, got {points.type!r}")
    dtype = arithmetic.inexact_dtype(x.type.dtype)
    x, points = convert(x, dtype), arithmetic.to_inexact(points)
    if scale != 1.0:
        points = points * scale
    axes = normalize_axes(axis, x.type)
    if 0 in x.type.shape:
        if not skip and 0 in [x.type.shape[i] for i in axes]:
            raise ShapeError(f"{name_user_call()}: {x.type!r} has no elements over axes {axes}")
        # What skips NaN has none left, as of NaN alone.
        sizes = [1 if i in axes else n for i, n in enumerate(x.type.shape) if keepdims or i not in axes]
        return broadcast_to(scalar(math.nan, dtype, False), (*points.type.shape, *sizes))
    if method == "inverted_cdf":
        counted = as_operand(1.0 if weights is None else weights)
        return _weighted_quantile(
            x, broadcast_to(convert(counted, dtype), x.type.shape), points, axes, keepdims, skip
        )
    if weights is not None:
        raise DTypeError(f"{name_user_call()}: weights need method 'inverted_cdf', got {method!r}")
    return _quantile(x, points, axes, method, keepdims, skip)


@jit(static_argnames=("axes", "keepdims", "skip"), inline=True)
def _weighted_quantile(
    x: Array, weights: Array, q: Array, axes: tuple[int, ...], keepdims: bool, skip: bool
) -> Array:
    """The least elements at which fractions of the weight are reached."""
    remaining_axes = [i for i in range(x.type.ndim) if i not in axes]
    sizes = [x.type.shape[i] for i in remaining_axes]
    flat, weight = [
        shaping.reshape(shaping.transpose(y, (*remaining_axes, *axes)), (*sizes, -1)) for y in (x, weights)
    ]
    missing = isnan(flat)
    if skip:
        weight = arithmetic.where(missing, 0, weight)
    ordered, weight = Sort(len(sizes), True)(flat, weight)
    share = reducing.cumsum(weight, -1)
    points = shaping.reshape(q, (-1,) + (1,) * (len(sizes) + 1))
    short = share < points * share[..., -1:]
    index = arithmetic.clip(reducing.sum(short, -1), 0, flat.type.shape[-1] - 1)
    gathered = indexing.take_along_axis(ordered, shaping.moveaxis(index, 0, -1), -1, "clip")
    result = shaping.moveaxis(gathered, -1, 0)
    bad = reducing.all(missing, -1) if skip else reducing.any(missing, -1)
    result = arithmetic.where(bad | isnan(shaping.reshape(q, (-1,) + (1,) * len(sizes))), math.nan, result)
    full = [1 if i in axes else m for i, m in enumerate(x.type.shape)] if keepdims else sizes
    return shaping.reshape(result, (*q.type.shape, *full))


def quantile(
    a: Operand,
    q: Operand,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Operand | None = None,
) -> Array:
    """The quantiles of the elements: the values below which fractions of them are.

    Args:
        a: real numbers.
        q: fractions between 0 and 1: a number, or a vector whose axis comes first in the result.
        axis: an axis or several; None for all.
        out, overwrite_input: not supported.
        method: between two elements: "linear", "lower", "higher", "midpoint" or "nearest"; "inverted_cdf" for
            the first element at which the fraction is reached.
        keepdims: True to keep the axes with size 1.
        weights: how much each element counts, broadcast to the array; only with method "inverted_cdf".

    >>> import numpy as np
    >>> float(quantile(np.array([1.0, 2.0, 4.0]), 0.75))
    3.0
    """
    _refuse_in_place(out, overwrite_input)
    return _order_statistic(a, q, axis, method, keepdims, False, 1.0, weights)


def percentile(
    a: Operand,
    q: Operand,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Operand | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The percentiles of the elements: the values below which percentages of them are. Arguments as for `quantile`.

    >>> import numpy as np
    >>> float(percentile(np.array([1.0, 2.0, 4.0]), 75))
    3.0
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, percentile, a, q, axis, out, overwrite_input, method, keepdims, weights=weights
        )
    _refuse_in_place(out, overwrite_input)
    return _order_statistic(a, q, axis, method, keepdims, False, 0.01, weights)


def median(
    a: Operand, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The value in the middle; NaN if there is one. Arguments as for `quantile`.

    >>> import numpy as np
    >>> float(median(np.array([3, 1, 2])))
    2.0
    """
    _refuse_in_place(out, overwrite_input)
    return _order_statistic(a, 0.5, axis, "midpoint", keepdims, False)


def nanquantile(
    a: Operand,
    q: Operand,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Operand | None = None,
) -> Array:
    """`quantile` of the elements that are not NaN.

    >>> import numpy as np
    >>> float(nanquantile(np.array([1.0, math.nan, 3.0]), 0.5))
    2.0
    """
    _refuse_in_place(out, overwrite_input)
    return _order_statistic(a, q, axis, method, keepdims, True, 1.0, weights)


def nanpercentile(
    a: Operand,
    q: Operand,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Operand | None = None,
) -> Array:
    """`percentile` of the elements that are not NaN.

    >>> import numpy as np
    >>> float(nanpercentile(np.array([1.0, math.nan, 3.0]), 50))
    2.0
    """
    _refuse_in_place(out, overwrite_input)
    return _order_statistic(a, q, axis, method, keepdims, True, 0.01, weights)


def nanmedian(
    a: Operand, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """`median` of the elements that are not NaN.

    >>> import numpy as np
    >>> float(nanmedian(np.array([1.0, math.nan, 3.0])))
    2.0
    """
    _refuse_in_place(out, overwrite_input)
    return _order_statistic(a, 0.5, axis, "midpoint", keepdims, True)


def _refuse_in_place(out: object, overwrite: bool) -> None:
    if out is not None or overwrite:
        raise ShapeError(
            f"{name_user_call()}: arrays are immutable, so out= and overwrite_input= are not supported"
        )


@overload
def average(
    a: Operand, axis: Axis = None, weights: Operand | None = None,
    returned: Literal[False] = False, keepdims: bool = False,
) -> Array: ...  # fmt: skip
@overload
def average(
    a: Operand, axis: Axis = None, weights: Operand | None = None, *,
    returned: Literal[True], keepdims: bool = False,
) -> tuple[Array, Array]: ...  # fmt: skip
def average(
    a: Operand,
    axis: Axis = None,
    weights: Operand | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Array | tuple[Array, Array]:
    """The weighted mean over axes.

    Args:
        a: the array.
        axis: an axis or several; None for all.
        weights: of a's shape, or of the sizes of the axes, in their order; by default all 1.
        returned: True to return the sum of the weights too.
        keepdims: True to keep the axes with size 1.

    >>> import numpy as np
    >>> float(average(np.array([1.0, 4.0]), weights=np.array([2, 1])))
    2.0
    """
    x = as_operand(a)
    if weights is None:
        result = reducing.mean(x, axis, None, keepdims)
        count = x.type.size // maximum(result.type.size, 1)
        total = broadcast_to(size_scalar(count, result.type.dtype, False), result.type.shape)
        return (result, total) if returned else result
    x, w = promote_dtypes(x, as_operand(weights))
    x, w = arithmetic.to_inexact(x), arithmetic.to_inexact(w)
    if w.type.shape != x.type.shape:
        if axis is None:
            raise ShapeError(
                f"average: weights {w.type!r} have not the shape of {x.type!r}; a vector needs an axis"
            )
        ordered = normalize_axes(axis, x.type)
        axes_as_passed = axis if isinstance(axis, Sequence) else (axis,)
        axes = [normalize_axis(i, x.type.ndim, x.type) for i in axes_as_passed]
        if w.type.shape != tuple([x.type.shape[i] for i in axes]):
            which = f"axis {axes[0]}" if len(axes) == 1 else f"axes {tuple(axes)}"
            raise ShapeError(f"average: weights {w.type!r} do not fit {which} of {x.type!r}")
        w = shaping.transpose(w, sorted(range(len(axes)), key=axes.__getitem__))
        w = shaping.reshape(w, tuple([n if i in ordered else 1 for i, n in enumerate(x.type.shape)]))
        w = broadcast_to(w, x.type.shape)
    dtype = w.type.dtype
    wide = reducing.accumulation_dtype(dtype)
    total = reducing.sum(w, axis, wide, keepdims)
    result = convert(reducing.sum(convert(x, wide) * convert(w, wide), axis, wide, keepdims) / total, dtype)
    return (result, convert(total, dtype)) if returned else result


def cov(
    m: Operand,
    y: Operand | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Operand | None = None,
    aweights: Operand | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables.

    Args:
        m: `f32[variables, observations]`, or a vector for one variable.
        y: more variables.
        rowvar: False where the variables are the columns.
        bias: True to divide by the number of observations, not by one less.
        ddof: subtracted from the number of observations; overrides `bias`.
        fweights: how often each observation occurs.
        aweights: the weight of each observation.
        dtype: to compute in, floating or complex.

    >>> import numpy as np
    >>> cov(np.array([[1.0, 2.0], [2.0, 4.0]])).tolist()
    [[0.5, 1.0], [1.0, 2.0]]
    """
    refuse_mixed_dtypes(m, y)
    x = _convert_inexact(m, dtype)
    if y is not None:
        x, other = promote_dtypes(x, _convert_inexact(y, dtype))
        x = shaping.concatenate([_check_variables(x, rowvar), _check_variables(other, rowvar)], 0)
    else:
        x = _check_variables(x, rowvar)
    n = x.type.shape[1]
    less = ddof if ddof is not None else 0 if bias else 1
    weights: Array | None = None
    for weight_vector, name in ((fweights, "fweights"), (aweights, "aweights")):
        if weight_vector is not None:
            w = as_operand(weight_vector)
            if w.type.shape != (n,):
                raise ShapeError(f"cov: {name} {w.type!r} do not fit {n} observations")
            w = convert(w, dtypes.real_dtype(x.type.dtype))
            weights = w if weights is None else weights * w
    if weights is None:
        centered = x - reducing.mean(x, 1, keepdims=True)
        weighted, norm = centered, size_scalar(n - less, dtypes.real_dtype(x.type.dtype))
    else:
        total = reducing.sum(weights)
        centered = x - reducing.sum(x * weights, 1, keepdims=True) / total
        weighted = centered * weights
        if aweights is None or less == 0:
            norm = total - less
        else:
            squares = weights * convert(as_operand(aweights), weights.type.dtype)
            norm = total - less * reducing.sum(squares) / total
    # As of a variance, there is none where nothing is left to divide by.
    norm = arithmetic.where(norm > 0.0, norm, math.nan)
    product = arithmetic.dot(weighted, arithmetic.conj(centered).T) / convert(
        norm, x.type.dtype, norm.type.weak
    )
    return shaping.squeeze(product)


def _convert_inexact(x: Operand, dtype: DTypeLike | None) -> Array:
    result = arithmetic.to_inexact(as_operand(x))
    if dtype is None:
        return result
    requested_dtype = dtypes.canonicalize_requested(dtype)
    if not dtypes.is_inexact(requested_dtype):
        raise DTypeError(f"{name_user_call()}: dtype must be floating or complex, got {requested_dtype.name}")
    return convert(result, requested_dtype)


def _check_variables(x: Array, rowvar: bool) -> Array:
    if x.type.ndim > 2:
        raise ShapeError(f"cov: takes matrices and vectors, got {x.type!r}")
    if x.type.ndim < 2:
        return shaping.reshape(x, (1, -1))
    return x if rowvar else shaping.transpose(x, None)


def corrcoef(
    x: Operand, y: Operand | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """The matrix of correlation coefficients of variables. Arguments as for `cov`.

    >>> import numpy as np
    >>> corrcoef(np.array([[1.0, 2.0], [2.0, 4.0]])).round(3).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    refuse_mixed_dtypes(x, y)
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.type.shape:
        return c / c
    deviations = arithmetic.unary(e.Sqrt(), arithmetic.real(indexing.diagonal(c)))
    c = c / shaping.expand_dims(deviations, 1) / shaping.expand_dims(deviations, 0)
    if c.type.kind == "c":
        parts = [arithmetic.clip(part, -1, 1) for part in (arithmetic.real(c), arithmetic.imag(c))]
        return perform(e.Complex(), tuple(parts))
    return arithmetic.clip(c, -1, 1)
