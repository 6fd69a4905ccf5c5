"""Gamma numbers and their kin, transformed numbers and counts: distributions, JAX's bits, slopes and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import effx
from effx import random
from effx.array import Array
from effx.errors import DTypeError, ShapeError

N = 5000
KEY = random.PRNGKey(11)

CONTINUOUS: list[tuple[str, tuple[float, ...], Any]] = [
    ("gamma", (0.3,), stats.gamma(0.3)),
    ("gamma", (7.5,), stats.gamma(7.5)),
    ("loggamma", (0.3,), stats.loggamma(0.3)),
    ("beta", (0.5, 2.0), stats.beta(0.5, 2.0)),
    ("chisquare", (3.0,), stats.chi2(3.0)),
    ("f", (3.0, 5.0), stats.f(3.0, 5.0)),
    ("t", (3.0,), stats.t(3.0)),
    ("generalized_normal", (1.5,), stats.gennorm(1.5)),
    ("lognormal", (0.7,), stats.lognorm(0.7)),
    ("pareto", (2.5,), stats.pareto(2.5)),
    ("rayleigh", (2.0,), stats.rayleigh(scale=2.0)),
    ("weibull_min", (2.0, 1.5), stats.weibull_min(1.5, scale=2.0)),
    ("maxwell", (), stats.maxwell()),
    ("double_sided_maxwell", (1.0, 2.0), stats.dweibull(1.0)),
    ("triangular", (-1.0, 0.5, 3.0), stats.triang(0.375, -1.0, 4.0)),
    ("wald", (2.0,), stats.invgauss(2.0)),
]
COUNTS: list[tuple[str, tuple[float, ...], Any]] = [
    ("poisson", (3.0,), stats.poisson(3.0)),
    ("poisson", (50.0,), stats.poisson(50.0)),
    ("binomial", (9.0, 0.3), stats.binom(9, 0.3)),
    ("binomial", (60.0, 0.6), stats.binom(60, 0.6)),
    ("geometric", (0.3,), stats.geom(0.3)),
]


def draw(name: str, parameters: tuple[float, ...], shape: tuple[int, ...]) -> Array:
    sampler: Callable[..., Array] = getattr(random, name)
    return sampler(KEY, *parameters, shape=shape)


@pytest.mark.parametrize(("name", "parameters", "law"), CONTINUOUS)
def test_distributions(name: str, parameters: tuple[float, ...], law: Any) -> None:
    drawn = np.asarray(draw(name, parameters, (N,)), np.float64)
    if name == "double_sided_maxwell":
        # The sign and the size apart.
        moved = (drawn - parameters[0]) / parameters[1]
        assert stats.kstest(np.abs(moved), stats.maxwell.cdf).pvalue > 1e-3
        assert stats.binomtest(int((moved > 0).sum()), N).pvalue > 1e-3
    else:
        assert stats.kstest(drawn, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("name", "parameters", "law"), COUNTS)
def test_counts(name: str, parameters: tuple[float, ...], law: Any) -> None:
    drawn = np.asarray(draw(name, parameters, (N,))).astype(np.int64)
    # Bins of at least 20 numbers each.
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    found = np.bincount(np.searchsorted(edges, drawn), minlength=edges.size + 1)
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * N
    assert stats.chisquare(found, expected).pvalue > 1e-3


def test_points_of_the_simplex() -> None:
    """Every coordinate, and the quotient of two of them, which is independent of the third."""
    alpha = np.array([0.5, 2.0, 3.0], np.float32)
    points = np.asarray(random.dirichlet(KEY, alpha, (N,)))
    np.testing.assert_allclose(points.sum(-1), 1.0, rtol=1e-5)
    for x, a in zip(points.T, alpha, strict=True):
        assert stats.kstest(x, stats.beta(a, 5.5 - a).cdf).pvalue > 1e-3
    share = points[:, 1] / (points[:, 1] + points[:, 2])
    assert stats.kstest(share, stats.beta(2.0, 3.0).cdf).pvalue > 1e-3
    assert stats.spearmanr(share, points[:, 0]).pvalue > 1e-3


def test_points_of_the_ball() -> None:
    """Distance, height and longitude of a point are independent and have their laws."""
    points = np.asarray(random.ball(KEY, 3, shape=(N,)), np.float64)
    radii = np.linalg.norm(points, axis=-1)
    assert stats.kstest(radii**3, stats.uniform.cdf).pvalue > 1e-3
    assert stats.kstest(points[:, 2] / radii, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    longitude = np.arctan2(points[:, 1], points[:, 0])
    assert stats.kstest(longitude, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
    for x in (points[:, 2] / radii, longitude):
        assert stats.spearmanr(x, radii).pvalue > 1e-3
    # In the ball of the 1-norm of the plane, the coordinates' sum and difference are uniform.
    points = np.asarray(random.ball(KEY, 2, 1.0, shape=(N,)), np.float64)
    for x in (points.sum(-1), points[:, 0] - points[:, 1]):
        assert stats.kstest(x, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_counts_of_categories() -> None:
    """All the outcomes of four trials, and each count of thirty."""
    p = np.array([0.2, 0.3, 0.5], np.float32)
    counts = np.asarray(random.multinomial(KEY, np.array([[4], [30]])[:, 0], p, shape=(N, 2))).astype(
        np.int64
    )
    assert (counts.sum(-1) == [4, 30]).all()
    cells = [(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)]
    found = [(counts[:, 0] == cell).all(-1).sum() for cell in cells]
    chances = stats.multinomial(4, p.astype(np.float64) / p.sum(dtype=np.float64)).pmf(cells)
    assert stats.chisquare(found, chances * N).pvalue > 1e-3
    for x, chance in zip(counts[:, 1].T, p, strict=True):
        law = stats.binom(30, float(chance))
        edges = np.unique(law.ppf(np.linspace(0, 1, 11)[1:-1]))
        bins = np.bincount(np.searchsorted(edges, x), minlength=edges.size + 1)
        assert stats.chisquare(bins, np.diff([0.0, *law.cdf(edges), 1.0]) * N).pvalue > 1e-3


# Releases of jax that go with Python 3.11 take no shape of multinomial draws.
BITS: list[tuple[str, tuple[Any, ...], list[tuple[int, ...] | None]]] = [
    ("loggamma", (0.3,), [(10,), ()]),
    ("dirichlet", (np.array([0.5, 2.0], np.float32),), [(5,)]),
    ("ball", (3, 1.5), [(4,)]),
    ("multinomial", (30.0, np.tile(np.array([0.2, 0.3, 0.5], np.float32), (4, 1))), [None]),
]


BITS += [
    (name, parameters, [(10,)]) for name, parameters, _ in (*CONTINUOUS[1:], *COUNTS) if name != "loggamma"
]


@pytest.mark.parametrize(("name", "parameters", "shapes"), BITS)
def test_draws_are_those_of_jax(
    name: str, parameters: tuple[Any, ...], shapes: list[tuple[int, ...] | None]
) -> None:
    """To the rounding of logarithms and powers; counts exactly."""
    jax = pytest.importorskip("jax")
    for shape in shapes:
        # Shapes () and None have the other form of JAX's keys.
        key = jax.random.PRNGKey(11) if shape else jax.random.key(11)
        jax.config.update("jax_disable_most_optimizations", True)  # theirs need not be fast
        try:
            theirs = np.asarray(getattr(jax.random, name)(key, *parameters, shape=shape))
        finally:
            jax.config.update("jax_disable_most_optimizations", False)
        ours = np.asarray(getattr(random, name)(KEY, *parameters, shape=shape))
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if name in ("poisson", "binomial", "geometric", "multinomial"):
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


def test_ends() -> None:
    """Chances of 0 and 1, no trials, and parameters that mean nothing; no loop hangs."""
    nan = np.nan
    n, p = np.array([5, 0, nan, 3, -1, 3, 3]), np.array([0.0, 0.5, 0.5, 1.0, 0.5, -0.5, nan])
    np.testing.assert_array_equal(random.binomial(KEY, n, p), [0, 0, nan, 3, nan, nan, nan])
    assert random.poisson(KEY, np.array([0.0, -1.0, nan, np.inf])).tolist() == [0, -1, -1, -1]
    np.testing.assert_array_equal(random.gamma(KEY, np.array([0.0, -0.5, nan])), [0.0, nan, nan])


@pytest.mark.parametrize("a", [0.4, 3.0, 200.0])
def test_slopes_of_gamma_samples(a: float) -> None:
    """A sample stays at its quantile."""
    with effx.enable_x64(True):
        x = float(random.gamma(KEY, a))
        p, h = stats.gamma(a).cdf(x), 1e-4 * a
        want = (stats.gamma(a + h).ppf(p) - stats.gamma(a - h).ppf(p)) / (2 * h)
        np.testing.assert_allclose(effx.grad(lambda v: random.gamma(KEY, v))(a), want, rtol=1e-6)
        np.testing.assert_allclose(effx.grad(lambda v: random.loggamma(KEY, v))(a), want / x, rtol=1e-6)


@pytest.mark.parametrize(("name", "more"), [("rayleigh", ()), ("weibull_min", (3.0,))])
def test_slopes_by_scales(name: str, more: tuple[float, ...]) -> None:
    """A scale moves a sample in proportion."""
    slope = effx.grad(lambda s: getattr(random, name)(KEY, s, *more))(2.0)
    np.testing.assert_allclose(slope, draw(name, (2.0, *more), ()) / 2.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "parameters"), [("beta", (2.0, 3.0)), ("t", (3.0,)), ("chisquare", (3.0,)), ("f", (3.0, 5.0))]
)
def test_slopes_of_what_is_made_of_gamma_numbers(name: str, parameters: tuple[float, ...]) -> None:
    slope = effx.grad(lambda v: getattr(random, name)(KEY, v, *parameters[1:]))(parameters[0])
    assert np.isfinite(slope)
    assert slope != 0


def test_keys() -> None:
    assert random.clone(KEY).tolist() == KEY.tolist()
    assert random.key_impl(KEY) == "threefry2x32"


@pytest.mark.parametrize(
    ("name", "parameters"), [("gamma", (2.5,)), ("poisson", (3.0,)), ("binomial", (40.0, 0.4))]
)
def test_vmap_is_a_loop(name: str, parameters: tuple[float, ...]) -> None:
    def sample(key: Array) -> Array:
        drawn: Array = getattr(random, name)(key, *parameters)
        return drawn

    keys = random.split(KEY, 3)
    np.testing.assert_array_equal(effx.vmap(sample)(keys), [sample(k) for k in keys])


ERRORS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (
        lambda: random.gamma(KEY, 1.0, method="fast"),
        DTypeError,
        "gamma: method must be 'exact' or 'approximate', got 'fast'",
    ),
    (
        lambda: random.poisson(KEY, 1.0, method="fast"),
        DTypeError,
        "poisson: method must be 'exact' or 'approximate', got 'fast'",
    ),
    (
        lambda: random.gamma(KEY, 1.0, dtype="int32"),
        DTypeError,
        "gamma: the dtype must be floating, got int32",
    ),
    (
        lambda: random.poisson(KEY, 1.0, dtype="float32"),
        DTypeError,
        "poisson: the dtype must be an integer one, got float32",
    ),
    (
        lambda: random.dirichlet(KEY, 1.0),
        ShapeError,
        "dirichlet: alpha must have an axis of categories, got f32[]~",
    ),
    (
        lambda: random.multinomial(KEY, 3, 1.0),
        ShapeError,
        "multinomial: p must have an axis of categories, got f32[]~",
    ),
    (
        lambda: random.beta(KEY, np.ones(3, np.float32), 1.0, (2,)),
        ShapeError,
        "beta: parameters f32[3], f32[]~ do not broadcast to shape [2]",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call: Callable[[], object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).splitlines()[0] == text


@pytest.mark.parametrize("a", [0.02, 0.5, 3.0, 400.0])
def test_approximate_gamma_numbers(a: float) -> None:
    """They follow the distribution, and so does what is made of them."""
    approximate: dict[str, Any] = {"method": "approximate"}
    logs = np.asarray(random.loggamma(KEY, a, (20_000,), **approximate), np.float64)
    assert stats.kstest(logs, stats.loggamma(a).cdf).pvalue > 1e-3
    np.testing.assert_allclose(
        random.gamma(KEY, a, (20_000,), **approximate), np.exp(logs), rtol=1e-4, atol=1e-36
    )
    drawn = np.asarray(random.beta(KEY, max(a, 0.5), 2.0, (20_000,), **approximate), np.float64)
    assert stats.kstest(drawn, stats.beta(max(a, 0.5), 2.0).cdf).pvalue > 1e-3
    squares = np.asarray(random.chisquare(KEY, 2 * a, (20_000,), **approximate), np.float64)
    np.testing.assert_allclose(squares, 2 * np.exp(logs), rtol=1e-4, atol=1e-36)


@pytest.mark.parametrize("rate", [0.1, 3.0, 6.99, 7.0, 30.0, 5e4])
def test_approximate_poisson_numbers(rate: float) -> None:
    """Their distribution function is Poisson's."""
    counts = np.asarray(random.poisson(KEY, rate, (50_000,), method="approximate"))
    assert counts.dtype == np.int32
    law = stats.poisson(rate)
    for quantile in np.unique(law.ppf([0.02, 0.2, 0.5, 0.8, 0.98])):
        chance = law.cdf(quantile)
        assert (
            abs((counts <= quantile).mean() - chance)
            < 5 * np.sqrt(chance * (1 - chance) / counts.size) + 1e-4
        )


GAMMA = [0.116821, 0.0512795, 0.302273, 0.168138]
LOGGAMMA = [4.0231, 3.9217, 3.85049, 3.83031]
BETA = [2.16866e-20, 0.007967, 0.0371041, 6.16647e-13]
POISSON = [0, 12, 6, 9986]
GUMBEL = [-0.114341, -1.30119, 1.01958, 0.53288]
CATEGORICAL = [2, 2, 2, 0, 1, 1, 0, 1, 1, 2, 1, 1]


def test_approximate_numbers_are_those_of_jax() -> None:
    """Values that JAX 0.12 gives for the same key, in all parts of the formulas."""
    key, method = random.PRNGKey(7), "approximate"
    np.testing.assert_allclose(random.gamma(key, 0.5, (4,), method=method), GAMMA, rtol=1e-4)
    np.testing.assert_allclose(random.loggamma(key, 50.0, (4,), method=method), LOGGAMMA, rtol=1e-5)
    np.testing.assert_allclose(random.beta(key, 0.1, 2.0, (4,), method=method), BETA, rtol=1e-4)
    rates = np.array([0.3, 6.9, 7.0, 1e4], np.float32)
    assert random.poisson(key, rates, method=method).tolist() == POISSON
    np.testing.assert_allclose(random.gumbel(key, (4,), mode="highest"), GUMBEL, rtol=1e-5)
    logits = np.log(np.array([0.2, 0.3, 0.5], np.float32))
    assert random.categorical(key, logits, shape=(12,), mode="highest").tolist() == CATEGORICAL


def test_approximate_numbers_at_the_edges() -> None:
    """A parameter of 0 gives 0, one that is none gives NaN or -1, and shapes may be empty."""
    draw: dict[str, Any] = {"method": "approximate"}
    assert random.gamma(KEY, np.array([0, -1, np.nan], np.float32), **draw).tolist() == pytest.approx(
        [0, np.nan, np.nan], nan_ok=True
    )
    assert random.poisson(KEY, np.array([0, -1, np.nan, np.inf], np.float32), **draw).tolist() == [
        0,
        -1,
        -1,
        -1,
    ]
    assert random.gamma(KEY, 1.0, (0,), **draw).shape == random.poisson(KEY, 1.0, (0,), **draw).shape == (0,)
    assert random.gamma(KEY, 1.0, dtype="bfloat16", **draw).dtype == "bfloat16"
    keys = random.split(KEY, 3)
    drawn = effx.vmap(lambda k: random.gamma(k, 2.0, **draw))(keys)
    np.testing.assert_allclose(drawn, [random.gamma(k, 2.0, **draw) for k in keys], rtol=1e-5)


def test_derivatives_of_approximate_gamma_numbers() -> None:
    """They are those of the formula, by finite differences."""
    with effx.enable_x64():
        for a in (0.05, 2.0, 300.0):

            def draw(a: Any) -> Any:
                return random.gamma(KEY, a, dtype="float64", method="approximate")

            step = a * 1e-6
            slope = (draw(a + step) - draw(a - step)) / (2 * step)
            assert float(effx.grad(draw)(a)) == pytest.approx(float(slope), rel=1e-6)


def test_binomial_numbers_at_the_edges() -> None:
    """None of no trials or no chance, all of a chance of 1, infinitely many of infinitely many, else NaN."""
    n = np.array([0, 5, 5, np.inf, np.inf, np.inf, -1, np.nan, 5, 5, np.inf], np.float32)
    p = np.array([0.5, 0, 1, 0.5, 1, 0, 0.5, 0.5, -0.1, 1.1, np.nan], np.float32)
    inf, nan = np.inf, np.nan
    np.testing.assert_array_equal(
        random.binomial(KEY, n, p), [0, 0, 5, inf, inf, nan, nan, nan, nan, nan, nan]
    )
