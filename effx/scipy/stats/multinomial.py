"""The multinomial distribution: how often each of several outcomes, of probabilities p, occurs in n trials."""

import math

from effx.array import Array, Operand, reducing
from effx.array.arithmetic import where
from effx.lax.elementwise.arithmetic import floor
from effx.lax.elementwise.exponential import exp
from effx.lax.elementwise.gamma import lgamma
from effx.lazy import list_names
from effx.scipy.operands import cast_like, real_floats
from effx.scipy.stats.families import weighted_log
from effx.transforms.jit.jit import jit

__all__ = ["logpmf", "pmf"]
__dir__ = list_names(__all__)


def log_probability(function_name: str, x: Operand, n: Operand, p: Operand) -> tuple[Array, Array]:
    """Returns the logarithm of the probability, and an array with the result's dtype."""
    (counts, trials, chances), first = real_floats(x, n, p, function_name=function_name)
    are_counts = (counts >= 0.0) & (floor(counts) == counts)
    inside = reducing.all(are_counts, -1) & (reducing.sum(counts, -1) == trials)
    defined = (
        reducing.all((chances >= 0.0) & (chances <= 1.0), -1)
        & reducing.all(counts == counts, -1)
        & (trials >= 0.0)
    )
    k = where(are_counts, counts, 0.0)
    result = lgamma(where(trials >= 0.0, trials, 0.0) + 1.0) + reducing.sum(
        weighted_log(k, chances) - lgamma(k + 1.0), -1
    )
    return where(defined, where(inside, result, -math.inf), math.nan), first


@jit
def logpmf(x: Operand, n: Operand, p: Operand) -> Array:
    """The logarithm of `pmf`.

    Args:
        x: counts, `[*batch, outcomes]`.
        n: the number of trials, `[*batch]`; -infinity where it is not the sum of x.
        p: probabilities, `[*batch, outcomes]`.

    >>> import numpy as np
    >>> f"{float(logpmf(np.array([1, 2]), 3, np.array([0.4, 0.6]))):.4f}"
    '-0.8393'
    """
    log_probability_value, first = log_probability("multinomial.logpmf", x, n, p)
    return cast_like(first, log_probability_value)


@jit
def pmf(x: Operand, n: Operand, p: Operand) -> Array:
    """N! times the product of p^x / x!.

    Args:
        x, n, p: as those of `logpmf`.

    >>> import numpy as np
    >>> f"{float(pmf(np.array([1, 2]), 3, np.array([0.4, 0.6]))):.4f}"
    '0.4320'
    """
    log_probability_value, first = log_probability("multinomial.pmf", x, n, p)
    return cast_like(first, exp(log_probability_value))
