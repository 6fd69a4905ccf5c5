"""Attention over blocks of keys, with memory that is linear in the numbers of queries and of keys.

Source: Rabe and Staats, "Self-attention does not need O(n^2) memory", 2021; Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from effx import dtypes, lax
from effx.array import Array, arithmetic
from effx.array.arithmetic import resolve_precision, where
from effx.array.promotion import broadcast_to, convert, to_host_array
from effx.array.reducing import max as maximum
from effx.array.reducing import sum as total
from effx.array.shaping import moveaxis, reshape, transpose
from effx.effects import perform
from effx.ir.ops.convert import StopGradient
from effx.ir.ops.elementwise import Exp, Log
from effx.ir.ops.linalg import DotGeneral
from effx.ir.values.scalars import scalar
from effx.transforms.autodiff.checkpoint import checkpoint

BLOCK = 128


class AttentionPairs(NamedTuple):
    """Which pairs of queries and keys take part, none of it as large as all pairs unless it was given so.

    Attributes:
        bias, mask: of shape `[b|1, n|1, t|1, s|1]`.
        causal: whether keys behind the query are left out.
        window: how many keys before and behind the query take part.
        queries: bool `[b, t]`. keys: bool `[b, s]`.
    """

    bias: Array | None
    mask: Array | None
    causal: bool
    window: tuple[int, int] | None
    queries: Array | None
    keys: Array | None


Logits = Callable[[Array, tuple[Array, ...]], Array]


def attend_in_blocks(
    q: Array, k: Array, v: Array, scale: float, pairs: AttentionPairs
) -> tuple[Array, Array]:
    """Averages values in f32 or wider; returns `[b, t, n, h]` and the products' logsumexp `[b, t, n]`.

    The first pass finds the largest product of each query, a constant for derivatives. The sums of the second pass over
    blocks are linear in its carry, and each block is recomputed in the backward pass, so that the only residuals are
    the operands.
    """
    b, s, heads, h = k.type.shape
    t, n = q.type.shape[1:3]
    dtype = dtypes.promote_types(k.type.dtype, dtypes.float32)
    blocks = -(-s // BLOCK)
    grouped = reshape(q, (b, t, heads, n // heads, h))
    xs: list[Array] = [to_host_array(np.arange(blocks * BLOCK, dtype=np.int32).reshape(blocks, BLOCK))]
    xs += [_split_into_blocks(k, 1, blocks), _split_into_blocks(v, 1, blocks)]
    # Arrays for pairs that differ from key to key are split into blocks as the keys are.
    pair_arrays = [pairs.bias, pairs.mask, None if pairs.keys is None else reshape(pairs.keys, (b, 1, 1, s))]
    moving = [x is not None and x.type.shape[3] == s for x in pair_arrays]
    xs += [
        _split_into_blocks(x, 3, blocks)
        for x, moves in zip(pair_arrays, moving, strict=True)
        if moves and x is not None
    ]
    shape = (b, n, t, BLOCK)
    least = scalar(-0.7 * float(dtypes.finfo(dtype).max), dtype, False)

    def logits(block: list[Array]) -> Array:
        key_positions, keys, _, *cut = block
        parts = iter(cut)
        bias, mask, near = [next(parts) if moves else x for x, moves in zip(pair_arrays, moving, strict=True)]
        products = DotGeneral((4,), (3,), (0, 2), (0, 2), resolve_precision(None), dtype)(grouped, keys)
        result = reshape(transpose(products, (0, 1, 3, 2, 4)), shape) * scalar(scale, dtype, False)
        if bias is not None:
            result = convert(result + broadcast_to(bias, shape), dtype)
        parts_taken = [broadcast_to(x, shape) for x in (mask, near) if x is not None]
        ahead = reshape(key_positions, (1, BLOCK)) - to_host_array(np.arange(t, dtype=np.int32)[:, None])
        if pairs.causal:
            parts_taken.append(broadcast_to(ahead <= 0, shape))
        if pairs.window is not None:
            before, after = pairs.window
            parts_taken.append(broadcast_to((ahead >= -before) & (ahead <= after), shape))
        if pairs.queries is not None:
            parts_taken.append(broadcast_to(reshape(pairs.queries, (b, 1, t, 1)), shape))
        for pair_mask in parts_taken:
            result = where(pair_mask, result, least)
        if blocks * BLOCK == s:
            return result
        return where(broadcast_to(key_positions < s, shape), result, scalar(-np.inf, dtype, False))

    def largest(m: Array, block: list[Array]) -> tuple[Array, None]:
        return arithmetic.maximum(m, maximum(logits(block), -1)), None

    stop = StopGradient()
    start = broadcast_to(scalar(-np.inf, dtype, False), (b, n, t))
    m = perform(stop, (lax.scan(largest, start, xs)[0],))

    @checkpoint
    def part(block: list[Array]) -> tuple[Array, Array]:
        powers = perform(Exp(), (logits(block) - reshape(m, (b, n, t, 1)),))
        weights = reshape(convert(powers, v.type.dtype), (b, heads, n // heads, t, BLOCK))
        means = DotGeneral((4,), (1,), (0, 1), (0, 2), resolve_precision(None), dtype)(weights, block[2])
        return total(powers, -1), means

    def adding(sums: tuple[Array, Array], block: list[Array]) -> tuple[tuple[Array, Array], None]:
        count, means = part(block)
        return (sums[0] + count, sums[1] + means), None

    zeros = [
        broadcast_to(scalar(0.0, dtype, False), size) for size in ((b, n, t), (b, heads, n // heads, t, h))
    ]
    (count, means), _ = lax.scan(adding, (zeros[0], zeros[1]), xs)
    result = means / reshape(count, (b, heads, n // heads, t, 1))
    result = reshape(transpose(result, (0, 3, 1, 2, 4)), (b, t, n, h))
    return convert(result, v.type.dtype), transpose(m + perform(Log(), (count,)), (0, 2, 1))


def _split_into_blocks(x: Array, axis: int, blocks: int) -> Array:
    """Cuts an axis into blocks, the last one filled up with zeros, and puts them first."""
    shape = x.type.shape
    missing = blocks * BLOCK - shape[axis]
    if missing:
        edges = [(0, missing if i == axis else 0, 0) for i in range(len(shape))]
        x = lax.pad(x, scalar(False if x.type.kind == "b" else 0, x.type.dtype, False), edges)
    return moveaxis(reshape(x, (*shape[:axis], blocks, BLOCK, *shape[axis + 1 :])), axis, 0)
