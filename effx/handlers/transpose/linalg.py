"""Transposes of matrix products in one operand.

Never: transpose axes that dot_general can contract in their order.
"""

from effx.array import Array
from effx.array.promotion import convert
from effx.array.shaping import transpose
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, known_value, rule
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.linalg import swap_precision as exchanged


@rule(DotGeneral)
def transpose_dot_general(op: DotGeneral, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    lhs, rhs = operands
    if type(lhs) is LinearOperand:
        return _operand_cotangent(op, ct, lhs, known_value(rhs), swapped=False), None
    assert type(rhs) is LinearOperand
    return None, _operand_cotangent(op, ct, rhs, known_value(lhs), swapped=True)


def _operand_cotangent(
    op: DotGeneral, ct: Array, linear: LinearOperand, known: Array, *, swapped: bool
) -> Array:
    """Returns the cotangent of one operand: ct contracted with the other operand over the other's free axes.

    The result's axes of op are (batch, free axes of lhs, free axes of rhs).
    """
    mine_contract, other_contract = (
        (op.rhs_contract, op.lhs_contract) if swapped else (op.lhs_contract, op.rhs_contract)
    )
    mine_batch, other_batch = (op.rhs_batch, op.lhs_batch) if swapped else (op.lhs_batch, op.rhs_batch)
    nbatch = len(mine_batch)
    mine_free = [i for i in range(linear.type.ndim) if i not in mine_contract and i not in mine_batch]
    other_free = [i for i in range(known.type.ndim) if i not in other_contract and i not in other_batch]
    batch = tuple(range(nbatch))
    # ct's axes that belong to the other operand are contracted.
    start = nbatch if swapped else nbatch + len(mine_free)
    ct_contract = tuple(range(start, start + len(other_free)))
    precision = exchanged(op.precision) if swapped else op.precision
    if ct.type.dtype != known.type.dtype:
        ct = convert(ct, known.type.dtype)
    # The other operand's contracted axes, in its order, and this operand's axes that they are contracted with.
    contracted = [
        mine_contract[other_contract.index(i)] for i in range(known.type.ndim) if i in other_contract
    ]
    # Either operand may come first; the best order needs no transposition of the result.
    ct_first, known_first = [*mine_batch, *mine_free, *contracted], [*mine_batch, *contracted, *mine_free]
    if known_first == sorted(known_first) and ct_first != known_first:
        result_axes = known_first
        out = DotGeneral(tuple(other_free), ct_contract, other_batch, batch, exchanged(precision))(known, ct)
    else:
        result_axes = ct_first
        out = DotGeneral(ct_contract, tuple(other_free), batch, other_batch, precision)(ct, known)
    perm = [0] * len(result_axes)
    for position, axis in enumerate(result_axes):
        perm[axis] = position
    return convert(transpose(out, perm), linear.type.dtype, linear.type.weak)
