"""Error functions and Bessel functions."""

from effx.array import Array, Operand
from effx.families.bessel import BesselI0e, BesselI1e
from effx.families.special import Erf, Erfc, ErfInv
from effx.lax.accuracy import Accuracy, perform_with_accuracy, typed_as_accurate_unary
from effx.lax.declared import declare_unary

__all__ = ["bessel_i0e", "bessel_i1e", "erf", "erf_inv", "erfc"]

ERF, ERFC, ERF_INV, I0E, I1E = Erf(), Erfc(), ErfInv(), BesselI0e(), BesselI1e()

erf = declare_unary(
    ERF, "Returns the error function 2 / sqrt(pi) * integral of exp(-t^2) from 0 to x.", "erf(0.0)", "0."
)


@typed_as_accurate_unary
def erfc(x: Operand, *, accuracy: Accuracy = None) -> Array:
    """Returns 1 - erf(x), exact for large x.

    Args:
        x: floating, of any shape.
        accuracy: None or `AccuracyMode.DEFAULT`; there is one form only.

    Returns:
        An array of x's dtype and shape.

    Raises:
        DTypeError: x has another dtype.
        BackendError: another accuracy is requested.

    >>> erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return perform_with_accuracy(ERFC, x, accuracy)


erf_inv = declare_unary(
    ERF_INV,
    "Returns the number whose error function is x; infinite at -1 and 1, NaN outside.",
    "erf_inv(0.0)",
    "0.",
    details='Source: Giles, "Approximating the erfinv function", GPU Computing Gems, 2011.',
)
bessel_i0e = declare_unary(
    I0E, "Returns exp(-abs(x)) times the modified Bessel function I0(x).", "bessel_i0e(0.0)", "1."
)
bessel_i1e = declare_unary(
    I1E, "Returns exp(-abs(x)) times the modified Bessel function I1(x).", "bessel_i1e(0.0)", "0."
)
