"""Namespaces named as in `jax.experimental`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
