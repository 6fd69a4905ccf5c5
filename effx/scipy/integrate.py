"""Integrals of sampled functions."""

from effx.array import Array, Operand
from effx.lazy import list_names
from effx.numpy import reductions

__all__ = ["trapezoid"]
__dir__ = list_names(__all__)


def trapezoid(y: Operand, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Array:
    """The integral of a sampled function by the trapezoidal rule.

    Args:
        y: the samples.
        x: where they are: along the axis, or of the shape of `y`; by default they are `dx` apart.
        dx: their distance.
        axis: along which axis.

    Returns:
        Floating or complex numbers, without the axis.

    >>> import numpy as np
    >>> float(trapezoid(np.array([1.0, 2.0, 3.0]), dx=0.5))
    2.0
    """
    return reductions.trapezoid(y, x, dx, axis)
