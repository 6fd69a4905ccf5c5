"""`jax._src.state.types`: flax asks here for the type of references."""

from effx.ref import AbstractRef

__all__ = ["AbstractRef"]
