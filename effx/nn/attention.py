"""Attention: averages of values, weighted by the softmax of products of queries and keys."""

from operator import index
from typing import Literal, overload

import attrs

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import resolve_precision, where
from effx.array.indexing import count_up
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.array.shaping import expand_dims, reshape, transpose
from effx.errors import DTypeError, OptionError, ShapeError
from effx.families.attention import FusedAttention, least_logit
from effx.ir.ops.convert import StopGradient
from effx.ir.ops.linalg import DotGeneral
from effx.ir.values.scalars import scalar
from effx.nn.exponentials import logsumexp, softmax
from effx.nn.streaming import AttentionPairs, attend_in_blocks

__all__ = ["dot_product_attention"]

WHAT = "dot_product_attention"
LENGTHS = ("query_seq_lengths", "key_value_seq_lengths")


@overload
def dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    bias: Operand | None = None,
    mask: Operand | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Operand | None = None,
    key_value_seq_lengths: Operand | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn", "blocks"] | None = None,
    return_residual: Literal[False] = False,
) -> Array: ...
@overload
def dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    bias: Operand | None = None,
    mask: Operand | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Operand | None = None,
    key_value_seq_lengths: Operand | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn", "blocks"] | None = None,
    return_residual: Literal[True],
) -> tuple[Array, Array]: ...
def dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    bias: Operand | None = None,
    mask: Operand | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Operand | None = None,
    key_value_seq_lengths: Operand | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn", "blocks"] | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """Averages the values, for each query by the softmax of its products with the keys.

    Source: Vaswani et al., "Attention is all you need", 2017; with fewer keys than queries' heads Ainslie et al.,
    "GQA", 2023.

    Args:
        query: `[b, t, n, h]` floats for `n` heads, or `[t, n, h]`.
        key, value: `[b, s, k, h]` or `[s, k, h]` of the same dtype; each serves `n / k` heads in a row.
        bias: added to the products; broadcast to `[b, n, t, s]`.
        mask: bool; True for the pairs that take part; broadcast to `[b, n, t, s]`.
        scale: of the products; by default `1 / sqrt(h)`.
        is_causal: True to leave out keys behind the query.
        query_seq_lengths, key_value_seq_lengths: i32 `[b]`: how many queries and keys there are; results of the other
            queries are 0.
        local_window_size: how many keys before and behind the query take part; one int for both.
        implementation: "xla" or None; "blocks" to go through the keys in blocks of 128, and once more for the gradient:
            the residuals grow as `t + s`, not as `t * s`, and a third more is computed; "cudnn" for cuDNN's kernels on
            NVIDIA GPUs, with such residuals too. These take float16 and bfloat16, heads of a multiple of 8 elements up to
            256 (128 before compute capability 9.0), windows before the query, and known sizes; with a bias or mask,
            gradients only of even numbers of queries and keys. They have no forward mode and no second derivatives.
        return_residual: True to return logsumexp of the products too, as a constant.

    Returns:
        An array of query's shape, and for `return_residual` one without the last axis. A query for which no key
        takes part gets the mean of all values; from cuDNN it gets some average of them, or 0.

    Raises:
        ShapeError, DTypeError: shapes or dtypes do not fit.
        OptionError: cuDNN has no such window.
        BackendError: cuDNN's kernels would run on another platform than "cuda".

    >>> import numpy as np
    >>> q, kv = np.ones((2, 1, 4), np.float32), np.arange(8, dtype=np.float32).reshape(2, 1, 4)
    >>> dot_product_attention(q, kv, kv, is_causal=True)[0, 0]
    Array([0., 1., 2., 3.], dtype=float32)
    """
    if implementation not in (None, "xla", "cudnn", "blocks"):
        raise OptionError(
            f"{WHAT}: implementation must be 'xla', 'cudnn', 'blocks' or None, got {implementation!r}"
        )
    query_array = as_operand(query)
    q, k, v = [_to_rank_4(name, x) for name, x in (("query", query), ("key", key), ("value", value))]
    b, s, heads, h = k.type.shape
    t, n = q.type.shape[1:3]
    if v.type.shape != k.type.shape or q.type.shape != (b, t, n, h):
        raise ShapeError(
            f"{WHAT}: query must be [b, t, n, h], key and value [b, s, k, h], got {q.type!r}, {k.type!r} and {v.type!r}"
        )
    if k.type.kind != "f" or not q.type.dtype == k.type.dtype == v.type.dtype:
        raise DTypeError(
            f"{WHAT}: query, key and value must be of one floating dtype, got {q.type!r}, {k.type!r} and {v.type!r}"
        )
    if heads == 0 or n % heads:
        raise ShapeError(
            f"{WHAT}: the number of heads of query must be a multiple of that of key, got {n} and {heads}"
        )
    dtype = dtypes.promote_types(k.type.dtype, dtypes.float32)
    shape = (b, n, t, s)
    factor = h**-0.5 if scale is None else scale
    if implementation == "cudnn":
        lengths = query_seq_lengths, key_value_seq_lengths
        operands, op = _describe_for_cudnn(q, k, v, factor, bias, mask, is_causal, lengths, local_window_size)
        means, *logsums = attrs.evolve(op, sums=return_residual)(*operands)
        return _finish_attention(
            query_array, means, transpose(logsums[0], (0, 2, 1)) if logsums else None, query_seq_lengths
        )
    if implementation == "blocks" and s:
        width = None if local_window_size is None else _window_sizes(local_window_size)
        pairs = AttentionPairs(
            None if bias is None else _to_pair_rank("bias", bias, shape),
            None if mask is None else _to_bool(_to_pair_rank("mask", mask, shape)),
            is_causal,
            width,
            None
            if query_seq_lengths is None
            else _is_within_length("query_seq_lengths", query_seq_lengths, b, t),
            None
            if key_value_seq_lengths is None
            else _is_within_length("key_value_seq_lengths", key_value_seq_lengths, b, s),
        )
        result, sums = attend_in_blocks(q, k, v, factor, pairs)
        return _finish_attention(query_array, result, sums if return_residual else None, query_seq_lengths)
    # [b, k, t, n / k, s], then heads together.
    grouped = reshape(q, (b, t, heads, n // heads, h))
    products = DotGeneral((4,), (3,), (0, 2), (0, 2), resolve_precision(None), dtype)(grouped, k)
    logits = reshape(transpose(products, (0, 1, 3, 2, 4)), shape)
    logits = logits * scalar(factor, dtype, False)
    if bias is not None:
        logits = convert(logits + _broadcast_to_pairs("bias", bias, shape), dtype)
    taking = _attention_mask(
        shape, mask, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size
    )
    if taking is not None:
        # A finite number, so that a query without keys has a softmax.
        logits = where(taking, logits, scalar(-0.7 * float(dtypes.finfo(dtype).max), dtype, False))
    weights = reshape(convert(softmax(logits, -1), k.type.dtype), (b, heads, n // heads, t, s))
    means = DotGeneral((4,), (1,), (0, 1), (0, 2), resolve_precision(None))(weights, v)  # [b, k, n / k, t, h]
    result = reshape(transpose(means, (0, 3, 1, 2, 4)), (b, t, n, h))
    residual = transpose(logsumexp(logits, -1), (0, 2, 1)) if return_residual else None
    return _finish_attention(query_array, result, residual, query_seq_lengths)


def _finish_attention(
    query: Array, result: Array, sums: Array | None, query_lengths: Operand | None
) -> Array | tuple[Array, Array]:
    """Makes results behind the queries' lengths 0, and gives them and the sums, if there are any, the query's shape."""
    b, t = result.type.shape[:2]
    if query_lengths is not None:
        counted = _is_within_length("query_seq_lengths", query_lengths, b, t)
        result = where(reshape(counted, (b, t, 1, 1)), result, scalar(0.0, result.type.dtype, False))
    result = reshape(result, query.type.shape)
    if sums is None:
        return result
    sums = convert(sums, query.type.dtype)
    return result, StopGradient()(reshape(sums, query.type.shape[:-1]))


def _describe_for_cudnn(
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    bias: Operand | None,
    mask: Operand | None,
    is_causal: bool,
    lengths: tuple[Operand | None, Operand | None],
    window: int | tuple[int, int] | None,
) -> tuple[list[Array], FusedAttention]:
    """Returns the operands of cuDNN's kernel and the operation that calls it; a mask is a bias there."""
    (b, t, n, _), s, dtype = q.type.shape, k.type.shape[1], q.type.dtype
    largest = 0
    if window is not None:
        before, after = _window_sizes(window)
        if before < 0 or after < 0 or (after and not is_causal):
            raise OptionError(
                f"{WHAT}: implementation='cudnn' takes windows (before, 0), and with is_causal=True (before, after), none "
                f"of it negative, got {window!r}"
            )
        largest, is_causal = before + 1, True
    operands = [q, k, v]
    pair_bias = None if bias is None else convert(_to_pair_rank("bias", bias, (b, n, t, s)), dtype)
    if mask is not None:
        taking = _to_bool(_to_pair_rank("mask", mask, (b, n, t, s)))
        pair_bias = scalar(0.0, dtype, False) if pair_bias is None else pair_bias
        pair_bias = where(taking, pair_bias, scalar(least_logit(dtype), dtype, False))
    if pair_bias is not None:
        operands.append(broadcast_to(pair_bias, (*pair_bias.type.shape[:2], t, s)))
    is_padded = any([x is not None for x in lengths])
    if is_padded:
        for name, given, size in zip(LENGTHS, lengths, (t, s), strict=True):
            whole = broadcast_to(scalar(size, dtypes.int32, False), (b,))
            operands.append(whole if given is None else _to_lengths(name, given, b))
    op = FusedAttention(float(scale), is_causal, largest, pair_bias is not None, is_padded)
    return operands, op


def _to_rank_4(name: str, x: Operand) -> Array:
    array = as_operand(x)
    if array.type.ndim not in (3, 4):
        raise ShapeError(f"{WHAT}: {name} must have 3 or 4 axes, got {array.type!r}")
    return array if array.type.ndim == 4 else reshape(array, (1, *array.type.shape))


def _to_pair_rank(name: str, x: Operand, shape: tuple[int, ...]) -> Array:
    """Returns a bias or mask with four axes, of sizes that broadcast to the pairs of queries and keys."""
    array = as_operand(x)
    sizes = (1,) * (4 - array.type.ndim) + array.type.shape
    if len(sizes) != 4 or any([m not in (1, n) for m, n in zip(sizes, shape, strict=True)]):
        raise ShapeError(f"{WHAT}: {name} must broadcast to [b, n, t, s] = {list(shape)}, got {array.type!r}")
    return reshape(array, sizes)


def _broadcast_to_pairs(name: str, x: Operand, shape: tuple[int, ...]) -> Array:
    """Broadcasts a bias or mask to the pairs of queries and keys."""
    return broadcast_to(_to_pair_rank(name, x, shape), shape)


def _to_bool(mask: Array) -> Array:
    if mask.type.kind != "b":
        raise DTypeError(f"{WHAT}: mask must be bool, got {mask.type!r}; add other masks as bias")
    return mask


def _window_sizes(size: int | tuple[int, int]) -> tuple[int, int]:
    before, after = size if isinstance(size, tuple) else (size, size)
    return index(before), index(after)


def _to_lengths(name: str, lengths: Operand, b: int) -> Array:
    array = as_operand(lengths)
    if array.type.shape != (b,) or array.type.dtype != dtypes.int32:
        raise ShapeError(f"{WHAT}: {name} must be i32[{b}], got {array.type!r}")
    return array


def _is_within_length(name: str, lengths: Operand, b: int, size: int) -> Array:
    """Says of each location along an axis of `size` whether it is within each batch element's length."""
    return expand_dims(count_up(size), 0) < reshape(_to_lengths(name, lengths, b), (b, 1))


def _find_near_pairs(t: int, s: int, is_causal: bool, window: int | tuple[int, int] | None) -> Array:
    """Says which keys `[t, s]` are near a query and, if causal, not ahead of it.

    It is computed, since a kernel that reads it as a constant is not fused with the products on TPUs.
    """
    before, after = (None, 0) if window is None else _window_sizes(window)
    farthest = min(after, 0) if is_causal else after
    ahead: Array = expand_dims(count_up(s), 0) - expand_dims(count_up(t), 1)
    near: Array = ahead <= farthest
    return near if before is None else near & (ahead >= -before)


def _attention_mask(
    shape: tuple[int, ...],
    mask: Operand | None,
    is_causal: bool,
    query_lengths: Operand | None,
    key_lengths: Operand | None,
    window: int | tuple[int, int] | None,
) -> Array | None:
    """Says which pairs of queries and keys take part; None for all."""
    b, _, t, s = shape
    parts: list[Array] = []
    if mask is not None:
        parts.append(_to_bool(_broadcast_to_pairs("mask", mask, shape)))
    if is_causal or window is not None:
        parts.append(broadcast_to(_find_near_pairs(t, s, is_causal, window), shape))
    for name, lengths, size, target_shape in (
        (LENGTHS[0], query_lengths, t, (b, 1, t, 1)),
        (LENGTHS[1], key_lengths, s, (b, 1, 1, s)),
    ):
        if lengths is not None:
            parts.append(
                broadcast_to(reshape(_is_within_length(name, lengths, b, size), target_shape), shape)
            )
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = result & part
    return result
