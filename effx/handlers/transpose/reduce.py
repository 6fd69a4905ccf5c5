"""Transposes of sums and running sums."""

from effx.array import Array
from effx.handlers.transpose.handler import Cotangent, Operand, rule
from effx.ir.ops import reduce as r
from effx.ir.ops.shape import BroadcastInDim


@rule(r.ReduceSum)
def transpose_reduce_sum(op: r.ReduceSum, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    t = operands[0].type
    return (BroadcastInDim(t.shape, tuple([i for i in range(t.ndim) if i not in op.axes]))(ct),)


@rule(r.CumSum)
def transpose_cumsum(op: r.CumSum, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (r.CumSum(op.axis, not op.reverse)(ct),)
