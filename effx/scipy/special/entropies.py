"""Products with logarithms, whose value at 0 is the limit, and the logistic function."""

from collections.abc import Callable

from effx.array import Array, Operand
from effx.array.arithmetic import promote_inexact, where
from effx.families.gamma_formulas import deviation_from_peak
from effx.lax.elementwise import exponential
from effx.transforms.custom.custom_derivatives import custom_jvp

__all__ = ["entr", "expit", "kl_div", "logit", "rel_entr", "xlog1py", "xlogy"]

INFINITY = float("inf")


def expit(x: Operand) -> Array:
    """The logistic function 1 / (1 + exp(-x)).

    >>> float(expit(0.0))
    0.5
    """
    return exponential.logistic(*promote_inexact(x))


def logit(x: Operand) -> Array:
    """The inverse of `expit`, log(x / (1 - x)).

    >>> float(logit(0.5))
    0.0
    """
    (a,) = promote_inexact(x)
    return exponential.log(a) - exponential.log1p(-a)


def xlogy(x: Operand, y: Operand) -> Array:
    """X log(y), and 0 where x is 0, unless y is NaN.

    >>> float(xlogy(0.0, 0.0))
    0.0
    """
    return _xlogy(*promote_inexact(x, y))


def xlog1py(x: Operand, y: Operand) -> Array:
    """X log(1 + y), and 0 where x is 0, unless y is NaN.

    >>> float(xlog1py(0.0, -1.0))
    0.0
    """
    return _xlog1py(*promote_inexact(x, y))


@custom_jvp
def _xlogy(x: Array, y: Array) -> Array:
    return _product_with_limit(x, exponential.log, y, 1.0)


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    return _product_with_limit(x, exponential.log1p, y, 0.0)


def _product_with_limit(x: Array, of: Callable[[Array], Array], y: Array, root: float) -> Array:
    """Returns x of(y), and 0 where x is 0, unless y is NaN; `root` is where `of` is 0."""
    zero = (x == 0.0) & (y == y)
    return where(zero, 0.0, x * of(where(zero, root, y)))


def _ratio_with_limit(x: Array, y: Array) -> Array:
    """Returns x / y, and 0 for 0 / 0: where x is 0 the product does not depend on y."""
    both = (x == 0.0) & (y == 0.0)
    return where(both, 0.0, x / where(both, 1.0, y))


# The slope in x is the logarithm where x is 0 too.
_xlogy.defjvps(
    lambda dx, product, x, y: dx * exponential.log(y),
    lambda dy, product, x, y: dy * _ratio_with_limit(x, y),
)
_xlog1py.defjvps(
    lambda dx, product, x, y: dx * exponential.log1p(y),
    lambda dy, product, x, y: dy * _ratio_with_limit(x, 1.0 + y),
)


def entr(x: Operand) -> Array:
    """-x log(x), 0 at 0 and -infinity below.

    >>> float(entr(1.0))
    -0.0
    """
    (a,) = promote_inexact(x)
    return where(a < 0.0, -INFINITY, -xlogy(a, where(a < 0.0, 1.0, a)))


def rel_entr(p: Operand, q: Operand) -> Array:
    """P log(p / q), 0 where p is 0 and q >= 0, and infinity outside of the domain.

    >>> float(rel_entr(2.0, 2.0))
    0.0
    """
    a, b = promote_inexact(p, q)
    inside, zero = (a > 0.0) & (b > 0.0), (a == 0.0) & (b >= 0.0)
    u, v = where(inside, a, 1.0), where(inside, b, 1.0)
    quotient = u / v
    # The quotient of very different numbers under- or overflows, not its logarithm.
    ordinary = (quotient > 0.0) & (quotient < INFINITY)
    logarithm = where(
        ordinary,
        exponential.log(where(ordinary, quotient, 1.0)),
        exponential.log(where(ordinary, 1.0, u)) - exponential.log(where(ordinary, 1.0, v)),
    )
    result = where(inside, u * logarithm, where(zero, 0.0, INFINITY))
    return where((a == a) & (b == b), result, float("nan"))


def kl_div(p: Operand, q: Operand) -> Array:
    """rel_entr(p, q) - p + q.

    >>> float(kl_div(2.0, 2.0))
    0.0
    """
    a, b = promote_inexact(p, q)
    inside = (a > 0.0) & (b > 0.0) & (a < INFINITY) & (b < INFINITY)
    u, v = where(inside, a, 1.0), where(inside, b, 1.0)
    # As a deviation from the peak, since numbers that are alike cancel in the sum.
    quotient = v / u
    ordinary = inside & (quotient > 0.0) & (quotient < INFINITY)
    near = deviation_from_peak(
        where(ordinary, u, 1.0), where(ordinary, v - u, 0.0), where(ordinary, quotient, 1.0)
    )
    entropy = rel_entr(where(ordinary, 1.0, a), where(ordinary, 1.0, b))
    return where(ordinary, near, where(entropy == INFINITY, entropy, entropy - a + b))
