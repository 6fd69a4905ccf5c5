"""The operators of `Array`: promotion on the fast path, and NotImplemented for foreign operands."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from effx.array import ordering, promotion
from effx.effects import perform
from effx.ir.ops.base import Elementwise
from effx.ir.types import array_type
from effx.ir.values.array import Array, Operand
from effx.ir.values.boxes import HostArray

R = TypeVar("R")

# Returned for foreign operands; Python then tries the other operand's method.
_NOT_IMPLEMENTED: Any = NotImplemented


def perform_binary(op: Elementwise, x: Operand, y: Operand) -> Array:
    """Performs a two-operand elementwise operation after promotion; NotImplemented for foreign operands."""
    if isinstance(x, Array):
        t = x.type
        if isinstance(y, Array):
            if t is y.type:
                return perform(op, (x, y))
        else:
            if (type(y) is float or type(y) is int) and t.kind in "fc":
                return perform(op, (x, HostArray(y, array_type(t.dtype, (), True))))
            if not _is_operand(y):
                return cast("Array", _NOT_IMPLEMENTED)
    elif isinstance(y, Array):
        if (type(x) is float or type(x) is int) and y.type.kind in "fc":
            return perform(op, (HostArray(x, array_type(y.type.dtype, (), True)), y))
        if not _is_operand(x):
            return cast("Array", _NOT_IMPLEMENTED)
    return perform(op, tuple(promotion.promote(x, y)))


def perform_ordered(op: Elementwise, x: Operand, y: Operand) -> Array:
    """Performs a comparison, `Max` or `Min` as `perform_binary` does, and on complex numbers in NumPy's order."""
    if not (is_complex(x) or is_complex(y)):
        return perform_binary(op, x, y)
    if not (_is_operand(x) and _is_operand(y)):
        return cast("Array", _NOT_IMPLEMENTED)
    return ordering.compare_by_parts(op, *promotion.promote(x, y))


def is_complex(x: Operand) -> bool:
    """Returns whether an operand is complex."""
    if isinstance(x, Array):
        return x.type.kind == "c"
    return type(x) is complex or getattr(getattr(x, "dtype", None), "kind", "") == "c"


def call_operator(function: Callable[[Operand, Operand], R], x: Operand, y: Operand) -> R:
    """Calls a two-operand function; NotImplemented for foreign operands."""
    if not (_is_operand(x) and _is_operand(y)):
        return cast("R", _NOT_IMPLEMENTED)
    return function(x, y)


_OPERANDS = (Array, int, float, complex, np.ndarray, np.generic)


def _is_operand(x: object) -> bool:
    # As Python looks for special methods, so that what hands on all attributes of an array has operators of its own.
    return (
        isinstance(x, _OPERANDS)
        or hasattr(type(x), "__array__")
        or hasattr(x, "__jax_array__")
        or hasattr(x, "__effx_array__")
    )
