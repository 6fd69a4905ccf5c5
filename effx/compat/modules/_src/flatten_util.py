"""`jax._src.flatten_util`: blackjax asks here for `jax.flatten_util`."""

from effx.flatten_util import ravel_pytree

__all__ = ["ravel_pytree"]
