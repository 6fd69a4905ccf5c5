"""Gamma and Poisson samples by closed formulas of a normal number, without rejection and its loops.

They have a small bias, and no loop whose length depends on the sample. The bits are JAX's.
"""

import math

from effx import dtypes
from effx.array import Array, Operand, reducing
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.dtypes import DType
from effx.effects import perform
from effx.families.special import Erf, Erfc
from effx.ir.ops import elementwise as e
from effx.ir.ops.shape import Iota
from effx.ir.types import Shape, array_type
from effx.ir.values.scalars import scalar
from effx.random.floats import exponential_floats, normal_floats
from effx.random.generators import split_key

LOG, EXP, ABS, CEIL, SQRT, RSQRT, MAX = e.Log(), e.Exp(), e.Abs(), e.Ceil(), e.Sqrt(), e.Rsqrt(), e.Max()
ERF, ERFC = Erf(), Erfc()

# Row k, column j: the coefficient of z^k nu^(-k/2 - j) of the cube root of a chi-square quantile of nu degrees of freedom,
# divided by nu, where z is that of the normal distribution. Source: Goldstein, "Chi-square quantiles", Algorithm 451 of
# the CACM, 1973; its first number is 1.0000886, a fit for few degrees of freedom, with which the mean would be wrong for
# many.
_QUANTILE = (
    (1.0, -0.2237368, -0.01513904),
    (0.4713941, 0.02607083, -0.008986007),
    (0.0001348028, 0.01128186, 0.02277679),
    (-0.008553069, -0.01153761, -0.01323293),
    (0.00312558, 0.005169654, -0.006950356),
    (-0.0008426812, 0.00253001, 0.001060438),
    (0.00009780499, -0.001450117, 0.001565326),
)
# The quantile is that of a larger shape parameter, where the series is exact to 0.05 %.
_RAISED_BY = 4


def approximate_loggamma_floats(key: Array, a: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns logarithms of gamma numbers; NaN for a negative parameter.

    Of a sample x of the parameter a + n, and n uniform numbers u_k, x times all u_k^(1 / (a + k)) has the parameter a:
    Stuart, "Gamma-distributed products of independent random variables", 1962.
    """
    work = dtype if dtypes.bits(dtype) >= 32 else dtypes.float32
    parameter = broadcast_to(convert(as_operand(a), work), shape)
    keys = split_key(key, (2,))
    sample = _log_of_quantile(normal_floats(keys[0], shape, work), parameter + float(_RAISED_BY))
    log_u = -exponential_floats(keys[1], (_RAISED_BY, *shape), work)
    raised = Iota(array_type(work, (_RAISED_BY, *shape)), 0)() + broadcast_to(parameter, (_RAISED_BY, *shape))
    sample = sample + reducing.sum(log_u / raised, 0)
    return convert(where(parameter >= 0.0, sample, math.nan), dtype)


def _log_of_quantile(z: Array, a: Array) -> Array:
    """Returns the logarithm of the gamma quantile at the probability of a normal number."""
    nu = a * 2.0
    inverse, t = 1.0 / nu, z * perform(RSQRT, (nu,))
    root: Array | None = None
    for constant, linear, square in reversed(_QUANTILE):
        coefficient = (inverse * square + linear) * inverse + constant
        root = coefficient if root is None else root * t + coefficient
    assert root is not None
    tiny = scalar(float(dtypes.finfo(a.type.dtype).tiny), a.type.dtype)
    return perform(LOG, (a,)) + perform(LOG, (perform(MAX, (root, tiny)),)) * 3.0


# Below this mean the distribution function is summed up, above it is a normal one.
_SUMMED_BELOW = 7.0
# All but 4e-5 of the probability is in so many terms.
_TERMS = 20


def approximate_poisson_counts(key: Array, lam: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns Poisson numbers, whose distribution differs by less than 1e-4 in total; -1 where there is no such mean."""
    x = as_operand(lam)
    is_wide = x.type.dtype == dtypes.float64 or dtypes.bits(dtype) > 32
    rate = broadcast_to(convert(x, dtypes.float64 if is_wide else dtypes.float32), shape)
    z = normal_floats(key, shape, rate.type.dtype)
    known, few = (rate >= 0.0) & (rate < math.inf), rate < _SUMMED_BELOW
    small = _sum_up_to(_normal_probability(z), where(known & few, rate, 0.0))
    large = _invert_normal(z, where(known & ~few, rate, 100.0))
    return convert(where(known, where(few, small, large), -1.0), dtype)


def _normal_probability(z: Array) -> Array:
    w = z * (0.5 * math.sqrt(2.0))
    size = perform(ABS, (w,))
    tail = perform(ERFC, (size,))
    doubled = where(size < 0.5 * math.sqrt(2.0), perform(ERF, (w,)) + 1.0, where(w > 0.0, 2.0 - tail, tail))
    return doubled * 0.5


def _sum_up_to(u: Array, rate: Array) -> Array:
    """Returns how many of the partial sums of the probabilities are below u."""
    term = total = perform(EXP, (-rate,))
    count = convert(total < u, u.type.dtype)
    for k in range(1, _TERMS - 1):
        term = term * (rate / float(k))
        total = total + term
        count = count + convert(total < u, u.type.dtype)
    return count


def _invert_normal(z: Array, rate: Array) -> Array:
    """Returns the least count whose normal number, by Peizer and Pratt, is not below z.

    Source: Peizer and Pratt, "A normal approximation for binomial, F, beta, and other common, related tail
    probabilities", 1968. The expansion of Cornish and Fisher is a first guess, which differs by less than 1 from the
    solution if 0.6 is added.
    """
    spread = perform(SQRT, (rate,))
    guess = rate + spread * z - 2 / 3 + z * z / 6.0 + z * (1.0 - z * z) / (spread * 72.0)
    count = perform(CEIL, (guess + 0.6,))

    def is_enough(count: Array) -> Array:
        number = _peizer_pratt_number(perform(MAX, (count, count * 0.0)), rate)
        return convert(where(count < 0.0, -math.inf, number) >= z, z.type.dtype)

    return perform(MAX, (count + 1.0 - is_enough(count) - is_enough(count - 1.0), count * 0.0))


def _peizer_pratt_number(count: Array, rate: Array) -> Array:
    """Returns the normal number below which the probability is that of counts up to this one."""
    ratio = (count + 0.5) / rate
    curvature = _relative_deviance(ratio)
    return (count - rate + 2 / 3 + 0.02 / (count + 1.0)) * perform(SQRT, ((curvature + 1.0) / rate,))


def _relative_deviance(y: Array) -> Array:
    """Returns (1 - y² + 2 y log(y)) / (1 - y)²; beside 1, where both vanish, by its series."""
    d = y - 1.0
    is_near = perform(ABS, (d,)) < 0.25
    series = d * 0.0
    for k in range(9, 0, -1):
        series = d * (series + 2 * (-1) ** k / ((k + 1) * (k + 2)))
    safe, distance = where(is_near, 2.0, y), where(is_near, 1.0, d)
    direct = (1.0 - safe * safe + safe * 2.0 * perform(LOG, (safe,))) / (distance * distance)
    return where(is_near, series, direct)
