"""Sparse matrices, as functions: names and semantics as in `jax.scipy.sparse`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
