"""The high half of an integer product."""

from typing import final

from effx import dtypes
from effx.array import Array
from effx.handling import Binary, decomposes
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import Bitcast
from effx.ir.values.scalars import scalar

__all__ = ["Mulhi"]


@final
class Mulhi(Binary):
    """The high half of the product, which has twice the bits of its factors."""

    __slots__ = ()
    kinds = "iu"


@decomposes(Mulhi)
def _(op: Mulhi, x: Array, y: Array) -> Array:
    # Schoolbook multiplication of half words; no sum of them overflows.
    dtype, width = x.type.dtype, dtypes.bits(x.type.dtype)
    word = dtypes.canonicalize_requested(f"uint{width}")
    half, mask = scalar(width // 2, word), scalar((1 << width // 2) - 1, word)

    def high(v: Array) -> Array:
        return e.ShiftRightLogical()(v, half)

    def low(v: Array) -> Array:
        return e.And()(v, mask)

    u, v = (Bitcast(word)(x), Bitcast(word)(y)) if word != dtype else (x, y)
    middle = high(u) * low(v) + high(low(u) * low(v))
    product = high(u) * high(v) + high(middle) + high(low(u) * high(v) + low(middle))
    if word == dtype:
        return product
    # A negative factor is read as larger by 2^width.
    zero = scalar(0, dtype)
    return Bitcast(dtype)(product) - e.Select()(x < zero, zero, y) - e.Select()(y < zero, zero, x)
