"""Meshes of devices, and how arrays lie on them; named as in `jax.sharding`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
