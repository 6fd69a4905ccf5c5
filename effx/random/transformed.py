"""Samplers of real numbers that transform uniform, normal or exponential ones, and so differentiate by their
parameters.

All take a key, not to be used again; real parameters that broadcast to `shape`; and a floating dtype, f32 by
default, f64 with `enable_x64`. The bits are JAX's.
"""

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.dtypes import DType, DTypeLike
from effx.ir.types import Shape
from effx.lax.elementwise.exponential import exp, log, log1p, pow, sqrt
from effx.random.arguments import ShapeLike, check_key, check_sample_shape, check_sizes, floating_dtype
from effx.random.discrete import rademacher_signs
from effx.random.floats import exponential_floats, normal_floats, uniform_floats, unit_floats
from effx.random.generators import split_key
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "double_sided_maxwell", "lognormal", "maxwell", "pareto", "rayleigh", "triangular", "wald", "weibull_min",
]  # fmt: skip


def _convert_parameter(x: Operand, shape: Shape, dtype: DType) -> Array:
    return broadcast_to(convert(as_operand(x), dtype), shape)


def _lognormal_floats(key: Array, sigma: Operand, shape: Shape, dtype: DType) -> Array:
    return exp(normal_floats(key, shape, dtype) * _convert_parameter(sigma, shape, dtype))


def _pareto_floats(key: Array, b: Operand, shape: Shape, dtype: DType) -> Array:
    return exp(exponential_floats(key, shape, dtype) / _convert_parameter(b, shape, dtype))


def _rayleigh_floats(key: Array, scale: Operand, shape: Shape, dtype: DType) -> Array:
    points = uniform_floats(key, shape, dtype, float(dtypes.finfo(dtype).tiny), 1.0)
    return _convert_parameter(scale, shape, dtype) * sqrt(log(points) * -2.0)


def _weibull_floats(key: Array, scale: Operand, power: Operand, shape: Shape, dtype: DType) -> Array:
    points = -log1p(-unit_floats(key, shape, dtype))
    return pow(points, 1.0 / _convert_parameter(power, shape, dtype)) * _convert_parameter(
        scale, shape, dtype
    )


def _maxwell_floats(key: Array, shape: Shape, dtype: DType) -> Array:
    x = normal_floats(key, (*shape, 3), dtype)
    return sqrt((x * x).sum(-1))


def _double_maxwell_floats(key: Array, loc: Operand, scale: Operand, shape: Shape, dtype: DType) -> Array:
    keys = split_key(key, (2,))
    x = _maxwell_floats(keys[0], shape, dtype) * rademacher_signs(keys[1], shape, dtype)
    return x * _convert_parameter(scale, shape, dtype) + _convert_parameter(loc, shape, dtype)


def _triangular_floats(
    key: Array, left: Operand, mode: Operand, right: Operand, shape: Shape, dtype: DType
) -> Array:
    a, c, b = [_convert_parameter(x, shape, dtype) for x in (left, mode, right)]
    u = unit_floats(key, shape, dtype)
    rising = u < (c - a) / (b - a)
    # The root of the other branch is not computed, so that its slope is finite.
    area = where(rising, u * ((b - a) * (c - a)), (1.0 - u) * ((b - a) * (b - c)))
    return where(rising, a + sqrt(area), b - sqrt(area))


def _wald_floats(key: Array, mean: Operand, shape: Shape, dtype: DType) -> Array:
    m = _convert_parameter(mean, shape, dtype)
    keys = split_key(key, (2,))
    v, u = normal_floats(keys[0], shape, dtype), unit_floats(keys[1], shape, dtype)
    # The two numbers with (x - m)² / (m² x) = v² have the product m². The smaller is computed by its inverse, a sum of
    # positive terms; the formula of the paper is a difference of numbers as large as m² v².
    half, rate = v * v * 0.5, 1.0 / m
    inverse = rate + half + sqrt(half * (half + rate * 2.0))
    x = 1.0 / inverse
    return where(u <= 1.0 / (1.0 + x * rate), x, m * (m * inverse))


STATIC = ("shape", "dtype")
_lognormal, _pareto, _rayleigh = [
    jit(g, static_argnames=STATIC) for g in (_lognormal_floats, _pareto_floats, _rayleigh_floats)
]
_weibull, _maxwell, _double_maxwell = [
    jit(g, static_argnames=STATIC) for g in (_weibull_floats, _maxwell_floats, _double_maxwell_floats)
]
_triangular, _wald = [jit(g, static_argnames=STATIC) for g in (_triangular_floats, _wald_floats)]


def lognormal(
    key: Operand,
    sigma: Operand = 1.0,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws numbers whose logarithm is normal with the standard deviation sigma.

    >>> import effx, numpy as np
    >>> np.asarray(lognormal(effx.random.PRNGKey(7), 2.0, (2,))).round(3)
    array([ 2.466, 49.745], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, lognormal, key, sigma, shape, dtype)
    sizes = check_sample_shape(shape, sigma)
    return _lognormal(check_key(key), sigma, shape=sizes, dtype=floating_dtype(dtype))


def pareto(
    key: Operand,
    b: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws Pareto numbers, of density b / x^(b+1) for x > 1.

    >>> import effx, numpy as np
    >>> np.asarray(pareto(effx.random.PRNGKey(7), 2.0, (2,))).round(3)
    array([1.752, 6.277], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, pareto, key, b, shape, dtype)
    sizes = check_sample_shape(shape, b)
    return _pareto(check_key(key), b, shape=sizes, dtype=floating_dtype(dtype))


def rayleigh(
    key: Operand,
    scale: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws Rayleigh numbers: the lengths of vectors of two normal numbers of standard deviation `scale`.

    >>> import effx, numpy as np
    >>> np.asarray(rayleigh(effx.random.PRNGKey(7), 2.0, (2,))).round(3)
    array([1.776, 0.454], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, rayleigh, key, scale, shape, dtype)
    sizes = check_sample_shape(shape, scale)
    return _rayleigh(check_key(key), scale, shape=sizes, dtype=floating_dtype(dtype))


def weibull_min(
    key: Operand,
    scale: Operand,
    concentration: Operand,
    shape: ShapeLike = (),
    dtype: "DTypeLike | None" = None,
) -> Array:
    """Draws Weibull numbers, of distribution function 1 - exp(-(x / scale)^concentration).

    >>> import effx, numpy as np
    >>> np.asarray(weibull_min(effx.random.PRNGKey(7), 2.0, 3.0, (2,))).round(3)
    array([2.078, 3.086], dtype=float32)
    """
    sizes, kind = (
        check_sample_shape(shape, scale, concentration),
        floating_dtype(dtype),
    )
    return _weibull(check_key(key), scale, concentration, shape=sizes, dtype=kind)


def maxwell(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws Maxwell numbers: the lengths of vectors of three standard normal numbers.

    >>> import effx, numpy as np
    >>> np.asarray(maxwell(effx.random.PRNGKey(7), (2,))).round(3)
    array([2.07 , 0.714], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, maxwell, key, shape, dtype)
    return _maxwell(check_key(key), shape=check_sizes(shape), dtype=floating_dtype(dtype))


def double_sided_maxwell(
    key: Operand, loc: Operand, scale: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None
) -> Array:
    """Draws Maxwell numbers of random sign, times `scale`, plus `loc`.

    >>> import effx, numpy as np
    >>> np.asarray(double_sided_maxwell(effx.random.PRNGKey(7), 1.0, 2.0, (2,))).round(3)
    array([-1.477, -4.17 ], dtype=float32)
    """
    sizes = check_sample_shape(shape, loc, scale)
    kind = floating_dtype(dtype)
    return _double_maxwell(check_key(key), loc, scale, shape=sizes, dtype=kind)


def triangular(
    key: Operand,
    left: Operand,
    mode: Operand,
    right: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws numbers of a density that rises from `left` to `mode` and falls to `right`.

    >>> import effx, numpy as np
    >>> np.asarray(triangular(effx.random.PRNGKey(7), 0.0, 1.0, 3.0, (2,))).round(3)
    array([1.602, 2.61 ], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, triangular, key, left, mode, right, shape, dtype)
    sizes, kind = (
        check_sample_shape(shape, left, mode, right),
        floating_dtype(dtype),
    )
    return _triangular(check_key(key), left, mode, right, shape=sizes, dtype=kind)


def wald(
    key: Operand,
    mean: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws Wald (inverse Gaussian) numbers of shape parameter 1.

    Source: Michael, Schucany, Haas, "Generating random variates using transformations with multiple roots", 1976.

    >>> import effx, numpy as np
    >>> np.asarray(wald(effx.random.PRNGKey(7), 2.0, (2,))).round(3)
    array([0.471, 2.443], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, wald, key, mean, shape, dtype)
    sizes = check_sample_shape(shape, mean)
    return _wald(check_key(key), mean, shape=sizes, dtype=floating_dtype(dtype))
