"""The handlers of docs/cookbook.md against NumPy, in loops, branches, batches and gradients, at several shapes.

Never: repeats code of the page, which each test takes from there.
"""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import NoRuleError, TransformError
from effx.handling import Program, Var, ops, places

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "cookbook.md"
EPS = 2.0**-24
"""Half the distance from 1 to the next float32."""

Numbers = NDArray[Any]
Function = Callable[[Any], Any]
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2, 2))
FACTORS = (0.5, 2.0, 0.5)

shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


@cache
def load(*sections: str) -> Any:
    """The names that sections of the page define, of which each one may use those before it."""
    texts = PAGE.read_text(encoding="utf-8").split("\n## ")
    by_title = {text.partition("\n")[0]: text for text in texts[1:]}
    page = ModuleType("cookbook")
    for text in (texts[0], *[by_title[section] for section in sections]):
        for example in doctest.DocTestParser().get_examples(text):
            exec(compile(example.source, PAGE.name, "exec"), page.__dict__)
    return page


def draw(shape: tuple[int, ...]) -> Numbers:
    """Numbers between 0.2 and 1.2, the same ones for each shape."""
    return np.random.RandomState(len(shape)).uniform(0.2, 1.2, shape).astype(np.float32)


def agree(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """Asserts that shapes are equal, and numbers to a tolerance."""
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


# Programs: of a function f, with effx's control flow and in plain Python.


def scan(f: Function) -> Function:
    return lambda x: lax.scan(lambda c, k: (f(c) * k, None), x, enp.array(FACTORS, enp.float32))[0]


def scan_in_python(f: Function) -> Function:
    def run(x: Any) -> Any:
        for factor in FACTORS:
            x = f(x) * factor
        return x

    return run


def repeat_three_times(f: Function) -> Function:
    return lambda x: f(f(f(x)))


def choose(taken: bool) -> Callable[[Function], Function]:
    """A branch on a value: f, or twice the argument."""
    return lambda f: lambda x: lax.cond((x.sum() > -1e3) == taken, f, lambda x: 2.0 * x, x)


def count_to_three(f: Function) -> Function:
    return lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]


def count_to_three_of_four(f: Function) -> Function:
    return lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x), max_steps=4)[1]


def batch(f: Function) -> Function:
    return lambda x: effx.vmap(f)(enp.stack([x, 2.0 * x]))[1]


PROGRAMS: dict[str, tuple[Callable[[Function], Function], Callable[[Function], Function]]] = {
    "straight": (lambda f: f, lambda f: f),
    "jit": (lambda f: effx.jit(f), lambda f: f),
    "checkpoint": (lambda f: effx.checkpoint(f), lambda f: f),
    "scan": (scan, scan_in_python),
    "fori_loop": (lambda f: lambda x: lax.fori_loop(0, 3, lambda i, y: f(y), x), repeat_three_times),
    "cond, taken": (choose(True), lambda f: f),
    "cond, not taken": (choose(False), lambda f: lambda x: 2.0 * x),
    "while_loop": (count_to_three, repeat_three_times),
    "vmap": (batch, lambda f: lambda x: f(2.0 * x)),
    "jit of scan of jit": (lambda f: effx.jit(scan(effx.jit(f))), scan_in_python),
}

DIFFERENTIABLE = PROGRAMS | {"while_loop": (count_to_three_of_four, repeat_three_times)}
"""In reverse mode too, for which a while loop needs a bound."""
cases = pytest.mark.parametrize(
    ("program", "shape"),
    [(program, (2, 2)) for program in PROGRAMS]
    + [(program, shape) for program in ("scan", "cond, taken", "vmap") for shape in SHAPES[:-1]],
    ids=str,
)
few_cases = pytest.mark.parametrize(
    ("program", "shape"),
    [(program, (2, 2)) for program in ("straight", "cond, taken", "while_loop", "jit of scan of jit")]
    + [("scan", ()), ("scan", (0,)), ("vmap", (1,))],
    ids=str,
)


# Contexts: a transformed function inside of something, with its own result.


def run_in_while_loop(g: Function) -> Function:
    def run(x: Any) -> Any:
        start = effx.tree.map(lambda t: enp.zeros(t.shape, t.dtype), effx.eval_shape(g, x))
        return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, g(x)), (0, start))[1]

    return run


def run_in_scan(g: Function) -> Function:
    def run(x: Any) -> Any:
        results = lax.scan(lambda c, _: (c, g(c)), x, None, length=2)[1]
        return effx.tree.map(lambda y: y[1], results)

    return run


def run_in_vmap(g: Function) -> Function:
    def run(x: Any) -> Any:
        results = effx.vmap(g)(effx.tree.map(lambda leaf: enp.stack([leaf * 0.5, leaf]), x))
        return effx.tree.map(lambda y: y[1], results)

    return run


CONTEXTS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda g: g,
    "jit": lambda g: effx.jit(g),
    "vmap": run_in_vmap,
    "scan": run_in_scan,
    "cond": lambda g: lambda x: lax.cond(enp.array(True), g, g, x),
    "while_loop": run_in_while_loop,
}

contexts = pytest.mark.parametrize("context", CONTEXTS)


def mix(m: Any, x: Any) -> Any:
    """A smooth function in which every element depends on all, of NumPy's or effx's arrays."""
    return m.sin(x) * (1.0 + 0.25 * x.sum()) - m.exp(-x) * x


def mix_arrays(x: Array) -> Any:
    return mix(enp, x)


def mix_numbers(x: Numbers) -> Any:
    return mix(np, x)


def differentiate(f: Function, x: Numbers) -> Numbers:
    """The Jacobian by complex steps, f64[*result, *x]: exact to rounding, by NumPy alone."""
    columns = []
    for index in np.ndindex(x.shape):
        step = np.zeros(x.shape, complex)
        step[index] = 1e-30j
        columns.append(np.asarray(f(x + step)).imag / 1e-30)
    shape = np.shape(f(x.astype(complex)))
    return np.moveaxis(np.array(columns).reshape((x.size, *shape)), 0, -1).reshape((*shape, *x.shape))


# Delta method


def covariance_of(size: int) -> Numbers:
    root = np.random.RandomState(1).normal(size=(size, size))
    return 0.01 * (root @ root.T + np.eye(size))


def propagate_in_numpy(f: Function, x: Numbers, covariance: Numbers) -> tuple[Numbers, Numbers]:
    jacobian, shape = differentiate(f, x.astype(float)), np.shape(f(x.astype(float)))
    matrix = jacobian.reshape(math.prod(shape), x.size)
    return np.asarray(f(x.astype(float))), (matrix @ covariance @ matrix.T).reshape((*shape, *shape))


@cases
def test_delta_method_enters_programs(program: str, shape: tuple[int, ...]) -> None:
    """Mean and covariance of a program's result are those of its Jacobian."""
    make, make_in_python = PROGRAMS[program]
    x, covariance = draw(shape), covariance_of(math.prod(shape))
    found = load("Delta method").propagate(make(mix_arrays), enp.array(x), enp.array(covariance, enp.float32))
    for part, expected in zip(
        found, propagate_in_numpy(make_in_python(mix_numbers), x, covariance), strict=True
    ):
        agree(part, expected, 1e-3)


@contexts
@pytest.mark.parametrize("shape", [(0,), (3,)], ids=str)
def test_delta_method_works_inside(context: str, shape: tuple[int, ...]) -> None:
    """Propagation inside of loops, branches and batches gives what it gives alone."""
    x, covariance = draw(shape), enp.array(covariance_of(math.prod(shape)), enp.float32)
    propagate = load("Delta method").propagate
    found = CONTEXTS[context](lambda x: propagate(scan(mix_arrays), x, covariance))(enp.array(x))
    expected = propagate_in_numpy(scan_in_python(mix_numbers), x, np.asarray(covariance))
    for part, other in zip(found, expected, strict=True):
        agree(part, other, 1e-3)


@pytest.mark.parametrize("length", [0, 1, 3])
def test_delta_method_scans_rows(length: int) -> None:
    """A scan over uncertain rows has uncertain slices, and stacks its uncertain results."""
    x, covariance = draw((length, 2)), covariance_of(2 * length)

    def cumulate(x: Array) -> Any:
        return lax.scan(lambda c, row: (c + row * c, c * row), enp.ones(2), x)[1]

    def cumulate_in_numpy(x: Numbers) -> Numbers:
        carry, rows = np.ones(2, x.dtype), []
        for row in x:
            rows.append(carry * row)
            carry = carry + row * carry
        return np.array(rows).reshape(x.shape)

    propagate = load("Delta method").propagate
    found = propagate(cumulate, enp.array(x), enp.array(covariance, enp.float32))
    for part, expected in zip(found, propagate_in_numpy(cumulate_in_numpy, x, covariance), strict=True):
        agree(part, expected, 1e-3)


def test_delta_method_of_indices_and_complex_numbers() -> None:
    """Integers carry no deviations; complex numbers do."""

    def f(x: Array) -> Array:
        return x[enp.argsort(x)] * enp.fft.ifft(enp.fft.fft(x) * (1.0 + 2.0j)).imag

    x = np.array([0.5, -1.0, 2.0], np.float32)
    mean, covariance = load("Delta method").propagate(
        f, enp.array(x), enp.array(0.01 * np.eye(3), enp.float32)
    )
    order = np.argsort(x)
    jacobian = np.diag(2.0 * x[order])
    jacobian[np.arange(3), order] += 2.0 * x
    agree(mean, 2.0 * x * x[order])
    agree(covariance, 0.01 * jacobian @ jacobian.T)


@pytest.mark.parametrize("program", ["straight", "scan", "cond, taken"])
def test_delta_method_is_differentiated(program: str) -> None:
    """A gradient goes through the method: the variance of a linear function is linear in the covariance."""
    weights = enp.array([1.0, -2.0, 3.0])
    linear = PROGRAMS[program][0](lambda x: x * 2.0)
    factor = float(np.asarray(PROGRAMS[program][1](lambda x: x * 2.0)(1.0)))
    propagate = load("Delta method").propagate
    slope = effx.grad(lambda c: propagate(lambda x: linear(x) @ weights, enp.ones(3), c)[1])(enp.eye(3))
    # A Cholesky factor's derivative is that of the symmetric part.
    agree(slope + slope.T, 2.0 * factor**2 * np.outer(weights, weights))


# Compensated sums


def draw_terms(shape: tuple[int, ...]) -> Numbers:
    """Terms of very different size and sign."""
    random = np.random.RandomState(2)
    return (random.normal(size=shape) * 10.0 ** random.randint(-6, 7, shape)).astype(np.float32)


def bound_sum_error(x: Numbers) -> float:
    """Each of the additions errs by a few squares of float32's rounding, relative to what was added up so far."""
    return 8.0 * (x.size + 1) * EPS**2 * float(np.abs(x.astype(float)).sum()) + 1e-44


def check_sum(found: Any, x: Numbers, expected: Any) -> None:
    assert found.high.shape == np.shape(expected)
    total = np.asarray(found.high, float) + np.asarray(found.low, float)
    assert np.all(np.abs(total - expected) <= bound_sum_error(x))


def put_zero_behind(x: Array) -> Array:
    """The elements, with one that can be indexed where there are none."""
    return enp.concatenate([x.ravel(), enp.zeros(1)])


SUMS: dict[str, Function] = {
    "sum": lambda x: x.sum(),
    "jit": effx.jit(lambda x: x.sum()),
    "scan": lambda x: lax.scan(lambda total, term: (total + term, None), enp.float32(0), x.ravel())[0],
    "scan backward": lambda x: lax.scan(
        lambda s, term: (s - term, None), enp.float32(0), -x.ravel(), reverse=True
    )[0],
    "fori_loop": lambda x: lax.fori_loop(0, x.size, lambda i, s: s + put_zero_behind(x)[i], enp.float32(0)),
    "while_loop": lambda x: lax.while_loop(
        lambda c: c[0] < x.size, lambda c: (c[0] + 1, c[1] + put_zero_behind(x)[c[0]]), (0, enp.float32(0))
    )[1],
    "cond": lambda x: lax.cond(x.size >= 0, lambda x: x.sum(), lambda x: -x.sum(), x),
    "checkpoint": effx.checkpoint(lambda x: x.sum()),
    "vmap": lambda x: effx.vmap(lambda row: row.sum())(enp.stack([x, x]))[1],
}
TERMS = pytest.mark.parametrize("shape", [(), (0,), (1,), (60,), (2, 0, 3), (3, 20)], ids=str)


@TERMS
@pytest.mark.parametrize("name", SUMS)
def test_sums_are_compensated(name: str, shape: tuple[int, ...]) -> None:
    """A sum has about 48 bits however it is written."""
    x = draw_terms(shape)
    check_sum(load("Compensated sums").sum_exactly(SUMS[name], enp.array(x)), x, math.fsum(x.ravel()))


@contexts
@pytest.mark.parametrize("shape", [(0,), (1,), (60,)], ids=str)
def test_compensation_works_inside(context: str, shape: tuple[int, ...]) -> None:
    """The handler inside of loops, branches and batches gives the same sum."""
    x = draw_terms(shape)
    run = CONTEXTS[context](lambda x: load("Compensated sums").sum_exactly(SUMS["scan"], x))
    check_sum(run(enp.array(x)), x, math.fsum(x))


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (2, 0), (0, 1, 2)], ids=str)
def test_compensated_sums_along_axes(axis: Any) -> None:
    """Sums along axes."""
    x = draw_terms((3, 4, 5))
    found = load("Compensated sums").sum_exactly(lambda x: x.sum(axis), enp.array(x))
    check_sum(found, x, x.astype(float).sum(axis))


def test_plain_sums_miss_the_bound() -> None:
    """Without the handler a sum errs by more than the tests allow."""
    x = draw_terms((60,))
    assert abs(float(SUMS["scan"](enp.array(x))) - math.fsum(x)) > 100.0 * bound_sum_error(x)


def test_compensated_sums_of_infinities() -> None:
    """What overflows or is infinite stays so, and is not NaN."""
    sum_exactly = load("Compensated sums").sum_exactly
    for terms in ([math.inf, 1.0], [3e38, 3e38, 1.0], [-math.inf, 3.0]):
        found = sum_exactly(lambda x: x.sum(), enp.array(terms))
        assert float(found.high) == math.copysign(math.inf, terms[0])
        assert float(found.low) == 0.0


def test_compensated_sums_of_moved_terms() -> None:
    """What is lost moves with its value, past indices that lose nothing; integers keep theirs."""
    x, sum_exactly = draw_terms((6, 4)), load("Compensated sums").sum_exactly
    found = sum_exactly(lambda x: x.sum(0)[enp.array([2, 0])], enp.array(x))
    check_sum(found, x, x.astype(float).sum(0)[[2, 0]])
    counts = sum_exactly(lambda n: n[::-1] + n, enp.arange(3))
    assert counts.high.tolist() == [2, 2, 2]
    assert counts.low.tolist() == [0, 0, 0]


def test_compensated_sums_are_differentiated() -> None:
    """The gradient is the sum's, outside and inside."""
    sum_exactly = load("Compensated sums").sum_exactly
    outside = effx.grad(lambda x: sum_exactly(lambda x: (x * x).sum(), x).high)(enp.array([1.0, 2.0]))
    inside = sum_exactly(effx.grad(lambda x: (x * x).sum()), enp.array([1.0, 2.0]))
    assert outside.tolist() == inside.high.tolist() == [2.0, 4.0]


# Taint


def add_two(x: Array, y: Array, z: Array) -> Array:
    return x + y


TAINTED: dict[str, tuple[Callable[..., Any], str]] = {
    "one": (lambda x, y, z: enp.sin(x) * 2.0, "x"),
    "two": (lambda x, y, z: enp.sin(x) * z, "xz"),
    "none": (lambda x, y, z: enp.ones(3), ""),
    "jit": (effx.jit(add_two), "xy"),
    "where": (lambda x, y, z: enp.where(x > 0, y, 1.0), "xy"),
    "cond": (lambda x, y, z: lax.cond(x.sum() > 0, lambda: y, lambda: y * 2.0), "xy"),
    "switch": (lambda x, y, z: lax.switch(enp.int32(z.sum()), [lambda: y, lambda: y * 2.0]), "yz"),
    "plain cond": (lambda x, y, z: lax.cond(enp.array(True), lambda: y, lambda: z), "yz"),
    "scan": (lambda x, y, z: lax.scan(lambda c, k: (c * k, None), x, enp.stack([y, y]))[0], "xy"),
    "moved in a loop": (
        lambda x, y, z: lax.fori_loop(0, 5, lambda i, c: (c[1], c[2], c[0]), (x, y, z))[0],
        "xyz",
    ),
    "apart in a loop": (
        lambda x, y, z: lax.fori_loop(0, 5, lambda i, c: (c[0] * z, c[1] * y), (x, y))[0],
        "xz",
    ),
    "while_loop": (lambda x, y, z: lax.while_loop(lambda c: c.sum() < y.sum(), lambda c: c + 1.0, x), "xy"),
    "while_loop with a counter": (
        lambda x, y, z: lax.while_loop(lambda c: c[0] < z.sum(), lambda c: (c[0] + 1, c[1] * y), (0, x))[1],
        "xyz",
    ),
    "vmap": (lambda x, y, z: effx.vmap(lambda a: a * y)(enp.stack([x, x])), "xy"),
    "grad": (lambda x, y, z: effx.grad(lambda a: (a * y + z).sum())(x), "y"),
    "index": (lambda x, y, z: x.ravel()[:0] if not x.size else x.ravel()[enp.argmax(y)], "xy"),
}


@pytest.mark.parametrize(
    ("name", "shape"), [(name, (2, 2)) for name in TAINTED] + [("while_loop", ()), ("index", (1,))], ids=str
)
def test_taint_covers_what_changes(name: str, shape: tuple[int, ...]) -> None:
    """The names are those expected, and an input whose change is seen in a result is among them."""
    f, expected = TAINTED[name]
    values = {key: enp.array(1.0 + i + draw(shape)) for i, key in enumerate("xyz")}
    find_names = load("Taint").find_names
    for program in (f, effx.jit(f)):
        assert find_names(program, **values) == sorted(expected)
    for key in "xyz":
        for scale in (-1.0, 3.0):
            changed = f(**(values | {key: values[key] * scale}))
            assert key in expected or np.array_equal(changed, f(**values))


@contexts
def test_taint_works_inside(context: str) -> None:
    """Names do not depend on what is around the handler, and values are the function's."""
    page, found = load("Taint"), []

    def run(x: Array) -> Any:
        y = page.Taint().run(
            TAINTED["while_loop with a counter"][0], page.Tainted(x, frozenset("x")), x * 2.0, x * 3.0
        )
        found.append(y.names)
        return y.value

    x = draw((3,))
    agree(CONTEXTS[context](run)(enp.array(x)), x * (2.0 * x) ** math.ceil(3.0 * float(x.sum())), 1e-3)
    assert set(found) == {frozenset("x")}


def test_taint_of_nothing() -> None:
    """Arrays without elements carry names too."""
    nothing = enp.ones((0, 2))
    assert load("Taint").find_names(
        lambda x, y: (x.sum(), enp.concatenate([x, y])), x=nothing, y=nothing
    ) == (
        ["x"],
        ["x", "y"],
    )


# Stochastic rounding

# Numbers of bfloat16, so that products are exact in float32, and compilers can round nothing else.
SCALE, SHIFT = 1.2578125, 0.34765625


def walk(x: Any) -> Any:
    return x * SCALE + SHIFT


def is_bfloat16(x: Any) -> bool:
    return not np.any(np.asarray(x, np.float32).view(np.uint32) & 0xFFFF)


@few_cases
def test_rounding_is_unbiased(program: str, shape: tuple[int, ...]) -> None:
    """Results are numbers of bfloat16, and their mean over keys is that without rounding, for a linear function."""
    make, make_in_python = PROGRAMS[program]
    x = np.asarray(enp.array(draw(shape)).astype(enp.bfloat16).astype(enp.float32))
    run, number = load("Stochastic rounding").in_bfloat16(make(walk)), 2000
    keys = effx.random.split(effx.random.key(3), number)
    results = np.asarray(effx.jit(effx.vmap(run, in_axes=(0, None)))(keys, enp.array(x)), float)
    expected = make_in_python(walk)(x.astype(float))
    assert results.shape[1:] == np.shape(expected)
    assert is_bfloat16(results)
    # At most ten roundings, each of a deviation of at most 2^-8 of values below 8, doubled by what follows: six deviations
    # of the mean. The sizes of all programs' values are below 8.
    deviation = math.sqrt(10) * 8.0 * 2.0**-8 * 2.0
    assert np.all(np.abs(results - expected) < 10 * 2.0**-7 * 8.0 * 2.0)
    assert np.all(np.abs(results.mean(0) - expected) < 6.0 * deviation / math.sqrt(number))


@pytest.mark.parametrize("value", [1.0 + 2.0**-9, -3.01, 1e-30, 7.77e20])
def test_one_rounding_is_as_often_up_as_it_is_near(value: float) -> None:
    """A number is rounded to one of its two neighbours in bfloat16, by their distances."""
    number = 4000
    keys = effx.random.split(effx.random.key(4), number)
    run = load("Stochastic rounding").in_bfloat16(lambda x: x + 0.0)
    results = np.asarray(effx.vmap(run, in_axes=(0, None))(keys, enp.float32(value)), float)
    exact = float(np.float32(value))
    low, high = sorted(set(results))
    assert low < exact < high
    assert high - low <= abs(exact) * 2.0**-7
    share = (exact - low) / (high - low)
    assert abs((results == high).mean() - share) < 6.0 * math.sqrt(share * (1.0 - share) / number)


@pytest.mark.parametrize("program", ["straight", "jit", "scan"])
def test_roundings_are_independent(program: str) -> None:
    """Of two roundings of one number both go up or both down as often as they do by chance."""

    def round_twice(x: Array) -> Any:
        if program == "scan":
            return lax.scan(lambda c, _: (c, x + 2.0**-9), 0.0, None, length=2)[1]
        return enp.stack([x + 2.0**-9, x + 2.0**-9])

    number = 4000
    run = load("Stochastic rounding").in_bfloat16(effx.jit(round_twice) if program == "jit" else round_twice)
    keys = effx.random.split(effx.random.key(9), number)
    found = np.asarray(effx.jit(effx.vmap(run, in_axes=(0, None)))(keys, enp.float32(1.0)))
    # The neighbours are 1 and 1 + 2^-7: one time in four up.
    alike, chance = float((found[:, 0] == found[:, 1]).mean()), 0.75**2 + 0.25**2
    assert abs(alike - chance) < 6.0 * math.sqrt(chance * (1.0 - chance) / number)


@contexts
@pytest.mark.parametrize("shape", [(3,)], ids=str)
def test_rounding_works_inside(context: str, shape: tuple[int, ...]) -> None:
    """With one key the handler gives one result, inside of loops, branches and compiled code too."""
    x, key = enp.array(draw(shape)).astype(enp.bfloat16).astype(enp.float32), effx.random.key(5)
    run = load("Stochastic rounding").in_bfloat16(scan(walk))
    found = CONTEXTS[context](lambda x: run(key, x))(x)
    if "vmap" in context:  # the bits of a batch are others
        assert is_bfloat16(found)
    else:
        assert np.array_equal(found, run(key, x))


@pytest.mark.parametrize("program", ["jit", "scan", "cond, taken", "while_loop"])
def test_rounding_passes_gradients(program: str) -> None:
    """The gradient of a linear function does not see that it was rounded; one inside has rounded results."""
    make, make_in_python = DIFFERENTIABLE[program]
    page, x = load("Stochastic rounding"), draw((3,))
    slope = np.diagonal(differentiate(make_in_python(lambda x: x * SCALE + SHIFT), x.astype(float)))
    f = make(walk)
    found = effx.grad(lambda x: page.in_bfloat16(f)(effx.random.key(6), x).sum())(enp.array(x))
    agree(found, slope, 1e-6)
    inside = page.in_bfloat16(effx.grad(lambda x: f(x).sum()))(effx.random.key(6), enp.array(x))
    assert is_bfloat16(inside)
    agree(inside, slope, 8 * 2.0**-7 * 4.0)


def test_rounding_leaves_what_is_not_finite() -> None:
    """Infinities and NaN stay; integers and bools are not touched."""
    run = load("Stochastic rounding").in_bfloat16(lambda x, n: (x * 1.0, n * 3, x > 1.0))
    x, n, b = run(effx.random.key(7), enp.array([math.inf, -math.inf, math.nan, 0.0]), enp.arange(4))
    assert np.array_equal(x, [math.inf, -math.inf, math.nan, 0.0], equal_nan=True)
    assert n.tolist() == [0, 3, 6, 9]
    assert b.tolist() == [True, False, False, False]


# Memo


def find_repeated(program: Program) -> Iterator[str]:
    """Operations of a program, or of one in it, that have the same operands as an earlier one."""
    seen = set()
    for equation in program.equations:
        operands = tuple([x if isinstance(x, Var) else (x.type, str(x)) for x in equation.inputs])
        if (equation.op, operands) in seen:
            yield equation.op.name
        seen.add((equation.op, operands))
        for inner in equation.op.programs if isinstance(equation.op, ops.HigherOrder) else ():
            yield from find_repeated(inner)


def repeat_terms(x: Any) -> Any:
    return enp.sin(x) * 2.0 + enp.sin(x) * 2.0 - enp.sin(x) * 3.0


def repeat_terms_in_numpy(x: Numbers) -> Numbers:
    return np.sin(x)


@cases
def test_memo_performs_nothing_twice(program: str, shape: tuple[int, ...]) -> None:
    """Values are the function's, and no program has an operation twice on the same operands."""
    make, make_in_python = PROGRAMS[program]
    f, x = make(repeat_terms), draw(shape)
    memoized = load("Memo").memoize(f)
    agree(memoized(enp.array(x)), make_in_python(repeat_terms_in_numpy)(x.astype(float)))
    plain, staged = effx.make_jaxpr(f)(enp.array(x)), effx.make_jaxpr(memoized)(enp.array(x))
    assert list(find_repeated(plain))
    assert not list(find_repeated(staged))


@contexts
@pytest.mark.parametrize("shape", [(0,), (3,)], ids=str)
def test_memo_works_inside(context: str, shape: tuple[int, ...]) -> None:
    """Values are the function's inside of loops, branches and batches."""
    x = draw(shape)
    run = CONTEXTS[context](load("Memo").memoize(scan(repeat_terms)))
    agree(run(enp.array(x)), scan_in_python(repeat_terms_in_numpy)(x.astype(float)))


@pytest.mark.parametrize("program", ["straight", "jit", "scan", "cond, taken", "vmap", "checkpoint"])
def test_memo_of_gradients(program: str) -> None:
    """Gradients inside and outside are the function's; the one inside repeats nothing."""
    make, make_in_python = PROGRAMS[program]
    memoize, f, x = load("Memo").memoize, make(repeat_terms), draw((3,))
    expected = np.diagonal(differentiate(make_in_python(repeat_terms_in_numpy), x.astype(float)))
    gradient = effx.grad(lambda x: f(x).sum())
    agree(memoize(gradient)(enp.array(x)), expected)
    agree(effx.grad(lambda x: memoize(f)(x).sum())(enp.array(x)), expected)
    assert not list(find_repeated(effx.make_jaxpr(memoize(gradient))(enp.array(x))))


def test_memo_tells_operands_apart() -> None:
    """Numbers count by value, dtype and sign of zero, arrays by what they are."""
    memoize = load("Memo").memoize
    y = memoize(lambda x: (x * 2.0, x * 3.0, x * 2, x / 0.0, x / -0.0))(enp.array(3.0))
    assert [float(v) for v in y] == [6.0, 9.0, 6.0, math.inf, -math.inf]
    # Arrays that nothing else keeps: a freed one's identity is soon another's.
    fresh = memoize(lambda: [float(enp.negative(np.full(2, i, np.float32))[0]) for i in range(50)])()
    assert fresh == [-float(i) for i in range(50)]
    many = memoize(lambda x: sum([enp.sin(x + i) for i in range(500)]))(enp.array(1.0))
    agree(many, np.sin(1.0 + np.arange(500.0)).sum(), 1e-3)


def test_memo_keeps_effects() -> None:
    """What has effects happens as often as it is written: reads of a reference, and what is emitted."""
    page, asking = load("Memo"), load("Ask and emit")

    def read_twice(x: Array) -> Array:
        reference = effx.new_ref(x)
        before = reference[...]
        reference[...] = before * 2.0
        return before + reference[...]

    assert page.memoize(read_twice)(enp.array(1.0)) == 3.0
    twice = page.memoize(effx.jit(lambda x: read_twice(x) + read_twice(x)))
    assert twice(enp.array(1.0)) == 6.0
    emit = page.memoize(lambda x: asking.emit("a", x) + asking.emit("b", x) + asking.emit("b", x))
    with pytest.raises(TransformError, match="two values are collected under the name 'b'"):
        asking.collect(emit)(enp.array(1.0))


# Unroller


def count_loops(f: Function, *args: Any) -> int:
    return len([place for place in places(effx.make_jaxpr(f)(*args)) if isinstance(place.op, ops.Loop)])


UNROLLED = ["jit", "scan", "fori_loop", "cond, taken", "vmap", "jit of scan of jit"]


@pytest.mark.parametrize("shape", [(0,), (2, 2)], ids=str)
@pytest.mark.parametrize("inner", ["scan", "cond, taken"])
@pytest.mark.parametrize("program", UNROLLED)
def test_unrolled_programs_have_no_loops(program: str, inner: str, shape: tuple[int, ...]) -> None:
    """Values are the function's, nested loops and those in branches too, and no loop is left."""
    (make, make_in_python), (make_inner, make_inner_in_python) = PROGRAMS[program], PROGRAMS[inner]
    x, unroll = draw(shape), load("Unroller").unroll
    f = make(make_inner(mix_arrays))
    assert not count_loops(unroll(f), enp.array(x))
    agree(unroll(f)(enp.array(x)), make_in_python(make_inner_in_python(mix_numbers))(x.astype(float)), 1e-3)


@contexts
@pytest.mark.parametrize("shape", [(0,), (3,)], ids=str)
def test_unroller_works_inside(context: str, shape: tuple[int, ...]) -> None:
    """Values are the function's inside of loops, branches and batches."""
    x = draw(shape)
    found = CONTEXTS[context](load("Unroller").unroll(scan(mix_arrays)))(enp.array(x))
    agree(found, scan_in_python(mix_numbers)(x.astype(float)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_unrolled_scans_stack_results(length: int, reverse: bool) -> None:
    """Results of iterations are stacked in the order of the inputs, of no iterations too."""
    xs = np.arange(1.0, 1.0 + 2 * length, dtype=np.float32).reshape(length, 2)

    def cumulate(xs: Array) -> Any:
        return lax.scan(
            lambda c, x: (c + x, {"sum": c + x, "first": x[0] > 2.0}), enp.zeros(2), xs, reverse=reverse
        )

    carry, found = load("Unroller").unroll(cumulate)(enp.array(xs))
    sums = np.cumsum(xs[::-1], 0)[::-1] if reverse else np.cumsum(xs, 0)
    agree(carry, xs.sum(0))
    agree(found["sum"], sums)
    assert found["first"].dtype == bool
    assert np.array_equal(found["first"], xs[:, 0] > 2.0)


@pytest.mark.parametrize("program", ["scan", "fori_loop", "jit of scan of jit"])
def test_unroller_of_gradients(program: str) -> None:
    """Gradients inside and outside are the function's; the one inside has no loops."""
    make, make_in_python = PROGRAMS[program]
    unroll, f, x = load("Unroller").unroll, make(mix_arrays), draw((3,))
    expected = differentiate(make_in_python(mix_numbers), x.astype(float)).sum(0)
    gradient = effx.grad(lambda x: f(x).sum())
    assert count_loops(gradient, enp.array(x))
    assert not count_loops(unroll(gradient), enp.array(x))
    agree(unroll(gradient)(enp.array(x)), expected, 1e-3)
    agree(effx.grad(lambda x: unroll(f)(x).sum())(enp.array(x)), expected, 1e-3)


# Clipping by scope

LIMIT = 3.0


def amplify(x: Any) -> Any:
    y = x * 0.5
    with effx.named_scope("head"):
        y = y * 8.0
    return y * 0.75


def pull_back(ct: Numbers) -> Numbers:
    """The cotangent of `amplify`, clipped where its scope is."""
    return 0.5 * np.clip(8.0 * (0.75 * ct), -LIMIT, LIMIT)


def pull_scan_back(ct: Numbers) -> Numbers:
    for factor in reversed(FACTORS):
        ct = pull_back(ct * factor)
    return ct


def pull_loop_back(ct: Numbers) -> Numbers:
    return pull_back(pull_back(pull_back(ct)))


PULLED: dict[str, tuple[Function, Callable[[Numbers], Numbers]]] = {
    "straight": (amplify, pull_back),
    "jit": (effx.jit(amplify), pull_back),
    "checkpoint": (effx.checkpoint(amplify), pull_back),
    "scan": (scan(amplify), pull_scan_back),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: amplify(y), x), pull_loop_back),
    "cond, taken": (choose(True)(amplify), pull_back),
    "cond, not taken": (choose(False)(amplify), lambda ct: 2.0 * ct),
    "while_loop": (count_to_three_of_four(amplify), pull_loop_back),
    "vmap": (batch(amplify), lambda ct: 2.0 * pull_back(ct)),
}


@pytest.mark.parametrize(
    ("name", "shape"), [(name, (2, 2)) for name in PULLED] + [("scan", ()), ("scan", (0,))], ids=str
)
def test_cotangents_are_clipped(name: str, shape: tuple[int, ...]) -> None:
    """Gradients are those of a backward pass by hand that clips; values are not touched."""
    f, pull = PULLED[name]
    x, weights = enp.array(draw(shape)), 2.0 * draw(shape) - 1.0
    clip_in = load("Clipping by scope").clip_in
    run = effx.value_and_grad(lambda x: (f(x) * enp.array(weights)).sum())
    value, slope = run(x)
    for gradient in (run, effx.jit(run)):
        found = clip_in("head", LIMIT, gradient)(x)
        agree(found[0], value)
        agree(found[1], pull(weights))
    agree(clip_in("hea", LIMIT, run)(x)[1], slope)


@contexts
@pytest.mark.parametrize("shape", [(0,), (3,)], ids=str)
def test_clipping_works_inside(context: str, shape: tuple[int, ...]) -> None:
    """Clipped gradients inside of loops, branches and batches are the same."""
    weights = 2.0 * draw(shape) - 1.0
    gradient = effx.grad(lambda x: (scan(amplify)(x) * enp.array(weights)).sum())
    found = CONTEXTS[context](load("Clipping by scope").clip_in("head", LIMIT, gradient))(
        enp.array(draw(shape))
    )
    agree(found, pull_scan_back(weights))


# Ask and emit


def respond(x: Any) -> Any:
    page = load("Ask and emit")
    return page.emit("seen", x * page.ask("w")) + 1.0


@pytest.mark.parametrize("swapped", [False, True], ids=["collect outside", "supply outside"])
@cases
def test_values_are_asked_and_emitted(program: str, swapped: bool, shape: tuple[int, ...]) -> None:
    """Results are those with the value written in, and what is emitted is collected: by a scan each, by a loop the last."""
    make, make_in_python = PROGRAMS[program]
    page, x, seen = load("Ask and emit"), draw(shape), []

    def respond_in_python(x: Numbers) -> Numbers:
        seen.append(x * 1.5)
        return seen[-1] + 1.0

    f = make(respond)
    run = page.supply(page.collect(f), w=1.5) if swapped else page.collect(page.supply(f, w=1.5))
    for form in (run, effx.jit(run))[swapped:]:
        seen.clear()
        expected = make_in_python(respond_in_python)(x.astype(float))
        result, found = form(enp.array(x))
        agree(result, expected)
        match program:
            case "cond, not taken":
                agree(found["seen"], np.zeros(shape))
            case "scan" | "fori_loop" | "jit of scan of jit":
                agree(found["seen"], np.stack(seen))
            case "vmap":
                agree(found["seen"], np.stack([x * 1.5, x * 3.0]))
            case _:
                agree(found["seen"], seen[-1])


@contexts
@pytest.mark.parametrize("shape", [(0,), (3,)], ids=str)
def test_asking_works_inside(context: str, shape: tuple[int, ...]) -> None:
    """Handlers inside of loops, branches and batches give the same."""
    page, x = load("Ask and emit"), draw(shape)
    result, found = CONTEXTS[context](page.collect(page.supply(scan(respond), w=1.5)))(enp.array(x))
    expected = scan_in_python(lambda x: x * 1.5 + 1.0)(x)
    agree(result, expected)
    assert found["seen"].shape == (3, *shape)
    agree(found["seen"][-1], (expected / FACTORS[-1] - 1.0))


@pytest.mark.parametrize("program", ["straight", "jit", "scan", "fori_loop", "cond, taken", "vmap"])
def test_answers_have_gradients(program: str) -> None:
    """A gradient inside emits what the function emits; one outside is by the answer and by what was emitted too."""
    make, make_in_python = PROGRAMS[program]
    page, x, f = load("Ask and emit"), draw((3,)), make(respond)

    def total(w: Any) -> Any:
        return make_in_python(lambda x: x * w + 1.0)(x.astype(float)).sum()

    by_answer = effx.grad(lambda w: page.supply(page.collect(f), w=w)(enp.array(x))[0].sum())(1.5)
    agree(by_answer, differentiate(total, np.array(1.5)))
    gradient, found = page.collect(page.supply(effx.grad(lambda x: f(x).sum()), w=1.5))(enp.array(x))
    agree(gradient, np.diagonal(differentiate(make_in_python(lambda x: x * 1.5 + 1.0), x.astype(float))))
    agree(found["seen"], page.collect(page.supply(f, w=1.5))(enp.array(x))[1]["seen"])
    emitted = effx.grad(lambda x: page.supply(page.collect(respond), w=1.5)(x)[1]["seen"].sum())(enp.array(x))
    agree(emitted, np.full(3, 1.5))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_batches_are_emitted_in_front(axis: int) -> None:
    """The axis of an inner batch is the first one of what is collected, wherever it was."""
    page, x = load("Ask and emit"), draw((2, 3))
    f = effx.vmap(respond, in_axes=axis)
    found = page.collect(page.supply(f, w=1.5))(enp.array(x))[1]["seen"]
    agree(found, np.moveaxis(x * 1.5, axis, 0))


def test_requests_need_an_answer() -> None:
    """A request without a handler, a value that is not supplied, and a name that is emitted twice are errors."""
    page = load("Ask and emit")
    with pytest.raises(NoRuleError, match="ask: no handler takes the effect 'ask'"):
        page.ask("w")
    with pytest.raises(KeyError, match="w"):
        page.supply(lambda x: x * page.ask("w"))(1.0)
    with pytest.raises(TransformError, match="two values are collected under the name 'seen'"):
        page.collect(page.supply(lambda x: respond(x) + respond(x), w=1.5))(1.0)


# Profiler


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize(("batch_size", "width"), [(0, 4), (1, 1), (2, 4)])
def test_flops_are_counted(layers: int, batch_size: int, width: int) -> None:
    """Counts are those of the formulas: of a scan's layers, of batches, and of a gradient's three products for one."""
    page = load("Profiler")
    weights, x = enp.ones((layers, width, width)), enp.ones((batch_size, width))
    product, elements = 2 * batch_size * width * width, batch_size * width
    layer = page.Work(2 * layers, layers * (product + elements))
    loss = page.Work(2, 2 * elements)
    for f in (page.loss, effx.jit(page.loss), effx.checkpoint(page.loss)):
        assert page.profile(f)(weights, x) == {"layer": layer, "loss": loss}
    # Each element is a batch of one row.
    rows = page.profile(effx.vmap(lambda w, x: page.loss(w, x[None]), in_axes=(None, 0)))(weights, x)
    assert rows["layer"] == layer
    assert rows["loss"].flops == loss.flops
    gradient = page.profile(effx.grad(page.loss))(weights, x)["layer"]
    products = [
        p
        for p in places(effx.make_jaxpr(effx.grad(page.loss))(weights, x))
        if isinstance(p.op, ops.DotGeneral)
    ]
    assert sum([p.repeats for p in products]) == 3 * layers
    assert gradient.flops >= 3 * layers * product


def test_flops_of_branches_and_loops() -> None:
    """Of branches each counts, of a while loop one iteration, of nested loops all."""
    page = load("Profiler")
    x = enp.ones(5)

    def nested(x: Array) -> Any:
        return lax.scan(
            lambda c, _: (lax.scan(lambda d, _: (enp.sin(d), None), c, None, length=3)[0], None),
            x,
            None,
            length=2,
        )

    assert page.profile(nested)(x) == {"": page.Work(6, 30)}
    branches = page.profile(lambda x: lax.cond(enp.array(True), enp.sin, lambda x: enp.cos(x) * x, x))(x)[""]
    assert branches.flops >= 15
    loop = page.profile(lambda x: lax.while_loop(lambda c: c[0] < 1.0, lambda c: enp.sin(c), x))(x)[""]
    assert loop.flops == 5 + 1


# Budgeted checkpointing


def describe_saved(f: Callable[..., Any], *args: Any) -> int:
    """The bytes of a pull-back that are no argument's: the pull-back is a pytree of its residuals."""
    pull = effx.vjp(f, *args)[1]
    leaves = [leaf for leaf in effx.tree.leaves(pull) if not any(leaf is a for a in args)]
    return sum([leaf.nbytes for leaf in leaves])


def straight_loss(weights: Array, x: Array) -> Array:
    for i in range(weights.shape[0]):
        x = enp.tanh(enp.exp(-x * x) @ weights[i])
    return (x * x).sum()


@pytest.mark.parametrize(("batch_size", "width"), [(0, 2), (2, 4)])
@pytest.mark.parametrize("name", ["loss", "straight"])
def test_budget_is_kept(name: str, batch_size: int, width: int) -> None:
    """Gradients are the function's, within the budget; more bytes never mean more products."""
    page = load("Profiler", "Budgeted checkpointing")
    f = effx.jit(page.loss) if name == "loss" else straight_loss
    random = np.random.RandomState(8)
    weights = enp.array(random.normal(size=(3, width, width)).astype(np.float32))
    x = enp.array(random.normal(size=(batch_size, width)).astype(np.float32))
    expected, products = effx.grad(f, (0, 1))(weights, x), []
    for budget in (0, 96, 10**6):
        g = page.checkpoint_within(budget, f)
        for part, other in zip(effx.jit(effx.grad(g, (0, 1)))(weights, x), expected, strict=True):
            agree(part, other)
        assert describe_saved(g, weights, x) <= budget + 16  # and a number or two that take no arithmetic
        program = effx.make_jaxpr(effx.grad(g, (0, 1)))(weights, x)
        products.append(sum([p.repeats for p in places(program) if isinstance(p.op, ops.DotGeneral)]))
    assert products == sorted(products, reverse=True)
    # What has no elements is not worth an offer, and is computed again.
    assert products[0] > 9
    assert products[-1] == (9 if batch_size else products[0])


@contexts
def test_checkpoints_work_inside(context: str) -> None:
    """Gradients inside of loops, branches and batches are the function's."""
    page = load("Profiler", "Budgeted checkpointing")
    weights, x = enp.array(draw((3, 3, 3))), enp.array(draw((2, 3)))
    for budget in (0, 72):
        gradient = effx.grad(partial(page.checkpoint_within(budget, page.loss), weights))
        agree(CONTEXTS[context](gradient)(x), effx.grad(page.loss, 1)(weights, x))


@few_cases
def test_checkpoints_enter_programs(program: str, shape: tuple[int, ...]) -> None:
    """Gradients of programs with loops and branches are those by complex steps."""
    make, make_in_python = DIFFERENTIABLE[program]
    x, f = draw(shape), make(mix_arrays)
    expected = differentiate(lambda x: make_in_python(mix_numbers)(x).sum(), x.astype(float))
    for budget in (0, 64):
        g = load("Profiler", "Budgeted checkpointing").checkpoint_within(budget, lambda x: f(x).sum())
        agree(effx.grad(g)(enp.array(x)), expected, 1e-3)


def test_page_has_the_handlers_of_its_table() -> None:
    """The table at the top names each section, and each section's code is between 15 and 60 lines."""
    text = PAGE.read_text(encoding="utf-8")
    titles = [part.partition("\n")[0] for part in text.split("\n## ")[1:]]
    for title, part in zip(titles, text.split("\n## ")[1:], strict=True):
        assert f"| [{title}](#{title.lower().replace(' ', '-')}) |" in text
        code = [line for line in part.splitlines() if line.startswith((">>>", "..."))]
        assert 15 <= len(code) <= 60
    assert len(titles) == 10
