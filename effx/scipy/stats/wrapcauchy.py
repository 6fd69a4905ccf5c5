"""The wrapped Cauchy distribution, with density (1 - c²) / (2 pi (1 + c² - 2 c cos(x))) for x in [0, 2 pi] and 0 < c < 1."""

import math

from effx.array import Array, Operand
from effx.lax.elementwise.exponential import log, log1p
from effx.lax.elementwise.trigonometric import sin
from effx.lazy import list_names
from effx.scipy.stats.families import Arguments, DistributionFamily

__all__ = ["logpdf", "pdf"]
__dir__ = list_names(__all__)


def take_x_c(x: Operand, c: Operand) -> Arguments:
    return (x, c), 0, 1


WRAPPED = DistributionFamily(
    "wrapcauchy", take_x_c, lambda c: (0.0, 2 * math.pi), lambda c: (c > 0.0) & (c < 1.0)
)


def log_density(x: Array, c: Array) -> Array:
    """Returns the logarithm of the density, with 1 + c² - 2 c cos(x) as (1 - c)² + 4 c sin(x / 2)²."""
    half, rest = sin(x * 0.5), 1.0 - c
    return log(rest) + log1p(c) - math.log(2 * math.pi) - log(rest * rest + 4.0 * c * (half * half))


# fmt: off
logpdf = WRAPPED.declare("logpdf", log_density, "The logarithm of `pdf`.", "1.0, 0.5", "-1.7826")
pdf = WRAPPED.declare("pdf", log_density, "(1 - c²) / (2 pi (1 + c² - 2 c cos(x))).", "1.0, 0.5", "0.1682")
# fmt: on
