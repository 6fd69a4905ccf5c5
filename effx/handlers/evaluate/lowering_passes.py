"""What becomes of a program before it is lowered: what nobody needs is left out, types' cuts become constraints, and ordered
effects data: a token goes through its calls, branches and loops.
"""

from typing import cast

from effx import ports
from effx.effects import isolated
from effx.ir.ops.host import ORDERED
from effx.ir.passes import needed_only
from effx.ir.passes.sharding_constraints import with_cuts
from effx.ir.program import Program


def in_order(program: Program) -> Program:
    """Returns a program whose ordered effects happen in order because each needs the token of the one before.

    Only what its results and its effects need is left in it, in its loops too. What its types say of Explicit axes is said
    by constraints then. A program that needs none of this is returned as it is.
    """
    program = with_cuts(needed_only(program))
    if not program.effects or ORDERED.isdisjoint(program.effects):
        return program
    found = program.derived.get("in order")
    if found is None:
        with isolated():
            found = program.derived["in order"] = ports.ordered_effects.tokens.threaded(program)
    return cast("Program", found)
