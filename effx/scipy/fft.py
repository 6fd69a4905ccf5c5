"""Discrete cosine transforms, computed by Fourier transforms.

Sources: Ahmed, Natarajan and Rao, "Discrete cosine transform", 1974; Makhoul, "A fast cosine transform in one and two
dimensions", 1980.
"""

import math
from collections.abc import Sequence

import numpy as np

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, convert, to_host_array
from effx.array.shaping import concatenate, moveaxis, normalize_axis
from effx.errors import OptionError, ShapeError, name_user_call
from effx.families.fft import Fft
from effx.ir.ops.elementwise import Complex
from effx.lax.operands import check_int
from effx.lazy import list_names
from effx.numpy.padding import pad
from effx.transforms.jit.jit import jit

__all__ = ["dct", "dctn", "idct", "idctn"]
__dir__ = list_names(__all__)

NORMS = (None, "backward", "ortho", "forward")
COMPLEX = Complex()


def _phase_factor(angle: np.ndarray, x: Array) -> Array:
    """Returns `exp(i * angle)` for the dtype of a real array."""
    return to_host_array(np.exp(1j * angle).astype(dtypes.complex_dtype(x.type.dtype)))


def _to_complex(x: Array) -> Array:
    return convert(x, dtypes.complex_dtype(x.type.dtype))


def _dct1(x: Array) -> Array:
    """`x[0] + (-1)**k x[n-1] + 2 sum x[j] cos(pi j k / (n - 1))`: the transform of the even extension."""
    n = x.type.shape[-1]
    extended = concatenate([x, x[..., -2:0:-1]], -1)
    return arithmetic.real(Fft("RFFT", (2 * n - 2,))(extended))


def _dct2(x: Array) -> Array:
    """`2 sum x[j] cos(pi k (2 j + 1) / (2 n))`: the even elements, then the odd ones backwards, have its phase."""
    n = x.type.shape[-1]
    reordered = concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1)
    spectrum = Fft("FFT", (n,))(_to_complex(reordered))
    return 2 * arithmetic.real(spectrum * _phase_factor(-math.pi * np.arange(n) / (2 * n), x))


def _dct3(x: Array) -> Array:
    """`x[0] + 2 sum x[j] cos(pi j (2 k + 1) / (2 n))`: the steps of `_dct2` backwards."""
    n = x.type.shape[-1]
    mirrored = pad(x[..., 1:][..., ::-1], {-1: (1, 0)})
    spectrum = COMPLEX(x, -mirrored) * _phase_factor(math.pi * np.arange(n) / (2 * n), x)
    real_values = arithmetic.real(Fft("IFFT", (n,))(spectrum)) * n
    permutation = np.empty(n, np.int32)
    permutation[::2], permutation[1::2] = np.arange((n + 1) // 2), np.arange(n - 1, (n + 1) // 2 - 1, -1)
    return real_values[..., to_host_array(permutation)]


def _dct4(x: Array) -> Array:
    """`2 sum x[j] cos(pi (2 k + 1) (2 j + 1) / (4 n))`: its phase is that of 2 n points, and one of j and one of k."""
    n = x.type.shape[-1]
    k = np.arange(n)
    rotated = pad(_to_complex(x) * _phase_factor(-math.pi * k / (2 * n), x), {-1: (0, n)})
    spectrum = Fft("FFT", (2 * n,))(rotated)[..., :n]
    return 2 * arithmetic.real(spectrum * _phase_factor(-math.pi * (2 * k + 1) / (4 * n), x))


KINDS = {1: _dct1, 2: _dct2, 3: _dct3, 4: _dct4}
INVERSES = {1: 1, 2: 3, 3: 2, 4: 4}


def _normalized_dct(x: Array, kind: int, norm: str | None, inverse: bool) -> Array:
    """Transforms along the last axis; `kind` is the type of the transform that is computed."""
    n = x.type.shape[-1]
    points = 2 * (n - 1) if kind == 1 else 2 * n
    if norm == "ortho":
        # Orthogonal: the elements of frequency 0, and of the highest one of type 1, count sqrt(2) times as much.
        ends = np.ones(n, x.type.dtype)
        ends[0] = math.sqrt(2)
        if kind == 1:
            ends[-1] = math.sqrt(2)
        if kind in (1, 3):
            x = x * to_host_array(ends)
        y = KINDS[kind](x) * math.sqrt(1 / points)
        return y / to_host_array(ends) if kind in (1, 2) else y
    y = KINDS[kind](x)
    return y / points if inverse == (norm != "forward") else y


@jit(static_argnames=("kind", "sizes", "axes", "norm", "inverse"), inline=True)
def _dct_along_axes(
    x: Array, kind: int, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str | None, inverse: bool
) -> Array:
    if x.type.kind == "c":
        parts = [
            _dct_along_axes(p, kind, sizes, axes, norm, inverse)
            for p in (arithmetic.real(x), arithmetic.imag(x))
        ]
        return COMPLEX(*parts)
    x = convert(x, dtypes.float32) if x.type.dtype.itemsize < 4 else convert(x, x.type.dtype)
    for axis, size in zip(axes, sizes, strict=True):
        y = moveaxis(x, axis, -1)
        n = y.type.shape[-1]
        y = y[..., :size] if size < n else pad(y, {-1: (0, size - n)}) if size > n else y
        x = moveaxis(_normalized_dct(y, kind, norm, inverse), -1, axis)
    return x


def _transform(
    x: Operand,
    type: int,
    s: Sequence[int | None] | None,
    axes: Sequence[int] | None,
    norm: str | None,
    inverse: bool,
) -> Array:
    a = arithmetic.to_inexact(as_operand(x))
    if type not in KINDS:
        raise OptionError(f"{name_user_call()}: type must be 1, 2, 3 or 4, got {type!r}")
    if norm not in NORMS:
        raise OptionError(
            f"{name_user_call()}: norm must be one of backward, ortho, forward or None, got {norm!r}"
        )
    if axes is None:
        axes = range(a.type.ndim) if s is None else range(a.type.ndim - len(s), a.type.ndim)
    resolved_axes = tuple([normalize_axis(axis, a.type.ndim, a.type) for axis in axes])
    if len(set(resolved_axes)) != len(resolved_axes):
        raise ShapeError(f"{name_user_call()}: axes {tuple(axes)} repeat an axis")
    requested_sizes = [None] * len(resolved_axes) if s is None else list(s)
    if len(requested_sizes) != len(resolved_axes):
        raise ShapeError(f"{name_user_call()}: {len(requested_sizes)} sizes for {len(resolved_axes)} axes")
    sizes = tuple(
        [
            a.type.shape[axis_index] if size is None else check_int("a size", size)
            for axis_index, size in zip(resolved_axes, requested_sizes, strict=True)
        ]
    )
    least = 2 if type == 1 else 1
    for axis_index, size in zip(resolved_axes, sizes, strict=True):
        if size < least:
            raise ShapeError(
                f"{name_user_call()}: axis {axis_index} of {a.type!r} must have at least {least} points, got {size}"
            )
    return _dct_along_axes(a, INVERSES[type] if inverse else type, sizes, resolved_axes, norm, inverse)


def dct(x: Operand, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete cosine transform along an axis.

    Of type 2 it is `2 sum_j x[j] cos(pi k (2 j + 1) / (2 n))`.

    Args:
        x: numbers; of complex ones both parts are transformed.
        type: 1, 2, 3 or 4. Type 3 is the inverse of type 2, but for the norm; the others are their own.
        n: the size of the transform: the axis is cropped or zero-padded at its end. By default its own.
        axis: along which axis.
        norm: "backward" (also None) divides the inverse by `2 n` (by `2 (n - 1)` of type 1), "forward" this one;
            "ortho" makes it orthogonal.

    Returns:
        Numbers of at least 32 bits.

    Raises:
        ShapeError: an axis out of range, or too few points.
        DTypeError: another type or norm.

    >>> import numpy as np
    >>> dct(np.array([1.0, 1.0])).tolist()
    [4.0, 0.0]
    """
    return _transform(x, type, [n], [axis], norm, False)


def idct(x: Operand, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `dct` along an axis. Arguments as for `dct`.

    >>> import numpy as np
    >>> idct(np.array([4.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    return _transform(x, type, [n], [axis], norm, True)


def dctn(
    x: Operand,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete cosine transform along several axes.

    Args:
        x, type, norm: as for `dct`.
        s: the sizes along these axes.
        axes: all by default, or the last ones where `s` is given.

    >>> import numpy as np
    >>> dctn(np.ones((2, 2))).tolist()
    [[16.0, 0.0], [0.0, 0.0]]
    """
    return _transform(x, type, s, axes, norm, False)


def idctn(
    x: Operand,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`. Arguments as for `dctn`.

    >>> import numpy as np
    >>> idctn(np.array([[16.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transform(x, type, s, axes, norm, True)
