"""Interpolation, differences and gradients of sampled functions, and unwrapped angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from effx.array import Array, arithmetic, reducing, shaping
from effx.array.promotion import as_operand, broadcast_to, convert, promote_dtypes, refuse_mixed_dtypes
from effx.array.shaping import normalize_axes, normalize_axis
from effx.errors import DTypeError, ShapeError
from effx.ir.sizes.dimensions import is_symbolic
from effx.numpy.reductions import diff
from effx.numpy.sorting import argsort, searchsorted

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["ediff1d", "gradient", "interp", "unwrap"]


def interp(
    x: Operand,
    xp: Operand,
    fp: Operand,
    left: Operand | str | None = None,
    right: Operand | str | None = None,
    period: Operand | None = None,
) -> Array:
    """Piecewise linear interpolation.

    Args:
        x: where, of any shape.
        xp: `[n]` sample points, rising (in any order with `period`).
        fp: `[n]` values there; they may be complex.
        left, right: the values below the first and above the last point; by default the values there.
            "extrapolate" extends the first or the last line.
        period: of a periodic function; `left` and `right` are then not used.

    Returns:
        The values, in the shape of `x`.

    Raises:
        ShapeError: `xp` and `fp` are not vectors of one size.
        DTypeError: complex points, or another word for `left` or `right`.

    >>> import numpy as np
    >>> interp(np.array([0.5, 3.0]), np.array([0.0, 1.0]), np.array([0.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    points, samples = [arithmetic.to_inexact(p) for p in promote_dtypes(as_operand(x), as_operand(xp))]
    values = arithmetic.to_inexact(as_operand(fp))
    if samples.type.ndim != 1 or values.type.shape != samples.type.shape or 0 in samples.type.shape:
        raise ShapeError(
            f"interp: xp and fp must be vectors of one size, got {samples.type!r} and {values.type!r}"
        )
    if points.type.kind == "c":
        raise DTypeError(f"interp: x and xp must be real, got {points.type!r}")
    for name, side in (("left", left), ("right", right)):
        if isinstance(side, str) and side != "extrapolate":
            raise DTypeError(f"interp: {name} must be a number or 'extrapolate', got {side!r}")
    if period is not None:
        length = abs(as_operand(period))
        points, samples = arithmetic.remainder(points, length), arithmetic.remainder(samples, length)
        order = argsort(samples)
        samples, values = samples[order], values[order]
        samples = shaping.concatenate([samples[-1:] - length, samples, samples[:1] + length], 0)
        values = shaping.concatenate([values[-1:], values, values[:1]], 0)
        left = right = None
    n = samples.type.size
    if n == 1:
        inner = broadcast_to(values[0], points.type.shape)
    else:
        at = arithmetic.clip(searchsorted(samples, points, side="right"), 1, n - 1)
        below, above = samples[at - 1], samples[at]
        low, high = values[at - 1], values[at]
        # Equal neighbours are a jump: the value is that after it.
        gap = above - below
        jump = gap == 0
        slope = (high - low) / arithmetic.where(jump, 1, gap)
        inner = arithmetic.where(jump, high, low + (points - below) * slope)
    if not isinstance(left, str):
        edge = values[0] if left is None else as_operand(left)
        inner = arithmetic.where(points < samples[0], edge, inner)
    if not isinstance(right, str):
        edge = values[-1] if right is None else as_operand(right)
        inner = arithmetic.where(points > samples[-1], edge, inner)
    return inner


def gradient(
    f: Operand, *varargs: Operand, axis: int | Sequence[int] | None = None, edge_order: int | None = None
) -> Array | list[Array]:
    """The derivative of a sampled function, by central differences, and one-sided ones at the edges.

    Args:
        f: the samples.
        *varargs: the distances: none for 1, one number for all axes, or for each axis a number or the
            coordinates of its samples.
        axis: an axis or several; None for all.
        edge_order: of the differences at the edges: 1 (the default) or 2.

    Returns:
        The derivative along the axis, or a list with one for each of several axes, in the shape of `f`.

    Raises:
        ShapeError: an axis with fewer than `edge_order + 1` samples, or coordinates that do not fit.

    >>> import numpy as np
    >>> gradient(np.array([1.0, 2.0, 4.0])).tolist()
    [1.0, 1.5, 2.0]
    """
    refuse_mixed_dtypes(f, *varargs)
    x = arithmetic.to_inexact(as_operand(f))
    order = 1 if edge_order is None else edge_order
    if order not in (1, 2):
        raise ShapeError(f"gradient: edge_order must be 1 or 2, got {edge_order!r}")
    axes = normalize_axes(axis, x.type)
    spacings = [as_operand(v) for v in varargs] or [as_operand(1.0)]
    if len(spacings) == 1 and not spacings[0].type.ndim:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise ShapeError(f"gradient: {len(spacings)} distances for {len(axes)} axes")
    results = [_endpoint_derivative(x, h, i, order) for h, i in zip(spacings, axes, strict=True)]
    return results[0] if len(results) == 1 else results


def _endpoint_derivative(x: Array, h: Array, axis: int, order: int) -> Array:
    n = x.type.shape[axis]
    if n < order + 1:
        raise ShapeError(f"gradient: axis {axis} of {x.type!r} must have at least {order + 1} samples")
    if h.type.ndim > 1 or (h.type.ndim == 1 and h.type.size != n):
        raise ShapeError(f"gradient: the distances {h.type!r} do not fit axis {axis} of {x.type!r}")
    if not h.type.ndim and order == 1 and n > 2 and not is_symbolic(n):
        before = (slice(None),) * axis

        def read(start: int | None, stop: int | None) -> Array:
            return x[(*before, slice(start, stop))]

        # Where distances are equal, two slices and one concatenation: half the time of what follows.
        middle = (read(2, None) - read(None, -2)) * 0.5
        parts = [read(1, 2) - read(0, 1), middle, read(-1, None) - read(-2, -1)]
        return shaping.concatenate(parts, axis) / h
    y = shaping.moveaxis(x, axis, 0)
    gaps = diff(h) if h.type.ndim else broadcast_to(h, (n - 1,))
    gaps = shaping.reshape(gaps, (n - 1,) + (1,) * (y.type.ndim - 1))
    slopes = (y[1:] - y[:-1]) / gaps
    first, last = slopes[:1], slopes[-1:]
    if n == 2:
        return shaping.moveaxis(shaping.concatenate([first, last], 0), 0, axis)
    # The slope of the parabola through three points, the two lines weighted by the other's length.
    low, high = gaps[:-1], gaps[1:]
    bend = (slopes[1:] - slopes[:-1]) / (low + high)
    middle = slopes[:-1] + bend * low
    if order == 2:
        first, last = first - bend[:1] * low[:1], last + bend[-1:] * high[-1:]
    return shaping.moveaxis(shaping.concatenate([first, middle, last], 0), 0, axis)


def ediff1d(ary: Operand, to_end: Operand | None = None, to_begin: Operand | None = None) -> Array:
    """The differences of neighbours, among all elements as one axis.

    Args:
        ary: the array.
        to_end, to_begin: what is put after and before them.

    >>> import numpy as np
    >>> ediff1d(np.array([1, 4, 9]), to_begin=0).tolist()
    [0, 3, 5]
    """
    x = shaping.reshape(as_operand(ary), -1)
    parts = [x[1:] - x[:-1]]
    if to_begin is not None:
        parts.insert(0, shaping.reshape(as_operand(to_begin), -1))
    if to_end is not None:
        parts.append(shaping.reshape(as_operand(to_end), -1))
    parts = [convert(part, x.type.dtype) for part in parts]
    return shaping.concatenate(parts, 0)


def unwrap(
    p: Operand, discont: Operand | None = None, axis: int = -1, period: Operand = 2 * math.pi
) -> Array:
    """Angles with jumps taken out: neighbours that are further apart than half a period are shifted by periods.

    Args:
        p: real numbers.
        discont: the least jump to take out; half a period by default, and never less.
        axis: along which axis.
        period: the period.

    Raises:
        DTypeError: complex numbers.

    >>> import numpy as np
    >>> unwrap(np.array([0.0, 3.0, 6.0, 1.0]), period=6.0).tolist()
    [0.0, 3.0, 6.0, 7.0]
    """
    x = as_operand(p)
    if x.type.kind == "c":
        raise DTypeError(f"unwrap: takes real numbers, got {x.type!r}")
    x, length = promote_dtypes(x, as_operand(period))
    along = normalize_axis(axis, x.type.ndim, x.type)
    y = shaping.moveaxis(x, along, 0)
    if y.type.shape[0] < 2:
        return x
    half = arithmetic.floor_divide(length, 2) if x.type.kind in "iu" else length / 2
    steps = y[1:] - y[:-1]
    low = -half
    wrapped = arithmetic.remainder(steps - low, length) + low
    # Half a period up stays half a period up.
    wrapped = arithmetic.where((wrapped == low) & (steps > 0), half, wrapped)
    limit = half if discont is None else as_operand(discont)
    shifts = arithmetic.where(abs(steps) < limit, 0, wrapped - steps)
    moved = shaping.concatenate([y[:1], y[1:] + reducing.cumsum(shifts, 0)], 0)
    return shaping.moveaxis(moved, 0, along)
