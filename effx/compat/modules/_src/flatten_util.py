"""`jax._src.flatten_util`: blackjax imports `jax.flatten_util` from here."""

from effx.flatten_util import ravel_pytree

__all__ = ["ravel_pytree"]
