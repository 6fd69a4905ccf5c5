"""Loops that the elements of a batch leave at different times, whatever their conditions are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.ir.ops.control import HigherOrder
from effx.ir.program import Program

XS = np.abs(np.random.default_rng(0).normal(size=(5, 3))).astype(np.float32) + 0.1

# The first is fused and asked twice in each iteration; the answers to the others are carried along.
CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda v: v[0][0] * 2.0 < 9.0,
    "a sum": lambda v: v[0].sum() < 20.0,
    "a product": lambda v: v[0] @ v[0] < 50.0,
    "a call": lambda v: effx.jit(lambda x: x.max() < 7.0)(v[0]),
    "the counter": lambda v: v[1] < enp.where(v[0][0] > 2.0, 3, 5),
}


def turn(v: Any) -> Any:
    return v[0] * 1.5 + 0.1 * enp.sin(v[0]), v[1] + 1


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_member_turns_as_often_as_alone(name: str) -> None:
    """Values, counts and tangents, compiled or not."""

    def f(x: Any) -> Any:
        return lax.while_loop(CONDITIONS[name], turn, (x, 0))

    alone = [f(enp.asarray(x)) for x in XS]
    tangents = [effx.jvp(lambda x: f(x)[0], (enp.asarray(x),), (enp.ones(3),))[1] for x in XS]
    assert len({int(n) for _, n in alone}) > 1
    for g in (effx.vmap(f), effx.jit(effx.vmap(f))):
        values, counts = g(XS)
        np.testing.assert_allclose(values, [v for v, _ in alone], rtol=1e-5)
        np.testing.assert_array_equal(counts, [int(n) for _, n in alone])
    moved = effx.jvp(lambda xs: effx.vmap(f)(xs)[0], (XS,), (np.ones_like(XS),))[1]
    np.testing.assert_allclose(moved, tangents, rtol=1e-4)
    nested = effx.vmap(effx.vmap(f))(np.stack([XS, XS[::-1]]))[0]
    np.testing.assert_allclose(nested[1], [v for v, _ in reversed(alone)], rtol=1e-5)


def nest(depth: int) -> Callable[[Any], Any]:
    """Conds in each other, each with all that is inside in both branches."""
    f: Callable[[Any], Any] = enp.sin
    for k in range(depth):

        def deeper(x: Any, g: Callable[[Any], Any] = f, k: int = k) -> Any:
            return lax.cond(x > 0.1 * k, g, lambda y: g(y) * 2.0, x)

        f = deeper
    return f


def distinct(program: Program, seen: set[Program]) -> int:
    """How many equations the programs inside have, each program once."""
    if program in seen:
        return 0
    seen.add(program)
    held = [p for e in program.equations if isinstance(e.op, HigherOrder) for p in e.op.programs]
    return len(program.equations) + sum([distinct(p, seen) for p in held])


def test_nested_branches_are_staged_once() -> None:
    """The work is a polynomial of the depth: doubling on each level would make 64 times as many equations."""
    for wrap in (effx.vmap, lambda f: effx.vmap(effx.grad(f)), lambda f: effx.jacfwd(effx.vmap(f))):
        sizes = [distinct(effx.make_jaxpr(wrap(nest(depth)))(XS[0]), set()) for depth in (4, 10)]
        assert sizes[1] < (10 / 4) ** 3 * sizes[0]
    xs = enp.asarray(np.array([-0.5, 0.05, 0.15, 0.6], np.float32))
    want = [float(nest(3)(x)) for x in xs]
    np.testing.assert_allclose(effx.vmap(nest(3))(xs), want, rtol=1e-6)
    slopes = [float(effx.grad(nest(3))(x)) for x in xs]
    np.testing.assert_allclose(effx.vmap(effx.grad(nest(3)))(xs), slopes, rtol=1e-6)
