"""Transposes of operations that move elements."""

from effx.array import Array
from effx.array.promotion import zeros
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, known_value, rule
from effx.ir.ops import shape as s
from effx.ir.ops.elementwise import Sub
from effx.ir.ops.reduce import ReduceSum
from effx.ir.values.scalars import scalar


@rule(s.BroadcastInDim)
def transpose_broadcast_in_dim(
    op: s.BroadcastInDim, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    # Sum over the new axes, and over those that grew from size 1.
    t = operands[0].type
    grown = [d for d, n in zip(op.dims, t.shape, strict=True) if n == 1 and op.shape[d] != 1]
    axes = tuple([i for i in range(len(op.shape)) if i not in op.dims or i in grown])
    ct = ReduceSum(axes)(ct) if axes else ct
    return (s.Reshape(t.shape)(ct) if ct.type.shape != t.shape else ct,)


@rule(s.Reshape)
def transpose_reshape(op: s.Reshape, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (s.Reshape(operands[0].type.shape)(ct),)


@rule(s.Transpose)
def transpose_transpose(op: s.Transpose, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    inverse = [0] * len(op.perm)
    for i, p in enumerate(op.perm):
        inverse[p] = i
    return (s.Transpose(tuple(inverse))(ct),)


@rule(s.Reverse)
def transpose_reverse(op: s.Reverse, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (op(ct),)


@rule(s.Concatenate)
def transpose_concatenate(
    op: s.Concatenate, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    start = [0] * ct.type.ndim
    results: list[Cotangent] = []
    for x in operands:
        limit = list(ct.type.shape)
        limit[op.axis] = start[op.axis] + x.type.shape[op.axis]
        part = s.Slice(tuple(start), tuple(limit), (1,) * len(limit)) if type(x) is LinearOperand else None
        results.append(part(ct) if part is not None else None)
        start[op.axis] = limit[op.axis]
    return tuple(results)


@rule(s.Pad)
def transpose_pad(op: s.Pad, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    # Padding with negative amounts removes the edges, then a strided slice the interior.
    x, fill = operands
    zero = scalar(0, ct.type.dtype)
    trimmed = s.Pad(tuple([-n for n in op.low]), tuple([-n for n in op.high]), (0,) * ct.type.ndim)(ct, zero)
    strides = tuple([n + 1 for n in op.interior])
    inner = s.Slice((0,) * ct.type.ndim, trimmed.type.shape, strides)(trimmed)
    if type(fill) is not LinearOperand:
        return inner, None
    axes = tuple(range(ct.type.ndim))
    # Elements that do not come from x are the padding value.
    rest = Sub()(ReduceSum(axes)(ct), ReduceSum(axes)(inner))
    return inner if type(x) is LinearOperand else None, rest


@rule(s.Slice)
def transpose_slice(op: s.Slice, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    shape = operands[0].type.shape
    interior = tuple([k - 1 for k in op.strides])
    high = []
    for n, a, m, k in zip(shape, op.start, ct.type.shape, op.strides, strict=True):
        high.append(n - a - (m if k == 1 else max(m - 1, 0) * k + min(m, 1)))
    return (s.Pad(op.start, tuple(high), interior)(ct, scalar(0, ct.type.dtype)),)


@rule(s.DynamicSlice)
def transpose_dynamic_slice(
    op: s.DynamicSlice, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    x, *starts = operands
    return s.DynamicUpdateSlice()(zeros(x.type), ct, *map(known_value, starts)), *[None] * len(starts)


@rule(s.DynamicUpdateSlice)
def transpose_dynamic_update_slice(
    op: s.DynamicUpdateSlice, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    x, update, *rest = operands
    starts = list(map(known_value, rest))
    ct_x = op(ct, zeros(update.type), *starts) if type(x) is LinearOperand else None
    ct_update = s.DynamicSlice(update.type.shape)(ct, *starts) if type(update) is LinearOperand else None
    return ct_x, ct_update, *[None] * len(starts)
