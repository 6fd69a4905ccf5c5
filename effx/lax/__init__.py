"""The operations of XLA as functions, named as in jax.lax.

They are strict: arrays of different dtypes are refused, and so are shapes that differ by more than axes of
size 1. Python numbers take the dtype of the other operands. `effx.numpy` is the lenient form.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
