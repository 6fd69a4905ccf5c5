"""Conversions of dtypes, and identities with a meaning for some handlers."""

from collections.abc import Sequence
from operator import index
from typing import TypeVar, cast

from effx import dtypes, tree
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, convert
from effx.array.shaping import size_vector
from effx.dtypes import DType, DTypeLike
from effx.effects import perform
from effx.errors import DTypeError
from effx.ir.ops import convert as v
from effx.ir.sizes.dimensions import is_symbolic
from effx.lax.operands import check_int

__all__ = [
    "bitcast_convert_type", "convert_element_type", "dtype", "optimization_barrier", "reduce_precision",
    "shape_as_value", "stage", "stop_gradient",
]  # fmt: skip

T = TypeVar("T")
STOP_GRADIENT, OPTIMIZATION_BARRIER, COPY = v.StopGradient(), v.OptimizationBarrier(), v.Copy()


def convert_element_type(operand: Operand, new_dtype: DTypeLike) -> Array:
    """Converts elements to another dtype.

    Floats become integers by truncation toward zero; complex numbers lose their imaginary part when
    they become real; anything but 0 becomes True.

    Args:
        operand: of any dtype and shape.
        new_dtype: the result's dtype; 64 bits become 32 without `enable_x64`.

    Returns:
        An array of the operand's shape, never weakly typed.

    Raises:
        DTypeError: `new_dtype` is no dtype.

    >>> convert_element_type(-1.7, int)
    Array(-1, dtype=int32)
    """
    target = dtypes.canonicalize_requested(new_dtype)
    if type(operand) is int and dtypes.is_inexact(target):
        operand = float(operand)  # it may be larger than any integer dtype's
    x = as_operand(operand)
    if x.type.kind == "c" and not dtypes.is_complex(target) and target != dtypes.bool_:
        x = arithmetic.real(x)
    return convert(x, target)


def bitcast_convert_type(operand: Operand, new_dtype: DTypeLike) -> Array:
    """Reads the bits of elements as another dtype.

    Args:
        operand: `[*s]` of any dtype; `[*s, ratio]` where the new dtype is wider by `ratio`.
        new_dtype: the result's dtype.

    Returns:
        An array `[*s]`; `[*s, ratio]` where the new dtype is narrower by `ratio`.

    Raises:
        DTypeError: the widths do not fit, or one dtype is bool or complex and the other is not.

    >>> bitcast_convert_type(1.0, "int32")
    Array(1065353216, dtype=int32)
    """
    x = as_operand(operand)
    target = dtypes.canonicalize_requested(new_dtype)
    return x if x.type.dtype == target and not x.type.weak else v.Bitcast(target)(x)


def reduce_precision(operand: Operand, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds to a floating format of fewer bits, without changing the dtype.

    Args:
        operand: floating, of any shape.
        exponent_bits: at least 1.
        mantissa_bits: at least 0.

    Returns:
        An array of the operand's dtype and shape.

    Raises:
        DTypeError: the operand is not floating, or a number of bits is too small.

    >>> reduce_precision(1.01, 5, 2)
    Array(1., dtype=float32, weak_type=True)
    """
    x = as_operand(operand)
    return v.ReducePrecision(
        check_int("exponent_bits", exponent_bits),
        check_int("mantissa_bits", mantissa_bits),
    )(x)


def stop_gradient(x: T) -> T:
    """Returns x as a constant to differentiation.

    Args:
        x: a tree of arrays. Leaves that are not floating or complex are unchanged.

    Returns:
        A tree like x.

    Raises:
        DTypeError: a leaf is neither an array nor a number.

    >>> import effx
    >>> effx.grad(lambda x: x * stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    def stop(leaf: object) -> object:
        if isinstance(leaf, Array):
            return perform(STOP_GRADIENT, (leaf,)) if leaf.type.kind in "fc" else leaf
        as_operand(cast("Operand", leaf))  # refuses what is no number
        return leaf  # numbers and NumPy data are constants

    return cast("T", tree.map(stop, x))


def optimization_barrier(operand: T, /) -> T:
    """Returns the operand behind a barrier: XLA moves no computation across, and no leaf is ready before all
    are.

    Args:
        operand: a tree of arrays.

    Returns:
        A tree like the operand.

    Raises:
        DTypeError: a leaf is no array.

    >>> optimization_barrier((1.0, 2))
    (Array(1., dtype=float32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    leaves, structure = tree.flatten(operand)
    if not leaves:
        return operand
    arrays = [as_operand(x) for x in leaves]
    return cast("T", structure.unflatten(perform(OPTIMIZATION_BARRIER, tuple(arrays))))


def dtype(x: object) -> DType:
    """Returns the dtype that a value has, or that a dtype's name or a scalar type means, as an array's.

    Args:
        x: an array, number, dtype, name of one, or scalar type.

    Raises:
        DTypeError: it has no dtype.

    >>> dtype(1.0), dtype("int8"), dtype(bool)
    (dtype('float32'), dtype('int8'), dtype('bool'))
    """
    try:
        return dtypes.weak_dtype(x)[0]
    except (DTypeError, TypeError):
        raise DTypeError(
            f"dtype: expected an array, number, dtype or scalar type, got {x!r} of type {type(x).__name__}"
        ) from None


def shape_as_value(shape: Sequence[int]) -> Array:
    """Returns a shape as an array `i32[n]`; its sizes may be symbolic.

    Raises:
        TypeError: a size is no integer.

    >>> shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    return size_vector([n if is_symbolic(n) else index(n) for n in shape], dtypes.int32)


def stage(x: Operand, /) -> Array:
    """Returns a value as an array of the trace around: no constant, but the result of an operation. Outside of
    traces, an array on the default device.

    Args:
        x: of any dtype and shape.

    Raises:
        DTypeError: x is no array or number.

    >>> stage(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return COPY(as_operand(x))
