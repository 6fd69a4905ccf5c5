"""How functions with rules of the user's are split: as the calls that they are without their rules.

jvp takes those whose derivative is asked; what is left is linear already or does not matter. Tangents that
are known by their transpose stay whole.

Never: apply a rule.
"""

from effx.handlers.linear.control import call
from effx.handlers.linear.splitting import Parts, splitter
from effx.ir.ops.control import Call
from effx.ir.ops.custom import CustomCall


@splitter(CustomCall)
def custom_call(op: CustomCall, linear_in: tuple[bool, ...], once: bool) -> Parts:
    return call(Call(op.program), linear_in, once)
