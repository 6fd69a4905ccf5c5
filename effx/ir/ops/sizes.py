"""The operation that gives a symbolic size as a number."""

from typing import final

import attrs

from effx import dtypes
from effx.ir.ops.base import ArrayOperation, check_arity, is_int
from effx.ir.types import ArrayType, array_type


@final
@attrs.frozen
class Size(ArrayOperation):
    """The value of a size, which may be symbolic, as an integer scalar of weak type; no operands.

    Attributes:
        size: an int, or a size with dimension variables, whose values are known when the program runs.
    """

    size: int = attrs.field(validator=is_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """A weak integer scalar of the default dtype."""
        check_arity(self, types, 0)
        dtype, weak = dtypes.scalar_dtype(int)
        return array_type(dtype, (), weak)
