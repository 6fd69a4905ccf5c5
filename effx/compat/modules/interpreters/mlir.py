"""`jax.interpreters.mlir`: what primitives are made of."""

import numpy as np

from effx import dtypes
from effx.compat.lowering import (
    LoweringRuleContext,
    ModuleContext,
    emit_python_callback,
    lower_fun,
    register_lowering,
)
from effx.lower.text.hlo import mlir_binding
from effx.tree.registry import PyTree

__all__ = [
    "LoweringRuleContext", "ModuleContext", "aval_to_ir_type", "dtype_to_ir_type", "emit_python_callback", "lower_fun",
    "register_lowering",
]  # fmt: skip


def aval_to_ir_type(*context_and_aval: PyTree) -> PyTree:
    """Returns the type of arrays in MLIR's Python binding, in its context in force.

    Args:
        context_and_aval: the type, last; JAX 0.12 has a context of lowering before it.
    """
    return mlir_binding("ir").Type.parse(context_and_aval[-1].mlir)


def dtype_to_ir_type(dtype: PyTree) -> PyTree:
    """Returns the type of elements in MLIR's Python binding, in its context in force."""
    return mlir_binding("ir").Type.parse(dtypes.mlir_name(np.dtype(dtype)))
