"""`jax._src.checkify`: flax.nnx imports `jax.experimental.checkify` from here."""

from effx.experimental.checkify import Error, checkify, user_checks
from effx.library.failures import CheckError as JaxException

__all__ = ["Error", "JaxException", "checkify", "user_checks"]
