"""Ordered effects become data: a token goes through a program's calls, branches and loops before it is lowered."""

import importlib
from typing import cast

from effx.effects import isolated
from effx.ir.ops.host import ORDERED
from effx.ir.program import Program


def in_order(program: Program) -> Program:
    """Returns a program whose ordered effects happen in order because each needs the token of the one before.

    A program without such effects is returned as it is.
    """
    if not program.effects or ORDERED.isdisjoint(program.effects):
        return program
    found = program.derived.get("in order")
    if found is None:
        tokens = importlib.import_module("effx.handlers.authoring.tokens")
        with isolated():
            found = program.derived["in order"] = tokens.threaded(program)
    return cast("Program", found)
