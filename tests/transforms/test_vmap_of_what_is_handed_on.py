"""Operands that branches and loops hand on unchanged have no batch axis, so that `out_axes=None` takes them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax

P = np.array([0.0, 1.0, 0.0], "f4")
X = np.array([1.0, 2.0, 3.0], "f4")

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cond": lambda p, x, s: lax.cond(p > 0, lambda a, b: (a, b), lambda a, b: (a + 1, b), x, s),
    "switch": lambda p, x, s: lax.switch(
        p.astype("int32"), [lambda a, b: (a, b), lambda a, b: (a + 1, b), lambda a, b: (a * 2, b)], x, s
    ),
    "while_loop": lambda p, x, s: lax.while_loop(lambda c: c[0] < 3.5, lambda c: (c[0] + 1, c[1]), (x, s)),
    "while_loop that reads it": lambda p, x, s: lax.while_loop(
        lambda c: c[0] < c[1].sum(), lambda c: (c[0] + c[1].sum() / 4, c[1]), (x, s)
    ),
    "while_loop with a costly condition": lambda p, x, s: lax.while_loop(
        lambda c: enp.linalg.norm(enp.stack([c[0], c[0]])) < 5, lambda c: (c[0] + 1, c[1]), (x, s)
    ),
    "fori_loop": lambda p, x, s: lax.fori_loop(0, p.astype("int32"), lambda i, c: (c[0] + 1, c[1]), (x, s)),
    "scan": lambda p, x, s: lax.scan(lambda c, _: ((c[0] + p, c[1]), None), (x, s), None, length=2)[0],
}


@pytest.mark.parametrize(
    "shared", [np.float32(7.0), np.array([3.0, 4.0], "f4"), np.int32(7)], ids=["0d", "1d", "int"]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_out_axes_none(name: str, shared: Any) -> None:
    function = FUNCTIONS[name]
    batched = effx.vmap(lambda p, x: function(p, x, shared), out_axes=(0, None))
    for transform in (lambda f: f, effx.jit):
        first, second = transform(batched)(P, X)
        want = [function(p, x, shared) for p, x in zip(P, X, strict=True)]
        np.testing.assert_allclose(first, [w[0] for w in want], rtol=1e-6)
        np.testing.assert_array_equal(second, shared)


@pytest.mark.parametrize("name", ["cond", "switch", "scan"])
def test_gradients_are_those_of_each_element(name: str) -> None:
    function = FUNCTIONS[name]

    def loss(x: Any, s: Any) -> Any:
        y, rest = effx.vmap(lambda p, x: function(p, x, s), out_axes=(0, None))(P, x)
        return (y**2).sum() * rest.sum()

    def loss_in_a_loop(x: Any, s: Any) -> Any:
        return sum(function(P[i], x[i], s)[0] ** 2 for i in range(3)) * s.sum()

    for s in (np.float32(7.0), np.array([3.0, 4.0], "f4")):
        for result, want in zip(
            effx.grad(loss, (0, 1))(X, s), effx.grad(loss_in_a_loop, (0, 1))(X, s), strict=True
        ):
            np.testing.assert_allclose(result, want, rtol=1e-5)


def test_nested_batches() -> None:
    in_one = effx.vmap(lambda p, x: FUNCTIONS["cond"](p, x, np.float32(7.0)), out_axes=(0, None))
    x, p = np.arange(6.0, dtype="f4").reshape(2, 3), np.array([[0, 1, 0], [1, 1, 0]], "f4")
    first, second = effx.vmap(in_one, out_axes=(0, None))(p, x)
    np.testing.assert_array_equal(first, np.where(p > 0, x, x + 1))
    assert second.shape == ()
