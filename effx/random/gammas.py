"""Gamma samples, and what is made of them: beta, chi-square, Dirichlet, F, Student's t, generalised normal numbers.

All samplers take a key, not to be used again; real parameters that broadcast to `shape`, by default their joint
shape; and a floating dtype, f32 by default, f64 with `enable_x64`. Numbers of 16 bits are drawn with 32 and rounded.

The bits are JAX's. `method="approximate"` is without rejection, faster on accelerators and slightly biased; its derivative
is that of its formula. The derivative of an exact gamma sample in its parameter is that of the quantile at its probability
(Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients", NeurIPS 2018), and what is made of it follows.
"""

import math
from operator import index

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_to, convert, refuse_mixed_dtypes
from effx.array.shaping import reshape
from effx.dtypes import DType, DTypeLike
from effx.errors import OptionError, ShapeError, name_user_call
from effx.ir.types import Shape
from effx.lax.control.loops import while_loop
from effx.lax.control.scans import map as map_
from effx.lax.elementwise.exponential import exp, log, log1p, pow, sqrt
from effx.lax.elementwise.gamma import digamma, random_gamma_grad
from effx.lax.operands import element_count
from effx.random.approximations import approximate_loggamma_floats
from effx.random.arguments import ShapeLike, check_key, check_sample_shape, check_sizes, floating_dtype
from effx.random.discrete import rademacher_signs
from effx.random.floats import exponential_floats, normal_floats, unit_floats
from effx.random.generators import IMPLEMENTATIONS, THREEFRY, split_key
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.jit.jit import jit
from effx.transforms.maps.vmap import vmap
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "t",
]  # fmt: skip

METHODS = ("exact", "approximate")


def _draw_candidate(key: Array, c: Array) -> tuple[Array, Array]:
    """Returns a normal number x, and 1 + c x where that is positive."""
    dtype = c.type.dtype

    def draw(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        keys = split_key(state[0], (2,))
        x = normal_floats(keys[1], (), dtype)
        return keys[0], x, x * c + 1.0

    zero = c * 0.0
    _, x, v = while_loop(lambda state: state[2] <= 0.0, draw, (key, zero, zero - 1.0))
    return x, v


def _draw_log_gamma(key: Array, a: Array) -> Array:
    """Returns the logarithm of one gamma number by rejection.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. Below a = 1, a sample of
    a + 1 times u^(1/a).
    """
    dtype = a.type.dtype
    keys = split_key(key, (2,))
    boost = where(a >= 1.0, 0.0, log1p(-unit_floats(keys[1], (), dtype)) / a)
    d = where(a >= 1.0, a, a + 1.0) - 1 / 3
    c = 1 / 3 / sqrt(d)

    def rejected(state: tuple[Array, Array, Array, Array]) -> Array:
        _, x, v, u = state
        # NaN ends the loop.
        return (u >= 1.0 - 0.0331 * (x * x)) & (log(u) >= x * 0.5 + d * (1.0 - v + log(v)))

    def draw(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        keys = split_key(state[0], (3,))
        x, v = _draw_candidate(keys[1], c)
        return keys[0], x * x, v * v * v, unit_floats(keys[2], (), dtype)

    zero = a * 0.0
    _, _, v, _ = while_loop(rejected, draw, draw((keys[0], zero, zero, zero)))
    return where(a >= 0.0, log(d) + log(v) + boost, math.nan)


def _log_samples(keys: Array, a: Array) -> Array:
    if IMPLEMENTATIONS.get(keys.type.dtype, THREEFRY) != THREEFRY:
        # A batch of other keys would draw by the first one alone.
        return map_(lambda pair: _draw_log_gamma(*pair), (keys, a))
    return vmap(_draw_log_gamma)(keys, a)


_differentiable = custom_jvp(_log_samples, nondiff_argnums=(0,))


@_differentiable.defjvp
def _(keys: Array, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (a,), (da,) = primals, tangents
    y = _differentiable(keys, a)
    x = exp(y)
    # Of x below the rounding of 1, the distribution function is x^a / gamma(a + 1).
    small = y < math.log(float(dtypes.finfo(y.type.dtype).eps))
    slope = where(small, (digamma(a + 1.0) - y) / a, random_gamma_grad(a, x) / where(small, 1.0, x))
    return y, slope * da


def loggamma_floats(key: Array, a: Operand, shape: Shape, dtype: DType, method: str = "exact") -> Array:
    """Returns logarithms of gamma numbers."""
    if method == "approximate":
        return approximate_loggamma_floats(key, a, shape, dtype)
    work = dtype if dtypes.bits(dtype) >= 32 else dtypes.float32
    parameters = reshape(broadcast_to(convert(as_operand(a), work), shape), (element_count(shape),))
    if not element_count(shape):
        return convert(reshape(parameters, shape), dtype)
    return convert(
        reshape(_differentiable(split_key(key, (element_count(shape),)), parameters), shape), dtype
    )


def gamma_floats(key: Array, a: Operand, shape: Shape, dtype: DType, method: str = "exact") -> Array:
    """Returns gamma numbers."""
    return exp(loggamma_floats(key, a, shape, dtype, method))


def beta_floats(
    key: Array, a: Operand, b: Operand, shape: Shape, dtype: DType, method: str = "exact"
) -> Array:
    """Returns beta numbers."""
    keys = split_key(key, (2,))
    x, y = [loggamma_floats(keys[i], z, shape, dtype, method) for i, z in enumerate((a, b))]
    # Divided by the larger, so that both may be tiny.
    largest = where(x > y, x, y)
    p, q = exp(x - largest), exp(y - largest)
    return p / (p + q)


def chisquare_floats(key: Array, df: Operand, shape: Shape, dtype: DType, method: str = "exact") -> Array:
    """Returns chi-square numbers."""
    return gamma_floats(key, as_operand(df) * 0.5, shape, dtype, method) * 2.0


def f_floats(key: Array, dfnum: Operand, dfden: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns quotients of chi-square numbers, each divided by its degrees of freedom."""
    n, m = convert(as_operand(dfnum), dtype), convert(as_operand(dfden), dtype)
    keys = split_key(key, (2,))
    top = chisquare_floats(keys[1], n, shape, dtype) / n
    return top / (chisquare_floats(keys[0], m, shape, dtype) / m)


def t_floats(key: Array, df: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns Student's t numbers."""
    half = convert(as_operand(df), dtype) * 0.5
    keys = split_key(key, (2,))
    return normal_floats(keys[0], shape, dtype) * sqrt(half / gamma_floats(keys[1], half, shape, dtype))


def generalized_normal_floats(key: Array, p: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns numbers of density proportional to exp(-abs(x)^p)."""
    inverse = 1.0 / convert(as_operand(p), dtype)
    keys = split_key(key, (2,))
    size = pow(gamma_floats(keys[0], inverse, shape, dtype), broadcast_to(inverse, shape))
    return size * rademacher_signs(keys[1], shape, dtype)


def ball_floats(key: Array, p: Operand, d: int, shape: Shape, dtype: DType) -> Array:
    """Returns points of the unit ball of the p-norm.

    Source: Barthe, Guédon, Mendelson, Naor, "A probabilistic approach to the geometry of the l_p^n-ball", 2005.
    """
    order = convert(as_operand(p), dtype)
    keys = split_key(key, (2,))
    g = generalized_normal_floats(keys[0], order, (*shape, d), dtype)
    total = pow(abs(g), broadcast_to(order, g.type.shape)).sum(-1) + exponential_floats(keys[1], shape, dtype)
    return g / reshape(pow(total, broadcast_to(1.0 / order, shape)), (*shape, 1))


STATIC = ("shape", "dtype")
_loggamma, _gamma, _beta, _chisquare = [
    jit(g, static_argnames=(*STATIC, "method"))
    for g in (loggamma_floats, gamma_floats, beta_floats, chisquare_floats)
]
_f, _t = [jit(g, static_argnames=STATIC) for g in (f_floats, t_floats)]
_generalized = jit(generalized_normal_floats, static_argnames=STATIC)
_ball = jit(ball_floats, static_argnames=(*STATIC, "d"))


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise OptionError(f"{name_user_call()}: method must be 'exact' or 'approximate', got {method!r}")


def loggamma(
    key: Operand,
    a: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Draws logarithms of gamma numbers of shape parameter a, exact also where these underflow.

    >>> import effx
    >>> f"{loggamma(effx.random.PRNGKey(7), 2.5):.4f}"
    '0.9651'
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, loggamma, key, a, shape, dtype, method=method)
    _check_method(method)
    sizes = check_sample_shape(shape, a)
    return _loggamma(check_key(key), a, shape=sizes, dtype=floating_dtype(dtype), method=method)


def gamma(
    key: Operand,
    a: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Draws gamma numbers, of density x^(a-1) exp(-x) / gamma(a).

    >>> import effx
    >>> f"{gamma(effx.random.PRNGKey(7), 2.5):.4f}"
    '2.6251'
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, gamma, key, a, shape, dtype, method=method)
    _check_method(method)
    return _gamma(
        check_key(key),
        a,
        shape=check_sample_shape(shape, a),
        dtype=floating_dtype(dtype),
        method=method,
    )


def beta(
    key: Operand,
    a: Operand,
    b: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Draws beta numbers, of density x^(a-1) (1-x)^(b-1) / B(a, b).

    >>> import effx, numpy as np
    >>> np.asarray(beta(effx.random.PRNGKey(7), 2.0, 3.0, (2,))).round(4)
    array([0.3982, 0.3441], dtype=float32)
    """
    refuse_mixed_dtypes(a, b)
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, beta, key, a, b, shape, dtype, method=method)
    _check_method(method)
    return _beta(
        check_key(key),
        a,
        b,
        shape=check_sample_shape(shape, a, b),
        dtype=floating_dtype(dtype),
        method=method,
    )


def chisquare(
    key: Operand,
    df: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Draws chi-square numbers of df degrees of freedom.

    >>> import effx, numpy as np
    >>> np.asarray(chisquare(effx.random.PRNGKey(7), 3.0, (2,))).round(4)
    array([3.0221, 1.0438], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, chisquare, key, df, shape, dtype, method=method)
    _check_method(method)
    sizes = check_sample_shape(shape, df)
    return _chisquare(check_key(key), df, shape=sizes, dtype=floating_dtype(dtype), method=method)


def f(
    key: Operand,
    dfnum: Operand,
    dfden: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws F numbers: quotients of chi-square numbers, each divided by its degrees of freedom.

    >>> import effx, numpy as np
    >>> np.asarray(f(effx.random.PRNGKey(7), 3.0, 5.0, (2,))).round(4)
    array([0.4838, 1.1076], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, f, key, dfnum, dfden, shape, dtype)
    sizes = check_sample_shape(shape, dfnum, dfden)
    return _f(check_key(key), dfnum, dfden, shape=sizes, dtype=floating_dtype(dtype))


def t(
    key: Operand,
    df: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws numbers of Student's t distribution of df degrees of freedom.

    >>> import effx, numpy as np
    >>> np.asarray(t(effx.random.PRNGKey(7), 3.0, (2,))).round(4)
    array([2.3152, 0.1499], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, t, key, df, shape, dtype)
    return _t(check_key(key), df, shape=check_sample_shape(shape, df), dtype=floating_dtype(dtype))


def generalized_normal(
    key: Operand,
    p: Operand,
    shape: ShapeLike = (),
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws numbers of density proportional to exp(-abs(x)^p).

    >>> import effx, numpy as np
    >>> np.asarray(generalized_normal(effx.random.PRNGKey(7), 1.5, (2,))).round(4)
    array([-0.1131, -0.7861], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, generalized_normal, key, p, shape, dtype)
    sizes = check_sample_shape(shape, p)
    kind = floating_dtype(dtype)
    return _generalized(check_key(key), p, shape=sizes, dtype=kind)


def ball(
    key: Operand,
    d: int,
    p: Operand = 2,
    shape: ShapeLike = (),
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws points `[*shape, d]` that are uniform in the unit ball of the p-norm in d dimensions.

    >>> import effx
    >>> ball(effx.random.PRNGKey(7), 3).shape
    (3,)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, ball, key, d, p, shape, dtype)
    sizes, kind = check_sample_shape(shape, p), floating_dtype(dtype)
    return _ball(check_key(key), p, d=index(d), shape=sizes, dtype=kind)


def dirichlet_floats(key: Array, alpha: Array, shape: Shape, dtype: DType) -> Array:
    """Returns points of the simplex."""
    x = loggamma_floats(key, alpha, (*shape, alpha.type.shape[-1]), dtype)
    y = exp(x - x.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True)


_dirichlet = jit(dirichlet_floats, static_argnames=STATIC)


def dirichlet(
    key: Operand,
    alpha: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws points `[*shape, n]` of the simplex, of density proportional to the product of x^(alpha - 1).

    Args:
        key, dtype: as for all samplers here.
        alpha: positive numbers `[*batch, n]`.
        shape: to which `batch` broadcasts; by default `batch`.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Raises:
        ShapeError: alpha is a scalar, or its batch does not broadcast to the shape.

    >>> import effx
    >>> f"{dirichlet(effx.random.PRNGKey(7), effx.numpy.array([1.0, 2.0, 3.0])).sum():.4f}"
    '1.0000'
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, dirichlet, key, alpha, shape, dtype)
    array = as_operand(alpha)
    if not array.type.shape:
        raise ShapeError(f"dirichlet: alpha must have an axis of categories, got {array.type!r}")
    batch = array.type.shape[:-1]
    sizes = batch if shape is None else check_sizes(shape)
    check_sample_shape((*sizes, array.type.shape[-1]), array)
    return _dirichlet(check_key(key), array, shape=sizes, dtype=floating_dtype(dtype))
