"""A transformer of letters, trained by eight devices of one process, or by those of several: the losses are the same.

python examples/data_and_tensor_parallel.py [--steps 200] [--model 2] [--blocks 2]
python -m effx.distributed.launch -n 4 --devices-per-process 2 examples/data_and_tensor_parallel.py

The devices are a mesh of data x model. A batch is cut over "data". Attention heads and hidden units are cut over "model", so
that a block needs one sum over "model" after the heads and one after the hidden units (Shoeybi et al., "Megatron-LM", 2019).
Each process reads only the lines that its own devices compute on. The text is scikit-learn's description of its data on
breast cancer. `--losses FILE` keeps the losses, and `--same-as FILE` compares with those of another run.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

# A CPU passes for eight devices, unless something else is asked for; said before effx starts.
os.environ.setdefault("EFFX_NUM_CPU_DEVICES", "8")

import numpy as np
from sklearn.datasets import load_breast_cancer

import effx
import effx.numpy as enp
from effx import Array, lax, nn, random
from effx.sharding import Mesh, NamedSharding
from effx.sharding import PartitionSpec as P

PICTURE = Path(__file__).resolve().parent / "out" / "data_and_tensor_parallel.png"
TEXT = " ".join(load_breast_cancer().DESCR.lower().split())
LETTERS = sorted(set(TEXT))
WIDTH, HEADS, LENGTH, BATCH, RATE = 32, 4, 32, 32, 1e-2
# Several processes add the parts of the devices in another order than one does, so losses and gradients differ by 1e-7 of
# their size. In 200 steps that became 5e-7, and 4e-6 against one device alone. The loss of another batch is 1e-2 away.
TOLERANCE = 1e-4

Weights = dict[str, Array]
State = dict[str, Weights]  # the weights, and Adam's means of gradients and of their squares


def layout(blocks: int) -> dict[str, tuple[tuple[int, ...], P]]:
    """Shape of each weight, and along which axis it is cut."""
    found: dict[str, tuple[tuple[int, ...], P]]
    found = {"embed": ((len(LETTERS), WIDTH), P()), "place": ((LENGTH, WIDTH), P())}
    head, inner = (WIDTH, HEADS, WIDTH // HEADS), 4 * WIDTH
    for i in range(blocks):
        found |= {f"{name}{i}": (head, P(None, "model")) for name in ("query", "key", "value")}
        found |= {f"mix{i}": ((*head[1:], WIDTH), P("model"))}
        found |= {f"up{i}": ((WIDTH, inner), P(None, "model")), f"down{i}": ((inner, WIDTH), P("model"))}
    return found


def initial(key: Array, blocks: int) -> State:
    shapes = {name: shape for name, (shape, _) in layout(blocks).items()}
    weights = {}
    for own, (name, shape) in zip(random.split(key, len(shapes)), shapes.items(), strict=True):
        inputs = WIDTH if name.startswith("mix") else shape[0]
        weights[name] = random.normal(own, shape) / math.sqrt(inputs)
    zeros = effx.tree.map(enp.zeros_like, weights)
    return {"weights": weights, "mean": zeros, "square": zeros}


def apply(weights: Weights, letters: Array) -> Array:
    """Logits of the next letter at each place; f32[batch, t, letters] of i32[batch, t]."""
    x = weights["embed"][letters] + weights["place"][: letters.shape[1]]
    for i in range((len(weights) - 2) // 6):
        h = nn.standardize(x)
        q, k, v = [
            enp.einsum("btw,whd->bthd", h, weights[f"{name}{i}"]) for name in ("query", "key", "value")
        ]
        seen = lax.with_sharding_constraint(
            nn.dot_product_attention(q, k, v, is_causal=True), P("data", None, "model")
        )
        x = x + enp.einsum("bthd,hdw->btw", seen, weights[f"mix{i}"])
        h = nn.gelu(nn.standardize(x) @ weights[f"up{i}"])
        h = lax.with_sharding_constraint(h, P("data", None, "model"))
        x = lax.with_sharding_constraint(x + h @ weights[f"down{i}"], P("data"))
    return nn.standardize(x) @ weights["embed"].T


def loss(weights: Weights, letters: Array) -> Array:
    """The mean negative log-likelihood of each letter after those before it; letters are i32[batch, t + 1]."""
    logits = nn.log_softmax(apply(weights, letters[:, :-1]))
    return -enp.mean(enp.take_along_axis(logits, letters[:, 1:, None], axis=-1))


def step(i: int, state: State, letters: Array) -> tuple[State, Array]:
    """One step of Adam (Kingma and Ba, 2015)."""
    value, slope = effx.value_and_grad(loss)(state["weights"], letters)
    mean = effx.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], slope)
    square = effx.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state["square"], slope)
    rate = RATE * enp.sqrt(1.0 - 0.99 ** (i + 1.0)) / (1.0 - 0.9 ** (i + 1.0))
    weights = effx.tree.map(
        lambda w, m, s: w - rate * m / (enp.sqrt(s) + 1e-8), state["weights"], mean, square
    )
    return {"weights": weights, "mean": mean, "square": square}, value


def batch(i: int, codes: np.ndarray[tuple[int], np.dtype[np.int32]], rows: NamedSharding) -> Array:
    """The lines of step i, of which this process reads those that its devices hold; i32[BATCH, LENGTH + 1]."""
    begins = np.random.default_rng((1, i)).integers(0, len(codes) - LENGTH, BATCH)
    indices = rows.addressable_devices_indices_map((BATCH, LENGTH + 1)).values()
    held = {lines.start or 0: lines for lines, _ in indices}  # devices along "model" have the same ones
    mine = np.concatenate([begins[held[start]] for start in sorted(held)])
    own = codes[mine[:, None] + np.arange(LENGTH + 1)]
    return effx.make_array_from_process_local_data(rows, own, (BATCH, LENGTH + 1))


def train(steps: int, blocks: int, mesh: Mesh) -> list[float]:
    """Trains on a mesh, and returns the losses."""
    rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    lies = {name: NamedSharding(mesh, spec) for name, (_, spec) in layout(blocks).items()}
    each = dict.fromkeys(("weights", "mean", "square"), lies)
    # Each device makes its own part of the weights, and none has all of them.
    state = effx.jit(initial, static_argnums=1, out_shardings=each)(random.key(0), blocks)
    compiled = effx.jit(step, in_shardings=(whole, each, rows), out_shardings=(each, whole), donate_argnums=1)
    first = effx.process_index() == 0
    if first:
        print(f"{effx.process_count()} processes, {effx.device_count()} devices, mesh {dict(mesh.shape)}")
        print(f"up0, {'x'.join(map(str, state['weights']['up0'].shape))}, lies on them so:")
        effx.debug.visualize_array_sharding(state["weights"]["up0"], scale=0.4)
    codes = np.array([LETTERS.index(letter) for letter in TEXT], np.int32)
    losses = []
    with effx.set_mesh(mesh):
        for i in range(steps):
            state, value = compiled(i, state, batch(i, codes, rows))
            losses.append(float(value))
            if first and (i == 0 or i % 20 == 19 or i == steps - 1):
                print(f"step {i + 1}: loss {losses[-1]:.5f}")
    return losses


def draw(losses: list[float]) -> None:
    import matplotlib as mpl  # here, since one process of all draws

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3))
    axes.plot(losses)
    axes.set_title(f"loss, nats a letter; {effx.process_count()} processes, {effx.device_count()} devices")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, bbox_inches="tight")
    print(f"picture: {os.path.relpath(PICTURE)}")


def compare(losses: list[float], path: str) -> None:
    """Says how far two curves are apart, and fails if that is more than rounding.

    Raises:
        SystemExit: it is, or the runs differ in length.
    """
    other = np.loadtxt(path, ndmin=1)
    if len(other) != len(losses):
        raise SystemExit(f"{path} has {len(other)} losses, this run {len(losses)}")
    apart = np.abs(np.array(losses) - other).max()
    print(f"losses differ from {path} by at most {apart:.1e}")
    if not apart <= TOLERANCE:
        raise SystemExit(f"that is more than {TOLERANCE:g}")


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--model", type=int, default=2, help="how many devices share one copy of the weights")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--losses", metavar="FILE", help="where to keep the losses")
    parser.add_argument("--same-as", metavar="FILE", help="losses of another run, which must be the same")
    given = parser.parse_args()
    if "EFFX_PROCESS_ID" in os.environ:  # started by the launcher
        effx.distributed.initialize()
    model = math.gcd(effx.device_count(), given.model)
    mesh = effx.make_mesh((effx.device_count() // model, model), ("data", "model"))
    losses = train(given.steps, given.blocks, mesh)
    if effx.process_index():
        return
    if given.losses:
        Path(given.losses).parent.mkdir(exist_ok=True)
        np.savetxt(given.losses, losses)
    draw(losses)
    if given.same_as:
        compare(losses, given.same_as)


if __name__ == "__main__":
    main()
