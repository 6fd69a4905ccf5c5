"""State without side effects: counters, trees of one's own, running statistics, updates at places, buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import effx
import effx.numpy as enp
from effx import lax, random


class Counter(NamedTuple):
    """How often, and the last number."""

    seen: effx.Array
    last: effx.Array


def counted(state: Counter, x: effx.Array) -> tuple[Counter, effx.Array]:
    return Counter(state.seen + 1, x), x - state.last


@effx.tree_util.register_pytree_node_class
class Statistics:
    """Mean and variance of what came so far (Welford, 1962); the momentum belongs to the structure."""

    def __init__(self, n: effx.Array, mean: effx.Array, square: effx.Array, name: str) -> None:
        self.n, self.mean, self.square, self.name = n, mean, square, name

    def tree_flatten(self) -> tuple[tuple[effx.Array, effx.Array, effx.Array], str]:
        return (self.n, self.mean, self.square), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: tuple[effx.Array, effx.Array, effx.Array]) -> Statistics:
        return cls(*children, name)

    def with_one(self, x: effx.Array) -> Statistics:
        n = self.n + 1
        mean = self.mean + (x - self.mean) / n
        return Statistics(n, mean, self.square + (x - self.mean) * (x - mean), self.name)


@effx.tree_util.register_dataclass
@dataclass
class Ring:
    """The last numbers, the oldest overwritten first."""

    kept: effx.Array
    at: effx.Array

    def pushed(self, x: effx.Array) -> Ring:
        return Ring(self.kept.at[self.at % self.kept.shape[0]].set(x), self.at + 1)


def life(cells: effx.Array) -> effx.Array:
    """A generation of Conway's game."""
    neighbours = sum(enp.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - cells
    return ((neighbours == 3) | ((cells == 1) & (neighbours == 2))).astype(enp.int32)


def sieve(n: int) -> effx.Array:
    """Which numbers below n are prime."""
    numbers = enp.arange(n)

    def strike(i: effx.Array, prime: effx.Array) -> effx.Array:
        return enp.where((numbers % i == 0) & (numbers > i), False, prime)

    return lax.fori_loop(2, int(n**0.5) + 1, strike, numbers > 1)


def results() -> dict[str, object]:
    xs = enp.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])
    found: dict[str, object] = {}
    found["counter"] = lax.scan(counted, Counter(enp.array(0), enp.array(0.0)), xs)

    empty = Statistics(enp.array(0.0), enp.array(0.0), enp.array(0.0), "digits")
    final, means = lax.scan(lambda s, x: (s.with_one(x), s.mean), empty, xs)
    found["statistics"] = final.n, final.mean, enp.sqrt(final.square / final.n), means
    found["tree"] = effx.tree.map(lambda v: 2 * v, final).square, len(effx.tree.leaves(final))
    found["of columns"] = effx.vmap(
        lambda col: lax.scan(lambda s, x: (s.with_one(x), None), empty, col)[0].square
    )(xs.reshape(2, 3))

    ring = effx.jit(
        lambda: lax.scan(lambda r, x: (r.pushed(x), r.kept.sum()), Ring(enp.zeros(4), enp.array(0)), xs)
    )()
    found["ring"] = ring[0].kept, ring[0].at, ring[1]

    grid = enp.zeros((3, 4))
    far = enp.array(17)
    found["places"] = (
        grid.at[1].set(2.0),
        grid.at[:, 1].add(xs[:3]),
        grid.at[enp.array([0, 0, 2]), enp.array([1, 1, 3])].add(1.0),
        grid.at[0, 0].set(5.0).at[0].multiply(3.0),
        grid.at[-1, 1:3].min(-1.0),
        grid.at[far].set(1.0),
        xs[far],
        xs.at[far].get(mode="fill", fill_value=-1.0),
    )
    found["gradient of places"] = effx.grad(
        lambda v: enp.sum(grid.at[enp.array([0, 2, 0]), 1].add(v[:3]) ** 2)
    )(xs)
    found["histogram"] = enp.zeros(10, enp.int32).at[xs.astype(enp.int32)].add(1)
    found["slices"] = (
        lax.dynamic_update_slice(grid, enp.ones((2, 2)), (1, 1)),
        lax.dynamic_slice(xs, (4,), (4,)),
        lax.dynamic_index_in_dim(xs, 2),
    )

    glider = enp.zeros((8, 8), enp.int32).at[(0, 1, 2, 2, 2), (1, 2, 0, 1, 2)].set(1)
    found["life"] = effx.jit(lambda c: lax.fori_loop(0, 8, lambda _, c: life(c), c))(glider)
    found["primes"] = enp.nonzero(sieve(60))[0], enp.nonzero(sieve(30), size=12, fill_value=-1)[0]

    key = random.PRNGKey(3)
    truth = 2.0 * xs + 1.0 + 0.1 * random.normal(key, xs.shape)

    def regress(w: dict[str, effx.Array], _: None) -> tuple[dict[str, effx.Array], effx.Array]:
        value, slope = effx.value_and_grad(lambda w: enp.mean((w["a"] * xs + w["b"] - truth) ** 2))(w)
        return effx.tree.map(lambda p, g: p - 0.02 * g, w, slope), value

    found["regression"] = lax.scan(regress, {"a": enp.array(0.0), "b": enp.array(0.0)}, length=50)
    return found
