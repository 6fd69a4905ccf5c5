# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Decisions and loops in compiled functions, and their derivatives."""

from __future__ import annotations

import effx
import effx.numpy as enp
from effx import lax

Pair = tuple[effx.Array, effx.Array]


def collatz(n: effx.Array) -> effx.Array:
    """How many steps lead to 1."""

    def step(state: Pair) -> Pair:
        n, count = state
        return enp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, enp.zeros_like(n)))[1]


def greatest_divisor(a: effx.Array, b: effx.Array) -> effx.Array:
    return lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0]


def power(x: effx.Array, n: int) -> effx.Array:
    return lax.fori_loop(0, n, lambda _, y: y * x, enp.ones_like(x))


def moving_average(xs: effx.Array, decay: float) -> Pair:
    def step(mean: effx.Array, x: effx.Array) -> Pair:
        mean = decay * mean + (1 - decay) * x
        return mean, mean

    return lax.scan(step, enp.zeros(xs.shape[1:]), xs)


def bisect(x: effx.Array) -> effx.Array:
    """The logarithm, by halving an interval forty times."""

    def halve(_: effx.Array, ends: Pair) -> Pair:
        middle = 0.5 * (ends[0] + ends[1])
        below = enp.exp(middle) < x
        return enp.where(below, middle, ends[0]), enp.where(below, ends[1], middle)

    return lax.fori_loop(0, 40, halve, (enp.full_like(x, -10.0), enp.full_like(x, 10.0)))[0]


def operate(which: effx.Array, x: effx.Array) -> effx.Array:
    return lax.switch(which, [enp.sin, enp.exp, lambda v: -v, lambda v: v * v[0]], x)


def affine_prefixes(a: effx.Array, b: effx.Array) -> Pair:
    """All prefixes of x -> a x + b, composed in a tree."""

    def compose(first: Pair, second: Pair) -> Pair:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(compose, (a, b))


def counted(c: dict[str, effx.Array], t: dict[str, effx.Array]) -> tuple[dict[str, effx.Array], effx.Array]:
    return {"n": c["n"] + 1, "s": c["s"] + t["v"] * t["k"]}, t["v"].max()


def results() -> dict[str, object]:
    x = enp.array([0.5, 1.5, -2.0])
    found: dict[str, object] = {}
    found["python"] = [effx.jit(lambda v, n: v * n if n > 2 else v, static_argnums=1)(x, n) for n in (1, 3)]
    found["cond"] = [lax.cond(flag, lambda v: v + 1, lambda v: v * 2, x) for flag in (True, False)]
    found["cond of a tree"] = effx.jit(
        lambda v: lax.cond(
            v.sum() > 0, lambda t: {"a": t[0], "b": t[1]}, lambda t: {"a": t[1], "b": t[0]}, (v, 2 * v)
        )
    )(x)
    found["switch"] = [operate(enp.array(i), x) for i in (-1, 0, 1, 2, 3, 9)]
    found["switches"] = effx.vmap(operate, (0, None))(enp.array([3, 0, 2]), x)
    found["collatz"] = effx.jit(effx.vmap(collatz))(enp.arange(1, 12))
    found["divisor"] = effx.jit(greatest_divisor)(enp.array(84), enp.array(36))
    found["power"] = (
        power(x, 5),
        effx.jacrev(lambda v: power(v, 3))(x),
        effx.jit(lambda v, n: lax.fori_loop(0, n, lambda i, y: y + i * v, v))(x, 4),
    )
    found["bisect"] = effx.jit(bisect)(enp.array([0.1, 1.0, 9.0]))

    xs = enp.stack([x, x**2, enp.cos(x), x - 1])
    found["average"] = moving_average(xs, 0.9)
    found["slope of the average"] = effx.grad(lambda v: moving_average(v, 0.5)[0].sum())(xs)
    found["by decay"] = effx.jvp(lambda d: moving_average(xs, d)[1], (0.9,), (1.0,))
    found["backwards"] = lax.scan(lambda c, v: (c * v + 1, c), enp.ones(3), xs, reverse=True)
    found["unrolled"] = lax.scan(lambda c, v: (c + v.sum(), c), enp.array(0.0), xs, unroll=3)
    found["of trees"] = lax.scan(
        counted, {"n": enp.array(0), "s": enp.zeros(3)}, {"v": xs, "k": enp.arange(4.0)}
    )
    found["map"] = lax.map(lambda v: enp.dot(v, v), xs), lax.map(lambda v: v.sum(), xs, batch_size=3)
    found["prefixes"] = affine_prefixes(xs[:, 0], xs[:, 1])
    found["prefixes behind"] = lax.associative_scan(enp.maximum, xs, reverse=True, axis=1)
    found["slope of prefixes"] = effx.grad(lambda a: affine_prefixes(a, xs[:, 1])[1].sum())(xs[:, 0])
    found["select"] = enp.select([x > 1, x > 0], [x, 10 * x], default=-1.0), lax.select(x > 0, x, -x)
    found["forward through while"] = effx.jvp(
        lambda v: lax.while_loop(lambda s: s[1] < 5, lambda s: (enp.sin(s[0]) * 1.5, s[1] + 1), (v, 0))[0],
        (x,),
        (enp.ones(3),),
    )
    found["fibonacci"] = lax.fori_loop(
        0, 8, lambda i, f: f.at[i + 2].set(f[i] + f[i + 1]), enp.zeros(10, enp.int32).at[1].set(1)
    )
    return found
