"""Floats taken apart and put together: mantissa and exponent, integer and fraction, distance to the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from effx import dtypes
from effx.array import Array, arithmetic
from effx.array.promotion import as_operand, convert
from effx.array.reducing import refuse_out
from effx.errors import DTypeError, name_user_call
from effx.ir.ops.convert import Bitcast
from effx.ir.values.scalars import scalar
from effx.numpy.binary import copysign
from effx.numpy.elementwise import trunc
from effx.numpy.logic import isfinite, isinf

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["frexp", "ldexp", "modf", "spacing"]


def _to_real(x: Operand) -> Array:
    a = arithmetic.to_inexact(as_operand(x))
    if a.type.kind != "f" or a.type.dtype.itemsize < 2:
        raise DTypeError(f"{name_user_call()}: takes real numbers of at least 16 bits, got {a.type!r}")
    return a


def frexp(x: Operand, /) -> tuple[Array, Array]:
    """The mantissa and the exponent: `x = mantissa * 2**exponent`, the mantissa in [0.5, 1) or 0.

    Args:
        x: real numbers.

    Returns:
        The mantissas, and the exponents (int32); of infinities and NaN they themselves, and 0.

    Raises:
        DTypeError: complex numbers.

    >>> [float(part) for part in frexp(6.0)]
    [0.75, 3.0]
    """
    a = _to_real(x)
    info = dtypes.finfo(a.type.dtype)
    # Subnormal numbers are scaled into the normal range first; where they are flushed to 0, so they are here.
    tiny = abs(a) < float(info.tiny)
    scaled = arithmetic.where(tiny, a * 2.0**info.nmant, a)
    bits = Bitcast(dtypes.bits_dtype(a.type.dtype))(convert(scaled, a.type.dtype))
    largest = (1 << info.nexp) - 1
    half = largest // 2 - 1
    field = (bits >> info.nmant) & largest
    special = (field == 0) | (field == largest)
    exponent = field - arithmetic.where(tiny, half + info.nmant, half)
    # Four times the factor is in the normal range for all exponents.
    factor = Bitcast(a.type.dtype)((largest - arithmetic.where(special, half, field)) << info.nmant)
    mantissa = arithmetic.where(special, a, scaled * factor * 0.25)
    return mantissa, convert(arithmetic.where(special, 0, exponent), dtypes.int32)


def ldexp(x1: Operand, x2: Operand, /) -> Array:
    """The product `x1 * 2**x2`.

    Args:
        x1: real numbers.
        x2: integers.

    Returns:
        Products of the dtype of `x1`, which overflow to infinity and lose bits only where they are subnormal.

    Raises:
        DTypeError: complex numbers, or exponents that are no integers.

    >>> float(ldexp(0.75, 3))
    6.0
    """
    a, n = _to_real(x1), as_operand(x2)
    if n.type.kind not in "biu":
        raise DTypeError(f"ldexp: exponents must be integers, got {n.type!r}")
    info = dtypes.finfo(a.type.dtype)
    reach = int(info.maxexp) - 2
    n = arithmetic.clip(convert(n, dtypes.int32) if n.type.dtype.itemsize < 4 else n, -4 * reach, 4 * reach)
    # A factor for each part of the exponent: the whole may be out of the range of the dtype.
    for _ in range(4):
        part = arithmetic.clip(n, -reach, reach)
        a, n = a * _power_of_two(part, a), n - part
    return a


def _power_of_two(n: Array, like: Array) -> Array:
    """Returns 2**n of a dtype for integers n in the normal range, from its bits."""
    info, integer = dtypes.finfo(like.type.dtype), dtypes.bits_dtype(like.type.dtype)
    bits = convert(n + (int(info.maxexp) - 1), integer) << info.nmant
    return convert(Bitcast(like.type.dtype)(bits), like.type.dtype, like.type.weak)


def modf(x: Operand, /, out: None = None) -> tuple[Array, Array]:
    """The fraction and the integer of each number, both with its sign.

    Args:
        x: real numbers.
        out: not supported.

    Raises:
        DTypeError: complex numbers.

    >>> [float(part) for part in modf(-2.5)]
    [-0.5, -2.0]
    """
    refuse_out(out)
    a = _to_real(x)
    integral_part = trunc(a)
    fraction = arithmetic.where(isinf(a), 0.0, a - integral_part)
    return copysign(fraction, a), integral_part


def spacing(x: Operand, /) -> Array:
    """The distance to the next float away from zero, with the number's sign.

    Args:
        x: real numbers.

    Raises:
        DTypeError: complex numbers.

    >>> float(spacing(1.0))
    1.1920928955078125e-07
    >>> float(spacing(0.0))
    1.401298464324817e-45
    """
    a = _to_real(x)
    info, integer = dtypes.finfo(a.type.dtype), dtypes.bits_dtype(a.type.dtype)
    # By their bits, since arithmetic of subnormal numbers may give 0. The distance is the power of two of the exponent,
    # `nmant` lower; where that is below the smallest normal number, a single bit of a subnormal one.
    mask = (1 << info.nexp) - 1
    bits_of_a = Bitcast(integer)(a)
    exponent = (bits_of_a >> info.nmant) & mask
    lower = exponent - info.nmant
    bit = arithmetic.maximum(exponent - 1, 0)
    bits = arithmetic.where(
        lower > 0, lower << info.nmant, as_operand(1) << arithmetic.minimum(bit, info.nmant)
    )
    # Behind the largest number stands infinity. The distance at -0. is positive.
    sign = scalar(dtypes.iinfo(integer).min, integer)
    magnitude = bits_of_a & ~sign
    infinity = mask << info.nmant
    bits = arithmetic.where(magnitude == infinity - 1, infinity, convert(bits, integer))
    bits = arithmetic.where((bits_of_a < 0) & (magnitude != 0), bits | sign, bits)
    size = Bitcast(a.type.dtype)(convert(bits, integer))
    size = convert(size, size.type.dtype, a.type.weak)
    return arithmetic.where(isfinite(a), size, float("nan"))
