"""Declarations of elementwise functions of lax, each in a statement."""

from collections.abc import Callable
from typing import cast

from effx.array import Array, Operand
from effx.array.declared import Declaration, bind_one, bind_two
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


_UNARY = """Args:
    x: {kinds}, of any shape.

Returns:
    An array of x's dtype and shape.

Raises:
    DTypeError: x has another dtype."""

_ACCURATE_UNARY = _UNARY.replace(
    "\n\nReturns:",
    """
    accuracy: which the results must have: a `Tolerance`, or an `AccuracyMode`; None for the usual one.

Returns:""",
)

_BINARY = """Args:
    x, y: {kinds}, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

Returns:
    An array of the operands' dtype and shape.

Raises:
    DTypeError: dtypes differ or are of another kind.
    ShapeError: shapes differ."""


def _bind_accurate(
    perform: Callable[[Unary, Operand, Accuracy], Array],
) -> Callable[[Unary], Callable[..., Array]]:
    return lambda operation: lambda x, *, accuracy=None: perform(operation, x, accuracy)


# Functions of one operand that keep its dtype and shape.
declare_unary = Declaration(
    cast("Callable[[Elementwise], UnaryFunction]", bind_one(perform_unary)),
    {"x": Operand, "return": Array},
    _UNARY,
    _show_number,
)

# The same, with an optional accuracy.
declare_accurate_unary = Declaration(
    cast("Callable[[Unary], AccurateFunction]", _bind_accurate(perform_with_accuracy)),
    {"x": Operand, "accuracy": Accuracy, "return": Array},
    _ACCURATE_UNARY,
    _show_number,
)

# Functions of two operands of one dtype that keep it.
declare_binary = Declaration(
    bind_two(perform_binary), {"x": Operand, "y": Operand, "return": Array}, _BINARY, _show_number
)

declare_comparison = Declaration(
    bind_two(perform_binary),
    {"x": Operand, "y": Operand, "return": Array},
    _BINARY.replace("An array of the operands' dtype and shape.", "A boolean array of the common shape."),
    _show_number,
)
