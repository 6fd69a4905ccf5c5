"""Samplers in tails and at the ends of ranges. The keys are fixed, so the values are too: no test depends on luck."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import effx
import effx.numpy as enp
from effx import random

KEY = random.key(2024)
N = 20_000


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [(5.5, math.inf), (-math.inf, -9.0), (4.0, 5.0), (-7.0, -6.5), (100.0, 101.0)],
)
def test_truncated_normal_in_tails(lower: float, upper: float, dtype: str) -> None:
    """The numbers have the distribution of the tail, also where the normal distribution function is 0 or 1."""
    with effx.enable_x64(dtype == "float64"):
        drawn = np.asarray(random.truncated_normal(KEY, lower, upper, (N,), dtype))
    assert drawn.dtype == dtype
    assert (drawn > lower).all()
    assert (drawn < upper).all()
    law = stats.truncnorm(lower, upper)
    wide = drawn.astype(np.float64)
    spread = law.std()
    if spread > 64 * float(np.finfo(dtype).eps) * abs(law.mean()):
        assert stats.kstest(wide, law.cdf).pvalue > 1e-3 or dtype == "float16"
        assert abs(wide.mean() - law.mean()) < 5 * spread / math.sqrt(N) + float(np.finfo(dtype).eps) * abs(
            law.mean()
        )
    if dtype == "float32" and upper == 5.0:
        assert len(np.unique(drawn)) > 0.9 * N


def test_truncated_normal_far_out() -> None:
    """The distance from the bound is about exponential, with the bound as its rate."""
    drawn = np.asarray(random.truncated_normal(KEY, 5.5, 1e6, (N,)), np.float64)
    assert np.max(drawn) < 9
    assert abs(drawn.mean() - stats.truncnorm(5.5, math.inf).mean()) < 0.01
    with effx.enable_x64(True):
        drawn = np.asarray(random.truncated_normal(KEY, 1e6, math.inf, (N,), "float64"))
    assert stats.kstest((drawn - 1e6) * 1e6, "expon").pvalue > 1e-3


def test_truncated_normal_of_many_bounds() -> None:
    """Bounds in tails and in the middle together, as arrays, under jit and vmap, with slopes."""
    lower, upper = (
        np.array([-math.inf, 6.0, -1.0, -20.0], np.float32),
        np.array([-8.0, 7.0, 2.0, math.inf], np.float32),
    )
    drawn = np.asarray(
        effx.jit(lambda a, b: random.truncated_normal(KEY, a, b, (N, 4)))(lower, upper), np.float64
    )
    for i in range(4):
        assert stats.kstest(drawn[:, i], stats.truncnorm(lower[i], upper[i]).cdf).pvalue > 1e-3
    each = effx.vmap(lambda a, b: random.truncated_normal(KEY, a, b, (50,)))(lower, upper)
    assert (each > lower[:, None]).all()
    assert (each < upper[:, None]).all()

    def total(a: effx.Array, b: effx.Array) -> effx.Array:
        return random.truncated_normal(KEY, a, b, (50,)).sum()

    a, b, step = enp.asarray(6.0), enp.asarray(7.0), 1e-2
    slopes = effx.grad(total, (0, 1))(a, b)
    np.testing.assert_allclose(slopes[0], (total(a + step, b) - total(a - step, b)) / (2 * step), rtol=2e-2)
    np.testing.assert_allclose(slopes[1], (total(a, b + step) - total(a, b - step)) / (2 * step), rtol=5e-2)


@pytest.mark.parametrize("mean", [1e-6, 1.0, 1e6, 1e15, 1e30, math.inf])
def test_wald(mean: float) -> None:
    """Of a large mean it is nearly the inverse of a squared normal number; none is negative."""
    drawn = np.asarray(random.wald(KEY, np.float32(mean), (N,)), np.float64)
    assert (drawn >= 0).all()
    assert np.isfinite(drawn).mean() > 0.999
    if mean > 1e5:
        assert stats.kstest(drawn, stats.levy.cdf).pvalue > 1e-3
    elif mean == 1.0:
        assert stats.kstest(drawn, stats.invgauss(1.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_over_all_floats(dtype: str) -> None:
    """The width of the interval overflows; as numbers, as arrays and with one of each."""
    most = float(np.finfo(dtype).max)
    with effx.enable_x64(dtype == "float64"):
        for low, high in (
            (-most, most),
            (np.full(N, -most, dtype), most),
            (-most, 0.9 * most),
            (-0.5 * most, 0.75 * most),
        ):
            drawn = np.asarray(random.uniform(KEY, (N,), dtype, low, high)).astype(np.float64) / most
            assert np.isfinite(drawn).all()
            first, last = float(np.min(low)) / most, float(high) / most
            assert (drawn >= first).all()
            assert (drawn <= last).all()
            assert abs(drawn.mean() - (first + last) / 2) < 0.02
            assert abs(drawn.std() - (last - first) / math.sqrt(12)) < 0.02
            assert (
                dtype == "float16"
                or stats.kstest(drawn, stats.uniform(first, last - first).cdf).pvalue > 1e-3
            )
    slope = effx.grad(lambda a: random.uniform(KEY, (), "float32", a, 3e38))(np.float32(-3e38))
    assert 0 < float(slope) < 1
