"""Reductions, products, sorting and collectives of lax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array, Operand

Affine = tuple[Array, Array]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)

REDUCTIONS: list[tuple[Callable[..., Array], Callable[..., Any], str]] = [
    (lax.reduce_sum, np.sum, "f4 i4 c8"),
    (lax.reduce_prod, np.prod, "f4 i4"),
    (lax.reduce_max, np.max, "f4 i4 bool"),
    (lax.reduce_min, np.min, "f4 i4 bool"),
    (lax.reduce_and, np.bitwise_and.reduce, "i4 bool u1"),
    (lax.reduce_or, np.bitwise_or.reduce, "i4 bool u1"),
    (lax.reduce_xor, np.bitwise_xor.reduce, "i4 bool u1"),
]


@pytest.mark.parametrize(("f", "reference", "kinds"), REDUCTIONS, ids=[r[0].__name__ for r in REDUCTIONS])
@pytest.mark.parametrize("axes", [(), (0,), (2, 0), (0, 1, 2)])
def test_reductions(
    f: Callable[..., Array], reference: Callable[..., Any], kinds: str, axes: tuple[int, ...]
) -> None:
    for kind in kinds.split():
        x = (X * 5).astype(kind)
        y = f(x, axes)
        assert y.dtype == x.dtype
        np.testing.assert_allclose(y, reference(x, axis=tuple(sorted(axes))), rtol=1e-4)


def test_reductions_of_nothing() -> None:
    empty = np.zeros((0, 2), np.float32)
    assert lax.reduce_sum(empty, (0,)).tolist() == [0, 0]
    assert lax.reduce_prod(empty, (0,)).tolist() == [1, 1]
    assert lax.reduce_max(empty, (0,)).tolist() == [-np.inf] * 2
    assert lax.reduce_min(empty.astype(np.int8), (0,)).tolist() == [127] * 2
    assert lax.reduce_and(empty.astype(bool), (0,)).tolist() == [True] * 2


@pytest.mark.parametrize(
    ("computation", "x", "start", "want"),
    [
        (lax.add, [1.0, 2.0], 10.0, 13.0),
        (lax.mul, [3.0, 2.0], 10.0, 60.0),
        (lax.max, [3.0, 2.0], 10.0, 10.0),
        (lax.min, [3.0, 2.0], 10.0, 2.0),
        (lax.bitwise_and, [7, 6], 5, 4),
        (lax.bitwise_or, [1, 2], 4, 7),
        (lax.bitwise_xor, [1, 3], 4, 6),
        (lax.add, [True, False], False, True),
        (lax.mul, [True, False], True, False),
    ],
)
def test_reduce_by_a_function(
    computation: Callable[..., Array], x: list[float], start: float, want: float
) -> None:
    assert lax.reduce(np.asarray(x), start, computation, (0,)).tolist() == want


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
def test_reduce_by_a_function_of_users(n: int) -> None:
    """Products of matrices, which keep their order, in a pytree; under vmap, jit and grad."""
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(2, n, 3)).astype(np.float32)

    def joined(first: Affine, second: Affine) -> Affine:
        return first[0] * second[0], first[1] * second[0] + second[1]

    want, slope = (np.ones(3), np.zeros(3)), np.zeros(3)
    for x, y in zip(a.astype(np.float64), b, strict=True):
        slope = slope * x + 1.0
        want = want[0] * x, want[1] * x + y

    def function(a: Operand, b: Operand) -> Affine:
        found: Affine = lax.reduce((a, b), (1.0, 0.0), joined, (0,))
        return found

    for f in (function, effx.jit(function), effx.vmap(function, in_axes=1)):
        for y, w in zip(f(a, b), want, strict=True):
            np.testing.assert_allclose(y, w, rtol=2e-5, atol=1e-5)
    if n:
        gradient = effx.grad(lambda b: function(a, b)[1].sum())(b)
        np.testing.assert_allclose(gradient.sum(0), slope, rtol=2e-4, atol=1e-5)
    found = lax.reduce(a.reshape(n, 3, 1), 0.0, lambda x, y: x + y, (0, 2))
    np.testing.assert_allclose(found, a.sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_reductions(axis: int, reverse: bool) -> None:
    def want(function: np.ufunc) -> Any:
        flipped = np.flip(X, axis) if reverse else X
        result = function.accumulate(flipped, axis)
        return np.flip(result, axis) if reverse else result

    for f, function in (
        (lax.cumsum, np.add),
        (lax.cumprod, np.multiply),
        (lax.cummax, np.maximum),
        (lax.cummin, np.minimum),
        (lax.cumlogsumexp, np.logaddexp),
    ):
        np.testing.assert_allclose(f(X, axis, reverse), want(function), rtol=2e-5, atol=1e-6)


def test_running_logsumexp() -> None:
    """Stable in value and derivative, infinite elements included."""
    x = np.array([-np.inf, -np.inf, 1000.0, 0.0, 1000.0], np.float32)
    want = [-np.inf, -np.inf, 1000, 1000, 1000 + np.log(2)]
    np.testing.assert_allclose(lax.cumlogsumexp(x), want, rtol=1e-6)
    last = effx.grad(lambda x: lax.cumlogsumexp(x)[4])(x)
    np.testing.assert_allclose(last, [0, 0, 0.5, 0, 0.5], atol=1e-6)
    assert lax.cumlogsumexp(np.zeros(0, np.float32)).shape == (0,)
    y = X[0, 0]
    s = np.exp(y[:3]) / np.exp(y[:3]).sum()
    np.testing.assert_allclose(effx.grad(lambda y: lax.cumlogsumexp(y)[2])(y), [*s, 0], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [100, 30_000])
def test_running_logsumexp_of_short_floats(size: int, dtype: str) -> None:
    """Rounded once: it grows, and is off by half a step. Rounded in each step, 19 steps were lost."""
    x = enp.asarray(np.random.default_rng(0).normal(size=size), dtype)
    running = np.asarray(effx.jit(lax.cumlogsumexp)(x)).astype(np.float64)
    exact = np.logaddexp.accumulate(np.asarray(x).astype(np.float64))
    half_step = np.spacing(np.maximum(np.abs(exact), 1).astype(np.float16)).astype(np.float64)
    half_step *= 0.51 if dtype == "float16" else 0.51 * 8
    assert (np.abs(running - exact) <= half_step).all()
    assert (np.diff(running) >= 0).all()
    assert lax.cumlogsumexp(x).dtype == dtype


@pytest.mark.parametrize(("shape", "axis"), [((3000,), 0), ((2, 700, 3), 1), ((600, 300), 1)])
def test_long_running_logsumexp(shape: tuple[int, ...], axis: int) -> None:
    """In blocks as in one piece, in both directions; the derivative of the sum of all counts each share once."""
    x = np.random.default_rng(0).normal(size=shape) * 20
    x.flat[::7] = -np.inf
    want = np.logaddexp.accumulate(x, axis)
    with effx.enable_x64(True):
        np.testing.assert_allclose(lax.cumlogsumexp(x, axis), want, rtol=1e-12)
        turned = np.flip(lax.cumlogsumexp(np.flip(x, axis), axis, reverse=True), axis)
        np.testing.assert_allclose(turned, want, rtol=1e-12)
        weights = np.where(np.isfinite(want), np.random.default_rng(1).normal(size=shape), 0)
        found = effx.grad(
            lambda v: (enp.where(np.isfinite(want), lax.cumlogsumexp(v, axis), 0) * weights).sum()
        )(x)
    # d y_j / d x_i = exp(x_i - y_j) for i <= j, row by row of the axis.
    lines, logs, cts = [np.moveaxis(a, axis, -1).reshape(-1, shape[axis]) for a in (x, want, weights)]
    for line, log, ct, d in zip(
        lines, logs, cts, np.moveaxis(found, axis, -1).reshape(lines.shape), strict=True
    ):
        with np.errstate(invalid="ignore"):
            shares = np.triu(np.exp(line[:, None] - log[None, :]))
        np.testing.assert_allclose(d, np.nan_to_num(shares) @ ct, rtol=1e-9, atol=1e-12)
        if line.size > 800:
            break


def test_indices_of_extremes() -> None:
    x = np.array([[1.0, np.nan, 3.0], [2.0, 2.0, 0.0]], np.float32)
    assert lax.argmax(x, 1, "int8").tolist() == [1, 0]
    assert lax.argmax(x, 1, "int8").dtype == np.int8
    assert lax.argmin(x, 1, int).tolist() == [1, 2]
    assert lax.argmax(X, 0, int).tolist() == X.argmax(0).tolist()


def test_products() -> None:
    a, b = RNG.normal(size=(3, 4)).astype(np.float32), RNG.normal(size=(4, 5)).astype(np.float32)
    np.testing.assert_allclose(lax.dot(a, b), a @ b, rtol=1e-5)
    np.testing.assert_allclose(lax.dot(a[0], b), a[0] @ b, rtol=1e-5)
    np.testing.assert_allclose(lax.dot(a, b[:, 0]), a @ b[:, 0], rtol=1e-5)
    np.testing.assert_allclose(lax.dot(a, b.T, dimension_numbers=(((1,), (1,)), ((), ()))), a @ b, rtol=1e-5)
    x, y = RNG.normal(size=(2, 3, 4)).astype(np.float32), RNG.normal(size=(4, 2, 5)).astype(np.float32)
    found = lax.dot_general(x, y, (((2,), (0,)), ((0,), (1,))))
    np.testing.assert_allclose(found, np.einsum("bmk,kbn->bmn", x, y), rtol=1e-5)
    np.testing.assert_allclose(lax.batch_matmul(x, y.transpose(1, 0, 2)), x @ y.transpose(1, 0, 2), rtol=1e-5)
    # Dtypes are promoted, and the result may be wider.
    assert lax.dot(np.array([1, 2]), np.array([0.5, 0.5])).dtype == np.float32
    wide = lax.dot(np.full(9, 100, np.int8), np.full(9, 100, np.int8), preferred_element_type=np.int32)
    assert (wide.dtype, wide.tolist()) == (np.dtype(np.int32), 90_000)
    for precision in (None, "highest", lax.Precision.HIGH, (lax.Precision.DEFAULT, lax.Precision.HIGHEST)):
        np.testing.assert_allclose(lax.dot(a, b, precision=precision), a @ b, rtol=1e-5)


def test_derivative_of_a_product() -> None:
    a, b = X[0], X[1].T
    da, db = effx.grad(lambda a, b: lax.dot(a, b).sum(), (0, 1))(a, b)
    np.testing.assert_allclose(da, np.broadcast_to(b.sum(1), a.shape), rtol=1e-5)
    np.testing.assert_allclose(db, np.broadcast_to(a.sum(0)[:, None], b.shape), rtol=1e-5)


@pytest.mark.parametrize("dimension", [0, 1, -1])
def test_sort(dimension: int) -> None:
    x = RNG.integers(0, 4, (5, 6))
    np.testing.assert_array_equal(lax.sort(x, dimension), np.sort(x, dimension))
    keys, order = lax.sort_key_val(x, np.broadcast_to(np.arange(6), (5, 6)), 1)
    np.testing.assert_array_equal(order, np.argsort(x, 1, kind="stable"))
    np.testing.assert_array_equal(keys, np.sort(x, 1))


def test_sort_by_several_keys() -> None:
    a, b, c = RNG.integers(0, 3, 40), RNG.integers(0, 3, 40), np.arange(40)
    order = np.lexsort((c, b, a))
    for found, x in zip(lax.sort((a, b, c), num_keys=2), (a, b, c), strict=True):
        np.testing.assert_array_equal(found, x[order])


def test_sort_of_special_floats() -> None:
    x = np.array([np.nan, 1.0, -0.0, 0.0, -np.inf, np.inf], np.float32)
    np.testing.assert_array_equal(lax.sort(x), np.sort(x))
    np.testing.assert_array_equal(np.signbit(lax.sort(x)), [True, True, False, False, False, False])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
@pytest.mark.parametrize("axis", [0, 1])
def test_zeros_keep_their_signs(dtype: str, axis: int) -> None:
    """Zeros of either sign are equal beside other operands, where they come out as they stood; alone -0.0 is first."""
    special = np.array([0.0, -0.0, 1.5, -1.5, np.nan, -np.nan, np.inf, -np.inf]).astype(dtype)
    # XLA:CPU's comparisons of floats take these for zeros.
    smallest = float(enp.finfo(dtype).smallest_subnormal)
    subnormal = (smallest * np.array([-1, -2, 1, 2])).astype(dtype)
    x = RNG.choice(np.concatenate([special, subnormal]), (20, 13))
    order = np.argsort(x.astype(np.float64), axis, kind="stable")
    want = np.take_along_axis(x, order, axis).astype(np.float64)
    number = ~np.isnan(want)
    with effx.enable_x64(True):
        beside, _ = lax.sort((x, np.zeros(x.shape)), axis)
        alone = np.asarray(lax.sort(x, axis)).astype(np.float64)
    np.testing.assert_array_equal(np.signbit(np.asarray(beside))[number], np.signbit(want)[number])
    for found in (np.asarray(beside).astype(np.float64), alone):
        np.testing.assert_array_equal(found, want)
    for got, given in zip(np.moveaxis(alone, axis, -1), np.moveaxis(want, axis, -1), strict=True):
        signs = np.signbit(given[given == 0]).tolist()
        assert np.signbit(got[got == 0]).tolist() == sorted(signs, reverse=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_top_k(axis: int) -> None:
    x = RNG.integers(0, 5, (6, 7)).astype(np.float32)
    values, indices = lax.top_k(x, 3, axis=axis)
    order = np.argsort(-x, axis, kind="stable").take(range(3), axis)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
    assert indices.dtype == np.int32
    special = np.array([1.0, np.nan, np.inf, 1.0], np.float32)
    assert lax.top_k(special, 4)[1].tolist() == [1, 2, 0, 3]
    assert lax.top_k(special, 0)[0].shape == (0,)
    signed = np.array([-0.0, 1.0, 0.0, -np.nan, -np.inf], np.float32)
    for kind in ("f4", "f2", "f8"):
        found, places = effx.jit(lambda x: lax.top_k(x, 5))(signed.astype(kind))
        assert places.tolist() == [3, 1, 0, 2, 4]
        assert np.signbit(found).tolist()[1:] == [False, True, False, True]
    rows = RNG.integers(-9, 9, (2, 3, 4)).astype(np.float32)
    order = np.argsort(-rows, 1, kind="stable")[:, :2]
    np.testing.assert_array_equal(effx.vmap(lambda x: lax.top_k(x, 2, axis=0)[1])(rows), order)
    assert lax.top_k(rows[:, :0], 0, axis=1)[0].shape == (2, 0, 4)
    ct = effx.grad(lambda x: (lax.top_k(x, 2)[0] * np.array([1.0, 10.0], np.float32)).sum())(
        np.array([3.0, 1.0, 2.0])
    )
    assert ct.tolist() == [1.0, 0.0, 10.0]


def test_sums_over_replicas() -> None:
    x: Any = np.arange(3.0, dtype=np.float32)

    def replica(x: Array) -> dict[str, Any]:
        return {
            "sum": lax.psum(x, "i"),
            "tree": lax.psum((x, {"a": x > 0}), "i"),
            "constant": lax.psum(2, "i"),
            "mean": lax.pmean(x, "i"),
            "whole": lax.pmean(lax.convert_element_type(x, int), "i"),
            "extremes": (lax.pmax(x, "i"), lax.pmin(x, "i")),
            "index": lax.axis_index("i"),
            "size": lax.axis_size("i"),
            "all": lax.all_gather(x, "i"),
        }

    found = effx.vmap(replica, axis_name="i")(x)
    assert found["sum"].tolist() == [3, 3, 3]
    assert found["tree"][1]["a"].tolist() == [2, 2, 2]
    assert found["constant"].tolist() == [6, 6, 6]
    assert found["mean"].tolist() == found["whole"].tolist() == [1, 1, 1]
    assert found["whole"].dtype == np.float32
    assert [y.tolist() for y in found["extremes"]] == [[2, 2, 2], [0, 0, 0]]
    assert found["index"].tolist() == [0, 1, 2]
    assert found["size"].tolist() == [3, 3, 3]
    assert found["all"].tolist() == [[0, 1, 2]] * 3


def test_several_axes() -> None:
    x: Any = np.arange(6.0, dtype=np.float32).reshape(2, 3)

    def over(f: Callable[[Array], Any]) -> Any:
        return effx.vmap(effx.vmap(f, axis_name="j"), axis_name="i")(x)

    np.testing.assert_array_equal(over(lambda x: lax.psum(x, ("i", "j"))), np.full((2, 3), 15))
    np.testing.assert_array_equal(over(lambda x: lax.psum(1, ("i", "j")) + x), x + 6)
    np.testing.assert_array_equal(over(lambda x: lax.psum(x, "i")), np.broadcast_to(x.sum(0), (2, 3)))
    np.testing.assert_array_equal(over(lambda x: lax.axis_index(("i", "j"))), np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(over(lambda x: lax.pmean(x, ("i", "j"))), np.full((2, 3), 2.5))
    gathered = np.asarray(over(lambda x: lax.all_gather(x, ("i", "j"))))
    np.testing.assert_array_equal(gathered, np.broadcast_to(np.arange(6), (2, 3, 6)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("tiled", [False, True])
def test_all_gather(axis: int, tiled: bool) -> None:
    x = X[:, :2]  # two replicas of shape (2, 4)
    found = effx.vmap(lambda x: lax.all_gather(x, "i", axis=axis, tiled=tiled), axis_name="i")(x)
    want = np.concatenate(list(x), axis) if tiled else np.stack(list(x), axis)
    np.testing.assert_array_equal(found, np.stack([want] * 2))


def test_collectives_cross_jit_and_differentiate() -> None:
    x = np.arange(1.0, 4.0, dtype=np.float32)
    normalize = effx.jit(lambda x: x / lax.psum(x, "i") + lax.axis_size("i"))
    found = effx.vmap(normalize, axis_name="i")(x)
    np.testing.assert_allclose(found, x / x.sum() + 3, rtol=1e-6)
    # The same function serves axes of other sizes.
    np.testing.assert_allclose(effx.vmap(normalize, axis_name="i")(x[:2]), x[:2] / 3 + 2, rtol=1e-6)
    total = lambda x: effx.vmap(lambda x: lax.psum(x * x, "i"), axis_name="i")(x)[0]  # noqa: E731
    np.testing.assert_allclose(effx.grad(total)(x), 2 * x, rtol=1e-6)


@pytest.mark.parametrize("kind", ["fft", "ifft"])
@pytest.mark.parametrize("dtype", ["complex64", "float32", "int32"])
def test_fourier_transforms_along_no_axis(kind: str, dtype: str) -> None:
    """The operand, as complex numbers, under vmap too."""
    x = np.arange(6).reshape(2, 3).astype(dtype)
    for y in (lax.fft(x, kind, ()), effx.vmap(lambda x: lax.fft(x, kind, ()))(x)):
        assert y.dtype == np.complex64
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "irfft"])
def test_fourier_transforms(kind: str) -> None:
    """By name and by member, over the last axes."""
    x = X.astype(np.complex64) if kind != "rfft" else X
    lengths = (3, 6) if kind == "irfft" else (3, 4)
    got = lax.fft(x, kind, lengths)
    numpy: dict[str, Callable[..., Any]] = {
        "fft": np.fft.fft2, "ifft": np.fft.ifft2, "rfft": np.fft.rfft2, "irfft": np.fft.irfft2,
    }  # fmt: skip
    np.testing.assert_allclose(
        got, numpy[kind](x, lengths if kind == "irfft" else None), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(got, lax.fft(x, lax.FftType[kind.upper()], lengths))
    for dtype in (np.float16, np.int32):
        real = lax.fft(X.astype(dtype), kind, lengths)
        expected = numpy[kind](X.astype(dtype).astype(float), lengths if kind == "irfft" else None)
        np.testing.assert_allclose(real, expected, rtol=1e-4, atol=1e-4)
        assert real.dtype == (np.float32 if kind == "irfft" else np.complex64)
