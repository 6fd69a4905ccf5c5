"""Minima of functions of several variables: names and semantics as in `jax.scipy.optimize`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
