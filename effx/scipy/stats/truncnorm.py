"""The normal distribution truncated to [a, b], where a < b; the bounds are those of y."""

import math

from effx.array import Array
from effx.array.arithmetic import where
from effx.lax.elementwise.exponential import exp, log, log1p
from effx.lax.elementwise.special import erf
from effx.lazy import list_names
from effx.nn.exponentials import log1mexp
from effx.scipy.special.normals import log_normal_cdf
from effx.scipy.stats import norm
from effx.scipy.stats.families import DistributionFamily, apply_each, take_x_a_b_loc_scale

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
__dir__ = list_names(__all__)

TRUNCATED = DistributionFamily(
    "truncnorm",
    take_x_a_b_loc_scale,
    lambda a, b: (a, b),
    lambda a, b: a < b,
    strong=("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"),
)


Point = tuple[
    Array, Array, Array
]  # x, and the logarithms of the normal distribution's probabilities below and above x


def log_tail_probabilities(*xs: Array) -> list[Point]:
    """Returns numbers with the logarithms of the probabilities on both sides."""
    log_probabilities = apply_each(log_normal_cdf, *xs, *[-x for x in xs])
    return list(zip(xs, log_probabilities[: len(xs)], log_probabilities[len(xs) :], strict=True))


def log_between(low: Point, high: Point) -> Array:
    """Returns the logarithm of the probability between two points in the normal distribution.

    It is the difference of the probabilities below or above both, of those that are small, and 1 less those outside
    where 0 is between.
    """
    (a, below_a, above_a), (b, below_b, above_b) = low, high
    some, right, across = a < b, a > 0.0, (a <= 0.0) & (b > 0.0)
    small, large = where(right, above_b, below_a), where(right, above_a, below_b)
    finite = some & ~across & (small > -math.inf)
    tail = large + where(
        finite, log1mexp(where(finite, large, math.log(2.0)) - where(finite, small, 0.0)), 0.0
    )
    inside = some & across
    outside = exp(where(inside, below_a, -1.0)) + exp(where(inside, above_b, -1.0))
    # 1 less the probabilities outside has no digits of a short interval.
    root = math.sqrt(0.5)
    short = inside & (outside > 0.5)
    area = 0.5 * (erf(where(short, b, 1.0) * root) + erf(where(short, -a, 1.0) * root))
    middle = where(short, log(area), log1p(where(short, -0.25, -outside)))
    return where(some, where(across, middle, tail), -math.inf)


def log_density(y: Array, a: Array, b: Array) -> Array:
    """Returns the logarithm of the density."""
    return norm.log_density(y) - log_between(*log_tail_probabilities(a, b))


def log_lower_and_upper(y: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the logarithms of the probabilities of smaller and of larger numbers."""
    low, middle, high = log_tail_probabilities(a, y, b)
    log_total = log_between(low, high)
    below, above = log_between(low, middle) - log_total, log_between(middle, high) - log_total
    return _log_probability(below, above), _log_probability(above, below)


def _log_probability(value: Array, rest: Array) -> Array:
    """Returns the logarithm of a probability, by the rest where it is nearly 1."""
    near = value > -0.1
    return where(near, log1p(-exp(where(near, rest, -1.0))), value)


# fmt: off
logpdf = TRUNCATED.declare("logpdf", log_density, "The logarithm of `pdf`.", "1.0, -1.0, 2.0", "-1.2188")
pdf = TRUNCATED.declare("pdf", log_density,
    "exp(-y² / 2) / sqrt(2 pi) / (Φ(b) - Φ(a)) / scale, where Φ is the normal distribution function.",
    "1.0, -1.0, 2.0", "0.2956")
cdf = TRUNCATED.declare("cdf", lambda *xs: exp(log_lower_and_upper(*xs)[0]),
    "(Φ(y) - Φ(a)) / (Φ(b) - Φ(a)).", "1.0, -1.0, 2.0", "0.8340")
sf = TRUNCATED.declare("sf", lambda *xs: exp(log_lower_and_upper(*xs)[1]),
    "(Φ(b) - Φ(y)) / (Φ(b) - Φ(a)).", "1.0, -1.0, 2.0", "0.1660")
logcdf = TRUNCATED.declare("logcdf", lambda *xs: log_lower_and_upper(*xs)[0],
    "The logarithm of `cdf`.", "-20.0, -21.0, 2.0", "-203.8941")
logsf = TRUNCATED.declare("logsf", lambda *xs: log_lower_and_upper(*xs)[1],
    "The logarithm of `sf`.", "20.0, -1.0, 21.0", "-203.7444")
# fmt: on
