# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Quantities of each example: gradients, clipped and noisy, influence, Fisher, Hessian-vector products, traces, spectra."""

from __future__ import annotations

import numpy as np

import effx
import effx.numpy as enp
from effx import lax, nn, random

GENERATOR = np.random.default_rng(8)
X = GENERATOR.normal(size=(12, 4)).astype(np.float32)
Y = np.sin(X.sum(1)).astype(np.float32)
Weights = dict[str, effx.Array]


def predict(w: Weights, x: effx.Array) -> effx.Array:
    return enp.tanh(x @ w["in"]) @ w["out"]


def loss(w: Weights, x: effx.Array, y: effx.Array) -> effx.Array:
    return 0.5 * (predict(w, x) - y) ** 2


def flattened(w: Weights) -> effx.Array:
    return enp.concatenate([w[name].ravel() for name in sorted(w)])


def results() -> dict[str, object]:
    x, y = enp.asarray(X), enp.asarray(Y)
    a, b, c = random.split(random.PRNGKey(2), 3)
    w = {"in": 0.5 * random.normal(a, (4, 3)), "out": random.normal(b, (3,))}
    found: dict[str, object] = {}

    each = effx.vmap(effx.grad(loss), (None, 0, 0))
    slopes = effx.jit(each)(w, x, y)
    found["each"] = slopes
    found["as a loop"] = [effx.grad(loss)(w, x[i], y[i]) for i in range(2)]
    norms = enp.sqrt(sum(enp.sum(g.reshape(12, -1) ** 2, axis=1) for g in effx.tree.leaves(slopes)))
    found["norms"] = norms
    clipped = effx.tree.map(lambda g: enp.einsum("i,i...->...", enp.minimum(1.0, 0.5 / norms), g), slopes)
    noise = {
        n: random.normal(k, g.shape)
        for (n, g), k in zip(sorted(clipped.items()), random.split(c), strict=True)
    }
    found["private"] = effx.tree.map(lambda g, e: (g + 0.1 * e) / 12, clipped, noise)

    flat = flattened(w)

    def unflatten(v: effx.Array) -> Weights:
        return {"in": v[:12].reshape(4, 3), "out": v[12:]}

    def total(v: effx.Array) -> effx.Array:
        return enp.mean(effx.vmap(loss, (None, 0, 0))(unflatten(v), x, y))

    def product(v: effx.Array) -> effx.Array:
        return effx.jvp(effx.grad(total), (flat,), (v,))[1]

    hessian = effx.jit(effx.hessian(total))(flat)
    found["Hessian"] = hessian, effx.vmap(product)(enp.eye(flat.size)), product(flat)
    rows = effx.vmap(lambda u, v: flattened(effx.grad(loss)(w, u, v)))(x, y)
    fisher = rows.T @ rows / 12 + 0.1 * enp.eye(flat.size)
    found["natural"] = enp.linalg.solve(fisher, rows.mean(0))
    found["influence"] = -rows @ enp.linalg.solve(hessian + enp.eye(flat.size), rows[0])

    jacobian = effx.vmap(lambda u: flattened(effx.grad(predict)(w, u)))(x)
    found["tangent kernel"] = jacobian @ jacobian.T
    signs = random.rademacher(c, (64, flat.size), enp.float32)
    found["trace"] = enp.mean(effx.vmap(lambda v: enp.vdot(v, product(v)))(signs)), enp.trace(hessian)

    def lanczos(v: effx.Array, steps: int) -> effx.Array:
        """A tridiagonal matrix with the Hessian's outer eigenvalues (Lanczos, 1950)."""

        def one(
            state: tuple[effx.Array, effx.Array, effx.Array], _: None
        ) -> tuple[tuple[effx.Array, effx.Array, effx.Array], tuple[effx.Array, effx.Array]]:
            before, now, beta = state
            image = product(now) - beta * before
            alpha = enp.vdot(image, now)
            image = image - alpha * now
            length = enp.linalg.norm(image)
            return (now, image / length, length), (alpha, length)

        _, (alphas, betas) = lax.scan(
            one, (enp.zeros_like(v), v / enp.linalg.norm(v), enp.array(0.0)), None, length=steps
        )
        return enp.diag(alphas) + enp.diag(betas[:-1], 1) + enp.diag(betas[:-1], -1)

    found["spectrum"] = enp.linalg.eigvalsh(lanczos(enp.ones(flat.size), 5))[-1], enp.linalg.eigvalsh(hessian)
    found["power"] = lax.fori_loop(
        0, 60, lambda _, v: product(v) / enp.linalg.norm(product(v)), enp.ones(flat.size)
    )
    found["saliency"] = effx.vmap(effx.grad(lambda u, v: loss(w, u, v)))(x, y)
    found["rounded"] = effx.grad(lambda v: enp.sum(v + lax.stop_gradient(enp.round(v) - v)) ** 2)(x[0])
    found["accuracy"] = nn.one_hot(enp.argmax(x, 1), 4).mean(0)
    return found
