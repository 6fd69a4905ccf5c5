"""Interpolate arrays at coordinates between their elements."""

import itertools
from collections.abc import Sequence

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.arithmetic import inexact_dtype, where
from effx.array.promotion import as_operand, as_operand_or_list, broadcast_shapes, broadcast_to, convert
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.lazy import list_names
from effx.numpy.elementwise import floor
from effx.transforms.jit.jit import jit

__all__ = ["map_coordinates"]
__dir__ = list_names(__all__)

MODES = ("constant", "nearest", "wrap", "mirror", "reflect")


def _wrap_index(index: Array, n: int, mode: str) -> Array:
    """Returns an index in the array, by a mode of extending the array beyond its ends."""
    if mode in ("nearest", "constant"):
        return arithmetic.clip(index, 0, n - 1)
    if mode == "wrap":
        return arithmetic.remainder(index, n)
    if mode == "mirror":  # d c b | a b c d | c b a
        period = max(2 * (n - 1), 1)
        remainder = arithmetic.remainder(index, period)
        return arithmetic.minimum(remainder, period - remainder) if n > 1 else remainder
    remainder = arithmetic.remainder(index, 2 * n)  # d c b a | a b c d | d c b a
    return arithmetic.minimum(remainder, 2 * n - 1 - remainder)


def _round_half_away(x: Array) -> Array:
    """Returns the nearest integers, halves away from 0."""
    return where(x < 0, -floor(0.5 - x), floor(x + 0.5))


@jit(static_argnames=("order", "mode"), inline=True)
def _interpolate(x: Array, coordinates: tuple[Array, ...], order: int, mode: str, cval: Array) -> Array:
    t = x.type
    dtype = inexact_dtype(t.dtype)
    steps: list[list[tuple[Array, Array | None]]] = []
    for coordinate in coordinates:
        if order == 0:
            steps.append([(_round_half_away(coordinate), None)])
        else:
            low = floor(coordinate)
            above = convert(coordinate - low, dtype)
            steps.append([(low, 1 - above), (low + 1, above)])
    total: Array | None = None
    for corner in itertools.product(*steps):
        indices = [convert(i, dtypes.int32) if i.type.kind == "f" else i for i, _ in corner]
        value = x[tuple([_wrap_index(i, n, mode) for i, n in zip(indices, t.shape, strict=True)])]
        value = convert(value, dtype)
        if mode == "constant":
            for i, n in zip(indices, t.shape, strict=True):
                value = where((i >= 0) & (i < n), value, convert(cval, dtype))
        for _, weight in corner:
            if weight is not None:
                value = value * weight
        total = value if total is None else total + value
    assert total is not None
    return convert(_round_half_away(total) if t.kind in "iu" else total, t.dtype)


def map_coordinates(
    input: Operand,
    coordinates: Sequence[Operand],
    order: int,
    mode: str = "constant",
    cval: Operand = 0.0,
) -> Array:
    """Interpolates an array at coordinates, by the nearest element or linearly.

    Args:
        input: `[*n]`, with at least one axis.
        coordinates: for each axis real numbers, the indices of the points; of shapes that broadcast.
        order: 0 for the nearest element, 1 for linear interpolation.
        mode: what is thought to be beyond the ends of the array `a b c d`: "constant" `cval`, "nearest" `d d d`, "wrap"
            `a b c`, "mirror" `c b a`, "reflect" `d c b`.
        cval: for mode "constant".

    Returns:
        An array of the coordinates' shape and input's dtype; of integers the result is rounded.

    Raises:
        ShapeError: not one array of coordinates for each axis, or an axis without elements.
        DTypeError: another order or mode, or complex coordinates.

    >>> import numpy as np
    >>> map_coordinates(np.array([1.0, 2.0, 4.0]), [np.array([0.5, 1.5, 3.0])], 1).tolist()
    [1.5, 3.0, 0.0]
    """
    x = as_operand(input)
    coordinate_arrays = [as_operand_or_list(c) for c in coordinates]
    if len(coordinate_arrays) != x.type.ndim or not coordinate_arrays:
        raise ShapeError(
            f"{name_user_call()}: coordinates must be one array for each axis of {x.type!r}, got {len(coordinate_arrays)}"
        )
    if order not in (0, 1):
        raise DTypeError(f"{name_user_call()}: order must be 0 or 1, got {order!r}")
    if mode not in MODES:
        raise OptionError(f"{name_user_call()}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if 0 in x.type.shape:
        raise ShapeError(f"{name_user_call()}: the input must have elements, got {x.type!r}")
    for coordinate in coordinate_arrays:
        if coordinate.type.kind == "c":
            raise DTypeError(f"{name_user_call()}: coordinates must be real, got {coordinate.type!r}")
    wide = [convert(p, dtypes.int32) if p.type.kind == "b" else p for p in coordinate_arrays]
    shape = broadcast_shapes(*[p.type.shape for p in wide])
    constant = as_operand(cval)
    if constant.type.shape:
        raise ShapeError(f"{name_user_call()}: cval must be a number, got {constant.type!r}")
    return _interpolate(x, tuple([broadcast_to(p, shape) for p in wide]), int(order), mode, constant)
