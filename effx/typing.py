"""Types for annotations of parameters; named as in `jax.typing`.

>>> from effx.typing import ArrayLike
>>> def double(x: ArrayLike) -> "effx.Array": ...
"""

from typing import TypeAlias

from effx.array import Operand
from effx.dtypes import DTypeLike
from effx.lazy import list_names

__all__ = ["ArrayLike", "DTypeLike"]
__dir__ = list_names(__all__)

ArrayLike: TypeAlias = Operand
"""An argument that is converted to an array: arrays, numbers, NumPy's arrays and scalars, and NumPy's array-likes."""
