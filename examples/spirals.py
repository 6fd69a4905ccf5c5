"""A network of three layers by hand tells three spirals apart.

python examples/spirals.py
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import effx
import effx.numpy as enp
from effx import lax, nn, random

PICTURE = Path(__file__).resolve().parent / "out" / "spirals.png"

Layers = list[dict[str, effx.Array]]
Moments = tuple[Layers, Layers]


def initial(key: effx.Array, sizes: list[int]) -> Layers:
    """Weights of He's deviation, shifts of 0."""
    scale = nn.initializers.he_normal()
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": scale(k, (m, n), enp.float32), "b": enp.zeros(n)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(layers: Layers, x: effx.Array) -> effx.Array:
    """Logits for one example."""
    for layer in layers[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return nn.log_softmax(x @ layers[-1]["w"] + layers[-1]["b"])


def loss(layers: Layers, x: effx.Array, y: effx.Array) -> effx.Array:
    predicted = effx.vmap(predict, (None, 0))(layers, x)
    decay = sum(enp.sum(layer["w"] ** 2) for layer in layers)
    return -enp.mean(enp.sum(predicted * nn.one_hot(y, 3), axis=-1)) + 1e-4 * decay


def spirals(key: effx.Array, n: int) -> tuple[effx.Array, effx.Array]:
    """Points on three arms, and which arm."""
    a, b = random.split(key)
    arm = enp.arange(n) % 3
    radius = random.uniform(a, (n,), minval=0.1)
    angle = 4 * radius + 2 * enp.pi / 3 * arm
    x = enp.stack([radius * enp.cos(angle), radius * enp.sin(angle)], axis=-1)
    return x + 0.02 * random.normal(b, x.shape), arm


def adam(layers: Layers, moments: Moments, slope: Layers, step: effx.Array) -> tuple[Layers, Moments]:
    first = effx.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], slope)
    second = effx.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, moments[1], slope)

    def moved(p: effx.Array, m: effx.Array, v: effx.Array) -> effx.Array:
        return p - 0.02 * (m / (1 - 0.9**step)) / (enp.sqrt(v / (1 - 0.99**step)) + 1e-8)

    return effx.tree.map(moved, layers, first, second), (first, second)


def train(
    layers: Layers, x: effx.Array, y: effx.Array, key: effx.Array, epochs: int
) -> tuple[Layers, effx.Array]:
    """Adam on shuffled batches of thirty, all in one scan."""

    def batch(
        carry: tuple[Layers, Moments, effx.Array], rows: effx.Array
    ) -> tuple[tuple[Layers, Moments, effx.Array], effx.Array]:
        layers, moments, step = carry
        value, slope = effx.value_and_grad(loss)(layers, x[rows], y[rows])
        layers, moments = adam(layers, moments, slope, step)
        return (layers, moments, step + 1.0), value

    orders = effx.vmap(lambda k: random.permutation(k, x.shape[0]))(random.split(key, epochs))
    zeros = effx.tree.map(enp.zeros_like, layers)
    (layers, _, _), values = lax.scan(batch, (layers, (zeros, zeros), enp.array(1.0)), orders.reshape(-1, 30))
    return layers, values


def draw(layers: Layers, points: effx.Array, arms: effx.Array) -> None:
    """Saves a picture of the points, and of the arm to which the network counts each place."""
    side = enp.linspace(-1.1, 1.1, 200)
    grid = enp.stack(enp.meshgrid(side, side), axis=-1).reshape(-1, 2)
    regions = enp.argmax(effx.vmap(predict, (None, 0))(layers, grid), axis=-1).reshape(200, 200)
    figure, axes = plt.subplots(figsize=(4, 4))
    axes.contourf(
        np.asarray(side), np.asarray(side), np.asarray(regions), levels=[-1, 0.5, 1.5, 3], cmap="Pastel1"
    )
    x, y = np.asarray(points).T
    axes.scatter(x, y, c=np.asarray(arms), s=8, cmap="Set1", vmax=8)
    axes.set_axis_off()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


def main() -> None:
    """Runs the example."""
    key = random.key(0)
    x, y = spirals(random.fold_in(key, 0), 300)
    unseen, arms = spirals(random.fold_in(key, 3), 300)
    layers = initial(random.fold_in(key, 1), [2, 32, 32, 3])
    layers, losses = effx.jit(train, static_argnums=4)(layers, x, y, random.fold_in(key, 2), 60)
    guesses = enp.argmax(effx.vmap(predict, (None, 0))(layers, unseen), axis=-1)
    print(f"loss {float(losses[0]):.2f}, after {losses.size} batches {float(losses[-1]):.2f}")
    print(f"accuracy on other points {float(100 * enp.mean(guesses == arms)):.1f}%")
    draw(layers, unseen, arms)


if __name__ == "__main__":
    main()
