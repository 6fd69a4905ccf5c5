"""Transposes of collectives.

A batch of outputs that are equal for all members is one value used by all, so its cotangents add up.

Never: bind an axis name.
"""

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert, scalar
from effx.handlers.transpose.handler import Cotangent, Operand, rule
from effx.ir.ops import collective as k
from effx.ir.ops.elementwise import Mul
from effx.ir.ops.shape import DynamicSlice, Reshape


@rule(k.PSum)
def psum(op: k.PSum, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (op(ct),)


@rule(k.AllGather)
def all_gather(op: k.AllGather, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    # Each member gets the sum of all cotangents of its own part.
    t = operands[0].type
    total = k.PSum(op.axis_name)(ct)
    place = k.AxisIndex(op.axis_name)()
    step = t.shape[op.axis] if op.tiled else 1
    starts: list[Array] = [scalar(0, dtypes.int32)] * ct.type.ndim
    starts[op.axis] = Mul()(place, scalar(step, dtypes.int32))
    sizes = list(ct.type.shape)
    sizes[op.axis] = step
    part = DynamicSlice(tuple(sizes))(total, *starts)
    return (convert(Reshape(t.shape)(part), t.dtype, t.weak),)
