"""Sparse arrays, named as in `jax.experimental.sparse`: what is not stored is zero, and how much is stored is static."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
