"""Looking at values while programs run, named as in `jax.debug`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
