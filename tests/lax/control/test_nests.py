"""Derivatives through loops, branches and calls in each other, against the same functions unrolled in Python."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.effects import handle
from effx.handlers.oracle import Reference

Unary = Callable[[Any], Any]
Wrapper = Callable[[Unary], Unary]


def _with_rule(f: Unary) -> Unary:
    """A function with a rule of its own, which is its derivative."""
    g = effx.custom_jvp(lambda x: f(x))

    @g.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return effx.jvp(f, primals, tangents)

    return g


def _twice(f: Unary) -> Unary:
    return lambda x: f(f(x))


def _counted(f: Unary, **options: int) -> Unary:
    """Two iterations of a while loop with a counter."""
    return lambda x: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x), **options)[1]


def _until(f: Unary) -> Unary:
    """A loop whose condition calls a function of all that it carries."""
    test = effx.jit(lambda i, x: (i < 2, enp.sin(x)))
    return lambda x: lax.while_loop(lambda s: test(*s)[0], lambda s: (s[0] + 1, f(s[1])), (0, x))[1]


def _dynamic(f: Unary) -> Unary:
    # The end is known to no one who stages.
    return lambda x: lax.fori_loop(0, effx.jit(lambda: enp.int32(2))(), lambda i, v: f(v), x)


# name -> (what it makes of a function, the same in Python)
CONSTRUCTS: dict[str, tuple[Wrapper, Wrapper]] = {
    "jit": (lambda f: effx.jit(lambda x: f(x)), lambda f: f),
    "pair": (
        lambda f: lambda x: sum(effx.jit(lambda y, z: (f(y), z * 2.0))(x, 1.0)),
        lambda f: lambda x: f(x) + 2.0,
    ),
    "scan": (lambda f: lambda x: lax.scan(lambda c, _: (f(c), c), x, None, length=2)[0], _twice),
    "stacked": (
        lambda f: lambda x: enp.sum(lax.scan(lambda c, _: (c, f(c)), x, None, length=2)[1]),
        lambda f: lambda x: 2.0 * f(x),
    ),
    "cond": (
        lambda f: lambda x: lax.cond(x > -9.0, f, lambda y: y * y, x),
        lambda f: f,
    ),
    "while": (_counted, _twice),
    "until": (_until, _twice),
    "bounded": (lambda f: _counted(f, max_steps=3), _twice),
    "fori": (lambda f: lambda x: lax.fori_loop(0, 2, lambda i, v: f(v), x), _twice),
    "dynamic": (_dynamic, _twice),
    "checkpoint": (effx.checkpoint, lambda f: f),
    "rule": (_with_rule, lambda f: f),
    "grad": (effx.grad, effx.grad),
    "slope": (
        lambda f: lambda x: effx.linearize(f, x)[1](1.0),
        lambda f: lambda x: effx.jvp(f, (x,), (1.0,))[1],
    ),
}
UNBOUNDED = {"while", "until", "dynamic"}


def _body(x: Any) -> Any:
    return enp.sin(x) * x + 0.5


def _check(names: tuple[str, ...]) -> None:
    """Compares value and derivatives of a nest, outermost construct first."""
    f: Unary = _body
    plain: Unary = _body
    for name in reversed(names):
        wrap, unroll = CONSTRUCTS[name]
        f, plain = wrap(f), unroll(plain)
    transposable = not UNBOUNDED.intersection(names)
    with handle(Reference()), effx.enable_x64(True):
        x, dx = 0.3, 1.5
        want = np.array(effx.jvp(plain, (x,), (dx,)))
        got: list[Any] = [effx.jvp(f, (x,), (dx,))]
        y, push = effx.linearize(f, x)
        got.append((y, push(dx)))
        if transposable:
            y, pull = effx.vjp(f, x)
            got.append((y, pull(dx)[0]))
        for result in got:
            np.testing.assert_allclose(np.array(result), want, rtol=1e-9, err_msg=" > ".join(names))
        second = effx.jvp(lambda v: effx.linearize(f, v)[1](dx), (x,), (1.0,))[1]
        slope = effx.jvp(lambda v: effx.jvp(plain, (v,), (dx,))[1], (x,), (1.0,))[1]
        np.testing.assert_allclose(float(second), float(slope), rtol=1e-8, err_msg=" > ".join(names))


def _possible(names: tuple[str, ...]) -> bool:
    """Reverse mode does not go through loops without a bound."""
    return "grad" not in names or not UNBOUNDED.intersection(names[names.index("grad") :])


@pytest.mark.parametrize("outer", CONSTRUCTS)
def test_each_construct_in_each(outer: str) -> None:
    """Forward, linearised, backward, and forward of linearised, with each other construct inside."""
    for inner in CONSTRUCTS:
        if _possible((outer, inner)):
            _check((outer, inner))


@pytest.mark.parametrize("seed", range(8))
def test_random_nests(seed: int) -> None:
    """Three constructs in each other, the outermost a loop without a bound or a differentiation."""
    random = Random(seed)
    outermost = [*sorted(UNBOUNDED), "slope", "grad"]
    for _ in range(3):
        names = (random.choice(outermost), *random.choices(list(CONSTRUCTS), k=2))
        if _possible(names):
            _check(names)
