"""A gated recurrent network in a scan: values, gradients through time, recomputed steps, sequences of unequal length."""

from __future__ import annotations

import effx
import effx.numpy as enp
from effx import lax, nn, random

Cell = dict[str, effx.Array]


def initial(key: effx.Array, inputs: int, size: int) -> Cell:
    a, b, c = random.split(key, 3)
    orthogonal = nn.initializers.orthogonal()
    return {
        "in": random.normal(a, (inputs, 3 * size)) / enp.sqrt(inputs),
        "state": enp.concatenate([orthogonal(k, (size, size)) for k in random.split(b, 3)], axis=1),
        "shift": enp.zeros(3 * size),
        "out": 0.3 * random.normal(c, (size,)),
    }


def step(cell: Cell, h: effx.Array, x: effx.Array) -> effx.Array:
    """One step of a gated recurrent unit (Cho et al., 2014)."""
    reset_x, update_x, new_x = enp.split(x @ cell["in"] + cell["shift"], 3, axis=-1)
    reset_h, update_h, new_h = enp.split(h @ cell["state"], 3, axis=-1)
    update = nn.sigmoid(update_x + update_h)
    new = enp.tanh(new_x + nn.sigmoid(reset_x + reset_h) * new_h)
    return update * h + (1 - update) * new


def run(cell: Cell, xs: effx.Array) -> tuple[effx.Array, effx.Array]:
    """The last state and what is read from all."""

    def one(h: effx.Array, x: effx.Array) -> tuple[effx.Array, effx.Array]:
        h = step(cell, h, x)
        return h, h @ cell["out"]

    return lax.scan(one, enp.zeros(cell["out"].shape), xs)


def masked(cell: Cell, xs: effx.Array, length: effx.Array) -> effx.Array:
    """The state after `length` steps."""

    def one(h: effx.Array, pair: tuple[effx.Array, effx.Array]) -> tuple[effx.Array, None]:
        i, x = pair
        return enp.where(i < length, step(cell, h, x), h), None

    return lax.scan(one, enp.zeros(cell["out"].shape), (enp.arange(xs.shape[0]), xs))[0]


def loss(cell: Cell, xs: effx.Array, ys: effx.Array) -> effx.Array:
    return enp.mean((effx.vmap(lambda x: run(cell, x)[1])(xs) - ys) ** 2)


def frugal(cell: Cell, xs: effx.Array, ys: effx.Array) -> effx.Array:
    """The loss, where the backward pass computes each step again."""

    @effx.checkpoint
    def one(h: effx.Array, x: effx.Array) -> tuple[effx.Array, effx.Array]:
        h = step(cell, h, x)
        return h, h @ cell["out"]

    read = lax.scan(one, enp.zeros((xs.shape[0], cell["out"].size)), enp.swapaxes(xs, 0, 1))[1]
    return enp.mean((read.T - ys) ** 2)


def generate(cell: Cell, length: int) -> effx.Array:
    """The network on its own output."""

    def one(
        carry: tuple[effx.Array, effx.Array], _: None
    ) -> tuple[tuple[effx.Array, effx.Array], effx.Array]:
        h, x = carry
        h = step(cell, h, x)
        y = h @ cell["out"]
        return (h, enp.stack([y, enp.sin(y)])), y

    start = enp.zeros(cell["out"].shape), enp.ones(2)
    return lax.scan(one, start, length=length)[1]


def results() -> dict[str, object]:
    cell = initial(random.PRNGKey(5), 2, 6)
    time = enp.linspace(0.0, 3.0, 12)
    xs = enp.stack([enp.stack([enp.sin(time * k), enp.cos(time * k)], -1) for k in (1.0, 1.5, 2.5)])
    ys = enp.cumsum(xs[..., 0], axis=1) / 12
    found: dict[str, object] = {"run": run(cell, xs[0]), "loss": loss(cell, xs, ys)}
    found["gradient"] = effx.grad(loss)(cell, xs, ys)
    found["recomputed"] = effx.jit(effx.value_and_grad(frugal))(cell, xs, ys)
    found["by hand"] = lax.fori_loop(0, 12, lambda i, h: step(cell, h, xs[0, i]), enp.zeros(6))
    found["lengths"] = effx.vmap(masked, (None, 0, 0))(cell, xs, enp.array([3, 12, 0]))
    found["generated"] = generate(cell, 7)
    found["through time"] = effx.jacrev(lambda x: run(cell, x)[0])(xs[0])[:, :3]

    @effx.jit
    def descend(cell: Cell, _: None) -> tuple[Cell, effx.Array]:
        value, slope = effx.value_and_grad(loss)(cell, xs, ys)
        norm = enp.sqrt(sum(enp.sum(g**2) for g in effx.tree.leaves(slope)))
        factor = 0.3 * enp.minimum(1.0, 1.0 / norm)
        return effx.tree.map(lambda p, g: p - factor * g, cell, slope), value

    found["training"] = lax.scan(descend, cell, None, length=20)
    return found
