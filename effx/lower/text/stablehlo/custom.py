"""StableHLO text of functions with derivative or batching rules of the user's: plain calls.

Never: apply a rule; handlers have done that.
"""

from effx.ir.ops.custom import CustomCall, CustomTangent
from effx.ir.program import Atom, Var
from effx.lower.text.emit import Body, emits


@emits(CustomCall)
def custom_call(
    body: Body, op: CustomCall, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    return body.call(op.program, [body.name(a) for a in inputs])


@emits(CustomTangent)
def custom_tangent(
    body: Body, op: CustomTangent, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    if op.program is None:
        raise op.backward.no_forward_mode()
    return body.call(op.program, [body.name(a) for a in op.group_operands(inputs).of_program])
