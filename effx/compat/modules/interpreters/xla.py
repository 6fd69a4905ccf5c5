"""`jax.interpreters.xla`: primitives of known values, and values that become arrays."""

from effx.compat.conversions import canonicalize_dtype_handlers, pytype_aval_mappings
from effx.compat.defined import apply_primitive

__all__ = ["apply_primitive", "canonicalize_dtype_handlers", "pytype_aval_mappings"]
