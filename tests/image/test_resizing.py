"""effx.image resamples by kernels whose weights add up to 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx import image
from effx.errors import EffxError
from effx.image import ResizeMethod

METHODS = ("linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area")
LINE = np.random.default_rng(0).normal(size=7)


def keys(a: float) -> Callable[[float], float]:
    """The cubic kernel as the paper has it."""

    def kernel(x: float) -> float:
        if x <= 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0

    return kernel


def lanczos(radius: int) -> Callable[[float], float]:
    return lambda x: float(np.sinc(x) * np.sinc(x / radius)) if x < radius else 0.0


KERNELS: dict[str, Callable[[float], float]] = {
    "linear": lambda x: max(1 - x, 0.0),
    "lanczos3": lanczos(3),
    "lanczos5": lanczos(5),
    "cubic": keys(-0.5),
    "cubic-pytorch": keys(-0.5),
}


def resampled(x: np.ndarray, m: int, method: str, wide: bool, scale: float, shift: float = 0.0) -> np.ndarray:
    """One axis, element by element."""
    n, out = len(x), np.zeros(m)
    for j in range(m):
        place = (j + 0.5 - shift) / scale - 0.5
        if not -0.5 <= place <= n - 0.5:
            continue
        if method == "area":
            low, high = place - 0.5 / scale, place + 0.5 / scale
            weights = [max(min(high, i + 0.5) - max(low, i - 0.5), 0) for i in range(n)]
        else:
            width = max(1 / scale, 1) if wide else 1
            weights = [KERNELS[method](abs(place - i) / width) for i in range(n)]
            if method == "cubic-pytorch" and not wide:
                weights = [0.0] * n
                for i in range(-3, n + 3):
                    weights[min(max(i, 0), n - 1)] += keys(-0.75)(abs(place - i))
        out[j] = np.dot(weights, x) / np.sum(weights)
    return out


@pytest.mark.parametrize("method", METHODS)
def test_values(method: str) -> None:
    with effx.enable_x64(True):
        for m, wide in ((4, True), (4, False), (10, True)):
            got = image.resize(LINE, (m,), method, antialias=wide)
            np.testing.assert_allclose(got, resampled(LINE, m, method, wide, m / 7), atol=1e-12)
        for scale, shift in ((1.7, -2.0), (0.6, 0.7)):
            got = image.scale_and_translate(
                LINE, (9,), (0,), np.array([scale]), np.array([shift]), method, antialias=scale < 1
            )
            np.testing.assert_allclose(got, resampled(LINE, 9, method, scale < 1, scale, shift), atol=1e-12)


def test_nearest_element() -> None:
    for n, m in ((6, 4), (6, 10), (5, 5), (1, 3)):
        want = np.floor((np.arange(m) + 0.5) * n / m).astype(int)
        got = image.resize(np.arange(n), (m,), "nearest")
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, want)


def test_axes_are_resampled_one_after_another() -> None:
    x = np.random.default_rng(1).normal(size=(3, 4, 2))
    want = np.apply_along_axis(lambda v: resampled(v, 5, "cubic", True, 5 / 3), 0, x)
    want = np.apply_along_axis(lambda v: resampled(v, 2, "cubic", True, 0.5), 1, want)
    with effx.enable_x64(True):
        np.testing.assert_allclose(image.resize(x, (5, 2, 2), ResizeMethod.CUBIC), want, atol=1e-12)
        two = np.array([0.5, 5 / 3]), np.zeros(2)
        got = image.scale_and_translate(x, (5, 2, 2), (1, -3), *two, "cubic", precision="default")
        np.testing.assert_allclose(got, want, atol=1e-12)
        z = image.resize(x + 1j * x, (5, 2, 2), "cubic")
        np.testing.assert_allclose(z, want + 1j * want, atol=1e-12)


def test_dtypes_and_sizes() -> None:
    for dtype, wanted in (("f2", "f2"), ("i4", "f4"), ("?", "f4"), ("f4", "f4")):
        x = LINE.astype(dtype)
        got = image.resize(x, (4,), "linear")
        assert got.dtype == np.dtype(wanted)
        want = resampled(x.astype("f8"), 4, "linear", True, 4 / 7)
        np.testing.assert_allclose(got, want, atol=1e-2 if wanted == "f2" else 1e-6)
    assert image.resize(np.zeros((0, 3)), (0, 4), "linear").shape == (0, 4)
    assert image.resize(np.zeros((2, 3)), (2, 0), "cubic").shape == (2, 0)
    assert image.resize(2.5, (), "linear") == 2.5


@pytest.mark.parametrize("method", METHODS)
def test_transformations(method: str) -> None:
    """Resampling is linear in the image, and its places can be differentiated by."""
    scale, shift = np.array([1.3]), np.array([0.37])

    def moved(x: Any, scale: Any, shift: Any) -> Any:
        out = image.scale_and_translate(x, (6,), (0,), scale, shift, method)
        return (out * np.arange(1.0, 7.0)).sum()

    with effx.enable_x64(True):
        slopes = effx.jit(effx.grad(moved, (0, 1, 2)))(LINE, scale, shift)
        h = 1e-6
        for k, step in ((1, h), (2, h)):
            up, down = [scale, shift], [scale, shift]
            up[k - 1], down[k - 1] = up[k - 1] + step, down[k - 1] - step
            want = (float(moved(LINE, *up)) - float(moved(LINE, *down))) / (2 * step)
            np.testing.assert_allclose(slopes[k][0], want, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(slopes[0] @ LINE, moved(LINE, scale, shift), rtol=1e-10)
        rows = np.stack([LINE, LINE[::-1]])
        np.testing.assert_allclose(
            effx.vmap(lambda x: image.resize(x, (4,), method))(rows), image.resize(rows, (2, 4), method)
        )


def test_middles_have_finite_slopes() -> None:
    """Where new and old elements meet, the kernels of Lanczos have the slope 0 and the curvature of a sine."""
    with effx.enable_x64(True):
        for order in (effx.grad, lambda f: effx.grad(effx.grad(f))):
            slope = order(
                lambda t: image.scale_and_translate(LINE, (7,), (0,), np.ones(1), t[None], "lanczos3")[3]
            )(effx.numpy.array(0.0))
            assert np.isfinite(slope)


def test_names() -> None:
    assert {ResizeMethod.from_string(name) for name in (*METHODS, "nearest")} == set(ResizeMethod)
    assert ResizeMethod.from_string("trilinear") is ResizeMethod.LINEAR


ONE = np.ones(1)
WRONG: Any = 3
NAMES = (
    "nearest, linear, bilinear, trilinear, triangle, lanczos3, lanczos5, cubic, bicubic, tricubic, "
    "cubic-pytorch, bicubic-pytorch, area"
)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: image.resize(LINE, (4, 4), "linear"),
         "resize: shape must have one size for each axis of f32[7], got [4, 4]"),
        (lambda: image.resize(np.zeros((0, 3)), (2, 3), "linear"),
         "resize: axis 0 of f32[0,3] has no elements to make 2 of"),
        (lambda: image.resize(LINE, (4,), "no"),
         f"ResizeMethod: the method must be one of {NAMES}, got 'no'"),
        (lambda: image.resize(LINE, (4,), WRONG), "resize: the method must be a ResizeMethod or its name, got 3"),
        (lambda: image.scale_and_translate(LINE, (4,), (0,), ONE, ONE, "nearest"),
         "scale_and_translate: the method must not be 'nearest', which has no slope; use resize"),
        (lambda: image.scale_and_translate(LINE, (4,), (0,), np.ones(2), ONE, "linear"),
         "scale_and_translate: scale must have a number for each of 1 spatial_dims, got f32[2]"),
        (lambda: image.scale_and_translate(LINE, (4,), (), np.ones(0), np.ones(0), "linear"),
         "scale_and_translate: axis 0 of f32[7] gets size 4 but is not in spatial_dims ()"),
        (lambda: image.scale_and_translate(LINE, (7, 1), (0,), ONE, ONE, "linear"),
         "scale_and_translate: shape must have one size for each axis of f32[7], got [7, 1]"),
        (lambda: image.scale_and_translate(LINE, (7,), (0, -1), np.ones(2), np.ones(2), "linear"),
         "scale_and_translate: spatial_dims (0, -1) repeat an axis"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
