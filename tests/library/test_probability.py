"""Probabilistic programs: densities equal SciPy's, draws have the right moments, handlers compose as they say.

Never: trusts a distribution's own formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import NoRuleError, ShapeError, TransformError
from effx.library import probability as p
from effx.library.probability import (
    Normal,
    block,
    condition,
    hmc,
    log_density,
    mask,
    plate,
    replay,
    sample,
    scale,
    seed,
    substitute,
    trace,
)

KEY = effx.random.key(0)

DISTRIBUTIONS: list[tuple[p.Distribution, Any]] = [
    (p.Normal(0.5, 2.0), stats.norm(0.5, 2.0)),
    (p.LogNormal(0.1, 0.4), stats.lognorm(0.4, scale=np.exp(0.1))),
    (p.HalfNormal(1.5), stats.halfnorm(scale=1.5)),
    (p.Cauchy(0.5, 2.0), stats.cauchy(0.5, 2.0)),
    (p.HalfCauchy(1.5), stats.halfcauchy(scale=1.5)),
    (p.Laplace(0.5, 2.0), stats.laplace(0.5, 2.0)),
    (p.Exponential(2.5), stats.expon(scale=1 / 2.5)),
    (p.Uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    (p.Bernoulli(0.7), stats.bernoulli(1 / (1 + np.exp(-0.7)))),
]


@pytest.mark.parametrize(("ours", "scipys"), DISTRIBUTIONS, ids=lambda d: type(d).__name__)
def test_distributions(ours: p.Distribution, scipys: Any) -> None:
    """Densities equal SciPy's, outside the support too, and draws pass a Kolmogorov-Smirnov test."""
    draws = np.asarray(ours.expand((4000,)).sample(KEY))
    discrete = draws.dtype.kind == "i"
    x = np.array([0, 1, 1]) if discrete else np.array([-2.0, 0.3, 1.7])
    with np.errstate(divide="ignore"):
        want = scipys.logpmf(x) if discrete else scipys.logpdf(x)
    np.testing.assert_allclose(ours.log_prob(enp.asarray(x)), want, rtol=1e-4)
    if discrete:
        assert abs(draws.mean() - scipys.mean()) < 0.03
    else:
        assert stats.kstest(draws, scipys.cdf).pvalue > 1e-3


def test_categorical() -> None:
    """Labels come with softmax's probabilities, for each row of logits."""
    logits = enp.array([[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]])
    fn = p.Categorical(logits)
    assert fn.shape == (2,)
    want = np.exp(np.asarray(logits)) / np.exp(np.asarray(logits)).sum(-1, keepdims=True)
    labels = enp.array([2, 0])
    np.testing.assert_allclose(fn.log_prob(labels), np.log(want[[0, 1], [2, 0]]), rtol=1e-5)
    draws = np.asarray(fn.expand((5000, 2)).sample(KEY))
    for row in range(2):
        np.testing.assert_allclose(np.bincount(draws[:, row], minlength=3) / 5000, want[row], atol=0.03)


def chain(xs: Any) -> Any:
    """A random walk, seen with noise: a scan inside jit."""
    start = sample("start", Normal(0.0, 1.0))

    def step(c: Any, x: Any) -> Any:
        c = sample("c", Normal(c, 0.5))
        return c, sample("y", Normal(c, 0.1), obs=x)

    return effx.jit(lambda xs: lax.scan(step, start, xs)[0])(xs)


XS = enp.array([0.0, 0.2, 0.1])
VALUES = {"start": enp.float32(0.3), "c": enp.array([0.1, 0.4, 0.2])}


def density(values: Any) -> float:
    s, c = np.asarray(values["start"]), np.asarray(values["c"])
    return float(
        stats.norm.logpdf(s)
        + stats.norm.logpdf(c, np.r_[s, c[:-1]], 0.5).sum()
        + stats.norm.logpdf(np.asarray(XS), c, 0.1).sum()
    )


def test_density() -> None:
    """The density of a model with a loop, its gradient, jitted, and for many values at once."""

    def f(v: Any) -> Any:
        return log_density(substitute(chain, v))(XS)[0]

    np.testing.assert_allclose(f(VALUES), density(VALUES), rtol=1e-5)
    np.testing.assert_allclose(effx.jit(f)(VALUES), density(VALUES), rtol=1e-5)
    gradient = effx.jit(effx.grad(f))(VALUES)
    moved = {**VALUES, "c": np.array([0.1, 0.4 + 1e-4, 0.2])}
    back = {**VALUES, "c": np.array([0.1, 0.4 - 1e-4, 0.2])}
    np.testing.assert_allclose(gradient["c"][1], (density(moved) - density(back)) / 2e-4, rtol=1e-3)
    many = {k: enp.stack([v, v + 1]) for k, v in VALUES.items()}
    want = [density(VALUES), density({k: np.asarray(v) + 1 for k, v in VALUES.items()})]
    np.testing.assert_allclose(effx.vmap(f)(many), want, rtol=1e-5)


def test_trace_and_replay() -> None:
    """A trace holds values, densities and what is data; replayed, it gives the same run."""
    result, sites = effx.jit(trace(seed(chain, KEY)))(XS)
    assert set(sites) == {"start", "c", "y"}
    assert sites["c"].value.shape == (3,)
    assert (sites["y"].observed, sites["c"].observed) == (True, False)
    assert sites["y"].value.tolist() == XS.tolist()
    total = sum(float(enp.sum(s.log_prob)) for s in sites.values())
    chosen = {k: sites[k].value for k in ("start", "c")}
    np.testing.assert_allclose(total, density(chosen), rtol=1e-5)
    again, replayed = trace(replay(chain, sites))(XS)
    assert float(again) == float(result)
    assert not replayed["c"].observed


def test_seeds() -> None:
    """Different keys, different draws; each site its own; a batch of keys, a batch of runs."""
    pair = lambda: (sample("a", Normal()), sample("b", Normal()))  # noqa: E731
    a, b = seed(pair, KEY)()
    assert float(a) != float(b)
    assert [float(x) for x in seed(pair, KEY)()] == [float(a), float(b)]
    keys = effx.random.split(KEY, 3)
    rows = effx.vmap(lambda k: seed(pair, k)()[0])(keys)
    np.testing.assert_allclose(rows, [seed(pair, k)()[0] for k in keys], rtol=1e-6)
    independent = seed(lambda: effx.vmap(lambda m: sample("x", Normal(m, 1.0)))(enp.zeros(3)), KEY)()
    assert len(set(independent.tolist())) == 3


def test_condition_block_mask_scale() -> None:
    """Data by name; hidden sites; weights of densities."""
    sites = trace(seed(condition(chain, {"start": 2.0}), KEY))(XS)[1]
    assert (float(sites["start"].value), sites["start"].observed) == (2.0, True)
    chosen = substitute(chain, VALUES)
    assert set(trace(block(chosen))(XS)[1]) == set()
    assert set(trace(block(chosen, hide=["c"]))(XS)[1]) == {"start", "y"}
    assert set(trace(block(chosen, expose=["c"]))(XS)[1]) == {"c"}
    whole = density(VALUES)
    np.testing.assert_allclose(log_density(scale(chosen, 2.0))(XS)[0], 2 * whole, rtol=1e-5)
    assert float(log_density(mask(chosen, False))(XS)[0]) == 0.0
    # A masked density that is minus infinity counts nothing, nor does its gradient.
    def outside(x: Any) -> Any:
        return log_density(mask(substitute(lambda: sample("x", p.Uniform()), {"x": x}), False))()[0]

    assert (float(outside(2.0)), float(effx.grad(outside)(2.0))) == (0.0, 0.0)


def test_plates() -> None:
    """Plates add axes of independent draws, and nest."""

    def model() -> Any:
        with plate("columns", 3):
            x = sample("x", Normal(0.0, 1.0))
            with plate("rows", 2, axis=-2):
                return sample("z", Normal(x, 1.0))

    z, sites = trace(seed(model, KEY))()
    assert z.shape == (2, 3)
    assert len(set(np.asarray(z).ravel().tolist())) == 6
    assert sites["x"].log_prob.shape == (3,)
    want = stats.norm.logpdf(sites["x"].value).sum() + stats.norm.logpdf(z, sites["x"].value).sum()
    got = log_density(substitute(model, {"x": sites["x"].value, "z": z}))()[0]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_posterior_of_a_normal() -> None:
    """Sampling a conjugate model gives its known posterior: mean and variance of n data and a prior."""
    data = enp.array([1.2, 0.4, 0.9, 1.7])

    def model() -> None:
        mu = sample("mu", Normal(0.0, 1.0))
        sample("y", Normal(mu, 0.5), obs=data)

    found = hmc(model, KEY, draws=2000, warmup=500)
    precision = 1 + 4 / 0.25
    mean = float(enp.sum(data)) / 0.25 / precision
    assert float(found.values["mu"].mean()) == pytest.approx(mean, abs=0.03)
    assert float(found.values["mu"].std()) == pytest.approx(precision**-0.5, rel=0.1)
    assert 0.6 < float(found.accepted) < 0.99


def test_bounded_sites_are_sampled_within_bounds() -> None:
    """Without data the posterior is the prior: positive values and values between bounds."""

    def model() -> None:
        tau = sample("tau", p.Exponential(2.0))
        sample("u", p.Uniform(tau, tau + 1.0))

    found = hmc(model, KEY, draws=3000, warmup=500)
    tau, u = np.asarray(found.values["tau"]), np.asarray(found.values["u"])
    assert tau.min() > 0
    assert ((u > tau) & (u < tau + 1)).all()
    assert tau.mean() == pytest.approx(0.5, abs=0.06)
    assert (u - tau).mean() == pytest.approx(0.5, abs=0.04)


def test_errors() -> None:
    """No handler; no distribution; data, values and plates that do not fit."""
    with pytest.raises(NoRuleError, match=r"^sample: no handler takes the effect 'sample'"):
        sample("x", Normal())
    with pytest.raises(TransformError, match=r"^sample: 'x' needs a distribution, got 3 of type int"):
        sample("x", 3)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(
        ShapeError, match=r"^sample: 'x' has draws of shape \(3,\), but the data are f32\[2\]"
    ):
        sample("x", Normal(enp.zeros(3)), obs=np.zeros(2, np.float32))
    with pytest.raises(
        ShapeError, match=r"^substitute: the value for 'x' is f32\[2\], but f32\[3\] is wanted"
    ):
        substitute(lambda: sample("x", Normal(enp.zeros(3))), {"x": enp.zeros(2)})()
    with pytest.raises(ShapeError, match=r"^plate: 'x' has draws of shape \(4,\), whose axis -1 is 4, not 3"):
        with plate("p", 3):
            seed(lambda: None, KEY)()
            sample("x", Normal(enp.zeros(4)))
    with pytest.raises(
        TransformError, match=r"^plate: 'p' needs a positive size and a negative axis, got 3 and 0"
    ):
        with plate("p", 3, axis=0):
            pass
    with pytest.raises(TransformError, match=r"^hmc: 'k' is a label"):
        hmc(lambda: sample("k", p.Bernoulli(0.0)), KEY)
    with pytest.raises(TransformError, match=r"^hmc: the model has no unobserved sites"):
        hmc(lambda: None, KEY)
    with pytest.raises(ShapeError, match=r"^expand: draws of shape \(2,\) do not broadcast to \(3,\)"):
        Normal(enp.zeros(2)).expand((3,))
