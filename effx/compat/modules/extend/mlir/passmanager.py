"""`jax.extend.mlir.passmanager`: jaxlib's `mlir.passmanager`."""

from effx.compat.mlir_names import binding_namespace

__getattr__, __dir__ = binding_namespace("passmanager")
