"""Interval bounds: sound bounds of a function's results for arguments in given intervals."""

from collections.abc import Callable

import numpy as np

import effx.numpy as enp
from effx import tree
from effx.errors import ConcretizationError, DTypeError, ShapeError, TransformError
from effx.lazy import list_names
from effx.library.intervals import arithmetic, combining, logic, structural, windows
from effx.library.intervals.enclosures import Interval, Intervals, hull
from effx.tree import PyTree

__all__ = ["Interval", "Intervals", "bounds", "hull"]
__dir__ = list_names(__all__)


def bounds(f: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    """Returns bounds of f's results: for each x in the intervals, f(x) is within them.

    Points x at which an operation gives NaN, such as the square root of a negative number, are left out.
    Bounds include rounding errors, on devices that compute matrix products in the operands' dtype. They are
    those of interval arithmetic: exact for each single operation, and wider than necessary where a value
    occurs several times. Where the intervals leave the condition of a while loop open, the bounds hold for
    any number of iterations, and are widened to powers of 16.

    Args:
        f: takes and returns pytrees of real arrays.
        *arguments: pytrees with intervals as leaves; other arrays and numbers have a single value, and other
            leaves, such as the functions in a model, are passed on.

    Returns:
        A pytree like the result, with an `Interval` for each array.

    Raises:
        ShapeError: two bounds differ in shape.
        DTypeError: two bounds differ in dtype, or a value is complex.
        TransformError: a lower bound is above the upper one.

    >>> import effx.numpy as enp
    >>> found = bounds(lambda x: enp.sin(x) * x, Interval(enp.array(1.0), enp.array(2.0)))
    >>> print(f"{found.low:.3f} {found.high:.3f}")
    0.841 2.000
    """
    leaves, structure = tree.flatten(arguments, is_leaf=_is_interval)
    values = [
        _check_argument(x) if type(x) is Interval else x if callable(x) else enp.asarray(x) for x in leaves
    ]
    return Intervals().run(f, *structure.unflatten(values))


def _is_interval(x: object) -> bool:
    return type(x) is Interval


def _check_argument(x: Interval) -> Interval:
    low, high = enp.asarray(x.low), enp.asarray(x.high)
    if low.type.kind == "c":
        raise DTypeError(f"bounds: complex numbers have no order, got {low.type!r}")
    if low.dtype != high.dtype:
        raise DTypeError(f"bounds: dtypes differ: low is {low.type!r}, high is {high.type!r}")
    if low.shape != high.shape:
        raise ShapeError(f"bounds: shapes differ: low is {low.type!r}, high is {high.type!r}")
    try:
        ordered = bool(np.all(np.asarray(low) <= np.asarray(high)))
    except ConcretizationError:
        ordered = True  # of traced bounds the order cannot be checked
    if not ordered:
        raise TransformError("bounds: low must not be above high in any element, and neither may be NaN")
    return Interval(low, high)
