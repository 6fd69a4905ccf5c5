"""Convolutions that CPUs compute as sums of shifted products, or group by group, against plain sums in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import effx
from effx import lax
from effx.export import export, symbolic_shape
from effx.laws.samples import Data

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Case(NamedTuple):
    """A convolution: shapes, and the arguments of `conv_general_dilated`; pads of None for the same size."""

    x: tuple[int, ...]
    kernel: tuple[int, ...]
    layout: tuple[str, str, str]
    groups: int
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    batch_groups: int = 1

    def convolve(self, x: Any, kernel: Any, dtype: Any = None) -> Any:
        """Returns the convolution of effx."""
        return lax.conv_general_dilated(
            x,
            kernel,
            self.strides,
            self.pads,
            self.lhs_dilation,
            self.rhs_dilation,
            self.layout,
            self.groups,
            self.batch_groups,
            preferred_element_type=dtype,
        )


def plain(
    x: tuple[int, ...], kernel: tuple[int, ...], layout: tuple[str, str, str], groups: int, **rest: Any
) -> Case:
    """A case with padding for the same size, where nothing else is said."""
    rank = len(x) - 2
    window = [n for n, a in zip(kernel, layout[1], strict=True) if a not in "OI"]
    pads = tuple([((w - 1) // 2, w // 2) for w in window])
    ones = (1,) * rank
    return Case(
        x, kernel, layout, groups, rest.get("strides", ones), rest.get("pads", pads),
        rest.get("lhs_dilation", ones), rest.get("rhs_dilation", ones), rest.get("batch_groups", 1),
    )  # fmt: skip


NHWC, NCHW, NWC = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NWC", "WIO", "NWC")
CASES = {
    "3x3": plain((2, 9, 8, 6), (3, 3, 1, 6), NHWC, 6),
    "strides": plain((2, 9, 8, 6), (3, 3, 1, 6), NHWC, 6, strides=(2, 3)),
    "two of each": plain((2, 9, 8, 3), (3, 2, 1, 6), NHWC, 3, strides=(2, 1)),
    "pairs": plain((2, 7, 5, 6), (2, 2, 2, 9), NHWC, 3),
    "cropped": plain((2, 9, 8, 4), (3, 3, 1, 4), NHWC, 4, pads=((-1, 2), (0, -2))),
    "dilated": plain((2, 5, 4, 4), (2, 3, 1, 4), NHWC, 4, lhs_dilation=(2, 3), rhs_dilation=(3, 1)),
    "features first": plain((2, 4, 9, 8), (4, 1, 3, 3), NCHW, 4, strides=(2, 2)),
    "mixed layouts": plain((2, 4, 9, 8), (3, 3, 1, 8), ("NCHW", "HWIO", "WNHC"), 4),
    "causal": plain((2, 16, 8), (4, 1, 8), NWC, 8, pads=((3, 0),)),
    "three axes": plain((2, 4, 5, 3, 3), (2, 2, 2, 1, 3), ("NDHWC", "DHWIO", "NDHWC"), 3, strides=(1, 2, 1)),
    "no axis": plain((2, 6), (1, 6), ("NC", "IO", "NC"), 6),
    "7x7": plain((1, 8, 8, 2), (7, 7, 1, 2), NHWC, 2),
    "two loops": plain((1, 9, 9, 2), (8, 8, 1, 2), NHWC, 2),
    "too many": plain((1, 13, 12, 2), (12, 11, 1, 2), NHWC, 2),
    "one position": plain((2, 3, 3, 4), (3, 3, 1, 4), NHWC, 4, pads=((0, 0), (0, 0))),
    "a prime size": plain((1, 11, 13, 3), (3, 3, 1, 3), NHWC, 3),
    "few groups": plain((2, 20, 18, 32), (3, 3, 16, 24), NHWC, 2, strides=(1, 2)),
    "narrow groups": plain((2, 24, 20, 32), (3, 3, 4, 32), NHWC, 8),
    "batch in groups": plain((6, 5, 4, 2), (3, 2, 2, 9), NHWC, 1, batch_groups=3),
    "few sums": plain((6, 5, 4, 2), (5, 3, 2, 6), NHWC, 1, batch_groups=3, pads=((0, 0), (0, 0))),
    "wide groups of the batch": plain((4, 20, 20, 8), (5, 5, 8, 16), NHWC, 1, batch_groups=2),
}


def dilate(x: Data, axis: int, dilation: int, low: int, high: int) -> Data:
    """Puts zeros between elements and at the ends; negative amounts crop."""
    n = x.shape[axis]
    size = (n - 1) * dilation + 1 if n else 0
    between = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    between[(slice(None),) * axis + (slice(None, None, dilation),)] = x
    pads = [(0, 0)] * x.ndim
    pads[axis] = max(low, 0), max(high, 0)
    padded = np.pad(between, pads)
    return padded[(slice(None),) * axis + (slice(max(-low, 0), padded.shape[axis] - max(-high, 0)),)]


def order(axes: str, of: str) -> tuple[int, ...]:
    """Returns where letters are in others."""
    return tuple([of.index(a) for a in axes])


def convolve_plainly(case: Case, x: Data, kernel: Data) -> tuple[Data, list[tuple[Any, Any, Any]]]:
    """Returns the sums over positions of the kernel, groups and features, and indices of the factors of each.

    The factors are elements of the padded x with axes batch, features, space, and of the kernel with axes O, I, space.
    """
    space = [a for a in case.layout[0] if a not in "NC"]
    a = x.transpose(order("NC" + "".join(space), case.layout[0]))
    k = kernel.transpose(order("OI" + "".join(space), case.layout[1]))
    for i in range(len(space)):
        a = dilate(a, i + 2, case.lhs_dilation[i], *case.pads[i])
    window = k.shape[2:]
    spread = [(w - 1) * d + 1 for w, d in zip(window, case.rhs_dilation, strict=True)]
    sizes = [(n - w) // s + 1 for n, w, s in zip(a.shape[2:], spread, case.strides, strict=True)]
    groups = case.groups * case.batch_groups
    batch, outputs = a.shape[0] // case.batch_groups, k.shape[0] // groups
    y = np.zeros((batch, k.shape[0], *sizes), np.result_type(a, k))
    factors = []
    for g in range(groups):
        rows = slice(g * batch, (g + 1) * batch) if case.batch_groups > 1 else slice(None)
        for position in np.ndindex(*window):
            cut = [
                slice(p * d, p * d + (n - 1) * s + 1, s)
                for p, d, n, s in zip(position, case.rhs_dilation, sizes, case.strides, strict=True)
            ]
            for o in range(g * outputs, (g + 1) * outputs):
                for i in range(k.shape[1]):
                    feature = i if case.batch_groups > 1 else g * k.shape[1] + i
                    of_x, of_kernel = (rows, feature, *cut), (o, i, *position)
                    y[:, o] += a[of_x] * k[of_kernel]
                    factors.append((of_x, of_kernel, o))
    return y, factors


def in_layout(case: Case, y: Data) -> Data:
    """Returns a result with axes batch, features, space in the case's layout."""
    space = "".join([a for a in case.layout[0] if a not in "NC"])
    return y.transpose(order(case.layout[2], "NC" + space))


def derive_plainly(case: Case, x: Data, kernel: Data, ct: Data) -> tuple[Data, Data]:
    """Returns the cotangents of x and of the kernel, product for product."""
    space = "".join([a for a in case.layout[0] if a not in "NC"])
    _, factors = convolve_plainly(case, x, kernel)
    ct = ct.transpose(order("NC" + space, case.layout[2]))
    a = x.transpose(order("NC" + space, case.layout[0]))
    k = kernel.transpose(order("OI" + space, case.layout[1]))
    # The elements' own numbers say where those of the padded array come from: 0 for none.
    numbers = np.arange(1, a.size + 1).reshape(a.shape)
    padded = a
    for i in range(len(space)):
        padded = dilate(padded, i + 2, case.lhs_dilation[i], *case.pads[i])
        numbers = dilate(numbers, i + 2, case.lhs_dilation[i], *case.pads[i])
    of_padded, of_kernel = np.zeros(padded.shape, ct.dtype), np.zeros(k.shape, ct.dtype)
    for in_x, in_kernel, o in factors:
        of_padded[in_x] += ct[:, o] * k[in_kernel]
        of_kernel[in_kernel] += np.sum(padded[in_x] * ct[:, o])
    of_x = np.zeros(a.size + 1, ct.dtype)
    of_x[numbers] = of_padded
    return (
        of_x[1:].reshape(a.shape).transpose(order(case.layout[0], "NC" + space)),
        of_kernel.transpose(order(case.layout[1], "OI" + space)),
    )


def draw(shape: tuple[int, ...], dtype: Any, seed: int) -> Data:
    """Draws numbers, small ones of integers."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 9, shape).astype(dtype)
    if np.dtype(dtype).kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


# How far from sums in float64 results may be, in units of the largest one: a rounding of the result, and of sums.
BOUNDS = {"float64": 1e-13, "float32": 3e-6, "bfloat16": 2.0**-8, "float16": 2.0**-11, "complex64": 3e-6}


def check(got: Any, want: Data, dtype: Any) -> None:
    """Asserts that numbers are those wanted: integers exactly."""
    got = np.asarray(got)
    assert got.dtype == np.dtype(dtype)
    assert got.shape == want.shape
    if got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    wide = got.astype(np.complex128 if got.dtype.kind == "c" else np.float64)
    bound = BOUNDS[np.dtype(dtype).name] * 1.01
    assert np.all(np.abs(wide - want) <= bound * max(1.0, float(np.abs(want).max(initial=0.0))))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, BFLOAT16, np.float16, np.complex64, np.int32, np.uint8]
)
@pytest.mark.parametrize("name", list(CASES))
def test_values(name: str, dtype: Any) -> None:
    """The sums of products, in float32 at least."""
    case = CASES[name]
    with effx.enable_x64(np.dtype(dtype) == np.float64):
        x, kernel = draw(case.x, dtype, 1), draw(case.kernel, dtype, 2)
        wide = np.complex128 if x.dtype.kind == "c" else np.int64 if x.dtype.kind in "iu" else np.float64
        want = in_layout(case, convolve_plainly(case, x.astype(wide), kernel.astype(wide))[0])
        check(effx.jit(case.convolve)(x, kernel), want, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("name", list(CASES))
def test_cotangents(name: str, dtype: Any) -> None:
    """Those of both operands, together and of one alone."""
    case = CASES[name]
    with effx.enable_x64(np.dtype(dtype) == np.float64):
        x, kernel = draw(case.x, dtype, 1), draw(case.kernel, dtype, 2)
        ct = draw(case.convolve(x, kernel).shape, dtype, 3)
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        want = derive_plainly(case, x.astype(wide), kernel.astype(wide), ct.astype(wide))

        def pull(x: Any, kernel: Any, ct: Any) -> Any:
            return effx.vjp(case.convolve, x, kernel)[1](ct)

        got = effx.jit(pull)(x, kernel, ct)
        for a, b in zip(got, want, strict=True):
            check(a, b, dtype)
        alone = effx.jit(lambda k, ct: effx.vjp(lambda k: case.convolve(x, k), k)[1](ct)[0])(kernel, ct)
        check(alone, want[1], dtype)


@pytest.mark.parametrize(
    "name", ["strides", "two of each", "pairs", "features first", "few sums", "few groups"]
)
def test_tangents_and_batches(name: str) -> None:
    """Linear in each operand; a batch of either, or of both, and of the gradient, is one element after another."""
    case = CASES[name]
    x, kernel = draw(case.x, np.float32, 1), draw(case.kernel, np.float32, 2)
    dx, dk = draw(case.x, np.float32, 3), draw(case.kernel, np.float32, 4)
    _, tangent = effx.jit(lambda *a: effx.jvp(case.convolve, a[:2], a[2:]))(x, kernel, dx, dk)
    want = case.convolve(dx, kernel) + case.convolve(x, dk)
    np.testing.assert_allclose(tangent, want, rtol=1e-4, atol=2e-4)

    xs, kernels = np.stack([x, dx, x - dx]), np.stack([kernel, dk, kernel - dk])

    def loss(x: Any, kernel: Any) -> Any:
        return (case.convolve(x, kernel) ** 2).sum()

    for fun in (case.convolve, effx.grad(loss, (0, 1))):
        for axes in ((0, None), (None, 0), (0, 0)):
            got = effx.jit(effx.vmap(fun, axes))(
                *[v if a == 0 else v[0] for v, a in zip((xs, kernels), axes, strict=True)]
            )
            rows = [
                fun(*[v[i if a == 0 else 0] for v, a in zip((xs, kernels), axes, strict=True)])
                for i in range(3)
            ]
            for k, leaf in enumerate(effx.tree.leaves(got)):
                each = np.stack([np.asarray(effx.tree.leaves(row)[k]) for row in rows])
                np.testing.assert_allclose(
                    leaf, each, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(each).max()))
                )


@pytest.mark.parametrize(
    ("dtype", "preferred"),
    [
        (np.int8, np.int32),
        (np.int32, np.int8),
        (np.uint8, np.uint32),
        (BFLOAT16, np.float32),
        (np.float32, BFLOAT16),
    ],
)
@pytest.mark.parametrize("name", ["3x3", "two of each", "few sums", "few groups"])
def test_types_of_sums(name: str, dtype: Any, preferred: Any) -> None:
    """The preferred type is that of the sums: nothing overflows before."""
    case = CASES[name]
    x, kernel = draw(case.x, dtype, 1), draw(case.kernel, dtype, 2)
    if np.dtype(dtype) == np.int8:
        x, kernel = x * np.int8(11), kernel * np.int8(12)
    wide = np.int64 if x.dtype.kind in "iu" else np.float64
    want = in_layout(case, convolve_plainly(case, x.astype(wide), kernel.astype(wide))[0])
    check(effx.jit(lambda x, k: case.convolve(x, k, preferred))(x, kernel), want, preferred)


def test_sums_of_half_precision() -> None:
    """Four thousand products, most of which a sum in the operands' type would lose."""
    case = plain((1, 4096, 2), (3, 1, 2), NWC, 2)
    ones, kernel = np.ones((1, 4096, 2), BFLOAT16), np.zeros((3, 1, 2), BFLOAT16)
    got = effx.jit(lambda k: effx.vjp(lambda k: case.convolve(ones, k), k)[1](ones)[0])(kernel)
    want = np.array([4095.0, 4096.0, 4095.0])[:, None, None] * np.ones((3, 1, 2))
    check(got, want, BFLOAT16)


@pytest.mark.parametrize("name", ["3x3", "few sums", "few groups"])
def test_exceptional_numbers(name: str) -> None:
    """Infinities and NaN reach the sums they are in, no others."""
    case = CASES[name]
    x, kernel = draw(case.x, np.float32, 1), draw(case.kernel, np.float32, 2)
    x.flat[5], x.flat[x.size // 2], x.flat[-1] = np.inf, np.nan, -np.inf
    want = in_layout(case, convolve_plainly(case, x.astype(np.float64), kernel.astype(np.float64))[0])
    np.testing.assert_allclose(effx.jit(case.convolve)(x, kernel), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 4, 4, 3), (2, 1, 1, 3), (1, 1, 4, 3)])
def test_sizes_of_nothing_and_one(shape: tuple[int, ...]) -> None:
    """Values and cotangents have their shapes."""
    case = plain(shape, (3, 3, 1, 3), NHWC, 3)
    x, kernel = draw(shape, np.float32, 1), draw(case.kernel, np.float32, 2)
    y, pull = effx.vjp(case.convolve, x, kernel)
    check(y, in_layout(case, convolve_plainly(case, x.astype(float), kernel.astype(float))[0]), np.float32)
    want = derive_plainly(case, x.astype(float), kernel.astype(float), np.ones(y.shape))
    for a, b in zip(pull(np.ones(y.shape, np.float32)), want, strict=True):
        check(a, b, np.float32)


def test_inside_loops_and_second_derivatives() -> None:
    """A scan over layers, and a product of the Hessian with a vector, by finite differences."""
    case = CASES["3x3"]
    with effx.enable_x64(True):
        x, kernel = draw(case.x, np.float64, 1), draw(case.kernel, np.float64, 2) / 3
        v = draw(case.kernel, np.float64, 3)

        def loss(k: Any) -> Any:
            return lax.scan(lambda c, _: (lax.tanh(case.convolve(c, k)), None), x, None, length=3)[0].sum()

        gradient = effx.jit(effx.grad(loss))
        h = 1e-5
        along = (loss(kernel + h * v) - loss(kernel - h * v)) / (2 * h)
        np.testing.assert_allclose(np.sum(gradient(kernel) * v), along, rtol=1e-6)
        product = effx.jit(lambda k: effx.jvp(effx.grad(loss), (k,), (v,))[1])(kernel)
        differences = (gradient(kernel + h * v) - gradient(kernel - h * v)) / (2 * h)
        np.testing.assert_allclose(product, differences, rtol=1e-5, atol=1e-6)


def test_forms_by_platform() -> None:
    """CPUs alone have the form, and one of many products has it nowhere."""

    def count(name: str, platform: str) -> int:
        case = CASES[name]
        x, kernel = draw(case.x, np.float32, 1), draw(case.kernel, np.float32, 2)
        text = effx.jit(case.convolve).trace(x, kernel).lower(lowering_platforms=(platform,)).as_text()
        return text.count("stablehlo.convolution")

    assert [count("3x3", p) for p in ("cpu", "cuda", "tpu")] == [0, 1, 1]
    assert [count("few groups", p) for p in ("cpu", "cuda", "tpu")] == [2, 1, 1]
    assert [count("too many", p) for p in ("cpu", "cuda", "tpu")] == [1, 1, 1]


def test_symbolic_sizes() -> None:
    """Exported for any batch and any size of images."""
    case = CASES["3x3"]
    n, h, w = symbolic_shape("n, h, w")
    kernel = draw(case.kernel, np.float32, 2)
    exported = export(effx.jit(case.convolve))(
        effx.ShapeDtypeStruct((n, h, w, 6), np.float32), effx.ShapeDtypeStruct(kernel.shape, np.float32)
    )
    x = draw((3, 5, 7, 6), np.float32, 1)
    np.testing.assert_allclose(exported.call(x, kernel), case.convolve(x, kernel), rtol=1e-5, atol=1e-6)
