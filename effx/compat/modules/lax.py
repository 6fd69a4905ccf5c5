"""`jax.lax`: effx's operations as primitives, `sin_p` and the like."""

from effx.compat.operation_names import LAX
from effx.compat.primitives import namespace

__getattr__, __dir__ = namespace(__name__, LAX)
