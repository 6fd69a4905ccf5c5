"""Derivatives of a logistic regression in every direction: gradients, Jacobians, Hessians, products with them."""

from __future__ import annotations

from functools import partial

import numpy as np

import effx
import effx.numpy as enp

Weights = dict[str, effx.Array]

POINTS = np.array([[0.5, 1.2, -0.7], [0.9, -1.1, 0.1], [0.4, 0.1, -0.3], [-0.8, 0.6, 1.3]], np.float32)
LABELS = np.array([True, False, True, True])


def probability(weights: Weights, x: effx.Array) -> effx.Array:
    """How likely a point is to have the label."""
    return 0.5 * (enp.tanh(0.5 * (x @ weights["slope"] + weights["shift"])) + 1.0)


def loss(weights: Weights, x: effx.Array, labels: effx.Array) -> effx.Array:
    """Minus the log-likelihood of all labels."""
    p = probability(weights, x)
    return -enp.sum(enp.log(enp.where(labels, p, 1 - p)))


def loss_and_guesses(weights: Weights, x: effx.Array, labels: effx.Array) -> tuple[effx.Array, effx.Array]:
    p = probability(weights, x)
    return loss(weights, x, labels), p > 0.5


def wave(z: effx.Array) -> effx.Array:
    """An analytic function of a complex number."""
    return enp.sin(z) * z + 1j * z**2


def results() -> dict[str, object]:
    x, labels = enp.asarray(POINTS), enp.asarray(LABELS)
    weights = {"slope": enp.array([0.3, -0.2, 0.9]), "shift": enp.array(0.1)}
    direction = {"slope": enp.array([1.0, 0.5, -1.0]), "shift": enp.array(2.0)}
    found: dict[str, object] = {}

    objective = partial(loss, x=x, labels=labels)
    found["gradient"] = effx.grad(loss)(weights, x, labels)
    found["by two arguments"] = effx.grad(loss, argnums=(0, 1))(weights, x, labels)
    found["value too"] = effx.value_and_grad(loss)(weights, x, labels)
    found["guesses too"] = effx.value_and_grad(loss_and_guesses, has_aux=True)(weights, x, labels)

    # A step in a direction, by differences, forward and backward.
    step = 1e-2
    ahead = effx.tree.map(lambda w, d: w + step * d, weights, direction)
    back = effx.tree.map(lambda w, d: w - step * d, weights, direction)
    found["differences"] = (objective(ahead) - objective(back)) / (2 * step)
    found["forward"] = effx.jvp(objective, (weights,), (direction,))
    value, pull = effx.vjp(lambda w: probability(w, x), weights)
    found["backward"] = value, pull(enp.array([1.0, 0.0, 2.0, -1.0]))
    out, push = effx.linearize(lambda w: probability(w, x), weights)
    found["linear"] = (
        out,
        push(direction),
        effx.vmap(push)(effx.tree.map(lambda d: enp.stack([d, 2 * d]), direction)),
    )

    found["Jacobian, rows"] = effx.jacrev(lambda w: probability(w, x))(weights)
    found["Jacobian, columns"] = effx.jacfwd(lambda w: probability(w, x))(weights)
    found["Hessian"] = effx.hessian(objective)(weights)

    def of_slope(slope: effx.Array) -> effx.Array:
        return objective({**weights, "slope": slope})

    found["Hessian both ways"] = effx.jacrev(effx.jacfwd(of_slope))(weights["slope"])
    found["Hessian times vector"] = effx.jvp(effx.grad(objective), (weights,), (direction,))[1]
    found["reverse over reverse"] = effx.grad(
        lambda w: sum(
            enp.vdot(a, b)
            for a, b in zip(
                effx.tree.leaves(effx.grad(objective)(w)), effx.tree.leaves(direction), strict=True
            )
        )
    )(weights)

    # Higher orders of a function of one number, and what must not be differentiated.
    tower = [effx.grad(enp.tanh)]
    for _ in range(3):
        tower.append(effx.grad(tower[-1]))
    found["tower"] = [f(0.7) for f in tower]
    found["stopped"] = effx.grad(lambda v: enp.sum((v - effx.lax.stop_gradient(enp.sin(v))) ** 2))(x[0])
    found["safe root"] = effx.vmap(
        effx.grad(lambda v: enp.where(v > 0, enp.sqrt(enp.where(v > 0, v, 1.0)), 0.0))
    )(x[:, 2])

    z = enp.array(1.3 - 0.4j)
    found["holomorphic"] = effx.grad(wave, holomorphic=True)(z)
    found["real of complex"] = effx.grad(lambda w: enp.real(wave(w)))(z)
    found["pull of complex"] = effx.vjp(wave, z)[1](enp.array(1.0 + 0.5j))
    return found
