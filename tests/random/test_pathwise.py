"""Slopes of samples by their parameters: of fixed bits, and of the means over many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import effx
from effx import random
from effx.array import Array

KEY = random.PRNGKey(5)
N = 6000
Sampler = Callable[..., Array]

# Samplers whose bits do not depend on their parameters: a sampler of parameters of the shape [5, 1], and these.
SMOOTH: list[tuple[str, Sampler, tuple[float, ...]]] = [
    ("uniform", lambda a, b: random.uniform(KEY, (5, 8), minval=a, maxval=b), (0.5, 2.0)),
    ("truncated_normal", lambda a, b: random.truncated_normal(KEY, a, b, (5, 8)), (-0.5, 2.0)),
    ("lognormal", lambda s: random.lognormal(KEY, s, (5, 8)), (0.7,)),
    ("pareto", lambda b: random.pareto(KEY, b, (5, 8)), (2.5,)),
    ("rayleigh", lambda s: random.rayleigh(KEY, s, (5, 8)), (2.0,)),
    ("weibull_min", lambda s, c: random.weibull_min(KEY, s, c, (5, 8)), (2.0, 1.5)),
    (
        "double_sided_maxwell",
        lambda loc, s: random.double_sided_maxwell(KEY, loc, s, (5, 8)),
        (1.0, 2.0),
    ),
    ("triangular", lambda a, c, b: random.triangular(KEY, a, c, b, (5, 8)), (-1.0, 0.5, 3.0)),
    ("wald", lambda m: random.wald(KEY, m, (5, 8)), (2.0,)),
    (
        "multivariate_normal",
        lambda m, v: random.multivariate_normal(
            KEY, m * np.ones(2), (v[..., None] * np.array([[2.0, 0.8], [0.8, 1.0]])), (5,)
        ),
        (1.5, 2.0),
    ),
]


@pytest.mark.parametrize(("name", "sampler", "parameters"), SMOOTH, ids=[row[0] for row in SMOOTH])
def test_slopes_of_fixed_bits(name: str, sampler: Sampler, parameters: tuple[float, ...]) -> None:
    """The slope by every parameter is the quotient of differences, at five points at once."""
    with effx.enable_x64(True):
        points = [p + np.linspace(0, 0.2, 5)[:, None] for p in parameters]
        tangents = [np.full((5, 1), 1.0 + i) for i in range(len(points))]
        run = effx.jit(lambda *ps: effx.jvp(sampler, ps, tuple(tangents)))
        h = 1e-6
        up, down = [
            run(*[p + s * d for p, d in zip(points, tangents, strict=True)])[0].tolist() for s in (h, -h)
        ]
        slope = np.asarray(run(*points)[1])
    np.testing.assert_allclose(slope, (np.array(up) - down) / (2 * h), rtol=1e-6, atol=1e-8)


# One gamma number each: where its bits stay, so does its quantile. The law, and the size that has this law.
QUANTILES: list[tuple[str, float, Callable[[float], Any]]] = [
    ("chisquare", 3.0, stats.chi2),
    ("generalized_normal", 1.5, lambda p: stats.gengamma(1 / p, p)),
]


@pytest.mark.parametrize(("name", "parameter", "law"), QUANTILES, ids=[row[0] for row in QUANTILES])
def test_slopes_at_a_quantile(name: str, parameter: float, law: Callable[[float], Any]) -> None:
    """The implicit function theorem at a fixed value of the distribution function."""
    with effx.enable_x64(True):
        sampler = getattr(random, name)
        x, dx = effx.jvp(lambda p: abs(sampler(KEY, p, (4,))), (parameter,), (1.0,))
    x, h = np.asarray(x), 1e-5
    by_parameter = (law(parameter + h).cdf(x) - law(parameter - h).cdf(x)) / (2 * h)
    np.testing.assert_allclose(dx, -by_parameter / law(parameter).pdf(x), rtol=1e-6)


# Several random numbers a sample: the mean of slopes is the slope of the mean. A statistic, its parameters, its mean.
MEANS: list[tuple[str, Sampler, tuple[float, ...], Callable[..., float]]] = [
    ("beta", lambda a, b: random.beta(KEY, a, b, (N,)), (2.0, 3.0), lambda a, b: a / (a + b)),
    (
        "f",  # n F / (m + n F) is a beta number
        lambda n, m: 1.0 / (1.0 + m / (n * random.f(KEY, n, m, (N,)))),
        (4.0, 9.0),
        lambda n, m: n / (n + m),
    ),
    (
        "t",
        lambda v: abs(random.t(KEY, v, (N,))),
        (6.0,),
        lambda v: 2 * np.sqrt(v / np.pi) / (v - 1) * np.exp(gammaln((v + 1) / 2) - gammaln(v / 2)),
    ),
    (
        "dirichlet",
        lambda a: random.dirichlet(KEY, a * np.array([1.0, 0.0, 0.0]) + np.array([0.0, 2.0, 0.5]), (N,))[
            :, 1
        ],
        (1.5,),
        lambda a: 2.0 / (a + 2.5),
    ),
    (
        "ball",
        lambda p: (abs(random.ball(KEY, 3, p, (N,))) ** p).sum(-1),
        (1.5,),
        lambda p: 3.0 / (3.0 + p),
    ),
]


@pytest.mark.parametrize(("name", "statistic", "parameters", "mean"), MEANS, ids=[row[0] for row in MEANS])
def test_slopes_of_means(
    name: str, statistic: Sampler, parameters: tuple[float, ...], mean: Callable[..., float]
) -> None:
    """Within four standard errors, whichever way the parameters go."""
    directions = [1.0, -0.7][: len(parameters)]
    _, slopes = effx.jit(lambda *ps: effx.jvp(statistic, ps, tuple(directions)))(*parameters)
    h = 1e-5
    up, down = [mean(*[p + s * d for p, d in zip(parameters, directions, strict=True)]) for s in (h, -h)]
    found = np.asarray(slopes, np.float64)
    assert np.isfinite(found).all()
    assert abs(found.mean() - (up - down) / (2 * h)) < 4 * found.std() / np.sqrt(N)
