"""Samplers of integers, booleans and bits."""

from effx import dtypes
from effx.array import Array, Operand, reducing
from effx.array.arithmetic import inexact_dtype, where
from effx.array.promotion import as_operand, broadcast_to, convert, convert_whole_float
from effx.array.shaping import moveaxis, normalize_axis, reshape
from effx.dtypes import DType, DTypeLike
from effx.effects import perform
from effx.errors import DTypeError, OptionError, ShapeError
from effx.ir.ops import elementwise as e
from effx.ir.types import Shape
from effx.ir.values.scalars import scalar
from effx.lax.operands import element_count
from effx.lax.sorting import top_k
from effx.random.arguments import (
    ShapeLike,
    can_broadcast,
    check_gumbel_mode,
    check_key,
    check_sample_shape,
    check_sizes,
    is_high_precision,
)
from effx.random.floats import GUMBEL_FLOATS, uniform_floats, unit_floats
from effx.random.generators import random_bits, select_key, split_key
from effx.random.threefry import unsigned_dtype
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = ["bernoulli", "bits", "categorical", "rademacher", "randint"]

REM = e.Rem()


def bits(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws random bits.

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: an unsigned integer dtype of 8 to 64 bits; u32 by default, u64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape.

    >>> import effx
    >>> bits(effx.random.PRNGKey(0), (2,), "uint8")
    Array([167, 146], dtype=uint8)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, bits, key, shape, dtype)
    result_dtype = dtypes.canonicalize("uint64") if dtype is None else dtypes.canonicalize_requested(dtype)
    if not dtypes.is_unsigned(result_dtype) or dtypes.bits(result_dtype) < 8:
        raise DTypeError(f"bits: the dtype must be an unsigned integer of 8 to 64 bits, got {result_dtype}")
    return _bits(check_key(key), width=dtypes.bits(result_dtype), shape=check_sizes(shape))


def randint(
    key: Operand,
    shape: ShapeLike,
    minval: Operand,
    maxval: Operand,
    dtype: "DTypeLike | None" = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws integers that are uniform in [minval, maxval).

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        minval, maxval: integers that broadcast to the shape, clipped to the dtype's range. Where `maxval` is
            not above `minval`, the result is `minval`.
        dtype: an integer dtype of 8 to 64 bits; i32 by default, i64 with `enable_x64`.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape, or the bounds do not broadcast to it.

    >>> import effx
    >>> randint(effx.random.PRNGKey(0), (4,), 0, 10)
    Array([9, 0, 2, 3], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, randint, key, shape, minval, maxval, dtype)
    result_dtype = dtypes.canonicalize_requested(int if dtype is None else dtype)
    if not dtypes.is_integer(result_dtype) or dtypes.bits(result_dtype) < 8:
        raise DTypeError(f"randint: the dtype must be an integer of 8 to 64 bits, got {result_dtype}")
    minval, maxval = convert_whole_float(minval), convert_whole_float(maxval)
    sizes = check_sample_shape(shape, minval, maxval)
    for bound in (minval, maxval):
        t = as_operand(bound).type
        if t.kind not in "biu":
            raise DTypeError(f"randint: bounds must be integers, got {t!r}")
    return _randint(check_key(key), minval, maxval, shape=sizes, dtype=result_dtype)


def randint_integers(key: Array, minval: Operand, maxval: Operand, shape: Shape, dtype: DType) -> Array:
    """Returns integers that are uniform in [minval, maxval)."""
    # Narrow integers are drawn as i32, which holds the upper bound of each interval.
    work = dtype if dtypes.bits(dtype) >= 32 else dtypes.int32
    wide, info = unsigned_dtype(dtypes.bits(work)), dtypes.iinfo(dtype)
    smallest, largest = int(info.min), int(info.max)
    beyond = _is_above(as_operand(maxval), largest)
    end = largest + (work is not dtype)
    low, high = [
        broadcast_to(x, shape) if x.type.shape else x
        for x in (
            _clip(as_operand(minval), work, smallest, largest),
            _clip(as_operand(maxval), work, smallest, end),
        )
    ]
    beyond = broadcast_to(beyond, shape) if beyond.type.shape else beyond
    keys = split_key(key, (2,))
    upper, lower = [random_bits(select_key(keys, i), dtypes.bits(work), shape) for i in range(2)]
    one = scalar(1, wide)
    span = where(high <= low, one, convert(perform(e.Sub(), (high, low)), wide))
    if work is dtype:
        # With maxval above the dtype's range the span may wrap to 0, which means 2^width: a remainder by 0 is
        # the dividend.
        span = where(beyond & (high > low), span + one, span)
    # Twice the width of random bits, reduced by the span: (upper * 2^width + lower) mod span.
    half = perform(REM, (scalar(2 ** (dtypes.bits(work) // 2), wide), span))
    factor = perform(REM, (half * half, span))
    offset = perform(REM, (perform(REM, (upper, span)) * factor + perform(REM, (lower, span)), span))
    return convert(low + convert(offset, work), dtype)


def _is_above(x: Array, bound: int) -> Array:
    info = dtypes.iinfo(x.type.dtype) if x.type.kind in "iu" else None
    if info is None or bound > int(info.max):
        return x != x
    return x > bound


def _clip(x: Array, dtype: DType, smallest: int, largest: int) -> Array:
    if x.type.kind == "b":
        return convert(x, dtype)
    own = dtypes.iinfo(x.type.dtype)
    low, high = max(int(own.min), smallest), min(int(own.max), largest)
    if low > int(own.min) or high < int(own.max):
        x = perform(e.Clamp(), (scalar(low, x.type.dtype), x, scalar(high, x.type.dtype)))
    return convert(x, dtype)


def bernoulli(
    key: Operand,
    p: Operand = 0.5,
    shape: ShapeLike | None = None,
    mode: str = "low",
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws booleans.

    Args:
        key: a key, not to be used again.
        p: probabilities of True, floating.
        shape: the result's shape, to which p broadcasts; by default p's.
        mode: "high" for twice the random bits, which small probabilities need; or "low".
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        A boolean array of the shape.

    Raises:
        DTypeError: it is no key, p is not floating, or there is no such mode.
        ShapeError: it is no shape, or p does not broadcast to it.

    >>> import effx
    >>> bernoulli(effx.random.PRNGKey(0), 0.5, (3,))
    Array([False, False,  True], dtype=bool)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, bernoulli, key, p, shape, mode)
    t = as_operand(p).type
    if t.kind != "f":
        raise DTypeError(f"bernoulli: the probability must be floating, got {t!r}")
    if mode is None:
        raise OptionError("bernoulli: mode must be 'high' or 'low', got None")
    draw = _fine_bernoulli if is_high_precision(mode) else _bernoulli
    return draw(check_key(key), p, shape=check_sample_shape(shape, p))


def _bernoulli_body(key: Array, p: Operand, shape: Shape) -> Array:
    chance = as_operand(p)
    chance = broadcast_to(chance, shape) if chance.type.shape else chance
    return uniform_floats(key, shape, chance.type.dtype) < chance


def _fine_bernoulli_body(key: Array, p: Operand, shape: Shape) -> Array:
    chance = as_operand(p)
    chance = broadcast_to(chance, shape) if chance.type.shape else chance
    dtype = chance.type.dtype
    coarse, fine = [select_key(unit_floats(key, (2, *shape), dtype), i) for i in range(2)]
    # The finer digits against what the coarse ones leave of the probability, which is exact near 0.
    return fine * scalar(2.0 ** -int(dtypes.finfo(dtype).nmant), dtype) < chance - coarse


def rademacher(
    key: Operand, shape: ShapeLike = (), dtype: "DTypeLike | None" = None, *, out_sharding: OutSharding = None
) -> Array:
    """Draws -1 and 1 with equal probability.

    Args:
        key: a key, not to be used again.
        shape: the result's shape.
        dtype: a signed integer, floating or complex dtype; i32 by default, i64 with `enable_x64`.
        out_sharding: the sharding of the result; by default replicated.

    Returns:
        An array of the shape and dtype.

    Raises:
        DTypeError: it is no key, or the dtype is another.
        ShapeError: it is no shape.

    >>> import effx
    >>> rademacher(effx.random.PRNGKey(0), (3,))
    Array([-1, -1,  1], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, rademacher, key, shape, dtype)
    result_dtype = dtypes.canonicalize_requested(int if dtype is None else dtype)
    if result_dtype == dtypes.bool_ or dtypes.is_unsigned(result_dtype):
        raise DTypeError(
            f"rademacher: the dtype must be signed integer, floating or complex, got {result_dtype}"
        )
    return _rademacher(check_key(key), shape=check_sizes(shape), dtype=result_dtype)


def rademacher_signs(key: Array, shape: Shape, dtype: DType) -> Array:
    """Returns -1 and 1 with equal probability."""
    heads = uniform_floats(key, shape, dtypes.canonicalize(float)) < 0.5
    return where(heads, scalar(1, dtype, False), scalar(-1, dtype, False))


def categorical(
    key: Operand,
    logits: Operand,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Draws indices with probabilities proportional to exp(logits). The draw is the index of the largest sum
    of logit and Gumbel noise; without replacement, the indices of the largest sums. Source: Kool, van Hoof,
    Welling, "Stochastic beams and where to find them", ICML 2019.

    Args:
        key: a key, not to be used again.
        logits: unnormalised log probabilities `[*b, n]`, with the n categories along `axis`.
        axis: the categories' axis; negative ones count from the end.
        shape: the result's shape, whose last axes are those of the logits without `axis`; by default
            just these.
        replace: False to draw different categories along the leading axes of the shape.
        mode: of the Gumbel noise: "high" or "highest" for a longer upper tail; None is "low".
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An integer array of the shape: indices along the axis.

    Raises:
        DTypeError: it is no key, or the logits are complex.
        ShapeError: the axis is out of range, the shape does not fit, or there are too few categories to draw
            without replacement.

    >>> import effx, numpy as np
    >>> categorical(effx.random.PRNGKey(0), np.log([0.5, 0.25, 0.25]), shape=(5,))
    Array([1, 0, 2, 1, 2], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, categorical, key, logits, axis, shape, replace, mode)
    t = as_operand(logits).type
    if t.kind == "c":
        raise DTypeError(f"categorical: logits must be real, got {t!r}")
    resolved_axis = normalize_axis(axis, t.ndim, t)
    batch = (*t.shape[:resolved_axis], *t.shape[resolved_axis + 1 :])
    sizes = batch if shape is None else check_sizes(shape)
    if len(sizes) < len(batch) or not can_broadcast(batch, sizes[len(sizes) - len(batch) :]):
        raise ShapeError(
            f"categorical: shape {list(sizes)} does not end in {list(batch)}, the batch axes of {t!r}"
        )
    if t.shape[resolved_axis] == 0:
        raise ShapeError(f"categorical: axis {resolved_axis} of {t!r} holds no categories")
    prefix = sizes[: len(sizes) - len(batch)]
    checked_key, noise = check_key(key), check_gumbel_mode(mode)
    if replace:
        rest = sizes[len(prefix) :]
        return _categorical(checked_key, logits, axis=resolved_axis, prefix=prefix, batch=rest, mode=noise)
    if element_count(prefix) > t.shape[resolved_axis]:
        raise ShapeError(
            f"categorical: cannot draw {element_count(prefix)} different categories from the {t.shape[resolved_axis]} "
            f"of {t!r}"
        )
    return _categorical_distinct(checked_key, logits, axis=resolved_axis, prefix=prefix, mode=noise)


def _categorical_body(
    key: Array, logits: Operand, axis: int, prefix: Shape, batch: Shape, mode: str
) -> Array:
    x = _check_inexact(logits)
    n = x.type.shape[axis]
    noise_shape = (*prefix, *batch[:axis], n, *batch[axis:])
    noise = GUMBEL_FLOATS[mode](key, noise_shape, x.type.dtype)
    return reducing.argmax(noise + broadcast_to(x, noise_shape), axis + len(prefix))


def _categorical_distinct_body(key: Array, logits: Operand, axis: int, prefix: Shape, mode: str) -> Array:
    x = _check_inexact(logits)
    scores = x + GUMBEL_FLOATS[mode](key, x.type.shape, x.type.dtype)
    top_indices = top_k(scores, element_count(prefix), axis=axis)[1]
    moved = moveaxis(top_indices, axis, 0)
    return reshape(moved, (*prefix, *moved.type.shape[1:]))


def _check_inexact(x: Operand) -> Array:
    array = as_operand(x)
    return convert(array, inexact_dtype(array.type.dtype))


_bits = jit(random_bits, static_argnames=("width", "shape"))
_randint = jit(randint_integers, static_argnames=("shape", "dtype"))
_bernoulli = jit(_bernoulli_body, static_argnames=("shape",))
_fine_bernoulli = jit(_fine_bernoulli_body, static_argnames=("shape",))
_rademacher = jit(rademacher_signs, static_argnames=("shape", "dtype"))
_categorical = jit(_categorical_body, static_argnames=("axis", "prefix", "batch", "mode"))
_categorical_distinct = jit(_categorical_distinct_body, static_argnames=("axis", "prefix", "mode"))
