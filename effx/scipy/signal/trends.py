"""Trends of signals, and their removal."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from effx.array import Array, Operand, arithmetic, reducing
from effx.array.promotion import as_operand, convert, to_host_array
from effx.array.shaping import concatenate, moveaxis, normalize_axis
from effx.errors import OptionError, ShapeError
from effx.lax.operands import check_int
from effx.transforms.jit.jit import jit

__all__ = ["detrend"]


def subtract_mean(x: Array) -> Array:
    """Subtracts the mean along the last axis."""
    return x - reducing.mean(x, -1, keepdims=True)


def subtract_line(x: Array) -> Array:
    """Subtracts the line of least squares along the last axis."""
    n = x.type.shape[-1]
    y = subtract_mean(x)
    t = np.arange(n) - (n - 1) / 2
    # Times with the mean 0 make the level and the slope independent.
    times = to_host_array(
        (t / np.sqrt(max(float(np.sum(t**2)), 1e-300))).astype(arithmetic.real(x).type.dtype)
    )
    return y - times * reducing.sum(y * times, -1, keepdims=True)


@jit(static_argnames=("axis", "ends"), inline=True)
def _detrend_sections(x: Array, axis: int, ends: tuple[int, ...] | None) -> Array:
    y = moveaxis(x, axis, -1)
    if ends is None:
        return moveaxis(subtract_mean(y), -1, axis)
    parts = [subtract_line(y[..., i:j]) for i, j in pairwise(ends)]
    return moveaxis(concatenate(parts, -1) if parts else y, -1, axis)


def detrend(
    data: Operand,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """Subtracts the mean of a signal, or lines of least squares.

    Args:
        data: the signal.
        axis: along which axis.
        type: "linear" or "constant".
        bp: where one line ends and the next begins, for type "linear".
        overwrite_data: changes nothing: arrays are immutable.

    Returns:
        Floating or complex numbers in the shape of `data`.

    Raises:
        ShapeError: a break is out of the axis.
        DTypeError: another type.

    >>> detrend(np.array([1.0, 2.0, 3.0]), type="constant").tolist()
    [-1.0, 0.0, 1.0]
    """
    x = arithmetic.to_inexact(as_operand(data))
    if type not in ("linear", "constant"):
        raise OptionError(f"detrend: type must be 'linear' or 'constant', got {type!r}")
    resolved_axis = normalize_axis(axis, x.type.ndim, x.type)
    n = x.type.shape[resolved_axis]
    ends = None
    if type == "linear":
        inner = {check_int("a break", b) for b in np.atleast_1d(np.asarray(bp)).tolist()}
        if any([b < 0 or b > n for b in inner]):
            raise ShapeError(f"detrend: breaks must lie in the axis of {n} elements, got {sorted(inner)}")
        ends = tuple(sorted({0, n} | inner))
    return _detrend_sections(convert(x, x.type.dtype), resolved_axis, ends)
