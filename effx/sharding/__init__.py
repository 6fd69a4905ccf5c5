"""Meshes of devices and shardings of arrays over them, named as in `jax.sharding`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
