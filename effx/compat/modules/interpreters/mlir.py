"""`jax.interpreters.mlir`: what primitives are made of."""

from effx.compat.lowering import (
    LoweringRuleContext,
    ModuleContext,
    emit_python_callback,
    lower_fun,
    register_lowering,
)

__all__ = ["LoweringRuleContext", "ModuleContext", "emit_python_callback", "lower_fun", "register_lowering"]
