"""`jax._src.pjit`: quax asks here for the primitive of calls."""

from effx.compat.primitives import primitive_named

__all__ = ["jit_p"]

jit_p = primitive_named("jit")
