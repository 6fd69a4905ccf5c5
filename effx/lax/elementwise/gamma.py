"""Functions of the gamma and beta families."""

from effx.array import Array, Operand
from effx.effects import perform
from effx.families.gamma import Digamma, Lgamma, Polygamma, Zeta
from effx.families.incomplete import Betainc, Igamma, Igammac, IgammaGradA, RandomGammaGrad
from effx.lax.declared import declare_unary
from effx.lax.operands import fit_operands, perform_binary

__all__ = [
    "betainc", "digamma", "igamma", "igamma_grad_a", "igammac", "lgamma", "polygamma", "random_gamma_grad", "zeta",
]  # fmt: skip

LGAMMA, DIGAMMA, POLYGAMMA, ZETA, BETAINC = Lgamma(), Digamma(), Polygamma(), Zeta(), Betainc()
IGAMMA, IGAMMAC, IGAMMA_GRAD_A, RANDOM_GAMMA_GRAD = Igamma(), Igammac(), IgammaGradA(), RandomGammaGrad()

lgamma = declare_unary(
    LGAMMA,
    "Returns the logarithm of abs(gamma(x)); infinite at 0 and at negative integers.",
    "lgamma(3.0).round(4)",
    "0.6931",
)
digamma = declare_unary(
    DIGAMMA,
    "Returns the slope of lgamma; -infinity at 0 and NaN at negative integers.",
    "digamma(1.0).round(4)",
    "-0.5772",
)


def polygamma(m: Operand, x: Operand) -> Array:
    """Returns the m-th slope of digamma at x, for whole m >= 0. It has a derivative in x only.

    Args:
        m, x: floating, of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no floating ones.
        ShapeError: the shapes do not fit.

    >>> polygamma(1.0, 1.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    return perform_binary(POLYGAMMA, m, x)


def zeta(x: Operand, q: Operand) -> Array:
    """Returns the Hurwitz zeta function, the sum of (q + k)^-x over all k from 0, for x > 1.

    Args:
        x, q: floating, of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no floating ones.
        ShapeError: the shapes do not fit.

    >>> zeta(2.0, 1.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    return perform_binary(ZETA, x, q)


def igamma(a: Operand, x: Operand) -> Array:
    """Returns the regularised lower incomplete gamma function: the chance of a gamma sample below x.

    Source: DLMF, 8.7.1 and 8.9.2.

    Args:
        a, x: floating, of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no floating ones.
        ShapeError: the shapes do not fit.

    >>> igamma(1.0, 2.0).round(4)
    Array(0.8647, dtype=float32, weak_type=True)
    """
    return perform_binary(IGAMMA, a, x)


def igammac(a: Operand, x: Operand) -> Array:
    """Returns 1 - igamma(a, x), exact where that is small.

    Args:
        a, x: floating, of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no floating ones.
        ShapeError: the shapes do not fit.

    >>> igammac(1.0, 2.0).round(4)
    Array(0.1353, dtype=float32, weak_type=True)
    """
    return perform_binary(IGAMMAC, a, x)


def igamma_grad_a(a: Operand, x: Operand) -> Array:
    """Returns the slope of igamma(a, x) in a.

    Args:
        a, x: floating, of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no floating ones.
        ShapeError: the shapes do not fit.

    >>> igamma_grad_a(1.0, 2.0).round(4)
    Array(-0.2208, dtype=float32, weak_type=True)
    """
    return perform_binary(IGAMMA_GRAD_A, a, x)


def random_gamma_grad(a: Operand, x: Operand) -> Array:
    """Returns how a gamma sample x moves with a: the slope of the x that holds igamma(a, x) fixed.

    Source: Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients", NeurIPS 2018.

    Args:
        a, x: floating, of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no floating ones.
        ShapeError: the shapes do not fit.

    >>> random_gamma_grad(1.0, 2.0).round(4)
    Array(1.6317, dtype=float32, weak_type=True)
    """
    return perform_binary(RANDOM_GAMMA_GRAD, a, x)


def betainc(a: Operand, b: Operand, x: Operand) -> Array:
    """Returns the regularised incomplete beta function: the chance of a beta sample below x.

    Source: DLMF, 8.17.22. All three operands have derivatives.

    Args:
        a, b, x: floating, of one dtype and of shapes that fit.

    Returns:
        An array of the joint shape.

    Raises:
        DTypeError: the dtypes differ, or are no floating ones.
        ShapeError: the shapes do not fit.

    >>> betainc(1.0, 2.0, 0.5).round(4)
    Array(0.75, dtype=float32, weak_type=True)
    """
    return perform(BETAINC, tuple(fit_operands(a, b, x)))
