"""Transposes of collectives.

With <x, y> the sum of inner products along the axis, a collective C has the transpose C^T with <C x, y> = <x,
C^T y>. A sum is used at every index of the axis, so its cotangents are summed: psum is its own transpose. A
collective that moves values has the transpose that moves cotangents back.

Where types show varying axes, a value that does not vary is one value with one cotangent: the
transpose of the sum broadcasts it, and vice versa (`match_cotangent_axes` in
`effx.handlers.sharding_types.axes_in_types`).
"""

from effx.array import Array
from effx.array.promotion import convert
from effx.dtypes import int32
from effx.handlers.transpose.handler import Cotangent, Operand, known_value, rule
from effx.ir.ops import collective as k
from effx.ir.ops.elementwise import Mul
from effx.ir.ops.shape import DynamicSlice, Reshape
from effx.ir.passes.partial_sums import type_sums
from effx.ir.values.scalars import scalar


@rule(k.PSum)
def transpose_psum(op: k.PSum, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    t = operands[0].type
    if op.groups is None and (op.axis_name in t.vma or op.axis_name in type_sums(t)[0]):
        return (ct,)  # each replica contributed one term to the sum
    return (op(ct),)


@rule(k.PCast)
def transpose_pcast(op: k.PCast, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    t = operands[0].type
    unreduced, reduced = type_sums(t)
    if op.to != "varying" or op.axis_name in reduced or op.axis_name not in ct.type.vma:
        return (ct,)  # it is converted to the type that the operand's cotangent has
    total = k.PSum(op.axis_name)(ct)
    if op.axis_name not in unreduced:
        return (total,)
    # The terms of a sum were taken for values: their cotangents are those of the sum if they are equal, else about that.
    assert t.explicit_sharding is not None
    return (Mul()(total, scalar(1 / t.explicit_sharding.mesh.shape[op.axis_name], t.dtype)),)


@rule(k.PSumShared)
def transpose_psum_shared(
    op: k.PSumShared, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    return op(ct, known_value(operands[1])), None


@rule(k.AllGather)
def transpose_all_gather(op: k.AllGather, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    t = operands[0].type
    if op.is_equal and op.mesh is None and op.axis_name in t.vma and op.axis_name not in ct.type.vma:
        size = t.shape[op.axis] if op.tiled else 1
        zero = scalar(0, int32)
        starts = [
            Mul()(k.AxisIndex(op.axis_name)(), scalar(size, int32)) if i == op.axis else zero
            for i in range(ct.ndim)
        ]
        mine = DynamicSlice((*ct.type.shape[: op.axis], size, *ct.type.shape[op.axis + 1 :]))(ct, *starts)
        return (convert(mine if op.tiled else Reshape(t.shape)(mine), t.dtype, t.weak),)
    # Each replica gets the sum of all cotangents of its part.
    part = k.PSumScatter(op.axis_name, op.axis, op.size, groups=op.groups)(ct)
    return (convert(part if op.tiled else Reshape(t.shape)(part), t.dtype, t.weak),)


@rule(k.PSumScatter)
def transpose_psum_scatter(
    op: k.PSumScatter, ct: Array, operands: tuple[Operand, ...]
) -> tuple[Cotangent, ...]:
    t = operands[0].type
    if op.axis_name in type_sums(t)[0]:
        assert t.explicit_sharding is not None
        gather = k.AllGather(op.axis_name, op.axis, op.size, True, True, t.explicit_sharding.mesh)
        return (gather(ct),)
    return (k.AllGather(op.axis_name, op.axis, op.size, True, groups=op.groups)(ct),)


@rule(k.AllToAll)
def transpose_all_to_all(op: k.AllToAll, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (k.AllToAll(op.axis_name, op.concat, op.split, op.size, groups=op.groups)(ct),)


@rule(k.PPermute)
def transpose_ppermute(op: k.PPermute, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (k.PPermute(op.axis_name, tuple([(d, s) for s, d in op.perm]))(ct),)
