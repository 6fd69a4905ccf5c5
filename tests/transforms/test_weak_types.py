"""Weak types through derivatives and control flow: a Python number stays one, so that narrow code stays narrow.

Never: looks at values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax

Model = Callable[[Any], Any]


def _types(result: Any) -> str:
    return " ".join([repr(enp.asarray(x).type) for x in effx.tree.leaves(result)])


def _loop(a: Any) -> Any:
    return lax.scan(lambda c, _: (c * a, c), a, None, length=3)[0]


# Of a Python number each of these has a gradient that is as weak: JAX's are, too.
GRADIENTS: dict[str, Model] = {
    "plain": enp.sin,
    "jit": effx.jit(lambda x: enp.sin(x) * x),
    "nested": effx.jit(lambda x: effx.jit(lambda y: y * y)(x) + x),
    "grad": effx.jit(effx.grad(effx.jit(lambda x: x * x * x))),
    "relu": effx.nn.relu,
    "softplus": effx.nn.softplus,
    "scan": _loop,
    "stacked": lambda x: enp.sum(lax.scan(lambda c, _: (c, c * x), x, None, length=3)[1]),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x),
    "bounded": lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * x, x, max_steps=3),
    "cond": lambda x: lax.cond(x > 0.0, lambda y: y * x, lambda y: y, x),
    "checkpoint": effx.checkpoint(lambda x: enp.sin(x) * x),
    "strong": lambda x: enp.sum(x * enp.ones(3)),
    "strong scalar": lambda x: x * enp.float32(3.0),
    "narrow": lambda x: enp.sum(x * enp.ones(3, "bfloat16")),
    "max": lambda x: enp.max(enp.stack([x, x])),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_python_numbers_are_weak(name: str) -> None:
    f = GRADIENTS[name]
    assert _types(effx.grad(f)(2.0)) == "f32[]~"
    assert _types(effx.jit(effx.grad(f))(2.0)) == "f32[]~"
    assert _types(effx.grad(f)(enp.float32(2.0))) == "f32[]"


def test_the_elementwise_extremes_make_tangents_strong() -> None:
    """Of two weak operands that is; so do complex numbers, whose real part a zero completes. As in JAX."""
    functions: list[Model] = [
        lambda x: enp.maximum(x, 0),
        lambda x: enp.minimum(x, 3.0),
        lambda x: enp.clip(x, 0, 1),
    ]
    for f in functions:
        assert _types(f(2.0)) == "f32[]~"
        assert _types(effx.jvp(f, (2.0,), (1.0,))) == "f32[]~ f32[]"
        assert _types(effx.grad(f)(2.0)) == "f32[]"
    assert _types(effx.grad(lambda z: enp.real(z * z))(1 + 2j)) == "c64[]"
    assert _types(effx.grad(lambda z: enp.imag(z * z))(1 + 2j)) == "c64[]"
    assert _types(effx.jvp(enp.abs, (1 + 2j,), (1 + 0j,))) == "f32[]~ f32[]"


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit], ids=["plain", "jit"])
def test_indices_of_loops(wrap: Any) -> None:
    """Of known bounds they are Python's; of others as weak as the lower bound, which takes the upper's dtype."""

    def indices(low: Any, high: Any) -> Any:
        return lax.fori_loop(low, high, lambda i, c: i * c, 1) + enp.int8(1)

    three, small = enp.int32(3), enp.int8(3)
    assert _types(wrap(lambda: indices(0, 3))()) == "i8[]"
    assert _types(indices(0, three)) == _types(indices(0, small)) == "i8[]"
    assert _types(wrap(lambda n: indices(0, n))(three)) == "i8[]"
    assert _types(effx.jit(lambda n: indices(n, 3))(three)) == "i32[]"
    last = effx.jit(lambda n: lax.fori_loop(0, n, lambda i, c: i, 0))
    assert _types([last(3), last(three)]) == "i32[]~ i32[]~"
    assert _types(last(small)) == "i8[]"


def test_bounds_that_python_cannot_count_to_keep_their_dtype() -> None:
    """A Python int has 32 bits here."""
    high = np.uint32(2**32 - 1)
    last: Array = lax.fori_loop(np.uint32(2**32 - 3), high, lambda i, c: i, np.uint32(0))
    assert int(last) == 2**32 - 2
    assert _types(last) == "u32[]"


def test_batched_loops() -> None:
    """What becomes a batch on the way, and outputs that are the same for all."""
    numbers = lax.broadcast(enp.asarray(2.0), (2,))
    assert _types(numbers) == "f32[2]~"
    scan = effx.vmap(lambda b: lax.scan(lambda c, _: (c * b, (c, 2.0)), 1.0, None, length=3))
    assert _types(scan(numbers)) == "f32[2]~ f32[2,3]~ f32[2,3]~"
    fori = effx.vmap(lambda b: lax.fori_loop(0, enp.int32(3), lambda i, c: c * b, 1.0))
    assert _types([fori(numbers), effx.jit(fori)(numbers)]) == "f32[2]~ f32[2]~"
    loop = effx.vmap(lambda b: lax.while_loop(lambda c: c < b, lambda c: c + b, 1.0))
    assert _types(loop(numbers)) == "f32[2]~"
    assert _types(effx.vmap(effx.grad(effx.jit(lambda x: x * x)))(numbers)) == "f32[2]~"
