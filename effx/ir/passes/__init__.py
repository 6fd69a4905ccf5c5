"""Passes: from programs to programs with the same meaning."""

from effx.ir.passes.cleaning import common_subexpressions, dead_code
from effx.ir.passes.inlining import inline

__all__ = ["common_subexpressions", "dead_code", "inline"]
