"""effx.scipy.stats gives what SciPy gives: distributions of vectors, ranks, estimates of densities, and dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats as scipy

import effx
from effx.errors import DTypeError, ShapeError
from effx.scipy import stats
from effx.scipy.stats import dirichlet, multinomial, multivariate_normal, norm, poisson
from effx.test_util import check_grads

RNG = np.random.default_rng(0)
COV = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.2], [0.1, -0.2, 0.7]])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_vectors(dtype: str) -> None:
    """Values of multinomial, dirichlet and multivariate_normal, with batches, inside and outside."""
    exact = 1e-12 if dtype == "f8" else 2e-5

    def close(got: effx.Array, want: object) -> None:
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=exact, atol=exact)

    with effx.enable_x64(dtype == "f8"):
        x, p = np.array([[1, 4, 0], [2, 2, 1], [2, 2, 2], [5, 0, 0]]), np.array([0.2, 0.5, 0.3], dtype)
        want = scipy.multinomial.logpmf(x, 5, p.astype("f8") / p.astype("f8").sum())
        close(multinomial.logpmf(x, 5, p), want)
        close(multinomial.pmf(x, 5, p), np.exp(want))
        odd = np.array([[-1.0, 6.0], [0.5, 4.5], [np.nan, 1.0]], dtype)
        found = multinomial.logpmf(odd, 5, np.array([0.5, 0.5], dtype))
        np.testing.assert_array_equal(found, [-np.inf, -np.inf, np.nan])
        assert np.isnan(multinomial.pmf(np.array([5.0, 0.0], dtype), 5, np.array([1.5, -0.5], dtype)))

        alpha = np.array([0.7, 2.0, 3.0], dtype)
        points = RNG.dirichlet([1, 2, 3], 4).T
        want = scipy.dirichlet.logpdf(points, alpha.astype("f8"))
        for part in (points, points[:-1]):
            close(dirichlet.logpdf(part.astype(dtype), alpha), want)
        close(dirichlet.pdf(points.astype(dtype), alpha), np.exp(want))
        beyond = np.array([[0.5, -0.1, 0.0], [0.5, 0.6, 0.5], [0.5, 0.5, 0.5]], dtype)
        found = dirichlet.logpdf(beyond, np.array([2.0, 1.0, 1.0], dtype))
        np.testing.assert_array_equal(found, [-np.inf, -np.inf, -np.inf])

        x, mean = RNG.normal(size=(2, 4, 3)).astype(dtype), np.array([0.1, 0.2, 0.3], dtype)
        want = scipy.multivariate_normal.logpdf(x, mean, COV.astype(dtype).astype("f8"))
        for singular in (None, True):
            found = multivariate_normal.logpdf(x, mean, COV.astype(dtype), allow_singular=singular)
            close(found, want)
        close(multivariate_normal.pdf(x, mean, COV.astype(dtype)), np.exp(want))
        want = scipy.multivariate_normal.logpdf(x, mean, 2.0 * np.eye(3))
        close(multivariate_normal.logpdf(x, mean, 2.0), want)
        close(multivariate_normal.logpdf(1.0, 0.5, 2.0), norm.logpdf(1.0, 0.5, 2**0.5))
        many = np.stack([COV, 2 * COV]).astype(dtype)
        want = [scipy.multivariate_normal.logpdf(x[0, 0], mean, c.astype("f8")) for c in many]
        close(multivariate_normal.logpdf(x[0, 0], mean, many), want)


def test_singular_covariances() -> None:
    """The density on the span of the matrix, and none outside it."""
    half = np.array([[1.0, 0.5], [2.0, -1.0], [0.0, 1.0]])
    cov = half @ half.T
    with effx.enable_x64(True):
        inside = half @ np.array([0.3, -0.4])
        want = scipy.multivariate_normal(np.zeros(3), cov, allow_singular=True).logpdf(inside)
        found = multivariate_normal.logpdf(inside, np.zeros(3), cov, True)
        np.testing.assert_allclose(found, want, rtol=1e-10)
        assert multivariate_normal.logpdf(inside + np.array([1.0, 0, 0]), np.zeros(3), cov, True) == -np.inf
        assert np.isnan(multivariate_normal.logpdf(inside, np.zeros(3), -np.eye(3), True))
        assert np.isnan(multivariate_normal.logpdf(inside, np.zeros(3), -np.eye(3)))


def test_derivatives_of_vectors() -> None:
    """Against finite differences, and of batches as of each."""
    with effx.enable_x64(True):
        x = np.array([0.2, -0.3, 0.5])
        check_grads(multivariate_normal.logpdf, (x, np.zeros(3), COV), order=1, modes=("rev",))
        check_grads(
            lambda a: dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), a), (x + 1,), order=1, modes=("rev",)
        )
        counts = np.array([2.0, 0.0, 1.0])
        check_grads(
            lambda p: multinomial.logpmf(counts, 3, p), (np.array([0.2, 0.3, 0.5]),), order=1, modes=("rev",)
        )
        many = RNG.normal(size=(5, 3))
        found = effx.jit(effx.vmap(multivariate_normal.logpdf, (0, None, None)))(many, x, COV)
        np.testing.assert_allclose(found, multivariate_normal.logpdf(many, x, COV), rtol=1e-12)


def test_entropy() -> None:
    """Of Poisson's distribution, as a sum over many terms."""
    k = np.arange(3000)
    mu = np.array([0.0, 1e-3, 0.5, 3.0, 9.9, 10.1, 40.0, 63.9, 64.1, 900.0])
    logs = scipy.poisson.logpmf(k, mu[1:, None])
    want = np.array([0.0, *-(np.exp(logs) * logs).sum(1)])
    with effx.enable_x64(True):
        np.testing.assert_allclose(poisson.entropy(mu), want, rtol=1e-11)
    np.testing.assert_allclose(poisson.entropy(mu.astype("f4")), want, rtol=2e-5)
    np.testing.assert_array_equal(poisson.entropy(np.array([-1.0, np.nan], "f4")), [np.nan, np.nan])


TIES = np.array([[3.0, 1.0, 2.0, 2.0, 3.0], [5.0, 5.0, 1.0, 0.0, 5.0], [np.nan, 2.0, np.nan, 1.0, 2.0]])


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_ranks(method: str) -> None:
    """Along both axes and of all elements, with NaN propagated or left out."""
    for axis, policy in ((0, "propagate"), (-1, "omit"), (None, "omit")):
        want = scipy.rankdata(TIES, method, axis=axis, nan_policy=policy)
        got = stats.rankdata(TIES, method, axis=axis, nan_policy=policy)
        np.testing.assert_array_equal(got, want)
    assert stats.rankdata(np.zeros((0,))).shape == (0,)
    np.testing.assert_array_equal(
        stats.rankdata(np.array([3, 1, 1]), method), scipy.rankdata([3, 1, 1], method)
    )


def test_modes_and_errors_of_means() -> None:
    for axis, policy, keepdims in (
        (0, "propagate", False),
        (1, "omit", True),
        (1, "propagate", True),
        (None, "omit", False),
        (None, "omit", True),
    ):
        want = scipy.mode(TIES, axis=axis, nan_policy=policy, keepdims=keepdims)
        got = stats.mode(TIES, axis, policy, keepdims)
        np.testing.assert_array_equal(got.mode, want.mode)
        np.testing.assert_array_equal(got.count, want.count)
        ddof = 1 if keepdims else 0
        spread = scipy.sem(TIES, axis, ddof, policy, keepdims=keepdims)
        found = stats.sem(TIES, axis, ddof, policy, keepdims=keepdims)
        np.testing.assert_allclose(found, spread, rtol=1e-6)
    assert stats.ModeResult._fields == ("mode", "count")
    empty = stats.mode(np.zeros((0, 2), "f4"))
    np.testing.assert_array_equal(empty.mode, [np.nan, np.nan])
    np.testing.assert_array_equal(empty.count, [0, 0])
    with np.errstate(all="ignore"):
        assert np.isnan(stats.sem(np.array([3.0])))
    batch = effx.jit(effx.vmap(lambda row: stats.rankdata(row) + stats.mode(row).mode + stats.sem(row)))
    each = [stats.rankdata(row) + stats.mode(row).mode + stats.sem(row) for row in TIES[:2]]
    np.testing.assert_allclose(batch(TIES[:2]), each, rtol=1e-6)


METHODS: tuple[str | float | None, ...] = (None, "scott", "silverman", 0.4)


@pytest.mark.parametrize("d", [1, 2])
def test_estimates_of_densities(d: int) -> None:
    """All methods as SciPy's; the estimate is a pytree."""
    data, other, at = RNG.normal(size=(d, 12)), RNG.normal(size=(d, 7)), RNG.normal(size=(d, 5))
    weights = RNG.uniform(0.5, 2, 12)
    with effx.enable_x64(True):
        for method, weight in zip(METHODS, (None, weights, weights, None), strict=True):
            want, got = scipy.gaussian_kde(data, method, weight), stats.gaussian_kde(data, method, weight)
            np.testing.assert_allclose(got.covariance, want.covariance, rtol=1e-12)
            np.testing.assert_allclose(got.inv_cov, want.inv_cov, rtol=1e-10)
            np.testing.assert_allclose(got.neff, want.neff, rtol=1e-12)
        want, got = scipy.gaussian_kde(data, 0.4, weights), stats.gaussian_kde(data, 0.4, weights)
        assert (got.d, got.n) == (d, 12)
        far = np.concatenate([at, at + 90], 1)
        np.testing.assert_allclose(got.logpdf(far)[:5], want.logpdf(at), rtol=1e-10)
        assert np.isfinite(np.asarray(got.logpdf(far))).all()
        for found in (got.evaluate(at), got(at), got.pdf(at)):
            np.testing.assert_allclose(found, want.evaluate(at), rtol=1e-10)
        mean, cov = np.full(d, 0.3), np.eye(d) * 0.5
        np.testing.assert_allclose(
            got.integrate_gaussian(mean, cov), want.integrate_gaussian(mean, cov), rtol=1e-10
        )
        mate, of_mate = stats.gaussian_kde(other), scipy.gaussian_kde(other)
        np.testing.assert_allclose(got.integrate_kde(mate), want.integrate_kde(of_mate), rtol=1e-10)
        if d == 1:
            for low, high in ((-1.0, 0.5), (0.5, -1.0), (-np.inf, np.inf), (4.0, 9.0)):
                found = got.integrate_box_1d(low, high)
                np.testing.assert_allclose(found, want.integrate_box_1d(low, high), rtol=1e-8, atol=1e-15)
        once = effx.jit(lambda estimate, x: estimate.logpdf(x))(got, at)
        np.testing.assert_allclose(once, want.logpdf(at), rtol=1e-10)
        chosen = stats.gaussian_kde(data, lambda estimate: estimate.neff ** (-1 / (d + 4)))
        np.testing.assert_allclose(chosen.covariance, stats.gaussian_kde(data).covariance)

        def likelihood(data: effx.Array, weights: effx.Array) -> effx.Array:
            return stats.gaussian_kde(data, 0.5, weights).logpdf(at).sum()

        check_grads(likelihood, (data, weights), order=1, modes=("rev",))


def test_resampling() -> None:
    data = np.array([[0.0, 4.0, 9.0], [1.0, -3.0, 5.0]])
    estimate = stats.gaussian_kde(data, 0.1, np.array([1.0, 0.5, 3.0]))
    drawn = np.asarray(estimate.resample(effx.random.key(0), (40, 50)))
    assert drawn.shape == (2, 40, 50)
    assert estimate.resample(effx.random.key(0)).shape == (2,)
    # The noise is that of `multivariate_normal`, draw by draw: what is left without it are the data themselves.
    noise = effx.random.multivariate_normal(
        effx.random.split(effx.random.key(0))[1], np.zeros(2), estimate.covariance, (40, 50)
    )
    rest = drawn - np.moveaxis(np.asarray(noise), -1, 0)
    nearest = np.abs(rest[:, None] - data[:, :, None, None]).max(0).min(0)
    assert nearest.max() < 1e-4
    flat = drawn.reshape(2, -1)
    share = estimate.weights @ data.T
    np.testing.assert_allclose(flat.mean(1), share, atol=0.3)
    want = np.asarray(estimate.covariance) * (
        1 + 100 * (1 - 1 / float(estimate.neff))
    )  # within points and between them
    np.testing.assert_allclose(np.cov(flat), want, rtol=0.1)


FIT: Callable[..., stats.gaussian_kde] = stats.gaussian_kde
TWO = np.arange(6.0).reshape(2, 3) ** 2
KEY = np.zeros(3)

WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: norm.pdf(1j), DTypeError, "norm.pdf: expected real numbers, got c64[]~"),
    (lambda: norm.ppf(1j), DTypeError, "norm.ppf: expected real numbers, got c64[]~"),
    (lambda: poisson.pmf(2, 1j), DTypeError, "poisson.pmf: expected real numbers, got c64[]~"),
    (
        lambda: norm.logcdf([1.0]),  # type: ignore[arg-type]
        DTypeError,
        "norm.logcdf: expected an array or a number, got a list; lists are converted only by array and asarray",
    ),
    (
        lambda: dirichlet.pdf(np.ones(2), 1.0),
        ShapeError,
        "dirichlet.pdf: alpha must be a vector, got f32[]",
    ),
    (
        lambda: dirichlet.logpdf(np.ones(3, "f4"), np.ones(5, "f4")),
        ShapeError,
        "dirichlet.logpdf: the first axis of x must have 5 or 4 elements, got f32[3]",
    ),
    (
        lambda: multivariate_normal.logpdf(0.5, 1.0, np.eye(2, dtype="f4")),
        ShapeError,
        "multivariate_normal.logpdf: numbers x and mean need a number cov, got f32[], f32[] and f32[2,2]",
    ),
    (
        lambda: multivariate_normal.pdf(np.ones(3, "f4"), np.ones(3, "f4"), np.ones(3, "f4")),
        ShapeError,
        (
            "multivariate_normal.pdf: cov must be a number or end in sizes 3, 3, as x and mean end in 3; "
            "got f32[3], f32[3] and f32[3]"
        ),
    ),
    (
        lambda: multivariate_normal.logpdf(KEY, KEY, np.eye(3), 2),  # type: ignore[arg-type]
        DTypeError,
        "multivariate_normal.logpdf: allow_singular must be a bool or None, got 2",
    ),
    (
        lambda: stats.rankdata(KEY, "best"),
        DTypeError,
        "rankdata: method must be one of average, min, max, dense, ordinal, got 'best'",
    ),
    (
        lambda: stats.sem(KEY, nan_policy="raise"),
        DTypeError,
        "sem: nan_policy must be 'propagate' or 'omit', got 'raise'",
    ),
    (lambda: stats.mode(KEY * 1j), DTypeError, "mode: complex numbers have no order, got c64[3]"),
    (
        lambda: FIT(1.0),
        ShapeError,
        "gaussian_kde: the dataset must be a vector or matrix of several elements, got f32[1,1]~",
    ),
    (
        lambda: FIT(TWO, weights=np.ones(2, "f4")),
        ShapeError,
        "gaussian_kde: weights must have shape [3], got f32[2]",
    ),
    (
        lambda: FIT(TWO, "best"),
        DTypeError,
        "gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function, got 'best'",
    ),
    (
        lambda: FIT(TWO, np.ones(2, "f4")),
        ShapeError,
        "gaussian_kde: bw_method must be a number, got f32[2]",
    ),
    (
        lambda: FIT(TWO).evaluate(np.ones(3, "f4")),
        ShapeError,
        "gaussian_kde.evaluate: points have 2 coordinates in the first axis, got f32[3]",
    ),
    (
        lambda: FIT(TWO).integrate_gaussian(np.ones(3, "f4"), np.eye(2, dtype="f4")),
        ShapeError,
        (
            "gaussian_kde.integrate_gaussian: expected a mean of shape [2] and a cov of shape [2, 2], "
            "got f32[3] and f32[2,2]"
        ),
    ),
    (
        lambda: FIT(TWO).integrate_box_1d(0.0, 1.0),
        ShapeError,
        "gaussian_kde.integrate_box_1d: the points must have one coordinate, got 2",
    ),
    (
        lambda: FIT(TWO[0]).integrate_box_1d(0.0, np.ones(2, "f4")),
        ShapeError,
        "gaussian_kde.integrate_box_1d: bounds must be numbers, got f32[] and f32[2]",
    ),
    (
        lambda: FIT(TWO).integrate_kde(FIT(TWO[0])),
        ShapeError,
        "gaussian_kde.integrate_kde: points have 2 coordinates, those of the other 1",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text) + r"(\n|$)"):
        call()


def test_dtypes_and_shapes() -> None:
    """Integers become floats, 16-bit floats are computed in 32 bits, weak types stay, and operands broadcast."""
    assert norm.logpdf(2).type == norm.logpdf(2.0).type
    assert norm.logpdf(2).type.weak
    assert not norm.cdf(2).type.weak
    assert not norm.ppf(0.5).type.weak
    assert repr(poisson.logpmf(np.array([1, 2]), 3).type) == "f32[2]"
    x = np.linspace(-2, 2, 5)
    for dtype in (np.float16, effx.dtypes.bfloat16):
        given = x.astype(dtype)
        found = norm.logcdf(given)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.asarray(norm.logcdf(given.astype("f4"))).astype(dtype))
    found = norm.pdf(x[:, None], x[:3], np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, scipy.norm.pdf(x[:, None], x[:3], [1, 2, 3]), rtol=1e-5)
    assert norm.pdf(np.zeros((0, 2))).shape == (0, 2)
    found = stats.betabinom.pmf(np.arange(4)[:, None], 3, np.array([0.5, 2.0]), 1.5)
    np.testing.assert_allclose(
        found, scipy.betabinom.pmf(np.arange(4)[:, None], 3, [0.5, 2.0], 1.5), rtol=1e-5
    )
