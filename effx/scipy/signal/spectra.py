"""Spectra of signals: Fourier transforms of overlapping parts under a window, and the signal from them.

Source: Welch, "The use of fast Fourier transform for the estimation of power spectra", 1967.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from effx import dtypes
from effx.array import Array, Operand, arithmetic, reducing
from effx.array.arithmetic import conj, where
from effx.array.promotion import (
    as_operand,
    broadcast_arrays,
    broadcast_to,
    convert,
    promote_dtypes,
    to_host_array,
)
from effx.array.shaping import concatenate, moveaxis, normalize_axis, swapaxes
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call, warn_user
from effx.families.order_statistics import OrderStatistics
from effx.ir.values.scalars import scalar
from effx.lax.operands import check_int
from effx.numpy import fft
from effx.numpy.padding import pad
from effx.scipy.signal.trends import subtract_line, subtract_mean
from effx.scipy.signal.windows import Window, get_periodic_window

__all__ = ["csd", "istft", "stft", "welch"]

Trend = str | bool | Callable[[Array], Array]


class SegmentPlan(NamedTuple):
    """The segments of a signal: `size` elements under a window, every `step` elements, transformed with `points`."""

    window: Array
    size: int
    step: int
    points: int


def _plan_segments(
    window: Window,
    n: int,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    dtype: dtypes.DType,
) -> SegmentPlan:
    """Resolves the segments of a signal of n elements."""
    window_array = None if isinstance(window, str | tuple) else as_operand(window)
    if window_array is not None and (window_array.type.ndim != 1 or 0 in window_array.type.shape):
        raise ShapeError(
            f"{name_user_call()}: a window must be a vector with elements, got {window_array.type!r}"
        )
    if window_array is not None:
        size = window_array.type.size if nperseg is None else check_int("nperseg", nperseg)
        if size != window_array.type.size:
            raise ShapeError(
                f"{name_user_call()}: nperseg is {size}, but the window is {window_array.type!r}"
            )
        if size > n:
            raise ShapeError(
                f"{name_user_call()}: the window {window_array.type!r} is longer than the signal of {n} elements"
            )
    else:
        size = 256 if nperseg is None else check_int("nperseg", nperseg)
        if size < 1:
            raise ShapeError(f"{name_user_call()}: nperseg must be positive, got {size}")
        if size > n:
            if nperseg is not None:
                warn_user(
                    f"{name_user_call()}: nperseg is {size}, but the signal has {n} elements, so that many are taken"
                )
            size = n
    overlap = size // 2 if noverlap is None else check_int("noverlap", noverlap)
    if not 0 <= overlap < size:
        raise ShapeError(f"{name_user_call()}: noverlap must be less than nperseg, {size}, got {overlap}")
    points = size if nfft is None else check_int("nfft", nfft)
    if points < size:
        raise ShapeError(f"{name_user_call()}: nfft must be at least nperseg, {size}, got {points}")
    if window_array is None:
        assert isinstance(window, str | tuple)
        window_array = to_host_array(get_periodic_window(window, size).astype(dtype))
    return SegmentPlan(convert(window_array, dtype), size, size - overlap, points)


def _detrend_function(trend: Trend) -> Callable[[Array], Array] | None:
    if callable(trend):
        return trend
    if trend is False:
        return None
    if trend == "constant":
        return subtract_mean
    if trend == "linear":
        return subtract_line
    raise OptionError(
        f"{name_user_call()}: detrend must be 'constant', 'linear', False or a function, got {trend!r}"
    )


def _transform_segments(
    x: Array, parts: SegmentPlan, trend: Callable[[Array], Array] | None, onesided: bool
) -> Array:
    """Returns `[..., parts, frequencies]` transforms of the parts along the last axis."""
    n = x.type.shape[-1]
    count = (n - parts.size) // parts.step + 1
    at = np.arange(count)[:, None] * parts.step + np.arange(parts.size)
    pieces = x[..., to_host_array(at.astype(np.int32))]
    if trend is not None:
        pieces = trend(pieces)
    pieces = pieces * parts.window
    return fft.rfft(pieces, parts.points) if onesided else fft.fft(pieces, parts.points)


def _segment_frequencies(fs: Array, parts: SegmentPlan, onesided: bool) -> Array:
    of = np.fft.rfftfreq if onesided else np.fft.fftfreq
    return to_host_array(of(parts.points).astype(fs.type.dtype)) * fs


def _real_dtype(x: Array) -> dtypes.DType:
    return dtypes.real_dtype(x.type.dtype)


def _check_signal(x: Operand) -> Array:
    a = arithmetic.to_inexact(as_operand(x))
    return convert(a, dtypes.float32) if a.type.dtype.itemsize < 4 else convert(a, a.type.dtype)


def _check_rate(fs: Operand, dtype: dtypes.DType) -> Array:
    rate = as_operand(fs)
    if rate.type.shape or rate.type.kind == "c":
        raise ShapeError(f"{name_user_call()}: fs must be a real number, got {rate.type!r}")
    return convert(rate, dtype)


def _scale_factor(scaling: str, fs: Array, window: Array) -> Array:
    if scaling == "density":
        return 1 / (fs * reducing.sum(window * window))
    if scaling == "spectrum":
        return 1 / reducing.sum(window) ** 2
    raise OptionError(f"{name_user_call()}: scaling must be 'density' or 'spectrum', got {scaling!r}")


def _median(x: Array) -> Array:
    n = x.type.shape[-1]
    rank = broadcast_to(scalar((n - 1) // 2, dtypes.int32, False), (*x.type.shape[:-1], 1))
    middle, following = OrderStatistics()(x, rank)
    return ((middle + (middle if n % 2 else following)) / 2)[..., 0]


def _average(x: Array, average: str) -> Array:
    """Averages the last axis."""
    if average == "mean":
        return reducing.mean(x, -1)
    if average != "median":
        raise OptionError(f"{name_user_call()}: average must be 'mean' or 'median', got {average!r}")
    # The median of n squares of normal numbers, in pairs, is by this factor away from their mean.
    n = x.type.shape[-1]
    twice = 2 * np.arange(1, (n - 1) // 2 + 1)
    bias = 1 + float(np.sum(1 / (twice + 1) - 1 / twice))
    if x.type.kind == "c":
        from effx.ir.ops.elementwise import Complex

        return Complex()(_median(arithmetic.real(x)), _median(arithmetic.imag(x))) / bias
    return _median(x) / bias


def _spectral_density(
    x: Operand,
    y: Operand | None,
    fs: Operand,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Trend,
    return_onesided: bool,
    scaling: str,
    axis: int,
    average: str,
) -> tuple[Array, Array]:
    a = _check_signal(x)
    b = None if y is None else _check_signal(y)
    if b is not None:
        a, b = promote_dtypes(a, b)
    resolved_axis = normalize_axis(axis, a.type.ndim, a.type)
    a = moveaxis(a, resolved_axis, -1)
    if b is not None:
        b = moveaxis(b, normalize_axis(axis, b.type.ndim, b.type), -1)
        n, m = a.type.shape[-1], b.type.shape[-1]
        a, b = pad(a, {-1: (0, max(m - n, 0))}), pad(b, {-1: (0, max(n - m, 0))})
        a, b = broadcast_arrays([a, b], keep_scalars=False)
    back = axis if axis < 0 else resolved_axis
    real = _real_dtype(a)
    rate = _check_rate(fs, real)
    trend = _detrend_function(detrend)
    onesided = return_onesided
    if onesided and a.type.kind == "c":
        warn_user(f"{name_user_call()}: the signal is complex, so that return_onesided has no effect")
        onesided = False
    if 0 in a.type.shape:
        shape = np.zeros((*a.type.shape[:-1], 0), real)
        return to_host_array(np.zeros(0, real)), moveaxis(to_host_array(shape), -1, back)
    parts = _plan_segments(window, a.type.shape[-1], nperseg, noverlap, nfft, real)
    first = _transform_segments(a, parts, trend, onesided)
    if b is None:
        power = arithmetic.real(first * conj(first))
    else:
        power = conj(first) * _transform_segments(b, parts, trend, onesided)
    power = power * _scale_factor(scaling, rate, parts.window)
    if onesided:
        # The other half has the same power, but for the frequencies that are their own negatives.
        twice = np.full(parts.points // 2 + 1, 2.0)
        twice[0] = 1
        if parts.points % 2 == 0:
            twice[-1] = 1
        power = power * to_host_array(twice.astype(real))
    averaged = _average(swapaxes(power, -1, -2), average)
    return _segment_frequencies(rate, parts, onesided), moveaxis(averaged, -1, back)


def csd(
    x: Operand,
    y: Operand | None,
    fs: Operand = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross power spectral density of two signals, by Welch's method.

    Args:
        x, y: the signals; the shorter one is padded with zeros. Without y it is the density of x, which is real.
        fs: how many samples there are in a unit of time.
        window: a name, a tuple of a name and its parameters, or values.
        nperseg: how many elements a part has: 256 by default, or as many as a window of values.
        noverlap: how many of them are in the next part too; half of them by default.
        nfft: the points of the Fourier transform; `nperseg` by default, more are zeros.
        detrend: what is subtracted of a part: its mean ("constant"), a line ("linear"), nothing (False), or what a
            function makes of parts along the last axis.
        return_onesided: True for the frequencies from 0 on, with the power of the others; of real signals only.
        scaling: "density" for power in a unit of frequency, "spectrum" for power.
        axis: along which axis.
        average: "mean" or "median" of the parts.

    Returns:
        The frequencies, and the densities, with them along the axis.

    Raises:
        ShapeError: sizes do not fit.
        DTypeError: another word.

    >>> x = np.cos(np.arange(64) * np.pi / 4)
    >>> f, p = csd(x, x, nperseg=16)
    >>> float(f[p.real.argmax()])
    0.125
    """
    return _spectral_density(
        x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average,
    )  # fmt: skip


def welch(
    x: Operand,
    fs: Operand = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectral density of a signal, by Welch's method. Arguments as for `csd`.

    >>> f, p = welch(np.cos(np.arange(64) * np.pi / 4), nperseg=16)
    >>> float(f[p.argmax()])
    0.125
    """
    return _spectral_density(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )  # fmt: skip


def _extend_ends(x: Array, boundary: str | None, amount: int) -> Array:
    """Adds elements at both ends of the last axis."""
    if boundary is None or not amount:
        return x
    if boundary == "zeros":
        return pad(x, {-1: (amount, amount)})
    if boundary == "constant":
        return pad(x, {-1: (amount, amount)}, mode="edge")
    if boundary not in ("even", "odd"):
        raise DTypeError(
            f"{name_user_call()}: boundary must be even, odd, constant, zeros or None, got {boundary!r}"
        )
    n = x.type.shape[-1]
    if amount > n - 1:
        raise ShapeError(f"{name_user_call()}: {amount} elements cannot be mirrored at the ends of {n}")
    low, high = x[..., 1 : amount + 1][..., ::-1], x[..., n - amount - 1 : n - 1][..., ::-1]
    if boundary == "odd":
        low, high = 2 * x[..., :1] - low, 2 * x[..., -1:] - high
    return concatenate([low, x, high], -1)


def stft(
    x: Operand,
    fs: Operand = 1.0,
    window: Window = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The Fourier transforms of overlapping parts of a signal.

    Args:
        x: the signal.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided: as for `csd`.
        boundary: how half a part is added at both ends: "zeros", "constant" (the outermost elements), "even"
            (mirrored), "odd" (mirrored at the outermost elements' values too), or None.
        padded: True to add zeros so that all elements are in a part.
        axis: along which axis.

    Returns:
        The frequencies, the times, and the transforms: the frequencies along the axis, and the times along a new
        last one.

    Raises:
        ShapeError: sizes do not fit.
        DTypeError: another word.

    >>> f, t, z = stft(np.ones(64), nperseg=16)
    >>> z.shape, abs(z[:, 3]).round(3).tolist()[:3]
    ((9, 9), [1.0, 0.5, 0.0])
    """
    a = _check_signal(x)
    resolved_axis = normalize_axis(axis, a.type.ndim, a.type)
    a = moveaxis(a, resolved_axis, -1)
    real = _real_dtype(a)
    rate = _check_rate(fs, real)
    trend = _detrend_function(detrend)
    onesided = return_onesided
    if onesided and a.type.kind == "c":
        warn_user("stft: the signal is complex, so that return_onesided has no effect")
        onesided = False
    if 0 in a.type.shape:
        raise ShapeError(f"{name_user_call()}: the signal must have elements, got {a.type!r}")
    parts = _plan_segments(window, a.type.shape[-1], nperseg, noverlap, nfft, real)
    a = _extend_ends(a, boundary, parts.size // 2)
    if padded:
        a = pad(a, {-1: (0, -(a.type.shape[-1] - parts.size) % parts.step)})
    spectrum = _transform_segments(a, parts, trend, onesided) / reducing.sum(parts.window)
    n = a.type.shape[-1]
    # A part's time is that of its middle; the ends that were added have none.
    begin = 0 if boundary is not None and parts.size > 1 else parts.size / 2
    count = (n - parts.size) // parts.step + 1
    middles = begin + np.arange(count) * parts.step
    if boundary is not None and parts.size % 2:
        middles = parts.size / 2 + np.arange(count) * parts.step - parts.size / 2
    times = to_host_array(middles.astype(real)) / rate
    return (
        _segment_frequencies(rate, parts, onesided),
        times,
        moveaxis(spectrum, -1, resolved_axis - a.type.ndim - 1),
    )


def istft(
    Zxx: Operand,
    fs: Operand = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The signal of which `stft` made these transforms: that of the least squared distance.

    Source: Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984.

    Args:
        Zxx: the transforms.
        fs, window, nperseg, noverlap, nfft: as for `stft`; by default `nperseg` is the size that belongs to the
            frequencies.
        input_onesided: whether there are only the frequencies from 0 on.
        boundary: whether half a part was added at both ends.
        time_axis, freq_axis: the axes of times and frequencies.

    Returns:
        The times, and the signal, along the axis that is left.

    Raises:
        ShapeError: sizes or axes do not fit.

    >>> t, x = istft(stft(np.arange(32.0), nperseg=8)[2])
    >>> bool(abs(x - np.arange(32.0)).max() < 1e-4)
    True
    """
    z = _check_signal(Zxx)
    if z.type.ndim < 2:
        raise ShapeError(f"{name_user_call()}: needs axes of times and frequencies, got {z.type!r}")
    times = normalize_axis(time_axis, z.type.ndim, z.type)
    frequencies = normalize_axis(freq_axis, z.type.ndim, z.type)
    if times == frequencies:
        raise ShapeError(
            f"{name_user_call()}: time_axis and freq_axis must differ, got {time_axis} and {freq_axis}"
        )
    z = moveaxis(z, (times, frequencies), (-2, -1))
    real = _real_dtype(z)
    rate = _check_rate(fs, real)
    count, bins = z.type.shape[-2:]
    if not bins or not count:
        raise ShapeError(f"{name_user_call()}: needs frequencies and times, got {z.type!r}")
    usual = 2 * (bins - 1) if input_onesided else bins
    window_array = None if isinstance(window, str | tuple) else as_operand(window)
    size = (
        window_array.type.size
        if window_array is not None and nperseg is None
        else usual
        if nperseg is None
        else nperseg
    )
    size = check_int("nperseg", size)
    if nfft is None:
        points = size if input_onesided and size == usual + 1 else usual
    else:
        points = check_int("nfft", nfft)
    parts = _plan_segments(window, max(size, 1), size, noverlap, points, real)
    pieces = fft.irfft(z, points) if input_onesided else fft.ifft(z, points)
    pieces = pieces[..., :size] * (parts.window * reducing.sum(parts.window))
    n = size + (count - 1) * parts.step
    at = to_host_array((np.arange(count)[:, None] * parts.step + np.arange(size)).astype(np.int32))
    empty = to_host_array(np.zeros(n, real))
    norm = empty.at[at].add(parts.window * parts.window)
    overlap_sum = convert(to_host_array(np.zeros((*pieces.type.shape[:-2], n), real)), pieces.type.dtype)
    overlap_sum = overlap_sum.at[..., at].add(pieces)
    half = size // 2 if boundary else 0
    norm, overlap_sum = norm[half : n - half], overlap_sum[..., half : n - half]
    overlap_sum = overlap_sum / where(norm > 1e-10, norm, 1)
    left = overlap_sum.type.shape[-1]
    if overlap_sum.type.ndim > 1:
        overlap_sum = moveaxis(overlap_sum, -1, times - (1 if frequencies < times else 0))
    return to_host_array(np.arange(left).astype(real)) / rate, overlap_sum
