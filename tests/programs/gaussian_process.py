"""Regression with a Gaussian process: likelihood, its slope by the kernel's parameters, prediction, samples, new points."""

from __future__ import annotations

import numpy as np

import effx
import effx.numpy as enp
from effx import lax, random
from effx.scipy.linalg import cho_factor, cho_solve, solve_triangular

GENERATOR = np.random.default_rng(4)
X = np.sort(GENERATOR.uniform(-3, 3, 18)).astype(np.float32)[:, None]
Y = (np.sin(2 * X[:, 0]) + 0.1 * GENERATOR.normal(size=18)).astype(np.float32)
Parameters = dict[str, effx.Array]


def covariance(p: Parameters, a: effx.Array, b: effx.Array) -> effx.Array:
    """The exponential of squared distances."""

    def one(u: effx.Array, v: effx.Array) -> effx.Array:
        return enp.exp(2 * p["size"] - 0.5 * enp.sum(((u - v) / enp.exp(p["length"])) ** 2))

    return effx.vmap(lambda u: effx.vmap(lambda v: one(u, v))(b))(a)


def noisy(p: Parameters, x: effx.Array) -> effx.Array:
    return covariance(p, x, x) + (enp.exp(2 * p["noise"]) + 1e-4) * enp.eye(x.shape[0])


def likelihood(p: Parameters, x: effx.Array, y: effx.Array) -> effx.Array:
    lower = enp.linalg.cholesky(noisy(p, x))
    white = solve_triangular(lower, y, lower=True)
    return (
        -0.5 * enp.dot(white, white) - enp.sum(enp.log(enp.diag(lower))) - 0.5 * y.size * enp.log(2 * enp.pi)
    )


def predicted(p: Parameters, x: effx.Array, y: effx.Array, new: effx.Array) -> tuple[effx.Array, effx.Array]:
    factor = cho_factor(noisy(p, x), lower=True)
    between = covariance(p, x, new)
    mean = between.T @ cho_solve(factor, y)
    return mean, covariance(p, new, new) - between.T @ cho_solve(factor, between)


def results() -> dict[str, object]:
    x, y = enp.asarray(X), enp.asarray(Y)
    p = {"length": enp.array(0.0), "size": enp.array(0.0), "noise": enp.array(-1.5)}
    new = enp.linspace(-3.5, 3.5, 9)[:, None]
    found: dict[str, object] = {
        "kernel": covariance(p, x, new),
        "likelihood": effx.value_and_grad(likelihood)(p, x, y),
    }
    by_determinant = -0.5 * (y @ enp.linalg.solve(noisy(p, x), y) + enp.linalg.slogdet(noisy(p, x))[1])
    found["two ways"] = by_determinant
    found["curvature"] = effx.hessian(likelihood)(p, x, y)

    @effx.jit
    def climb(p: Parameters, _: None) -> tuple[Parameters, effx.Array]:
        value, slope = effx.value_and_grad(likelihood)(p, x, y)
        return effx.tree.map(lambda q, g: q + 0.01 * enp.clip(g, -5.0, 5.0), p, slope), value

    best, values = lax.scan(climb, p, None, length=30)
    found["climb"] = best, values
    mean, spread = effx.jit(predicted)(best, x, y, new)
    found["prediction"] = mean, enp.sqrt(enp.diag(spread))
    root = enp.linalg.cholesky(spread + 1e-3 * enp.eye(9))
    found["samples"] = mean + random.normal(random.PRNGKey(0), (4, 9)) @ root.T
    found["slope of the mean"] = effx.vmap(effx.grad(lambda u: predicted(best, x, y, u[None])[0][0]))(new)
    values, vectors = enp.linalg.eigh(noisy(p, x))
    found["spectrum"] = values, enp.abs(vectors.T @ y)[-4:]
    found["each length"] = effx.vmap(lambda length: likelihood({**p, "length": length}, x, y))(
        enp.linspace(-1.0, 1.0, 5)
    )
    found["leave one out"] = effx.jit(
        effx.vmap(
            lambda i: enp.dot(enp.linalg.inv(noisy(best, x))[i], y) / enp.linalg.inv(noisy(best, x))[i, i]
        )
    )(enp.arange(5))
    return found
