"""Types for annotations of parameters; named as in `jax.typing`.

>>> from effx.typing import ArrayLike
>>> def double(x: ArrayLike) -> "effx.Array": ...
>>> isinstance(1.5, ArrayLike), isinstance([1.5], ArrayLike)
(True, False)
"""

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.lazy import list_names

__all__ = ["ArrayLike", "DTypeLike"]
__dir__ = list_names(__all__)

if TYPE_CHECKING:
    ArrayLike: TypeAlias = Operand
else:
    # Checkers at run time (isinstance, beartype, typeguard, jaxtyping) want classes: no parameters, no protocol.
    ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
"""An argument that is converted to an array: arrays, numbers, NumPy's arrays and scalars, and NumPy's array-likes.

At run time a union of classes, without objects that only have `__array__`.
"""
