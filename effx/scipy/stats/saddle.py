"""Probabilities of counts, without the differences of large logarithms of gamma functions.

Source: Loader, "Fast and accurate computation of binomial probabilities", 2000.
"""

import math

from effx.array import Array
from effx.array.arithmetic import horner, where
from effx.families.gamma_formulas import STIRLING_SERIES, deviance
from effx.lax.elementwise.exponential import log
from effx.lax.elementwise.gamma import lgamma
from effx.scipy.stats.families import apply_each, weighted_log, weighted_log1p


def stirling_rest(x: Array) -> Array:
    """Returns log(gamma(x + 1)) less Stirling's formula, (x + 1/2) log(x) - x + log(2 pi) / 2, for x > 0."""
    large = x >= 10.0
    far, near = where(large, x, 10.0), where(large, 1.0, x)
    exact = lgamma(near + 1.0) - (near + 0.5) * log(near) + near - 0.5 * math.log(2 * math.pi)
    return where(large, horner(1.0 / (far * far), STIRLING_SERIES) / far, exact)


def log_binomial(k: Array, n: Array, p: Array) -> Array:
    """Returns the logarithm of the probability of k in n trials, for real k and n with 0 <= k <= n."""
    rest = n - k
    inside = (k > 0.0) & (rest > 0.0) & (p > 0.0) & (p < 1.0)
    i, j, chance = where(inside, k, 1.0), where(inside, rest, 1.0), where(inside, p, 0.5)
    total = i + j
    excess = total * chance - i
    of_total, of_i, of_j = apply_each(stirling_rest, total, i, j)
    # i log(i / m) + m - i, where the mean m is i + excess; likewise of the other trials.
    less_i = deviance(i, excess, total * chance / i)
    less_j = deviance(j, -excess, total * (1.0 - chance) / j)
    bulk = of_total - of_i - of_j - less_i - less_j
    bulk = bulk - 0.5 * (math.log(2 * math.pi) + log(i) + log(j) - log(total))
    # At the ends, all trials are alike.
    ends = weighted_log(where(inside, 0.0, k), p) + weighted_log1p(where(inside, 0.0, rest), -p)
    return where(inside, bulk, ends)


def log_poisson(k: Array, mean: Array) -> Array:
    """Returns the logarithm of the probability of k >= 0 where mean >= 0 are expected."""
    inside = (k > 0.0) & (mean > 0.0)
    i, m = where(inside, k, 1.0), where(inside, mean, 1.0)
    bulk = -stirling_rest(i) - deviance(i, m - i, m / i) - 0.5 * (math.log(2 * math.pi) + log(i))
    return where(inside, bulk, where(k > 0.0, -math.inf, -mean))
