"""Passes: transform programs to equivalent programs."""

from effx.ir.passes.inlining import inline_calls
from effx.ir.passes.pruning import drop_unneeded, prune_equation, prune_program
from effx.ir.passes.redundancy import eliminate_common_subexpressions, eliminate_dead_code

__all__ = [
    "drop_unneeded",
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "inline_calls",
    "prune_equation",
    "prune_program",
]
