"""`jax._src.state.types`: flax imports the type of references from here."""

from effx.ref import AbstractRef

__all__ = ["AbstractRef"]
