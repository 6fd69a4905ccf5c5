"""Samples follow the distributions that they are named for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import effx
from effx import random
from effx.array import Array

# Which test holds each sampler to its law.
TESTS: dict[str, str] = {
    **dict.fromkeys(
        ["cauchy", "exponential", "laplace", "logistic", "normal"],
        "test_distributions.py::test_continuous_samplers",
    ),
    "bernoulli": "test_distributions.py::test_booleans",
    "bits": "test_distributions.py::test_bits",
    "categorical": "test_distributions.py::test_categorical",
    "choice": "test_distributions.py::test_weighted_choice",
    "gumbel": "test_distributions.py::test_a_longer_tail_of_gumbel_numbers",
    "permutation": "test_distributions.py::test_permutations_are_uniform",
    "rademacher": "test_distributions.py::test_signs",
    "randint": "test_distributions.py::test_randint",
    "truncated_normal": "test_distributions.py::test_truncated_normal",
    "uniform": "test_distributions.py::test_uniform_bounds",
    "multivariate_normal": "test_matrices.py::test_normal_vectors",
    "orthogonal": "test_matrices.py::test_orthogonal_matrices_are_uniform",
    **dict.fromkeys(
        [
            "beta", "chisquare", "double_sided_maxwell", "f", "gamma", "generalized_normal", "loggamma", "lognormal",
            "maxwell", "pareto", "rayleigh", "t", "triangular", "wald", "weibull_min",
        ],
        "test_samplers.py::test_distributions",
    ),
    **dict.fromkeys(["binomial", "geometric", "poisson"], "test_samplers.py::test_counts"),
    "ball": "test_samplers.py::test_points_of_the_ball",
    "dirichlet": "test_samplers.py::test_points_of_the_simplex",
    "multinomial": "test_samplers.py::test_counts_of_categories",
}  # fmt: skip
KEY_FUNCTIONS = {
    "Key", "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split", "wrap_key_data",
}  # fmt: skip
N = 20_000
KEY = random.PRNGKey(2024)

CONTINUOUS: list[tuple[Callable[..., Array], object]] = [
    (random.uniform, stats.uniform()),
    (random.normal, stats.norm()),
    (random.exponential, stats.expon()),
    (random.gumbel, stats.gumbel_r()),
    (random.laplace, stats.laplace()),
    (random.logistic, stats.logistic()),
    (random.cauchy, stats.cauchy()),
]


def test_every_sampler_has_a_test_of_its_law() -> None:
    assert {name for name in dir(random) if not name.startswith("_")} == TESTS.keys() | KEY_FUNCTIONS
    for name, place in TESTS.items():
        file, test = place.split("::")
        source = (Path(__file__).parent / file).read_text()
        assert f"def {test}(" in source
        # By its name in that file, as `random.name` or in a table.
        assert f"random.{name}" in source or f'("{name}",' in source


@pytest.mark.parametrize(("sampler", "law"), CONTINUOUS, ids=[s.__name__ for s, _ in CONTINUOUS])
@pytest.mark.parametrize("x64", [False, True])
def test_continuous_samplers(sampler: Callable[..., Array], law: stats.rv_continuous, x64: bool) -> None:
    """Kolmogorov and Smirnov find no difference at the level of one in a thousand."""
    with effx.enable_x64(x64):
        drawn = np.asarray(sampler(KEY, (N,)))
    assert drawn.dtype == (np.float64 if x64 else np.float32)
    assert np.isfinite(drawn).all()
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "laplace", "logistic"])
def test_moments_in_narrow_floats(name: str, dtype: str) -> None:
    law = {
        "uniform": stats.uniform(),
        "normal": stats.norm(),
        "exponential": stats.expon(),
        "laplace": stats.laplace(),
        "logistic": stats.logistic(),
    }[name]
    drawn = np.asarray(getattr(random, name)(KEY, (N,), dtype)).astype(np.float64)
    # Of 128 points in [0, 1) one is 0, whose logarithm is far out.
    drawn = drawn[np.abs(drawn) < 15]
    assert abs(drawn.mean() - law.mean()) < 0.05
    assert abs(drawn.std() - law.std()) < 0.1


def test_uniform_bounds() -> None:
    """Bounds broadcast, and no sample reaches the upper one."""
    low, high = np.array([0.0, -5.0, 10.0], np.float32), np.array([1.0, 5.0, 10.5], np.float32)
    drawn = np.asarray(random.uniform(KEY, (N, 3), minval=low, maxval=high))
    assert (drawn >= low).all()
    assert (drawn < high).all()
    for i in range(3):
        assert stats.kstest(drawn[:, i], stats.uniform(low[i], high[i] - low[i]).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 2.0), (0.0, np.inf), (-np.inf, -1.0), (2.0, 3.0)])
def test_truncated_normal(lower: float, upper: float) -> None:
    drawn = np.asarray(random.truncated_normal(KEY, lower, upper, (N,)))
    assert (drawn > lower).all()
    assert (drawn < upper).all()
    assert stats.kstest(drawn, stats.truncnorm(lower, upper).cdf).pvalue > 1e-3


def test_complex_normal() -> None:
    """Both parts have the variance 1/2 and are independent."""
    drawn = np.asarray(random.normal(KEY, (N,), "complex64"))
    assert stats.kstest(drawn.real * np.sqrt(2), stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(drawn.imag * np.sqrt(2), stats.norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(drawn.real, drawn.imag)[0, 1]) < 0.03


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize(("low", "high"), [(0, 7), (3, 120)])
def test_randint(dtype: str, low: int, high: int) -> None:
    drawn = np.asarray(random.randint(KEY, (N,), low, high, dtype))
    assert drawn.dtype == dtype
    counts = np.bincount(drawn, minlength=high)
    assert counts[:low].sum() == 0
    assert counts.size == high
    assert stats.chisquare(counts[low:]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int8", -128, 128), ("uint8", 0, 256), ("int8", -999, 999)]
)
def test_randint_over_the_whole_range(dtype: str, low: int, high: int) -> None:
    """Bounds beyond the dtype's range move to its ends."""
    drawn = np.asarray(random.randint(KEY, (N,), low, high, dtype)).astype(np.int64)
    info = np.iinfo(dtype)
    counts = np.bincount(drawn - int(info.min), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_randint_over_the_whole_range_of_words() -> None:
    """A maxval beyond i32 is one of i64, and includes the largest i32."""
    with effx.enable_x64(True):
        drawn = np.asarray(random.randint(KEY, (N,), -(2**31), 2**31, "int32"))
    assert stats.kstest(drawn.astype(np.float64) / 2**32 + 0.5, stats.uniform.cdf).pvalue > 1e-3


def test_randint_of_an_empty_interval_is_its_start() -> None:
    assert random.randint(KEY, (3,), 5, 5).tolist() == [5, 5, 5]
    assert random.randint(KEY, (2,), np.array([1, 4]), np.array([0, 5])).tolist() == [1, 4]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits(dtype: str) -> None:
    """Every byte of a word is uniform, and every bit is independent of its neighbour."""
    with effx.enable_x64(True):
        drawn = np.asarray(random.bits(KEY, (N,), dtype))
    assert drawn.dtype == dtype
    for column in drawn.view(np.uint8).reshape(N, -1).T:
        assert stats.chisquare(np.bincount(column, minlength=256)).pvalue > 1e-3
    changes = np.diff(np.unpackbits(drawn.view(np.uint8).reshape(N, -1), axis=1).astype(np.int8), axis=1)
    assert stats.binomtest(int(np.count_nonzero(changes)), changes.size).pvalue > 1e-3


@pytest.mark.parametrize("mode", ["low", "high"])
def test_booleans(mode: str) -> None:
    chances = np.array([0.0, 0.002, 0.2, 0.5, 0.9, 1.0], np.float32)
    drawn = np.asarray(random.bernoulli(KEY, chances, (N, chances.size), mode))
    for found, p in zip(drawn.sum(0), chances, strict=True):
        assert stats.binomtest(int(found), N, float(p)).pvalue > 1e-3
    # The columns are independent.
    table = [[(drawn[:, 2] == a).dot(drawn[:, 3] == b) for a in (False, True)] for b in (False, True)]
    assert stats.chi2_contingency(table).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_signs(dtype: str) -> None:
    signs = np.asarray(random.rademacher(KEY, (N,), dtype))
    assert signs.dtype == dtype
    assert set(signs.tolist()) == {-1, 1}
    # Pairs of signs are as often equal as not.
    for found in (signs > 0, signs[::2] == signs[1::2]):
        assert stats.binomtest(int(found.sum()), found.size).pvalue > 1e-3


def test_a_longer_tail_of_gumbel_numbers() -> None:
    """Of 2^20 numbers, of which the coarse ones have 2^23 values."""
    drawn = np.asarray(random.gumbel(KEY, (2**20,), mode="high"))
    assert stats.kstest(drawn[:N], stats.gumbel_r.cdf).pvalue > 1e-3
    # In the tail, the excess over a high bound is exponential.
    excess = drawn[drawn > 7.0] - 7.0
    assert stats.kstest(excess, stats.expon.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("replace", "mode"), [(True, None), (True, "high"), (False, None)])
def test_categorical(replace: bool, mode: str | None) -> None:
    chances = np.array([0.1, 0.2, 0.3, 0.4])
    logits = np.broadcast_to(np.log(chances) + 3.0, (N, 4))
    drawn = np.asarray(random.categorical(KEY, logits, shape=(2, N), replace=replace, mode=mode))
    for row in drawn[:1] if not replace else drawn:
        counts = np.bincount(row, minlength=4)
        assert stats.chisquare(counts, chances * N).pvalue > 1e-3
    assert (drawn[0] == drawn[1]).any() == replace


@pytest.mark.parametrize("replace", [True, False])
def test_weighted_choice(replace: bool) -> None:
    """Chances of the first draw are p, zeros are never drawn."""
    p = np.array([0.25, 0.0, 0.5, 0.25], np.float32)
    draw = effx.jit(effx.vmap(lambda k: random.choice(k, 4, (2,), replace=replace, p=p)))
    drawn = np.asarray(draw(random.split(KEY, 4000)))
    counts = np.bincount(drawn[:, 0], minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[p > 0], p[p > 0] * 4000).pvalue > 1e-3
    assert (drawn[:, 0] == drawn[:, 1]).any() == replace


@pytest.mark.parametrize("replace", [True, False])
def test_choice_with_equal_chances(replace: bool) -> None:
    """Slices of an array, pairs of which are equally often drawn."""
    places = np.arange(10).reshape(2, 5) + 3
    draw = effx.jit(effx.vmap(lambda k: random.choice(k, places, (2,), replace=replace, axis=1)))
    drawn = np.asarray(draw(random.split(KEY, 5000)))
    assert (drawn[:, 0] + 5 == drawn[:, 1]).all()
    pairs = np.bincount((drawn[:, 0] - 3) @ np.array([5, 1]), minlength=25).reshape(5, 5)
    if not replace:
        assert pairs.trace() == 0
        pairs = pairs[~np.eye(5, dtype=bool)]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3


def test_choice_compiles_once_for_all_numbers(caplog: pytest.LogCaptureFixture) -> None:
    first = random.choice(KEY, 11, (7,))
    with caplog.at_level("WARNING"), effx.log_compiles(True):
        for n in (1, 12, 1000):
            drawn = np.asarray(random.choice(KEY, n, (7,)))
            assert drawn.dtype == first.dtype
            assert ((drawn >= 0) & (drawn < n)).all()
        assert not caplog.records
        random.choice(KEY, 12, (6,))
        assert caplog.records


def test_choice_by_bisection_of_many_chances() -> None:
    p = np.random.default_rng(0).random(1000)
    p /= p.sum()
    drawn = np.asarray(random.choice(KEY, 1000, (100_000,), p=p))
    halves = np.bincount(drawn // 250, minlength=4)
    assert stats.chisquare(halves, p.reshape(4, 250).sum(1) * 100_000).pvalue > 1e-3


def test_permutations_are_uniform() -> None:
    drawn = np.asarray(effx.jit(effx.vmap(lambda k: random.permutation(k, 4)))(random.split(KEY, 4800)))
    assert (np.sort(drawn, 1) == np.arange(4)).all()
    codes = drawn @ np.array([64, 16, 4, 1])
    counts = np.unique(codes, return_counts=True)[1]
    assert counts.size == 24
    assert stats.chisquare(counts).pvalue > 1e-3


def test_permutations_of_lines_are_uniform_and_independent() -> None:
    lines = np.tile(np.arange(3), (9600, 1))
    drawn = np.asarray(random.permutation(KEY, lines, axis=1, independent=True))
    assert (np.sort(drawn, 1) == lines).all()
    codes = np.unique(drawn @ np.array([9, 3, 1]), return_inverse=True)[1].reshape(-1, 2)
    pairs = np.bincount(codes @ np.array([6, 1]), minlength=36)
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_permutation_of_slices_and_of_lines() -> None:
    x = np.arange(60).reshape(3, 20)
    moved = np.asarray(random.permutation(KEY, x, axis=1))
    assert (moved == x[:, moved[0]]).all()
    mixed = np.asarray(random.permutation(KEY, x, axis=1, independent=True))
    assert (np.sort(mixed, 1) == x).all()
    assert (mixed[0] + 20 != mixed[1]).any()


def test_samples_differentiate_with_respect_to_parameters() -> None:
    """d/da of a + (b - a) u is 1 - u, and d/db is u."""
    u = np.asarray(random.uniform(KEY, (5,)))
    total = lambda a, b: random.uniform(KEY, (5,), minval=a, maxval=b).sum()  # noqa: E731
    da, db = effx.grad(total, (0, 1))(0.0, 2.0)
    np.testing.assert_allclose([da, db], [(1 - u).sum(), u.sum()], rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3)])
@pytest.mark.parametrize("name", ["uniform", "normal", "gumbel", "bits", "rademacher"])
def test_small_shapes(name: str, shape: tuple[int, ...]) -> None:
    assert getattr(random, name)(KEY, shape).shape == shape
    assert getattr(random, name)(KEY, list(shape)).shape == shape
