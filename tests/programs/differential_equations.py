# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Differential equations: Runge and Kutta, adaptive steps, sensitivity backwards in time, heat, Kalman's filter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import effx
import effx.numpy as enp
from effx import lax

Field = Callable[[effx.Array, effx.Array], effx.Array]


def predators(y: effx.Array, p: effx.Array) -> effx.Array:
    """Lotka's and Volterra's."""
    hares, lynxes = y
    return enp.stack([p[0] * hares - p[1] * hares * lynxes, p[1] * hares * lynxes - p[2] * lynxes])


def step(f: Field, y: effx.Array, p: effx.Array, h: float | effx.Array) -> effx.Array:
    """One step of the classical method of order 4."""
    a = f(y, p)
    b = f(y + 0.5 * h * a, p)
    c = f(y + 0.5 * h * b, p)
    d = f(y + h * c, p)
    return y + h / 6 * (a + 2 * b + 2 * c + d)


def solved(f: Field, y: effx.Array, p: effx.Array, h: float, count: int) -> effx.Array:
    def one(y: effx.Array, _: None) -> tuple[effx.Array, effx.Array]:
        y = step(f, y, p, h)
        return y, y

    return lax.scan(one, y, None, length=count)[1]


def adaptive(f: Field, y: effx.Array, p: effx.Array, end: float) -> tuple[effx.Array, effx.Array]:
    """Steps as long as two halves agree with the whole; returns the end and the number of tries."""

    def one(state: tuple[effx.Array, ...]) -> tuple[effx.Array, ...]:
        t, y, h, tries = state
        h = enp.minimum(h, end - t)
        whole, halves = step(f, y, p, h), step(f, step(f, y, p, h / 2), p, h / 2)
        error = enp.max(enp.abs(whole - halves)) + 1e-12
        good = error < 1e-4
        scale = enp.clip(0.9 * (1e-4 / error) ** 0.2, 0.3, 3.0)
        return enp.where(good, t + h, t), enp.where(good, halves, y), h * scale, tries + 1

    _, y, _, tries = lax.while_loop(
        lambda s: (s[0] < end - 1e-6) & (s[3] < 500), one, (enp.array(0.0), y, enp.array(0.1), enp.array(0))
    )
    return y, tries


def heat(u: effx.Array, count: int) -> effx.Array:
    """Crank's and Nicolson's steps for a rod whose ends stay cold."""
    n = u.size
    second = enp.diag(enp.ones(n - 1), 1) + enp.diag(enp.ones(n - 1), -1) - 2 * enp.eye(n)
    onward = enp.linalg.solve(enp.eye(n) - 0.2 * second, enp.eye(n) + 0.2 * second)
    return lax.fori_loop(0, count, lambda _, v: onward @ v, u)


def filtered(
    motion: effx.Array, noise: effx.Array, observed: effx.Array, error: float
) -> tuple[effx.Array, effx.Array, effx.Array]:
    """Kalman's filter of a place that is seen; returns means, covariances, log-likelihood."""
    seen = enp.array([[1.0, 0.0]])

    def one(
        state: tuple[effx.Array, effx.Array], z: effx.Array
    ) -> tuple[tuple[effx.Array, effx.Array], tuple[effx.Array, effx.Array, effx.Array]]:
        mean, cov = state
        mean, cov = motion @ mean, motion @ cov @ motion.T + noise
        s = (seen @ cov @ seen.T)[0, 0] + error
        gain = cov @ seen[0] / s
        miss = z - (seen @ mean)[0]
        mean, cov = mean + gain * miss, cov - enp.outer(gain, seen[0] @ cov)
        return (mean, cov), (mean, cov, -0.5 * (miss**2 / s + enp.log(2 * enp.pi * s)))

    means, covs, logs = lax.scan(one, (enp.zeros(2), enp.eye(2)), observed)[1]
    return means, covs, enp.sum(logs)


def results() -> dict[str, object]:
    y, p = enp.array([1.0, 0.5]), enp.array([1.0, 0.8, 0.6])
    found: dict[str, object] = {"path": effx.jit(lambda y, p: solved(predators, y, p, 0.1, 60))(y, p)[::10]}
    found["adaptive"] = effx.jit(lambda y: adaptive(predators, y, p, 4.0))(y)[0]
    found["many starts"] = effx.vmap(lambda s: solved(predators, s, p, 0.1, 20)[-1])(
        enp.stack([y, 2 * y, y[::-1]])
    )
    last = lambda y, p: solved(predators, y, p, 0.1, 30)[-1]  # noqa: E731
    found["by start"] = effx.jacrev(last)(y, p), effx.jacfwd(last)(y, p)
    found["by parameters"] = effx.jacrev(last, 1)(y, p)

    # The adjoint equation, solved backwards together with the path.
    def augmented(
        z: tuple[effx.Array, effx.Array, effx.Array], _: None
    ) -> tuple[effx.Array, effx.Array, effx.Array]:
        value, pull = effx.vjp(predators, z[0], p)
        dy, dp = pull(z[1])
        return value, -dy, -dp

    def backward(
        _: effx.Array, z: tuple[effx.Array, effx.Array, effx.Array]
    ) -> tuple[effx.Array, effx.Array, effx.Array]:
        def moved(
            z: tuple[effx.Array, ...], d: tuple[effx.Array, ...], h: float
        ) -> tuple[effx.Array, effx.Array, effx.Array]:
            a, b, c = [u + h * v for u, v in zip(z, d, strict=True)]
            return a, b, c

        first = augmented(z, None)
        return moved(z, augmented(moved(z, first, -0.025), None), -0.05)

    found["adjoint"] = lax.fori_loop(0, 60, backward, (last(y, p), enp.array([1.0, 0.0]), enp.zeros(3)))
    rod = enp.sin(enp.linspace(0, enp.pi, 12)[1:-1])
    found["heat"] = heat(rod, 20), effx.jacfwd(lambda u: heat(u, 3))(rod)[0]
    truth = np.cumsum(np.full(15, 0.4, np.float32)) + 0.3 * np.cos(np.arange(15, dtype=np.float32))
    motion, noise = enp.array([[1.0, 1.0], [0.0, 1.0]]), 0.05 * enp.eye(2)
    found["Kalman"] = filtered(motion, noise, enp.asarray(truth), 0.5)
    found["by the error"] = effx.vmap(effx.grad(lambda e: filtered(motion, noise, enp.asarray(truth), e)[2]))(
        enp.array([0.2, 0.5])
    )
    return found
