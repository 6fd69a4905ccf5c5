"""Interpolation on regular grids."""

import itertools
from collections.abc import Sequence

import numpy as np

from effx.array import Array, Operand, arithmetic, reducing
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to
from effx.array.shaping import moveaxis, reshape
from effx.errors import ConcretizationError, OptionError, ShapeError, name_user_call
from effx.lazy import list_names
from effx.numpy.creation import array
from effx.numpy.shaping import flip
from effx.numpy.sorting import searchsorted
from effx.transforms.jit.jit import jit

__all__ = ["RegularGridInterpolator"]
__dir__ = list_names(__all__)

Values = Operand | Sequence[Operand] | Sequence[Sequence[float]]

METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Interpolates a function that is known on a grid.

    Args:
        points: for each axis of the grid its coordinates, all rising or all falling.
        values: `[*sizes, *rest]`, the function's values: arrays of shape `rest`.
        method: "linear" or "nearest".
        bounds_error: True to refuse points out of the grid, which must then be concrete.
        fill_value: the value out of the grid; None to go on with the values of the outermost cells.

    Raises:
        ShapeError: points and values do not fit, or bounds_error is set and a point is out of the grid.
        DTypeError: another method.

    >>> grid = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0])
    >>> f = RegularGridInterpolator(grid, np.array([[10.0, 20.0], [40.0, 50.0], [70.0, 80.0]]))
    >>> f(np.array([[1.5, 4.5], [9.0, 4.0]])).tolist()
    [30.0, nan]
    """

    def __init__(
        self,
        points: Sequence[Values],
        values: Values,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Operand | None = np.nan,
    ) -> None:
        self.method = _check_method(method)
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        data = arithmetic.to_inexact(_to_array(values))
        grid = [arithmetic.to_inexact(_to_array(p)) for p in points]
        if not grid or len(grid) > data.type.ndim:
            raise ShapeError(f"{name_user_call()}: {len(grid)} axes of points for values {data.type!r}")
        for axis, p in enumerate(grid):
            if p.type.shape != data.type.shape[axis : axis + 1] or 0 in p.type.shape:
                raise ShapeError(
                    f"{name_user_call()}: the points of axis {axis} must be one for each of the values {data.type!r}, "
                    f"got {p.type!r}"
                )
            falls = _is_descending(axis, p)
            if falls:
                grid[axis], data = flip(p), flip(data, axis)
        self.grid = tuple(grid)
        self.values = data

    def __call__(self, xi: Values, method: str | None = None) -> Array:
        """Returns the values at points.

        Args:
            xi: `[*shape, d]` points for d axes, or d arrays that broadcast.
            method: instead of the interpolator's own.

        Returns:
            An array `[*shape, *rest]`.

        Raises:
            ShapeError: the points have another number of coordinates, or one is out of the grid where that is refused.
        """
        how = self.method if method is None else _check_method(method)
        d = len(self.grid)
        if isinstance(xi, list | tuple):
            parts = [_to_array(x) for x in xi]
            shape = broadcast_shapes(*[p.type.shape for p in parts])
            coordinates = [broadcast_to(p, shape) for p in parts]
        else:
            xi_array = _to_array(xi)
            if not xi_array.type.ndim:
                raise ShapeError(
                    f"{name_user_call()}: places must have {d} coordinates, got {xi_array.type!r}"
                )
            moved = moveaxis(xi_array, -1, 0)
            shape = moved.type.shape[1:]
            coordinates = [moved[i] for i in range(moved.type.shape[0])]
        if len(coordinates) != d:
            raise ShapeError(f"{name_user_call()}: places must have {d} coordinates, got {len(coordinates)}")
        results = [arithmetic.to_inexact(p) for p in coordinates]
        out = _is_out_of_bounds(self.grid, results)
        if self.bounds_error:
            try:
                refused = bool(reducing.any(out))
            except ConcretizationError as error:
                raise ConcretizationError(
                    f"{name_user_call()}: bounds_error needs concrete places"
                ) from error
            if refused:
                raise ShapeError(f"{name_user_call()}: a place is out of the grid, and bounds_error is set")
        result = _interpolate(self.grid, self.values, results, how)
        rest = (1,) * (result.type.ndim - len(shape))
        if self.fill_value is not None:
            result = where(reshape(out, (*shape, *rest)), self.fill_value, result)
        # NaN is nowhere in the grid, and nowhere out of it.
        unknown = results[0] != results[0]
        for p in results[1:]:
            unknown = unknown | (p != p)
        return where(reshape(unknown, (*shape, *rest)), np.nan, result)


def _to_array(x: Values) -> Array:
    return array(x) if isinstance(x, list | tuple) else as_operand(x)  # type: ignore[arg-type]  # no sequence


def _check_method(method: str) -> str:
    if method not in METHODS:
        raise OptionError(
            f"RegularGridInterpolator: method must be one of {', '.join(METHODS)}, got {method!r}"
        )
    return method


def _is_descending(axis: int, points: Array) -> bool:
    """Says whether points fall; abstract ones count as rising."""
    try:
        steps = np.diff(np.asarray(points))
    except ConcretizationError:
        return False
    if np.all(steps > 0):
        return False
    if np.all(steps < 0):
        return True
    raise ShapeError(f"RegularGridInterpolator: the points of axis {axis} must rise or fall")


def _is_out_of_bounds(grid: tuple[Array, ...], coordinates: Sequence[Array]) -> Array:
    out: Array | None = None
    for points, x in zip(grid, coordinates, strict=True):
        beyond = (x < points[0]) | (x > points[-1])
        out = beyond if out is None else out | beyond
    assert out is not None
    return out


@jit(static_argnames=("method",), inline=True)
def _interpolate(grid: tuple[Array, ...], values: Array, coordinates: Sequence[Array], method: str) -> Array:
    steps: list[list[tuple[Array | int, Array | None]]] = []
    for points, x in zip(grid, coordinates, strict=True):
        n = points.type.size
        if n == 1:
            steps.append([(arithmetic.where(x == x, 0, 0), None)])
            continue
        at = arithmetic.clip(searchsorted(points, x, side="right") - 1, 0, n - 2)
        above = (x - points[at]) / (points[at + 1] - points[at])
        if method == "nearest":
            steps.append([(where(above <= 0.5, at, at + 1), None)])
        else:
            steps.append([(at, 1 - above), (at + 1, above)])
    total: Array | None = None
    for corner in itertools.product(*steps):
        value = values[tuple([i for i, _ in corner])]
        for _, weight in corner:
            if weight is not None:
                value = value * reshape(
                    weight, weight.type.shape + (1,) * (value.type.ndim - weight.type.ndim)
                )
        total = value if total is None else total + value
    assert total is not None
    return total
