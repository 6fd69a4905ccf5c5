"""Mutable references, named as in `jax.ref`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
