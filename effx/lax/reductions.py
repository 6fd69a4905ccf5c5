"""Reductions and cumulative reductions along axes."""

from collections.abc import Sequence

from effx import dtypes
from effx.array import Array, Operand, ordering
from effx.array.promotion import as_operand
from effx.dtypes import DTypeLike
from effx.ir.ops import reduce as r
from effx.lax.operands import check_int, int_tuple
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "argmax", "argmin", "cummax", "cummin", "cumprod", "cumsum", "reduce_and",
    "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor",
]  # fmt: skip

Axes = Sequence[int]


def _check_axes(axes: Axes) -> tuple[int, ...]:
    return tuple(sorted(int_tuple("axes", axes)))


def reduce_sum(operand: Operand, axes: Axes, *, out_sharding: OutSharding = None) -> Array:
    """Returns the sum along some axes.

    Args:
        operand: integer, floating or complex.
        axes: distinct axes; all of them for a scalar.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of the operand's dtype without the axes; for no elements 0.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: an axis is out of range or repeats.

    >>> import numpy as np
    >>> reduce_sum(np.array([1., 2.], np.float32), (0,))
    Array(3., dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, reduce_sum, operand, axes)
    return r.ReduceSum(_check_axes(axes))(as_operand(operand))


def reduce_prod(operand: Operand, axes: Axes) -> Array:
    """Returns the product along some axes.

    Args:
        operand: integer, floating or complex.
        axes: distinct axes; all of them for a scalar.

    Returns:
        An array of the operand's dtype without the axes; for no elements 1.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: an axis is out of range or repeats.

    >>> import numpy as np
    >>> reduce_prod(np.array([1., 2.], np.float32), (0,))
    Array(2., dtype=float32)
    """
    return r.ReduceProd(_check_axes(axes))(as_operand(operand))


def reduce_max(operand: Operand, axes: Axes, *, out_sharding: OutSharding = None) -> Array:
    """Returns the largest element, NaN if there is one, along some axes.

    Args:
        operand: of any dtype, complex numbers by real and then by imaginary part.
        axes: distinct axes; all of them for a scalar.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of the operand's dtype without the axes; for no elements the dtype's smallest value.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: an axis is out of range or repeats.

    >>> import numpy as np
    >>> reduce_max(np.array([1., 2.], np.float32), (0,))
    Array(2., dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, reduce_max, operand, axes)
    x, op = as_operand(operand), r.ReduceMax(_check_axes(axes))
    return ordering.reduce_extreme(op, x) if x.type.kind == "c" else op(x)


def reduce_min(operand: Operand, axes: Axes, *, out_sharding: OutSharding = None) -> Array:
    """Returns the smallest element, NaN if there is one, along some axes.

    Args:
        operand: of any dtype, complex numbers by real and then by imaginary part.
        axes: distinct axes; all of them for a scalar.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of the operand's dtype without the axes; for no elements the dtype's largest value.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: an axis is out of range or repeats.

    >>> import numpy as np
    >>> reduce_min(np.array([1., 2.], np.float32), (0,))
    Array(1., dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, reduce_min, operand, axes)
    x, op = as_operand(operand), r.ReduceMin(_check_axes(axes))
    return ordering.reduce_extreme(op, x) if x.type.kind == "c" else op(x)


def reduce_and(operand: Operand, axes: Axes) -> Array:
    """Returns logical or bitwise and along some axes.

    Args:
        operand: boolean or integer.
        axes: distinct axes; all of them for a scalar.

    Returns:
        An array of the operand's dtype without the axes; for no elements True, or all bits 1.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: an axis is out of range or repeats.

    >>> import numpy as np
    >>> reduce_and(np.array([True, False]), (0,))
    Array(False, dtype=bool)
    """
    return r.ReduceAnd(_check_axes(axes))(as_operand(operand))


def reduce_or(operand: Operand, axes: Axes) -> Array:
    """Returns logical or bitwise or along some axes.

    Args:
        operand: boolean or integer.
        axes: distinct axes; all of them for a scalar.

    Returns:
        An array of the operand's dtype without the axes; for no elements False, or 0.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: an axis is out of range or repeats.

    >>> import numpy as np
    >>> reduce_or(np.array([True, False]), (0,))
    Array(True, dtype=bool)
    """
    return r.ReduceOr(_check_axes(axes))(as_operand(operand))


def reduce_xor(operand: Operand, axes: Axes) -> Array:
    """Returns logical or bitwise exclusive or along some axes.

    Args:
        operand: boolean or integer.
        axes: distinct axes; all of them for a scalar.

    Returns:
        An array of the operand's dtype without the axes; for no elements False, or 0.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: an axis is out of range or repeats.

    >>> import numpy as np
    >>> reduce_xor(np.array([True, False]), (0,))
    Array(True, dtype=bool)
    """
    return r.ReduceXor(_check_axes(axes))(as_operand(operand))


def _arg_reduction(
    op: type[r.ArgMax] | type[r.ArgMin], operand: Operand, axis: int, index_dtype: DTypeLike
) -> Array:
    return op(check_int("axis", axis), dtypes.canonicalize(index_dtype))(as_operand(operand))


def argmax(operand: Operand, axis: int, index_dtype: DTypeLike) -> Array:
    """Returns the index of the largest element along an axis: the first of equal ones, or of NaN.

    Args:
        operand: boolean, integer or floating.
        axis: of at least one element.
        index_dtype: the result's integer dtype.

    Returns:
        An array without the axis.

    Raises:
        DTypeError: the operand is complex, or `index_dtype` is no integer dtype.
        ShapeError: the axis is out of range or has no elements.

    >>> import numpy as np
    >>> argmax(np.array([1., 3., 3.]), 0, int)
    Array(1, dtype=int32)
    """
    return _arg_reduction(r.ArgMax, operand, axis, index_dtype)


def argmin(operand: Operand, axis: int, index_dtype: DTypeLike) -> Array:
    """Returns the index of the smallest element along an axis: the first of equal ones, or of NaN.

    Args:
        operand: boolean, integer or floating.
        axis: of at least one element.
        index_dtype: the result's integer dtype.

    Returns:
        An array without the axis.

    Raises:
        DTypeError: the operand is complex, or `index_dtype` is no integer dtype.
        ShapeError: the axis is out of range or has no elements.

    >>> import numpy as np
    >>> argmin(np.array([3., 1., 1.]), 0, int)
    Array(1, dtype=int32)
    """
    return _arg_reduction(r.ArgMin, operand, axis, index_dtype)


def cumsum(operand: Operand, axis: int = 0, reverse: bool = False) -> Array:
    """Returns cumulative sums along an axis: element i combines all up to and including i.

    Args:
        operand: integer, floating or complex.
        axis: the axis to combine along.
        reverse: whether to start at the end.

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: the axis is out of range.

    >>> import numpy as np
    >>> cumsum(np.array([2, 3, 1], np.int32))
    Array([2, 5, 6], dtype=int32)
    """
    return r.CumSum(check_int("axis", axis), bool(reverse))(as_operand(operand))


def cumprod(operand: Operand, axis: int = 0, reverse: bool = False) -> Array:
    """Returns cumulative products along an axis: element i combines all up to and including i.

    Args:
        operand: integer, floating or complex.
        axis: the axis to combine along.
        reverse: whether to start at the end.

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: the axis is out of range.

    >>> import numpy as np
    >>> cumprod(np.array([2, 3, 1], np.int32))
    Array([2, 6, 6], dtype=int32)
    """
    return r.CumProd(check_int("axis", axis), bool(reverse))(as_operand(operand))


def cummax(operand: Operand, axis: int = 0, reverse: bool = False) -> Array:
    """Returns cumulative maxima along an axis: element i combines all up to and including i.

    Args:
        operand: of any dtype, complex numbers by real and then by imaginary part.
        axis: the axis to combine along.
        reverse: whether to start at the end.

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: the axis is out of range.

    >>> import numpy as np
    >>> cummax(np.array([2, 3, 1], np.int32))
    Array([2, 3, 3], dtype=int32)
    """
    x, op = as_operand(operand), r.CumMax(check_int("axis", axis), bool(reverse))
    return ordering.cumulative_extreme(op, x) if x.type.kind == "c" else op(x)


def cummin(operand: Operand, axis: int = 0, reverse: bool = False) -> Array:
    """Returns cumulative minima along an axis: element i combines all up to and including i.

    Args:
        operand: of any dtype, complex numbers by real and then by imaginary part.
        axis: the axis to combine along.
        reverse: whether to start at the end.

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: the operand has another dtype.
        ShapeError: the axis is out of range.

    >>> import numpy as np
    >>> cummin(np.array([2, 3, 1], np.int32))
    Array([2, 2, 1], dtype=int32)
    """
    x, op = as_operand(operand), r.CumMin(check_int("axis", axis), bool(reverse))
    return ordering.cumulative_extreme(op, x) if x.type.kind == "c" else op(x)
