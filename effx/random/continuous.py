"""Samplers of real numbers.

Each checks its arguments and then calls one function compiled for its shape and dtype.
"""

from effx.array import Array, Operand
from effx.array.promotion import as_operand
from effx.dtypes import DTypeLike
from effx.errors import DTypeError
from effx.random import floats
from effx.random.arguments import (
    ShapeLike,
    check_gumbel_mode,
    check_key,
    check_sample_shape,
    check_sizes,
    floating_dtype,
)
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "cauchy", "exponential", "gumbel", "laplace", "logistic", "normal", "truncated_normal", "uniform",
]  # fmt: skip

STATIC = ("shape", "dtype")
_unit = jit(floats.unit_floats, static_argnames=STATIC)
_uniform = jit(floats.uniform_floats, static_argnames=STATIC)
_normal = jit(floats.normal_floats, static_argnames=STATIC)
_truncated = jit(floats.truncated_normal_floats, static_argnames=(*STATIC, "is_central"))
_exponential = jit(floats.exponential_floats, static_argnames=STATIC)
_gumbels = {mode: jit(draw, static_argnames=STATIC) for mode, draw in floats.GUMBEL_FLOATS.items()}
_laplace = jit(floats.laplace_floats, static_argnames=STATIC)
_logistic = jit(floats.logistic_floats, static_argnames=STATIC)
_cauchy = jit(floats.cauchy_floats, static_argnames=STATIC)


def uniform(
    key: Operand,
    shape: ShapeLike = (),
    dtype: "DTypeLike | None" = None,
    minval: Operand = 0.0,
    maxval: Operand = 1.0,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws numbers that are uniform in [minval, maxval).

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        minval, maxval: bounds that broadcast to the shape.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape, or the bounds do not broadcast to it.

    >>> import effx
    >>> uniform(effx.random.PRNGKey(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, uniform, key, shape, dtype, minval, maxval)
    checked_key, kind = check_key(key), floating_dtype(dtype)
    if type(minval) is float and type(maxval) is float:
        sizes = check_sizes(shape)
        if minval == 0.0 and maxval == 1.0:
            return _unit(checked_key, shape=sizes, dtype=kind)
    else:
        sizes = check_sample_shape(shape, minval, maxval)
    return _uniform(checked_key, shape=sizes, dtype=kind, minval=minval, maxval=maxval)


def truncated_normal(
    key: Operand,
    lower: Operand,
    upper: Operand,
    shape: ShapeLike | None = None,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws standard normal numbers truncated to an interval.

    Args:
        key: a key, not to be used again.
        lower, upper: real bounds that broadcast against each other and to the shape.
        shape: the result's shape; by default the bounds'.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of the shape and dtype, inside the open interval.

    Raises:
        DTypeError: it is no key, the dtype is another, or a bound is complex.
        ShapeError: it is no shape, or the bounds do not broadcast to it.

    >>> import effx
    >>> truncated_normal(effx.random.PRNGKey(0), -1.0, 1.0, (2,))
    Array([0.8618594, 0.9412883], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, truncated_normal, key, lower, upper, shape, dtype)
    for bound in (lower, upper):
        t = as_operand(bound).type
        if t.kind == "c":
            raise DTypeError(f"truncated_normal: bounds must be real, got {t!r}")
    sizes, kind = (
        check_sample_shape(shape, lower, upper),
        floating_dtype(dtype),
    )
    # Of plain numbers, as initializers use them, it is known here.
    is_central = (
        isinstance(lower, int | float)
        and isinstance(upper, int | float)
        and lower <= floats.CENTRAL
        and upper >= -floats.CENTRAL
    )
    return _truncated(check_key(key), lower, upper, shape=sizes, dtype=kind, is_central=is_central)


def normal(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws standard normal numbers; complex ones have independent parts of variance 1/2.

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a floating or complex dtype; f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape.

    >>> import effx
    >>> normal(effx.random.PRNGKey(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, normal, key, shape, dtype)
    return _normal(
        check_key(key),
        shape=check_sizes(shape),
        dtype=floating_dtype(dtype, "fc"),
    )


def exponential(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws exponential numbers of mean 1.

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape.

    >>> import effx
    >>> exponential(effx.random.PRNGKey(0), (2,))
    Array([2.950128 , 3.8434246], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, exponential, key, shape, dtype)
    return _exponential(
        check_key(key),
        shape=check_sizes(shape),
        dtype=floating_dtype(dtype),
    )


def gumbel(
    key: Operand,
    shape: ShapeLike = (),
    dtype: "DTypeLike | None" = None,
    mode: str | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws standard Gumbel numbers, of distribution function exp(-exp(-x)).

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        mode: "high" for a longer upper tail, from twice the bits; "highest" for all digits of both tails too; None is
            "low".
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, the dtype is another, or there is no such mode.
        ShapeError: it is no shape.

    >>> import effx
    >>> gumbel(effx.random.PRNGKey(0), (2,))
    Array([2.9233725, 3.8326178], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, gumbel, key, shape, dtype, mode)
    return _gumbels[check_gumbel_mode(mode)](
        check_key(key), shape=check_sizes(shape), dtype=floating_dtype(dtype)
    )


def laplace(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws standard Laplace numbers, of density exp(-abs(x)) / 2.

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape.

    >>> import effx
    >>> laplace(effx.random.PRNGKey(0), (2,))
    Array([-2.2569816, -3.1502788], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, laplace, key, shape, dtype)
    return _laplace(check_key(key), shape=check_sizes(shape), dtype=floating_dtype(dtype))


def logistic(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws standard logistic numbers, of distribution function 1 / (1 + exp(-x)).

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape.

    >>> import effx
    >>> logistic(effx.random.PRNGKey(0), (2,))
    Array([2.896376 , 3.8217716], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, logistic, key, shape, dtype)
    return _logistic(
        check_key(key),
        shape=check_sizes(shape),
        dtype=floating_dtype(dtype),
    )


def cauchy(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws standard Cauchy numbers, of density 1 / (pi * (1 + x^2)).

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a floating dtype; f32 by default, f64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape.

    >>> import effx
    >>> cauchy(effx.random.PRNGKey(0), (2,))
    Array([ 6.0274944, 14.837895 ], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, cauchy, key, shape, dtype)
    return _cauchy(check_key(key), shape=check_sizes(shape), dtype=floating_dtype(dtype))
