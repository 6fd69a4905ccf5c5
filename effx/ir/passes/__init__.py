"""Passes: from programs to programs with the same meaning."""

from effx.ir.passes.inlining import inline
from effx.ir.passes.pruning import needed_only, pruned
from effx.ir.passes.redundancy import common_subexpressions, dead_code

__all__ = ["common_subexpressions", "dead_code", "inline", "needed_only", "pruned"]
