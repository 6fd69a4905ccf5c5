"""Clustering: names and semantics as in `jax.scipy.cluster`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
