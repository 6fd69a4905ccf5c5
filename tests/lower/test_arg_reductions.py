"""argmax and argmin in all forms that they are lowered to: of arguments, of computed values, of 64 bits."""

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.scipy.ndimage import map_coordinates

DTYPES = ["f2", ml_dtypes.bfloat16, "f4", "f8", "i1", "i4", "i8", "u1", "u4", "u8", "?"]


def elements(dtype: Any, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Returns arrays with ties, zeros of both signs, infinities and NaN where the dtype has them."""
    rng = np.random.default_rng(5)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return [rng.random(shape) > 0.5, np.zeros(shape, "?")]
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return [
            rng.integers(0, 4, shape).astype(dtype),
            rng.choice(np.array([ends.min, 0, ends.max], dtype), shape),
        ]
    choices = ([1.5, 2.5, -2.5], [-0.0, 0.0], [-np.inf, np.inf, 0.0], [np.nan, 1.0, -np.inf], [-np.inf])
    return [rng.choice(np.array(values).astype(dtype), shape) for values in choices]


def find_extremes(x: Any, axis: int) -> Any:
    return enp.argmax(x, axis), enp.argmin(x, axis, keepdims=True)


def find_extremes_of_reversed(x: Any, axis: int) -> Any:
    return find_extremes(x[::-1], axis)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(dtype: Any) -> None:
    with effx.enable_x64():
        for shape, axis in (((5, 4), 1), ((5, 4), 0), ((1,), 0), ((0, 3), 1)):
            largest = effx.jit(partial(find_extremes, axis=axis))
            computed = effx.jit(partial(find_extremes_of_reversed, axis=axis))
            for x in elements(dtype, shape):
                # NumPy's own argmax of ml_dtypes' arrays ignores NaN.
                exact = x if x.dtype.kind in "iub" else x.astype("f8")
                np.testing.assert_array_equal(largest(x)[0], np.argmax(exact, axis))
                np.testing.assert_array_equal(largest(x)[1], np.argmin(exact, axis, keepdims=True))
                np.testing.assert_array_equal(computed(x)[0], np.argmax(exact[::-1], axis))
                np.testing.assert_array_equal(computed(x)[1], np.argmin(exact[::-1], axis, keepdims=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"), [((65537,), 0), ((7, 9363), 1), ((16411, 4), 1), ((21900, 3), None)]
)
def test_extremes_of_many(shape: tuple[int, ...], axis: int | None, dtype: Any) -> None:
    """Of so many a CPU compares halves of the axis first; odd sizes have an element in both."""
    reductions = (enp.max, enp.min, enp.argmax, enp.argmin)
    oracles: tuple[Any, ...] = (np.max, np.min, np.argmax, np.argmin)
    with effx.enable_x64():
        reduce_all = effx.jit(lambda x: [[f(y, axis) for f in reductions] for y in (x, x[::-1])])
        for x in elements(dtype, shape):
            exact = x if x.dtype.kind in "iub" else x.astype("f8")
            for results, data in zip(reduce_all(x), (exact, exact[::-1]), strict=True):
                for result, f in zip(results, oracles, strict=True):
                    expected = f(data, axis)
                    np.testing.assert_array_equal(np.asarray(result).astype(expected.dtype), expected)


@pytest.mark.parametrize("width", [15, 24, 31, 32])
def test_extremes_that_become_bfloat16_compile(width: int) -> None:
    """LLVM unrolls up to 32 steps, and followed all paths through their comparisons: for minutes, and longer."""
    x = np.random.default_rng(width).normal(size=(4, 160, width)).astype(ml_dtypes.bfloat16)
    wide = x.astype(np.float32)
    for axis in (-1, (0, 2), (1, 2)):
        largest = effx.jit(lambda x, axis=axis: x.astype("f4").max(axis).astype("bfloat16"))(x)
        np.testing.assert_array_equal(np.asarray(largest), wide.max(axis).astype(x.dtype))
    window = (1, 1, width)
    pooled = effx.jit(
        lambda x: lax.reduce_window(
            x.astype("f4"), -np.inf, lax.max, window, (1, 1, 1), [(0, 0), (0, 0), (width - 1, 0)]
        ).astype("bfloat16")
    )
    np.testing.assert_array_equal(np.asarray(pooled(x)), np.maximum.accumulate(x, -1))


def test_computed_twice_with_other_roundings() -> None:
    """XLA fuses what computes the image with each reduction of it, and contracts other products and sums there.

    The extreme value was then no element's, and the index 2147483647.
    """
    rng = np.random.default_rng(0)
    scale = np.array([[0.9, -0.3], [0.25, 1.1]], "f4")

    def classify(image: Any, coordinates: Any, scale: Any) -> Any:
        turned = enp.tensordot(scale, coordinates, 1)
        warped = effx.vmap(
            lambda channel: map_coordinates(channel, list(turned), order=1, mode="constant"), 2, 2
        )(image)
        warped = warped * scale[0, 0] + scale[0, 1]
        return (
            warped,
            enp.argmax(warped, 2),
            enp.argmin(warped, 2),
            enp.argmax(warped.astype("f4").reshape(-1)),
        )

    for _ in range(3):
        image, coordinates = rng.random((48, 48, 3)).astype("f4"), rng.random((2, 48, 48)).astype("f4") * 48
        values, most, least, first = effx.jit(classify)(image, coordinates, scale)
        values = np.asarray(values)
        for index, extreme in ((most, values.max(2)), (least, values.min(2))):
            assert np.asarray(index).max() < 3
            chosen = np.take_along_axis(values, np.asarray(index)[..., None], 2)[..., 0]
            np.testing.assert_allclose(chosen, extreme, rtol=1e-6)
        np.testing.assert_allclose(values.reshape(-1)[int(first)], values.max(), rtol=1e-6)


def test_inside_loops_and_maps() -> None:
    x = np.random.default_rng(1).normal(size=(4, 3, 5)).astype("f4")
    want = np.argmax(np.sin(x), 2)
    np.testing.assert_array_equal(effx.vmap(effx.vmap(lambda r: enp.argmax(enp.sin(r))))(x), want)
    stacked = lax.scan(lambda c, m: (c, enp.argmax(enp.sin(m), 1)), None, x)[1]
    np.testing.assert_array_equal(stacked, want)
    np.testing.assert_array_equal(lax.map(lambda m: enp.argmax(m, 1), np.sin(x)), np.argmax(np.sin(x), 2))
