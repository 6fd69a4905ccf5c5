"""effx.scipy.stats gives what SciPy gives."""

from __future__ import annotations

import importlib
import inspect
import pickle
import types
from collections.abc import Callable, Sequence

import attrs
import numpy as np
import pytest
from scipy import stats as scipy

import effx
from effx.scipy import stats

UNIT = (1e-6, 0.01, 0.3, 0.5, 0.8, 0.99)
LINE = (-38.0, -9.0, -2.5, -0.3, 0.0, 0.7, 3.0, 12.0, 40.0)
HALF = (1e-2, 0.2, 1.0, 2.5, 7.0, 30.0)
WHOLE = (0, 1, 2, 5, 9, 40, 300, 2000)
LOGARITHMS = ("logpdf", "logpmf", "logcdf", "logsf")


@attrs.frozen
class Row:
    """A distribution.

    Attributes:
        parameters: sets of them.
        inside: points y of the standard form inside of the support.
        outside: points at its ends and beyond.
        bad: parameters that are not allowed.
        smooth: which parameters the probability may be differentiated by.
        exact: the relative error in float64.
    """

    parameters: Sequence[tuple[float, ...]] = ((),)
    inside: Sequence[float] = LINE
    outside: Sequence[float] = (-np.inf, np.inf)
    bad: Sequence[tuple[float, ...]] = ()
    smooth: Sequence[int] = (0, 1)
    exact: float = 1e-12


BELOW = (0.0, -1e-3, -5.0, -np.inf, np.inf)
NOT_WHOLE = (-1, 0.5, 2.5, -np.inf, np.inf)
ROWS = {
    "norm": Row(),
    "cauchy": Row(inside=(*LINE, -1e8, 1e12)),
    "laplace": Row(inside=[x for x in LINE if x]),
    "logistic": Row(),
    "gumbel_r": Row(inside=[x for x in LINE if x > -9], outside=(-38.0, -1e5, -np.inf, np.inf)),
    "gumbel_l": Row(inside=[x for x in LINE if x < 9], outside=(38.0, 1e5, -np.inf, np.inf)),
    "expon": Row(inside=HALF, outside=BELOW),
    "uniform": Row(inside=UNIT[1:], outside=(0.0, 1.0, -0.5, 2.0, -np.inf, np.inf)),
    "gamma": Row([(0.3,), (1.0,), (4.0,), (9.0,)], HALF, BELOW, [(0.0,), (-1.0,)], exact=1e-10),
    "chi2": Row([(0.3,), (2.0,), (7.0,), (17.0,)], HALF, BELOW, [(0.0,), (-1.0,)], exact=1e-10),
    "beta": Row(
        [(0.3, 2.0), (1.0, 1.0), (4.0, 0.5), (5.0, 9.0)],
        [0.01, 0.3, 0.5, 0.8, 0.99],
        (0.0, 1.0, -0.5, 2.0, -np.inf, np.inf),
        [(0.0, 1.0), (1.0, -1.0)],
        exact=1e-10,
    ),
    "pareto": Row([(0.5,), (3.0,)], [1.01, 1.5, 4.0, 100.0], (1.0, 0.5, -1.0, np.inf), [(0.0,)]),
    "t": Row([(0.7,), (3.0,), (150.0,), (1e6,)], bad=[(0.0,), (-2.0,)], exact=1e-9),
    "gennorm": Row([(0.8,), (2.0,), (3.5,)], [x for x in LINE if 0 < abs(x) < 5], bad=[(0.0,), (-1.0,)]),
    "vonmises": Row([(0.0,), (0.5,), (4.0,), (90.0,)], (-3.0, -0.3, 0.0, 1.0, 3.1), bad=[(-1.0,)]),
    "wrapcauchy": Row([(0.1,), (0.5,), (0.95,)], (0.1, 2.0, 6.0), (-0.1, 7.0, np.inf), [(0.0,), (1.0,)]),
    "truncnorm": Row(
        [(-1.0, 2.0), (0.5, 9.0), (-np.inf, 1.0), (-40.0, 40.0), (-9.0, 0.9)],
        (0.55, 0.6, 0.85),
        (-np.inf, -50.0, 45.0, np.inf),
        [(1.0, 0.5), (1.0, 1.0)],
        exact=1e-11,
    ),
    "bernoulli": Row([(0.3,), (0.9,)], (0, 1), (-1, 0.5, 2, np.inf), [(-0.1,), (1.1,)], (1,)),
    "binom": Row(
        [(9, 0.3), (40, 0.9), (2000, 0.01), (2000, 1.0), (2000, 0.0)],
        WHOLE,
        (-1, 0.5, 2001, np.inf),
        [(2.5, 0.5), (-1, 0.5), (3, 1.5)],
        (2,),
        exact=1e-11,
    ),
    "nbinom": Row(
        [(9, 0.3), (2.5, 0.9), (300, 0.5)],
        WHOLE,
        NOT_WHOLE,
        [(0, 0.5), (3, 0.0), (3, 1.5)],
        (1, 2),
        exact=1e-10,
    ),
    "betabinom": Row(
        [(9, 0.5, 2.0), (40, 3.0, 3.0), (2000, 9.0, 60.0)],
        WHOLE,
        (-1, 0.5, 2001, np.inf),
        [(2.5, 1.0, 1.0), (3, 0.0, 1.0), (3, 1.0, -1.0)],
        (2, 3),
        exact=1e-9,
    ),
    "geom": Row([(0.3,), (0.9,)], (1, 2, 5, 40), (0, 0.5, 2.5, np.inf), [(0.0,), (1.1,)], (1,)),
    "poisson": Row([(0.3,), (7.0,), (300.0,)], WHOLE, NOT_WHOLE, [(-1.0,)], (1,), exact=1e-10),
}
NAMES = sorted(ROWS)


def module(name: str) -> types.ModuleType:
    return importlib.import_module(f"effx.scipy.stats.{name}")


def functions(name: str, *kinds: str) -> list[tuple[str, Callable[..., effx.Array], list[str]]]:
    """Functions of points, or of probabilities, with the names of their parameters."""
    found = []
    for method in module(name).__all__:
        if (method in ("ppf", "isf")) == ("q" in kinds) and method != "entropy":
            function = getattr(module(name), method)
            found.append((method, function, list(inspect.signature(function).parameters)))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_those_of_their_module(name: str) -> None:
    """Each has its name, module, example and signature, is pickled by name, and is what an error of its call names."""
    for method in module(name).__all__:
        function = getattr(module(name), method)
        assert (function.__module__, function.__qualname__) == (f"effx.scipy.stats.{name}", method)
        assert f'>>> f"{{float({method}(' in function.__doc__
        assert pickle.loads(pickle.dumps(function)) is function
        signature = inspect.signature(function)
        assert signature.return_annotation is effx.Array
        first, *rest = signature.parameters.values()
        assert first.default is inspect.Parameter.empty
        assert [p.name for p in rest if p.default is not inspect.Parameter.empty] == [
            p.name for p in rest if p.name in ("loc", "scale")
        ]
        with pytest.raises(TypeError, match=rf"^{method}\(\) missing \d required positional argument"):
            function()


def grid(row: Row, points: Sequence[float], dtype: str = "f8") -> list[np.ndarray]:
    """All points with all parameters, at several locations and scales: x, the parameters, loc and scale."""
    places = [(0.0, 1.0), (2.0, 0.5)]
    each = [(y, *p, *place) for y in points for p in row.parameters for place in places]
    *found, loc, scale = np.array(each, dtype).T
    return [*found, loc, scale]


def arguments(columns: list[np.ndarray], names: list[str]) -> list[np.ndarray]:
    """What a function takes of x or y, parameters, loc and scale."""
    y, *parameters, loc, scale = columns
    whole = names[0] == "k"
    use = [*parameters]
    if "loc" in names:
        y = y + loc if whole else y * scale + loc
        use += [loc] if whole else [loc, scale]
    return [y, *use]


def test_every_distribution_has_a_row() -> None:
    here = [name for name in dir(stats) if isinstance(getattr(stats, name), types.ModuleType)]
    assert sorted(here) == sorted([*NAMES, "dirichlet", "multinomial", "multivariate_normal"])


def slopes_of(oracle: Callable[..., np.ndarray], columns: list[np.ndarray], i: int) -> np.ndarray:
    """Central differences; NaN where a point is too close to an end."""
    steps = np.maximum(np.abs(columns[i]), 0.1) * 1e-5
    ends = [oracle(*columns[:i], columns[i] + s, *columns[i + 1 :]) for s in (-steps, steps)]
    return np.asarray((ends[1] - ends[0]) / (2 * steps))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_values_and_derivatives(name: str) -> None:
    """In float64 and inside of the support, compiled for batches."""
    row, oracle = ROWS[name], getattr(scipy, name)
    jobs = []
    for kind, points in (("x", row.inside), ("q", UNIT)):
        for method, function, names in functions(name, kind):
            columns = arguments(grid(row, points), names)
            columns[0] = grid(row, points)[0] if kind == "q" else columns[0]
            whole = "k" in names or "bernoulli" in name
            smooth = [i for i in range(len(columns)) if not whole or i in row.smooth]
            jobs.append((method, function, columns, tuple(smooth)))

    def together(all_columns: list[list[effx.Array]]) -> list[tuple[effx.Array, tuple[effx.Array, ...]]]:
        each = zip(jobs, all_columns, strict=True)
        return [effx.vmap(effx.value_and_grad(f, smooth))(*xs) for (_, f, _, smooth), xs in each]

    with effx.enable_x64(True):
        found = effx.jit(together)([[effx.numpy.asarray(c) for c in columns] for *_, columns, _ in jobs])
    for (method, _, columns, where), (value, slopes) in zip(jobs, found, strict=True):
        of = getattr(oracle, method)
        want = of(*columns)
        least = row.exact if method in LOGARITHMS else 1e-300
        np.testing.assert_allclose(value, want, rtol=row.exact, atol=least, err_msg=method)
        for i, slope in zip(where, slopes, strict=True):
            between = slopes_of(of, columns, i)
            known = np.isfinite(want) & np.isfinite(between)
            # Rounding of values, which the step magnifies.
            noise = np.where(known, np.abs(want) / np.maximum(np.abs(columns[i]), 0.1), 0.0) * 1e-7
            bad = known & ~(np.abs(np.asarray(slope) - between) <= 1e-4 * np.abs(between) + noise + 1e-9)
            assert not bad.any(), (method, i, [c[bad] for c in columns], slope[bad], between[bad])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_everywhere(name: str) -> None:
    """In float32, with the ends of the support and what is beyond, and NaN where something is not allowed."""
    row, oracle = ROWS[name], getattr(scipy, name)
    for kind, points in (("x", (*row.outside, *row.inside)), ("q", (0.0, 1.0, -0.1, 1.1, *UNIT))):
        for method, function, names in functions(name, kind):
            columns = arguments(grid(row, points, "f4"), names)
            columns[0] = grid(row, points, "f4")[0] if kind == "q" else columns[0]
            ones = [c[-1] for c in columns]
            wrong = [[*ones[:i], np.nan, *ones[i + 1 :]] for i in range(len(ones))]
            wrong += [[ones[0], *p, *ones[1 + len(p) :]] for p in row.bad]
            wrong += [[*ones[:-1], s] for s in (0.0, -1.0) if "scale" in names]
            given = [
                np.concatenate([c, w]).astype("f4") for c, w in zip(columns, np.array(wrong).T, strict=True)
            ]
            got = function(*given)
            assert got.dtype == np.float32
            n = len(columns[0])
            np.testing.assert_array_equal(np.isnan(np.asarray(got)[n:]), True, err_msg=method)
            value = np.asarray(got, "f8")[:n]
            want = getattr(oracle, method)(*[c[:n].astype("f8") for c in given])
            # SciPy's are NaN where they are differences of infinities.
            want = np.where(np.isnan(want) & np.isinf(given[0][:n]), value, want)
            want = np.where(np.abs(want) > 3.4e38, np.sign(want) * np.inf, want)
            np.testing.assert_allclose(value, want, rtol=2e-4, atol=1e-5, err_msg=method)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_at_ends(name: str) -> None:
    """Are finite at the ends of the support and beyond."""
    row = ROWS[name]
    p = np.array(row.parameters[-1], "f4")
    methods = [f for method, f, _ in functions(name, "x") if method in ("pdf", "pmf", "cdf", "sf")]
    whole = "k" in inspect.signature(methods[0]).parameters
    smooth = tuple([i for i in range(1 + len(p)) if not whole or i in row.smooth])

    def slopes(x: effx.Array) -> list[tuple[effx.Array, ...]]:
        return [effx.grad(f, smooth)(x, *p) for f in methods]

    found = effx.jit(effx.vmap(slopes))(effx.numpy.array(row.outside, "f4"))
    for leaf in effx.tree_util.tree_leaves(found):
        assert np.isfinite(np.asarray(leaf)).all(), (name, found)


@pytest.mark.parametrize("beta", [0.7, 1.5, 2.0, 4.0])
def test_slope_of_gennorm_in_the_middle(beta: float) -> None:
    """The slope of the distribution function is the density, at 0 too; that of the parameter is 0 there."""
    slopes = effx.grad(stats.gennorm.cdf, (0, 1))(0.0, beta)
    np.testing.assert_allclose(slopes, [scipy.gennorm.pdf(0.0, beta), 0.0], rtol=1e-5)
