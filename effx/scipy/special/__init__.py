"""Special functions, named as in jax.scipy.special.

Operands are promoted and broadcast as in `effx.numpy`; integers become floats.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
