"""The accuracy of elementwise functions: `AccuracyMode` and `Tolerance`."""

import enum
from collections.abc import Callable
from operator import index
from typing import Protocol, TypeVar, cast, final, overload

import attrs

from effx.array import Array, Operand
from effx.errors import BackendError, DTypeError
from effx.families.accuracy import FUNCTIONS, Accurate
from effx.handling import Unary
from effx.ir.values.array import Numeric
from effx.lax.operands import perform_unary

__all__ = ["AccuracyMode", "Tolerance"]

A = TypeVar("A", bound=Array)


class AccuracyMode(enum.Enum):
    """The accuracy of a function's results, where no tolerance is set.

    >>> import effx.lax as lax
    >>> print(lax.exp(0.0, accuracy=lax.AccuracyMode.DEFAULT))
    1.0
    """

    HIGHEST = 1
    """As accurate as the compiler can."""
    DEFAULT = 2
    """As is usual."""


def _number(value: float) -> float:
    result = float(value)
    if not result >= 0:
        raise DTypeError(f"Tolerance: tolerances must not be negative, got {value!r}")
    return result


def _count(value: int) -> int:
    result = index(value)
    if result < 0:
        raise DTypeError(f"Tolerance: tolerances must not be negative, got {value!r}")
    return result


@final
@attrs.frozen
class Tolerance:
    """The error that is allowed in a function's results; a compiler may refuse what it cannot reach.

    Attributes:
        atol: the absolute error.
        rtol: the relative error.
        ulps: the error in units in the last place.

    Raises:
        DTypeError: all are 0, or one is negative.

    >>> Tolerance(rtol=1e-3)
    Tolerance(atol=0.0, rtol=0.001, ulps=0)
    """

    atol: float = attrs.field(default=0.0, converter=_number)
    rtol: float = attrs.field(default=0.0, converter=_number)
    ulps: int = attrs.field(default=0, converter=_count)

    def __attrs_post_init__(self) -> None:
        if not (self.atol or self.rtol or self.ulps):
            raise DTypeError("Tolerance: one of atol, rtol and ulps must be above 0")


Accuracy = Tolerance | AccuracyMode | None


class AccurateFunction(Protocol):
    """A function of one operand that keeps dtype and shape, with an optional accuracy."""

    @overload
    def __call__(self, x: A | Numeric, /, *, accuracy: Accuracy = None) -> A: ...
    @overload
    def __call__(self, x: Operand, *, accuracy: Accuracy = None) -> Array: ...


def typed_as_accurate_unary(function: Callable[..., Array]) -> AccurateFunction:
    """Says to type checkers that a function of one operand keeps its dtype and shape."""
    return cast("AccurateFunction", function)


def perform_with_accuracy(op: Unary, x: Operand, accuracy: Accuracy) -> Array:
    """Performs an operation, with an accuracy if one is requested.

    Raises:
        DTypeError: the accuracy is of another class.
        BackendError: StableHLO has no accuracy for the operation.
    """
    if accuracy is None or accuracy is AccuracyMode.DEFAULT:
        return perform_unary(op, x)
    if not isinstance(accuracy, Tolerance | AccuracyMode):
        raise DTypeError(
            f"{op.name}: accuracy must be a Tolerance, an AccuracyMode or None, got {accuracy!r} "
            f"of type {type(accuracy).__name__}"
        )
    if op.name not in FUNCTIONS:
        raise BackendError(f"{op.name}: StableHLO has no accuracy for it but AccuracyMode.DEFAULT")
    if isinstance(accuracy, AccuracyMode):
        accurate_op = Accurate(op.name, highest=True)
    else:
        accurate_op = Accurate(op.name, accuracy.atol, accuracy.rtol, accuracy.ulps)
    return perform_unary(accurate_op, x)
