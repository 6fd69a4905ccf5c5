"""The gamma function, its logarithm and the derivatives of that, and the Hurwitz zeta function.

XLA's own functions (CHLO `lgamma`, `digamma`) have 30 roundings near their zeros: only samplers use that `lgamma`, since
its rounding decides which samples JAX accepts.
"""

import math
from collections.abc import Callable
from typing import TypeVar, final

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert
from effx.errors import TransformError
from effx.families import gamma_formulas as formulas
from effx.families import zeta_formulas
from effx.handlers.jvp.handler import zeros_like
from effx.handling import Binary, Elementwise, Unary, decomposes
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.values.scalars import scalar
from effx.lower.text.emit import ACCELERATORS, emits_form
from effx.transforms.autodiff.core import jvp
from effx.transforms.custom.custom_derivatives import custom_jvp

__all__ = [
    "CoarseLgamma",
    "Digamma",
    "Gamma",
    "Lgamma",
    "Polygamma",
    "Zeta",
    "decompose_in_wide_floats",
    "elementwise_derivative",
    "forward_slope",
]

N = TypeVar("N", Array, float)


SHIFT = 10
# Bernoulli numbers B_2j, divided by (2j)!
BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000,
)  # fmt: skip


def zeta_sum(s: N, q: N) -> N:
    """Returns the zeta function for s > 1 and q > 0 by the formula of Euler and Maclaurin.

    Source: DLMF, 25.11.28.
    """
    far = q + float(SHIFT)
    total: N = far ** (1.0 - s) / (s - 1.0) + far**-s * 0.5
    for k in range(SHIFT):
        total = total + (q + float(k)) ** -s
    factor = s * far ** (-s - 1.0)
    for j, number in enumerate(BERNOULLI):
        total = total + factor * number
        factor = factor * (s + (2.0 * j + 1)) * (s + (2.0 * j + 2)) / (far * far)
    return total


def _gamma(x: float) -> float:
    if x < 0 and (x == -math.inf or x == int(x)):
        return math.nan
    try:
        return math.gamma(x) if x else math.copysign(math.inf, x)
    except OverflowError:
        return math.inf


def _lgamma(x: float) -> float:
    if x <= 0 and (x == -math.inf or x == int(x)):
        return math.inf
    return math.lgamma(x)


def _digamma(x: float) -> float:
    if x == 0:
        return -math.copysign(math.inf, x)
    if math.isinf(x):
        return x if x > 0 else math.nan
    if x < 0:
        # The reflection of DLMF, 5.5.4; a pole at each negative integer.
        return math.nan if x == math.floor(x) else _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    total = 0.0
    while x < 12:
        total -= 1 / x
        x += 1
    # DLMF, 5.11.2
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return total + math.log(x) - 0.5 / x - series


def _polygamma(m: float, x: float) -> float:
    if m == 0:
        return _digamma(x)
    sign = 1 if m % 2 else -1
    return sign * math.gamma(m + 1) * _zeta(m + 1.0, x)


def _zeta(s: float, q: float) -> float:
    if math.isnan(s) or math.isnan(q) or s < 1 or (s == 1 and q < 0 and q != q // 1):
        return math.nan
    if s == 1:
        return math.inf
    is_integer = s == s // 1
    if q > 0:
        if math.isinf(s) or math.isinf(q):
            return 0.0 if q > 1 else 1.0 if q == 1 else math.inf
        return zeta_sum(s, q)
    if q == 0 or (q == q // 1 and is_integer and s % 2 == 0):
        return math.inf
    if q == q // 1:
        return math.nan
    if not is_integer or math.isnan(q):
        return math.nan
    negative = range(math.ceil(-q))
    return math.fsum((q + k) ** -s for k in negative) + zeta_sum(s, q + len(negative))


@final
class Gamma(Unary):
    """The gamma function; NaN at negative integers."""

    __slots__ = ()
    kinds = "f"
    domain = (0.3, 6.0)
    reference = np.vectorize(_gamma, otypes=[float])
    tangent = lambda op, dx, x, y: dx * y * Digamma()(x)


@final
class Lgamma(Unary):
    """The logarithm of |gamma(x)|."""

    __slots__ = ()
    kinds = "f"
    domain = (0.3, 9.0)
    reference = np.vectorize(_lgamma, otypes=[float])
    tangent = lambda op, dx, x, y: dx * Digamma()(x)


@final
class CoarseLgamma(Unary):
    """The logarithm of |gamma(x)| with XLA's rounding, for samplers."""

    __slots__ = ()
    kinds = "f"
    domain = (0.3, 9.0)
    stablehlo = "chlo.lgamma"
    reference = np.vectorize(_lgamma, otypes=[float])
    tangent = lambda op, dx, x, y: dx * Digamma()(x)


@final
class Digamma(Unary):
    """The slope of lgamma."""

    __slots__ = ()
    kinds = "f"
    domain = (0.3, 9.0)
    reference = np.vectorize(_digamma, otypes=[float])
    tangent = lambda op, dx, x, y: dx * Polygamma()(scalar(1.0, x.type.dtype), x)


@final
class Polygamma(Binary):
    """The m-th slope of digamma at x, for whole m."""

    __slots__ = ()
    kinds = "f"
    reference = np.vectorize(_polygamma, otypes=[float])
    tangent_by_second = lambda op, dx, m, x, z: dx * Polygamma()(m + 1.0, x)

    def tangent_by_first(self, dm: Array, m: Array, x: Array, z: Array) -> Array:
        raise TransformError("polygamma: the order m is a whole number, and has no derivative")


@final
class Zeta(Binary):
    """The sum of (q + k)^-s over all k from 0, for s > 1."""

    __slots__ = ()
    kinds = "f"
    domain = (1.4, 5.0)
    reference = np.vectorize(_zeta, otypes=[float])
    tangent_by_second = lambda op, dq, s, q, z: dq * -s * Zeta()(s + 1.0, q)

    def tangent_by_first(self, ds: Array, s: Array, q: Array, z: Array) -> Array:
        return ds * elementwise_derivative(lambda v: decompose_in_wide_floats(zeta_sum)(self, v, q), s)


GAMMA, LGAMMA, COARSE_LGAMMA = Gamma(), Lgamma(), CoarseLgamma()
DIGAMMA = Digamma()


def decompose_in_wide_floats(function: Callable[..., Array]) -> Callable[..., Array]:
    """Returns a decomposition that computes with 32 bits at least, for all floats."""

    def decomposition(op: Elementwise, *operands: Array) -> Array:
        dtype = operands[0].type.dtype
        if dtype.itemsize >= 4:
            return function(*operands)
        return convert(function(*[convert(x, dtypes.float32) for x in operands]), dtype)

    return decomposition


def elementwise_derivative(function: Callable[[Array], Array], x: Array) -> Array:
    """Returns the derivative of an elementwise function by its one argument, by forward mode."""
    return jvp(function, (x,), (zeros_like(x) + 1.0,))[1]


def forward_slope(function: Callable[..., Array], index: int, arity: int) -> Callable[..., Array]:
    """Returns the derivative of an elementwise function by one of its operands, which has derivatives of all orders.

    All are taken in forward mode, so that reverse mode goes through loops whose number of iterations is not known.
    """

    def differentiate(*operands: Array) -> Array:
        before, after = operands[:index], operands[index + 1 :]
        return elementwise_derivative(lambda x: function(*before, x, *after), operands[index])

    slope = custom_jvp(differentiate)
    slope.defjvps(
        *[lambda dx, y, *xs, k=k: dx * forward_slope(differentiate, k, arity)(*xs) for k in range(arity)]
    )
    return slope


decomposes(Zeta)(decompose_in_wide_floats(zeta_formulas.hurwitz_zeta))
decomposes(Polygamma)(decompose_in_wide_floats(zeta_formulas.polygamma))

# A branch waits for the device, as long as a GPU takes to compute three sums of so many numbers instead of one.
BRANCHED = 1 << 20


def _compute_in_one_piece(function: Callable[..., Array]) -> Callable[..., Array]:
    """Returns a function of two operands without its branch, which of few numbers becomes one kernel."""

    def compute(x: Array, y: Array) -> Array:
        shape = max(x.type.shape, y.type.shape, key=len)
        is_small = not has_symbolic(shape) and math.prod(shape) < BRANCHED
        return function(x, y, in_one_piece=is_small)

    return decompose_in_wide_floats(compute)


emits_form(Zeta, *ACCELERATORS)(_compute_in_one_piece(zeta_formulas.hurwitz_zeta))
emits_form(Polygamma, *ACCELERATORS)(_compute_in_one_piece(zeta_formulas.polygamma))
decomposes(Gamma)(decompose_in_wide_floats(formulas.gamma_function))
decomposes(Lgamma)(decompose_in_wide_floats(formulas.log_gamma))
decomposes(Digamma)(decompose_in_wide_floats(formulas.digamma))
