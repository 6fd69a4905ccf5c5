"""`jax.extend.core.primitives`: effx's operations as primitives."""

from effx.compat.composed import COMPOSED
from effx.compat.operation_names import PRIMITIVES
from effx.compat.primitives import call_p as call_p
from effx.compat.primitives import namespace

closed_call_p = call_p

__getattr__, __dir__ = namespace(__name__, [*PRIMITIVES, *COMPOSED], "call_p", "closed_call_p")
