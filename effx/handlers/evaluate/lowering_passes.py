"""What becomes of a program before it is lowered: what nobody needs is left out, types' cuts become constraints, and ordered
effects data: a token goes through its calls, branches and loops.
"""

from typing import cast

from effx import ports
from effx.effects import isolated
from effx.ir.ops.host import ORDERED
from effx.ir.passes import drop_unneeded
from effx.ir.passes.sharding_constraints import insert_type_constraints
from effx.ir.program import Program


def order_effects(program: Program) -> Program:
    """Returns a program whose ordered effects happen in order because each needs the token of the one before.

    Only what its results and its effects need is left in it, in its loops too. What its types say of Explicit axes is said
    by constraints then. A program that needs none of this is returned as it is.
    """
    program = insert_type_constraints(drop_unneeded(program))
    if not program.effects or ORDERED.isdisjoint(program.effects):
        return program
    ordered = program.derived.get("in order")
    if ordered is None:
        with isolated():
            ordered = program.derived["in order"] = ports.ordered_effects.tokens.thread_token(program)
    return cast("Program", ordered)
