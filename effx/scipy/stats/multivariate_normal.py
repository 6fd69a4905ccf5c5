"""The normal distribution of vectors."""

import math

from effx import dtypes
from effx.array import Array, Operand, reducing
from effx.array.arithmetic import absolute, matmul, where
from effx.array.indexing import diagonal
from effx.array.promotion import broadcast_shapes, broadcast_to
from effx.array.shaping import expand_dims
from effx.errors import DTypeError, ShapeError
from effx.lax.elementwise.exponential import exp, log
from effx.lax.linalg.eigen import eigh
from effx.lax.linalg.factors import cholesky, triangular_solve
from effx.lazy import list_names
from effx.scipy.operands import cast_like, real_floats
from effx.transforms.jit.jit import jit

__all__ = ["logpdf", "pdf"]
__dir__ = list_names(__all__)

LOG_TWO_PI = math.log(2 * math.pi)


def log_density(
    function_name: str, x: Operand, mean: Operand, cov: Operand, allow_singular: bool = False
) -> tuple[Array, Array]:
    """Returns the logarithm of the density, and an array with the result's dtype."""
    (point, centre, matrix), first = real_floats(x, mean, cov, function_name=function_name)
    vectors = point.type.ndim > 0 and centre.type.ndim > 0
    n = max(point.type.shape[-1], centre.type.shape[-1]) if vectors else 1
    if not vectors:
        if matrix.type.ndim:
            raise ShapeError(
                f"{function_name}: numbers x and mean need a number cov, got {point.type!r}, {centre.type!r} and "
                f"{matrix.type!r}"
            )
        rest = point - centre
        square, size = rest * rest / matrix, log(matrix)
        return -0.5 * (square + size + LOG_TWO_PI), first
    if matrix.type.ndim == 0:
        rest = point - centre
        return -0.5 * (reducing.sum(rest * rest, -1) / matrix + n * (log(matrix) + LOG_TWO_PI)), first
    if matrix.type.ndim < 2 or matrix.type.shape[-2:] != (n, n):
        raise ShapeError(
            f"{function_name}: cov must be a number or end in sizes {n}, {n}, as x and mean end in {n}; "
            f"got {point.type!r}, {centre.type!r} and {matrix.type!r}"
        )
    rest = point - centre
    sizes = broadcast_shapes(rest.type.shape[:-1], matrix.type.shape[:-2])
    rest = broadcast_to(rest, (*sizes, n))
    if allow_singular:
        return _degenerate_log_density(rest, matrix), first
    factor = cholesky(matrix)
    half = reducing.sum(log(diagonal(factor, axis1=-2, axis2=-1)), -1)
    scaled = triangular_solve(
        broadcast_to(factor, (*sizes, n, n)), expand_dims(rest, -1), left_side=True, lower=True
    )
    return -0.5 * (reducing.sum(scaled * scaled, (-2, -1)) + n * LOG_TWO_PI) - half, first


def _degenerate_log_density(rest: Array, matrix: Array) -> Array:
    """Returns the logarithm of the density on the span of a matrix that need not have full rank."""
    vectors, values = eigh(matrix)
    eps = float(dtypes.finfo(matrix.type.dtype).eps)
    bound = reducing.max(absolute(values), -1, keepdims=True) * (eps * 1e3)
    positive = values > bound
    safe = where(positive, values, 1.0)
    along = matmul(expand_dims(rest, -2), vectors)[..., 0, :]
    square = reducing.sum(where(positive, along * along / safe, 0.0), -1)
    rank = reducing.sum(where(positive, 1.0, 0.0), -1)
    across = reducing.max(where(positive, 0.0, absolute(along)), -1)
    inside = across <= reducing.max(absolute(rest), -1) * (eps * 1e3)
    log_likelihood = -0.5 * (square + rank * LOG_TWO_PI + reducing.sum(log(safe), -1))
    allowed = reducing.all(values >= -bound, -1)
    return where(allowed, where(inside, log_likelihood, -math.inf), math.nan)


@jit(static_argnames=("allow_singular",))
def logpdf(x: Operand, mean: Operand, cov: Operand, allow_singular: bool | None = None) -> Array:
    """-((x - mean)ᵀ cov⁻¹ (x - mean) + log(det(2 pi cov))) / 2.

    Args:
        x: vectors, `[*batch, n]`, or numbers where n is 1.
        mean: as x.
        cov: positive definite matrices, `[*batch, n, n]`, or a number for its multiple of the unit matrix; NaN where
            it is not positive definite.
        allow_singular: True for matrices that need not have full rank: the density is that on their span, and its
            logarithm -infinity elsewhere.

    Raises:
        DTypeError: allow_singular is no bool.
        ShapeError: sizes do not fit.

    >>> import numpy as np
    >>> f"{float(logpdf(np.array([1.0, 2.0]), np.zeros(2), np.eye(2))):.4f}"
    '-4.3379'
    """
    if allow_singular is not None and not isinstance(allow_singular, bool):
        raise DTypeError(
            f"multivariate_normal.logpdf: allow_singular must be a bool or None, got {allow_singular!r}"
        )
    log_density_value, first = log_density("multivariate_normal.logpdf", x, mean, cov, bool(allow_singular))
    return cast_like(first, log_density_value)


@jit
def pdf(x: Operand, mean: Operand, cov: Operand) -> Array:
    """The exponential of `logpdf`.

    Args:
        x, mean, cov: as those of `logpdf`.

    Raises:
        ShapeError: sizes do not fit.

    >>> import numpy as np
    >>> f"{float(pdf(np.array([1.0, 2.0]), np.zeros(2), np.eye(2))):.4f}"
    '0.0131'
    """
    log_density_value, first = log_density("multivariate_normal.pdf", x, mean, cov)
    return cast_like(first, exp(log_density_value))
