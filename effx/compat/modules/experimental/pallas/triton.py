"""`jax.experimental.pallas.triton`: compiler parameters of kernels for GPUs, which effx does not compile."""

from effx.compat.pallas import CompilerParams

__all__ = ["CompilerParams"]
