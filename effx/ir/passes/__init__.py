"""Passes: transform programs to equivalent programs."""

from effx.ir.passes.inlining import inline_calls
from effx.ir.passes.pruning import drop_unneeded, prune_program
from effx.ir.passes.redundancy import eliminate_dead_code, merge_common_subexpressions

__all__ = [
    "drop_unneeded",
    "eliminate_dead_code",
    "inline_calls",
    "merge_common_subexpressions",
    "prune_program",
]
