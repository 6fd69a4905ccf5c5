"""Declarations of elementwise functions of lax, each in a statement."""

from collections.abc import Callable
from typing import cast

from effx.array import Array, Operand
from effx.array.declared import Declaration, bind_x, bind_x_and_y
from effx.handling import Unary
from effx.ir.ops.base import Elementwise
from effx.lax.accuracy import Accuracy, AccurateFunction, perform_with_accuracy
from effx.lax.operands import UnaryFunction, perform_binary, perform_unary


def _show_number(value: str) -> str:
    """Returns how an array shows itself that a function made of Python numbers: `3` is an int32, `3.` a float32."""
    if value in ("False", "True"):
        return f"Array({value}, dtype=bool)"
    dtype = "int32" if value.lstrip("-").isdecimal() else "float32"
    return f"Array({value}, dtype={dtype}, weak_type=True)"


def _write_sections(operands: str, result: str, errors: str) -> str:
    return f"Args:\n    {operands}\n\nReturns:\n    {result}\n\nRaises:\n    {errors}"


_ONE = "x: {kinds}, of any shape."
_ACCURACY = (
    "accuracy: which the results must have: a `Tolerance`, or an `AccuracyMode`; None for the usual one."
)
_TWO = "x, y: {kinds}, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat."
_KEEPS_TYPE = "An array of x's dtype and shape.", "DTypeError: x has another dtype."
_DIFFERENT = "DTypeError: dtypes differ or are of another kind.\n    ShapeError: shapes differ."


def _bind_accurate(
    perform: Callable[[Unary, Operand, Accuracy], Array],
) -> Callable[[Unary], Callable[..., Array]]:
    return lambda operation: lambda x, *, accuracy=None: perform(operation, x, accuracy)


# Functions of one operand that keep its dtype and shape.
declare_unary = Declaration(
    cast("Callable[[Elementwise], UnaryFunction]", bind_x(perform_unary)),
    {"x": Operand, "return": Array},
    _write_sections(_ONE, *_KEEPS_TYPE),
    _show_number,
)

# The same, with an optional accuracy.
declare_accurate_unary = Declaration(
    cast("Callable[[Unary], AccurateFunction]", _bind_accurate(perform_with_accuracy)),
    {"x": Operand, "accuracy": Accuracy, "return": Array},
    _write_sections(f"{_ONE}\n    {_ACCURACY}", *_KEEPS_TYPE),
    _show_number,
)

_TYPES_OF_TWO = {"x": Operand, "y": Operand, "return": Array}

# Functions of two operands of one dtype that keep it.
declare_binary = Declaration(
    bind_x_and_y(perform_binary),
    _TYPES_OF_TWO,
    _write_sections(_TWO, "An array of the operands' dtype and shape.", _DIFFERENT),
    _show_number,
)

declare_comparison = Declaration(
    bind_x_and_y(perform_binary),
    _TYPES_OF_TWO,
    _write_sections(_TWO, "A boolean array of the common shape.", _DIFFERENT),
    _show_number,
)
