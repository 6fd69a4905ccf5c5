"""Discrete Fourier transforms."""

import enum
from collections.abc import Sequence

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import to_inexact
from effx.array.promotion import as_operand, convert
from effx.errors import DTypeError, OptionError, name_user_call
from effx.families.fft import KINDS, Fft
from effx.lax.operands import int_tuple

__all__ = ["FftType", "fft"]


class FftType(enum.IntEnum):
    """The domain and direction of a Fourier transform.

    >>> import effx.lax as lax, effx.numpy as enp
    >>> print(lax.fft(enp.array([1.0, 2.0]), lax.FftType.RFFT, (2,)))
    [ 3.+0.j -1.+0.j]
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: Operand, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Returns the discrete Fourier transform along the last axes.

    Args:
        x: `c64[*batch, *lengths]` or the like; real for "RFFT", and with a last axis of `n // 2 + 1` for "IRFFT".
            Real numbers are converted where complex ones are transformed, integers to floats.
        fft_type: "FFT", "IFFT", "RFFT" or "IRFFT", or the enum's value.
        fft_lengths: the sizes of the transform, one to three; for "IRFFT" those of the result. None at all for "FFT"
            and "IFFT": x as complex numbers.

    Returns:
        The transform; an inverse one is divided by the product of the lengths.

    Raises:
        DTypeError: another type of transform, or a dtype that it does not take.
        ShapeError: the last axes are not those of the lengths.

    >>> import numpy as np
    >>> fft(np.array([1, 0, 0], np.complex64), "FFT", (3,)).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    name = fft_type.name if isinstance(fft_type, FftType) else str(fft_type).upper()
    if name not in KINDS:
        raise OptionError(f"fft: fft_type must be one of {', '.join(KINDS)}, got {fft_type!r}")
    operand = as_operand(x)
    array = to_real(operand) if name == "RFFT" else to_complex(operand)
    lengths = int_tuple("fft_lengths", fft_lengths)
    return array if not lengths and name in ("FFT", "IFFT") else Fft(name, lengths)(array)


def to_complex(x: Array) -> Array:
    """Converts numbers to complex ones of at least 64 bits."""
    x = to_inexact(x)
    wide = convert(x, dtypes.float32) if x.type.dtype.itemsize < 4 else x
    return wide if wide.type.kind == "c" else convert(wide, dtypes.complex_dtype(wide.type.dtype))


def to_real(x: Array) -> Array:
    """Converts numbers to floats of at least 32 bits.

    Raises:
        DTypeError: they are complex.
    """
    if x.type.kind == "c":
        raise DTypeError(
            f"{name_user_call()}: takes real numbers, got {x.type!r}; use the transform of complex numbers"
        )
    x = to_inexact(x)
    return convert(x, dtypes.float32) if x.type.dtype.itemsize < 4 else x
