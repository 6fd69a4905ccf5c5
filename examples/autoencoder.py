"""A variational autoencoder draws digits that nobody has written.

python examples/autoencoder.py [--epochs 40]

It follows Kingma and Welling, "Auto-encoding variational Bayes", 2014, on scikit-learn's digits: the bound on the
likelihood is estimated with one draw for each picture, and differentiated through the draw.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import effx
import effx.numpy as enp
from effx import Array, lax, nn, random
from effx.example_libraries import optimizers, stax
from effx.tree import PyTree

PICTURE = Path(__file__).resolve().parent / "out" / "autoencoder.png"
HIDDEN, BATCH = 4, 64

encoder_init, encode = stax.serial(
    stax.Dense(128),
    stax.Relu,
    stax.FanOut(2),
    stax.parallel(stax.Dense(HIDDEN), stax.serial(stax.Dense(HIDDEN), stax.Softplus)),
)
decoder_init, decode = stax.serial(stax.Dense(128), stax.Relu, stax.Dense(64))


def bound(network: tuple[PyTree, PyTree], x: Array, key: Array) -> Array:
    """The evidence lower bound of pictures f32[n, 64] with values from 0 to 1, in nats for each picture."""
    mean, deviation = encode(network[0], x)
    z = mean + deviation * random.normal(key, mean.shape)
    logits = decode(network[1], z)
    likelihood = enp.sum(x * nn.log_sigmoid(logits) + (1 - x) * nn.log_sigmoid(-logits), axis=-1)
    divergence = 0.5 * enp.sum(mean**2 + deviation**2 - 1 - 2 * enp.log(deviation + 1e-6), axis=-1)
    return enp.mean(likelihood - divergence)


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    epochs: int = parser.parse_args().epochs
    pictures = enp.asarray((load_digits().data / 16).astype(np.float32))
    train, unseen = pictures[:1536], pictures[1536:]
    keys = random.split(random.key(0), 3)
    _, encoder = encoder_init(keys[0], (-1, 64))
    _, decoder = decoder_init(keys[1], (-1, HIDDEN))
    start, update, network_of = optimizers.adam(2e-3)

    @effx.jit
    def epoch(
        state: optimizers.OptimizerState, key: Array, first: Array
    ) -> tuple[optimizers.OptimizerState, Array]:
        """One pass over the pictures, in a scan."""
        order, noise = random.split(key)
        batches = train[random.permutation(order, train.shape[0])].reshape(-1, BATCH, 64)

        def one(
            carry: tuple[optimizers.OptimizerState, Array], given: tuple[Array, Array]
        ) -> tuple[tuple[optimizers.OptimizerState, Array], Array]:
            state, i = carry
            x, key = given
            value, slope = effx.value_and_grad(lambda n: -bound(n, x, key))(network_of(state))
            return (update(i, slope, state), i + 1), -value

        carry, values = lax.scan(one, (state, first), (batches, random.split(noise, batches.shape[0])))
        return carry[0], enp.mean(values)

    state, bounds = start((encoder, decoder)), []
    steps = train.shape[0] // BATCH
    for i in range(epochs):
        state, value = epoch(state, random.fold_in(keys[2], i), enp.asarray(i * steps))
        bounds.append(float(value))
        if i % 10 == 9 or i == 0:
            print(f"epoch {i + 1}: bound {bounds[-1]:.2f} nats")
    network = network_of(state)
    other = float(effx.jit(bound)(network, unseen, random.key(1)))
    print(f"bound on unseen pictures {other:.2f} nats, of a coin for each pixel {-64 * math.log(2):.2f}")

    drawn = nn.sigmoid(decode(network[1], random.normal(random.key(2), (30, HIDDEN))))
    figure, axes = plt.subplots(3, 10, figsize=(10, 3))
    for axis, picture in zip(axes.ravel(), np.asarray(drawn).reshape(-1, 8, 8), strict=True):
        axis.imshow(picture, cmap="gray_r")
        axis.set_axis_off()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


if __name__ == "__main__":
    main()
