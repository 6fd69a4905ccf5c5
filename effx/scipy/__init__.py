"""The SciPy API on effx arrays: names and semantics as in `jax.scipy`."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
