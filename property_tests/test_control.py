"""Transformations of random programs with branches and loops commute, and loops are what their Python form says.

Never: compares with anything but other ways to compute the same, in 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.handlers.reference import evaluate
from effx.handlers.stage import run_program
from effx.ir.check import check
from effx.ir.text import parse_program, print_program
from effx.ir.types import Shape
from property_tests.programs import Function, Step
from property_tests.test_composition import (
    TRANSFORMED,
    Jitted,
    arrays,
    assert_same,
    cotangents,
    directions,
    every_kind,
    staged,
)

# Compiling is most of the time, so there are fewer examples than elsewhere.
few = settings(max_examples=max(4, settings().max_examples // 5))

# (the value, what is closed over) -> a value of the same shape
Block = Callable[[Array, Array], Array]


@pytest.fixture(autouse=True, scope="module")
def wide() -> Iterator[None]:
    """All of this file runs in 64 bits."""
    with effx.enable_x64(True):
        yield


def _both(first: Block, second: Block) -> Block:
    return lambda x, y: second(first(x, y), y)


def _scan(inner: Block, reverse: bool, unroll: int, steps: int) -> Block:
    def block(x: Array, y: Array) -> Array:
        rows = enp.linspace(-1.0, 1.0, steps)

        def f(carry: tuple[Array, Array], row: Array) -> tuple[tuple[Array, Array], Array]:
            value, total = carry
            value = inner(value * 0.9 + row * y, y)
            return (value, total + y * row), value.sum() * row

        (value, total), ys = lax.scan(f, (x, enp.zeros_like(y)), rows, reverse=reverse, unroll=unroll)
        return enp.tanh(value + total * 0.1) + ys.sum() * 0.01

    return block


def _scan_rows(inner: Block) -> Block:
    def block(x: Array, y: Array) -> Array:
        if not x.shape:
            return inner(x, y)
        first = enp.sin(y)
        # The carry starts without x and depends on it later.
        last, ys = lax.scan(lambda c, row: (enp.tanh(c + row.sum()), inner(row * c, y)), first, x)
        return enp.tanh(ys + last)

    return block


def _cond(first: Block, second: Block, closing: bool) -> Block:
    def block(x: Array, y: Array) -> Array:
        if closing:
            return lax.cond(x.sum() > y, lambda: first(x, y), lambda: enp.tanh(second(x, y) * y))
        return lax.cond(x.sum() > y, first, second, x, y)

    return block


def _switch(first: Block, second: Block, third: Block) -> Block:
    def block(x: Array, y: Array) -> Array:
        index = enp.floor(enp.sin(x.sum() * 3.0) * 2.0).astype(enp.int32) + 1
        return lax.switch(index, [first, second, third], x, y)

    return block


def _while(inner: Block, bound: int, limit: float) -> Block:
    def block(x: Array, y: Array) -> Array:
        def more(state: tuple[Array, Array]) -> Array:
            return (state[0] < 3) & (enp.abs(state[1]).sum() < limit)

        def turn(state: tuple[Array, Array]) -> tuple[Array, Array]:
            return state[0] + 1, inner(state[1] * 1.1, y)

        return lax.while_loop(more, turn, (enp.int32(0), x), max_steps=bound)[1]

    return block


def _fori(inner: Block, steps: int) -> Block:
    return lambda x, y: lax.fori_loop(0, steps, lambda i, v: inner(v, y * enp.cos(i * 1.0)), x)


def _map(inner: Block) -> Block:
    def block(x: Array, y: Array) -> Array:
        return lax.map(lambda row: inner(row, y), x, batch_size=2) if x.shape else inner(x, y)

    return block


PLAIN: dict[str, Block] = {
    "sin": lambda x, y: enp.sin(x + y),
    "mul": lambda x, y: enp.tanh(x) * y,
    "quarter": lambda x, y: x * 0.25,
    "square": lambda x, y: enp.tanh(x * x - y),
    "jitted": lambda x, y: effx.jit(lambda a, b: enp.cos(a) * b)(x, y),
}


@attrs.frozen
class Drawn:
    """A block with how it prints."""

    text: str
    apply: Block


@st.composite
def blocks(draw: st.DrawFn, depth: int) -> Drawn:
    """Draws a block of branches and loops, nested up to a depth."""
    if depth == 0:
        name = draw(st.sampled_from(sorted(PLAIN)))
        return Drawn(name, PLAIN[name])
    inner = [draw(blocks(depth - 1))]
    kind = draw(st.sampled_from(["scan", "rows", "cond", "switch", "while", "fori", "map", "both"]))
    if kind in ("cond", "both", "switch"):
        inner.append(draw(blocks(0)))
    b = [d.apply for d in inner]
    parameters: list[object] = []
    match kind:
        case "scan":
            parameters = [draw(st.booleans()), draw(st.integers(1, 3)), draw(st.integers(1, 4))]
            apply = _scan(b[0], *parameters)  # type: ignore[arg-type]  # as drawn
        case "rows":
            apply = _scan_rows(b[0])
        case "cond":
            parameters = [draw(st.booleans())]
            apply = _cond(b[0], b[1], *parameters)  # type: ignore[arg-type]  # as drawn
        case "switch":
            apply = _switch(b[0], b[1], PLAIN["square"])
        case "while":
            parameters = [draw(st.integers(1, 5)), draw(st.floats(0.5, 4.0))]
            apply = _while(b[0], *parameters)  # type: ignore[arg-type]  # as drawn
        case "fori":
            parameters = [draw(st.integers(0, 3))]
            apply = _fori(b[0], *parameters)  # type: ignore[arg-type]  # as drawn
        case "map":
            apply = _map(b[0])
        case _:
            apply = _both(b[0], b[1])
    shown = [d.text for d in inner] + [str(p) for p in parameters]
    return Drawn(f"{kind}({', '.join(shown)})", apply)


SHAPES: tuple[Shape, ...] = ((), (3,), (2, 3), (1,))


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """Draws a function of an array and a scalar that goes through a block of branches and loops."""
    shape = draw(st.sampled_from(SHAPES))
    block = draw(blocks(draw(st.integers(1, 2))))
    step = Step(block.text, block.apply, (0, 1))
    return Function((shape, ()), (step,), draw(st.sampled_from([(2,), (2, 0)])), draw(st.integers(0, 99)))


@every_kind
@few
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


@every_kind
@few
@given(f=functions())
def test_loops_are_their_python_form(kind: str, f: Function) -> None:
    """T(scan, while, cond) = T(unrolled), which disable_jit runs."""
    g, arguments = TRANSFORMED[kind](f, arrays(f.points()))
    want = g(*arguments)
    with effx.disable_jit():
        got = g(*arguments)
    assert_same(got, want)


@every_kind
@few
@given(f=functions())
def test_vmap_is_a_loop(kind: str, f: Function) -> None:
    """vmap(T f) = loop of T f, and so is vmap of vmap."""
    members = 3
    batches = arrays(f.points(members))
    g, arguments = TRANSFORMED[kind](f, [x[0] for x in batches])
    rest = arguments[len(batches) :]
    axes = (*[0] * len(batches), *[None] * len(rest))
    got = effx.jit(effx.vmap(g, in_axes=axes))(*batches, *rest)
    looped = [g(*[x[m] for x in batches], *rest) for m in range(members)]
    want = effx.tree.map(lambda *ys: enp.stack(ys), *looped)
    assert_same(got, want)
    if kind == "f":
        pairs = [enp.stack([x, x[::-1]]) for x in batches]
        twice = effx.jit(effx.vmap(effx.vmap(g)))(*pairs)
        assert_same(twice, effx.tree.map(lambda y: enp.stack([y, y[::-1]]), want))


@few
@given(f=functions())
def test_vmap_commutes_with_derivatives(f: Function) -> None:
    """jvp(vmap f) = vmap(jvp f), and vjp(vmap f) = vmap(vjp f)."""
    xs, vs = arrays(f.points(3)), directions(f, 3)
    n = len(xs)
    inner = effx.jit(effx.vmap(lambda *a: effx.jvp(f, tuple(a[:n]), tuple(a[n:]))))(*xs, *vs)
    outer = effx.jit(lambda *a: effx.jvp(effx.vmap(f), tuple(a[:n]), tuple(a[n:])))(*xs, *vs)
    assert_same(inner, outer)
    cts = cotangents(f, inner[0])
    one = effx.jit(effx.vmap(lambda *a: effx.vjp(f, *a[:n])[1](tuple(a[n:]))))(*xs, *cts)
    both = effx.jit(lambda *a: effx.vjp(effx.vmap(f), *a[:n])[1](tuple(a[n:])))(*xs, *cts)
    assert_same(one, both)


@few
@given(f=functions())
def test_vjp_is_the_adjoint_of_jvp(f: Function) -> None:
    """<ct, J v> = <J^T ct, v>; J v is the slope."""
    xs, vs = arrays(f.points()), directions(f)
    results, moved = effx.jvp(f, tuple(xs), tuple(vs))
    again, pull = effx.vjp(f, *xs)
    assert_same(again, results)
    cts = cotangents(f, results)
    left = sum([float((ct * d).sum()) for ct, d in zip(cts, moved, strict=True)])
    right = sum([float((ct * v).sum()) for ct, v in zip(pull(tuple(cts)), vs, strict=True)])
    np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)
    h = 1e-6
    ends = [f(*[x + s * h * v for x, v in zip(xs, vs, strict=True)]) for s in (1, -1)]
    for got, a, b in zip(moved, *ends, strict=True):
        np.testing.assert_allclose(
            np.asarray(got), (np.asarray(a) - np.asarray(b)) / (2 * h), rtol=1e-5, atol=1e-5
        )


@few
@given(f=functions())
def test_second_derivatives_do_not_depend_on_the_way(f: Function) -> None:
    """Forward over backward = backward over forward = backward over backward."""

    def loss(*xs: Array) -> Array:
        return f(*xs)[0].sum()

    xs, vs = arrays(f.points()), directions(f)
    places = tuple(range(len(xs)))

    def slope(*a: Array) -> Array:
        result: Array = effx.jvp(loss, a, tuple(vs))[1]
        return result

    def along(*a: Array) -> Array:
        slopes: list[Array] = [(g * v).sum() for g, v in zip(effx.grad(loss, places)(*a), vs, strict=True)]
        return enp.stack(slopes).sum()

    over_backward = effx.jit(lambda *a: effx.jvp(effx.grad(loss, places), a, tuple(vs))[1])(*xs)
    assert_same(over_backward, effx.jit(effx.grad(slope, places))(*xs), 1e-7)
    assert_same(over_backward, effx.jit(effx.grad(along, places))(*xs), 1e-7)


@every_kind
@few
@given(f=functions())
def test_programs_mean_what_they_say(kind: str, f: Function) -> None:
    """Run by XLA one by one, by NumPy, and after printing and parsing."""
    g, arguments = TRANSFORMED[kind](f, arrays(f.points()))
    program, operands = staged(g, arguments)
    want = run_program(program, operands)
    assert_same(evaluate(lambda *xs: run_program(program, xs), *operands), want)
    text = print_program(program)
    parsed = check(parse_program(text))
    assert print_program(parsed) == text
    assert_same(run_program(parsed, operands), want)
