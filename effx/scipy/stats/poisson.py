"""The Poisson distribution of mean mu >= 0: the number of independent events."""

import math

import numpy as np

from effx import dtypes
from effx.array import Array, Operand, reducing
from effx.array.arithmetic import horner, where
from effx.array.promotion import broadcast_arrays, convert, to_host_array
from effx.array.shaping import expand_dims
from effx.lax.elementwise.exponential import exp, log
from effx.lax.elementwise.gamma import igammac
from effx.lazy import list_names
from effx.scipy.operands import cast_strong_like, real_floats
from effx.scipy.stats.families import Arguments, DistributionFamily, nonnegative_line
from effx.scipy.stats.saddle import log_poisson
from effx.transforms.jit.jit import jit

__all__ = ["cdf", "entropy", "logpmf", "pmf"]
__dir__ = list_names(__all__)


def take_k_mu_loc(k: Operand, mu: Operand, loc: Operand = 0) -> Arguments:
    return (k, mu), loc, 1


POISSON = DistributionFamily("poisson", take_k_mu_loc, nonnegative_line, lambda mu: mu >= 0.0, 0.0, True)
# The entropy less log(2 pi e mu) / 2 in powers of 1 / mu, from the first on, times -1.
ENTROPY = (1 / 12, 1 / 24, 19 / 360, 9 / 80, 863 / 2520, 1375 / 1008, 33953 / 5040, 57281 / 1440)


def lower(k: Array, mu: Array) -> Array:
    """Returns the probability of numbers up to k."""
    positive = mu > 0.0
    return where(
        positive, igammac(*broadcast_arrays([k + 1.0 + mu * 0.0, where(positive, mu, 1.0) + k * 0.0])), 1.0
    )


# fmt: off
logpmf = POISSON.declare("logpmf", log_poisson, "k log(mu) - mu - log(k!).", "2, 3.0", "-1.4959")
pmf = POISSON.declare("pmf", log_poisson, "mu^k exp(-mu) / k!.", "2, 3.0", "0.2240")
cdf = POISSON.declare("cdf", lower,
    "The sum of `pmf` up to k, which is `effx.scipy.special.gammaincc(floor(k) + 1, mu)`.", "2, 3.0", "0.4232")
# fmt: on


@jit
def entropy(mu: Operand, loc: Operand = 0) -> Array:
    """The expected value of -log(pmf), in nats; it does not depend on loc but for its shape.

    For small mu it is a sum over k, for large ones an expansion in 1 / mu. The relative error is below 1e-13 in float64
    and 1e-5 in float32.

    Source of the expansion: Knessl, "Integral representations and asymptotic expansions for Shannon and Renyi
    entropies", Applied Mathematics Letters 11, 1998.

    >>> f"{float(entropy(3.0)):.4f}"
    '1.9315'
    """
    (mean, shift), first = real_floats(mu, loc, function_name="poisson.entropy")
    # From here on the expansion has all digits, and up to here so has a sum of this many terms.
    start, terms = (64.0, 176) if mean.type.dtype == dtypes.float64 else (10.0, 56)
    small, positive = mean < start, mean > 0.0
    few = where(small & positive, mean, 1.0)
    k = np.arange(terms)
    factorials = convert(to_host_array(np.array([math.lgamma(i + 1.0) for i in k])), mean.type.dtype)
    powers = convert(to_host_array(k), mean.type.dtype)
    logs = powers * expand_dims(log(few), -1) - expand_dims(few, -1) - factorials
    exact = few - few * log(few) + reducing.sum(exp(logs) * factorials, -1)
    many = where(small, start, mean)
    expanded = 0.5 * (log(many) + math.log(2 * math.pi) + 1.0) - horner(1.0 / many, ENTROPY) / many
    result = where(small, where(positive, exact, 0.0), expanded)
    return cast_strong_like(first, where((mean >= 0.0) & (shift == shift), result, math.nan))
