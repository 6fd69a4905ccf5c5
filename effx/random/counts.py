"""Samplers of counts: binomial, geometric, multinomial and Poisson numbers.

All take a key, not to be used again, and real parameters that broadcast to `shape`, by default their joint
shape. The bits are JAX's.
"""

import math

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, convert
from effx.array.shaping import stack
from effx.dtypes import DType, DTypeLike
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.families.gamma import COARSE_LGAMMA
from effx.ir.types import Shape
from effx.lax.control.loops import while_loop
from effx.lax.control.scans import scan
from effx.lax.elementwise.arithmetic import ceil, floor
from effx.lax.elementwise.exponential import log, log1p, sqrt
from effx.random.approximations import approximate_poisson_counts
from effx.random.arguments import ShapeLike, check_key, check_sample_shape, check_sizes, floating_dtype
from effx.random.floats import uniform_floats, unit_floats
from effx.random.generators import split_key
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = ["binomial", "geometric", "multinomial", "poisson"]

Three = tuple[Array, Array, Array]


def _draw_positive_uniform(key: Array, shape: Shape, dtype: DType) -> Array:
    return uniform_floats(key, shape, dtype, float(dtypes.finfo(dtype).tiny), 1.0)


def _draw_centered(key: Array, shape: Shape, dtype: DType) -> tuple[Array, Array, Array, Array]:
    """Returns the next key, u in [-1/2, 1/2), its distance from the nearer end, and v in [0, 1)."""
    keys = split_key(key, (3,))
    u = unit_floats(keys[1], shape, dtype) - 0.5
    return keys[0], u, 0.5 - abs(u), unit_floats(keys[2], shape, dtype)


def _small_poisson(key: Array, rate: Array) -> Array:
    """Counts uniform numbers while their product is above exp(-rate); source: Knuth, TAOCP 2, 3.4.1."""
    shape, dtype = rate.type.shape, rate.type.dtype

    def draw(state: Three) -> Three:
        key, count, total = state
        keys = split_key(key, (2,))
        count = where(total > -rate, count + 1.0, count)
        return keys[0], count, total + log(unit_floats(keys[1], shape, dtype))

    zero = rate * 0.0
    count: Array = while_loop(lambda state: (state[2] > -rate).any(), draw, (key, zero, zero))[1]
    return count - 1.0


def _large_poisson(key: Array, rate: Array) -> Array:
    """Transformed rejection; source: Hörmann, "The transformed rejection method for generating Poisson random
    variables", 1993, PTRS."""
    shape, dtype = rate.type.shape, rate.type.dtype
    b = sqrt(rate) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    inverse, limit = 1.1328 / (b - 3.4) + 1.1239, 0.9277 - 3.6224 / (b - 2.0)

    def draw(state: Three) -> Three:
        key, accepted_count, done = state
        key, u, us, v = _draw_centered(key, shape, dtype)
        k = floor((a * 2.0 / us + b) * u + rate + 0.43)
        bound = k * log(rate) - rate - COARSE_LGAMMA(k + 1.0)
        outside = (k < 0.0) | ((us < 0.013) & (v > us))
        accepted = ((us >= 0.07) & (v <= limit)) | (
            ~outside & (log(v * inverse / (a / (us * us) + b)) <= bound)
        )
        return key, where(accepted, k, accepted_count), done | accepted

    start = key, rate * 0.0 - 1.0, rate != rate
    count: Array = while_loop(lambda state: (~state[2]).any(), draw, start)[1]
    return count


def poisson_counts(key: Array, lam: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns Poisson numbers."""
    rate = broadcast_to(convert(as_operand(lam), dtypes.float32), shape)
    known = (rate >= 0.0) & (rate < math.inf)
    few = rate < 10.0
    small = _small_poisson(key, where(known & few, rate, 0.0))
    large = _large_poisson(key, where(known & ~few, rate, 1e5))
    counts = where(rate == 0.0, 0.0, where(few, small, large))
    return convert(where(known, counts, -1.0), dtype)


def _small_binomial(key: Array, n: Array, p: Array) -> Array:
    """Counts geometric numbers while their sum is at most n; source: Devroye, "Non-uniform random variate
    generation", 1986, X.4.3."""
    shape, dtype = n.type.shape, n.type.dtype
    rate = log1p(-p)

    def draw(state: Three) -> Three:
        key, count, total = state
        keys = split_key(key, (2,))
        gap = ceil(log(_draw_positive_uniform(keys[0], shape, dtype)) / rate)
        total = total + gap
        return keys[1], where(total <= n, count + 1.0, count), total

    zero = n * 0.0
    count: Array = while_loop(lambda state: (state[2] <= n).any(), draw, (key, zero, zero))[1]
    return count


def _large_binomial(key: Array, n: Array, p: Array) -> Array:
    """Transformed rejection; source: Hörmann, "The generation of binomial random variates", 1993, BTRS."""
    shape, dtype = n.type.shape, n.type.dtype
    spread = sqrt(n * p * (1.0 - p))
    b = spread * 2.53 + 1.15
    a = b * 0.0248 - 0.0873 + p * 0.01
    limit, alpha = 0.92 - 4.2 / b, (5.1 / b + 2.83) * spread
    mode, odds = floor((n + 1.0) * p), log(p / (1.0 - p))
    height = COARSE_LGAMMA(mode + 1.0) + COARSE_LGAMMA(n - mode + 1.0)

    def draw(state: Three) -> Three:
        key, accepted_count, done = state
        key, u, us, v = _draw_centered(key, shape, dtype)
        k = floor((a * 2.0 / us + b) * u + n * p + 0.5)
        inside = (k >= 0.0) & (k <= n)
        bound = height - COARSE_LGAMMA(k + 1.0) - COARSE_LGAMMA(n - k + 1.0) + (k - mode) * odds
        accepted = inside & (((us >= 0.07) & (v <= limit)) | (log(v * alpha / (a / (us * us) + b)) <= bound))
        return key, where(accepted, k, accepted_count), done | accepted

    start = key, n * 0.0 - 1.0, n != n
    count: Array = while_loop(lambda state: (~state[2]).any(), draw, start)[1]
    return count


def binomial_counts(key: Array, n: Operand, p: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns binomial numbers, as floats."""
    count, chance = [broadcast_to(convert(as_operand(x), dtype), shape) for x in (n, p)]
    known = (count >= 0.0) & (count < math.inf) & (chance >= 0.0) & (chance <= 1.0)
    swap = chance > 0.5
    q = where(swap, 1.0 - chance, chance)
    trivial = ~known | (count == 0.0) | (q == 0.0)
    few = count * q <= 10.0
    small = _small_binomial(key, where(trivial | ~few, 0.0, count), where(trivial | ~few, 0.5, q))
    large = _large_binomial(key, where(trivial | few, 1000.0, count), where(trivial | few, 0.5, q))
    successes = where(trivial, 0.0, where(few, small, large))
    # Of infinitely many trials with a chance infinitely many succeed.
    unknown = where((count == math.inf) & (chance > 0.0) & (chance <= 1.0), math.inf, math.nan)
    return where(known, where(swap, count - successes, successes), unknown)


def geometric_counts(key: Array, p: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns geometric numbers."""
    chance = as_operand(p)
    chance = broadcast_to(convert(chance, dtypes.canonicalize(float)), shape)
    points = _draw_positive_uniform(key, shape, chance.type.dtype)
    return convert(floor(log(points) / log1p(-chance)) + 1.0, dtype)


def multinomial_counts(
    key: Array, n: Operand, p: Operand, shape: Shape, dtype: DType, unroll: int | bool
) -> Array:
    """Returns counts of categories: of each, a binomial number of those that are left."""
    total_counts = broadcast_to(convert(as_operand(n), dtype), shape)
    chances = as_operand(p)
    kinds = chances.type.shape[-1]
    chances = broadcast_to(convert(chances, dtype), (*shape, kinds))
    columns = stack([chances[..., i] for i in range(kinds)])
    # Of the chances that are left, summed from the end.
    left = stack([columns[i:].sum(0) for i in range(kinds)])
    ratios = where(left > 0.0, columns / where(left > 0.0, left, 1.0), 0.0)
    ratios = where(ratios > 1.0, 1.0, ratios)

    def draw(remaining: Array, key_and_ratio: tuple[Array, Array]) -> tuple[Array, Array]:
        count = binomial_counts(key_and_ratio[0], remaining, key_and_ratio[1], shape, dtype)
        return remaining - count, count

    last, counts = scan(draw, total_counts, (split_key(key, (kinds,))[:-1], ratios[:-1]), unroll=unroll)
    return stack([*[counts[i] for i in range(kinds - 1)], last], -1)


STATIC = ("shape", "dtype")
_poisson, _binomial, _geometric = [
    jit(g, static_argnames=STATIC) for g in (poisson_counts, binomial_counts, geometric_counts)
]
_approximate_poisson = jit(approximate_poisson_counts, static_argnames=STATIC)
_multinomial = jit(multinomial_counts, static_argnames=(*STATIC, "unroll"))


def _integer_dtype(dtype: "DTypeLike | None") -> DType:
    result = dtypes.canonicalize_requested(int if dtype is None else dtype)
    if not dtypes.is_integer(result):
        raise DTypeError(f"{name_user_call()}: the dtype must be an integer one, got {result}")
    return result


def poisson(
    key: Operand,
    lam: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Draws Poisson numbers of mean `lam`, of an integer dtype; -1 where there is no such mean.

    With `method="approximate"` they are made of one normal number each, without rejection: faster on accelerators, and
    less than 1e-4 away from the distribution in total.

    >>> import effx
    >>> poisson(effx.random.PRNGKey(7), 3.0, (4,))
    Array([4, 1, 1, 3], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, poisson, key, lam, shape, dtype, method=method)
    if method not in ("exact", "approximate"):
        raise OptionError(f"poisson: method must be 'exact' or 'approximate', got {method!r}")
    sizes = check_sample_shape(shape, lam)
    draw = _poisson if method == "exact" else _approximate_poisson
    return draw(check_key(key), lam, shape=sizes, dtype=_integer_dtype(dtype))


def binomial(
    key: Operand, n: Operand, p: Operand, shape: ShapeLike | None = None, dtype: "DTypeLike | None" = None
) -> Array:
    """Draws how many of n trials succeed, each with the chance p; of a floating dtype, NaN for no such chance.

    >>> import effx
    >>> binomial(effx.random.PRNGKey(7), 5, 0.3, (4,))
    Array([2., 2., 2., 2.], dtype=float32)
    """
    sizes = check_sample_shape(shape, n, p)
    return _binomial(check_key(key), n, p, shape=sizes, dtype=floating_dtype(dtype))


def geometric(
    key: Operand,
    p: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws how many trials the first success takes, each with the chance p; of an integer dtype.

    >>> import effx
    >>> geometric(effx.random.PRNGKey(7), 0.3, (4,))
    Array([2, 1, 4, 3], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, geometric, key, p, shape, dtype)
    sizes = check_sample_shape(shape, p)
    return _geometric(check_key(key), p, shape=sizes, dtype=_integer_dtype(dtype))


def multinomial(
    key: Operand,
    n: Operand,
    p: Operand,
    *,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    unroll: int | bool = 1,
) -> Array:
    """Draws how many of n trials fall in each category, `[*shape, k]`; of a floating dtype.

    Args:
        key: a key, not to be used again.
        n: numbers of trials, which broadcast to the shape.
        p: chances `[*batch, k]` of the categories; the batch broadcasts to the shape.
        shape: by default the joint shape of n and the batch.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        unroll: of the `scan` over categories.

    Raises:
        ShapeError: p is a scalar, or n or p does not broadcast to the shape.

    >>> import effx, numpy as np
    >>> multinomial(effx.random.PRNGKey(7), 10, np.array([0.2, 0.3, 0.5]))
    Array([2., 4., 4.], dtype=float32)
    """
    chances = as_operand(p).type
    if not chances.shape:
        raise ShapeError(f"multinomial: p must have an axis of categories, got {chances!r}")
    trials = as_operand(n).type.shape
    sizes = broadcast_shapes(trials, chances.shape[:-1]) if shape is None else check_sizes(shape)
    check_sample_shape(sizes, n)
    check_sample_shape((*sizes, chances.shape[-1]), p)
    kind = floating_dtype(dtype)
    return _multinomial(check_key(key), n, p, shape=sizes, dtype=kind, unroll=unroll)
