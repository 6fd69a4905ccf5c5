"""The Dirichlet distribution of points whose coordinates are not negative and have the sum 1."""

import math

from effx import dtypes
from effx.array import Array, Operand, reducing
from effx.array.arithmetic import absolute, where
from effx.array.shaping import concatenate, reshape
from effx.errors import ShapeError
from effx.lax.elementwise.exponential import exp
from effx.lax.elementwise.gamma import lgamma
from effx.lazy import list_names
from effx.scipy.operands import cast_like, real_floats
from effx.scipy.stats.families import weighted_log
from effx.transforms.jit.jit import jit

__all__ = ["logpdf", "pdf"]
__dir__ = list_names(__all__)


def log_density(function_name: str, x: Operand, alpha: Operand) -> tuple[Array, Array]:
    """Returns the logarithm of the density, and an array with the result's dtype."""
    (point, shape), first = real_floats(x, alpha, function_name=function_name)
    if shape.type.ndim != 1:
        raise ShapeError(f"{function_name}: alpha must be a vector, got {shape.type!r}")
    (n,) = shape.type.shape
    if not point.type.ndim or point.type.shape[0] not in (n, n - 1):
        raise ShapeError(
            f"{function_name}: the first axis of x must have {n} or {n - 1} elements, got {point.type!r}"
        )
    if point.type.shape[0] != n:
        point = concatenate([point, 1.0 - reducing.sum(point, 0, keepdims=True)], 0)
    tolerance = 1e-9 if point.type.dtype == dtypes.float64 else 1e-5
    inside = reducing.all(point >= 0.0, 0) & (absolute(reducing.sum(point, 0) - 1.0) <= tolerance)
    defined = reducing.all(shape > 0.0) & reducing.all(point == point, 0)
    weights = reshape(shape - 1.0, (n,) + (1,) * (point.type.ndim - 1))
    result = reducing.sum(weighted_log(weights, where(point >= 0.0, point, 1.0)), 0)
    result = result - reducing.sum(lgamma(shape)) + lgamma(reducing.sum(shape))
    return where(defined, where(inside, result, -math.inf), math.nan), first


@jit
def logpdf(x: Operand, alpha: Operand) -> Array:
    """The logarithm of `pdf`.

    Args:
        x: points, `[n, *batch]`, or `[n - 1, *batch]` without the last coordinate; -infinity where the sum is not 1 to
            1e-5, or 1e-9 in float64.
        alpha: positive numbers, `[n]`; NaN where one is another.

    Raises:
        ShapeError: sizes do not fit.

    >>> import numpy as np
    >>> f"{float(logpdf(np.array([0.2, 0.8]), np.array([2.0, 3.0]))):.4f}"
    '0.4292'
    """
    log_density_value, first = log_density("dirichlet.logpdf", x, alpha)
    return cast_like(first, log_density_value)


@jit
def pdf(x: Operand, alpha: Operand) -> Array:
    """The product of x^(alpha - 1) / gamma(alpha), times gamma of the sum of alpha.

    Args:
        x, alpha: as those of `logpdf`.

    Raises:
        ShapeError: sizes do not fit.

    >>> import numpy as np
    >>> f"{float(pdf(np.array([0.2, 0.8]), np.array([2.0, 3.0]))):.4f}"
    '1.5360'
    """
    log_density_value, first = log_density("dirichlet.pdf", x, alpha)
    return cast_like(first, exp(log_density_value))
