"""Recognise handwritten digits: train a small network, then ask it what derivatives can tell.

Run it with `make demo`, or `python examples/digits.py`. It trains a multi-layer perceptron on
scikit-learn's digits (1,797 pictures of 8 by 8), finds the example that pulls hardest at the
weights, measures the curvature of the loss, proves with a handler of its own which pictures no small
noise can make it misread, and saves a picture.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import attrs
import matplotlib as mpl

mpl.use("Agg")

import itertools

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import effx
import effx.numpy as enp
from effx import Array
from effx.handling import BoxHandler, ops

PICTURE = Path(__file__).resolve().parent / "out" / "digits.png"
WIDTHS = (64, 128, 64, 10)
EPOCHS, BATCH, RATE = 30, 64, 2e-3

Floats: TypeAlias = npt.NDArray[np.float32]
Labels: TypeAlias = npt.NDArray[np.int32]


class Layer(NamedTuple):
    """An affine map: `w` is f32[inputs, outputs], `b` is f32[outputs]."""

    w: Array
    b: Array


Network: TypeAlias = list[Layer]


class Adam(NamedTuple):
    """State of the optimiser (Kingma and Ba, 2015): decayed means of gradients and of their squares."""

    step: Array
    mean: Network
    square: Network


class Data(NamedTuple):
    """Pictures f32[n, 64] with values from 0 to 1, and the digits s32[n] that they show."""

    train_x: Floats
    train_y: Labels
    test_x: Floats
    test_y: Labels


def load() -> Data:
    digits = load_digits()
    x = (digits.data / 16.0).astype(np.float32)
    y = digits.target.astype(np.int32)
    train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=0.2, random_state=0, stratify=y)
    return Data(train_x, train_y, test_x, test_y)


# --- the network --------------------------------------------------------------------------------


def initial(key: Array, widths: Sequence[int]) -> Network:
    """Weights with variance 1 / inputs (LeCun et al., 1998), biases zero."""
    layers: Network = []
    for inputs, outputs in itertools.pairwise(widths):
        key, part = effx.random.split(key)
        w = effx.random.normal(part, (inputs, outputs)) * math.sqrt(1.0 / inputs)
        layers.append(Layer(w, enp.zeros(outputs)))
    return layers


def logits(network: Network, x: Array) -> Array:
    """What speaks for each digit: f32[*batch, 10] for f32[*batch, 64]."""
    for w, b in network[:-1]:
        x = enp.tanh(x @ w + b)
    w, b = network[-1]
    return x @ w + b


def scores(network: Network, x: Array) -> Array:
    """Logarithms of the probabilities of the digits: f32[*batch, 10] for f32[*batch, 64]."""
    return effx.nn.log_softmax(logits(network, x))


def loss(network: Network, x: Array, y: Array) -> Array:
    """Mean cross entropy, for a batch and for one example alike."""
    return -enp.mean(enp.sum(scores(network, x) * effx.nn.one_hot(y, 10), axis=-1))


loss_and_gradient = effx.jit(effx.value_and_grad(loss))


@effx.jit
def accuracy(network: Network, x: Array, y: Array) -> Array:
    return enp.mean(enp.argmax(scores(network, x), axis=-1) == y)


# --- training -----------------------------------------------------------------------------------


def start(network: Network) -> Adam:
    return Adam(
        step=enp.zeros(()),
        mean=effx.tree.map(enp.zeros_like, network),
        square=effx.tree.map(enp.zeros_like, network),
    )


@effx.jit
def adam(state: Adam, network: Network, gradient: Network) -> tuple[Adam, Network]:
    """One step against the gradient, each weight at a pace of its own."""
    step = state.step + 1.0
    mean = effx.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, gradient)
    square = effx.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, gradient)
    # Means that start at zero are too small at first, by these factors.
    mean_part, square_part = 1.0 - 0.9**step, 1.0 - 0.999**step

    def moved(p: Array, m: Array, s: Array) -> Array:
        return p - RATE * (m / mean_part) / (enp.sqrt(s / square_part) + 1e-8)

    return Adam(step, mean, square), effx.tree.map(moved, network, mean, square)


def batches(data: Data, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Each example once, in random order; the few that don't fill a batch wait for the next turn."""
    order = rng.permutation(len(data.train_x))
    for i in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[i : i + BATCH]
        yield enp.asarray(data.train_x[chosen]), enp.asarray(data.train_y[chosen])


def train(network: Network, data: Data) -> tuple[Network, list[float]]:
    """Train, and give back the network and the loss of every step."""
    rng = np.random.default_rng(0)
    state = start(network)
    losses: list[float] = []
    progress = tqdm(range(EPOCHS), desc="training", unit="epoch")
    for _ in progress:
        for x, y in batches(data, rng):
            value, gradient = loss_and_gradient(network, x, y)
            state, network = adam(state, network, gradient)
            losses.append(float(value))
        progress.set_postfix(loss=f"{np.mean(losses[-20:]):.4f}")
    return network, losses


# --- what derivatives can tell ------------------------------------------------------------------


def squared_norm(network: Network) -> Array:
    return sum((enp.sum(leaf * leaf) for leaf in effx.tree.leaves(network)), start=enp.zeros(()))


@effx.jit
def gradient_norms(network: Network, x: Array, y: Array) -> Array:
    """How hard each example pulls at the weights: norms f32[n] of the gradients of n examples."""
    gradients = effx.vmap(effx.grad(loss), in_axes=(None, 0, 0))(network, x, y)
    return enp.sqrt(effx.vmap(squared_norm)(gradients))


@effx.jit
def curvature(network: Network, x: Array, y: Array) -> Array:
    """Second derivative of the loss along its gradient g: (g . H g) / (g . g).

    The product of the Hessian H and g is the derivative of the gradient in the direction g, so it
    takes one `jvp` of `grad`, and H itself is never formed.
    """

    def gradient_at(at: Network) -> Network:
        gradient: Network = effx.grad(loss)(at, x, y)
        return gradient

    direction = gradient_at(network)
    _, product = effx.jvp(gradient_at, (network,), (direction,))
    products = effx.tree.map(lambda g, h: enp.sum(g * h), direction, product)
    return sum(effx.tree.leaves(products), start=enp.zeros(())) / squared_norm(direction)


# --- a handler of your own ----------------------------------------------------------------------

# Interval arithmetic on the same network: each value becomes bounds that it cannot leave.


@attrs.frozen
class Bounds:
    """What a box of the handler carries: all values lie between `low` and `high`."""

    low: Array
    high: Array


@attrs.frozen
class Interval(BoxHandler[Bounds]):
    """Runs a function on intervals."""

    def lift(self, x: Array) -> Bounds:
        return Bounds(x, x)


@Interval.rule(ops.Monotone)  # tanh, exp, floor and all others that never fall
def _(op: ops.Monotone, x: Bounds) -> Bounds:
    return Bounds(op(x.low), op(x.high))


@Interval.rule(ops.Add)
def _(op: ops.Add, x: Bounds, y: Bounds) -> Bounds:
    return Bounds(x.low + y.low, x.high + y.high)


@Interval.rule(ops.DotGeneral)  # by weights that are known exactly
def _(op: ops.DotGeneral, x: Bounds, w: Bounds) -> Bounds:
    middle, radius = op((x.low + x.high) / 2, w.low), op((x.high - x.low) / 2, abs(w.low))
    return Bounds(middle - radius, middle + radius)


@effx.jit
def certified(network: Network, x: Array, y: Array, noise: Array) -> Array:
    """Fraction of pictures that no change of all pixels by up to `noise` makes the network misread."""
    reach = Interval().run(lambda x: logits(network, x), Bounds(x - noise, x + noise), like=x)
    worst = enp.where(effx.nn.one_hot(y, 10) == 1, reach.low, reach.high)
    return enp.mean(enp.argmax(worst, axis=-1) == y)


# --- the picture --------------------------------------------------------------------------------


def draw(losses: Sequence[float], data: Data, guesses: Labels, hardest: int, norms: Floats) -> None:
    """Save losses, the hardest training example, and test examples, the mistaken ones first."""
    figure = plt.figure(figsize=(11, 4.5), layout="constrained")
    grid = figure.add_gridspec(3, 9)
    curve = figure.add_subplot(grid[:, :4])
    curve.semilogy(losses, linewidth=0.8)
    curve.set(title="training loss", xlabel="step", ylabel="cross entropy")
    wrong = guesses != data.test_y
    order = np.argsort(~wrong, kind="stable")
    panels = [(data.train_x[hardest], f"hardest: {data.train_y[hardest]}", "tab:purple")]
    for i in order[:14]:
        title = f"{data.test_y[i]} read as {guesses[i]}" if wrong[i] else f"{guesses[i]}"
        panels.append((data.test_x[i], title, "tab:red" if wrong[i] else "tab:green"))
    for place, (pixels, title, colour) in enumerate(panels):
        axes = figure.add_subplot(grid[place // 5, 4 + place % 5])
        axes.imshow(pixels.reshape(8, 8), cmap="gray_r")
        axes.set_title(title, fontsize=8, color=colour)
        axes.set_axis_off()
    figure.suptitle(f"digits: {np.mean(~wrong):.1%} right, gradient norms up to {np.max(norms):.3g}")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


def main() -> None:
    began = time.perf_counter()
    data = load()
    network = initial(effx.random.key(0), WIDTHS)
    train_x, train_y = enp.asarray(data.train_x), enp.asarray(data.train_y)
    test_x, test_y = enp.asarray(data.test_x), enp.asarray(data.test_y)
    before = float(curvature(network, train_x, train_y))

    network, losses = train(network, data)
    right = float(accuracy(network, test_x, test_y))
    print(f"test accuracy {right:.2%} after {len(losses)} steps")

    norms = np.asarray(gradient_norms(network, train_x, train_y))
    hardest = int(np.argmax(norms))
    print(
        f"hardest training example: number {hardest}, a {data.train_y[hardest]}, with gradient norm "
        f"{norms[hardest]:.3g} (median {np.median(norms):.2g})"
    )
    for noise in (0.001, 0.005, 0.02):
        safe = float(certified(network, test_x, test_y, enp.float32(noise)))
        print(
            f"proved right whatever happens to pixels by {noise:g} (of 0 to 1): {safe:.1%} of the test pictures"
        )
    after = float(curvature(network, train_x, train_y))
    print(f"curvature along the gradient: {before:.3g} before training, {after:.3g} after")

    guesses = np.asarray(enp.argmax(scores(network, test_x), axis=-1))
    draw(losses, data, guesses, hardest, norms)
    print(f"picture: {os.path.relpath(PICTURE)}")
    print(f"took {time.perf_counter() - began:.1f} s")
    if right <= 0.95:
        raise SystemExit("test accuracy is not above 95%")


if __name__ == "__main__":
    main()
