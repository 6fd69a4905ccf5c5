"""`jax.interpreters.xla`: primitives of known values."""

from effx.compat.defined import apply_primitive

__all__ = ["apply_primitive"]
