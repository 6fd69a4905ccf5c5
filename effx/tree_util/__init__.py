"""`jax.tree_util`'s names for the functions of `effx.tree`, and functions to register node types."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
