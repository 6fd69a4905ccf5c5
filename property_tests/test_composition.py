"""Transformations of random programs commute as they should.

Never: compares with anything but other ways to compute the same, in 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import effx
import effx.numpy as enp
from effx.array import Array
from effx.handlers.reference import evaluate
from effx.handlers.stage import run_program, stage
from effx.ir.check import check
from effx.ir.passes import common_subexpressions, dead_code, inline
from effx.ir.program import Program
from effx.ir.text import parse_program, print_program
from property_tests.programs import Data, Function, functions

Values = tuple[Array, ...]
Call = Callable[..., Any]


@pytest.fixture(autouse=True, scope="module")
def wide() -> Iterator[None]:
    """All of this file runs in 64 bits."""
    with effx.enable_x64(True):
        yield


def arrays(data: Sequence[Data]) -> list[Array]:
    return [enp.asarray(d) for d in data]


def directions(f: Function, count: int | None = None) -> list[Array]:
    rng = np.random.default_rng(f.seed + 1)
    return arrays([np.asarray(rng.standard_normal(x.shape)) for x in f.points(count)])


def cotangents(f: Function, results: Sequence[Array]) -> list[Array]:
    rng = np.random.default_rng(f.seed + 2)
    return arrays([np.asarray(rng.standard_normal(y.shape)) for y in results])


def assert_same(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    left, right = effx.tree.leaves(got), effx.tree.leaves(want)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert (np.shape(a), a.dtype) == (np.shape(b), b.dtype)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def forward(f: Function, xs: Sequence[Array]) -> tuple[Call, list[Array]]:
    """f with its tangent, as a function of primals and tangents, and arguments for it."""
    n = len(xs)
    return lambda *a: effx.jvp(f, tuple(a[:n]), tuple(a[n:])), [*xs, *directions(f)]


def backward(f: Function, xs: Sequence[Array]) -> tuple[Call, list[Array]]:
    """f with its pull-back, as a function of primals and cotangents, and arguments for it."""
    n = len(xs)

    def both(*a: Array) -> Any:
        results, pull = effx.vjp(f, *a[:n])
        return results, pull(tuple(a[n:]))

    return both, [*xs, *cotangents(f, f(*xs))]


def plain(f: Function, xs: Sequence[Array]) -> tuple[Call, list[Array]]:
    return f, list(xs)


TRANSFORMED = {"f": plain, "jvp": forward, "vjp": backward}
every_kind = pytest.mark.parametrize("kind", TRANSFORMED)


@every_kind
@given(f=functions())
def test_jit_changes_nothing(kind: str, f: Function) -> None:
    """jit(T f) = T f = T(jit f)."""
    xs = arrays(f.points())
    g, arguments = TRANSFORMED[kind](f, xs)
    want = g(*arguments)
    assert_same(effx.jit(g)(*arguments), want)
    inside: Any = Jitted(f)
    h, arguments = TRANSFORMED[kind](inside, xs)
    assert_same(h(*arguments), want)


class Jitted:
    """A random function under jit, which keeps what the tests ask of it."""

    def __init__(self, f: Function) -> None:
        self.call = effx.jit(lambda *xs: f(*xs))
        self.seed = f.seed
        self.points = f.points

    def __call__(self, *xs: Array) -> Any:
        return self.call(*xs)


@every_kind
@given(f=functions(most_steps=4))
def test_vmap_is_a_loop(kind: str, f: Function) -> None:
    """vmap(T f) = loop of T f."""
    members = 2
    batches = arrays(f.points(members))
    first = [x[0] for x in batches]
    g, arguments = TRANSFORMED[kind](f, first)
    rest = arguments[len(first) :]
    axes = (*[0] * len(first), *[None] * len(rest))
    got = effx.vmap(g, in_axes=axes)(*batches, *rest)
    looped = [g(*[x[m] for x in batches], *rest) for m in range(members)]
    assert_same(got, effx.tree.map(lambda *ys: enp.stack(ys), *looped))


@given(f=functions(most_steps=4))
def test_vmap_and_jvp_commute(f: Function) -> None:
    """jvp(vmap f) = vmap(jvp f)."""
    xs, vs = arrays(f.points(3)), directions(f, 3)
    n = len(xs)
    inner = effx.vmap(lambda *a: effx.jvp(f, tuple(a[:n]), tuple(a[n:])))(*xs, *vs)
    outer = effx.jvp(effx.vmap(lambda *a: f(*a)), tuple(xs), tuple(vs))
    assert_same(inner, outer)


@given(f=functions(most_steps=4))
def test_vmap_and_vjp_commute(f: Function) -> None:
    """vjp(vmap f) = vmap(vjp f)."""
    xs = arrays(f.points(2))
    n = len(xs)
    results, pull = effx.vjp(effx.vmap(lambda *a: f(*a)), *xs)
    cts = cotangents(f, results)
    inner = effx.vmap(lambda *a: effx.vjp(f, *a[:n])[1](tuple(a[n:])))(*xs, *cts)
    assert_same(inner, pull(tuple(cts)))


@given(f=functions())
def test_vjp_is_the_adjoint_of_jvp(f: Function) -> None:
    """<ct, J v> = <J^T ct, v>, and both give f's own results."""
    xs, vs = arrays(f.points()), directions(f)
    want = f(*xs)
    results, moved = effx.jvp(f, tuple(xs), tuple(vs))
    again, pull = effx.vjp(f, *xs)
    assert_same(results, want)
    assert_same(again, want)
    cts = cotangents(f, want)
    left = sum([float((ct * d).sum()) for ct, d in zip(cts, moved, strict=True)])
    right = sum([float((ct * v).sum()) for ct, v in zip(pull(tuple(cts)), vs, strict=True)])
    np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)


@given(f=functions(most_steps=4))
def test_jvp_is_the_slope(f: Function) -> None:
    """Of a central difference."""
    h = 1e-6
    points, vs = f.points(), directions(f)
    _, moved = effx.jvp(f, tuple(arrays(points)), tuple(vs))
    ends = [f(*arrays([p + s * h * np.asarray(v) for p, v in zip(points, vs, strict=True)])) for s in (1, -1)]
    for got, a, b in zip(moved, *ends, strict=True):
        np.testing.assert_allclose(
            np.asarray(got), (np.asarray(a) - np.asarray(b)) / (2 * h), rtol=1e-5, atol=1e-5
        )


@given(f=functions(most_steps=3))
def test_second_derivatives_do_not_depend_on_the_way(f: Function) -> None:
    """Forward over backward = backward over forward, for the sum of the first result."""

    def loss(*xs: Array) -> Array:
        return f(*xs)[0].sum()

    xs, vs = arrays(f.points()), directions(f)
    places = tuple(range(len(xs)))

    def slope(*a: Array) -> Array:
        result: Array = effx.jvp(loss, a, tuple(vs))[1]
        return result

    over_backward = effx.jvp(lambda *a: effx.grad(loss, places)(*a), tuple(xs), tuple(vs))[1]
    over_forward = effx.grad(slope, places)(*xs)
    assert_same(over_backward, over_forward, 1e-7)
    assert_same(effx.grad(lambda *a: slope(*a), places)(*xs), over_forward)


def staged(f: Call, xs: Sequence[Array]) -> tuple[Program, list[Array]]:
    """A program of f and arguments for it, what it closes over first."""

    def flat(values: list[Array]) -> Sequence[Array]:
        return effx.tree.leaves(f(*values))

    found = stage(flat, [x.type for x in xs], "random")
    return check(found.program), [*found.captured, *xs]


@every_kind
@given(f=functions(most_steps=4))
def test_programs_mean_what_they_say(kind: str, f: Function) -> None:
    """Run by XLA one by one, by NumPy, and after printing and parsing."""
    g, arguments = TRANSFORMED[kind](f, arrays(f.points()))
    want = effx.tree.leaves(g(*arguments))
    program, operands = staged(g, arguments)
    assert_same(run_program(program, operands), want)
    assert_same(evaluate(lambda *xs: run_program(program, xs), *operands), want)
    text = print_program(program)
    parsed = check(parse_program(text))
    assert print_program(parsed) == text
    assert_same(run_program(parsed, operands), want)


@every_kind
@given(f=functions(most_steps=4))
def test_passes_keep_values(kind: str, f: Function) -> None:
    """Dead code, common subexpressions and inlining, in several orders."""
    g, arguments = TRANSFORMED[kind](f, arrays(f.points()))
    program, operands = staged(g, arguments)
    want = run_program(program, operands)
    for passes in (
        [dead_code],
        [common_subexpressions],
        [inline],
        [inline, common_subexpressions, dead_code],
        [dead_code, common_subexpressions, inline, dead_code],
    ):
        changed = program
        for each in passes:
            changed = check(each(changed))
        assert (changed.in_types, changed.out_types) == (program.in_types, program.out_types)
        assert len(changed.equations) <= len(program.equations) or inline in passes
        assert_same(run_program(changed, operands), want)
