# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Hamiltonian Monte Carlo by hand: leapfrog steps, chains in a scan and side by side, convergence, tempering."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import effx
import effx.numpy as enp
from effx import lax, random

Density = Callable[[effx.Array], effx.Array]
Pair = tuple[effx.Array, effx.Array]


def banana(x: effx.Array) -> effx.Array:
    """A bent normal density."""
    return -0.5 * (x[0] ** 2 / 4 + (x[1] - 0.25 * x[0] ** 2) ** 2)


def leapfrog(density: Density, x: effx.Array, p: effx.Array, step: float, count: int) -> Pair:
    slope = effx.grad(density)

    def one(_: effx.Array, pair: Pair) -> Pair:
        x, p = pair
        p = p + 0.5 * step * slope(x)
        x = x + step * p
        return x, p + 0.5 * step * slope(x)

    return lax.fori_loop(0, count, one, (x, p))


def energy(density: Density, x: effx.Array, p: effx.Array) -> effx.Array:
    return 0.5 * enp.dot(p, p) - density(x)


def transition(density: Density, x: effx.Array, key: effx.Array) -> tuple[effx.Array, Pair]:
    a, b = random.split(key)
    p = random.normal(a, x.shape)
    there, q = leapfrog(density, x, p, 0.2, 8)
    gain = energy(density, x, p) - energy(density, there, q)
    accepted = enp.log(random.uniform(b)) < gain
    x = enp.where(accepted, there, x)
    return x, (x, enp.minimum(1.0, enp.exp(gain)))


@partial(effx.jit, static_argnums=(0, 3))
def chain(density: Density, x: effx.Array, key: effx.Array, draws: int) -> Pair:
    return lax.scan(partial(transition, density), x, random.split(key, draws))[1]


def spread_ratio(draws: effx.Array) -> effx.Array:
    """Variance of all draws against that within chains (Gelman and Rubin, 1992)."""
    n = draws.shape[1]
    within = enp.mean(enp.var(draws, axis=1, ddof=1), axis=0)
    between = n * enp.var(enp.mean(draws, axis=1), axis=0, ddof=1)
    return enp.sqrt(((n - 1) / n * within + between / n) / within)


def correlated(x: effx.Array, lags: int) -> effx.Array:
    """Autocorrelation of a chain, by Fourier transforms."""
    n = x.shape[0]
    spectrum = enp.fft.rfft(x - enp.mean(x), 2 * n)
    found = enp.fft.irfft(spectrum * enp.conj(spectrum), 2 * n)[:lags]
    return found / found[0]


def results() -> dict[str, object]:
    x, key = enp.array([0.5, -0.3]), random.PRNGKey(9)
    found: dict[str, object] = {"density": effx.value_and_grad(banana)(x)}
    p = enp.array([1.0, 0.7])
    ends = leapfrog(banana, x, p, 0.1, 15)
    found["path"] = ends, leapfrog(banana, ends[0], -ends[1], 0.1, 15)
    found["energy kept"] = enp.abs(energy(banana, *ends) - energy(banana, x, p)) < 0.01
    # The flow keeps volumes: the determinant of its Jacobian is 1.
    flow = effx.jacfwd(lambda z: enp.concatenate(leapfrog(banana, z[:2], z[2:], 0.1, 5)))(
        enp.concatenate([x, p])
    )
    found["volume"] = flow, enp.linalg.det(flow)
    draws, rates = chain(banana, x, key, 30)
    found["chain"] = draws, rates
    starts = 2.0 * random.normal(random.fold_in(key, 1), (4, 2))
    many = effx.vmap(lambda s, k: chain(banana, s, k, 25)[0])(starts, random.split(key, 4))
    found["chains"] = many, spread_ratio(many)
    found["autocorrelation"] = correlated(draws[:, 0], 6)

    def metropolis(x: effx.Array, key: effx.Array, heat: effx.Array) -> effx.Array:
        def one(x: effx.Array, k: effx.Array) -> tuple[effx.Array, effx.Array]:
            a, b = random.split(k)
            there = x + 0.7 * random.normal(a, x.shape)
            x = enp.where(enp.log(random.uniform(b)) < (banana(there) - banana(x)) / heat, there, x)
            return x, x

        return lax.scan(one, x, random.split(key, 20))[1]

    found["tempered"] = effx.jit(effx.vmap(metropolis, (None, None, 0)))(x, key, enp.array([1.0, 3.0]))

    def langevin(x: effx.Array, k: effx.Array) -> tuple[effx.Array, None]:
        return x + 0.05 * effx.grad(banana)(x) + enp.sqrt(0.1) * random.normal(k, x.shape), None

    found["Langevin"] = effx.vmap(lambda s: lax.scan(langevin, s, random.split(key, 30))[0])(starts)
    return found
