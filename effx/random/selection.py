"""Drawing from arrays: permutations and choices."""

import math
from collections.abc import Iterable
from operator import index

from effx import dtypes
from effx.array import Array, Operand, indexing, reducing
from effx.array.arithmetic import where
from effx.array.promotion import as_operand, broadcast_to, convert, convert_whole_float
from effx.array.shaping import normalize_axis, reshape
from effx.errors import DTypeError, ShapeError
from effx.families.sort import Sort
from effx.ir.ops.shape import Iota, Slice
from effx.ir.ops.sizes import SizeValue
from effx.ir.sizes.bounds import bounds
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import Shape, array_type
from effx.ir.values.scalars import scalar
from effx.lax.operands import element_count
from effx.lax.sorting import top_k
from effx.numpy.sorting import searchsorted
from effx.random.arguments import ShapeLike, check_gumbel_mode, check_key, check_sizes
from effx.random.discrete import randint
from effx.random.floats import GUMBEL_FLOATS, unit_floats
from effx.random.generators import random_bits, select_key, split_key
from effx.transforms.jit.jit import jit
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = ["choice", "permutation"]


def _check_sequence(shape: ShapeLike) -> ShapeLike:
    if not isinstance(shape, Iterable):
        raise ShapeError(f"choice: shape must be a sequence of ints, got {shape!r}")
    return shape


def permutation(
    key: Operand, x: Operand, axis: int = 0, independent: bool = False, *, out_sharding: OutSharding = None
) -> Array:
    """Draws a permutation of an array, or of 0, 1, …, x - 1.

    Args:
        key: a key, not to be used again.
        x: an array, or an integer for the numbers below it.
        axis: the axis along which to permute; negative ones count from the end.
        independent: False to move whole slices, True to permute each line along the axis by itself.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array of x's shape and dtype, or of integers `[x]`.

    Raises:
        DTypeError: it is no key, or x is a scalar but no integer.
        ShapeError: the axis is out of range, or x is negative.

    >>> import effx
    >>> permutation(effx.random.PRNGKey(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, permutation, key, x, axis, independent)
    checked_key = check_key(key)
    array = as_operand(x)
    t = array.type
    if not t.shape:
        if t.kind not in "iu":
            raise DTypeError(f"permutation: x must be an integer or have an axis, got {t!r}")
        n = index(x) if isinstance(x, int) else int(array)
        if n < 0:
            raise ShapeError(f"permutation: x must not be negative, got {n}")
        normalize_axis(axis, 1)
        return _permuted_range(checked_key, n=n, dtype=t.dtype)
    return _permuted(checked_key, array, axis=normalize_axis(axis, t.ndim, t), independent=bool(independent))


def _permuted_range_body(key: Array, n: int, dtype: dtypes.DType) -> Array:
    return _shuffle_axis(key, Iota(array_type(dtype, (n,)), 0)(), 0)


def _permuted_body(key: Array, x: Array, axis: int, independent: bool) -> Array:
    if independent or x.type.ndim == 1:
        return _shuffle_axis(key, x, axis)
    shuffled_indices = _shuffle_axis(
        key, Iota(array_type(dtypes.canonicalize(int), (x.type.shape[axis],)), 0)(), 0
    )
    return indexing.take(x, shuffled_indices, axis, "clip")


def _shuffle_axis(key: Array, x: Array, axis: int) -> Array:
    # Sorting by random 32-bit words. Of many elements some get equal words and stay in order, which
    # is no uniform permutation; r rounds see about n^2 / 2^(32 r) collisions, so that n^3 < 2^(32 r) will do.
    # A symbolic number of elements is assumed to be below 2^32, unless its scope has a bound: then each has its own
    # rounds.
    elements = x.type.size
    least, most = [int(n) if n < 2**32 else 2**32 - 1 for n in bounds(elements)]
    if is_symbolic(elements) and most == 2**32 - 1:
        least = most
    for done in range(_round_count(most)):
        keys = split_key(key, (2,))
        key, round_key = [select_key(keys, i) for i in range(2)]
        y = Sort(axis)(random_bits(round_key, 32, x.type.shape), x)[1]
        x = y if done < _round_count(least) else where(SizeValue(elements)() > _largest_size(done), y, x)
    return x


def _round_count(elements: int) -> int:
    return math.ceil(3 * math.log(max(1, elements)) / math.log(2**32 - 1))


def _largest_size(rounds: int) -> int:
    """Returns the largest number of elements for so many rounds."""
    return next(n for n in range(int((2**32 - 1) ** (rounds / 3)) + 1, 0, -1) if _round_count(n) <= rounds)


def choice(
    key: Operand,
    a: Operand,
    shape: ShapeLike = (),
    replace: bool = True,
    p: Operand | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Draws slices of an array, or numbers below an integer.

    Args:
        key: a key, not to be used again.
        a: an array, or an integer for the numbers below it.
        shape: of the draws.
        replace: whether a slice may be drawn more than once.
        p: probabilities `[n]` of the n slices; by default all are equal.
        axis: the axis of a along which to draw; negative ones count from the end.
        mode: of the Gumbel noise that draws by probabilities without replacement: "high" for a longer upper tail;
            None is "low".

    Returns:
        An array with `shape` instead of a's axis, or of integers.

    Raises:
        DTypeError: it is no key, a is a scalar but no integer, or p is complex.
        ShapeError: the axis is out of range, p has another size, a is empty, or there are too few slices to
            draw without replacement.

    >>> import effx, numpy as np
    >>> choice(effx.random.PRNGKey(0), 5, (3,), replace=False)
    Array([0, 1, 4], dtype=int32)
    >>> choice(effx.random.PRNGKey(0), np.array([1.5, 2.5]), (4,), p=np.array([0.1, 0.9]))
    Array([1.5, 1.5, 2.5, 2.5], dtype=float32)
    """
    checked_key, sizes, noise_mode = (
        check_key(key),
        check_sizes(_check_sequence(shape)),
        check_gumbel_mode(mode),
    )
    a = convert_whole_float(a)
    array = as_operand(a)
    t = array.type
    if t.shape:
        resolved_axis = normalize_axis(axis, t.ndim, t)
        n = t.shape[resolved_axis]
    else:
        if t.kind not in "iu":
            raise DTypeError(f"choice: a must be an integer or have an axis, got {t!r}")
        resolved_axis, n = 0, index(a) if isinstance(a, int) else int(array)
    count = element_count(sizes)
    if count and n <= 0:
        raise ShapeError(f"choice: there is nothing to draw from: a has {n} elements")
    if not replace and count > n:
        raise ShapeError(f"choice: cannot draw {count} of {n} elements without replacement")
    if p is None and replace and count:
        indices = randint(checked_key, sizes, 0, n)  # the bound is an argument: one program for all of them
    elif p is None:
        indices = _places(checked_key, n=n, shape=sizes)
    else:
        chances = as_operand(p).type
        if chances.shape != (n,):
            raise ShapeError(f"choice: p must have shape [{n}], one chance for each element, got {chances!r}")
        if chances.kind == "c":
            raise DTypeError(f"choice: p must be real, got {chances!r}")
        indices = _weighted_places(checked_key, p, shape=sizes, replace=bool(replace), mode=noise_mode)
    return indexing.take(array, indices, resolved_axis, "clip") if t.shape else indices


def _indices_body(key: Array, n: int, shape: Shape) -> Array:
    dtype = dtypes.canonicalize(int)
    if not element_count(shape):
        return broadcast_to(scalar(0, dtype, False), shape)
    order = _permuted_range_body(key, n, dtype)
    return reshape(Slice((0,), (element_count(shape),), (1,))(order), shape)


def _weighted_indices_body(key: Array, p: Operand, shape: Shape, replace: bool, mode: str) -> Array:
    chances = as_operand(p)
    if chances.type.kind != "f":
        chances = convert(chances, dtypes.canonicalize(float))
    dtype = dtypes.canonicalize(int)
    if not element_count(shape):
        return broadcast_to(scalar(0, dtype, False), shape)
    if replace:
        # The inverse of the distribution function, at a point in (0, total].
        sums = reducing.cumsum(chances)
        n = chances.type.shape[0]
        total = reshape(Slice((n - 1,), (n,), (1,))(sums), ())
        points = total * (1.0 - unit_floats(key, shape, chances.type.dtype))
        # The number of sums below a point, in one loop: unrolled, each step would draw the points again.
        return convert(searchsorted(sums, points), dtype)
    # The largest of log probability plus Gumbel noise, as in `categorical`.
    from effx.ir.ops.elementwise import Log

    noise = GUMBEL_FLOATS[mode](key, chances.type.shape, chances.type.dtype)
    scores = noise + Log()(chances)
    return convert(reshape(top_k(scores, element_count(shape))[1], shape), dtype)


_permuted_range = jit(_permuted_range_body, static_argnames=("n", "dtype"))
_permuted = jit(_permuted_body, static_argnames=("axis", "independent"))
_places = jit(_indices_body, static_argnames=("n", "shape"))
_weighted_places = jit(_weighted_indices_body, static_argnames=("shape", "replace", "mode"))
