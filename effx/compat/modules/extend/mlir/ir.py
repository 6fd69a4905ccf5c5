"""`jax.extend.mlir.ir`: jaxlib's `mlir.ir`."""

from effx.compat.mlir_names import binding_namespace

__getattr__, __dir__ = binding_namespace("ir")
