"""Operations that move, repeat or slice elements, in NumPy."""

import numpy as np

from effx.errors import NoRuleError
from effx.handlers.evaluate.numpy_moves import block_slices, broadcast_view
from effx.handlers.oracle.handler import Data, rule
from effx.ir.ops import shape as s
from effx.ir.ops.sizes import SizeValue
from effx.ir.sizes.dimensions import is_symbolic


@rule(s.BroadcastInDim)
def broadcast_in_dim(op: s.BroadcastInDim, x: Data) -> Data:
    return broadcast_view(op, x)


@rule(s.Reshape)
def reshape(op: s.Reshape, x: Data) -> Data:
    return np.array(x, order="C").reshape(op.shape)


@rule(s.Transpose)
def transpose(op: s.Transpose, x: Data) -> Data:
    return np.transpose(x, op.perm)


@rule(s.Reverse)
def reverse(op: s.Reverse, x: Data) -> Data:
    return np.flip(x, op.axes)


@rule(s.Concatenate)
def concatenate(op: s.Concatenate, *operands: Data) -> Data:
    return np.concatenate(operands, op.axis)


@rule(s.Pad)
def pad(op: s.Pad, x: Data, value: Data) -> Data:
    # With indices of the result counted from `low`: element i of x goes to i * (interior + 1), and
    # elements that negative amounts push off the result are dropped.
    shape = [
        low + high + n + max(n - 1, 0) * inner
        for n, low, high, inner in zip(x.shape, op.low, op.high, op.interior, strict=True)
    ]
    result = np.full(shape, value, x.dtype)
    for index in np.ndindex(x.shape):
        target = tuple([low + i * (k + 1) for i, low, k in zip(index, op.low, op.interior, strict=True)])
        if all(0 <= i < n for i, n in zip(target, shape, strict=True)):
            result[target] = x[index]
    return result


@rule(s.Slice)
def slice_(op: s.Slice, x: Data) -> Data:
    return np.asarray(x[tuple(map(slice, op.start, op.limit, op.strides))])


@rule(s.DynamicSlice)
def dynamic_slice(op: s.DynamicSlice, x: Data, *starts: Data) -> Data:
    return np.asarray(x[block_slices(x, starts, op.sizes)])


@rule(s.DynamicUpdateSlice)
def dynamic_update_slice(op: s.DynamicUpdateSlice, x: Data, update: Data, *starts: Data) -> Data:
    result = np.array(x)
    result[block_slices(x, starts, update.shape)] = update
    return result


@rule(SizeValue)
def size(op: SizeValue) -> Data:
    if is_symbolic(op.size):
        raise NoRuleError(
            f"size: the reference knows no value of {op.size!r}; run the program at known sizes"
        )
    return np.asarray(op.size, op.infer().dtype)


@rule(s.Iota)
def iota(op: s.Iota) -> Data:
    t = op.type
    count = np.arange(t.shape[op.axis]).reshape([-1 if i == op.axis else 1 for i in range(t.ndim)])
    return np.broadcast_to(count, t.shape).astype(t.dtype)
