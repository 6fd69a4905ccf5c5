"""Passes before lowering: drop unused operations, turn types' shardings into constraints, and thread a token for
ordered effects through calls, branches and loops.
"""

from typing import cast

from effx import ports
from effx.effects import isolated
from effx.ir.ops.host import ORDERED
from effx.ir.passes import drop_unneeded
from effx.ir.passes.sharding_constraints import insert_type_constraints
from effx.ir.program import Program


def order_effects(program: Program) -> Program:
    """Returns a program whose ordered effects happen in order because each needs the previous one's token.

    Only operations that its results and effects need remain in it, in its loops too. Shardings over Explicit axes in
    types become constraints. A program that needs none of this is returned unchanged.
    """
    program = insert_type_constraints(drop_unneeded(program))
    if not program.effects or ORDERED.isdisjoint(program.effects):
        return program
    ordered = program.derived.get("in order")
    if ordered is None:
        with isolated():
            ordered = program.derived["in order"] = ports.ordered_effects.tokens.thread_token(program)
    return cast("Program", ordered)
