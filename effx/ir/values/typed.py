"""`Typed`, the base of arrays and references: shape, dtype and sizes from an array type."""

from typing import Any

import numpy as np

from effx.ir.types import ArrayType, Shape


class Typed:
    """An object of an array type.

    Attributes:
        type: the dtype, shape and weak type of the elements.
    """

    __slots__ = ()
    type: ArrayType

    @property
    def shape(self) -> Shape:
        """The sizes, outermost first."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size
