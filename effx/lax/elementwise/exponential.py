"""Exponentials, logarithms, roots and powers."""

import math

from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, convert
from effx.effects import perform
from effx.ir.ops import elementwise as e
from effx.lax.accuracy import Accuracy, perform_with_accuracy, typed_as_accurate_unary
from effx.lax.declared import declare_accurate_unary
from effx.lax.operands import check_int, perform_binary, perform_unary, typed_as_unary

__all__ = [
    "cbrt", "exp", "exp2", "expm1", "integer_pow", "log", "log1p", "log2", "logistic", "pow", "reciprocal", "rsqrt",
    "sqrt",
]  # fmt: skip

EXP = e.Exp()
EXP2 = e.Exp2()
EXPM1 = e.Expm1()
LOG = e.Log()
LOG1P = e.Log1p()
SQRT = e.Sqrt()
RSQRT = e.Rsqrt()
CBRT = e.Cbrt()
LOGISTIC = e.Logistic()

exp = declare_accurate_unary(EXP, "Returns e to the power x.", "exp(0.0)", "1.")


@typed_as_accurate_unary
def exp2(x: Operand, *, accuracy: Accuracy = None) -> Array:
    """Returns 2 to the power x.

    Args:
        x: floating or complex, of any shape.
        accuracy: of the exponential by which it is computed: a `Tolerance`, or an `AccuracyMode`; None for the usual
            power.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """
    return perform_with_accuracy(EXP2, x, accuracy)


expm1 = declare_accurate_unary(EXPM1, "Returns exp(x) - 1, exact for x near 0.", "expm1(0.0)", "0.")
log = declare_accurate_unary(
    LOG, "Returns the natural logarithm; -inf at 0, NaN for negative real x.", "log(1.0)", "0."
)
log1p = declare_accurate_unary(LOG1P, "Returns log(1 + x), exact for x near 0.", "log1p(0.0)", "0.")
sqrt = declare_accurate_unary(SQRT, "Returns the square root; NaN for negative real x.", "sqrt(4.0)", "2.")
rsqrt = declare_accurate_unary(RSQRT, "Returns 1 / sqrt(x).", "rsqrt(4.0)", "0.5")
cbrt = declare_accurate_unary(CBRT, "Returns the real cube root.", "cbrt(8.0)", "2.")
logistic = declare_accurate_unary(
    LOGISTIC, "Returns 1 / (1 + exp(-x)), without overflow.", "logistic(0.0)", "0.5"
)


def integer_pow(x: Operand, y: int) -> Array:
    """Returns the power of x to a constant integer, by repeated multiplication.

    Args:
        x: integer, floating or complex, of any shape.
        y: the power; not negative for integer x.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x is boolean, or an integer array with a negative power.

    >>> integer_pow(3.0, 4)
    Array(81., dtype=float32, weak_type=True)
    """
    return perform_unary(e.IntegerPow(check_int("y", y)), x)


def pow(x: Operand, y: Operand) -> Array:
    """Returns x to the power y.

    A Python int as y is a constant power (see `integer_pow`), exact, and differentiable at x = 0.

    Args:
        x: floating or complex.
        y: of x's dtype, or of any integer dtype; of x's shape, or one of both a scalar.

    Returns:
        An array of x's dtype and the common shape.

    Raises:
        DTypeError: x is boolean or an integer array, or y's dtype does not fit.
        ShapeError: shapes differ.

    >>> pow(2.0, 3), pow(4.0, 0.5)
    (Array(8., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    base = as_operand(x)
    if base.type.kind in "fc":
        if type(y) is int:
            return integer_pow(base, y)
        if not isinstance(y, float | complex):
            exponent = as_operand(y)
            y = convert(exponent, base.type.dtype) if exponent.type.kind in "iu" else exponent
    return perform_binary(arithmetic.POW, x if type(x) is not int else base, y)


@typed_as_accurate_unary
def log2(x: Operand, *, accuracy: Accuracy = None) -> Array:
    """Returns the logarithm of x to base 2.

    Args:
        x: floating or complex, of any shape.
        accuracy: of the natural logarithm by which it is computed: a `Tolerance`, or an `AccuracyMode`.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> log2(8.0)
    Array(3., dtype=float32, weak_type=True)
    """
    y = perform_with_accuracy(LOG, x, accuracy)
    if y.type.kind != "c":
        return y * (1 / math.log(2))
    # A complex product would have infinity times 0.
    return perform(
        e.Complex(), tuple([perform(part, (y,)) * (1 / math.log(2)) for part in (e.Real(), e.Imag())])
    )


@typed_as_unary
def reciprocal(x: Operand) -> Array:
    """Returns 1 / x.

    Args:
        x: floating or complex, of any shape.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.

    >>> reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return integer_pow(x, -1)
