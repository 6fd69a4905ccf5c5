"""StableHLO text of operations that hold programs.

Never: specialise a program; handlers have done that.
"""

from effx.ir.ops.control import Call
from effx.ir.program import Atom, Var
from effx.lower.emit import Body, emits


@emits(Call)
def call(body: Body, op: Call, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    names = [body.name(a) for a in inputs]
    return body.inline(op.program, names) if op.inline else body.call(op.program, names)
