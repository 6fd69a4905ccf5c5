"""Random loop bodies: a scan is its unrolled loop, under every transformation and with checkpoints.

Most of it runs on the NumPy reference, so that an example costs milliseconds and no compilation.

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
from effx.ir.check import check
from effx.ir.text import parse_program

Arrays = list[Array]
Arguments = tuple[Arrays, Arrays, Arrays]


@pytest.fixture(autouse=True, scope="module")
def wide() -> Iterator[None]:
    """All of this file runs in 64 bits."""
    with effx.enable_x64(True):
        yield


def branch(p: Array, q: Array) -> Array:
    result: Array = lax.cond(p > 0.2, lambda p, q: enp.sin(p) * q, lambda p, q: q * 1.0, p, q)
    return result


def inner(p: Array, q: Array) -> Array:
    def turn(c: Array, _: None) -> tuple[Array, Array]:
        return enp.sin(c) * p, c * q

    carry, ys = lax.scan(turn, q, None, length=2)
    return carry + ys.sum()


def bounded(p: Array, q: Array) -> Array:
    return lax.while_loop(lambda v: v < 2.0, lambda v: v * 1.5 + 0.1 * q * q, enp.abs(p) + 0.3, max_steps=6)


def checkpointed(p: Array, q: Array) -> Array:
    return effx.checkpoint(lambda p, q: enp.sin(p * q) + enp.tanh(p))(p, q)


STEPS: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda p, q: p + q,
    "mul": lambda p, q: p * q * 0.5,
    "sin": lambda p, q: enp.sin(p),
    "cos mul": lambda p, q: enp.cos(p) * q,
    "where": lambda p, q: enp.where(p > 0.1, p, q * 0.5),
    "constant": lambda p, q: enp.float64(0.3),
    "div": lambda p, q: p / (1.5 + enp.sin(q)),
    "stop": lambda p, q: lax.stop_gradient(p) * q,
    "cond": branch,
    "scan": inner,
    "while": bounded,
    "checkpoint": checkpointed,
    "jit": lambda p, q: effx.jit(lambda p: enp.exp(-p * p) * q)(p),
}


@attrs.frozen
class Loop:
    """A random loop with the point where it is evaluated.

    Attributes:
        steps: of the body: names with the places of two values that are there already.
        next: places of the values that become the next carry; None passes the carried value on.
        outputs: places of the values that are stacked.
        constants: the number of values that the body closes over.
        slices: the number of arrays that it goes along.
    """

    steps: tuple[tuple[str, int, int], ...]
    next: tuple[int | None, ...]
    outputs: tuple[int, ...]
    constants: int
    slices: int
    length: int
    reverse: bool
    unroll: int
    seed: int

    def point(self) -> Arguments:
        rng = np.random.default_rng(self.seed)
        scalars = [enp.asarray(v) for v in rng.normal(size=self.constants + len(self.next))]
        xs = [enp.asarray(rng.normal(size=self.length)) for _ in range(self.slices)]
        return scalars[: self.constants], scalars[self.constants :], xs

    def body(self, constants: Arrays, carry: Arrays, xs: Arrays) -> tuple[Arrays, Arrays]:
        values = [*constants, *carry, *xs]
        for name, p, q in self.steps:
            values.append(STEPS[name](values[p % len(values)], values[q % len(values)]))
        following = [
            c if i is None else values[i % len(values)] for c, i in zip(carry, self.next, strict=True)
        ]
        return following, [values[i % len(values)] for i in self.outputs]

    def scanned(self, arguments: Arguments) -> tuple[Arrays, Arrays]:
        constants, carry, xs = arguments
        result: tuple[Arrays, Arrays] = lax.scan(
            lambda c, x: self.body(constants, c, x), carry, xs, self.length, self.reverse, self.unroll
        )
        return result

    def unrolled(self, arguments: Arguments) -> tuple[Arrays, Arrays]:
        constants, carry, xs = arguments
        ys: list[Arrays] = [[] for _ in range(self.length)]
        for i in reversed(range(self.length)) if self.reverse else range(self.length):
            carry, ys[i] = self.body(constants, carry, [x[i] for x in xs])
        return carry, [enp.stack(column) for column in zip(*ys, strict=True)]


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    """Bodies of one to three carried values with up to six steps."""
    places = st.integers(0, 11)
    return Loop(
        steps=tuple(draw(st.lists(st.tuples(st.sampled_from(list(STEPS)), places, places), max_size=6))),
        next=tuple(draw(st.lists(st.none() | places, min_size=1, max_size=3))),
        outputs=tuple(draw(st.lists(places, max_size=2))),
        constants=draw(st.integers(0, 2)),
        slices=draw(st.integers(0, 2)),
        length=draw(st.integers(1, 4)),
        reverse=draw(st.booleans()),
        unroll=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 2**16)),
    )


Form = Callable[[Arguments], Any]


def loss(form: Form) -> Callable[[Arguments], Array]:
    """A weighted sum of all results."""

    def total(arguments: Arguments) -> Array:
        leaves = effx.tree.leaves(form(arguments))
        parts = [
            (y * (i + 1.0 + enp.arange(float(y.size)).reshape(y.shape))).sum() for i, y in enumerate(leaves)
        ]
        return sum(parts, enp.float64(0.0))

    return total


def assert_same(got: Any, want: Any, tolerance: float = 1e-8) -> None:
    left, right = effx.tree.leaves(got), effx.tree.leaves(want)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def direction(arguments: Arguments) -> Any:
    return effx.tree.map(lambda x: 0.7 * x + 0.1, arguments)


def batch(arguments: Arguments) -> Any:
    return effx.tree.map(lambda x: enp.stack([x, -x, 0.5 * x]), arguments)


TRANSFORMED: dict[str, Callable[[Form], Form]] = {
    "value": lambda f: f,
    "jvp": lambda f: lambda a: effx.jvp(f, (a,), (direction(a),)),
    "grad": lambda f: effx.grad(loss(f)),
    "linearize": lambda f: lambda a: effx.linearize(f, a)[1](direction(a)),
    "vmap": lambda f: lambda a: effx.vmap(f)(batch(a)),
    "jvp of grad": lambda f: lambda a: effx.jvp(effx.grad(loss(f)), (a,), (direction(a),)),
    "grad of jvp": lambda f: effx.grad(loss(lambda a: effx.jvp(f, (a,), (direction(a),)))),
    "grad of grad": lambda f: effx.grad(loss(effx.grad(loss(f)))),
    "vmap of grad": lambda f: lambda a: effx.vmap(effx.grad(loss(f)))(batch(a)),
    "grad of vmap": lambda f: lambda a: effx.grad(lambda b: loss(effx.vmap(f))(b))(batch(a)),
    "vmap of vmap": lambda f: lambda a: effx.vmap(effx.vmap(f))(batch(batch(a))),
    "checkpoint of grad": lambda f: effx.checkpoint(effx.grad(loss(f))),
    "grad of checkpoint": lambda f: effx.grad(loss(effx.checkpoint(f))),
    "jvp of checkpoint": lambda f: lambda a: effx.jvp(effx.checkpoint(f), (a,), (direction(a),)),
    "vmap of checkpoint": lambda f: lambda a: effx.vmap(effx.checkpoint(f))(batch(a)),
    "checkpoint of vmap": lambda f: lambda a: effx.checkpoint(effx.vmap(f))(batch(a)),
    "grad of checkpoint of checkpoint": lambda f: effx.grad(loss(effx.checkpoint(effx.checkpoint(f)))),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@settings(max_examples=15)
@given(loop=loops())
def test_a_scan_is_its_unrolled_loop(name: str, loop: Loop) -> None:
    """Whatever is done to both."""
    transform, point = TRANSFORMED[name], loop.point()
    got = evaluate(lambda: transform(loop.scanned)(point))
    want = evaluate(lambda: transform(loop.unrolled)(point))
    assert_same(got, want)


@settings(max_examples=10)
@given(loop=loops())
def test_programs_of_derivatives_check_and_read_back(loop: Loop) -> None:
    """Their printed form is parsed to the same."""
    point = loop.point()
    for form in (effx.grad(loss(loop.scanned)), TRANSFORMED["vmap of grad"](loop.scanned)):
        program = effx.make_jaxpr(form)(point)
        check(program)
        assert str(parse_program(str(program))) == str(program)


@settings(max_examples=4)
@given(loop=loops())
def test_compiled_is_interpreted(loop: Loop) -> None:
    """XLA and the reference agree on a gradient through the loop."""
    point = loop.point()
    gradient = effx.grad(loss(loop.scanned))
    assert_same(effx.jit(gradient)(point), evaluate(lambda: gradient(point)))
