"""Convolution and correlation of vectors, and windows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import to_inexact
from effx.array.promotion import as_operand, convert, promote_dtypes, to_host_array
from effx.array.shaping import reshape
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.families.bessel import bessel
from effx.ir.ops.index import Gather
from effx.ir.ops.shape import Iota
from effx.ir.types import array_type
from effx.lax.control.branches import platform_dependent
from effx.lax.convolution import conv_general_dilated
from effx.lax.operands import check_int
from effx.numpy.creation import make_constant
from effx.numpy.elementwise import conj
from effx.numpy.linear import dot
from effx.numpy.padding import pad
from effx.numpy.shaping import flip

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.dtypes import DTypeLike

__all__ = ["bartlett", "blackman", "convolve", "correlate", "hamming", "hanning", "i0", "kaiser"]

# So many indices of windows are a constant, which is read in half the time that it takes to compute them. More take less
# time to compute, and no memory; those of 100,000 windows of 100 took 36 ms for 41.
KNOWN_INDICES = 1 << 20


def _correlate_vectors(
    a: Operand, v: Operand, mode: str, precision: object, preferred: DTypeLike | None
) -> Array:
    """Correlates two vectors of one dtype: sums of products with the second shifted along the first."""
    if mode not in ("full", "same", "valid"):
        raise OptionError(f"{name_user_call()}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    x, y = [to_inexact(part) for part in promote_dtypes(as_operand(a), as_operand(v))]
    if x.type.ndim != 1 or y.type.ndim != 1 or 0 in x.type.shape or 0 in y.type.shape:
        raise ShapeError(
            f"{name_user_call()}: takes two vectors with elements, got {x.type!r} and {y.type!r}"
        )
    n, m = x.type.size, y.type.size
    exchanged = n < m
    if exchanged:  # the sums are those of both reversed
        x, y, n, m = y[::-1], x[::-1], m, n
    low, high = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    around = (high, low) if exchanged else (low, high)
    count = n + low + high - m + 1

    def multiply_windows(x: Array, y: Array) -> Array:
        # Windows are gathered and multiplied as a matrix: 1,000 by 1,000 takes 1.5 ms, XLA:CPU's convolution 16.
        if count * m <= KNOWN_INDICES:
            windows = pad(x, around)[to_host_array(np.arange(count)[:, None] + np.arange(m))]
        else:
            index = array_type(dtypes.int32, (count, m, 1))
            windows = Gather((), (0,), (0,), (1,))(pad(x, around), Iota(index, 0)() + Iota(index, 1)())
        return dot(windows, y, precision=precision, preferred_element_type=preferred)

    def convolve_on_tpu(x: Array, y: Array) -> Array:
        # A gather reads a row of the vector's tiles for each element.
        signals, kernels = reshape(x, (1, 1, n)), reshape(y, (1, 1, m))
        sums = conv_general_dilated(
            signals,
            kernels,
            (1,),
            [around],
            precision=precision,  # type: ignore[arg-type]  # as the operation takes it
            preferred_element_type=preferred,
        )
        return reshape(sums, (count,))

    return platform_dependent(x, y, tpu=convolve_on_tpu, default=multiply_windows)


def convolve(
    a: Operand,
    v: Operand,
    mode: str = "full",
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The convolution of two vectors: `out[k] = sum_i a[i] * v[k - i]`.

    Args:
        a, v: `[n]` and `[m]` numbers, neither of them empty; integers count as floats.
        mode: "full" for `[n + m - 1]` sums, "same" for the `max(n, m)` in the middle, "valid" for the
            `max(n, m) - min(n, m) + 1` to which all elements contribute.
        precision: of the products, as for `dot`.
        preferred_element_type: of the sums; by default that of the operands.

    Raises:
        ShapeError: no vectors, or no elements.
        DTypeError: another mode.

    >>> convolve(np.array([1, 2, 3]), np.array([1, 1])).tolist()
    [1.0, 3.0, 5.0, 3.0]
    """
    x, y = as_operand(a), as_operand(v)
    if x.type.size < y.type.size:
        x, y = y, x
    return _correlate_vectors(x, flip(y), mode, precision, preferred_element_type)


def correlate(
    a: Operand,
    v: Operand,
    mode: str = "valid",
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The correlation of two vectors: `out[k] = sum_i a[i + k] * conj(v[i])`. Arguments as for `convolve`.

    >>> correlate(np.array([1, 2, 3]), np.array([1, 1])).tolist()
    [3.0, 5.0]
    """
    return _correlate_vectors(a, conj(v), mode, precision, preferred_element_type)


def _cosine_window(M: int, *weights: float) -> Array:
    """A sum of cosines over one period: `sum_k weights[k] * cos(k * t)` for M values of t from 0 to 2 pi."""
    n = check_int("M", M)
    t = 2 * math.pi * np.arange(max(n, 0)) / max(n - 1, 1)
    data = sum([w * np.cos(k * t) for k, w in enumerate(weights)]) if n > 1 else np.ones(max(n, 0))
    dtype = dtypes.canonicalize(float)
    return make_constant(np.asarray(data).astype(dtype), dtype)


def bartlett(M: int) -> Array:
    """The Bartlett window: a triangle from 0 to 1 and back to 0.

    Args:
        M: how many values.

    Returns:
        `[M]` values of the default floating dtype; 1 where `M` is 1.

    >>> bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    n = check_int("M", M)
    dtype = dtypes.canonicalize(float)
    return make_constant(np.bartlett(max(n, 0)).astype(dtype), dtype)


def blackman(M: int) -> Array:
    """The Blackman window: `0.42 - 0.5 cos(t) + 0.08 cos(2 t)`. Arguments as for `bartlett`.

    >>> [round(abs(w), 2) for w in blackman(3).tolist()]
    [0.0, 1.0, 0.0]
    """
    return _cosine_window(M, 0.42, -0.5, 0.08)


def hamming(M: int) -> Array:
    """The Hamming window: `0.54 - 0.46 cos(t)`. Arguments as for `bartlett`.

    >>> [round(w, 2) for w in hamming(3).tolist()]
    [0.08, 1.0, 0.08]
    """
    return _cosine_window(M, 0.54, -0.46)


def hanning(M: int) -> Array:
    """The Hann window: `0.5 - 0.5 cos(t)`. Arguments as for `bartlett`.

    >>> [round(w, 2) for w in hanning(5).tolist()]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _cosine_window(M, 0.5, -0.5)


def i0(x: Operand) -> Array:
    """The modified Bessel function of the first kind of order 0: `exp(|x|)` times `lax.bessel_i0e`.

    Args:
        x: real numbers.

    Raises:
        DTypeError: complex numbers.

    >>> float(i0(0.0))
    1.0
    """
    a = to_inexact(as_operand(x))
    if a.type.kind == "c":
        raise DTypeError(f"i0: takes real numbers, got {a.type!r}")
    return bessel(0)(a)


def kaiser(M: int, beta: Operand) -> Array:
    """The Kaiser window: `i0(beta sqrt(1 - t**2)) / i0(beta)` for t from -1 to 1.

    Args:
        M: how many values.
        beta: the shape of the window: 0 for a rectangle.

    Returns:
        `[M]` values of the default floating dtype.

    >>> [round(w, 2) for w in kaiser(3, 5.0).tolist()]
    [0.04, 1.0, 0.04]
    """
    n, dtype = check_int("M", M), dtypes.canonicalize(float)
    if n <= 1:
        return make_constant(np.ones(max(n, 0), dtype), dtype)
    shape = convert(as_operand(beta), dtype)
    t = np.linspace(-1, 1, n)
    return i0(shape * make_constant(np.sqrt(1 - t**2).astype(dtype), dtype)) / i0(shape)
