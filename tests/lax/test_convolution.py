"""Convolutions of lax against plain sums, SciPy, and what a transposed convolution is defined by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import signal

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import EffxError, ShapeError
from effx.laws.samples import Data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 7, 6)).astype(np.float32)
K = RNG.normal(size=(4, 3, 3, 2)).astype(np.float32)
LAST = ("NHWC", "HWIO", "NHWC")


def scipy_sum(x: Data, k: Data) -> Data:
    """All positions at which the kernel fits, by SciPy."""
    return np.stack(
        [
            [
                sum([signal.correlate(a, b, "valid") for a, b in zip(image, kernel, strict=True)])
                for kernel in k
            ]
            for image in x
        ]
    )


def test_conv_is_scipys_correlation() -> None:
    """With strides, every second position."""
    want = scipy_sum(X, K)
    np.testing.assert_allclose(lax.conv(X, K, (1, 1), "VALID"), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lax.conv(X, K, (2, 3), "VALID"), want[:, :, ::2, ::3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("padding", "pads"),
    [("SAME", ((1, 1), (0, 1))), ("SAME_LOWER", ((1, 1), (1, 0))), ("same", ((1, 1), (0, 1)))],
)
def test_names_of_padding(padding: str, pads: tuple[tuple[int, int], ...]) -> None:
    """As many positions as elements; the odd zero is behind, or before."""
    want = scipy_sum(np.pad(X, ((0, 0), (0, 0), *pads)), K)
    np.testing.assert_allclose(lax.conv(X, K, (1, 1), padding), want, rtol=1e-4, atol=1e-5)


def test_dilations() -> None:
    """Zeros between the elements of either operand; negative padding crops."""
    x, k = np.zeros((2, 3, 13, 6), np.float32), np.zeros((4, 3, 3, 3), np.float32)
    x[:, :, ::2], k[..., ::2] = X, K
    got = lax.conv_with_general_padding(X, K, (1, 1), [(-1, 2), (0, -1)], (2, 1), (1, 2))
    want = scipy_sum(np.pad(x, ((0, 0), (0, 0), (0, 2), (0, 0)))[:, :, 1:, :-1], k)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_dimension_numbers() -> None:
    """Axes in any order; the spatial ones are matched by their letters."""
    want = lax.conv_general_dilated(X, K, (1, 2), [(1, 0), (0, 0)])
    x, k = X.transpose(0, 2, 3, 1), K.transpose(2, 3, 1, 0)
    got = lax.conv_general_dilated(x, k, (1, 2), [(1, 0), (0, 0)], dimension_numbers=LAST)
    np.testing.assert_allclose(np.transpose(got, (0, 3, 1, 2)), want, rtol=1e-4, atol=1e-5)
    got = lax.conv_general_dilated(
        X.transpose(0, 1, 3, 2), K, (1, 2), [(1, 0), (0, 0)], dimension_numbers=("NCWH", "OIHW", "WNHC")
    )
    np.testing.assert_allclose(np.transpose(got, (1, 3, 2, 0)), want, rtol=1e-4, atol=1e-5)
    numbers = lax.conv_dimension_numbers(x.shape, k.shape, LAST)
    assert numbers == lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    assert lax.conv_dimension_numbers(x.shape, k.shape, numbers) is numbers
    assert lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), None) == ((0, 1, 2),) * 3
    assert lax.conv_general_permutations(LAST) == tuple(numbers)


def test_groups() -> None:
    """Each group alone, joined."""
    k = RNG.normal(size=(6, 1, 2, 2)).astype(np.float32)
    got = lax.conv_general_dilated(X, k, (1, 1), "VALID", feature_group_count=3)
    want = [scipy_sum(X[:, g : g + 1], k[2 * g : 2 * g + 2]) for g in range(3)]
    np.testing.assert_allclose(got, np.concatenate(want, 1), rtol=1e-4, atol=1e-5)
    got = lax.conv_general_dilated(X, K, (1, 1), "VALID", batch_group_count=2)
    want = [scipy_sum(X[g : g + 1], K[2 * g : 2 * g + 2]) for g in range(2)]
    np.testing.assert_allclose(got, np.concatenate(want, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("stride", "window", "dilation"), [(1, 3, 1), (2, 3, 1), (3, 2, 1), (2, 2, 2), (2, 1, 1)]
)
def test_transposed_is_the_gradient(padding: str, stride: int, window: int, dilation: int) -> None:
    """Of the strided convolution whose results it takes."""
    k = RNG.normal(size=(window, 2, 3)).astype(np.float32)
    spread = (window - 1) * dilation + 1
    y = RNG.normal(size=(1, 4, 3)).astype(np.float32)
    size = 4 * stride if padding == "SAME" else 3 * stride + max(stride, spread)

    def forward(x: effx.Array) -> effx.Array:
        pads = lax.padtype_to_pads((size,), (spread,), (stride,), padding)
        return lax.conv_general_dilated(x, k, (stride,), pads, None, (dilation,), ("NHC", "HIO", "NHC"))

    _, back = effx.vjp(forward, enp.zeros((1, size, 2)))
    got = lax.conv_transpose(y, k, (stride,), padding, (dilation,), transpose_kernel=True)
    np.testing.assert_allclose(got, back(y)[0], rtol=1e-4, atol=1e-5)


def test_amounts_of_padding_of_a_transposed_convolution() -> None:
    """They are its own, or by `use_consistent_padding` those of the convolution whose gradient it is."""
    y, k = RNG.normal(size=(1, 4, 3)).astype(np.float32), RNG.normal(size=(3, 3, 2)).astype(np.float32)
    own = lax.conv_transpose(y, k, (2,), [(1, 2)])
    other = lax.conv_transpose(y, k, (2,), [(1, 0)], use_consistent_padding=True)
    np.testing.assert_array_equal(own, other)
    assert own.shape == lax.conv_transpose_shape_tuple(
        y.shape, (3, 2, 3), (2,), [(1, 2)], ("NHC", "HOI", "NHC")
    )


def test_shapes() -> None:
    """The functions of shapes say what the convolutions give."""
    for strides, padding in (((1, 2), "SAME"), ((2, 2), "VALID"), ((3, 1), [(1, 0), (2, 2)])):
        y = lax.conv_general_dilated(X, K, strides, padding)
        assert lax.conv_shape_tuple(X.shape, K.shape, strides, padding) == y.shape
        x, k = X.transpose(0, 2, 3, 1), K.transpose(2, 3, 1, 0)
        y = lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=LAST)
        assert lax.conv_general_shape_tuple(x.shape, k.shape, strides, padding, LAST) == y.shape
        y = lax.conv_transpose(x, k, strides, padding)
        assert lax.conv_transpose_shape_tuple(x.shape, k.shape, strides, padding, LAST) == y.shape
    assert lax.conv_shape_tuple((4, 1, 5), (2, 1, 7), (1,), "VALID", 2) == (2, 2, 0)


def test_patches() -> None:
    """What a window covers, the elements of a feature together; in the order of axes that was asked for."""
    got = lax.conv_general_dilated_patches(X, (3, 2), (1, 1), "VALID")
    covered = np.lib.stride_tricks.sliding_window_view(X, (3, 2), (2, 3))
    want = covered.transpose(0, 1, 4, 5, 2, 3).reshape(2, 18, 5, 5)
    np.testing.assert_array_equal(got, want)
    last = lax.conv_general_dilated_patches(
        X.transpose(0, 2, 3, 1), (3, 2), (1, 1), "VALID", dimension_numbers=("NHWC", "OIHW", "CNWH")
    )
    np.testing.assert_array_equal(last, want.transpose(1, 0, 3, 2))


def test_local() -> None:
    """With one kernel at all positions it is the convolution, and kernels may differ."""
    k = np.broadcast_to(K.reshape(4, 18, 1, 1), (4, 18, 5, 5))
    got = lax.conv_general_dilated_local(X, k, (1, 1), "VALID", (3, 2))
    np.testing.assert_allclose(got, scipy_sum(X, K), rtol=1e-4, atol=1e-5)
    own = RNG.normal(size=(4, 18, 5, 5)).astype(np.float32)
    patches = np.asarray(lax.conv_general_dilated_patches(X, (3, 2), (1, 1), "VALID"))
    want = np.einsum("nchw,ochw->nohw", patches, own)
    got = lax.conv_general_dilated_local(
        X, own.transpose(2, 0, 3, 1), (1, 1), "VALID", (3, 2), dimension_numbers=("NCHW", "HOWI", "HNCW")
    )
    np.testing.assert_allclose(got, want.transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-5)


def test_no_batch_elements() -> None:
    """A batch of size 0 of either operand."""
    empty = np.zeros((0, *X.shape), np.float32)
    assert effx.vmap(lambda x: lax.conv(x, K, (1, 1), "VALID"))(empty).shape == (0, 2, 4, 5, 5)


F = np.ones((1, 1, 5), np.float32)
ERRORS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: lax.conv(F, F, (1,), "FULL"),
        "padtype_to_pads: padding must be 'VALID', 'SAME' or 'SAME_LOWER', got 'FULL'",
    ),
    (
        lambda: lax.conv(F, F, (1, 1), "SAME"),
        "convolution: strides must have one entry for each of the 1 spatial axes of lhs f32[1,1,5], got (1, 1)",
    ),
    (
        lambda: lax.conv_general_dilated(F, F, (1,), "SAME", (2,)),
        "conv_general_dilated: padding 'SAME' has no meaning with lhs_dilation (2,); give amounts, or use conv_transpose",
    ),
    (
        lambda: lax.conv_general_dilated(F, F, (1,), [1]),  # type: ignore[list-item]  # is refused
        "conv_general_dilated: padding must be a name or a sequence of pairs (low, high), got [1]",
    ),
    (
        lambda: lax.conv_general_dilated(F, F[0], (1,), "SAME"),
        "conv_dimension_numbers: lhs and rhs must have equal ranks of at least 2, got shapes [1, 1, 5] and [1, 5]",
    ),
    (
        lambda: lax.conv_general_permutations(("NXC", "XII", "NCX")),
        "conv_dimension_numbers: entry 1 must name each axis by another letter, and have 'O' and 'I', got 'XII'",
    ),
    (
        lambda: lax.conv_general_permutations(("NXC", "XIO", "NCY")),
        "conv_dimension_numbers: the spatial axes must be the same in each entry, got ('NXC', 'XIO', 'NCY')",
    ),
    (
        lambda: lax.conv_general_permutations(("NC", "IO")),  # type: ignore[arg-type]  # is refused
        "conv_dimension_numbers: dimension_numbers must be three strings or ConvDimensionNumbers, got ('NC', 'IO')",
    ),
    (
        lambda: lax.conv_dimension_numbers((1, 1, 5), (1, 1, 5), ("NC", "IO", "NC")),
        "conv_dimension_numbers: entries must have one letter for each of the 3 axes, got ('NC', 'IO', 'NC')",
    ),
    (
        lambda: lax.padtype_to_pads((1,), (1, 2), (1,), "SAME"),
        "padtype_to_pads: in_shape, window_shape and window_strides must have equal lengths, got (1,), (1, 2) and (1,)",
    ),
    (
        lambda: lax.conv_transpose(F, F, (1,), "FULL"),
        "conv_transpose: padding must be 'SAME', 'VALID' or amounts, got 'FULL'",
    ),
    (
        lambda: lax.conv_transpose(F, F, (1, 1), "SAME"),
        "conv_transpose: strides must have one entry for each of the 1 spatial axes, got (1, 1)",
    ),
    (
        lambda: lax.conv_transpose(F, F, (1,), "SAME", (1, 1)),
        "conv_transpose: rhs_dilation must have one entry for each of the 1 spatial axes, got (1, 1)",
    ),
    (
        lambda: lax.conv_transpose(np.ones((1,) * 6), np.ones((1,) * 6), (1,) * 4, "SAME"),
        "conv_transpose: needs dimension_numbers for lhs f32[1,1,1,1,1,1] of 6 axes",
    ),
    (
        lambda: lax.conv_shape_tuple((1, 1, 5), (1, 1, 2), (1,), [(0, 0), (0, 0)]),
        (
            "conv_shape_tuple: strides and pads must have one entry for each spatial axis of shapes [1, 1, 5] and "
            "[1, 1, 2], got (1,) and [(0, 0), (0, 0)]"
        ),
    ),
]


@pytest.mark.parametrize(("wrong", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors(wrong: Callable[[], object], text: str) -> None:
    """The whole sentence."""
    with pytest.raises(EffxError) as caught:
        wrong()
    assert type(caught.value) is ShapeError
    assert str(caught.value).split("\n")[0] == text


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_elements_of_less_than_a_byte(dtype: str) -> None:
    """They are widened for sums in 32 bits."""
    x = (np.arange(16) % 8).reshape(1, 1, 4, 4).astype(effx.dtypes.as_dtype(dtype))
    y = lax.conv(x, x[:, :, :3, :3], (1, 1), "VALID", preferred_element_type=np.int32)
    wide = x[0, 0].astype(np.int32)
    expected = [[(wide[i : i + 3, j : j + 3] * wide[:3, :3]).sum() for j in range(2)] for i in range(2)]
    np.testing.assert_array_equal(y[0, 0], expected)
