# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Densities and what is done with their slopes: mixtures by gradient and by expectation, variational inference."""

from __future__ import annotations

import numpy as np

import effx
import effx.numpy as enp
from effx import lax, nn, random
from effx.scipy.special import gammaln, logsumexp

GENERATOR = np.random.default_rng(11)
TRUE = np.array([1.0, -2.0, 0.5], np.float32)
X = GENERATOR.normal(size=(60, 3)).astype(np.float32)
Y = (GENERATOR.random(60) < 1 / (1 + np.exp(-X @ TRUE))).astype(np.float32)
MIXED = np.concatenate([GENERATOR.normal(-2, 0.5, 30), GENERATOR.normal(1, 1.0, 50)]).astype(np.float32)

Mixture = dict[str, effx.Array]


def normal(x: effx.Array, mean: effx.Array | float, scale: effx.Array | float) -> effx.Array:
    return -0.5 * ((x - mean) / scale) ** 2 - enp.log(scale) - 0.5 * enp.log(2 * enp.pi)


def posterior(weights: effx.Array) -> effx.Array:
    """Log-density of weights of a logistic regression, but for a constant."""
    logits = enp.asarray(X) @ weights
    likelihood = enp.sum(enp.asarray(Y) * logits - nn.softplus(logits))
    return likelihood + enp.sum(normal(weights, 0.0, 2.0))


def parts(mixture: Mixture, x: effx.Array) -> effx.Array:
    weights = nn.log_softmax(mixture["weight"])
    return weights + normal(x[:, None], mixture["mean"], enp.exp(mixture["log_scale"]))


def likelihood(mixture: Mixture, x: effx.Array) -> effx.Array:
    return enp.sum(logsumexp(parts(mixture, x), axis=-1))


def expectation_step(mixture: Mixture, x: effx.Array) -> Mixture:
    """A round of expectation and maximisation."""
    share = nn.softmax(parts(mixture, x), axis=-1)
    count = share.sum(0)
    mean = (share * x[:, None]).sum(0) / count
    spread = (share * (x[:, None] - mean) ** 2).sum(0) / count
    return {"weight": enp.log(count), "mean": mean, "log_scale": 0.5 * enp.log(spread)}


def bound(parameters: tuple[effx.Array, effx.Array], key: effx.Array) -> effx.Array:
    """The evidence's lower bound for independent normals, from sixteen samples."""
    mean, log_scale = parameters
    noise = random.normal(key, (16, *mean.shape))
    samples = mean + enp.exp(log_scale) * noise
    entropy = enp.sum(log_scale) + 0.5 * mean.size * enp.log(2 * enp.pi * enp.e)
    return enp.mean(effx.vmap(posterior)(samples)) + entropy


def dirichlet_multinomial(alpha: effx.Array, counts: effx.Array) -> effx.Array:
    n, total = counts.sum(), alpha.sum()
    return gammaln(total) - gammaln(n + total) + enp.sum(gammaln(counts + alpha) - gammaln(alpha))


def results() -> dict[str, object]:
    x, found = enp.asarray(MIXED), dict[str, object]()
    start = {"weight": enp.zeros(2), "mean": enp.array([-1.0, 0.5]), "log_scale": enp.zeros(2)}
    found["mixture"] = likelihood(start, x), effx.grad(likelihood)(start, x)
    found["expectation"] = lax.scan(
        lambda m, _: (expectation_step(m, x), likelihood(m, x)), start, None, length=25
    )

    def climb(_: effx.Array, m: Mixture) -> Mixture:
        return effx.tree.map(lambda p, g: p + 0.005 * g, m, effx.grad(likelihood)(m, x))

    found["ascent"] = effx.jit(lambda m: lax.fori_loop(0, 60, climb, m))(start)

    weights = enp.zeros(3)
    newton = [weights]
    for _ in range(5):
        weights = weights - enp.linalg.solve(effx.hessian(posterior)(weights), effx.grad(posterior)(weights))
        newton.append(weights)
    found["mode"] = newton
    found["Laplace"] = (
        enp.linalg.inv(-effx.hessian(posterior)(weights)),
        enp.linalg.slogdet(-effx.hessian(posterior)(weights)),
    )

    @effx.jit
    def improve(
        parameters: tuple[effx.Array, effx.Array], key: effx.Array
    ) -> tuple[tuple[effx.Array, effx.Array], effx.Array]:
        value, slope = effx.value_and_grad(bound)(parameters, key)
        return effx.tree.map(lambda p, g: p + 0.01 * g, parameters, slope), value

    found["variational"] = lax.scan(
        improve, (enp.zeros(3), enp.zeros(3)), random.split(random.PRNGKey(0), 80)
    )
    counts = enp.array([3.0, 0.0, 7.0, 1.0])
    found["counts"] = effx.value_and_grad(dirichlet_multinomial)(enp.array([0.5, 1.0, 2.0, 3.0]), counts)
    found["Fisher"] = effx.hessian(dirichlet_multinomial)(enp.array([0.5, 1.0, 2.0, 3.0]), counts)
    return found
