"""Transposes of gather and of adding scatter."""

from effx.array import Array
from effx.array.arithmetic import clip, where
from effx.array.promotion import zeros
from effx.array.shaping import size_vector
from effx.handlers.jvp.index import gather_like
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, known_value, rule
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.reduce import ReduceAnd
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.values.scalars import scalar


@rule(Gather)
def transpose_gather(op: Gather, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    x, indices = operands
    add = Scatter(
        op.offset_dims,
        op.collapsed,
        op.start_index_map,
        "add",
        op.operand_batch,
        op.indices_batch,
        op.sorted,
        op.unique,
    )
    # Gather clamps its starts where scatter drops updates: clamp them for both, unless they are to be dropped (`op.drops`).
    starts = known_value(indices) if op.drops else clamp_starts(op, x, known_value(indices))
    return add(zeros(x.type), starts, ct), None


def clamp_starts(op: Gather, x: Operand, indices: Array) -> Array:
    """Clamps start vectors so that the slices lie inside x."""
    limits = [x.type.shape[a] - op.slice_sizes[a] for a in op.start_index_map]
    return clip(indices, 0, size_vector(limits, indices.type.dtype))


@rule(Scatter)
def transpose_scatter(op: Scatter, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    x, indices, updates = operands
    starts = known_value(indices)
    if op.combiner == "mul":
        assert type(x) is LinearOperand
        return op(ct, starts, known_value(updates)), None, None
    ct_updates: Cotangent = None
    if type(updates) is LinearOperand:
        ct_updates = _gather_cotangent(op, ct, starts, updates)
    if op.combiner == "set":
        ct_x = op(ct, starts, zeros(updates.type)) if type(x) is LinearOperand else None
        return ct_x, None, ct_updates
    return ct if type(x) is LinearOperand else None, None, ct_updates


def _gather_cotangent(op: Scatter, ct: Array, starts: Array, updates: LinearOperand) -> Array:
    # Updates outside x were dropped, so their cotangent is 0; gather would clamp them.
    gather = gather_like(op, ct.type, updates.type)
    result = gather(ct, starts)
    limits = size_vector(
        [ct.type.shape[a] - gather.slice_sizes[a] for a in op.start_index_map], starts.type.dtype
    )
    inside = ReduceAnd((starts.type.ndim - 1,))((starts >= 0) & (starts <= limits))
    scattered = tuple([i for i in range(result.type.ndim) if i not in op.window_dims])
    return where(BroadcastInDim(result.type.shape, scattered)(inside), result, scalar(0, result.type.dtype))
