"""A residual convolutional network of `stax` reads handwritten digits, trained by `optimizers`.

python examples/residual.py [--epochs 12]

The data are scikit-learn's digits, 1,797 pictures of 8 by 8. It saves a picture of the loss and of what was misread.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import effx
import effx.numpy as enp
from effx import Array, random
from effx.example_libraries import optimizers, stax
from effx.tree import PyTree

PICTURE = Path(__file__).resolve().parent / "out" / "residual.png"
BATCH = 64


def block(channels: int) -> stax.Layer:
    """Two convolutions of 3 by 3, added to what comes in."""
    inner = stax.serial(
        stax.Conv(channels, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu,
        stax.Conv(channels, (3, 3), padding="SAME"), stax.BatchNorm(),
    )  # fmt: skip
    return stax.serial(stax.FanOut(2), stax.parallel(inner, stax.Identity), stax.FanInSum, stax.Relu)


initialize, apply = stax.serial(
    stax.Conv(16, (3, 3), padding="SAME"), stax.Relu, block(16), stax.AvgPool((2, 2), strides=(2, 2)), block(16),
    stax.Flatten, stax.Dense(10), stax.LogSoftmax,
)  # fmt: skip


def loss(network: PyTree, x: Array, labels: Array) -> Array:
    """The mean negative log-likelihood; x is f32[n, 8, 8, 1]."""
    return -enp.mean(enp.take_along_axis(apply(network, x), labels[:, None], axis=1))


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    epochs: int = parser.parse_args().epochs
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target.astype(np.int32), test_size=0.25, random_state=0
    )
    schedule = optimizers.exponential_decay(3e-3, decay_steps=100, decay_rate=0.7)
    start, update, network_of = optimizers.adam(schedule)
    _, network = initialize(random.PRNGKey(0), (-1, 8, 8, 1))
    state = start(network)

    @effx.jit
    def step(
        i: int, state: optimizers.OptimizerState, x: Array, y: Array
    ) -> tuple[optimizers.OptimizerState, Array]:
        value, slope = effx.value_and_grad(loss)(network_of(state), x, y)
        return update(i, optimizers.clip_grads(slope, 5.0), state), value

    losses = []
    steps = len(train_x) // BATCH
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(train_x))[: steps * BATCH].reshape(steps, BATCH)
        for k, rows in enumerate(order):
            state, value = step(
                epoch * steps + k, state, enp.asarray(train_x[rows]), enp.asarray(train_y[rows])
            )
            losses.append(float(value))
        print(f"epoch {epoch + 1}: loss {np.mean(losses[-steps:]):.4f}")
    scores = np.asarray(effx.jit(apply)(network_of(state), enp.asarray(test_x)))
    guesses = scores.argmax(axis=1)
    wrong = np.flatnonzero(guesses != test_y)
    print(f"test accuracy {100 * np.mean(guesses == test_y):.2f}%, misread {wrong.size} of {len(test_y)}")

    figure, axes = plt.subplots(1, 5, figsize=(12, 2.6))
    axes[0].semilogy(losses)
    axes[0].set_title("loss")
    for axis, i in zip(axes[1:], [*wrong, 0, 1, 2, 3], strict=False):
        axis.imshow(test_x[i, ..., 0], cmap="gray_r")
        axis.set_title(f"a {test_y[i]}, read as {guesses[i]}")
        axis.set_axis_off()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


if __name__ == "__main__":
    main()
