"""`jax._src.checkify`: flax.nnx asks here for `jax.experimental.checkify`."""

from effx.experimental.checkify import Error, checkify, user_checks
from effx.library.failures import CheckError as JaxException

__all__ = ["Error", "JaxException", "checkify", "user_checks"]
