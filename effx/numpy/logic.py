"""Truth: comparisons, logical operations, predicates, and choosing by a condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic, reducing
from effx.array.declared import Declaration, bind_two
from effx.array.promotion import (
    as_operand,
    as_operand_or_list,
    broadcast_arrays,
    convert,
    promote,
    promote_dtypes,
    refuse_mixed_dtypes,
)
from effx.array.reducing import refuse_out
from effx.effects import perform
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.ir.ops import elementwise as e
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.values.scalars import scalar
from effx.numpy.binary import is_negative, perform_promoted, perform_promoted_ordered
from effx.numpy.indexing import nonzero
from effx.numpy.signatures import typed_as_predicate
from effx.numpy.ufuncs import make_ufunc

if TYPE_CHECKING:
    from effx.array import Number, Operand
    from effx.ir.ops.base import Elementwise
    from effx.ir.values.array import bool_
    from effx.ir.values.described import SupportsArray

    Comparing = Callable[[Operand, Operand], Array[bool_, *tuple[Any, ...]]]

__all__ = [
    "allclose", "array_equal", "array_equiv", "equal", "greater", "greater_equal", "isclose", "iscomplex",
    "iscomplexobj", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar",
    "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal", "select",
    "signbit", "where",
]  # fmt: skip

_COMPARING = {"x": "Operand", "y": "Operand", "return": "Array[bool_, *tuple[Any, ...]]"}
declare_equality = Declaration(
    cast("Callable[[Elementwise], Comparing]", bind_two(perform_promoted)), _COMPARING
)
declare_comparison = Declaration(
    cast("Callable[[Elementwise], Comparing]", bind_two(perform_promoted_ordered)), _COMPARING
)

equal = declare_equality(
    arithmetic.EQ, "Whether `x == y`, element by element.", "bool(equal(1, 1.0))", "True", name="equal"
)
not_equal = declare_equality(
    arithmetic.NE, "Whether `x != y`, element by element.", "bool(not_equal(1, 2))", "True", name="not_equal"
)
less = declare_comparison(
    arithmetic.LT, "Whether `x < y`, element by element.", "bool(less(1, 2))", "True", name="less"
)
less_equal = declare_comparison(
    arithmetic.LE,
    "Whether `x <= y`, element by element.",
    "bool(less_equal(1, 1))",
    "True",
    name="less_equal",
)
greater = declare_comparison(
    arithmetic.GT, "Whether `x > y`, element by element.", "bool(greater(1, 2))", "False", name="greater"
)
greater_equal = declare_comparison(
    arithmetic.GE,
    "Whether `x >= y`, element by element.",
    "bool(greater_equal(1, 1))",
    "True",
    name="greater_equal",
)


def to_bool(x: Operand) -> Array:
    """Returns the truth value of each element."""
    a = as_operand(x)
    return a if a.type.kind == "b" else perform(arithmetic.NE, (a, scalar(0, a.type.dtype)))


def _perform_logical(op: e.And | e.Or | e.Xor, x: Operand, y: Operand) -> Array:
    return perform(op, tuple(broadcast_arrays([to_bool(x), to_bool(y)])))


@make_ufunc(True, reducing.all)
def logical_and(x: Operand, y: Operand, /) -> Array[bool_, *tuple[Any, ...]]:
    """Whether both are true; numbers are true unless 0.

    >>> bool(logical_and(2, 0))
    False
    """
    return _perform_logical(arithmetic.AND, x, y)


@make_ufunc(False, reducing.any)
def logical_or(x: Operand, y: Operand, /) -> Array[bool_, *tuple[Any, ...]]:
    """Whether one is true; numbers are true unless 0.

    >>> bool(logical_or(2, 0))
    True
    """
    return _perform_logical(arithmetic.OR, x, y)


@make_ufunc(False)
def logical_xor(x: Operand, y: Operand, /) -> Array[bool_, *tuple[Any, ...]]:
    """Whether exactly one is true; numbers are true unless 0.

    >>> bool(logical_xor(2, 3))
    False
    """
    return _perform_logical(arithmetic.XOR, x, y)


@typed_as_predicate
def logical_not(x: Operand, /) -> Array:
    """Whether it is false; numbers are true unless 0.

    >>> bool(logical_not(0))
    True
    """
    return perform(arithmetic.NOT, (to_bool(x),))


def _broadcast_result(value: bool, a: Array) -> Array:
    return BroadcastInDim(a.type.shape, ())(scalar(value, dtypes.bool_, False))


_IS_FINITE = e.IsFinite()


@typed_as_predicate
def isfinite(x: Operand, /) -> Array:
    """Whether it is neither NaN nor infinite.

    >>> bool(isfinite(math.inf))
    False
    """
    a = as_operand(x)
    kind = a.type.kind
    if kind == "f":
        return perform(_IS_FINITE, (a,))
    if kind == "c":
        return isfinite(arithmetic.real(a)) & isfinite(arithmetic.imag(a))
    return _broadcast_result(True, a)


@typed_as_predicate
def isinf(x: Operand, /) -> Array:
    """Whether it is infinite; for complex numbers, whether one part is.

    >>> bool(isinf(-math.inf))
    True
    """
    a = as_operand(x)
    kind = a.type.kind
    if kind == "f" and dtypes.has_infinity(a.type.dtype):
        return perform(arithmetic.EQ, (perform(arithmetic.ABS, (a,)), scalar(math.inf, a.type.dtype)))
    if kind == "c":
        return isinf(arithmetic.real(a)) | isinf(arithmetic.imag(a))
    return _broadcast_result(False, a)


@typed_as_predicate
def isnan(x: Operand, /) -> Array:
    """Whether it is NaN.

    >>> bool(isnan(math.nan))
    True
    """
    a = as_operand(x)
    return perform(arithmetic.NE, (a, a))


def _is_signed_infinity(x: Operand, value: float) -> Array:
    a = as_operand(x)
    if a.type.kind == "c":
        raise DTypeError(f"{name_user_call()}: takes real numbers only, got {a.type!r}")
    if a.type.kind != "f" or not dtypes.has_infinity(a.type.dtype):
        return _broadcast_result(False, a)
    return perform(arithmetic.EQ, (a, scalar(value, a.type.dtype)))


@typed_as_predicate
def isposinf(x: Operand, /, out: None = None) -> Array:
    """Whether it is positive infinity.

    >>> bool(isposinf(math.inf))
    True
    """
    refuse_out(out)
    return _is_signed_infinity(x, math.inf)


@typed_as_predicate
def isneginf(x: Operand, /, out: None = None) -> Array:
    """Whether it is negative infinity.

    >>> bool(isneginf(math.inf))
    False
    """
    refuse_out(out)
    return _is_signed_infinity(x, -math.inf)


@typed_as_predicate
def signbit(x: Operand, /) -> Array:
    """Whether the sign bit is set: of -0.0 it is.

    >>> bool(signbit(-0.0))
    True
    """
    a = as_operand(x)
    if a.type.kind == "c":
        raise DTypeError(f"signbit: takes real numbers only, got {a.type!r}")
    return is_negative(a)


@typed_as_predicate
def isreal(x: Operand) -> Array:
    """Whether the imaginary part is 0, element by element.

    >>> bool(isreal(1 + 0j))
    True
    """
    a = as_operand(x)
    return arithmetic.imag(a) == 0 if a.type.kind == "c" else _broadcast_result(True, a)


@typed_as_predicate
def iscomplex(x: Operand) -> Array:
    """Whether the imaginary part is not 0, element by element.

    >>> bool(iscomplex(1 + 0j))
    False
    """
    return perform(arithmetic.NOT, (isreal(x),))


def iscomplexobj(x: object) -> bool:
    """Whether the dtype is complex, whatever the values.

    >>> iscomplexobj(1 + 0j)
    True
    """
    return dtypes.is_complex(dtypes.result_type(as_operand_or_list(x) if isinstance(x, list | tuple) else x))


def isrealobj(x: object) -> bool:
    """Whether the dtype is not complex.

    >>> isrealobj(1.0)
    True
    """
    return not iscomplexobj(x)


def isscalar(element: object) -> bool:
    """Whether it is a number or an array of rank 0.

    >>> isscalar(1.0), isscalar(np.ones(1))
    (True, False)
    """
    if hasattr(element, "__jax_array__") or hasattr(element, "__effx_array__"):
        element = as_operand(cast("SupportsArray", element))
    if isinstance(element, np.ndarray | Array):
        return element.ndim == 0
    return isinstance(element, bool | int | float | complex | np.generic)


def isclose(
    a: Operand, b: Operand, rtol: Operand = 1e-5, atol: Operand = 1e-8, equal_nan: bool = False
) -> Array:
    """Whether `|a - b| <= atol + rtol * |b|`, element by element; equal infinities are close, and equal random keys.

    >>> bool(isclose(1.0, 1.0 + 1e-6))
    True
    """
    x, y = promote(a, b)
    kind = x.type.kind
    if dtypes.is_key(x.type.dtype):
        return perform(arithmetic.EQ, (x, y))
    if kind not in "fc":
        # The distance of integers is measured in the default float.
        dtype = arithmetic.inexact_dtype(x.type.dtype)
        x, y = convert(x, dtype), convert(y, dtype)
    near = arithmetic.absolute(x - y) <= atol + rtol * arithmetic.absolute(y)
    result = (near & isfinite(x) & isfinite(y)) | (x == y)
    return result | (isnan(x) & isnan(y)) if equal_nan else result


def allclose(
    a: Operand, b: Operand, rtol: Operand = 1e-5, atol: Operand = 1e-8, equal_nan: bool = False
) -> Array:
    """Whether all elements are close, a boolean scalar.

    >>> bool(allclose(np.ones(3), 1.0))
    True
    """
    refuse_mixed_dtypes(a, b)
    return reducing.all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Operand, a2: Operand, equal_nan: bool = False) -> Array:
    """Whether shapes and all elements are equal, a boolean scalar.

    >>> bool(array_equal(np.ones(3), np.ones(4)))
    False
    """
    x, y = promote_dtypes(*[as_operand_or_list(a) for a in (a1, a2)])
    if x.type.shape != y.type.shape:
        return _broadcast_result(False, scalar(0, dtypes.int32))
    same = perform(arithmetic.EQ, (x, y))
    return reducing.all(same | (isnan(x) & isnan(y)) if equal_nan else same)


def array_equiv(a1: Operand, a2: Operand) -> Array:
    """Whether shapes broadcast and all elements are then equal, a boolean scalar.

    >>> bool(array_equiv(np.ones(3), 1))
    True
    """
    try:
        x, y = promote(*[as_operand_or_list(a) for a in (a1, a2)])
    except ShapeError:
        return _broadcast_result(False, scalar(0, dtypes.int32))
    return reducing.all(perform(arithmetic.EQ, (x, y)))


@overload
def where(condition: Operand, x: Operand, y: Operand, /) -> Array: ...
@overload
def where(
    condition: Operand,
    x: None = None,
    y: None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Number | None = None,
) -> tuple[Array, ...]: ...
def where(
    condition: Operand,
    x: Operand | None = None,
    y: Operand | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Number | None = None,
) -> Array | tuple[Array, ...]:
    """Takes x where the condition holds, else y; without x and y, gives the indices of true elements.

    Args:
        condition: `bool[*shape]`; numbers are true unless 0.
        x, y: both or neither; promoted and broadcast.
        size: for the form without x and y: how many indices to return, so that the shape is static.
        fill_value: pads the indices up to `size`.

    Raises:
        ConcretizationError: the form without x and y, without `size`, of an abstract condition.

    >>> where(np.array([True, False]), 1, 0).tolist()
    [1, 0]
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ShapeError("where: takes both x and y, or neither")
    if size is not None or fill_value is not None:
        raise ShapeError("where: size and fill_value go with the form without x and y")
    return arithmetic.where(condition, x, y)


def select(condlist: Sequence[Operand], choicelist: Sequence[Operand], default: Operand = 0) -> Array:
    """Takes from the first choice whose condition holds, else the default.

    Args:
        condlist: conditions, tried in order.
        choicelist: as many choices.
        default: where no condition holds.

    >>> select([np.array([True, False])], [np.array([1, 2])], 7).tolist()
    [1, 7]
    """
    if len(condlist) != len(choicelist):
        raise ShapeError(
            f"select: {len(condlist)} conditions and {len(choicelist)} choices; expected as many"
        )
    if not condlist:
        raise ShapeError("select: needs at least one condition")
    *choices, result = promote_dtypes(*choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = arithmetic.where(condition, choice, result)
    return result
