"""Interval bounds: sound at every point that was tried, and as tight as brute force for single operations.

Never: trusts a bound because another bound says so; values come from NumPy, SciPy and effx itself.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import errors, lax
from effx.handling import Reference, coverage, handle
from effx.ir.ops.base import Elementwise
from effx.laws.samples import values
from effx.library import intervals
from effx.library.intervals import Interval, Intervals, bounds, combining, hull
from tests.library.functions import real_operations

Data = np.ndarray[Any, Any]


def f4(values: Any) -> Data:
    """Single precision."""
    return np.asarray(values, np.float32)


INF = float("inf")


@pytest.fixture
def on_numpy() -> Iterator[None]:
    """Runs a test's operations on NumPy, where there is nothing to compile."""
    with handle(Reference()):
        yield


def interval(low: Any, high: Any, dtype: Any = np.float32) -> Interval:
    return Interval(enp.asarray(np.asarray(low, dtype)), enp.asarray(np.asarray(high, dtype)))


def ends(x: Interval) -> tuple[Any, Any]:
    return np.asarray(x.low), np.asarray(x.high)


def inside(x: Interval, values: Any) -> bool:
    """Says whether all values that are defined are between the bounds."""
    low, high = ends(x)
    v = np.asarray(values)
    with np.errstate(invalid="ignore"):
        return bool(np.all(((low <= v) & (v <= high)) | (v != v)))


def drawn(rng: np.random.Generator, low: Data, high: Data, count: int) -> Data:
    """Points of a box, its corners among them."""
    at = rng.uniform(0, 1, (count, *low.shape))
    at[: count // 4] = np.round(at[: count // 4])
    points: Data = np.clip(low + at * (high - low).astype("f8"), low, high).astype(low.dtype)
    return points


def defined(op: Elementwise, rng: np.random.Generator, count: int) -> Data:
    """Numbers of all sizes and both signs at which an operation of one operand is defined."""
    points = f4(10 ** rng.uniform(-2, 1.3, 40 * count) * rng.choice([-1, 1], 40 * count))
    with np.errstate(all="ignore"):
        return points[np.isfinite(values(op, points))][:count]


@pytest.mark.parametrize("op", real_operations(1), ids=lambda op: str(op.name))
def test_elementary_functions(op: Elementwise) -> None:
    """Bounds hold for the true values and for XLA's; where there is a rule, they are the true ones up to rounding."""
    rng = np.random.default_rng(len(op.name))
    a, b = np.sort(defined(op, rng, 120).reshape(2, 60), axis=0)
    b[::3] = np.minimum(b[::3], a[::3] + np.float32(0.3))
    b[:2] = a[:2]  # single points
    found = bounds(op, interval(a, b))
    points = drawn(rng, a, b, 400)
    with effx.enable_x64(True), np.errstate(all="ignore"):
        true = values(op, points.astype("f8"))
    assert inside(found, true)
    assert inside(found, op(enp.asarray(points)))
    if coverage(Intervals)[type(op)].by is Elementwise:
        return  # whose bounds are all numbers
    low, high = ends(found)
    known = np.isfinite(low) & np.isfinite(high)
    slack = 2e-5 + 2e-5 * np.maximum(np.abs(low), np.abs(high)) + 0.03 * (high - low)
    assert np.all((np.nanmin(true, axis=0) - low <= slack)[known])
    assert np.all((high - np.nanmax(true, axis=0) <= slack)[known])
    assert np.count_nonzero(known) >= (20 if op.name == "tan" else 58)


@pytest.mark.parametrize("op", real_operations(2), ids=lambda op: str(op.name))
def test_functions_of_two(op: Elementwise) -> None:
    """As above, with both operands in intervals, and with one of them known."""
    rng = np.random.default_rng(7)
    a, b, c, d = f4(rng.uniform(0, 3, (4, 60)) if op.name == "pow" else rng.uniform(-5, 5, (4, 60)))
    a, b, c, d = np.minimum(a, b), np.maximum(a, b), np.minimum(c, d), np.maximum(c, d)
    for x, y in (
        (interval(a, b), interval(c, d)),
        (interval(a, b), interval(c, c)),
        (interval(a, a), interval(c, d)),
    ):
        plain = enp.asarray(x.low) if bool(enp.all(x.low == x.high)) else x
        found = bounds(op, plain, y)
        p, q = drawn(rng, *ends(x), 600), drawn(rng, *ends(y), 600)
        with effx.enable_x64(True), np.errstate(all="ignore"):
            true = values(op, p.astype("f8"), q.astype("f8"))
        assert inside(found, true)
        assert inside(found, op(enp.asarray(p), enp.asarray(q)))
        low, high = ends(found)
        known = np.isfinite(low) & np.isfinite(high)
        if op.name not in ("rem", "atan2"):  # whose branch cuts are not looked into
            slack = 1e-4 + 1e-4 * np.maximum(np.abs(low), np.abs(high)) + 0.1 * (high - low)
            assert np.all((np.nanmin(true, axis=0) - low <= slack)[known])
            assert np.all((high - np.nanmax(true, axis=0) <= slack)[known])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 6, 7, -1, -2, -3])
@pytest.mark.usefixtures("on_numpy")
def test_integer_powers(exponent: int) -> None:
    """Even powers have their minimum at 0; negative ones of an interval around 0 are unbounded."""
    found = bounds(lambda x: x**exponent, interval([-2.0, -2.0, 0.5], [3.0, -1.0, 2.0]))
    rng = np.random.default_rng(0)
    points = drawn(rng, f4([-2, -2, 0.5]), f4([3, -1, 2]), 500).astype("f8")
    with np.errstate(all="ignore"):
        true = points**exponent
    assert inside(found, true)
    low, high = ends(found)
    assert np.all(np.isfinite(low[1:]))
    np.testing.assert_allclose(low[1:], true.min(axis=0)[1:], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(high[1:], true.max(axis=0)[1:], rtol=1e-4, atol=1e-5)
    if exponent < 0:
        assert (low[0], high[0]) == (-INF, INF)
    elif exponent % 2 == 0 and exponent:
        assert low[0] == 0.0


@pytest.mark.usefixtures("on_numpy")
def test_powers_of_infinity() -> None:
    """A power of -inf is one of inf, also where the exponent is no integer, for which other negative bases have none."""
    low = f4([-INF, -INF, -INF, -INF])
    high = f4([-INF, -2.0, 3.0, -INF])
    exponents = f4([1.5, 1.5, 0.5, -1.5])
    found = bounds(lambda x: x ** enp.asarray(exponents), interval(low, high))
    with np.errstate(all="ignore"):
        assert inside(found, np.power(low, exponents))
        assert inside(found, np.power(high, exponents))


def test_waves_reach_their_extremes() -> None:
    """Between two multiples of pi the extreme value itself is a bound."""
    found = bounds(enp.sin, interval([1.0, 4.0, 0.0, -1.0, 1e6], [2.0, 5.0, 7.0, 1.0, 1e6 + 7]))
    low, high = ends(found)
    assert (float(high[0]), float(low[1])) == (1.0, -1.0)
    assert (low[2], high[2], low[4], high[4]) == (-1.0, 1.0, -1.0, 1.0)
    np.testing.assert_allclose([low[3], high[3]], [-np.sin(1), np.sin(1)], rtol=1e-5)
    poles = bounds(enp.tan, interval([1.0, -1.0], [2.0, 1.0]))
    np.testing.assert_allclose(np.asarray(poles.low), [-INF, -np.tan(1)], rtol=1e-5)


def test_division_by_zero() -> None:
    """An interval around 0 says nothing, and infinite ends take part in arithmetic."""
    found = bounds(lambda x, y: x / y, interval(1.0, 2.0), interval(-1.0, 1.0))
    assert (float(found.low), float(found.high)) == (-INF, INF)
    back = bounds(lambda x: enp.tanh(x) * 0.0 + enp.exp(-enp.abs(x)), found)
    assert inside(back, [0.0, 1.0])
    assert float(back.high) < 1.001
    assert ends(bounds(lambda x: x - x, found)) == (0.0, 0.0)


def test_one_value_twice() -> None:
    """The one product that interval arithmetic knows to be a square."""
    found = bounds(lambda x: x * x, interval(-1.0, 2.0))
    assert float(found.low) == 0.0
    assert inside(found, [0.0, 4.0])


@pytest.mark.parametrize("dtype", [np.float16, enp.bfloat16, np.float32, np.float64])
def test_rounding_of_each_dtype(dtype: Any) -> None:
    """A sum of a third of its kind holds the true value, which the dtype does not."""
    with effx.enable_x64(True):
        third = enp.asarray(1 / 3, dtype)
        found = bounds(lambda x: x * 3.0 + x / 7.0, Interval(third, third))
        assert found.low.dtype == np.dtype(dtype)
        exact = float(third) * 3 + float(third) / 7
        low, high = float(found.low), float(found.high)
        assert low < exact < high
        assert high - low < 20 * float(enp.finfo(dtype).eps)


def test_operators() -> None:
    """Intervals compute like numbers, each as a value of its own."""
    x, y = interval(-1.0, 2.0), interval(1.0, 4.0)
    cases = [
        (x + y, 0.0, 6.0),
        (1.0 + x, 0.0, 3.0),
        (x - x, -3.0, 3.0),
        (1.0 - x, -1.0, 2.0),
        (x * x, -2.0, 4.0),
        (2.0 * x, -2.0, 4.0),
        (x / y, -1.0, 2.0),
        (1.0 / y, 0.25, 1.0),
        (x**2, 0.0, 4.0),
        (-x, -2.0, 1.0),
        (abs(x), 0.0, 2.0),
    ]
    for found, low, high in cases:
        np.testing.assert_allclose(ends(found), (low, high), rtol=1e-5, atol=1e-6)
    twice = bounds(lambda a, b: a * b, x, x)
    np.testing.assert_allclose(ends(twice), (-2.0, 4.0), rtol=1e-5)
    handled = Intervals().run(lambda a, b: a - b, x, x)
    np.testing.assert_allclose(ends(handled), (-3.0, 3.0), rtol=1e-5)


# Integers and booleans


@pytest.mark.usefixtures("on_numpy")
def test_integers() -> None:
    """Integers are exact, and what wraps around may be anything."""
    x = interval([-3, 2], [4, 5], np.int32)
    found = bounds(lambda x: x * x - 7 * x + 1, x)
    for p in range(-3, 5):
        assert inside(found, [p * p - 7 * p + 1, found.low[1]])
    assert ends(bounds(lambda x: x + 1, x))[1].tolist() == [5, 6]
    wide = bounds(lambda x: x + 1, interval(2**31 - 3, 2**31 - 1, np.int32))
    assert (int(wide.low), int(wide.high)) == (-(2**31), 2**31 - 1)
    unsigned = bounds(lambda x: x - 1, interval([0, 1], [3, 3], np.uint8))
    assert [v.tolist() for v in ends(unsigned)] == [[0, 0], [255, 2]]
    divided = bounds(lambda x: lax.div(x, 3), interval(-7, 8, np.int32))
    assert (int(divided.low), int(divided.high)) == (-2, 2)
    rest = bounds(lambda x: lax.rem(x, 3), interval([3, -7, 2], [4, 8, 9], np.int32))
    assert [v.tolist() for v in ends(rest)] == [[0, -3, 0], [1, 3, 3]]
    bits = bounds(lambda x: (x & 3) | 4, interval([2, 2], [2, 5], np.int8))
    assert [v.tolist() for v in ends(bits)] == [[6, -128], [6, 127]]
    assert [v.tolist() for v in ends(bounds(lambda x: ~x, interval(-2, 5, np.int32)))] == [-6, 1]


@pytest.mark.usefixtures("on_numpy")
def test_comparisons_and_logic() -> None:
    """What holds for all points is True, what holds for none is False, else it is both."""
    x, y = interval([0.0, 0.0, 2.0], [1.0, 1.0, 3.0]), enp.array([2.0, 0.5, 1.0])
    cases: list[tuple[Callable[..., Any], list[bool], list[bool]]] = [
        (operator.lt, [True, False, False], [True, True, False]),
        (operator.le, [True, False, False], [True, True, False]),
        (operator.gt, [False, False, True], [False, True, True]),
        (operator.ge, [False, False, True], [False, True, True]),
        (operator.eq, [False, False, False], [False, True, False]),
        (operator.ne, [True, False, True], [True, True, True]),
        (lambda x, y: ~(x < y), [False, False, True], [False, True, True]),
        (lambda x, y: (x < y) & (x > 0.25), [False, False, False], [True, True, False]),
        (lambda x, y: (x < y) | (x >= y), [True, False, True], [True, True, True]),
        (lambda x, y: (x < y) ^ (y > 0), [False, False, True], [False, True, True]),
    ]
    for function, low, high in cases:
        found = bounds(function, x, y)
        assert [v.tolist() for v in ends(found)] == [low, high]
    assert [v.tolist() for v in ends(bounds(enp.all, bounds(operator.lt, x, y)))] == [False, False]
    assert bool(bounds(lambda x: enp.isfinite(x) & ~enp.isnan(x), x).low.all())


@pytest.mark.usefixtures("on_numpy")
def test_choices() -> None:
    """An undecided choice is the hull of its cases; decided elements are theirs alone."""
    x = interval([-2.0, -1.0, 1.0], [-1.0, 3.0, 2.0])
    found = bounds(lambda x: enp.where(x > 0, x, -10.0), x)
    assert [v.tolist() for v in ends(found)] == [[-10.0, -10.0, 1.0], [-10.0, 3.0, 2.0]]
    clipped = bounds(lambda x: enp.clip(x, -1.5, 1.5), x)
    assert [v.tolist() for v in ends(clipped)] == [[-1.5, -1.0, 1.0], [-1.0, 1.5, 1.5]]
    guarded = bounds(lambda x: enp.where(x > 0, enp.log(enp.where(x > 0, x, 1.0)), 0.0), x)
    assert inside(guarded, [0.0, np.log(3), np.log(2)])
    cases = bounds(
        lambda i: lax.select_n(i, enp.array(1.0), enp.array(5.0), enp.array(2.0)), interval(0, 2, np.int32)
    )
    assert ends(cases) == (1.0, 5.0)


@pytest.mark.usefixtures("on_numpy")
def test_conversions() -> None:
    """Rounding to a narrower float widens; a float that no integer holds may become any."""
    third = interval(1 / 3, 1 / 3)
    half = bounds(lambda x: x.astype(enp.float16), third)
    assert float(half.low) < 1 / 3 < float(half.high)
    assert ends(bounds(lambda x: x.astype(int), interval(-1.7, 2.7))) == (-1, 2)
    assert ends(bounds(lambda x: x.astype(enp.int8), interval(1.0, 200.0))) == (-128, 127)
    assert ends(bounds(lambda x: x.astype(enp.uint8), interval(-1, 3, np.int32))) == (0, 255)
    assert ends(bounds(lambda x: x.astype(bool), interval([0, 1, -1], [0, 2, 1])))[1].tolist() == [
        False,
        True,
        True,
    ]
    assert ends(bounds(lambda x: (x > 0).astype(float), interval(-1.0, 1.0))) == (0.0, 1.0)


# Matrix products, reductions, indices

X = (f4([[-1, 0.5, 1], [0, -2, 1]]), f4([[2, 1, 1], [1, -1, 3]]))


def vertices(low: Data, high: Data) -> Data:
    """All corners of a box."""
    flags = np.array(list(itertools.product([0, 1], repeat=low.size))).reshape((-1, *low.shape))
    return np.where(flags == 1, high, low)


REDUCTIONS: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("sum", lambda x: enp.sum(x, 1), lambda v: v.sum(-1)),
    ("prod", lambda x: enp.prod(x, 1), lambda v: v.prod(-1)),
    ("prod all", enp.prod, lambda v: v.prod((-1, -2))),
    ("max", lambda x: enp.max(x, 0), lambda v: v.max(-2)),
    ("min", enp.min, lambda v: v.min((-1, -2))),
    ("cumsum", lambda x: enp.cumsum(x, 1), lambda v: v.cumsum(-1)),
    (
        "cumsum reverse",
        lambda x: lax.cumsum(x, 1, reverse=True),
        lambda v: v[..., ::-1].cumsum(-1)[..., ::-1],
    ),
    ("cumprod", lambda x: enp.cumprod(x, 1), lambda v: v.cumprod(-1)),
    (
        "cumprod reverse",
        lambda x: lax.cumprod(x, 1, reverse=True),
        lambda v: v[..., ::-1].cumprod(-1)[..., ::-1],
    ),
    ("cummax", lambda x: lax.cummax(x, 1), lambda v: np.maximum.accumulate(v, -1)),
    ("sort", lambda x: enp.sort(x, 1), lambda v: np.sort(v, -1)),
    (
        "matmul",
        lambda x: x @ enp.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.0]]),
        lambda v: v @ [[1, -2], [0.5, 3], [-1, 0]],
    ),
    ("matmul left", lambda x: enp.array([[1.0, -2.0]]) @ x, lambda v: np.array([[1.0, -2.0]]) @ v),
    ("two intervals", lambda x: x[0] @ x[1], lambda v: (v[..., 0, :] * v[..., 1, :]).sum(-1)),
    ("outer", lambda x: enp.outer(x[0], x[1]), lambda v: v[..., 0, :, None] * v[..., 1, None, :]),
]


@pytest.mark.parametrize(("name", "function", "truth"), REDUCTIONS, ids=[row[0] for row in REDUCTIONS])
@pytest.mark.usefixtures("on_numpy")
def test_reductions(name: str, function: Callable[..., Any], truth: Callable[..., Any]) -> None:
    """Functions that are linear in each element have their extremes at corners: bounds are exact."""
    found = bounds(function, interval(*X))
    true = truth(vertices(*X).astype("f8"))
    low, high = ends(found)
    assert inside(found, true)
    np.testing.assert_allclose(low, true.min(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(high, true.max(0), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("on_numpy")
def test_large_matrix_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Midpoints and radii hold too, and are at most one and a half times as wide."""
    rng = np.random.default_rng(3)
    mid, radius = rng.normal(size=(2, 2, 3, 4, 4))
    x = interval(mid[0] - np.abs(radius[0]), mid[0] + np.abs(radius[0]))
    y = interval(mid[1] - np.abs(radius[1]), mid[1] + np.abs(radius[1]))
    exact = bounds(enp.matmul, x, y)
    monkeypatch.setattr(combining, "FEW", 0)
    found = bounds(enp.matmul, x, y)
    assert np.all(np.asarray(found.width) <= 1.5 * np.asarray(exact.width) + 1e-4)
    for one in (found, exact):
        p, q = drawn(rng, *ends(x), 200), drawn(rng, *ends(y), 200)
        assert inside(one, p.astype("f8") @ q.astype("f8"))


def test_sums_know_their_rounding() -> None:
    """A long sum whose terms cancel is off by more than its own last place."""
    rng = np.random.default_rng(0)
    values = (rng.normal(size=2001) * 1e3).astype("f4")
    x = interval(values, values)
    found = bounds(enp.sum, x)
    assert inside(found, values.astype("f8").sum())
    assert inside(found, values[::-1].cumsum(dtype="f4")[-1])
    assert inside(bounds(lambda x: x @ x, x), (values.astype("f8") ** 2).sum())


@pytest.mark.usefixtures("on_numpy")
def test_places() -> None:
    """Where an index is not known, any element may stand there."""
    x = interval([0.0, 2.0, 5.0], [1.0, 6.0, 5.5])
    index = bounds(enp.argmax, x)
    assert ends(index) == (1, 2)
    assert ends(bounds(enp.argmin, x)) == (0, 0)
    picked = bounds(lambda x: x[enp.argmax(x)], x)
    assert ends(picked) == (0.0, 6.0)
    order = bounds(enp.argsort, interval([3.0, 1.0], [3.0, 1.0]))
    assert ends(order)[0].tolist() == [1, 0]
    assert ends(bounds(enp.argsort, x))[1].tolist() == [2, 2, 2]
    moving = bounds(
        lambda i: lax.dynamic_slice(enp.array([3.0, 1.0, 2.0]), (i,), (1,)), interval(0, 2, np.int32)
    )
    assert [v.tolist() for v in ends(moving)] == [[1.0], [3.0]]
    rows = bounds(lambda i: enp.array([[3.0, 1.0], [7.0, 8.0]])[:, i], interval(0, 1, np.int32))
    assert [v.tolist() for v in ends(rows)] == [[1.0, 7.0], [3.0, 8.0]]
    assert ends(bounds(enp.median, x))[0] <= 2.0


@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.usefixtures("on_numpy")
def test_updates(method: str, known: bool) -> None:
    """Scattered updates at indices that are known, twice the same, and that are not known."""
    a, b = f4([-1, 2, 5, 1]), f4([1, 6, 5.5, 1])
    u, v = f4([-1, 3]), f4([2, 4])
    indices = interval([1, 1], [1, 1] if known else [2, 3], np.int32)

    def function(x: Any, i: Any, u: Any) -> Any:
        return getattr(x.at[i], method)(u)

    index = indices.low if known else indices
    found = bounds(function, interval(a, b), index, interval(u, v))
    rng = np.random.default_rng(1)
    for _ in range(40):
        i = np.array([1, 1]) if known else np.array([rng.integers(1, 3), rng.integers(1, 4)])
        x, w = drawn(rng, a, b, 1)[0], drawn(rng, u, v, 1)[0]
        assert inside(found, function(enp.asarray(x), enp.asarray(i), enp.asarray(w)))
    assert np.isfinite(np.asarray(found.high)).all() or (method == "multiply" and not known)


@pytest.mark.usefixtures("on_numpy")
def test_block_updates() -> None:
    """A block whose start is not known may be anywhere."""
    x, block = interval([0.0, 1.0, 2.0], [0.5, 1.0, 2.0]), interval([7.0], [8.0])
    known = bounds(lambda x, u: lax.dynamic_update_slice(x, u, (1,)), x, block)
    assert [v.tolist() for v in ends(known)] == [[0.0, 7.0, 2.0], [0.5, 8.0, 2.0]]
    found = bounds(lambda x, u, i: lax.dynamic_update_slice(x, u, (i,)), x, block, interval(0, 1, np.int32))
    assert [v.tolist() for v in ends(found)] == [[0.0, 1.0, 2.0], [8.0, 8.0, 8.0]]


# Programs


def scanned(x: Any, y: Any) -> Any:
    return lax.scan(lambda c, row: (enp.sin(c * y) + row, c - row), 0.25, x)


def branched(x: Any, y: Any) -> Any:
    return lax.cond(x[0] > 0.0, lambda v: v * 2.0, lambda v: v * y, x)


def looped(x: Any, y: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, enp.tanh(s[1] * y + x)), (0, x))[1]


def counted(x: Any, y: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, v: v * 0.5 + x[i] * y, x)


def checkpointed(x: Any, y: Any) -> Any:
    return effx.checkpoint(lambda v: enp.exp(enp.sin(v) * y))(x)


def batched(x: Any, y: Any) -> Any:
    return effx.vmap(lambda v: lax.cond(v > 0.1, enp.cos, enp.exp, v) * y)(x)


def differentiated(x: Any, y: Any) -> Any:
    return effx.grad(lambda v: enp.sum(enp.tanh(v * y)))(x)


def activated(x: Any, y: Any) -> Any:
    return effx.nn.relu(x) + effx.nn.softplus(x * y) + effx.nn.gelu(x)


@effx.custom_jvp
def _doubled(x: Any) -> Any:
    return x + x


_doubled.defjvp(lambda primals, tangents: (_doubled(*primals), tangents[0] * 5.0))

PROGRAMS = [scanned, branched, looped, counted, checkpointed, batched, differentiated, activated]
LOW, HIGH = f4([-0.5, 0.1, 0.2]), f4([0.5, 0.4, 0.25])
WEIGHT = f4([0.5]), f4([1.5])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: str(f.__name__))
def test_programs(program: Callable[..., Any]) -> None:
    """Loops, branches, calls and transformations need nothing of the handler's; bounds hold inside and outside of jit."""
    x, y = interval(LOW, HIGH), interval(WEIGHT[0][0], WEIGHT[1][0])
    found = bounds(program, x, y)
    staged = effx.jit(lambda x, y: bounds(effx.jit(program), x, y))(x, y)
    for a, b in zip(effx.tree.leaves(found), effx.tree.leaves(staged), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)
    results = effx.tree.leaves(found, is_leaf=lambda v: isinstance(v, Interval))
    compiled = effx.jit(program)
    rng = np.random.default_rng(5)
    for p, q in zip(drawn(rng, LOW, HIGH, 60), drawn(rng, *WEIGHT, 60)[:, 0], strict=True):
        values = effx.tree.leaves(compiled(p, q))
        assert len(values) == len(results)
        for one, value in zip(results, values, strict=True):
            assert inside(one, value)
    assert all(np.all(np.isfinite(np.asarray(r.low))) for r in results)


def test_batches_of_bounds() -> None:
    """vmap over bounds is bounds of each."""

    def f(a: Any, b: Any) -> Any:
        return bounds(lambda x: scanned(x, 0.5)[0], Interval(a, b))

    lows, highs = np.stack([LOW, LOW - 1]), np.stack([HIGH, HIGH + 1])
    batch = effx.vmap(f)(lows, highs)
    for i in range(2):
        one = f(enp.asarray(lows[i]), enp.asarray(highs[i]))
        np.testing.assert_allclose(np.asarray(batch.low[i]), np.asarray(one.low), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(batch.high[i]), np.asarray(one.high), rtol=1e-5)


@pytest.mark.parametrize("end", ["low", "high"])
def test_derivatives_of_bounds(end: str) -> None:
    """The gradient of a bound by the ends of the interval is its slope."""

    def bound(ends: Any) -> Any:
        found = bounds(lambda x: scanned(x * 1.5, 0.7)[0] * enp.exp(x[0]), Interval(ends[0], ends[1]))
        return getattr(found, end)

    with effx.enable_x64(True):
        at = np.stack([LOW, HIGH]).astype("f8")
        gradient = np.asarray(effx.jit(effx.grad(bound))(at))
        step = 1e-6
        for i in np.ndindex(at.shape):
            shift = np.zeros_like(at)
            shift[i] = step
            slope = (float(bound(at + shift)) - float(bound(at - shift))) / (2 * step)
            np.testing.assert_allclose(gradient[i], slope, rtol=1e-5, atol=1e-7)


def newton(x: Any) -> Any:
    """The square root of x, to a tolerance."""
    step = lambda y: (y + x / y) / 2.0  # noqa: E731
    return lax.while_loop(lambda y: enp.abs(y * y - x) > 1e-3, step, 1.0 + x)


def collatz(n: Any) -> Any:
    """How many steps it takes to come to 1."""
    step = lambda s: (s[0] + 1, enp.where(s[1] % 2 == 0, s[1] // 2, 3 * s[1] + 1))  # noqa: E731
    return lax.while_loop(lambda s: s[1] > 1, step, (enp.zeros_like(n), n))


UNDECIDED: dict[str, tuple[Any, Any, Any, tuple[float, float]]] = {
    # Function, arguments from and to, how wide the result may be.
    "halving": (lambda x: lax.while_loop(lambda v: v > 0.5, lambda v: v * 0.5, x), 0.4, 2.0, (-1.0, 2.0)),
    "doubling": (lambda x: lax.while_loop(lambda v: v < 9.0, lambda v: v * 2.0, x), 1.0, 3.0, (1.0, INF)),
    "cosine": (lambda x: lax.while_loop(lambda v: v > 0.8, enp.cos, x), -2.0, 1.5, (-2.0, 1.5)),
    "square root": (newton, 0.5, 4.0, (-INF, INF)),
    "replicas": (
        lambda x: effx.vmap(lambda s: lax.while_loop(lambda v: v > s, lambda v: v - 0.25, x))(
            enp.arange(4.0)
        ),
        0.5,
        2.0,
        (-INF, 2.0),
    ),
    "two values": (
        lambda x: lax.while_loop(
            lambda s: s[0] > 0.1, lambda s: (s[0] * 0.5, enp.maximum(s[1], s[0])), (x, x)
        )[1],
        0.25,
        3.0,
        (0.0, 3.0),
    ),
    "a branch inside": (
        lambda x: lax.while_loop(
            lambda v: enp.abs(v) > 1.0, lambda v: lax.cond(v > 0, lambda v: -v / 2, lambda v: v / 4, v), x
        ),
        -3.0,
        8.0,
        (-16.0, 16.0),
    ),
    "steps": (lambda x: collatz(x)[0], 1, 30, (-(2**31), 2**31 - 1)),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_undecided_loops(name: str) -> None:
    """A loop that goes on for some points and ends for others gives what any number of iterations gives."""
    f, low, high, widest = UNDECIDED[name]
    dtype = np.int32 if isinstance(low, int) else np.float32
    found = bounds(f, interval(low, high, dtype))
    points = np.linspace(low, high, 30).astype(dtype)
    assert inside(found, np.stack([np.asarray(f(x)) for x in points]))
    assert np.all(ends(found)[0] >= widest[0])
    assert np.all(ends(found)[1] <= widest[1])
    jitted = effx.jit(lambda a, b: bounds(effx.jit(f), Interval(a, b)))(*ends(interval(low, high, dtype)))
    np.testing.assert_allclose(ends(jitted), ends(found), rtol=1e-5)
    many = effx.vmap(lambda a, b: bounds(f, Interval(a, b)))(*np.array([[low, low], [high, low]], dtype))
    np.testing.assert_allclose(many.high[0], found.high, rtol=1e-5)
    assert inside(effx.tree.map(lambda v: v[1], many), f(dtype(low)))


def test_rules_of_users_stay_with_the_function() -> None:
    """Bounds are of the function, whatever its derivative rule."""
    assert ends(bounds(_doubled, interval(1.0, 2.0)))[1] == pytest.approx(4.0)


def test_parallel_replicas() -> None:
    """Collectives: sums and extremes over replicas."""
    lows, highs = f4([0.0, 1.0]), f4([0.5, 3.0])

    def replica(a: Any, b: Any) -> Any:
        return bounds(lambda x: (lax.psum(x, "i"), lax.pmax(x, "i")), Interval(a, b))

    total, most = effx.pmap(replica, axis_name="i")(lows, highs)
    np.testing.assert_allclose([float(total.low[0]), float(total.high[1])], [1.0, 3.5], rtol=1e-5)
    assert (float(most.low[0]), float(most.high[0])) == (1.0, 3.0)
    outside = bounds(
        lambda x: effx.pmap(lambda v: v * lax.psum(v, "i"), axis_name="i")(x), interval(lows, highs)
    )
    assert inside(outside, f4([0.4, 2.0]) * np.float32(2.4))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0)])
@pytest.mark.usefixtures("on_numpy")
def test_small_shapes(shape: tuple[int, ...]) -> None:
    """Scalars, and arrays of one element or none."""
    x = interval(np.zeros(shape), np.ones(shape))
    for function in (
        enp.exp,
        enp.sum,
        enp.prod,
        enp.cumsum,
        lambda v: enp.sort(enp.ravel(v)),
        lambda v: enp.ravel(v) @ enp.ravel(v),
    ):
        found = bounds(function, x)
        want = function(enp.zeros(shape))
        assert found.low.shape == want.shape
        assert inside(found, want)


@pytest.mark.usefixtures("on_numpy")
def test_structures() -> None:
    """Intervals and plain arrays in pytrees, and results that depend on nothing."""
    found = bounds(lambda d, c: {"a": d["x"] * c, "b": c}, {"x": interval(1.0, 2.0)}, 3.0)
    assert inside(found["a"], [3.0, 6.0])
    assert ends(found["b"]) == (3.0, 3.0)
    both = hull(interval(0.0, 1.0), interval(3.0, 4.0))
    assert (float(both.low), float(both.high), float(both.width)) == (0.0, 4.0, 4.0)
    assert bool(both.contains(2.0))
    assert not bool(both.contains(5.0))


def test_errors() -> None:
    """What is no interval is refused in words."""
    cases: list[tuple[Interval, type[errors.EffxError], str]] = [
        (
            interval(2.0, 1.0),
            errors.TransformError,
            "bounds: low must not be above high in any element, and neither may be NaN",
        ),
        (
            interval(np.nan, 1.0),
            errors.TransformError,
            "bounds: low must not be above high in any element, and neither may be NaN",
        ),
        (interval([1.0], 1.0), errors.ShapeError, "bounds: shapes differ: low is f32[1], high is f32[]"),
        (
            Interval(enp.array(1), enp.array(1.0)),
            errors.DTypeError,
            "bounds: dtypes differ: low is i32[]~, high is f32[]~",
        ),
        (
            interval(1j, 1j, np.complex64),
            errors.DTypeError,
            "bounds: complex numbers have no order, got c64[]",
        ),
    ]
    for x, kind, message in cases:
        with pytest.raises(kind) as caught:
            bounds(enp.sin, x)
        assert caught.value.message == message
    for function, what in (
        (lambda x: x * 1j, "intervals: complex numbers have no order, got"),
        (lambda x: lax.complex(x, x), "intervals: complex numbers have no order, got"),
    ):
        with pytest.raises(errors.DTypeError) as caught:
            bounds(function, interval(1.0, 2.0))
        assert caught.value.message.startswith(what)


def convolved(x: Any, kernel: Any, **given: Any) -> Any:
    """A convolution along one axis, of two features."""
    spec = ("NCH", "OIH", "NCH")
    return lax.conv_general_dilated(x, kernel, (1,), [(1, 2)], dimension_numbers=spec, **given)


def windowed(combine: Callable[..., Any], start: float) -> Callable[[Any], Any]:
    return lambda x: lax.reduce_window(x, start, combine, (1, 1, 2), (1, 1, 2), [(0, 0), (0, 0), (1, 1)])


KERNEL = f4([[[1, -2], [0.5, 3]], [[-1, 0], [2, 1]], [[0, 1], [1, -1]]])
WINDOWS: dict[str, Callable[[Any], Any]] = {
    "convolution": lambda x: convolved(x, KERNEL),
    "dilated": lambda x: convolved(x, KERNEL, lhs_dilation=(2,), rhs_dilation=(2,)),
    "groups": lambda x: convolved(x, KERNEL[:2, :1], feature_group_count=2),
    "of a kernel": lambda x: convolved(np.swapaxes(KERNEL[:1], 0, 0), x),
    "sum": windowed(lax.add, 0.0),
    "max": windowed(lax.max, -INF),
    "min": windowed(lax.min, INF),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    """Bounds are those of all corners of the box: exact, up to rounding, with one operand in intervals."""
    f = WINDOWS[name]
    low = f4([[[-1, 0.5, 1], [0, -2, 1]]])
    high = low + f4([[[0.5, 1, 0], [2, 1, 0.25]]])
    values = np.asarray(effx.vmap(f)(enp.asarray(vertices(low, high))))
    found = bounds(f, interval(low, high))
    assert inside(found, values)
    assert values.size
    np.testing.assert_allclose(ends(found), (values.min(0), values.max(0)), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["max", "min"])
def test_gradients_through_windows(name: str) -> None:
    """Where the extreme element is known the gradient is; else it may be that of any in the window."""
    f = WINDOWS[name]
    low = f4([[[-1, 0.5, 1, 4], [0, -2, 1, 7]]])
    weights = f4([[[1, 2, 5], [3, -4, 6]]])
    slope = effx.grad(lambda x: enp.sum(f(x) * weights))
    known = bounds(slope, interval(low, low))
    np.testing.assert_allclose(ends(known), [slope(low)] * 2, rtol=1e-5, atol=1e-5)
    high = low + f4([[[0, 2, 0, 0], [0, 0, 0, 0]]])
    found = bounds(slope, interval(low, high))
    assert inside(found, np.asarray(effx.vmap(slope)(enp.asarray(vertices(low, high)))))
    assert bool(enp.all(enp.isfinite(found.width)))


def test_convolutions_of_two_intervals() -> None:
    """They hold the results of all corners, and are at most 1.5 times as wide; of integers they may be anything."""
    low, kernel = f4([[[-1, 0.5], [1, 0]]]), f4([[[1, -2], [0.5, 3]]])
    xs, ks = vertices(low, low + 1), vertices(kernel, kernel + f4(0.5))
    values = np.asarray(effx.vmap(lambda k: effx.vmap(lambda x: convolved(x, k))(enp.asarray(xs)))(ks))
    found = bounds(convolved, interval(low, low + 1), interval(kernel, kernel + f4(0.5)))
    assert inside(found, values)
    assert np.all(np.asarray(found.width) <= 1.5 * np.ptp(values, axis=(0, 1)) + 1e-4)
    whole = interval(np.zeros((1, 1, 2)), np.ones((1, 1, 2)), np.int32)
    known = bounds(lambda x: convolved(x, enp.array([[[2, -3]]])), whole)
    assert [v.ravel().tolist() for v in ends(known)] == [[-3, -3, 0, 0], [0, 2, 2, 0]]
    unknown = bounds(convolved, whole, whole)
    assert (int(unknown.low[0, 0, 0]), int(unknown.high[0, 0, 0])) == (-(2**31), 2**31 - 1)


def test_leaves_that_are_no_arrays_are_passed_on() -> None:
    """A model may hold its activation, as those of equinox do."""
    model = {"activation": enp.tanh, "weight": 2.0}
    found = bounds(lambda m, x: m["activation"](x * m["weight"]), model, interval(-0.5, 1.0))
    np.testing.assert_allclose(ends(found), np.tanh(f4([-1.0, 2.0])), rtol=1e-5)


# Random programs

STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y * 0.5,
    "mul": lambda x, y: enp.tanh(x) * y,
    "div": lambda x, y: x / (1.5 + enp.sin(y)),
    "sin": lambda x, y: enp.sin(x * 3.0) + y,
    "exp": lambda x, y: enp.exp(enp.tanh(x - y)),
    "square": lambda x, y: enp.tanh(x) ** 2 - enp.abs(y),
    "root": lambda x, y: enp.sqrt(enp.abs(x) + 0.1) * enp.cos(y),
    "max": lambda x, y: enp.maximum(x, y) - enp.minimum(y, 0.3),
    "where": lambda x, y: enp.where(x > y, x * 0.5, y - 1.0),
    "angle": lambda x, y: enp.arctan2(x, y),
    "sum": lambda x, y: enp.sum(x) + y * 0.1,
    "prod": lambda x, y: enp.prod(enp.tanh(x)) + y,
    "sort": lambda x, y: enp.sort(x)[::-1] + enp.roll(y, 1),
    "cumsum": lambda x, y: enp.cumsum(x) * 0.5 - y,
    "dot": lambda x, y: x * (enp.tanh(x) @ enp.tanh(y)),
    "pick": lambda x, y: y[enp.argmin(x)] + x,
    "put": lambda x, y: x.at[1].add(y[0]),
    "floor": lambda x, y: enp.floor(x * 2.0) * 0.25 + enp.mod(y, 0.75),
    "softmax": lambda x, y: effx.nn.softmax(enp.tanh(x)) * y,
    "scan": lambda x, y: lax.scan(lambda c, r: (enp.cos(c) + r, c * r), 0.5, x)[1] - y,
    "cond": lambda x, y: lax.cond(enp.sum(x) > 0.0, lambda a: a * 0.5, lambda a: enp.sin(a) + y, x),
    "while": lambda x, y: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, enp.sin(s[1]) + y), (0, x))[
        1
    ],
    "jit": lambda x, y: effx.jit(lambda a: enp.logaddexp(enp.tanh(a), y))(x),
    "vmap": lambda x, y: effx.vmap(lambda a, b: a / (1.0 + b * b))(x, y),
}
programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6
)
boxes = st.lists(
    st.tuples(st.floats(-2, 2, width=32), st.sampled_from([0.0, 1e-3, 0.1, 1.0])), min_size=6, max_size=6
)


@given(programs, boxes, st.integers(0, 2**20))
def test_containment(steps: list[tuple[str, int, int]], box: list[tuple[float, float]], seed: int) -> None:
    """For random programs, boxes and points: results of f are between its bounds."""

    def function(x: Any, y: Any) -> Any:
        values = [x, y]
        for name, i, j in steps:
            values.append(STEPS[name](values[i % len(values)], values[j % len(values)]))
        return values[-1]

    low = f4([a for a, _ in box]).reshape((2, 3))
    high = low + f4([b for _, b in box]).reshape((2, 3))
    found = bounds(function, interval(low[0], high[0]), interval(low[1], high[1]))
    points = drawn(np.random.default_rng(seed), low, high, 40)
    values = effx.vmap(function)(points[:, 0], points[:, 1])
    assert inside(found, values)
    assert not np.isnan(np.asarray(found.low)).any()


def test_the_handler_is_a_value() -> None:
    """Handlers are equal and hash alike, so that programs made by them are cached."""
    assert Intervals() == Intervals()
    assert hash(Intervals()) == hash(Intervals())
    assert "lift" in vars(intervals.Intervals)
