"""Sums of exponentials, counts of arrangements, and what is made of logarithms of gamma functions."""

import math

from effx.array import Array, Operand
from effx.array.arithmetic import absolute, horner, promote_inexact, where
from effx.array.indexing import iota_along_axis
from effx.array.promotion import as_operand, convert
from effx.array.reducing import sum as total
from effx.array.shaping import expand_dims
from effx.errors import DTypeError, ShapeError
from effx.families.gamma import GAMMA
from effx.lax.elementwise.exponential import exp, expm1, log, log1p, pow
from effx.lax.elementwise.gamma import lgamma
from effx.nn import exponentials
from effx.nn.exponentials import logsumexp

__all__ = [
    "boxcox", "boxcox1p", "factorial", "log_softmax", "logsumexp", "multigammaln", "softmax",
]  # fmt: skip

Axis = int | tuple[int, ...] | None


def softmax(x: Operand, /, *, axis: Axis = None) -> Array:
    """The exponentials divided by their sum, along axes; None for all.

    >>> import effx.numpy as enp
    >>> softmax(enp.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return exponentials.softmax(x, axis)


def log_softmax(x: Operand, /, *, axis: Axis = None) -> Array:
    """The logarithm of `softmax`, along axes; None for all.

    >>> import effx.numpy as enp
    >>> log_softmax(enp.zeros(1)).tolist()
    [0.0]
    """
    return exponentials.log_softmax(x, axis)


def factorial(n: Operand, exact: bool = False) -> Array:
    """The product of the integers up to n, as a floating number; 0 for negative n.

    Args:
        n: real numbers, of any shape.
        exact: must be False: there are no integers of any size.

    Raises:
        DTypeError: `exact` is True.

    >>> round(float(factorial(5)), 2)
    120.0
    """
    if exact:
        raise DTypeError("factorial: exact=True needs integers of any size; use math.factorial")
    (a,) = promote_inexact(n)
    # Not the gamma function of n + 1, which is rounded.
    above = where(a > 1.0, a, 1.0)
    low = where((a >= 0.0) & (a <= 1.0), a, 0.0)
    return where(a < 0.0, 0.0, where(a > 1.0, above * GAMMA(above), GAMMA(low + 1.0) + (a - a)))


def multigammaln(a: Operand, d: Operand) -> Array:
    """The logarithm of the multivariate gamma function of dimension d.

    Args:
        a: real numbers above `(d - 1) / 2`.
        d: the dimension, a Python integer.

    Raises:
        ShapeError: the dimension is no positive int.

    >>> f"{float(multigammaln(2.0, 1)):.4f}"
    '0.0000'
    """
    if not isinstance(d, int) or d < 1:
        raise ShapeError(f"multigammaln: the dimension must be a positive int, got {d!r}")
    (x,) = promote_inexact(a)
    halves = convert(iota_along_axis((d,), 0), x.type.dtype) * 0.5
    parts = lgamma(expand_dims(x, -1) - halves)
    return total(parts, -1) + d * (d - 1) / 4 * math.log(math.pi)


def boxcox(x: Operand, lmbda: Operand) -> Array:
    """(x^lmbda - 1) / lmbda, and log(x) where lmbda is 0.

    >>> float(boxcox(3.0, 1.0))
    2.0
    """
    a, b = promote_inexact(x, lmbda)
    # A power has more digits than the exponential of a logarithm. Its half does not overflow where the quotient does not.
    return _power_transform(log(a), b, pow(a, 0.5 * b), 1.0)


def boxcox1p(x: Operand, lmbda: Operand) -> Array:
    """`boxcox` of 1 + x, exact for x near 0.

    >>> float(boxcox1p(2.0, 1.0))
    2.0
    """
    a, b = promote_inexact(as_operand(x), lmbda)
    logarithm = log1p(a)
    return _power_transform(logarithm, b, exp(0.5 * b * logarithm), 80.0)


# 1 / (k + 1)!, as many as (exp(t) - 1) / t and its second derivatives need for |t| < 1.
_EXPM1_SERIES = tuple([1 / math.factorial(k + 1) for k in range(22)])


def _power_transform(logarithm: Array, power: Array, half: Array, bound: float) -> Array:
    """Returns (exp(power * logarithm) - 1) / power, by `half`, the root of the exponential, from a bound on."""
    # With t = power * logarithm it is logarithm * (exp(t) - 1) / t. Near 0 this quotient is its power series: there its
    # derivatives would be differences of large numbers.
    undefined = (power == 0.0) & (absolute(logarithm) == math.inf)
    t = power * where(undefined, 0.0, logarithm)
    size = absolute(t)
    near, divisor = size < 1.0, where(size < 1.0, 1.0, power)
    series = horner(where(near, t, 0.0), _EXPM1_SERIES[: 22 if t.dtype.itemsize >= 8 else 12])
    medium = expm1(where(near | (size >= bound), 1.0, t)) / divisor
    # Of an infinite logarithm the half of the power may underflow.
    root = where(t == -math.inf, 0.0, where(t == math.inf, math.inf, half))
    large = where(near, 1.0, root) / divisor * root - 1.0 / divisor
    value = where(near, logarithm * series, where(size < bound, medium, large))
    return where(logarithm == logarithm, value, logarithm)
