"""Types for annotations of parameters; named as in `jax.typing`, and `PRNGKeyArray` as in jaxtyping.

>>> from effx.typing import ArrayLike
>>> def double(x: ArrayLike) -> "effx.Array": ...
>>> isinstance(1.5, ArrayLike), isinstance([1.5], ArrayLike)
(True, False)
"""

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from effx.array import Array, Operand
from effx.dtypes import DTypeLike, is_key, uint32
from effx.lazy import list_names

__all__ = ["ArrayLike", "DTypeLike", "PRNGKeyArray"]
__dir__ = list_names(__all__)

if TYPE_CHECKING:
    ArrayLike: TypeAlias = Operand
    PRNGKeyArray: TypeAlias = Array
else:
    # Checkers at run time (isinstance, beartype, typeguard, jaxtyping) want classes: no parameters, no protocol.
    ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
"""An argument that is converted to an array: arrays, numbers, NumPy's arrays and scalars, and NumPy's array-likes.

At run time a union of classes, without objects that only have `__array__`.
"""


class _Key(type):
    """The class of `PRNGKeyArray`."""

    def __instancecheck__(cls, x: object) -> bool:
        if not isinstance(x, Array):
            return False
        t = x.type
        return (is_key(t.dtype) and not t.shape) or (t.dtype == uint32 and t.shape in ((2,), (4,)))


if not TYPE_CHECKING:

    class PRNGKeyArray(metaclass=_Key):
        """A random key: a typed one of rank 0, or a raw one, u32[2] or u32[4]. To type checkers an array.

        `jaxtyping.PRNGKeyArray` is one of `jax.Array`, and takes effx's keys only where `import jax` gives effx.

        >>> import effx
        >>> isinstance(effx.random.key(0), PRNGKeyArray), isinstance(effx.numpy.ones(2), PRNGKeyArray)
        (True, False)
        """
