"""A transformer of letters learns a text, with gradients clipped example by example, and goes on with it.

python examples/transformer.py [--steps 600]

The text is scikit-learn's description of its data on breast cancer. Each example's gradient is clipped to one norm
before they are averaged, so that none of them moves the weights far (Abadi et al., "Deep learning with differential
privacy", 2016, without the noise). It saves a picture of the loss and of the norms.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import effx
import effx.numpy as enp
from effx import Array, lax, nn, random
from effx.example_libraries import optimizers

PICTURE = Path(__file__).resolve().parent / "out" / "transformer.png"
TEXT = " ".join(load_breast_cancer().DESCR.lower().split())
LETTERS = sorted(set(TEXT))
WIDTH, HEADS, BLOCKS, LENGTH, BATCH, NORM = 48, 4, 2, 48, 24, 0.5

Weights = dict[str, Array]


def initial(key: Array) -> Weights:
    shapes = {"embed": (len(LETTERS), WIDTH), "place": (LENGTH, WIDTH)}
    for i in range(BLOCKS):
        shapes |= {f"qkv{i}": (WIDTH, 3 * WIDTH), f"mix{i}": (WIDTH, WIDTH)}
        shapes |= {f"up{i}": (WIDTH, 4 * WIDTH), f"down{i}": (4 * WIDTH, WIDTH)}
    keys = dict(zip(sorted(shapes), random.split(key, len(shapes)), strict=True))
    return {n: random.normal(keys[n], s) / enp.sqrt(s[0]) for n, s in shapes.items()}


def apply(weights: Weights, letters: Array) -> Array:
    """Logits of the next letter at each place; f32[t, letters] of i32[t]."""
    t = letters.shape[0]
    x = weights["embed"][letters] + weights["place"][:t]
    for i in range(BLOCKS):
        q, k, v = enp.split((nn.standardize(x) @ weights[f"qkv{i}"]).reshape(t, 3 * HEADS, -1), 3, axis=1)
        seen = nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + seen.reshape(t, WIDTH) @ weights[f"mix{i}"]
        x = x + nn.gelu(nn.standardize(x) @ weights[f"up{i}"]) @ weights[f"down{i}"]
    return nn.standardize(x) @ weights["embed"].T


def loss(weights: Weights, letters: Array) -> Array:
    """The mean negative log-likelihood of each letter after those before it; letters are i32[t + 1]."""
    logits = nn.log_softmax(apply(weights, letters[:-1]))
    return -enp.mean(enp.take_along_axis(logits, letters[1:, None], axis=-1))


def clipped(weights: Weights, letters: Array) -> tuple[Weights, Array, Array]:
    """One example's gradient with a norm of at most NORM, its norm before, and the loss."""
    value, slope = effx.value_and_grad(loss)(weights, letters)
    return optimizers.clip_grads(slope, NORM), optimizers.l2_norm(slope), value


def continued(weights: Weights, letters: Array, key: Array, count: int) -> Array:
    """Draws letters after a window, one at a time; i32[count]."""

    def one(window: Array, key: Array) -> tuple[Array, Array]:
        letter = random.categorical(key, 2.0 * apply(weights, window)[-1])
        return enp.concatenate([window[1:], letter[None]]), letter

    return lax.scan(one, letters, random.split(key, count))[1]


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    steps: int = parser.parse_args().steps
    codes = enp.array([LETTERS.index(letter) for letter in TEXT])
    start, update, weights_of = optimizers.adam(5e-3)
    state = start(initial(random.key(0)))

    @effx.jit
    def step(
        i: int, state: optimizers.OptimizerState, key: Array
    ) -> tuple[optimizers.OptimizerState, Array, Array]:
        begins = random.randint(key, (BATCH,), 0, len(TEXT) - LENGTH)
        windows = codes[begins[:, None] + enp.arange(LENGTH + 1)]
        slopes, norms, values = effx.vmap(clipped, (None, 0))(weights_of(state), windows)
        return update(i, effx.tree.map(lambda g: g.mean(0), slopes), state), values.mean(), norms

    losses, norms = [], []
    for i in range(steps):
        state, value, found = step(i, state, random.fold_in(random.key(1), i))
        losses.append(float(value))
        norms.append(np.asarray(found))
        if i == 0 or i % 100 == 99:
            print(
                f"step {i + 1}: loss {losses[-1]:.3f}, gradient norms {norms[-1].min():.2f} to {norms[-1].max():.2f}"
            )
    begin = TEXT.index("data set")
    said = effx.jit(continued, static_argnums=3)(
        weights_of(state), codes[begin - LENGTH + 8 : begin + 8], random.key(2), 80
    )
    print("said: data set" + "".join([LETTERS[int(i)] for i in said]))

    figure, axes = plt.subplots(1, 2, figsize=(9, 3))
    axes[0].plot(losses)
    axes[0].set_title("loss, nats a letter")
    axes[1].plot(np.median(norms, axis=1), label="median")
    axes[1].plot(np.max(norms, axis=1), label="largest")
    axes[1].axhline(NORM, color="gray")
    axes[1].set_title("gradient norms of examples")
    axes[1].legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


if __name__ == "__main__":
    main()
