"""Enclose a small network: between which bounds does its output lie, for every input of an interval?

Run it with `python examples/interval_bounds.py`. It fits a network to points of a wave, cuts the inputs into intervals, and
runs the trained network once on all of them under the handler `effx.library.intervals`. The bounds are proved, not sampled:
no input of an interval gives an output outside. It checks them at many inputs all the same, and saves a picture.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import effx
import effx.numpy as enp
from effx import Array
from effx.library.intervals import Interval, bounds

PICTURE = Path(__file__).resolve().parent / "out" / "interval_bounds.png"
WIDTHS = (1, 16, 16, 1)
STEPS, RATE = 3000, 0.03
COARSE, FINE = 40, 320

Network: TypeAlias = list[tuple[Array, Array]]


def make_network(key: Array) -> Network:
    """Draws weights for a network of `WIDTHS`, from inputs of size 1."""
    layers = zip(effx.random.split(key, len(WIDTHS) - 1), WIDTHS[:-1], WIDTHS[1:], strict=True)
    return [(effx.random.normal(k, (m, n)) / m**0.5, enp.zeros(n)) for k, m, n in layers]


def predict(network: Network, x: Array) -> Array:
    """Output f32[n] of the network for inputs f32[n]."""
    y = x[:, None]
    for w, b in network[:-1]:
        y = enp.tanh(y @ w + b)
    w, b = network[-1]
    return (y @ w + b)[:, 0]


def loss(network: Network, x: Array, y: Array) -> Array:
    """Mean squared error, with a small price of large weights, which make bounds wide."""
    price = sum(enp.sum(w**2) for w, _ in network)
    return enp.mean((predict(network, x) - y) ** 2) + 1e-4 * price


@effx.jit
def train(network: Network, x: Array, y: Array) -> Network:
    """Gradient descent with momentum, in one compiled loop."""

    def step(_: Array, state: tuple[Network, Network]) -> tuple[Network, Network]:
        network, speed = state
        slope = effx.grad(loss)(network, x, y)
        speed = effx.tree.map(lambda v, g: 0.9 * v - RATE * g, speed, slope)
        return effx.tree.map(lambda p, v: p + v, network, speed), speed

    still = effx.tree.map(enp.zeros_like, network)
    state: tuple[Network, Network] = effx.lax.fori_loop(0, STEPS, step, (network, still))
    return state[0]


def enclose(network: Network, edges: Array) -> Interval:
    """Bounds of the output on each interval between neighbouring edges."""
    interval: Interval = bounds(lambda x: predict(network, x), Interval(edges[:-1], edges[1:]))
    return interval


def draw(network: Network, points: tuple[Array, Array], path: Path) -> None:
    """Saves a picture of the network with its bounds on coarse and on fine intervals."""
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for count, colour in ((COARSE, "#cfe0f3"), (FINE, "#7fb0dd")):
        edges = enp.linspace(-1.0, 1.0, count + 1)
        within = enclose(network, edges)
        label = f"proved bounds, {count} intervals"
        axes.stairs(np.asarray(within.high), np.asarray(edges), baseline=np.asarray(within.low),
                    fill=True, color=colour, label=label)  # fmt: skip
    x = enp.linspace(-1.0, 1.0, 400)
    axes.plot(np.asarray(x), np.asarray(predict(network, x)), color="black", linewidth=1.2, label="network")
    axes.plot(*map(np.asarray, points), ".", color="tab:red", markersize=4, label="data")
    axes.set(xlim=(-1, 1), xlabel="input", ylabel="output")
    figure.legend(fontsize=8, loc="outside upper center", ncols=4, frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Proved bounds of a network's output.")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    path: Path = parser.parse_args().picture
    places, noise = enp.linspace(-1.0, 1.0, 40), effx.random.normal(effx.random.key(1), (40,))
    values = enp.sin(5.0 * places) + 0.1 * noise
    network = train(make_network(effx.random.key(0)), places, values)
    print(f"mean squared error {float(loss(network, places, values)):.4f}")

    within = enclose(network, enp.linspace(-1.0, 1.0, COARSE + 1))
    samples = predict(network, enp.linspace(-1.0, 1.0, COARSE * 100)).reshape(COARSE, 100)
    outside = (samples < within.low[:, None]) | (samples > within.high[:, None])
    print(f"outputs outside of their bounds: {int(outside.sum())} of {samples.size}")
    for count in (COARSE, FINE):
        width = enclose(network, enp.linspace(-1.0, 1.0, count + 1))
        print(f"{count} intervals: bounds {float(enp.mean(width.high - width.low)):.3f} wide on average")
    draw(network, (places, values), path)
    print(f"picture: {os.path.relpath(path)}")


if __name__ == "__main__":
    main()
