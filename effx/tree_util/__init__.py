"""The names of `effx.tree` as `jax.tree_util` has them, and the functions that register node types."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
