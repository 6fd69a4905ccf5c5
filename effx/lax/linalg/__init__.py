"""Factorisations of matrices, named as in jax.lax.linalg.

They work on the last two axes of floating or complex arrays, for each index of the axes before. 16-bit floats are
computed in 32 bits. `effx.numpy.linalg` is the lenient form.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
