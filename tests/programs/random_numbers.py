# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Keys: split, folded in, one for each example; samples; walks, shuffles, bootstrap and integrals by chance."""

from __future__ import annotations

import effx
import effx.numpy as enp
from effx import lax, random


def walk(key: effx.Array, steps: int) -> effx.Array:
    """Where a drunkard stands after each step."""

    def step(
        carry: tuple[effx.Array, effx.Array], _: None
    ) -> tuple[tuple[effx.Array, effx.Array], effx.Array]:
        key, place = carry
        key, one = random.split(key)
        place = place + 2 * random.bernoulli(one, 0.5, (2,)).astype(enp.int32) - 1
        return (key, place), place

    return lax.scan(step, (key, enp.zeros(2, enp.int32)), None, length=steps)[1]


def circle(key: effx.Array, n: int) -> effx.Array:
    """pi, by throwing darts."""
    darts = random.uniform(key, (n, 2), minval=-1.0, maxval=1.0)
    return 4 * enp.mean(enp.sum(darts**2, axis=-1) < 1)


def rejected(key: effx.Array) -> tuple[effx.Array, effx.Array]:
    """A point of the disk, and how many tries it took."""

    def outside(state: tuple[effx.Array, effx.Array, effx.Array]) -> effx.Array:
        return enp.sum(state[1] ** 2) > 1

    def again(state: tuple[effx.Array, effx.Array, effx.Array]) -> tuple[effx.Array, effx.Array, effx.Array]:
        key, one = random.split(state[0])
        return key, random.uniform(one, (2,), minval=-1.0), state[2] + 1

    _, point, tries = lax.while_loop(outside, again, (key, enp.full(2, 2.0), enp.array(0)))
    return point, tries


def results() -> dict[str, object]:
    key = random.PRNGKey(1701)
    found: dict[str, object] = {}
    found["key"] = key
    found["split"] = random.split(key), random.split(key, 3), random.fold_in(key, 12)
    found["typed"] = random.key_data(random.split(random.key(7), (2, 2)))
    a, b, c, d, e, f = random.split(key, 6)
    found["the same twice"] = random.normal(a, (3,)), random.normal(a, (3,))
    found["one by one"] = enp.stack([random.normal(k) for k in random.split(a, 3)])
    found["in a batch"] = effx.vmap(random.normal)(random.split(a, 3))
    found["folded"] = effx.vmap(lambda i: random.uniform(random.fold_in(key, i)))(enp.arange(4))
    found["uniform"] = random.uniform(b, (2, 3), minval=-2.0, maxval=5.0), random.randint(b, (5,), 0, 100)
    found["shuffle"] = random.permutation(c, 9), random.permutation(c, enp.arange(12.0).reshape(4, 3), axis=1)
    found["choice"] = (
        random.choice(d, 10, (4,), replace=False),
        random.choice(d, enp.arange(5) * 2, (6,), p=enp.array([0.1, 0.2, 0.3, 0.2, 0.2])),
    )
    found["categorical"] = random.categorical(
        e, enp.log(enp.array([[0.2, 0.8], [0.9, 0.1]])), axis=-1, shape=(5, 2)
    )
    found["tails"] = (
        random.exponential(f, (3,)),
        random.laplace(f, (3,)),
        random.cauchy(f, (3,)),
        random.gumbel(f, (3,)),
    )
    found["normal"] = random.multivariate_normal(
        a, enp.array([1.0, -1.0]), enp.array([[2.0, 0.3], [0.3, 0.5]]), (4,)
    )
    found["truncated"] = random.truncated_normal(b, -1.0, 2.0, (5,))
    found["discrete"] = random.poisson(c, 4.0, (6,)), random.bernoulli(c, enp.array([0.1, 0.5, 0.9]), (2, 3))
    found["gamma"] = (
        random.gamma(d, enp.array([0.5, 2.0, 9.0])),
        random.beta(d, 2.0, 3.0, (3,)),
        random.dirichlet(d, enp.ones(3), (2,)),
    )
    found["bits"] = (
        random.bits(e, (3,)),
        random.bits(e, (3,), enp.uint8),
        random.rademacher(e, (4,)),
        random.orthogonal(e, 3),
    )
    found["walk"] = walk(key, 20)
    found["walks"] = effx.jit(effx.vmap(walk, (0, None)), static_argnums=1)(random.split(key, 4), 10)[:, -1]
    found["pi"] = circle(key, 20_000)
    found["rejected"] = effx.jit(effx.vmap(rejected))(random.split(key, 5))

    data = random.normal(a, (30,)) + 3.0
    draws = effx.vmap(lambda k: enp.mean(data[random.randint(k, (30,), 0, 30)]))(random.split(b, 200))
    found["bootstrap"] = enp.mean(draws), enp.std(draws), enp.quantile(draws, enp.array([0.05, 0.95]))
    found["by parameters"] = effx.grad(lambda m, s: enp.mean((m + s * random.normal(c, (50,))) ** 2), (0, 1))(
        1.0, 2.0
    )
    found["slope of gamma"] = effx.grad(lambda shape: enp.sum(random.gamma(d, shape, (3,))))(2.5)
    return found
