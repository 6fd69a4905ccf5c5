"""`jax.lax.linalg`: effx's factorizations as primitives, `cholesky_p` and the like, and its functions."""

from effx.compat.operation_names import LINALG
from effx.compat.primitives import namespace

__getattr__, __dir__ = namespace(__name__, LINALG)
