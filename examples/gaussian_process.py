"""A curve through noisy points by a Gaussian process, whose kernel is fitted by the slope of the likelihood.

python examples/gaussian_process.py
"""

from __future__ import annotations

import numpy as np

import effx
import effx.numpy as enp
from effx import lax
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


@effx.jit
def fitted(p: Parameters, x: effx.Array, y: effx.Array) -> tuple[Parameters, effx.Array]:
    """A hundred steps uphill; returns the likelihoods on the way too."""

    def climb(p: Parameters, _: None) -> tuple[Parameters, effx.Array]:
        value, slope = effx.value_and_grad(likelihood)(p, x, y)
        return effx.tree.map(lambda q, g: q + 0.01 * enp.clip(g, -5.0, 5.0), p, slope), value

    return lax.scan(climb, p, None, length=100)


def main() -> None:
    """Runs the example."""
    x, y = enp.asarray(X), enp.asarray(Y)
    p, likelihoods = fitted(
        {"length": enp.array(0.0), "size": enp.array(0.0), "noise": enp.array(-1.5)}, x, y
    )
    print(f"log-likelihood {float(likelihoods[0]):.2f}, fitted {float(likelihoods[-1]):.2f}")
    new = enp.linspace(-2.5, 2.5, 6)[:, None]
    mean, spread = effx.jit(predicted)(p, x, y, new)
    print("    x   curve    mean   deviation")
    for i in range(6):
        at = float(new[i, 0])
        print(f"{at:5.1f} {np.sin(2 * at):7.2f} {float(mean[i]):7.2f} {float(enp.sqrt(spread[i, i])):11.2f}")
    print(f"furthest {float(enp.max(enp.abs(mean - enp.sin(2 * new[:, 0])))):.3f}")


if __name__ == "__main__":
    main()
