"""Attention as one kernel of cuDNN's, its backward pass, and the tangents that only transpose.

Never: used for other platforms than "cuda", where XLA has no such kernel; `effx.nn` has attention that runs everywhere.

Source: Dao, "FlashAttention-2", 2023; the calls' names and fields are those of XLA's `cublas_cudnn.h` and
`backend_configs.proto`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn, cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.promotion import broadcast_to, convert
from effx.array.reducing import sum as total
from effx.array.shaping import reshape
from effx.errors import BackendError, DTypeError, ShapeError, TransformError
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    Cotangent,
    LinearOperand,
    Tangent,
    TupleOperation,
    Var,
    Vmap,
    array_type,
    emits,
    jvp_rule,
    materialize,
    reference_rule,
    transpose_rule,
    vmap_rule,
)
from effx.ir.ops.base import check_int, types_text
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.values.described import HostData
from effx.lower.text.foreign_calls import STRINGS, custom_call_text, string_text

__all__ = ["FusedAttention", "FusedAttentionGradient", "FusedAttentionTangent", "least_logit"]

WHAT = "dot_product_attention"
LARGEST_HEAD = 256
BIAS = 3
_ELEMENTS = {dtypes.float16: "F16", dtypes.bfloat16: "BF16"}


def least_logit(dtype: dtypes.DType) -> float:
    """Returns the bias of pairs that do not take part.

    Its sum with a logit and its difference from another such sum are finite, unlike those of the dtype's least number.
    """
    return -(2.0**15) if dtype == dtypes.float16 else -(2.0**41)


# --- operations -----------------------------------------------------------------------------------


@attrs.frozen
class _Pairs:
    """What the three operations have in common: which pairs of queries and keys take part, and how.

    Attributes:
        scale: of the products of queries and keys.
        causal: whether keys behind the query are left out.
        window: how many keys, the query's own among them, take part at most; 0 for all. Wants `causal`.
        biased: whether there is a bias, and padded: whether there are lengths, among the operands.
    """

    scale: float
    causal: bool = False
    window: int = attrs.field(default=0, validator=check_int)
    biased: bool = False
    padded: bool = False

    @property
    def operand_count(self) -> int:
        """How many operands attention has: query, key and value, the bias, the lengths of queries and of keys."""
        return 3 + self.biased + 2 * self.padded

    def check(self, types: Sequence[ArrayType], extra: int = 0) -> None:
        """Checks the types of attention's operands, the first of `types`, before `extra` others.

        Raises:
            DTypeError, ShapeError: cuDNN has no attention of them.
        """
        count = self.operand_count + extra
        if len(types) != count:
            raise ShapeError(f"{WHAT}: cuDNN's kernel takes {count} operands, got {types_text(tuple(types))}")
        q, k, v = types[:3]
        if q.dtype not in _ELEMENTS or not q.dtype == k.dtype == v.dtype:
            raise DTypeError(
                f"{WHAT}: implementation='cudnn' takes query, key and value of float16 or bfloat16, got {q!r}, {k!r} and "
                f"{v!r}"
            )
        if any([has_symbolic(t.shape) for t in types]):
            raise ShapeError(
                f"{WHAT}: implementation='cudnn' takes known sizes, got {types_text(tuple(types))}"
            )
        if not (q.ndim == k.ndim == 4 and k.shape == v.shape and q.shape[::3] == k.shape[::3]):
            raise ShapeError(
                f"{WHAT}: query must be [b, t, n, h], key and value [b, s, k, h], got {q!r}, {k!r} and {v!r}"
            )
        h = q.shape[3]
        if h % 8 or not 0 < h <= LARGEST_HEAD:
            raise ShapeError(
                f"{WHAT}: implementation='cudnn' takes heads of a multiple of 8 elements, at most {LARGEST_HEAD} (128 "
                f"before compute capability 9.0), got {h}"
            )
        b, t, n, _ = q.shape
        s, heads = k.shape[1:3]
        if not heads or n % heads:
            raise ShapeError(
                f"{WHAT}: the number of heads of query must be a multiple of that of key, got {n} and {heads}"
            )
        if self.biased:
            bias = types[BIAS]
            if bias.dtype != q.dtype:
                raise DTypeError(
                    f"{WHAT}: cuDNN's kernel takes a bias of query's dtype, got {bias!r} for {q!r}"
                )
            if bias.ndim != 4 or any(
                [m not in w for m, w in zip(bias.shape, ((1, b), (1, n), (t,), (s,)), strict=True)]
            ):
                raise ShapeError(
                    f"{WHAT}: cuDNN's kernel takes a bias [b or 1, n or 1, t, s] for {[b, n, t, s]}, got {bias!r}"
                )
        if self.padded:
            for lengths in types[3 + self.biased : self.operand_count]:
                if lengths != array_type(dtypes.int32, (b,)):
                    raise ShapeError(f"{WHAT}: cuDNN's kernel takes lengths i32[{b}], got {lengths!r}")

    def check_backward(self, types: Sequence[ArrayType]) -> None:
        """Checks what holds only where there is a backward pass."""
        if self.biased and any([size % 2 for size in types[BIAS].shape[2:]]):
            raise ShapeError(
                f"{WHAT}: implementation='cudnn' has gradients with a bias or mask for even numbers of queries and keys "
                f"only, got {types[BIAS].shape[2]} and {types[BIAS].shape[3]}"
            )

    def sums_type(self, q: ArrayType) -> ArrayType:
        """The type of logsumexp of the logits: f32 `[b, n, t]`."""
        b, t, n, _ = q.shape
        return array_type(dtypes.float32, (b, n, t))


@final
@attrs.frozen
class FusedAttention(_Pairs, TupleOperation):
    """Averages values by the softmax of the products of queries and keys. StableHLO: custom_call, on NVIDIA GPUs.

    Operands: query `[b, t, n, h]`, key and value `[b, s, k, h]`; a bias `[b|1, n|1, t, s]`; lengths of queries and of keys,
    i32 `[b]`. Results: an array of query's type; logsumexp of the logits, f32 `[b, n, t]`.

    Attributes:
        sums: whether there is the second result, which the backward pass takes.
    """

    sums: bool = False

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Query's type, and that of the sums."""
        self.check(types)
        return (types[0].strong(), self.sums_type(types[0]))[: 1 + self.sums]


@final
@attrs.frozen
class FusedAttentionGradient(_Pairs, TupleOperation):
    """The backward pass of attention. StableHLO: custom_call, on NVIDIA GPUs.

    Operands: those of attention, its two results, and the cotangent of the first. Results: cotangents of query, key and
    value, and of the bias.

    Attributes:
        of_bias: whether there is the cotangent of the bias.
    """

    of_bias: bool = False

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The operands' types."""
        self.check(types, 3)
        self.check_backward(types)
        return tuple([t.strong() for t in types[: 3 + self.of_bias]])


@final
@attrs.frozen
class FusedAttentionTangent(_Pairs, ArrayOperation):
    """The tangent of attention, which can only be transposed: cuDNN has no such kernel. StableHLO: none.

    Operands: those of attention, its two results, and tangents of some operands. Result: of query's type.

    Attributes:
        by: which operands the tangents are of: 0, 1, 2 for query, key and value, 3 for the bias.
    """

    by: tuple[int, ...] = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """Query's type."""
        self.check(types, 2 + len(self.by))
        self.check_backward(types)
        return types[0].strong()


# --- derivatives ----------------------------------------------------------------------------------


@jvp_rule(FusedAttention)
def _(
    op: FusedAttention, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """The tangent of the sums is 0: they are a constant for users, and a residual here."""
    by = tuple([i for i, dx in enumerate(tangents) if dx is not None])
    results = attrs.evolve(op, sums=True)(*primals)
    tangent = FusedAttentionTangent(op.scale, op.causal, op.window, op.biased, op.padded, by)
    dy = tangent(*primals, *results, *[dx for dx in tangents if dx is not None])
    count = 1 + op.sums
    return results[:count], (dy, None)[:count]


@transpose_rule(FusedAttentionTangent)
def _(
    op: FusedAttentionTangent, ct: Array, operands: tuple[Array | LinearOperand, ...]
) -> tuple[Cotangent, ...]:
    known = op.operand_count + 2
    linear = [isinstance(x, LinearOperand) for x in operands[known:]]
    of_bias = any([i == BIAS and is_linear for i, is_linear in zip(op.by, linear, strict=True)])
    residuals = [cast("Array", x) for x in operands[:known]]
    backward = FusedAttentionGradient(op.scale, op.causal, op.window, op.biased, op.padded, of_bias)
    cts = backward(*residuals, convert(ct, residuals[0].type.dtype))
    return (
        *[None] * known,
        *[
            convert(cts[i], x.type.dtype, x.type.weak) if isinstance(x, LinearOperand) else None
            for i, x in zip(op.by, operands[known:], strict=True)
        ],
    )


def _refuse_second_derivative() -> NoReturn:
    raise TransformError(
        f"{WHAT}: implementation='cudnn' has no second derivatives; implementation='xla' and 'blocks' have them"
    )


@jvp_rule(FusedAttentionTangent)
def _(
    op: FusedAttentionTangent, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    known = op.operand_count + 2
    if any([dx is not None for dx in tangents[:known]]):
        _refuse_second_derivative()
    moving = [i for i, dx in enumerate(tangents) if dx is not None]
    linear = attrs.evolve(op, by=tuple([op.by[i - known] for i in moving]))
    return op(*primals), linear(*primals[:known], *[dx for dx in tangents if dx is not None])


@jvp_rule(FusedAttentionGradient)
def _(
    op: FusedAttentionGradient, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    """Linear in the cotangent, and in nothing else."""
    *others, dct = tangents
    if dct is None or any([dx is not None for dx in others]):
        _refuse_second_derivative()
    return op(*primals), op(*primals[:-1], dct)


# --- batching -------------------------------------------------------------------------------------


def _merge_batches(
    handler: Vmap, op: _Pairs, values: Sequence[Array], axes: Sequence[int | None], biases: Sequence[int]
) -> list[Array]:
    """Returns operands with the batch of vmap and their own as one.

    Args:
        handler: the batch.
        op: the operation. values: its operands. axes: the index of each one's batch axis.
        biases: the indices of operands that may have an own batch of size 1, and get the whole one.
    """
    query, at = values[0].type.shape, axes[0]
    b = query[0] if at is None else (*query[:at], *query[at + 1 :])[0]
    merged: list[Array] = []
    for i, (x, axis) in enumerate(zip(values, axes, strict=True)):
        if op.biased and i == BIAS and i not in biases:
            merged.append(x)
            continue
        x = materialize(handler, x, axis)
        own = x.type.shape[2:]
        if i in biases:
            x = broadcast_to(x, (handler.size, b, *own))
        merged.append(reshape(x, (handler.size * b, *own)))
    return merged


def _split_batches(handler: Vmap, y: Array) -> Array:
    """Returns a result with the batch of vmap as an axis of its own, in front."""
    shape = y.type.shape
    own = shape[0] // handler.size if handler.size else 0
    return reshape(y, (handler.size, own, *shape[1:]))


@vmap_rule(FusedAttention)
def _(
    handler: Vmap, op: FusedAttention, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    # A bias that all batch elements share, and in them all that is batched, is one for the merged batch too.
    is_shared = op.biased and axes[BIAS] is None and values[BIAS].type.shape[0] == 1
    biases = (BIAS,) if op.biased and not is_shared else ()
    results = op(*_merge_batches(handler, op, values, axes, biases))
    return tuple([_split_batches(handler, y) for y in results]), (0,) * len(results)


@vmap_rule(FusedAttentionTangent)
def _(
    handler: Vmap, op: FusedAttentionTangent, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    known = op.operand_count + 2
    biases = [BIAS] * op.biased + [known + k for k, i in enumerate(op.by) if i == BIAS]
    return _split_batches(handler, op(*_merge_batches(handler, op, values, axes, biases))), 0


@vmap_rule(FusedAttentionGradient)
def _(
    handler: Vmap, op: FusedAttentionGradient, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    is_shared = op.biased and axes[BIAS] is None and values[BIAS].type.shape[0] == 1 and not op.of_bias
    biases = (BIAS,) if op.biased and not is_shared else ()
    results = [_split_batches(handler, y) for y in op(*_merge_batches(handler, op, values, axes, biases))]
    if op.of_bias:
        # The kernel adds up the cotangents of a bias that the whole batch shares; each element of vmap has its own.
        bias, axis = values[BIAS].type.shape, axes[BIAS]
        own = (bias if axis is None else (*bias[:axis], *bias[axis + 1 :]))[0]
        if own != results[BIAS].type.shape[1]:
            results[BIAS] = total(results[BIAS], 1, keepdims=True)
    return tuple(results), (0,) * len(results)


@sharding_rule(FusedAttention, FusedAttentionGradient, FusedAttentionTangent)
def infer_fused_attention_sharding(op: _Pairs, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded along batch elements and heads; queries, keys and elements of heads must be whole."""
    for i in range(3):
        shardings.require_unsharded(i, (1, 3), "and queries, keys and heads must be whole")
    q, k, v = shardings.mesh_axes[:3]
    b = shardings.merge_axes(shardings.merge_axes(q[0], k[0], "axis 0"), v[0], "axis 0")
    heads = shardings.merge_axes(k[2], v[2], "axis 2")
    if isinstance(op, FusedAttention):
        return [(b, (), q[2], ()), (b, q[2], ())][: 1 + op.sums]
    if isinstance(op, FusedAttentionTangent):
        return [(b, (), q[2], ())]
    of_bias = [shardings.mesh_axes[BIAS]] if len(shardings.results) > 3 else []
    return [(b, (), q[2], ()), (b, (), heads, ()), (b, (), heads, ()), *of_bias]


# --- StableHLO ------------------------------------------------------------------------------------

Config = Mapping[str, object]

# The products by their axes: of the first and second factor those that are summed, and those of the batch and the heads.
# Queries, keys and values are [b, t, n, h], weights [b, n, t, s].
_WITH_ROWS, _WITH_WEIGHTS = ((0, 2), (0, 2)), ((0, 1), (0, 2))
_FORWARD = {
    "bmm1": (3, 3, *_WITH_ROWS),  # logits, of queries and keys
    "bmm2": (3, 1, *_WITH_WEIGHTS),  # results, of weights and values
}
_BACKWARD = {
    "bmm1_grad_gemm1": (2, 1, *_WITH_WEIGHTS),  # of keys
    "bmm1_grad_gemm2": (3, 1, *_WITH_WEIGHTS),  # of queries
    "bmm2_grad_gemm1": (2, 1, *_WITH_WEIGHTS),  # of values
    "bmm2_grad_gemm2": (3, 3, *_WITH_ROWS),  # of weights
}


def _numbers(values: Sequence[int]) -> list[str]:
    """Returns integers as the JSON of protocol buffers has those of 64 bits: as strings."""
    return [str(value) for value in values]


def _dot_config(x: int, y: int, x_batch: Sequence[int], y_batch: Sequence[int]) -> Config:
    return {
        "lhs_contracting_dimensions": _numbers([x]),
        "rhs_contracting_dimensions": _numbers([y]),
        "lhs_batch_dimensions": _numbers(x_batch),
        "rhs_batch_dimensions": _numbers(y_batch),
    }


def _backend_config(op: _Pairs, q: ArrayType, k: ArrayType) -> str:
    """Returns XLA's parameters of the call: `GpuBackendConfig` as JSON."""
    (b, t, n, _), s = q.shape, k.shape[1]
    mask = "_".join([name for name, on in (("PADDING", op.padded), ("CAUSAL", op.causal)) if on])
    products = _FORWARD if isinstance(op, FusedAttention) else _BACKWARD
    weights = {
        "element_type": _ELEMENTS[q.dtype],
        "dimensions": _numbers((b, n, t, s)),
        "layout": {"minor_to_major": _numbers((3, 2, 1, 0))},
        "is_dynamic_dimension": [False] * 4,
    }
    algorithm = {
        "algo_id": "0",
        "math_type": "TENSOR_OP_MATH",
        "tuning_knobs": {"17": "1", "24": "0"},
        "is_cudnn_frontend": True,
        "workspace_size": "0",
    }
    attention = {
        "algorithm": algorithm,
        "fmha_scale": op.scale,
        "dropout_rate": 0.0,
        "intermediate_tensor_shape": weights,
        "is_flash_attention": True,
        "mask_type": mask or "NO_MASK",
        "sliding_window_length": op.window,
        "max_seg_per_batch": 1,
        **{f"{name}_dot_dimension_numbers": _dot_config(*axes) for name, axes in products.items()},
    }
    return json.dumps({"operation_queue_id": "0", "cudnn_fmha_backend_config": attention})


def _call_kernel(
    body: Body, op: _Pairs, suffix: str, operands: Sequence[Atom], results: Sequence[ArrayType]
) -> list[str]:
    """Calls a kernel; returns the names of its results, of which those of four axes are `[b, heads, rows, h]`.

    In memory they are `[b, rows, heads, h]`, so that the transpose after the call moves nothing.
    """
    workspace = array_type(dtypes.uint8, (0,))
    q, k = operands[0].type, operands[1].type
    transposed = [_swap_heads(t) if i < 3 and t.ndim == 4 else t for i, t in enumerate(results)]
    call = custom_call_text(
        f"__cudnn$fmha{'ScaleBias' * op.biased}Softmax{suffix}",
        [body.name(x) for x in operands],
        [x.type for x in operands],
        [*transposed, workspace],
        out_layouts=[*[(3, 1, 2, 0) if i < 3 and t.ndim == 4 else None for i, t in enumerate(results)], None],
        api_version=STRINGS,
        config=string_text(_backend_config(op, q, k)),
    )
    names = body.block(call, len(results) + 1)
    return [
        body.line(f"stablehlo.transpose {name}, dims = [0, 2, 1, 3] : ({a.mlir}) -> {t.mlir}")
        if a is not t
        else name
        for name, a, t in zip(names, transposed, results, strict=False)
    ]


def _swap_heads(t: ArrayType) -> ArrayType:
    b, rows, heads, h = t.shape
    return t.with_shape((b, heads, rows, h))


def _emit_zeros(body: Body, outputs: Sequence[Var]) -> tuple[str, ...]:
    """Returns the results where an axis is empty, of which the kernel knows nothing."""
    return tuple([body.constant(0, v.type) for v in outputs])


@emits(FusedAttention, platform="cuda")
def _(body: Body, op: FusedAttention, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    if not inputs[0].type.size or not inputs[1].type.size:
        return _emit_zeros(body, outputs)
    return tuple(_call_kernel(body, op, "", inputs, [v.type for v in outputs]))


@emits(FusedAttentionGradient, platform="cuda")
def _(
    body: Body, op: FusedAttentionGradient, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    if not inputs[0].type.size or not inputs[1].type.size:
        return _emit_zeros(body, outputs)
    *known, y, sums, ct = inputs
    bias, lengths = known[3 : 3 + op.biased], known[3 + op.biased :]
    operands = [*known[:3], sums, ct, *bias, y, *lengths]
    return tuple(_call_kernel(body, op, "Backward", operands, [v.type for v in outputs]))


@emits(FusedAttention, FusedAttentionGradient)
def _(body: Body, op: TupleOperation, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    raise BackendError(
        f"{WHAT}: implementation='cudnn' runs on NVIDIA GPUs, and this program is for {body.module.platform}; "
        "implementation='xla' and 'blocks' run everywhere"
    )


@emits(FusedAttentionTangent)
def _(body: Body, op: FusedAttentionTangent, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    raise TransformError(
        f"{WHAT}: implementation='cudnn' has no forward-mode derivative (jvp, jacfwd, hessian); implementation='xla' and "
        "'blocks' have one"
    )


# --- NumPy ----------------------------------------------------------------------------------------


def _split_operands(op: _Pairs, operands: Sequence[HostData]) -> tuple[list[HostData], HostData, HostData]:
    """Returns query, key and value in f64 with as many heads, the weights, and logsumexp of the logits."""
    q, k, v = [x.astype(np.float64) for x in operands[:3]]
    k, v = [np.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v)]
    logits = np.einsum("btnh,bsnh->bnts", q, k) * op.scale
    if op.biased:
        logits = logits + operands[BIAS].astype(np.float64)
    b, t, s = q.shape[0], q.shape[1], k.shape[1]
    ahead = np.arange(s) - np.arange(t)[:, None]
    taking = np.ones((b, 1, t, s), bool)
    counting = np.ones((b, t), bool)
    if op.causal:
        taking &= ahead <= 0
    if op.window:
        taking &= ahead > -op.window
    if op.padded:
        queries, keys = operands[3 + op.biased : 5 + op.biased]
        taking &= np.arange(s) < keys[:, None, None, None]
        counting = np.arange(t) < queries[:, None]
    powers = np.exp(logits - logits.max(-1, initial=0.0, keepdims=True)) * taking
    sums = powers.sum(-1, keepdims=True)
    weights = np.divide(powers, sums, out=np.zeros(powers.shape), where=sums > 0)
    weights = weights * counting[:, None, :, None]
    logsumexp = np.log(sums[..., 0]) + logits.max(-1, initial=0.0)
    return [q, k, v], weights, logsumexp


@reference_rule(FusedAttention)
def _(op: FusedAttention, *operands: HostData) -> tuple[HostData, ...]:
    (_, _, v), weights, logsumexp = _split_operands(op, operands)
    means = np.einsum("bnts,bsnh->btnh", weights, v).astype(operands[0].dtype)
    return (means, logsumexp.astype(np.float32))[: 1 + op.sums]


@reference_rule(FusedAttentionTangent)
def _(op: FusedAttentionTangent, *operands: HostData) -> HostData:
    (q, k, v), weights, _ = _split_operands(op, operands)
    dlogits, dy = np.zeros(weights.shape), np.zeros(q.shape)
    for i, raw in zip(op.by, operands[op.operand_count + 2 :], strict=True):
        dx = raw.astype(np.float64)
        if i in (1, 2):
            dx = np.repeat(dx, q.shape[2] // dx.shape[2], 2)
        match i:
            case 0:
                dlogits = dlogits + np.einsum("btnh,bsnh->bnts", dx, k) * op.scale
            case 1:
                dlogits = dlogits + np.einsum("btnh,bsnh->bnts", q, dx) * op.scale
            case 2:
                dy = dy + np.einsum("bnts,bsnh->btnh", weights, dx)
            case _:
                dlogits = dlogits + dx
    dweights = weights * (dlogits - (weights * dlogits).sum(-1, keepdims=True))
    result: HostData = dy + np.einsum("bnts,bsnh->btnh", dweights, v)
    return result.astype(operands[0].dtype)


@reference_rule(FusedAttentionGradient)
def _(op: FusedAttentionGradient, *operands: HostData) -> tuple[HostData, ...]:
    (q, k, v), weights, _ = _split_operands(op, operands)
    ct = operands[-1].astype(np.float64)
    of_weights = np.einsum("btnh,bsnh->bnts", ct, v)
    of_logits = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True))
    of_q = np.einsum("bnts,bsnh->btnh", of_logits, k) * op.scale
    of_k = np.einsum("bnts,btnh->bsnh", of_logits, q) * op.scale
    of_v = np.einsum("bnts,btnh->bsnh", weights, ct)
    cts = [of_q]
    for x, like in ((of_k, operands[1]), (of_v, operands[2])):
        b, s, heads, h = like.shape
        cts.append(x.reshape(b, s, heads, -1, h).sum(3))
    if op.of_bias:
        shape = operands[BIAS].shape
        shared = tuple([i for i in range(2) if shape[i] == 1])
        cts.append(of_logits.sum(shared, keepdims=True))
    return tuple([x.astype(operands[0].dtype) for x in cts])
