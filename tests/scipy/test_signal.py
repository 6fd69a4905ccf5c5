"""effx.scipy.signal gives SciPy's convolutions, trends and spectra."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import signal as scipy

import effx
from effx.errors import EffxError
from effx.scipy import signal
from effx.scipy.signal import windows

RNG = np.random.default_rng(0)
SHAPES = [((7,), (4,)), ((3,), (7,)), ((5, 6), (2, 4)), ((2, 3), (5, 6))]
X, Y = RNG.normal(size=(2, 300)), RNG.normal(size=(2, 260))
Z = X + 1j * X[::-1]


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    """Double precision; neither library's warnings of odd sizes matter here."""
    with effx.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def pair(shapes: Any, complex_: bool) -> list[Any]:
    return [RNG.normal(size=s) + (1j * RNG.normal(size=s) if complex_ else 0) for s in shapes]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_convolutions(shapes: Any, mode: str) -> None:
    for complex_ in (False, True):
        a, b = pair(shapes, complex_)
        np.testing.assert_allclose(signal.convolve(a, b, mode), scipy.convolve(a, b, mode), atol=1e-12)
        got = signal.correlate(a, b, mode, method="fft")
        np.testing.assert_allclose(got, scipy.correlate(a, b, mode), atol=1e-12)
        np.testing.assert_allclose(signal.correlate(a, b, mode, "direct"), got, atol=1e-12)
        np.testing.assert_allclose(signal.fftconvolve(a, b, mode), scipy.fftconvolve(a, b, mode), atol=1e-12)


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_convolutions_of_matrices(boundary: str) -> None:
    for shapes in (((5, 6), (2, 4)), ((5, 6), (3, 3)), ((2, 3), (5, 6))):
        a, b = pair(shapes, False)
        for mode in ("full", "same", "valid"):
            got = signal.convolve2d(a, b, mode, boundary, 2.5)
            np.testing.assert_allclose(got, scipy.convolve2d(a, b, mode, boundary, 2.5), atol=1e-12)
            got = signal.correlate2d(a, b, mode, boundary, 2.5)
            np.testing.assert_allclose(got, scipy.correlate2d(a, b, mode, boundary, 2.5), atol=1e-12)
    a, b = pair(((3, 4), (2, 2)), True)
    np.testing.assert_allclose(signal.correlate2d(a, b), scipy.correlate2d(a, b), atol=1e-12)


def test_axes_dtypes_and_precision() -> None:
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(1, 2))
    np.testing.assert_allclose(
        signal.fftconvolve(a, b, axes=[1]), scipy.fftconvolve(a, b, axes=[1]), atol=1e-12
    )
    np.testing.assert_allclose(signal.fftconvolve(a, b, axes=-1), signal.fftconvolve(a, b, axes=1))
    assert signal.fftconvolve(a, b[:, :1], axes=()).shape == (3, 4)
    assert signal.convolve(np.arange(3, dtype="i2"), np.arange(3, dtype="i2")).dtype == np.float32
    assert signal.convolve(np.ones(3, "f4"), np.ones(3, "f4"), method="fft").dtype == np.float32
    assert signal.convolve(2.0, 3.0) == 6
    text = str(effx.jit(lambda a: signal.convolve(a, b, precision="highest")).lower(a).as_text())
    assert "HIGHEST" in text


def test_slopes_of_convolutions() -> None:
    a, b = pair(((4, 5), (2, 3)), False)
    for function in (signal.convolve2d, signal.correlate, signal.fftconvolve):

        def total(a: Any, b: Any, function: Any = function) -> Any:
            return (function(a, b, "same") ** 2).sum()

        for k, slope in enumerate(effx.jit(effx.grad(total, (0, 1)))(a, b)):
            h = np.zeros_like((a, b)[k])
            h[1, 2] = 1e-6
            steps = [(a + h, b), (a - h, b)] if k == 0 else [(a, b + h), (a, b - h)]
            want = (float(total(*steps[0])) - float(total(*steps[1]))) / 2e-6
            np.testing.assert_allclose(slope[1, 2], want, rtol=1e-6)
    rows = effx.vmap(lambda a: signal.convolve(a, b[0]))(a)
    np.testing.assert_allclose(rows, [np.convolve(r, b[0]) for r in a], atol=1e-12)


TRENDS: list[dict[str, Any]] = [{}, {"type": "constant"}, {"axis": 0}, {"bp": [5, 20]}, {"bp": 13}]


@pytest.mark.parametrize("options", TRENDS)
def test_trends(options: Any) -> None:
    x = X[:, :40] + np.arange(40)
    np.testing.assert_allclose(signal.detrend(x, **options), scipy.detrend(x, **options), atol=1e-12)
    matrix = effx.jacrev(lambda v: signal.detrend(v, **{**options, "axis": -1}))(x[0])
    np.testing.assert_allclose(matrix @ x[0], signal.detrend(x[0], **{**options, "axis": -1}), atol=1e-10)
    many = effx.vmap(lambda v: signal.detrend(v, **{**options, "axis": -1}))(x)
    np.testing.assert_allclose(many[1], signal.detrend(x[1], **{**options, "axis": -1}), atol=1e-12)


WINDOWS: list[Any] = [
    *windows.PLAIN, *windows.OTHER_NAMES, "cosine", "triang", "parzen", "tukey", ("tukey", 0.3), ("tukey", 0.0),
    ("kaiser", 5.0), ("gaussian", 3.0), ("general_gaussian", 1.5, 4.0), ("general_hamming", 0.7), "exponential",
    ("exponential", None, 3.0),
]  # fmt: skip


def test_windows() -> None:
    for window in WINDOWS:
        for n in (1, 2, 8, 9):
            got = windows.get_periodic_window(window, n)
            np.testing.assert_allclose(got, scipy.get_window(window, n), atol=1e-12, err_msg=str(window))


SPECTRA: list[dict[str, Any]] = [
    {"nperseg": 64},
    {"nperseg": 63, "noverlap": 10, "nfft": 80},
    {"window": ("kaiser", 4.0), "nperseg": 50, "scaling": "spectrum"},
    {"nperseg": 40, "detrend": "linear", "average": "median"},
    {"nperseg": 64, "detrend": False, "return_onesided": False, "fs": 10.0},
    {"window": np.hanning(32) + 0.1},
    {},
]


@pytest.mark.parametrize("options", SPECTRA)
def test_densities(options: Any) -> None:
    for x in (Z,) if options.get("nfft") or not options else (X,):
        for got, want in zip(signal.welch(x, **options), scipy.welch(x, **options), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)
        for got, want in zip(signal.csd(x, Y, **options), scipy.csd(x, Y, **options), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_densities_along_axes() -> None:
    for got, want in (
        (signal.welch(X.T, nperseg=32, axis=0), scipy.welch(X.T, nperseg=32, axis=0)),
        (signal.csd(X, X[0], nperseg=32), scipy.csd(X, X[0], nperseg=32)),
        (signal.csd(X, X, nperseg=32), scipy.csd(X, X.copy(), nperseg=32)),
        (effx.jit(lambda x: signal.csd(x, x, nperseg=32))(X), scipy.csd(X, X.copy(), nperseg=32)),
        (signal.csd(X, None, nperseg=32), scipy.welch(X, nperseg=32)),
        (
            signal.welch(X, nperseg=32, detrend=lambda v: v * 2),
            scipy.welch(X, nperseg=32, detrend=lambda v: v * 2),
        ),
    ):
        np.testing.assert_allclose(got[0], want[0])
        np.testing.assert_allclose(got[1], want[1], atol=1e-12)
        assert got[1].dtype.kind == want[1].dtype.kind
    assert signal.welch(X[:, :0])[1].shape == (2, 0)
    slope = effx.jit(effx.grad(lambda x: signal.welch(x, nperseg=16)[1].sum()))(X[0, :40])
    h = np.eye(40)[3] * 1e-6
    want = (
        signal.welch(X[0, :40] + h, nperseg=16)[1].sum() - signal.welch(X[0, :40] - h, nperseg=16)[1].sum()
    ) / 2e-6
    np.testing.assert_allclose(slope[3], want, rtol=1e-6)
    many = effx.vmap(lambda x: signal.welch(x, nperseg=64)[1])(X)
    np.testing.assert_allclose(many, scipy.welch(X, nperseg=64)[1], atol=1e-12)
    with effx.enable_x64(False):
        assert [p.dtype.name for p in signal.welch(X.astype("f2"), nperseg=16)] == ["float32"] * 2


TRANSFORMS: list[dict[str, Any]] = [
    {"nperseg": 64},
    {"nperseg": 63, "noverlap": 40},
    {"nperseg": 64, "boundary": "even", "detrend": "constant"},
    {"nperseg": 64, "boundary": "odd", "nfft": 100},
    {"nperseg": 64, "boundary": "constant", "fs": 4.0},
    {"nperseg": 65, "boundary": None, "padded": False},
    {"nperseg": 64, "return_onesided": False, "window": "hamming"},
]


@pytest.mark.parametrize("options", TRANSFORMS)
def test_short_time_transforms(options: Any) -> None:
    for x in (X[0], Z) if options in TRANSFORMS[:2] else (X,):
        there = scipy.stft(x, **options)
        for got, want in zip(signal.stft(x, **options), there, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)
        back = {k: v for k, v in options.items() if k in ("nperseg", "noverlap", "nfft", "fs", "window")}
        back["input_onesided"] = options.get("return_onesided", True) and x is not Z
        back["boundary"] = options.get("boundary", "zeros") is not None
        times, got = signal.istft(there[2], **back)
        np.testing.assert_allclose(got, scipy.istft(there[2], **back)[1], atol=1e-12)
        np.testing.assert_allclose(times, np.arange(got.shape[-1]) / options.get("fs", 1.0))


def test_short_time_transforms_along_axes() -> None:
    there = scipy.stft(X.T, nperseg=32, axis=0)[2]
    np.testing.assert_allclose(signal.stft(X.T, nperseg=32, axis=0)[2], there, atol=1e-12)
    rows: list[tuple[Any, dict[str, Any]]] = [
        (there, {"freq_axis": 0}),
        (there.transpose(2, 1, 0), {"time_axis": 0, "freq_axis": 2}),
    ]
    for z, axes in rows:
        got = signal.istft(z, nperseg=32, **axes)[1]
        np.testing.assert_allclose(got, scipy.istft(z, nperseg=32, **axes)[1], atol=1e-12)

    def back(x: Any) -> Any:
        return signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16)[1][:40]

    np.testing.assert_allclose(effx.jit(effx.jacfwd(back))(X[0, :40]), np.eye(40), atol=1e-12)
    np.testing.assert_allclose(effx.vmap(back)(X[:, :40]), X[:, :40], atol=1e-12)


V = np.ones(8)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: signal.convolve(V, V, "no"), "convolve: mode must be one of full, same, valid, got 'no'"),
        (lambda: signal.convolve(V, V, method="no"), "convolve: method must be one of auto, direct, fft, got 'no'"),
        (lambda: signal.correlate(V, np.ones((2, 2))),
         "correlate: in1 and in2 must have as many axes, got f64[8] and f64[2,2]"),
        (lambda: signal.convolve(V, V[:0]), "convolve: needs elements, got f64[8] and f64[0]"),
        (lambda: signal.fftconvolve(np.ones((3, 4)), np.ones((4, 3)), "valid"),
         "fftconvolve: for mode 'valid' one of f64[3,4] and f64[4,3] must be at least as large along each axis"),
        (lambda: signal.convolve2d(V, V), "convolve2d: takes matrices, got f64[8] and f64[8]"),
        (lambda: signal.correlate2d(np.eye(2), np.eye(2), boundary="no"),
         "correlate2d: boundary must be one of fill, wrap, symm, got 'no'"),
        (lambda: signal.detrend(V, type="no"), "detrend: type must be 'linear' or 'constant', got 'no'"),
        (lambda: signal.detrend(V, bp=[9]), "detrend: breaks must lie in the axis of 8 elements, got [9]"),
        (lambda: signal.welch(X, nperseg=8, noverlap=8), "welch: noverlap must be less than nperseg, 8, got 8"),
        (lambda: signal.welch(X, nperseg=8, nfft=4), "welch: nfft must be at least nperseg, 8, got 4"),
        (lambda: signal.welch(X, scaling="no"), "welch: scaling must be 'density' or 'spectrum', got 'no'"),
        (lambda: signal.csd(X, Y, average="no"), "csd: average must be 'mean' or 'median', got 'no'"),
        (lambda: signal.csd(X, Y, detrend="no"),
         "csd: detrend must be 'constant', 'linear', False or a function, got 'no'"),
        (lambda: signal.csd(X, Y, window=V, nperseg=9), "csd: nperseg is 9, but the window is f64[8]"),
        (lambda: signal.stft(X, boundary="no"),
         "stft: boundary must be even, odd, constant, zeros or None, got 'no'"),
        (lambda: signal.istft(V), "istft: needs axes of times and frequencies, got f64[8]"),
        (lambda: signal.istft(np.ones((3, 3)), time_axis=0, freq_axis=0),
         "istft: time_axis and freq_axis must differ, got 0 and 0"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text


def test_unknown_windows() -> None:
    with pytest.raises(EffxError, match=r"welch: window must be one of hann, hamming, .* got 'no'"):
        signal.welch(X, window="no")
