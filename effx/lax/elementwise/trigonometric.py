"""Circular and hyperbolic functions and their inverses."""

from effx.array import Array, Operand
from effx.ir.ops import elementwise as e
from effx.lax.accuracy import Accuracy, perform_with_accuracy, typed_as_accurate_unary
from effx.lax.operands import perform_binary, perform_unary, typed_as_unary

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

SIN = e.Sin()
COS = e.Cos()
TAN = e.Tan()
ASIN = e.Asin()
ACOS = e.Acos()
ATAN = e.Atan()
SINH = e.Sinh()
COSH = e.Cosh()
TANH = e.Tanh()
ASINH = e.Asinh()
ACOSH = e.Acosh()
ATANH = e.Atanh()
ATAN2 = e.Atan2()


@typed_as_accurate_unary
def sin(x: Operand, *, accuracy: Accuracy = None) -> Array:
    """Returns the sine of x.

    Args:
        x: floating or complex, of any shape.
        accuracy: which the results must have: a `Tolerance`, or an `AccuracyMode`; None for the usual one.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_with_accuracy(SIN, x, accuracy)


@typed_as_accurate_unary
def cos(x: Operand, *, accuracy: Accuracy = None) -> Array:
    """Returns the cosine of x.

    Args:
        x: floating or complex, of any shape.
        accuracy: which the results must have: a `Tolerance`, or an `AccuracyMode`; None for the usual one.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return perform_with_accuracy(COS, x, accuracy)


@typed_as_accurate_unary
def tan(x: Operand, *, accuracy: Accuracy = None) -> Array:
    """Returns the tangent of x.

    Args:
        x: floating or complex, of any shape.
        accuracy: which the results must have: a `Tolerance`, or an `AccuracyMode`; None for the usual one.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_with_accuracy(TAN, x, accuracy)


@typed_as_unary
def asin(x: Operand) -> Array:
    """Returns the angle in [-pi/2, pi/2] whose sine is x; NaN for real x outside [-1, 1].

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> asin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_unary(ASIN, x)


@typed_as_unary
def acos(x: Operand) -> Array:
    """Returns the angle in [0, pi] whose cosine is x; NaN for real x outside [-1, 1].

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> acos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_unary(ACOS, x)


@typed_as_unary
def atan(x: Operand) -> Array:
    """Returns the angle in (-pi/2, pi/2) whose tangent is x.

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> atan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_unary(ATAN, x)


@typed_as_unary
def sinh(x: Operand) -> Array:
    """Returns the hyperbolic sine of x.

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_unary(SINH, x)


@typed_as_unary
def cosh(x: Operand) -> Array:
    """Returns the hyperbolic cosine of x.

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return perform_unary(COSH, x)


@typed_as_accurate_unary
def tanh(x: Operand, *, accuracy: Accuracy = None) -> Array:
    """Returns the hyperbolic tangent of x.

    Args:
        x: floating or complex, of any shape.
        accuracy: which the results must have: a `Tolerance`, or an `AccuracyMode`; None for the usual one.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_with_accuracy(TANH, x, accuracy)


@typed_as_unary
def asinh(x: Operand) -> Array:
    """Returns the number whose hyperbolic sine is x.

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> asinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_unary(ASINH, x)


@typed_as_unary
def acosh(x: Operand) -> Array:
    """Returns the number not below 0 whose hyperbolic cosine is x; NaN for real x below 1.

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> acosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_unary(ACOSH, x)


@typed_as_unary
def atanh(x: Operand) -> Array:
    """Returns the number whose hyperbolic tangent is x; NaN for real x outside [-1, 1].

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> atanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_unary(ATANH, x)


def atan2(x: Operand, y: Operand) -> Array:
    """Returns the angle of the point (y, x), in [-pi, pi].

    The first operand is the point's height: `atan2(x, y)` is the angle whose tangent is x / y.

    Args:
        x, y: floating, of one dtype; of one shape, or one a scalar. Axes of size 1 repeat.

    Returns:
        An array of the operands' dtype and shape.

    Raises:
        DTypeError: dtypes differ or are of another kind.
        ShapeError: shapes differ.

    >>> atan2(0.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return perform_binary(ATAN2, x, y)
