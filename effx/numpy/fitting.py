"""Zeros of polynomials, polynomials of zeros, and polynomials that fit points: by linear algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from effx import dtypes
from effx.array import Array, arithmetic, reducing, shaping
from effx.array.promotion import as_operand, convert, promote_dtypes
from effx.errors import ShapeError
from effx.numpy.creation import make_filled
from effx.numpy.linalg import eigvals, inv, lstsq
from effx.numpy.padding import pad
from effx.numpy.polynomials import check_coefficients, check_order, strip_leading_zeros
from effx.numpy.ranges import eye, vander
from effx.numpy.shaping import flip

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["poly", "polyfit", "roots"]


def poly(seq_of_zeros: Operand) -> Array:
    """The coefficients of the polynomial with given zeros, the highest being 1.

    Args:
        seq_of_zeros: `[n]` numbers, or an `[n, n]` matrix, whose eigenvalues are the zeros.

    Returns:
        `[n + 1]` coefficients; complex for a matrix that is not known to have real eigenvalues.

    Raises:
        ShapeError: neither a vector nor a square matrix.

    >>> import numpy as np
    >>> poly(np.array([1.0, 2.0])).tolist()
    [1.0, -3.0, 2.0]
    """
    x = arithmetic.to_inexact(as_operand(seq_of_zeros))
    if x.type.ndim == 2 and x.type.shape[0] == x.type.shape[1]:
        x = eigvals(x)
    elif x.type.ndim > 1:
        raise ShapeError(f"poly: takes a vector of zeros or a square matrix, got {x.type!r}")
    zeros = shaping.reshape(x, -1)
    p = make_filled((1,) if 0 not in zeros.type.shape else (), 1, zeros.type.dtype)
    for i in range(zeros.type.size):
        p = pad(p, (0, 1)) - zeros[i] * pad(p, (1, 0))
    return p


def roots(p: Operand, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial: the eigenvalues of its companion matrix.

    Args:
        p: `[n]` coefficients.
        strip_zeros: False to keep leading and trailing zeros, so that the coefficients may be traced: each
            leading one makes all results NaN.

    Returns:
        Complex zeros: `n - 1` of them, less the leading zeros.

    Raises:
        ConcretizationError: zeros of a traced array are to be left out.

    >>> import numpy as np
    >>> sorted(roots(np.array([1.0, -3.0, 2.0])).real.round(3).tolist())
    [1.0, 2.0]
    """
    x = arithmetic.to_inexact(check_coefficients(p))
    at_zero = 0
    if strip_zeros:
        x = strip_leading_zeros(x)
        significant_count = strip_leading_zeros(flip(x)).type.size
        x, at_zero = x[:significant_count], x.type.size - significant_count
    n = x.type.size
    dtype = x.type.dtype if x.type.kind == "c" else dtypes.complex_dtype(x.type.dtype)
    zeros = make_filled((at_zero,), 0, dtype)
    if n < 2:
        return zeros
    below = shaping.concatenate([eye(n - 2, dtype=x.type.dtype), make_filled((n - 2, 1), 0, x.type.dtype)], 1)
    companion = shaping.concatenate([shaping.expand_dims(-x[1:] / x[0], 0), below], 0)
    return shaping.concatenate([eigvals(companion), zeros], 0)


@overload
def polyfit(
    x: Operand,
    y: Operand,
    deg: int,
    rcond: float | None = None,
    full: Literal[False] = False,
    w: Operand | None = None,
    cov: Literal[False] = False,
) -> Array: ...
@overload
def polyfit(
    x: Operand,
    y: Operand,
    deg: int,
    rcond: float | None = None,
    full: Literal[False] = False,
    w: Operand | None = None,
    *,
    cov: Literal[True] | str,
) -> tuple[Array, Array]: ...
@overload
def polyfit(
    x: Operand,
    y: Operand,
    deg: int,
    rcond: float | None = None,
    *,
    full: Literal[True],
    w: Operand | None = None,
    cov: bool | str = False,
) -> tuple[Array, Array, Array, Array, Array]: ...
@overload
def polyfit(
    x: Operand,
    y: Operand,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Operand | None = None,
    cov: bool | str = False,
) -> Array | tuple[Array, ...]: ...
def polyfit(
    x: Operand,
    y: Operand,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Operand | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial that fits points best, by least squares.

    Args:
        x: `[m]` where.
        y: `[m]` values, or `[m, k]` for k fits.
        deg: the degree.
        rcond: singular values below this fraction of the largest count as 0; by default m times the dtype's eps.
        full: True to return the residuals, the rank, the singular values and `rcond` too.
        w: `[m]` weights of the distances.
        cov: True to return the covariance of the coefficients too, scaled by the residuals; "unscaled" where the
            weights are the inverse standard deviations.

    Returns:
        `[deg + 1]` or `[deg + 1, k]` coefficients, or a tuple that starts with them.

    Raises:
        ShapeError: points that do not fit each other, or a degree that is negative.

    >>> import numpy as np
    >>> [round(c, 3) for c in polyfit(np.arange(3.0), np.array([1.0, 3.0, 5.0]), 1).tolist()]
    [2.0, 1.0]
    """
    points, values = promote_dtypes(as_operand(x), as_operand(y))
    points, values = arithmetic.to_inexact(points), arithmetic.to_inexact(values)
    m = points.type.size
    if points.type.ndim != 1 or not m or values.type.shape[:1] != (m,) or values.type.ndim > 2:
        raise ShapeError(
            f"polyfit: x must be [m] and y [m] or [m, k], got {points.type!r} and {values.type!r}"
        )
    order = check_order("deg", deg) + 1
    matrix, right = vander(points, order), values
    if w is not None:
        weights = convert(as_operand(w), points.type.dtype)
        if weights.type.shape != (m,):
            raise ShapeError(f"polyfit: w {weights.type!r} must have the shape of x {points.type!r}")
        matrix = matrix * shaping.expand_dims(weights, 1)
        right = right * shaping.reshape(weights, (m,) + (1,) * (values.type.ndim - 1))
    cut = m * float(dtypes.finfo(points.type.dtype).eps) if rcond is None else rcond
    scale = reducing.sum(abs(matrix) ** 2, 0) ** 0.5
    fit, residuals, rank, singular = lstsq(matrix / scale, right, cut)
    fit = fit / shaping.reshape(scale, (order,) + (1,) * (values.type.ndim - 1))
    if full:
        return fit, residuals, rank, singular, as_operand(cut)
    if not cov:
        return fit
    scaled = matrix / scale
    base = inv(arithmetic.dot(scaled.T, scaled)) / (scale * shaping.expand_dims(scale, 1))
    if cov == "unscaled":
        factor: Array = as_operand(1.0)
    elif m <= order:
        raise ShapeError(f"polyfit: cov=True needs more than {order} points, got {m}")
    else:
        factor = residuals / (m - order)
    if values.type.ndim == 1:
        return fit, base * factor
    return fit, shaping.expand_dims(base, -1) * factor
