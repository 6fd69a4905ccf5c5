"""`Size`: the operation that returns a symbolic size as a number."""

from typing import final

import attrs

from effx import dtypes
from effx.dtypes import DType
from effx.ir.ops.base import ArrayOperation, check_arity, check_int
from effx.ir.types import ArrayType, array_type


def _default_int_dtype() -> DType:
    return dtypes.scalar_dtype(int)[0]


@final
@attrs.frozen
class SizeValue(ArrayOperation):
    """The value of a size, which may be symbolic, as an integer scalar of weak type; no operands.

    Attributes:
        size: an int, or a size with dimension variables, whose values are known when the program runs.
        dtype: the scalar's dtype: that of Python ints when the operation was made.
    """

    name = "size"

    size: int = attrs.field(validator=check_int)
    dtype: DType = attrs.field(factory=_default_int_dtype)

    def infer(self, *types: ArrayType) -> ArrayType:
        """A weak integer scalar."""
        check_arity(self, types, 0)
        return array_type(self.dtype, (), True)
