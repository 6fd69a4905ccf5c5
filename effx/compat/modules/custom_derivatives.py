"""`jax.custom_derivatives`: the primitives that functions with derivatives of their own perform."""

from effx.compat.primitives import namespace

__getattr__, __dir__ = namespace(__name__, ("custom_jvp_call", "custom_vjp_call"))
