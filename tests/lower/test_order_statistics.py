"""Ranks that CPUs find by counting are those of a sort, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.families import order_statistics
from effx.families.order_statistics import OrderStatistics

Data: TypeAlias = np.ndarray[Any, Any]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Data]

DTYPES: list[Any] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
DRAWS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "few values": lambda rng, shape: rng.integers(0, 10, shape),
    "one value": lambda rng, shape: np.ones(shape),
    "zeros": lambda rng, shape: rng.choice([0.0, -0.0], shape),
    "narrow": lambda rng, shape: 1000 + rng.random(shape),
    "two groups": lambda rng, shape: rng.choice([-50, 50], shape) + rng.standard_normal(shape),
    "outliers": lambda rng, shape: np.where(rng.random(shape) < 0.01, 1e30, rng.standard_normal(shape)),
    "tiny": lambda rng, shape: rng.choice([1e-45, -1e-45, 3e-45, 1e-40, 0.0, 1e-8, -1.0], shape),
    "special": lambda rng, shape: rng.choice([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 1.0], shape),
}
SHAPES = [((1,), 1, 1), ((1,), 2, 2), ((3,), 2, 1), ((), 1000, 1), ((4,), 99, 3), ((2, 5), 64, 1)]


def keys_of(x: Data) -> Data:
    """The integers that are in the order of a sort of floats, with one NaN above all."""
    width = 8 * x.itemsize
    integer = f"i{x.itemsize}"
    bits = x.view(integer).astype(np.int64)
    nan = np.asarray(np.nan, x.dtype).view(integer)
    return np.where(x != x, nan, np.where(bits < 0, bits ^ (2 ** (width - 1) - 1), bits))


@pytest.fixture
def counts_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_statistics, "_is_counting_faster", lambda *_: True)


@pytest.mark.usefixtures("counts_always")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elements_are_those_of_a_sort(shape: tuple[tuple[int, ...], int, int], dtype: Any) -> None:
    """And those behind them, for all distributions; ranks beyond the row are those of its ends."""
    rows, n, k = shape
    rng = np.random.default_rng(n)
    op = OrderStatistics()
    with effx.enable_x64():
        find = effx.jit(lambda x, ranks: op(x, ranks))
        for name, draw in DRAWS.items():
            with np.errstate(over="ignore"):
                x = draw(rng, (*rows, n)).astype(dtype)
            ranks = rng.integers(-1, n + 1, (*rows, k)).astype(np.int32)
            inside = np.clip(ranks, 0, n - 1)
            ordered = np.sort(keys_of(x), -1)
            for result, rank in zip(find(x, ranks), (inside, np.minimum(inside + 1, n - 1)), strict=True):
                expected = np.take_along_axis(ordered, rank, -1)
                np.testing.assert_array_equal(keys_of(np.asarray(result)), expected, name)


def test_long_rows_are_counted_and_short_ones_sorted() -> None:
    """By the program that is compiled; many ranks are left to a sort too."""

    def has_sort(shape: tuple[int, ...], q: Any) -> bool:
        lowered = effx.jit(lambda x: enp.quantile(x, q, -1)).lower(np.zeros(shape, np.float32))
        return "stablehlo.sort" in lowered.as_text()

    assert not has_sort((1 << 18,), 0.5)
    assert not has_sort((1000, 1000), 0.3)
    assert not has_sort((1 << 20,), np.array([0.1, 0.5], np.float32))
    assert has_sort((1000,), 0.5)
    assert has_sort((1 << 18,), np.linspace(0, 1, 20, dtype=np.float32))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_of_many_numbers_are_those_of_numpy(method: str) -> None:
    """Over all, over rows, and without NaN; derivatives go to the elements that are taken."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 1 << 17)).astype(np.float32)
    for q in (0.25, np.array([0.1, 0.5], np.float32)):
        for axis in (None, 1):
            result = np.asarray(enp.quantile(x, q, axis, method=method))
            np.testing.assert_allclose(result, np.quantile(x, q, axis, method=method), 2e-6, 1e-6)  # type: ignore[call-overload]
    missing = np.where(rng.random(x.shape) < 0.3, np.float32(np.nan), x)
    expected = np.nanquantile(missing, 0.4, 1, method=method)  # type: ignore[call-overload]
    np.testing.assert_allclose(
        np.asarray(enp.nanquantile(missing, 0.4, 1, method=method)), expected, 1e-5, 1e-5
    )
    assert np.isnan(np.asarray(enp.quantile(missing, 0.4, 1, method=method))).all()
    gradient = np.asarray(effx.jit(effx.grad(lambda x: enp.quantile(x, 0.3, method=method)))(x[0]))
    assert gradient.sum() == pytest.approx(1.0)
    assert np.count_nonzero(gradient) <= 2


@pytest.mark.usefixtures("counts_always")
def test_batches_and_derivatives_are_counted_too() -> None:
    """Under vmap of rows, of ranks and of both, in a loop, and twice differentiated."""
    x = np.random.default_rng(1).standard_normal((4, 33)).astype(np.float32)
    medians = np.median(x, 1)
    np.testing.assert_array_equal(np.asarray(effx.jit(effx.vmap(enp.median))(x)), medians)
    q: Data = np.array([0.0, 0.5, 1.0], np.float32)
    by_q = effx.vmap(lambda q: enp.quantile(x[0], q, method="lower"))(q)
    np.testing.assert_array_equal(np.asarray(by_q), np.quantile(x[0], q, method="lower"))
    both = effx.vmap(lambda x, q: enp.quantile(x, q, method="nearest"))(x[:3], q)
    expected = [np.quantile(y, p, method="nearest") for y, p in zip(x, q, strict=False)]
    np.testing.assert_array_equal(np.asarray(both), expected)
    _, total = effx.lax.scan(lambda c, y: (c, enp.median(y)), 0.0, x)
    np.testing.assert_array_equal(np.asarray(total), medians)
    hessian = np.asarray(effx.hessian(lambda y: enp.median(y) ** 2)(x[0]))
    assert hessian.sum() == pytest.approx(2.0)
    assert np.count_nonzero(hessian) == 1
