"""Random bits by counters and keys.

Never: hold state; a key and a counter determine the bits.
"""

from typing import ClassVar, final

from effx import dtypes
from effx.errors import DTypeError
from effx.ir.ops.base import Singleton, TupleOperation, broadcast_shape, check_arity, types_text
from effx.ir.types import ArrayType, array_type


@final
class Threefry2x32(Singleton, TupleOperation):
    """The Threefry-2x32 block cipher with 20 rounds, element by element.

    Operands: two u32 key words and two u32 counter words, all of one shape or of rank 0.
    Results: two u32 words. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
    as 1, 2, 3", SC 2011.
    """

    __slots__ = ()
    arity: ClassVar[int] = 4

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Two u32 arrays of the operands' shape."""
        check_arity(self, types, 4)
        if any(t.dtype != dtypes.uint32 for t in types):
            raise DTypeError(f"threefry2x32: operands must be u32, got {types_text(types)}")
        t = array_type(dtypes.uint32, broadcast_shape(self, types))
        return t, t
