"""`jax.experimental.pallas.tpu`: memories and compiler parameters of kernels for TPUs, which effx does not compile."""

from effx.compat.pallas import ANY, CompilerParams, MemorySpace

__all__ = ["ANY", "SMEM", "VMEM", "CompilerParams", "MemorySpace"]

SMEM, VMEM = MemorySpace.SMEM, MemorySpace.VMEM
