"""Products with logarithms, whose value at 0 is the limit, and the logistic function."""

from collections.abc import Callable

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import promote_inexact, where
from effx.families.gamma_formulas import deviance
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
    if a.type.kind == "c":
        return exponential.log(a) - exponential.log1p(-a)
    return _log_odds(a)


@custom_jvp
def _log_odds(x: Array) -> Array:
    # One logarithm: half the time of a difference of two, and no less exact.
    return exponential.log(x / (1.0 - x))


_log_odds.defjvps(lambda dx, odds, x: dx / x + dx / (1.0 - x))


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


@custom_jvp
def _log_ratio(x: Array, y: Array) -> Array:
    """Returns log(x / y) of positive numbers, whose quotient may over- or underflow."""
    ratio = x / y
    representable = (ratio >= float(dtypes.finfo(x.dtype).tiny)) & (ratio < INFINITY)
    near = exponential.log(where(representable, ratio, 1.0))
    return where(representable, near, exponential.log(x) - exponential.log(y))


_log_ratio.defjvps(lambda dx, ratio, x, y: dx / x, lambda dy, ratio, x, y: -dy / y)


def _operands_inside(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """Returns where a relative entropy is finite and may be differentiated, and the operands; 1 elsewhere."""
    inside = (p >= 0.0) & (q > 0.0)
    return inside, where(inside, p, 1.0), where(inside, q, 1.0)


@custom_jvp
def _rel_entr(p: Array, q: Array) -> Array:
    inside, zero = (p > 0.0) & (q > 0.0), (p == 0.0) & (q >= 0.0)
    u, v = where(inside, p, 1.0), where(inside, q, 1.0)
    result = where(inside, u * _log_ratio(u, v), where(zero, 0.0, INFINITY))
    return where((p == p) & (q == q), result, float("nan"))


def _rel_entr_by_first(dp: Array, entropy: Array, p: Array, q: Array) -> Array:
    inside, u, v = _operands_inside(p, q)
    return dp * where(inside, _log_ratio(u, v) + 1.0, 0.0)


def _rel_entr_by_second(dq: Array, entropy: Array, p: Array, q: Array) -> Array:
    inside, u, v = _operands_inside(p, q)
    return dq * where(inside, -u / v, 0.0)


_rel_entr.defjvps(_rel_entr_by_first, _rel_entr_by_second)


@custom_jvp
def _kl_div(p: Array, q: Array) -> Array:
    inside = (p > 0.0) & (q > 0.0) & (p < INFINITY) & (q < INFINITY)
    u, v = where(inside, p, 1.0), where(inside, q, 1.0)
    # As a deviation from the peak, since numbers that are alike cancel in the sum.
    quotient = v / u
    # GPUs keep quotients that are subnormal, of which few bits are left.
    tiny = float(dtypes.finfo(p.dtype).tiny)
    ordinary = inside & (quotient >= tiny) & (quotient < INFINITY)
    near = deviance(where(ordinary, u, 1.0), where(ordinary, v - u, 0.0), where(ordinary, quotient, 1.0))
    entropy = _rel_entr(where(ordinary, 1.0, p), where(ordinary, 1.0, q))
    return where(ordinary, near, where(entropy == INFINITY, entropy, entropy - p + q))


def _kl_div_by_first(dp: Array, divergence: Array, p: Array, q: Array) -> Array:
    inside, u, v = _operands_inside(p, q)
    return dp * where(inside, _log_ratio(u, v), 0.0)


def _kl_div_by_second(dq: Array, divergence: Array, p: Array, q: Array) -> Array:
    inside, u, v = _operands_inside(p, q)
    return dq * where(inside, 1.0 - u / v, 0.0)


_kl_div.defjvps(_kl_div_by_first, _kl_div_by_second)


def rel_entr(p: Operand, q: Operand) -> Array:
    """P log(p / q), 0 where p is 0 and q >= 0, and infinity outside of the domain.

    >>> float(rel_entr(2.0, 2.0))
    0.0
    """
    return _rel_entr(*promote_inexact(p, q))


def kl_div(p: Operand, q: Operand) -> Array:
    """rel_entr(p, q) - p + q.

    >>> float(kl_div(2.0, 2.0))
    0.0
    """
    return _kl_div(*promote_inexact(p, q))
