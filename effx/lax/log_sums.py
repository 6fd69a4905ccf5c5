"""The cumulative logarithm of a sum of exponentials."""

import math

import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.promotion import as_operand, convert
from effx.array.shaping import moveaxis, reshape
from effx.effects import perform
from effx.errors import DTypeError, ShapeError
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.ops import shape as s
from effx.ir.ops.convert import StopGradient
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import array_type
from effx.ir.values.scalars import scalar
from effx.lax.control.branches import platform_dependent
from effx.lax.control.scans import scan
from effx.lax.operands import check_int
from effx.transforms.jit.jit import jit

__all__ = ["cumlogsumexp"]

# So many exponentials are computed in less time than further levels or a loop take to compile.
PAIRS = 1 << 16
# So many numbers fill vectors and stay in the cache from one iteration to the next.
# The form of the cumulative reductions, as functions: 0.1 to 0.3 of jax's time.
ROW = 256


def cumlogsumexp(operand: Operand, axis: int = 0, reverse: bool = False) -> Array:
    """Returns cumulative log(sum(exp(x))) along an axis, without overflow.

    Source: Hillis and Steele, "Data parallel algorithms", CACM 1986: log n steps of doubling; on a CPU one loop over
    blocks.

    Args:
        operand: floating.
        axis: the axis to combine along.
        reverse: whether to start at the end.

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: the operand is not floating.
        ShapeError: the axis is out of range.

    >>> import numpy as np
    >>> cumlogsumexp(np.array([1000., -np.inf], np.float32))
    Array([1000., 1000.], dtype=float32)
    """
    x, axis_index = as_operand(operand), check_int("axis", axis)
    if x.type.kind != "f":
        raise DTypeError(f"cumlogsumexp: the operand must be floating, got {x.type!r}")
    if not 0 <= axis_index < x.type.ndim:
        raise ShapeError(
            f"cumlogsumexp: axis {axis_index} is out of range for {x.type!r}, which has {x.type.ndim} axes"
        )
    if x.type.dtype.itemsize >= 4:
        return _cumulative(x, axis=axis_index, reverse=bool(reverse))
    # In 16 bits each step is rounded to three digits: 300,000 numbers gave 12.0 where 13.1 is right.
    wide = convert(x, dtypes.float32)
    return convert(_cumulative(wide, axis=axis_index, reverse=bool(reverse)), x.type.dtype, x.type.weak)


@jit(static_argnames=("axis", "reverse"), inline=True)
def _cumulative(x: Array, axis: int, reverse: bool) -> Array:
    t = x.type
    if reverse:
        flip = s.Reverse((axis,))
        return flip(_cumulative(flip(x), axis, False))
    cut = (math.prod(t.shape[:axis]), t.shape[axis], math.prod(t.shape[axis + 1 :]))
    x = reshape(x, cut)
    if has_symbolic(t.shape):
        x = _in_blocks(x)
    elif t.shape[axis] * t.size <= PAIRS:
        x = _cumulate_by_pairs(x)
    else:
        x = platform_dependent(x, cpu=_in_blocks, default=_cumulate_by_doubling)
    return reshape(x, t.shape)


def _cumulate_by_pairs(x: Array) -> Array:
    """Along axis 1 of three, from the exponentials of all pairs: few operations to compile."""
    outer, n, inner = x.type.shape
    pairs = (outer, n, n, inner)  # the second axis is the result's
    index = array_type(dtypes.int32, pairs)
    upto = s.Iota(index, 2)() <= s.Iota(index, 1)()
    lowest = scalar(-np.inf, x.type.dtype)
    included_values = perform(e.Select(), (upto, lowest, s.BroadcastInDim(pairs, (0, 2, 3))(x)))
    largest = perform(StopGradient(), (r.ReduceMax((2,), may_lose_nan=True)(included_values),))
    largest = perform(e.Select(), (perform(e.IsFinite(), (largest,)), scalar(0.0, x.type.dtype), largest))
    powers = perform(e.Exp(), (included_values - s.BroadcastInDim(pairs, (0, 1, 3))(largest),))
    total = r.ReduceSum((2,))(powers)
    # The logarithm of a sum of 0 would have an infinite derivative; it gets the derivative 0.
    empty = total == 0.0
    log = perform(e.Log(), (perform(e.Select(), (empty, total, scalar(1.0, x.type.dtype))),)) + largest
    return perform(e.Select(), (empty, log, lowest))


def _shift_later(x: Array, by: int) -> Array:
    """Moved along axis 1 of three to higher indices, and filled with -inf, which adds nothing."""
    return s.Pad((0, by, 0), (0, -by, 0), (0, 0, 0))(x, scalar(-np.inf, x.type.dtype))


def _cumulate_by_doubling(x: Array) -> Array:
    by = 1
    while by < x.type.shape[1]:
        x = _log_add_exp(x, _shift_later(x, by))
        by *= 2
    return x


def _in_blocks(x: Array) -> Array:
    """Along axis 1 of three: in a loop along all blocks of it at once; then to each what the blocks before it gave."""
    outer, n, inner = x.type.shape
    blocks = 1 if has_symbolic(x.type.shape) else max(1, min(ROW // (outer * inner), math.isqrt(n)))
    length = -(-n // blocks)
    lowest = scalar(-np.inf, x.type.dtype)
    padded = s.Pad((0, 0, 0), (0, blocks * length - n, 0), (0, 0, 0))(x, lowest)
    rows = moveaxis(reshape(padded, (outer, blocks, length, inner)), 2, 0)

    def step(running: Array, row: Array) -> tuple[Array, Array]:
        running = _log_add_exp(running, row)
        return running, running

    start = s.BroadcastInDim((outer, blocks, inner), ())(lowest)
    totals, block_sums = scan(step, start, rows)
    if blocks > 1:
        before = reshape(_shift_later(_cumulate_by_pairs(totals), 1), (1, outer, blocks, inner))
        block_sums = _log_add_exp(block_sums, s.BroadcastInDim(block_sums.type.shape, (0, 1, 2, 3))(before))
    back = reshape(moveaxis(block_sums, 0, 2), padded.type.shape)
    return s.Slice((0, 0, 0), (outer, n, inner), (1, 1, 1))(back)


def _log_add_exp(x: Array, y: Array) -> Array:
    # One comparison for both: where the operands are equal, the derivatives of the larger one, (1, 0), and of the
    # logarithm, (-1/2, 1/2), sum to halves. Equal infinities are their own sum.
    less = x < y
    high, low = perform(e.Select(), (less, x, y)), perform(e.Select(), (less, y, x))
    decay = low - high
    undefined = decay != decay
    decay = perform(e.Select(), (undefined, decay, scalar(0.0, x.type.dtype)))
    total = high + perform(e.Log1p(), (perform(e.Exp(), (decay,)),))
    return perform(e.Select(), (undefined, total, x + y))
