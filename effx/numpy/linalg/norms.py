"""Norms of vectors and matrices, and condition numbers."""

import math
from collections.abc import Sequence

from effx import dtypes
from effx.array import Array, Operand, arithmetic, reducing, shaping
from effx.array.arithmetic import absolute, to_inexact
from effx.array.promotion import as_operand, convert
from effx.array.shaping import normalize_axes, normalize_axis
from effx.errors import ShapeError, name_user_call
from effx.ir.ops.elementwise import Sqrt
from effx.numpy.linalg.factors import svdvals
from effx.numpy.linalg.systems import inv
from effx.transforms.jit.jit import jit

__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]

Order = int | float | str
SQRT = Sqrt()


@jit(static_argnames=("ord", "axis", "keepdims"), inline=True)
def norm(
    x: Operand,
    ord: Order | None = None,
    axis: tuple[int, ...] | int | None = None,
    keepdims: bool = False,
) -> Array:
    """Returns norms of vectors, along one axis, or of matrices, along two.

    Args:
        x: an array.
        ord: of vectors, None for the root of the sum of squares, infinity or minus infinity for the largest or smallest
            absolute value, 0 for the number of elements that are not 0, another p for `sum(abs(x)**p)**(1/p)`. Of
            matrices, None or "fro" for the root of the sum of squares, "nuc" for the sum of singular values, 2 and -2
            for the largest and smallest of them, 1 and -1 for the largest and smallest sum of absolute values of a
            column, infinity and minus infinity for those of a row.
        axis: one axis, or two; by default all, and for a given ord x must have one or two.
        keepdims: True to keep the axes with size 1.

    Raises:
        ShapeError: there is no such norm for the number of axes.

    >>> import numpy as np
    >>> float(norm(np.array([3., 4.])))
    5.0
    """
    a = to_inexact(as_operand(x))
    if axis is None:
        if ord is None:
            return _root_of_square_sum(a, tuple(range(a.type.ndim)), keepdims)
        axis = tuple(range(a.type.ndim))
    axis_tuple = (axis,) if isinstance(axis, int) else axis
    axes = tuple([normalize_axis(i, a.type.ndim, a.type) for i in axis_tuple])
    if len(axes) == 1:
        return _vector_norm(a, 2 if ord is None else ord, axes, keepdims)
    if len(set(axes)) == len(axes) == 2:
        return _matrix_norm(a, "fro" if ord is None else ord, (axes[0], axes[1]), keepdims)
    raise ShapeError(f"norm: axis must be one or two axes, got {axis} for {a.type!r}")


@jit(static_argnames=("axis", "keepdims", "ord"), inline=True)
def vector_norm(
    x: Operand, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: Order = 2
) -> Array:
    """Returns norms of vectors, whose elements may extend over several axes.

    Args:
        x: an array.
        axis: the vectors' axes; None for all.
        keepdims: True to keep the axes with size 1.
        ord: as for `norm` of vectors.

    Raises:
        ShapeError: there is no such norm.

    >>> import numpy as np
    >>> float(vector_norm(np.array([[3., 4.]]), ord=1))
    7.0
    """
    a = to_inexact(as_operand(x))
    axes = tuple(range(a.type.ndim)) if axis is None else normalize_axes(axis, a.type)
    return _vector_norm(a, ord, axes, keepdims)


@jit(static_argnames=("keepdims", "ord"), inline=True)
def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: Order = "fro") -> Array:
    """Returns norms of matrices.

    Args:
        x: `[*batch, m, n]`.
        keepdims: True to keep both axes with size 1.
        ord: as for `norm` of matrices.

    Raises:
        ShapeError: x is not of matrices, or there is no such norm.

    >>> import numpy as np
    >>> float(matrix_norm(np.array([[3., 0.], [0., 4.]]), ord="nuc"))
    7.0
    """
    a = to_inexact(as_operand(x))
    if a.type.ndim < 2:
        raise ShapeError(f"matrix_norm: operand must have at least two axes, got {a.type!r}")
    return _matrix_norm(a, ord, (a.type.ndim - 2, a.type.ndim - 1), keepdims)


def _root_of_square_sum(a: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    # Squares of 16-bit floats overflow where their root does not.
    wide = convert(a, reducing.accumulation_dtype(a.type.dtype), a.type.weak)
    squares = arithmetic.real(wide * arithmetic.conj(wide)) if a.type.kind == "c" else wide * wide
    root = _root(reducing.sum(squares, axes, keepdims=keepdims), 2)
    return convert(root, dtypes.real_dtype(a.type.dtype))


def _root(total: Array, order: float) -> Array:
    """Returns a root of what is not negative, whose derivative at 0 is taken to be 0: the smallest subgradient of a norm."""
    zero = total == 0.0
    safe = arithmetic.where(zero, 1.0, total)
    root = arithmetic.unary(SQRT, safe) if order == 2 else safe ** (1.0 / order)
    return arithmetic.where(zero, 0.0, root)


def _vector_norm(a: Array, ord: Order, axes: tuple[int, ...], keepdims: bool) -> Array:
    if isinstance(ord, str):
        raise ShapeError(f"{name_user_call()}: ord of vectors must be a number or infinity, got {ord!r}")
    if ord == 2:
        return _root_of_square_sum(a, axes, keepdims)
    sizes = absolute(a)
    if ord == math.inf:
        return reducing.max(sizes, axes, keepdims=keepdims, initial=0)
    if ord == -math.inf:
        return reducing.min(sizes, axes, keepdims=keepdims)
    if ord == 0:
        return reducing.sum(convert(a != 0, sizes.type.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return reducing.sum(sizes, axes, keepdims=keepdims)
    wide = convert(sizes, reducing.accumulation_dtype(sizes.type.dtype))
    total = reducing.sum(wide**ord, axes, keepdims=keepdims)
    return convert(_root(total, ord) if ord > 0 else total ** (1.0 / ord), sizes.type.dtype)


def _matrix_norm(a: Array, ord: Order, axes: tuple[int, int], keepdims: bool) -> Array:
    if ord == "fro":
        return _root_of_square_sum(a, axes, keepdims)
    row, column = axes
    if ord in (1, -1, math.inf, -math.inf):
        summed, remaining_axis = (row, column) if ord in (1, -1) else (column, row)
        sums = reducing.sum(absolute(a), (summed,), keepdims=True)
        if ord in (1, math.inf):
            extreme_sums = reducing.max(sums, (remaining_axis,), keepdims=True, initial=0)
        else:
            extreme_sums = reducing.min(sums, (remaining_axis,), keepdims=True)
        return extreme_sums if keepdims else shaping.squeeze(extreme_sums, axes)
    if ord not in (2, -2, "nuc"):
        raise ShapeError(
            f"{name_user_call()}: ord of matrices must be 'fro', 'nuc', infinity, 1 or 2, or a negative of these, "
            f"got {ord!r}"
        )
    s = svdvals(shaping.moveaxis(a, axes, (-2, -1)))
    values = (
        reducing.sum(s, -1)
        if ord == "nuc"
        else reducing.max(s, -1, initial=0)
        if ord == 2
        else reducing.min(s, -1)
    )
    return shaping.expand_dims(values, sorted(axes)) if keepdims else values


@jit(static_argnames=("p",), inline=True)
def cond(x: Operand, p: Order | None = None) -> Array:
    """Returns the condition numbers of matrices: the norms of a matrix and of its inverse, multiplied.

    Args:
        x: `[*batch, m, n]`, square but for p None, 2 and -2.
        p: the norm as for `matrix_norm`; None for 2.

    Returns:
        An array `[*batch]`; infinite for singular matrices.

    Raises:
        ShapeError: x is not of matrices, or there is no such norm.

    >>> import numpy as np
    >>> float(cond(np.array([[2., 0.], [0., 8.]])))
    4.0
    """
    a = to_inexact(as_operand(x))
    if a.type.ndim < 2:
        raise ShapeError(f"cond: operand must have at least two axes, got {a.type!r}")
    if p is None or p in (2, -2):
        s = svdvals(a)
        most, least = reducing.max(s, -1), reducing.min(s, -1)
        condition_number = least / most if p == -2 else most / least
    else:
        condition_number = matrix_norm(a, ord=p) * matrix_norm(inv(a), ord=p)
    missing = reducing.any(a != a, (-2, -1))
    return arithmetic.where((condition_number != condition_number) & ~missing, math.inf, condition_number)
