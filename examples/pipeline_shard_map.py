"""A pipeline: each stage has some layers of a network, and micro-batches go through the stages one behind another.

python examples/pipeline_shard_map.py [--steps 300] [--microbatches 8]

Eight devices are a mesh of 4 stages x 2 of data. The network that reads scikit-learn's digits has eight equal blocks, two on
each stage; a batch is cut over "data", and each half into micro-batches. At each tick every stage works on what it has and
hands the result on to the next by `ppermute` (Huang et al., "GPipe", 2019). Only the way forwards is written here:
`effx.value_and_grad` turns the loop and the `ppermute` around, which is the backward pipeline. The same network without a
pipeline, on one device, has the same losses, which this script checks.

Stages wait while the first micro-batch comes to them, and after the last one has gone: a share of (stages - 1) /
(stages - 1 + micro-batches), the bubble. Here they compute on zeros meanwhile, which takes as long and means nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar

# A CPU passes for eight devices, unless something else is asked for; said before effx starts.
os.environ.setdefault("EFFX_NUM_CPU_DEVICES", "8")

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import effx
import effx.numpy as enp
from effx import Array, lax, nn, random
from effx.sharding import Mesh, NamedSharding
from effx.sharding import PartitionSpec as P

PICTURE = Path(__file__).resolve().parent / "out" / "pipeline_shard_map.png"
STAGES, DATA, BLOCKS = 4, 2, 8
WIDTH, HIDDEN, BATCH, RATE = 64, 256, 256, 0.05
LARGE, COUNTS = 2048, (1, 2, 4, 8, 16)  # a batch and numbers of micro-batches for which a step is timed
# Means of micro-batches are added in another order than that of a whole batch, so losses differ by 1e-7 of their size at
# first; training makes that grow. The loss of another batch is 1e-2 away.
TOLERANCE = 1e-4


T = TypeVar("T")


class Network(NamedTuple, Generic[T]):
    """Something for each part of a network: its weights, or how they lie."""

    enter: T  # f32[64, WIDTH]
    up: T  # f32[BLOCKS, WIDTH, HIDDEN]
    down: T  # f32[BLOCKS, HIDDEN, WIDTH]
    leave: T  # f32[WIDTH, 10]


class State(NamedTuple, Generic[T]):
    """Weights, and the mean of their gradients that gradient descent with momentum follows."""

    weights: Network[T]
    momentum: Network[T]


Weights: TypeAlias = Network[Array]
Loss: TypeAlias = Callable[[Weights, Array, Array], Array]
Step: TypeAlias = Callable[[State[Array], Array, Array], tuple[State[Array], Array]]
LAYOUT = Network(P(), P("stage"), P("stage"), P())  # the blocks are cut, the rest is on every stage


def initial(key: Array) -> Weights:
    keys = random.split(key, 4)
    shapes = [(64, WIDTH), (BLOCKS, WIDTH, HIDDEN), (BLOCKS, HIDDEN, WIDTH), (WIDTH, 10)]
    made = [random.normal(k, shape) / math.sqrt(shape[-2]) for k, shape in zip(keys, shapes, strict=True)]
    return Weights(*made)


def through(up: Array, down: Array, x: Array) -> Array:
    """What blocks make of f32[n, WIDTH], of which each adds something to what comes in."""

    def block(x: Array, w: tuple[Array, Array]) -> tuple[Array, None]:
        return x + nn.gelu(nn.standardize(x) @ w[0]) @ w[1] / math.sqrt(BLOCKS), None

    return lax.scan(block, x, (up, down))[0]


def scores(leave: Array, x: Array) -> Array:
    """The logarithms of the digits' probabilities; f32[n, 10]."""
    return nn.log_softmax(nn.standardize(x) @ leave)


def mean_loss(found: Array, y: Array) -> Array:
    return -enp.mean(enp.take_along_axis(found, y[:, None], axis=-1))


def plain(w: Weights, x: Array, y: Array) -> Array:
    """The loss without a pipeline."""
    return mean_loss(scores(w.leave, through(w.up, w.down, x @ w.enter)), y)


def own(axis: str, x: Array) -> Array:
    """A copy for each device along an axis.

    Where something that is the same along an axis meets what differs, its gradient is summed over the axis there: in a
    loop at each turn. With copies made before the loop it is summed once, after it.
    """
    return lax.pcast(x, axis, to="varying")


def pipeline(work: Callable[[Array], Array], entries: Array) -> Array:
    """Sends micro-batches through the stages; of what one device has, inside shard_map.

    Args:
        work: what a stage does with one micro-batch.
        entries: the micro-batches, f32[m, n, WIDTH].

    Returns:
        What has left this stage at each of the last m ticks; on the last stage that are the m results.
    """
    stages, here = lax.axis_size("stage"), lax.axis_index("stage")
    onward = [(s, s + 1) for s in range(stages - 1)]

    def tick(arrived: Array, entering: Array) -> tuple[Array, Array]:
        left = work(enp.where(here == 0, entering, arrived))
        return lax.ppermute(left, "stage", onward), left

    # At tick t stage s has micro-batch t - s, so the last stage begins stages - 1 ticks after the first, and the first then
    # has nothing to do as many ticks before the end.
    entering = own("stage", enp.pad(entries, ((0, stages - 1), (0, 0), (0, 0))))
    _, left = lax.scan(tick, enp.zeros_like(entering[0]), entering)
    return left[stages - 1 :]


def pipelined(mesh: Mesh, microbatches: int) -> Loss:
    """The loss that the stages compute together."""

    @effx.shard_map(mesh=mesh, in_specs=(LAYOUT, P("data"), P("data")), out_specs=P())
    def loss(w: Weights, x: Array, y: Array) -> Array:
        entries = (x @ w.enter).reshape(microbatches, -1, WIDTH)
        up, down = own("data", w.up), own("data", w.down)
        left = pipeline(lambda x: through(up, down, x), entries).reshape(-1, WIDTH)
        value = mean_loss(scores(w.leave, left), y)
        is_last = lax.axis_index("stage") == lax.axis_size("stage") - 1
        return lax.pmean(lax.psum(enp.where(is_last, value, 0.0), "stage"), "data")

    return loss


def stepping(loss: Loss) -> Step:
    """A step of gradient descent with momentum."""

    def step(state: State[Array], x: Array, y: Array) -> tuple[State[Array], Array]:
        value, slope = effx.value_and_grad(loss)(state.weights, x, y)
        momentum = effx.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.momentum, slope)
        return State(effx.tree.map(lambda w, m: w - RATE * m, state.weights, momentum), momentum), value

    return step


def compiled(mesh: Mesh, microbatches: int) -> Step:
    """A step of the pipeline, of which each device has its own part of the state."""
    each = Network(*[NamedSharding(mesh, spec) for spec in LAYOUT])
    lies = State(each, each)
    rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    step = stepping(pipelined(mesh, microbatches))
    return effx.jit(step, in_shardings=(lies, rows, rows), out_shardings=(lies, whole))


def milliseconds(step: Step, state: State[Array]) -> float:
    """The least time of a step on a batch of noise that is large enough to keep the devices busy."""
    x, y = random.normal(random.key(1), (LARGE, 64)), enp.zeros(LARGE, np.int32)
    taken = []
    for _ in range(7):
        begin = time.perf_counter()
        state, value = step(state, x, y)
        float(value)
        taken.append(1e3 * (time.perf_counter() - begin))
    return min(taken)


def bubble(microbatches: int) -> float:
    """The share of the ticks at which a stage has nothing to do."""
    return (STAGES - 1) / (STAGES - 1 + microbatches)


def schedule(microbatches: int) -> npt.NDArray[np.float64]:
    """Which micro-batch each stage has at each tick: from 1 forwards, from -1 backwards, NaN in the bubble."""
    ticks = STAGES - 1 + microbatches
    chart = np.full((STAGES, 2 * ticks), np.nan)
    for s in range(STAGES):
        for m in range(microbatches):
            chart[s, s + m] = m + 1
            chart[s, 2 * ticks - 1 - s - m] = -m - 1  # the loop runs back to its first tick
    return chart


def draw(losses: Sequence[float], microbatches: int, times: dict[int, float]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(15, 2.8), width_ratios=(2, 1, 1))
    chart = schedule(microbatches)
    axes[0].imshow(chart, cmap="coolwarm", aspect="auto")
    for s, tick in np.argwhere(~np.isnan(chart)):
        axes[0].text(tick, s, f"{abs(chart[s, tick]):.0f}", ha="center", va="center", fontsize=7)
    axes[0].set_title(f"micro-batch of each stage at each tick; bubble {100 * bubble(microbatches):.0f}%")
    axes[0].set_yticks(range(STAGES), [f"stage {s}" for s in range(STAGES)])
    axes[1].semilogy(losses)
    axes[1].set_title("loss")
    axes[2].plot(list(times), list(times.values()), "o-")
    axes[2].set_title("ms a step, by micro-batches")
    axes[2].set_xscale("log", base=2)
    axes[2].set_ylim(bottom=0)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


def main() -> None:
    """Runs the example.

    Raises:
        SystemExit: the losses of the pipeline are not those of the network without it.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument(
        "--timed", type=int, nargs="*", default=COUNTS, help="micro-batches to time a step for"
    )
    given = parser.parse_args()
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        (digits.data / 16).astype(np.float32), digits.target.astype(np.int32), test_size=0.25, random_state=0
    )
    mesh = effx.make_mesh((STAGES, DATA), ("stage", "data"))
    weights = initial(random.key(0))
    begin = State(weights, effx.tree.map(enp.zeros_like, weights))

    step, alone = compiled(mesh, given.microbatches), effx.jit(stepping(plain))
    state, reference = begin, begin
    losses: list[float] = []
    apart = 0.0
    for i in range(given.steps):
        rows = np.random.default_rng((1, i)).choice(len(train_x), BATCH, replace=False)
        x, y = enp.asarray(train_x[rows]), enp.asarray(train_y[rows])
        state, value = step(state, x, y)
        reference, wanted = alone(reference, x, y)
        losses.append(float(value))
        apart = max(apart, abs(losses[-1] - float(wanted)))
        if i == 0:
            print(
                f"mesh {dict(mesh.shape)}; up, {'x'.join(map(str, state.weights.up.shape))}, lies on it so:"
            )
            effx.debug.visualize_array_sharding(state.weights.up.reshape(BLOCKS, -1), scale=0.4)
        if i == 0 or i % 50 == 49 or i == given.steps - 1:
            print(f"step {i + 1}: loss {losses[-1]:.5f}")
    print(f"losses differ from those without a pipeline by at most {apart:.1e}")
    if not apart <= TOLERANCE:
        raise SystemExit(f"that is more than {TOLERANCE:g}")
    w = effx.device_put(state.weights, effx.devices()[0])
    found = scores(w.leave, through(w.up, w.down, test_x @ w.enter))
    guesses = np.asarray(found).argmax(axis=1)
    print(f"test accuracy {100 * np.mean(guesses == test_y):.2f}%")

    times = {}
    for m in given.timed:
        times[m] = milliseconds(compiled(mesh, m), state)
        print(f"micro-batches {m}: bubble {100 * bubble(m):.1f}%, {times[m]:.1f} ms a step")
    draw(losses, given.microbatches, times)


if __name__ == "__main__":
    main()
