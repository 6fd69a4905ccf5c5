"""The operations of XLA as functions, named as in jax.lax.

They are strict: arrays of different dtypes are refused, and so are shapes that differ by more than
axes of size 1. Python numbers adapt to the arrays beside them. `effx.numpy` is the lenient side.

Never: promote one array's dtype to another's.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
