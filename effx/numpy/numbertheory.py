"""Integers: divisors and multiples, and bits packed into bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from effx import dtypes, lax
from effx.array import Array, arithmetic, reducing, shaping
from effx.array.promotion import as_operand, broadcast_arrays, convert, promote_dtypes, to_host_array
from effx.errors import DTypeError, OptionError, name_user_call
from effx.numpy.padding import pad

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["gcd", "lcm", "packbits", "unpackbits"]


def _promote_integers(x1: Operand, x2: Operand) -> tuple[Array, Array]:
    x, y = broadcast_arrays(promote_dtypes(as_operand(x1), as_operand(x2)), False)
    if x.type.kind not in "iu":
        raise DTypeError(
            f"{name_user_call()}: takes integers, got {as_operand(x1).type!r} and {as_operand(x2).type!r}"
        )
    return x, y


def gcd(x1: Operand, x2: Operand) -> Array:
    """The greatest common divisor, by Euclid's algorithm; 0 of two zeros.

    Args:
        x1, x2: integers, which broadcast.

    Returns:
        The divisors, none of them negative.

    Raises:
        DTypeError: no integers.

    >>> gcd(np.array([12, 0]), 18).tolist()
    [6, 18]
    """
    x, y = _promote_integers(x1, x2)

    def step(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = pair
        divisor = arithmetic.where(b == 0, 1, b)
        return arithmetic.where(b == 0, a, b), arithmetic.where(b == 0, b, lax.rem(a, divisor))

    def unfinished(pair: tuple[Array, Array]) -> Array:
        return reducing.any(pair[1] != 0)

    if x.type.kind == "i":
        x, y = abs(x), abs(y)
    return lax.while_loop(unfinished, step, (x, y))[0]


def lcm(x1: Operand, x2: Operand) -> Array:
    """The least common multiple; 0 where a number is 0. Arguments as for `gcd`.

    >>> lcm(np.array([4, 0]), 6).tolist()
    [12, 0]
    """
    x, y = _promote_integers(x1, x2)
    if x.type.kind == "i":
        x, y = abs(x), abs(y)
    divisor = gcd(x, y)
    none = divisor == 0
    return arithmetic.where(none, 0, lax.div(x, arithmetic.where(none, 1, divisor)) * y)


def _bit_values(bitorder: str) -> Array:
    """The values of the bits of a byte, in their order."""
    if bitorder not in ("big", "little"):
        raise OptionError(f"{name_user_call()}: bitorder must be 'big' or 'little', got {bitorder!r}")
    shifts = np.arange(8, dtype=np.uint8)
    return to_host_array(shifts[::-1].copy() if bitorder == "big" else shifts)


def packbits(a: Operand, axis: int | None = None, bitorder: str = "big") -> Array:
    """Packs booleans into bytes, eight along an axis into one, with zeros at the end.

    Args:
        a: booleans, or integers of which each that is not 0 is a set bit.
        axis: None for all elements as one axis.
        bitorder: "big" where the first of eight is the highest bit, "little" where it is the lowest.

    Returns:
        Bytes (uint8); the axis has a size of `ceil(n / 8)`.

    Raises:
        DTypeError: another dtype or order.

    >>> packbits(np.array([True, False, True])).tolist()
    [160]
    """
    x = as_operand(a)
    if x.type.kind not in "biu":
        raise DTypeError(f"packbits: takes booleans or integers, got {x.type!r}")
    shifts = _bit_values(bitorder)
    x, along = shaping.flatten_without_axis(x, axis)
    x = shaping.moveaxis(x if x.type.kind == "b" else x != 0, along, -1)
    *sizes, n = x.type.shape
    x = pad(convert(x, dtypes.uint8), [(0, 0)] * len(sizes) + [(0, -n % 8)])
    eights = shaping.reshape(x, (*sizes, (n + 7) // 8, 8))
    return shaping.moveaxis(reducing.sum(eights << shifts, -1, dtype=dtypes.uint8), -1, along)


def unpackbits(a: Operand, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Unpacks bytes into bits, eight along an axis for each.

    Args:
        a: bytes (uint8).
        axis: None for all elements as one axis.
        count: how many bits to keep along the axis; negative to leave out so many at the end, and more than
            there are for zeros at the end.
        bitorder: as for `packbits`.

    Returns:
        Zeros and ones (uint8).

    Raises:
        DTypeError: another dtype or order.

    >>> unpackbits(np.array([160], np.uint8), count=3).tolist()
    [1, 0, 1]
    """
    x = as_operand(a)
    if x.type.dtype != dtypes.uint8:
        raise DTypeError(f"unpackbits: takes uint8, got {x.type!r}")
    shifts = _bit_values(bitorder)
    x, along = shaping.flatten_without_axis(x, axis)
    x = shaping.moveaxis(x, along, -1)
    *sizes, n = x.type.shape
    bits = shaping.reshape((shaping.expand_dims(x, -1) >> shifts) & 1, (*sizes, n * 8))
    if count is not None:
        bits = bits[..., :count]
        missing = count - bits.type.shape[-1]
        if missing > 0 and count > 0:
            bits = pad(bits, [(0, 0)] * len(sizes) + [(0, missing)])
    return shaping.moveaxis(bits, -1, along)
