"""Linear algebra, named as in jax.numpy.linalg.

Functions take arrays of any number; integers become floats, and 16-bit floats are computed in 32 bits. Matrices are the
last two axes, and axes before them are batch axes.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
