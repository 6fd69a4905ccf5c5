"""Checkpoints of arrays on any devices, named as in `jax.experimental.array_serialization`; tensorstore stores them."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
