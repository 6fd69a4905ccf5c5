"""Spatial algorithms: names and semantics as in `jax.scipy.spatial`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
