"""Discrete Fourier transforms with NumPy's names: sizes, axes and norms of choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from effx import dtypes
from effx.array import Array, shaping
from effx.array.indexing import iota_along_axis
from effx.array.promotion import as_operand, convert, size_scalar
from effx.array.shaping import normalize_axes, normalize_axis
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.families.fft import Fft
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.sizes.division import maximum
from effx.lax.fourier import to_complex, to_real
from effx.lax.operands import check_int
from effx.lazy import list_names
from effx.numpy.creation import make_constant, make_filled, to_device
from effx.numpy.elementwise import conj
from effx.numpy.padding import pad
from effx.numpy.shaping import roll

if TYPE_CHECKING:
    from effx.array import Operand
    from effx.dtypes import DTypeLike

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
__dir__ = list_names(__all__)

NORMS = ("backward", "ortho", "forward")


def _resize_axis(x: Array, axis: int, size: int) -> Array:
    """Cuts an axis at its end, or pads it with zeros."""
    n = x.type.shape[axis]
    if n < size:
        return pad(x, {axis: (0, size - n)})
    return x[(slice(None),) * axis + (slice(size),)] if n > size else x


def _transform(
    kind: str,
    a: Operand,
    s: Sequence[int | None] | None,
    axes: Sequence[int] | None,
    norm: str | None,
) -> Array:
    """Brings axes to the end, transforms along three at a time, and brings them back."""
    x = as_operand(a)
    if norm is not None and norm not in NORMS:
        raise ValueError(f"{name_user_call()}: norm must be one of {', '.join(NORMS)}, got {norm!r}")
    if axes is None:
        axes = range(x.type.ndim) if s is None else range(x.type.ndim - len(s), x.type.ndim)
    resolved_axes = [normalize_axis(axis, x.type.ndim, x.type) for axis in axes]
    sizes = list(s) if s is not None else [None] * len(resolved_axes)
    if len(sizes) != len(resolved_axes):
        raise ShapeError(f"{name_user_call()}: {len(sizes)} sizes for {len(resolved_axes)} axes")
    if len(set(resolved_axes)) != len(resolved_axes):
        raise ShapeError(f"{name_user_call()}: axes {tuple(axes)} repeat an axis")
    x = to_real(x) if kind == "RFFT" else to_complex(x)
    if not resolved_axes:
        return x
    own_lengths = [x.type.shape[i] for i in resolved_axes]
    if kind == "IRFFT":
        own_lengths[-1] = maximum(2 * (own_lengths[-1] - 1), 0)
    if any([n == 0 and size is None for n, size in zip(own_lengths, sizes, strict=True)]):
        return _transform_nothing(x, kind, resolved_axes, own_lengths, sizes)
    lengths = []
    for i, (axis_index, size) in enumerate(zip(resolved_axes, sizes, strict=True)):
        half = kind == "IRFFT" and i == len(resolved_axes) - 1
        length = own_lengths[i] if size is None else check_int("a size", size)
        if length < 1:
            raise ShapeError(
                f"{name_user_call()}: axis {axis_index} of {x.type!r} must have at least one point, got {length}"
            )
        x = _resize_axis(x, axis_index, length // 2 + 1 if half else length)
        lengths.append(length)
    last = tuple(range(x.type.ndim - len(resolved_axes), x.type.ndim))
    x = shaping.moveaxis(x, tuple(resolved_axes), last)
    x = _transform_last_axes(kind, x, tuple(lengths))
    factor = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm or "backward"]
    if factor:
        power = -factor if kind in ("FFT", "RFFT") else factor
        count = math.prod(lengths)
        x = x * (size_scalar(count, dtypes.float32) ** power if is_symbolic(count) else count**power)
    return shaping.moveaxis(x, last, tuple(resolved_axes))


def _transform_nothing(
    x: Array, kind: str, axes: Sequence[int], own_lengths: Sequence[int], sizes: Sequence[int | None]
) -> Array:
    """Returns the transform of axes of which one has no points: every sum is empty."""
    shape = list(x.type.shape)
    for axis, n, size in zip(axes, own_lengths, sizes, strict=True):
        shape[axis] = n if size is None else size
    if kind == "RFFT":
        shape[axes[-1]] = shape[axes[-1]] // 2 + 1
    dtype = x.type.dtype
    return make_filled(
        tuple(shape), 0, dtypes.real_dtype(dtype) if kind == "IRFFT" else dtypes.complex_dtype(dtype)
    )


def _check_two_axes(axes: Sequence[int] | int | None) -> Sequence[int]:
    if not isinstance(axes, Sequence) or len(axes) != 2:
        raise ShapeError(f"{name_user_call()}: axes must be two axes, got {axes!r}")
    return axes


def _transform_last_axes(kind: str, x: Array, lengths: tuple[int, ...]) -> Array:
    """Transforms along the last axes, of which one operation takes three."""
    rest, three = lengths[:-3], lengths[-3:]
    if not rest:
        return Fft(kind, three)(x)
    plain = {"RFFT": "FFT", "IRFFT": "IFFT"}.get(kind, kind)
    k, m = x.type.ndim, len(lengths)
    outer, inner = tuple(range(k - m, k - 3)), tuple(range(k - len(rest), k))

    def along_rest(y: Array) -> Array:
        return shaping.moveaxis(
            _transform_last_axes(plain, shaping.moveaxis(y, outer, inner), rest), inner, outer
        )

    # The transform to real numbers comes last, the one from real numbers first.
    return Fft(kind, three)(along_rest(x)) if kind == "IRFFT" else along_rest(Fft(kind, three)(x))


def fft(a: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along an axis: `sum_j a[j] * exp(-2 pi i j k / n)`.

    Args:
        a: numbers.
        n: the size of the transform: the axis is cropped or zero-padded at its end. By default its own, which may be 0.
        axis: along which axis.
        norm: "backward" (the default) divides the inverse by `n`, "forward" this one, "ortho" both by its root.

    Returns:
        Complex numbers.

    Raises:
        ShapeError: an axis out of range, or no points.
        ValueError: another norm.

    >>> import effx.numpy as enp
    >>> fft(enp.array([1.0, 1.0])).tolist()
    [(2+0j), 0j]
    """
    return _transform("FFT", a, [n], [axis], norm)


def ifft(a: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft` along an axis. Arguments as for `fft`.

    >>> import effx.numpy as enp
    >>> ifft(enp.array([2.0, 0.0])).tolist()
    [(1+0j), (1+0j)]
    """
    return _transform("IFFT", a, [n], [axis], norm)


def rfft(a: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first `n // 2 + 1` entries of `fft` of real numbers, which determine the rest. Arguments as for `fft`.

    >>> import effx.numpy as enp
    >>> rfft(enp.array([1.0, 1.0, 1.0])).shape
    (2,)
    """
    return _transform("RFFT", a, [n], [axis], norm)


def irfft(a: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft` along an axis: real numbers.

    Args:
        a: half a spectrum; the imaginary parts of its ends count as 0.
        n: how many numbers to return; by default `2 * (m - 1)` of m entries.
        axis, norm: as for `fft`.

    >>> import effx.numpy as enp
    >>> irfft(enp.array([2.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    return _transform("IRFFT", a, [n], [axis], norm)


# The norm of the inverse transform.
_SWAPPED: dict[str | None, str] = {None: "forward", "backward": "forward", "forward": "backward"}


def hfft(a: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform of a signal that is its own mirror image's conjugate, given by its half: a real spectrum.

    Args:
        a: half a signal.
        n: how many entries to return; by default `2 * (m - 1)` of m numbers.
        axis, norm: as for `fft`.

    >>> import effx.numpy as enp
    >>> hfft(enp.array([1.0, 1.0])).tolist()
    [2.0, 0.0]
    """
    return _transform("IRFFT", conj(a), [n], [axis], _SWAPPED.get(norm, norm))


def ihfft(a: Operand, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: half a signal of a real spectrum. Arguments as for `fft`.

    >>> import effx.numpy as enp
    >>> ihfft(enp.array([2.0, 0.0])).real.tolist()
    [1.0, 1.0]
    """
    return conj(_transform("RFFT", a, [n], [axis], _SWAPPED.get(norm, norm)))


def fftn(
    a: Operand,
    s: Sequence[int | None] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete Fourier transform along several axes.

    Args:
        a: numbers.
        s: the sizes of the transform, None for an axis' own: axes are cut or padded with zeros at their ends.
        axes: along which axes; None for all, or for the last if `s` is given.
        norm: as for `fft`.

    Returns:
        Complex numbers.

    Raises:
        ShapeError: an axis out of range or twice, no points, or another number of sizes.
        ValueError: another norm.

    >>> import effx.numpy as enp
    >>> fftn(enp.ones((2, 2))).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return _transform("FFT", a, s, axes, norm)


def ifftn(
    a: Operand,
    s: Sequence[int | None] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `fftn`. Arguments as for `fftn`.

    >>> import effx.numpy as enp
    >>> ifftn(enp.array([[4.0, 0.0], [0.0, 0.0]])).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transform("IFFT", a, s, axes, norm)


def rfftn(
    a: Operand,
    s: Sequence[int | None] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`fftn` of real numbers, the half of it along the last axis. Arguments as for `fftn`.

    >>> import effx.numpy as enp
    >>> rfftn(enp.ones((2, 4))).shape
    (2, 3)
    """
    return _transform("RFFT", a, s, axes, norm)


def irfftn(
    a: Operand,
    s: Sequence[int | None] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `rfftn`: real numbers. Arguments as for `fftn`; the sizes are those of the result.

    >>> import effx.numpy as enp
    >>> irfftn(enp.array([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transform("IRFFT", a, s, axes, norm)


def fft2(
    a: Operand, s: Sequence[int | None] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`fftn` along two axes, by default the last. Arguments as for `fftn`.

    Raises:
        ShapeError: another number of axes.

    >>> import effx.numpy as enp
    >>> fft2(enp.ones((3, 2, 2))).shape
    (3, 2, 2)
    """
    return _transform("FFT", a, s, _check_two_axes(axes), norm)


def ifft2(
    a: Operand, s: Sequence[int | None] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`ifftn` along two axes, by default the last. Arguments as for `fftn`.

    Raises:
        ShapeError: another number of axes.

    >>> import effx.numpy as enp
    >>> ifft2(enp.ones((3, 2, 2))).shape
    (3, 2, 2)
    """
    return _transform("IFFT", a, s, _check_two_axes(axes), norm)


def rfft2(
    a: Operand, s: Sequence[int | None] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`rfftn` along two axes, by default the last. Arguments as for `fftn`.

    Raises:
        ShapeError: another number of axes.

    >>> import effx.numpy as enp
    >>> rfft2(enp.ones((3, 2, 4))).shape
    (3, 2, 3)
    """
    return _transform("RFFT", a, s, _check_two_axes(axes), norm)


def irfft2(
    a: Operand, s: Sequence[int | None] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`irfftn` along two axes, by default the last. Arguments as for `fftn`.

    Raises:
        ShapeError: another number of axes.

    >>> import effx.numpy as enp
    >>> irfft2(enp.ones((3, 2, 3))).shape
    (3, 2, 4)
    """
    return _transform("IRFFT", a, s, _check_two_axes(axes), norm)


def _frequencies(
    counts: np.ndarray[tuple[int], np.dtype[np.intp]] | Array,
    n: int,
    d: Operand,
    dtype: DTypeLike | None,
) -> Array:
    result_dtype = dtypes.canonicalize_requested(float if dtype is None else dtype)
    if not dtypes.is_inexact(result_dtype):
        raise DTypeError(f"{name_user_call()}: dtype must be floating or complex, got {result_dtype.name}")
    numbers = (
        convert(counts, result_dtype)
        if isinstance(counts, Array)
        else make_constant(counts.astype(result_dtype), result_dtype)
    )
    return numbers / (as_operand(d) * n)


def _count_up(size: int) -> np.ndarray[tuple[int], np.dtype[np.intp]] | Array:
    return iota_along_axis((size,), 0) if is_symbolic(size) else np.arange(size)


def fftfreq(n: int, d: Operand = 1.0, *, dtype: DTypeLike | None = None, device: object = None) -> Array:
    """The frequencies of the entries of `fft`, in cycles per unit of the distance of samples.

    Args:
        n: the size of the transform.
        d: the distance of samples.
        dtype: of the result; floating.
        device: where to put it.

    Returns:
        `[n]` frequencies: 0 and the positive ones, then the negative ones.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    size = _check_point_count(n)
    counts = (_count_up(size) + size // 2) % size - size // 2
    return to_device(_frequencies(counts, size, d, dtype), device)


def rfftfreq(n: int, d: Operand = 1.0, *, dtype: DTypeLike | None = None, device: object = None) -> Array:
    """The frequencies of the entries of `rfft`. Arguments as for `fftfreq`.

    Returns:
        `[n // 2 + 1]` frequencies, none of them negative.

    >>> rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    size = _check_point_count(n)
    return to_device(_frequencies(_count_up(size // 2 + 1), size, d, dtype), device)


def _check_point_count(n: int) -> int:
    size = check_int("n", n)
    if size < 1:
        raise ShapeError(f"{name_user_call()}: needs at least one point, got {size}")
    return size


def fftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Array:
    """The spectrum with the frequency 0 in the middle.

    Args:
        x: the array.
        axes: an axis or several; None for all.

    >>> fftshift(fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    a = as_operand(x)
    resolved_axes = normalize_axes(axes, a.type)
    return roll(a, [a.type.shape[i] // 2 for i in resolved_axes], resolved_axes)


def ifftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`. Arguments as for `fftshift`.

    >>> ifftshift(fftshift(fftfreq(4))).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    a = as_operand(x)
    resolved_axes = normalize_axes(axes, a.type)
    return roll(a, [-(a.type.shape[i] // 2) for i in resolved_axes], resolved_axes)
