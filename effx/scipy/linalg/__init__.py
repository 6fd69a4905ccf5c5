"""Linear algebra, named as in jax.scipy.linalg.

Parameters about memory and checks (overwrite_a, check_finite, debug, turbo, lwork), which SciPy has, change nothing:
arrays are immutable, and values are not checked.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
