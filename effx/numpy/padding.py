"""Arrays made longer at the ends of their axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from effx import dtypes
from effx.array import Array, Operand, arithmetic, indexing, reducing, shaping
from effx.array.promotion import broadcast_to, convert, size_scalar, to_host_array
from effx.array.shaping import normalize_axis
from effx.errors import ShapeError
from effx.ir.ops.shape import Pad
from effx.ir.sizes.dimensions import is_symbolic
from effx.numpy.applying import apply_along_axis
from effx.numpy.creation import returnable_operand
from effx.numpy.ranges import linspace
from effx.numpy.shaping import flip
from effx.numpy.statistics import median

__all__ = ["pad"]

# The options of each mode.
_OPTIONS = {
    "constant": ("constant_values",),
    "edge": (),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "minimum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "empty": (),
}
_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": reducing.max,
    "minimum": reducing.min,
    "mean": reducing.mean,
    "median": median,
}


def _check_widths(pad_width: Any, ndim: int, name: str) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        result = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            result[normalize_axis(axis, ndim)] = _check_widths(width, 1, name)[0]
        return result
    width_data = pad_width.host("pad(pad_width=x)") if isinstance(pad_width, Array) else pad_width
    try:
        widths = np.broadcast_to(np.asarray(width_data), (ndim, 2))
    except ValueError:
        widths = np.empty(0)
    if widths.shape != (ndim, 2) or widths.dtype.kind not in "iu":
        raise ShapeError(
            f"pad: {name} must be an int, a pair, or a pair for each of the {ndim} axes, got {pad_width!r}"
        )
    if (widths < 0).any():
        raise ShapeError(f"pad: widths must not be negative, got {pad_width!r}")
    return [(int(low), int(high)) for low, high in widths]


def pad(array: Operand, pad_width: Any, mode: str | Callable[..., Any] = "constant", **options: Any) -> Array:
    """Adds elements at the ends of axes.

    Args:
        array: the array.
        pad_width: an int, a pair (before, after), a pair for each axis, or a dict from axis to these.
        mode: "constant", "edge" (the last element), "reflect" (mirrored at the last element), "symmetric" (mirrored
            after it), "wrap" (from the other end), "linear_ramp" (evenly spaced to a value at the end), "maximum",
            "minimum", "mean" or "median" of the elements along the axis, "empty" (zeros), or a function of a vector
            with zeros at its ends, its pair of widths, the axis and the further options, to the vector that replaces
            it.
        **options: of "constant" `constant_values`, of "linear_ramp" `end_values`, 0 by default, and of statistics
            `stat_length`, how many elements at the end they are of, all three in the forms of `pad_width`; of
            reflections `reflect_type="odd"`, which mirrors at the last element's value too. Of a function, any.

    Raises:
        ShapeError: an unknown mode or form, or nothing to take elements from.

    >>> pad(np.arange(3), 1).tolist(), pad(np.arange(3), (0, 2), mode="reflect").tolist()
    ([0, 0, 1, 2, 0], [0, 1, 2, 1, 0])
    """
    a = returnable_operand(array)
    if callable(mode):
        return _pad_by_function(a, _check_widths(pad_width, a.type.ndim, "pad_width"), mode, options)
    if mode not in _OPTIONS:
        raise ShapeError(f"pad: mode must be one of {', '.join(_OPTIONS)} or a function, got {mode!r}")
    unknown = sorted(set(options) - set(_OPTIONS[mode]))
    if unknown:
        raise ShapeError(f"pad: mode {mode!r} does not take {', '.join(unknown)}")
    widths = _check_widths(pad_width, a.type.ndim, "pad_width")
    if mode in ("constant", "empty"):
        return _pad_constant(a, widths, options.get("constant_values", 0))
    odd = options.get("reflect_type", "even")
    if odd not in ("even", "odd"):
        raise ShapeError(f"pad: reflect_type must be 'even' or 'odd', got {odd!r}")
    lengths = options.get("stat_length")
    parts = None if lengths is None else _check_widths(lengths, a.type.ndim, "stat_length")
    ends = _side_values(options.get("end_values", 0), a.type.ndim)
    for axis, width in enumerate(widths):
        n = a.type.shape[axis]
        if width == (0, 0):
            continue
        if n == 0:
            raise ShapeError(f"pad: axis {axis} of {a.type!r} has no elements to extend by mode {mode!r}")
        if mode in _STATISTICS:
            a = _pad_statistic(a, axis, width, mode, (n, n) if parts is None else parts[axis])
        elif mode == "linear_ramp":
            a = _pad_ramp(a, axis, width, ends(axis, 0), ends(axis, 1))
        elif odd == "odd" and (is_symbolic(n) or n > 1):
            a = _pad_odd(a, axis, width, mode == "reflect")
        elif is_symbolic(n):
            a = indexing.take(a, _find_source_indices(n, width, mode), axis, "clip")
        else:
            sources = np.pad(np.arange(n, dtype=np.int32), width, mode)  # type: ignore[call-overload]  # a str
            edges = [
                indexing.take(a, part, axis, "clip")
                for part in (sources[: width[0]], sources[n + width[0] :])
            ]
            a = shaping.concatenate([edges[0], a, edges[1]], axis)
    return a


def _find_source_indices(n: int, width: tuple[int, int], mode: str) -> Array:
    """Returns for each element of a padded axis of symbolic size the index of the element of the axis that it repeats."""
    before, after = width
    i = indexing.iota_along_axis((before + n + after,), 0) - before
    last = size_scalar(n - 1, i.type.dtype)
    if mode == "edge":
        return arithmetic.minimum(arithmetic.maximum(i, 0), last)
    if mode == "wrap":
        return arithmetic.remainder(i, last + 1)
    # There and back again: the period is 2 n, or 2 n - 2 where the ends are not repeated.
    period = 2 * last + (2 if mode == "symmetric" else 0)
    i = arithmetic.remainder(i, arithmetic.maximum(period, 1))
    return arithmetic.minimum(i, period - i - (1 if mode == "symmetric" else 0))


def _is_scalar(values: Any) -> bool:
    if isinstance(values, Array):
        return not values.ndim
    return isinstance(values, int | float | complex | np.generic)


def _side_values(values: Any, ndim: int) -> Callable[[int, int], Any]:
    """Returns what gives the value of an axis and a side, from the forms of `pad_width`."""
    if _is_scalar(values):
        return lambda axis, side: values
    values_by_side = broadcast_to(
        returnable_operand(values if isinstance(values, Array) else np.asarray(values)), (ndim, 2)
    )
    return lambda axis, side: values_by_side[axis, side]


def _end_slices(a: Array, axis: int) -> list[Array]:
    """Returns the first and the last slice along an axis, which remains with size 1."""
    before = (slice(None),) * axis
    return [a[(*before, end)] for end in (slice(0, 1), slice(-1, None))]


def _pad_statistic(a: Array, axis: int, width: tuple[int, int], mode: str, lengths: tuple[int, int]) -> Array:
    n = a.type.shape[axis]
    parts = [a]
    for side, (count, length) in enumerate(zip(width, lengths, strict=True)):
        if length < 1:
            raise ShapeError(f"pad: stat_length must be at least 1 for mode {mode!r}, got {length}")
        length = min(length, n)
        cut = slice(0, length) if side == 0 else slice(n - length, n)
        value = _STATISTICS[mode](a[(slice(None),) * axis + (cut,)], axis, keepdims=True)
        if a.type.kind in "iu" and value.type.kind == "f":
            value = arithmetic.unary(arithmetic.ROUND_TO_EVEN, value)
        shape = (*a.type.shape[:axis], count, *a.type.shape[axis + 1 :])
        filled = broadcast_to(convert(value, a.type.dtype, a.type.weak), shape)
        parts = [filled, *parts] if side == 0 else [*parts, filled]
    return shaping.concatenate(parts, axis)


def _pad_ramp(a: Array, axis: int, width: tuple[int, int], before: Any, after: Any) -> Array:
    first, last = _end_slices(a, axis)
    parts = [a]
    for side, (edge, end) in enumerate(((first, before), (last, after))):
        ramp = linspace(
            _pad_value(end, a),
            shaping.squeeze(edge, axis),
            width[side],
            endpoint=False,
            dtype=a.type.dtype,
            axis=axis,
        )
        parts = [ramp, *parts] if side == 0 else [*parts, flip(ramp, axis)]
    return shaping.concatenate(parts, axis)


def _pad_odd(a: Array, axis: int, width: tuple[int, int], at_element: bool) -> Array:
    """Mirrors an axis at the point of its last element, or of the edge after it.

    With a period of two mirror images, each element is `sign * a[index] + rise * (last - first) + shift * last`.
    """
    n = a.type.shape[axis]
    period = 2 * (n - 1 if at_element else n)
    steps, position = np.divmod(np.arange(-width[0], n + width[1]), period)
    mirrored = position >= n
    index = np.where(mirrored, period - position - (0 if at_element else 1), position)
    shape = (-1,) + (1,) * (a.type.ndim - axis - 1)
    first, last = _end_slices(a, axis)
    sign, rise, shift = [
        convert(to_host_array(x.reshape(shape)), a.type.dtype)
        for x in (np.where(mirrored, -1, 1), 2 * steps, np.where(mirrored, 2, 0))
    ]
    mirrored_part = indexing.take(a, to_host_array(index.astype(np.int32)), axis, "clip")
    return mirrored_part * sign + (last - first) * rise + last * shift


def _pad_by_function(
    a: Array, widths: list[tuple[int, int]], function: Callable[..., Any], options: dict[str, Any]
) -> Array:
    padded = _pad_constant(a, widths, 0)
    for axis, width in enumerate(widths):
        padded = apply_along_axis(function, axis, padded, width, axis, options)
    return padded


def _pad_constant(a: Array, widths: list[tuple[int, int]], values: Any) -> Array:
    none = (0,) * a.type.ndim
    if _is_scalar(values):
        return Pad(tuple([low for low, _ in widths]), tuple([high for _, high in widths]), none)(
            a, _pad_value(values, a)
        )
    fills = _side_values(values, a.type.ndim)
    for axis, width in enumerate(widths):
        for side, count in enumerate(width):
            if count:
                amounts = tuple([count if i == axis else 0 for i in range(a.type.ndim)])
                low, high = (amounts, none) if side == 0 else (none, amounts)
                a = Pad(low, high, none)(a, _pad_value(fills(axis, side), a))
    return a


def _pad_value(value: Any, a: Array) -> Array:
    if type(value) in (int, float, bool):
        value = int(value) if dtypes.is_integer(a.type.dtype) else value
    fill_value = returnable_operand(value)
    return convert(fill_value, a.type.dtype, a.type.weak)
