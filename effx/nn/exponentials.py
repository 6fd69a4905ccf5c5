"""Sums of exponentials: logsumexp, softmax and log_softmax, safe against overflow.

The largest element is subtracted before exponentiation, and added to the logarithm. Exponentials of 16 bits are summed
in f32, where a sum of many does not overflow. -inf has the exponential 0 and the derivative 0. With an element +inf the
softmax is NaN, as in SciPy: its share of 1 depends on how infinity was reached. The softmax y has a rule,
dy = y (dx - sum(y dx)): the derivative as written would divide by the sum's square and read the exponentials again.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, overload

import numpy as np

from effx import dtypes
from effx.array import Array, Operand, arithmetic, reducing
from effx.array.arithmetic import to_inexact
from effx.array.promotion import (
    as_operand,
    broadcast_shapes,
    broadcast_to,
    convert,
    promote_dtypes,
    refuse_mixed_dtypes,
)
from effx.array.shaping import normalize_axes, reshape
from effx.effects import perform
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import StopGradient
from effx.ir.ops.reduce import ReduceMax
from effx.ir.values.scalars import scalar
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit

__all__ = ["log1mexp", "log_softmax", "logmeanexp", "logsumexp", "softmax"]

Axis = int | Sequence[int] | None
EXP, LOG, ABS, SIGN, FINITE, STOP = e.Exp(), e.Log(), e.Abs(), e.Sign(), e.IsFinite(), StopGradient()


def _constant_maximum(x: Array, axes: tuple[int, ...]) -> Array:
    """The largest element (or real part) along axes, which remain with size 1; as a constant.

    NaN may be lost in it; the powers bring it back.
    """
    x = arithmetic.real(x)
    shape = tuple([1 if a in axes else n for a, n in enumerate(x.type.shape)])
    return perform(STOP, (reshape(ReduceMax(tuple(sorted(axes)), may_lose_nan=True)(x), shape),))


def _sum_wide(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum over axes, which remain with size 1; of 16-bit floats as f32."""
    return reducing.sum(x, axes, reducing.accumulation_dtype(x.type.dtype), True)


def _check_axes(axis: Axis, x: Array) -> tuple[int, ...]:
    return normalize_axes(list(axis) if isinstance(axis, tuple) else axis, x.type)


def _static_axes(axis: Axis) -> Axis:
    return tuple(axis) if isinstance(axis, list) else axis


@overload
def logsumexp(
    a: Operand,
    axis: Axis = None,
    b: Operand | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: Operand | None = None,
) -> Array: ...
@overload
def logsumexp(
    a: Operand,
    axis: Axis = None,
    b: Operand | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
    where: Operand | None = None,
) -> tuple[Array, Array]: ...
def logsumexp(
    a: Operand,
    axis: Axis = None,
    b: Operand | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Operand | None = None,
) -> Array | tuple[Array, Array]:
    """Returns log(sum(b * exp(a))) over axes, without overflow.

    Args:
        a: real or complex, of any shape.
        axis: an axis or several; None for all. Negative ones count from the end.
        b: factors that broadcast against a; 1 by default.
        keepdims: whether to keep the axes with size 1.
        return_sign: True to return the logarithm of the absolute value, which is real, and the sign. Otherwise a
            negative real sum gives NaN.
        where: True for the elements to include; broadcasts against a.

    Returns:
        An array without the axes, -inf for a sum of 0; with `return_sign` a pair.

    Raises:
        ShapeError: an axis is out of range, or shapes do not broadcast.

    >>> logsumexp(np.array([1000.0, 1000.0])) - 1000.0
    Array(0.69317627, dtype=float32)
    """
    refuse_mixed_dtypes(a, b)
    log, sign = _logsumexp(
        a, b, where, axis=_static_axes(axis), keepdims=bool(keepdims), signed=bool(return_sign)
    )
    return (log, sign) if return_sign else log


@jit(static_argnames=("axis", "keepdims", "signed"))
def _logsumexp(
    a: Operand, b: Operand | None, where: Operand | None, axis: Axis, keepdims: bool, signed: bool
) -> tuple[Array, Array]:
    x = to_inexact(a)
    factor = None
    if b is not None:
        x, factor = promote_dtypes(x, b)
        shape = broadcast_shapes(x.type.shape, factor.type.shape)
        x, factor = broadcast_to(x, shape), broadcast_to(factor, shape)
    mask = None if where is None else reducing.as_mask(where)
    if factor is not None:  # a factor of 0 excludes its element, even an infinite one
        nonzero = factor != 0
        mask = nonzero if mask is None else mask & nonzero
    if mask is not None:
        shape = broadcast_shapes(x.type.shape, mask.type.shape)
        x = arithmetic.where(mask, broadcast_to(x, shape), -np.inf)
        factor = None if factor is None else broadcast_to(factor, shape)
    axes = _check_axes(axis, x)
    largest = _constant_maximum(x, axes)
    largest = arithmetic.where(perform(FINITE, (largest,)), largest, 0.0)
    powers = perform(EXP, (x - largest,))
    log_dtype = dtypes.real_dtype(x.type.dtype) if signed else x.type.dtype
    total = _sum_wide(powers if factor is None else powers * factor, axes)
    sign = perform(SIGN, (total,))
    if signed:
        total = perform(ABS, (total,))
    empty = total == 0
    # The logarithm of a sum of 0 would have an infinite derivative; it gets the derivative 0.
    log = perform(LOG, (arithmetic.where(empty, 1.0, total),)) + largest
    log = convert(arithmetic.where(empty, -np.inf, log), log_dtype)
    sign = convert(sign, x.type.dtype)
    if keepdims:
        return log, sign
    shape = tuple([n for i, n in enumerate(log.type.shape) if i not in axes])
    return reshape(log, shape), reshape(sign, shape)


def _prepare_operands(x: Operand, where: Operand | None) -> tuple[Array, Array | None]:
    x = to_inexact(x)
    if where is None:
        return x, None
    mask = reducing.as_mask(where)
    shape = broadcast_shapes(x.type.shape, mask.type.shape)
    return broadcast_to(x, shape), broadcast_to(mask, shape)


def _select_masked(mask: Array | None, x: Array, other: float) -> Array:
    return x if mask is None else arithmetic.where(mask, x, other)


def softmax(x: Operand, axis: Axis = -1, where: Operand | None = None) -> Array:
    """Returns exp(x) / sum(exp(x)) over axes: positive numbers with the sum 1.

    Args:
        x: real or complex, of any shape.
        axis: an axis or several; None for all. Negative ones count from the end.
        where: True for the elements to include, the others are 0; broadcasts against x.

    Returns:
        A floating or complex array of x's shape. Where all elements are -inf, NaN.

    Raises:
        DTypeError: x is no array.
        ShapeError: an axis is out of range, or shapes do not broadcast.

    >>> softmax(np.array([1000.0, 1000.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return _softmax(x, where, axis=_static_axes(axis))


@jit(static_argnames=("axis",))
def _softmax(x: Operand, where: Operand | None, axis: Axis) -> Array:
    y, mask = _prepare_operands(x, where)
    return _weights(_check_axes(axis, y), y, mask)


@partial(custom_jvp, nondiff_argnums=(0,))
def _weights(axes: tuple[int, ...], x: Array, mask: Array | None) -> Array:
    x = _select_masked(mask, x, -np.inf)
    # No guard against infinities: a further kernel of one operation costs as much to compile as the rest.
    powers = perform(EXP, (x - _constant_maximum(x, axes),))
    return _select_masked(mask, convert(powers / _sum_wide(powers, axes), x.type.dtype), 0.0)


@_weights.defjvp
def _(
    axes: tuple[int, ...], primals: tuple[Array, Array | None], tangents: tuple[Array, object]
) -> tuple[Array, Array]:
    (x, mask), (dx, _) = primals, tangents
    y = _weights(axes, x, mask)
    dx = _select_masked(mask, dx, 0.0)
    return y, y * (dx - reducing.sum(y * dx, axes, keepdims=True))


def log_softmax(x: Operand, axis: Axis = -1, where: Operand | None = None) -> Array:
    """Returns log(softmax(x)), without overflow or loss of digits.

    Args:
        x: real or complex, of any shape.
        axis: an axis or several; None for all. Negative ones count from the end.
        where: True for the elements to include, the others are -inf; broadcasts against x.

    Returns:
        A floating or complex array of x's shape. Where all elements are -inf, NaN.

    Raises:
        DTypeError: x is no array.
        ShapeError: an axis is out of range, or shapes do not broadcast.

    >>> log_softmax(np.array([0.0, -np.inf]))
    Array([  0., -inf], dtype=float32)
    """
    return _log_softmax(x, where, axis=_static_axes(axis))


@jit(static_argnames=("axis",))
def _log_softmax(x: Operand, where: Operand | None, axis: Axis) -> Array:
    y, mask = _prepare_operands(x, where)
    axes = _check_axes(axis, y)
    y = _select_masked(mask, y, -np.inf)
    shifted = y - _constant_maximum(y, axes)
    result = shifted - perform(LOG, (_sum_wide(perform(EXP, (shifted,)), axes),))
    return _select_masked(mask, convert(result, y.type.dtype), -np.inf)


def logmeanexp(x: Operand, axis: Axis = None, where: Operand | None = None, keepdims: bool = False) -> Array:
    """Returns the logarithm of the mean of exp(x) along axes.

    Args:
        x: real or complex, of any shape.
        axis: an axis or several; None for all.
        where: which elements to include; broadcasts to x.
        keepdims: True to keep the axes with size 1.

    Returns:
        A floating or complex array.

    Raises:
        DTypeError: x is no array.
        ShapeError: an axis is out of range.

    >>> import numpy as np
    >>> float(logmeanexp(np.array([2.0, 2.0])))
    2.0
    """
    a = to_inexact(as_operand(x))
    counted = scalar(1.0, a.type.dtype) if where is None else reducing.as_mask(where)
    counted = broadcast_to(counted, broadcast_shapes(a.type.shape, counted.type.shape))
    axes = _check_axes(axis, counted)
    count = reducing.sum(
        counted, axes, reducing.accumulation_dtype(dtypes.real_dtype(a.type.dtype)), keepdims
    )
    wide = convert(a, reducing.accumulation_dtype(a.type.dtype))
    return convert(logsumexp(wide, axes, None, keepdims, where=where) - perform(LOG, (count,)), a.type.dtype)


@jit
def log1mexp(x: Operand) -> Array:
    """Returns log(1 - exp(-x)), without cancellation for x near 0 or far from it; NaN for negative x.

    Source: Mächler, "Accurately computing log(1 - exp(-|a|))", 2012.

    Args:
        x: real or complex, of any shape.

    Returns:
        A floating or complex array of x's shape.

    Raises:
        DTypeError: x is no array.

    >>> round(float(log1mexp(1.0)), 4)
    -0.4587
    """
    a = to_inexact(x)
    # Each form gets a harmless operand where the other is chosen, for the sake of derivatives.
    near = arithmetic.real(a) < math.log(2)
    small, large = arithmetic.where(near, a, 1.0), arithmetic.where(near, 1.0, a)
    by_difference = perform(LOG, (-perform(e.Expm1(), (-small,)),))
    return arithmetic.where(near, by_difference, perform(e.Log1p(), (-perform(EXP, (-large,)),)))
