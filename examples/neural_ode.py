"""A neural ordinary differential equation learns from points of two moons how to pull them apart.

python examples/neural_ode.py [--steps 200]

Each point moves with a velocity that a small network gives, for one unit of time; where it ends, a line divides the
classes. Gradients come from `effx.experimental.ode.odeint`'s adjoint equation (Chen, Rubanova, Bettencourt and Duvenaud,
"Neural ordinary differential equations", 2018). The points are scikit-learn's `make_moons`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import effx
import effx.numpy as enp
from effx import Array, nn, random
from effx.example_libraries import optimizers, stax
from effx.experimental.ode import odeint
from effx.tree import PyTree

PICTURE = Path(__file__).resolve().parent / "out" / "neural_ode.png"

velocity_init, velocity = stax.serial(stax.Dense(32), stax.Tanh, stax.Dense(2))


def path(network: PyTree, points: Array, times: Array) -> Array:
    """Where points f32[n, 2] are at some times; f32[times, n, 2]."""

    def slope(x: Array, t: Array, network: PyTree) -> Array:
        time = enp.full((x.shape[0], 1), t)
        found: Array = velocity(network, enp.concatenate([x, time], axis=1))
        return found

    solution: Array = odeint(slope, points, times, network, rtol=1e-3, atol=1e-3)
    return solution


def scores(model: tuple[PyTree, Array], points: Array) -> Array:
    """Logits that a point is of the second moon."""
    network, line = model
    ends = path(network, points, enp.array([0.0, 1.0]))[-1]
    return ends @ line[:2] + line[2]


def loss(model: tuple[PyTree, Array], points: Array, labels: Array) -> Array:
    logits = scores(model, points)
    return -enp.mean(enp.where(labels == 1, nn.log_sigmoid(logits), nn.log_sigmoid(-logits)))


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    steps: int = parser.parse_args().steps
    data, moons = make_moons(600, noise=0.1, random_state=0)
    points, labels = enp.asarray(data.astype(np.float32)), enp.asarray(moons.astype(np.int32))
    _, network = velocity_init(random.key(0), (-1, 3))
    start, update, model_of = optimizers.adam(2e-2)
    state = start((network, enp.array([1.0, -1.0, 0.0])))

    @effx.jit
    def step(i: int, state: optimizers.OptimizerState) -> tuple[optimizers.OptimizerState, Array]:
        value, slope = effx.value_and_grad(loss)(model_of(state), points[:300], labels[:300])
        return update(i, slope, state), value

    for i in range(steps):
        state, value = step(i, state)
        if i % 50 == 49 or i == 0:
            print(f"step {i + 1}: loss {float(value):.4f}")
    model = model_of(state)
    right = (effx.jit(scores)(model, points[300:]) > 0) == (labels[300:] == 1)
    print(f"accuracy on other points {100 * float(enp.mean(right)):.1f}%")

    moments = enp.linspace(0.0, 1.0, 4)
    found = np.asarray(effx.jit(path)(model[0], points[300:], moments))
    figure, axes = plt.subplots(1, 4, figsize=(12, 3))
    for axis, t, where in zip(axes, np.asarray(moments), found, strict=True):
        axis.scatter(where[:, 0], where[:, 1], c=moons[300:], s=6, cmap="coolwarm")
        axis.set_title(f"t = {t:.2f}")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


if __name__ == "__main__":
    main()
