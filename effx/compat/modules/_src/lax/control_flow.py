"""`jax._src.lax.control_flow`: pytensor asks here for `scan`."""

from effx.compat.modules.lax import scan
from effx.lax import cond, fori_loop, switch, while_loop

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]
