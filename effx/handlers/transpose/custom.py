"""Transposes by users' backward rules."""

from collections.abc import Sequence
from typing import cast

from effx.array import Array
from effx.array.promotion import convert
from effx.errors import NoRuleError
from effx.handlers.transpose.control import transpose_call
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, rule
from effx.ir.ops.control import Call
from effx.ir.ops.custom import CustomCall, CustomTangent


@rule(CustomCall)
def transpose_custom_call(
    op: CustomCall, cts: Sequence[Cotangent], operands: tuple[Operand, ...]
) -> Sequence[Cotangent]:
    # A function that is linear already needs no derivative.
    return transpose_call(Call(op.program), cts, operands)


@rule(CustomTangent)
def transpose_custom_tangent(
    op: CustomTangent, cts: Sequence[Cotangent], operands: tuple[Operand, ...]
) -> Sequence[Cotangent]:
    values = op.group_operands(operands)
    if any([isinstance(x, LinearOperand) for x in values.nonlinear]):
        raise NoRuleError(f"transpose: the tangents of {op.backward.name} are not linear in its arguments")
    tangent_cts = op.backward.function([cast("Array", x) for x in values.residuals], cts)
    return [
        *[None] * op.known,
        *[
            convert(ct, x.type.dtype, x.type.weak)
            if ct is not None and isinstance(x, LinearOperand)
            else None
            for ct, x in zip(tangent_cts, values.tangents, strict=True)
        ],
    ]
