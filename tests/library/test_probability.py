"""Probabilistic programs: densities equal SciPy's, draws have the right moments, handlers compose as they say.

Never: trusts a distribution's own formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from scipy import stats

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, NoRuleError, ShapeError, TransformError
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


@pytest.mark.unguarded
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
    with (
        pytest.raises(ShapeError, match=r"^plate: 'x' has draws of shape \(4,\), whose axis -1 is 4, not 3"),
        plate("p", 3),
    ):
        sample("x", Normal(enp.zeros(4)))
    refused = pytest.raises(
        TransformError, match=r"^plate: 'p' needs a positive size and a negative axis, got 3 and 0"
    )
    with refused, plate("p", 3, axis=0):
        pass
    with pytest.raises(TransformError, match=r"^hmc: 'k' is a label"):
        hmc(lambda: sample("k", p.Bernoulli(0.0)), KEY)
    with pytest.raises(TransformError, match=r"^hmc: the model has no unobserved sites"):
        hmc(lambda: None, KEY)
    with pytest.raises(ShapeError, match=r"^expand: draws of shape \(2,\) do not broadcast to \(3,\)"):
        Normal(enp.zeros(2)).expand((3,))


BOUNDED: list[tuple[p.Distribution, Any]] = [
    pair for pair in DISTRIBUTIONS if pair[0].support in ("positive", "unit")
]


@pytest.mark.parametrize(("ours", "scipys"), BOUNDED, ids=lambda d: type(d).__name__)
def test_ends_of_the_support(ours: p.Distribution, scipys: Any) -> None:
    """At its ends and beyond, the density is SciPy's, gradients are finite, and a NaN stays one."""
    low, high = scipys.support()
    x = np.array([low, low - 1e-3, high, high + 1.0, np.nan])[: 5 if np.isfinite(high) else 2]
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(ours.log_prob(x), scipys.logpdf(x), rtol=1e-5, atol=1e-6)
    assert bool(enp.isnan(ours.log_prob(np.nan)))
    outside = lambda d: d.log_prob(low - 1.0)  # noqa: E731
    assert all(bool(enp.all(g == 0)) for g in effx.tree.leaves(effx.grad(outside)(ours)))


def test_labels_that_are_none_have_no_density() -> None:
    """Numbers beside the labels, and between them; Python's numbers will do."""
    logits = enp.array([0.0, 1.0, -1.0])
    found = p.Categorical(logits).log_prob(enp.array([-1.0, 0.0, 0.5, 2.0, 3.0]))
    want = np.asarray(logits) - np.log(np.exp(np.asarray(logits)).sum())
    np.testing.assert_allclose(found, [-np.inf, want[0], -np.inf, want[2], -np.inf], rtol=1e-6)
    assert p.Bernoulli(0.3).log_prob(enp.array([2, -1])).tolist() == [-np.inf] * 2
    np.testing.assert_allclose(p.Categorical(logits).log_prob(1), want[1], rtol=1e-6)
    with pytest.raises(
        ShapeError, match=r"^Categorical: parameters need an axis for one draw, got shape \[\]"
    ):
        sample("k", p.Categorical(0.0))


def test_dtypes() -> None:
    """Draws are as wide as the widest parameter; densities add up in 64 bits where these are on."""
    mixed = lambda: sample("x", Normal(np.float16(0.0), np.float32(1.0)))  # noqa: E731
    assert effx.jit(seed(mixed, KEY))().dtype == np.float32
    with effx.enable_x64():
        wide = lambda: sample("x", Normal(np.float32(0.0), np.float64(1.0)))  # noqa: E731
        total, x = log_density(substitute(wide, {"x": 1.2345678901234567}))()
        assert (total.dtype.name, float(x)) == ("float64", 1.2345678901234567)
        np.testing.assert_allclose(total, stats.norm.logpdf(x), rtol=1e-14)


def test_data_in_plates() -> None:
    """Data have the plate's size, labels and subsamples too; what is chosen inside of the plate must."""
    standard = Normal()

    def model(data: Any, fn: p.Distribution = standard) -> Any:
        with plate("rows", 3) as rows:
            return sample("y", fn, obs=data) + rows

    data = np.array([0.5, 1.0, 2.0], np.float32)
    np.testing.assert_allclose(log_density(model)(data)[0], stats.norm.logpdf(data).sum(), rtol=1e-6)
    half = scale(lambda: model(data), 2.0)
    np.testing.assert_allclose(log_density(half)()[0], 2 * stats.norm.logpdf(data).sum(), rtol=1e-6)
    labels = log_density(model)(np.array([0, 1, 3]), p.Categorical(enp.zeros(4)))[0]
    np.testing.assert_allclose(labels, 3 * np.log(0.25), rtol=1e-6)
    for wrong, shape in ((np.zeros(4, np.float32), r"\(4,\)"), (1.0, r"\(\)")):
        with pytest.raises(
            ShapeError, match=f"^plate: 'y' has data of shape {shape}, but 'rows' is 3 along axis -1"
        ):
            model(wrong)
    inside = pytest.raises(
        ShapeError, match=r"^plate: 'x' has a value, chosen inside of the plate, of shape \(\), but"
    )
    with inside, plate("rows", 3):
        seed(lambda: sample("x", Normal()), KEY)()


def test_plates_and_loops() -> None:
    """A plate around a scan, in it, and around a vmap: all draws are independent."""

    def around() -> Any:
        with plate("p", 2):
            return lax.scan(lambda c, _: (c, sample("x", Normal())), 0.0, None, length=3)[1]

    def inside(mean: Any) -> Any:
        with plate("p", 2):
            return sample("x", Normal(mean, 1.0))

    models = (around, lambda: lax.scan(lambda c, _: (c, inside(c)), 0.0, None, length=3)[1])
    for model in (*models, lambda: effx.vmap(inside)(enp.zeros(3))):
        x = effx.jit(seed(model, KEY))()
        assert x.shape == (3, 2)
        assert len(set(np.ravel(x).tolist())) == 6


def test_given_values_come_before_draws() -> None:
    """Whether the seed stands inside or outside; data stay what they are."""
    pair = lambda: (sample("a", Normal()), sample("b", Normal(), obs=1.0))  # noqa: E731
    for run in (
        substitute(seed(pair, KEY), {"a": 3.0, "b": 5.0}),
        seed(substitute(pair, {"a": 3.0, "b": 5.0}), KEY),
    ):
        assert [float(x) for x in run()] == [3.0, 1.0]
    assert trace(condition(seed(pair, KEY), {"a": 3.0}))()[1]["a"].observed
    assert float(substitute(substitute(pair, {"a": 3.0}), {"a": 4.0})()[0]) == 4.0
    loop = seed(lambda: lax.scan(lambda c, _: (c, sample("x", Normal())), 0.0, None, length=3)[1], KEY)
    assert effx.jit(substitute(loop, {"x": enp.arange(3.0)}))().tolist() == [0.0, 1.0, 2.0]


def test_replicas_of_pmap() -> None:
    """Inside of a pmap each replica is a run of its own; outside of one, replicas draw apart and their densities add up."""
    draw = lambda k: seed(lambda: sample("x", Normal()), k)()  # noqa: E731
    keys = effx.random.split(KEY, 4)
    np.testing.assert_allclose(effx.pmap(draw)(keys), effx.vmap(draw)(keys), rtol=1e-6)
    model = effx.pmap(lambda m: sample("x", Normal(m, 1.0)))
    assert substitute(model, {"x": 2.0})(enp.zeros(3)).tolist() == [2.0] * 3

    def twice(m: Any) -> Any:
        first = sample("first", Normal())
        return first, model(m), sample("last", Normal())

    for f in (seed(twice, KEY), effx.jit(seed(twice, KEY))):
        first, xs, last = f(enp.zeros(4))
        assert len({float(first), float(last), *xs.tolist()}) == 6
    eight = effx.jit(lambda key: seed(model, key)(enp.zeros(8)))
    many = np.stack([eight(key) for key in effx.random.split(KEY, 100)])
    assert stats.kstest(many.ravel(), "norm").pvalue > 0.01
    np.testing.assert_allclose(np.corrcoef(many.T), np.eye(8), atol=0.45)

    def both(m: Any) -> Any:
        return sample("first", Normal(), obs=1.0), substitute(model, {"x": 2.0})(m)

    m = np.array([0.5, 1.0, 4.0], np.float32)
    total = stats.norm.logpdf(1.0) + stats.norm.logpdf(2.0, m).sum()
    for g in (log_density(both), effx.jit(log_density(both))):
        np.testing.assert_allclose(g(m)[0], total, rtol=1e-6)
    slope = effx.grad(lambda m: log_density(both)(m)[0])(enp.asarray(m))
    np.testing.assert_allclose(slope, 2.0 - m, rtol=1e-6)


def effective_size(x: Any) -> float:
    """How many independent draws a chain is worth, by Geyer's initial positive sequence."""
    x = np.asarray(x, np.float64) - np.mean(x)
    spectrum = np.fft.rfft(x, 2 * len(x))
    rho = np.fft.irfft(spectrum * np.conj(spectrum))[: len(x)]
    pairs = (rho[1:-1:2] + rho[2::2]) / rho[0]
    end = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    return float(len(x) / (1 + 2 * pairs[:end].sum()))


def test_posterior_of_a_regression() -> None:
    """Two strongly correlated weights: mean and covariance are the exact ones, and draws hardly depend on each other."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(30, 2)).astype(np.float32)
    a[:, 1] = 0.95 * a[:, 0] + 0.3 * a[:, 1]
    y = (a @ np.array([1.0, -2.0]) + 0.5 * rng.normal(size=30)).astype(np.float32)

    def model() -> None:
        with plate("weights", 2):
            w = sample("w", Normal())
        sample("y", Normal(enp.asarray(a) @ w, 0.5), obs=y)

    covariance = np.linalg.inv(np.eye(2) + a.T @ a / 0.25)
    mean = covariance @ (a.T @ y) / 0.25
    found = hmc(model, KEY, draws=2000, warmup=500)
    w = np.asarray(found.values["w"])
    assert w.shape == (2000, 2)
    assert np.abs((w.mean(0) - mean) / np.sqrt(np.diag(covariance))).max() < 0.1
    np.testing.assert_allclose(np.cov(w.T), covariance, rtol=0.2)
    assert 0.7 < float(found.accepted) < 0.98
    assert min(effective_size(w[:, i]) for i in range(2)) > 500


def test_sites_that_are_visited_many_times() -> None:
    """A random walk in a scan is sampled as a whole, in 64 bits, with a matrix beside it, inside jit."""

    def model() -> None:
        lax.scan(lambda c, _: (sample("x", Normal(c, 1.0)), None), np.float64(0.0), None, length=3)
        sample("m", Normal(np.arange(4.0).reshape(2, 2), np.array([[1.0, 10.0], [0.1, 1.0]])))

    with effx.enable_x64():
        found = effx.jit(lambda key: hmc(model, key, draws=1500, warmup=600))(KEY)
        x, m = (np.asarray(found.values[k]) for k in ("x", "m"))
        assert (x.shape, m.shape, x.dtype.name) == ((1500, 3), (1500, 2, 2), "float64")
        np.testing.assert_allclose(np.std(x, axis=0), np.sqrt([1, 2, 3]), rtol=0.15)
        np.testing.assert_allclose(np.std(m, axis=0), [[1.0, 10.0], [0.1, 1.0]], rtol=0.15)
        np.testing.assert_allclose(np.mean(m, axis=0), np.arange(4.0).reshape(2, 2), atol=1.0)


@pytest.mark.unguarded
def test_wrong_uses() -> None:
    """Arguments out of range; a density that is none; gradients by what a later choice depends on; names, masks."""
    model: Callable[[], Any] = lambda: sample("x", Normal())  # noqa: E731
    wrong: list[dict[str, Any]] = [{"draws": 0}, {"warmup": 3}, {"leapfrogs": 0}, {"target": 1.0}]
    for options in wrong:
        with pytest.raises(TransformError, match=r"^hmc: needs 1 draw, 4 steps of warmup"):
            hmc(model, KEY, **options)
    with pytest.raises(TransformError, match=r"^hmc: the density is not finite where sampling starts"):
        hmc(lambda: sample("y", Normal(model(), 1.0), obs=enp.nan), KEY)
    with pytest.raises(TransformError, match=r"^sample: how 'x' depends on its parameters is known once"):
        seed(effx.grad(lambda m: sample("x", Normal(m, 1.0))), KEY)(0.0)
    assert float(effx.grad(lambda m: seed(lambda: sample("x", Normal(m, 1.0)), KEY)())(0.0)) == 1.0
    with pytest.raises(TransformError, match=r"^trace: two values are collected under the name 'x'"):
        trace(seed(lambda: (model(), model()), KEY))()
    with pytest.raises(TransformError, match=r"^sample: key must be a string, got 3"):
        sample(3, Normal())  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(
        DTypeError, match=r"^mask: expected a bool array, got f32\[\]~; scale weighs by numbers"
    ):
        mask(model, 2.0)
    assert set(trace(block(seed(model, KEY), hide="x"))()[1]) == set()
    assert float(effx.jit(lambda: replay(model, trace(seed(model, KEY))()[1])())()) == float(
        seed(model, KEY)()
    )


def failures() -> Any:
    """How often a normal draw is below 0.5 before one is not: geometric, with p = 0.31."""
    return lax.while_loop(
        lambda n: sample("toss", p.Normal(0.0, 1.0)) < 0.5, lambda n: n + 1, enp.asarray(0, enp.int32)
    )


def test_draws_in_conditions() -> None:
    """Each time that a loop asks its condition, it draws anew; a trace has the last draw."""
    chance = stats.norm.sf(0.5)
    many = effx.vmap(lambda key: seed(failures, key)())(effx.random.split(effx.random.key(1), 4000))
    shares = np.bincount(np.asarray(many), minlength=8)[:8] / 4000
    np.testing.assert_allclose(shares, stats.geom.pmf(np.arange(1, 9), chance), atol=0.025)
    for i in range(3):
        one = seed(failures, effx.random.key(i))
        count, sites = trace(one)()
        assert int(count) == int(one()) == int(effx.jit(one)())
        assert float(sites["toss"].value) >= 0.5


@attrs.frozen
class Logistic(p.Distribution):
    """A distribution of someone else, whose parameters are numbers as they were given."""

    loc: Any
    scale: Any

    def expand(self, shape: tuple[int, ...]) -> Logistic:
        return self

    def sample(self, key: effx.Array) -> effx.Array:
        return enp.asarray(self.loc + self.scale * effx.random.logistic(key))

    def log_prob(self, x: Any) -> effx.Array:
        z = (enp.asarray(x) - self.loc) / self.scale
        return enp.asarray(-z - 2.0 * enp.log1p(enp.exp(-z)) - enp.log(self.scale))


def test_parameters_that_are_numbers() -> None:
    """Sites of a distribution that leaves them so, chosen and observed."""
    model = lambda: (sample("a", Logistic(1.0, 2.0)), sample("b", Logistic(0.0, 1.0), obs=0.5))  # noqa: E731
    total, values = log_density(substitute(model, {"a": 3.0}))()
    assert [float(x) for x in values] == [3.0, 0.5]
    np.testing.assert_allclose(total, stats.logistic(1, 2).logpdf(3) + stats.logistic.logpdf(0.5), rtol=1e-5)
