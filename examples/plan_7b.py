"""How a transformer of 7 billion parameters would train on 256 accelerators: compiled for them without any.

python examples/plan_7b.py [--platform cpu] [--mesh 256x1 64x4 16x16] [--layers 32]

The training step (a forward pass with checkpointed layers, gradients, Adam) is staged for descriptions of arrays,
partitioned and compiled for a topology, and read: memory, collectives and the time that they take at least. On
the mesh `data x model`, layers are cut along `model` as in Megatron-LM (Shoeybi et al., 2019), and every matrix of weights
and of Adam's moments along `data` too, as in ZeRO-3 (Rajbhandari et al., 2020). Nothing of it is ever in memory.

With `--platform tpu` and libtpu installed it is compiled for a TPU v5e, which takes minutes and some GB; a CPU's
partitioner is the same, but its bfloat16 travels as float32.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any, final

import attrs

import effx
import effx.numpy as enp
from effx import Array, ShapeDtypeStruct, lax, nn
from effx.experimental import topologies
from effx.library.scaling import Hardware, Plan, plan
from effx.sharding import Mesh, NamedSharding
from effx.sharding import PartitionSpec as P

PICTURE = Path(__file__).resolve().parent / "out" / "plan_7b.png"

# Google Cloud, "TPU v5e": 197 Tflop/s in bfloat16, 16 GB at 819 GB/s. It has four links of 50 GB/s in each direction, two
# along each axis of a torus.
V5E = Hardware("TPU v5e", flops=197e12, bandwidth=819e9, memory=16e9, links=100e9)

Weights = dict[str, Any]
# How each array of weights lies; those of layers are stacked along a first axis.
SPECS = {
    "embed": P("model", "data"),
    "head": P("data", "model"),
    "scale": P(),
    "qkv": P(None, "data", None, "model"),
    "mix": P(None, "model", None, "data"),
    "gate": P(None, "data", "model"),
    "up": P(None, "data", "model"),
    "down": P(None, "model", "data"),
    "scale1": P(),
    "scale2": P(),
}


@final
@attrs.frozen
class Sizes:
    """Sizes of a model and its batch; by default Llama 2 7B's (Touvron et al., 2023), with half a million tokens."""

    layers: int = 32
    width: int = 4096
    heads: int = 32
    hidden: int = 11008
    tokens: int = 32000
    length: int = 2048
    batch: int = 256

    def shapes(self) -> dict[str, tuple[int, ...]]:
        n, d, h, f = self.layers, self.width, self.heads, self.hidden
        return {
            "embed": (self.tokens, d),
            "head": (d, self.tokens),
            "scale": (d,),
            "qkv": (n, d, 3, h, d // h),
            "mix": (n, h, d // h, d),
            "gate": (n, d, f),
            "up": (n, d, f),
            "down": (n, f, d),
            "scale1": (n, d),
            "scale2": (n, d),
        }

    @property
    def parameters(self) -> int:
        return sum(map(math.prod, self.shapes().values()))


@final
@attrs.frozen
class Step:
    """One step of training on a mesh."""

    sizes: Sizes
    mesh: Mesh

    def on(self, *entries: Any) -> NamedSharding:
        return NamedSharding(self.mesh, P(*entries))

    def lying(self, x: Array, *entries: Any) -> Array:
        return lax.with_sharding_constraint(x, self.on(*entries))

    def normalized(self, x: Array, scale: Array) -> Array:
        y = x.astype(enp.float32)
        y = y * lax.rsqrt(enp.mean(y * y, -1, keepdims=True) + 1e-6)
        return y.astype(x.dtype) * scale

    def layer(self, x: Array, w: Weights) -> tuple[Array, None]:
        """One layer; bf16[batch, length, width], each example whole on all devices along `model`."""
        head = self.sizes.width // self.sizes.heads
        y = self.normalized(x, w["scale1"])
        qkv = self.lying(enp.einsum("btd,dchk->btchk", y, w["qkv"]), "data", None, None, "model")
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = enp.einsum("bthk,bshk->bhts", q, k).astype(enp.float32) / math.sqrt(head)
        seen = enp.tril(enp.ones(scores.shape[-2:], bool))
        weights = nn.softmax(enp.where(seen, scores, -1e30), -1).astype(x.dtype)
        mixed = self.lying(enp.einsum("bhts,bshk->bthk", weights, v), "data", None, "model")
        x = x + self.lying(enp.einsum("bthk,hkd->btd", mixed, w["mix"]), "data")
        y = self.normalized(x, w["scale2"])
        inner = self.lying(nn.silu(y @ w["gate"]) * (y @ w["up"]), "data", None, "model")
        return x + self.lying(inner @ w["down"], "data"), None

    def loss(self, weights: Weights, tokens: Array) -> Array:
        """The mean negative log-likelihood of each token after those before it; tokens are i32[batch, length + 1]."""
        table = self.lying(weights["embed"], "model")
        x = self.lying(table[tokens[:, :-1]], "data")
        outside = ("embed", "head", "scale")
        stacked = {n: w for n, w in weights.items() if n not in outside}
        x, _ = lax.scan(effx.checkpoint(self.layer), x, stacked)
        logits = (self.normalized(x, weights["scale"]) @ weights["head"]).astype(enp.float32)
        found = enp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
        return enp.mean(nn.logsumexp(logits, -1) - found)

    def __call__(self, state: tuple[Weights, Weights, Weights], tokens: Array) -> tuple[Any, Array]:
        """Adam with bfloat16 weights and float32 moments; without its correction of the first steps."""
        weights, first, second = state
        value, gradient = effx.value_and_grad(self.loss)(weights, tokens)
        g = effx.tree.map(lambda x: x.astype(enp.float32), gradient)
        first = effx.tree.map(lambda m, x: 0.9 * m + 0.1 * x, first, g)
        second = effx.tree.map(lambda v, x: 0.95 * v + 0.05 * x * x, second, g)
        weights = effx.tree.map(
            lambda w, m, v: (w.astype(enp.float32) - 3e-4 * m / (enp.sqrt(v) + 1e-8)).astype(w.dtype),
            weights,
            first,
            second,
        )
        return (weights, first, second), value

    def arguments(self) -> tuple[Any, ShapeDtypeStruct]:
        """What a step takes, described."""
        shapes = self.sizes.shapes()

        def described(dtype: Any) -> Weights:
            return {n: ShapeDtypeStruct(s, dtype, sharding=self.on(*SPECS[n])) for n, s in shapes.items()}

        tokens = (self.sizes.batch, self.sizes.length + 1)
        state = (described(enp.bfloat16), described(enp.float32), described(enp.float32))
        return state, ShapeDtypeStruct(tokens, enp.int32, sharding=self.on("data"))


def compiled(sizes: Sizes, mesh: Mesh) -> Any:
    """Returns the compiled step."""
    step = Step(sizes, mesh)
    state, tokens = step.arguments()
    lies = effx.tree.map(lambda s: s.sharding, state)

    def train(state: Any, tokens: Any) -> Any:
        return step(state, tokens)

    return effx.jit(train, donate_argnums=0, out_shardings=(lies, None)).lower(state, tokens).compile()


def draw(plans: dict[str, Plan]) -> None:
    """Saves a picture of what takes how long on each mesh, and of the memory."""
    import matplotlib as mpl  # here, since others import this module for its step

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, (times, memory) = plt.subplots(1, 2, figsize=(8, 3), width_ratios=(3, 1), layout="constrained")
    places = np.arange(len(plans))
    for i, part in enumerate(("compute", "memory", "communication")):
        seconds = [getattr(p, f"{part}_seconds") for p in plans.values()]
        times.bar(places + 0.25 * (i - 1), seconds, 0.25, label=part)
    times.set(title="seconds a step, at least", xlabel="data x model")
    times.legend(fontsize=8)
    memory.bar(places, [p.memory.total / 1e9 for p in plans.values()], color="tab:gray")
    memory.axhline(V5E.memory / 1e9, color="tab:red")
    memory.set(title="GB of a device", xlabel="data x model")
    for axes in (times, memory):
        axes.set_xticks(places, list(plans))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    print(f"picture: {os.path.relpath(PICTURE)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--platform", default="cpu", choices=("cpu", "tpu"))
    parser.add_argument("--topology", default="16x16", help="the devices, as rows and columns of a torus")
    parser.add_argument("--mesh", nargs="+", default=["256x1", "64x4", "16x16"], help="data x model")
    parser.add_argument("--layers", type=int, default=Sizes().layers)
    parser.add_argument("--small", action="store_true", help="every size a sixteenth or less")
    options = parser.parse_args()
    sizes = Sizes(layers=options.layers)
    if options.small:
        sizes = Sizes(options.layers, 256, 16, 512, 512, 64, 256)
    plans: dict[str, Plan] = {}
    kind = "v5e:" if options.platform == "tpu" else ""
    topology = topologies.get_topology_desc(kind + options.topology, options.platform)
    print(f"{sizes.parameters / 1e9:.3g} billion parameters, {sizes.batch * sizes.length} tokens a step")
    for shape in options.mesh:
        mesh = topologies.make_mesh(topology, tuple(map(int, shape.split("x"))), ("data", "model"))
        start = time.perf_counter()
        step = compiled(sizes, mesh)
        seconds = time.perf_counter() - start
        found = plans[shape] = plan(step, V5E)
        print(f"\n{found}")
        # The usual measure: two for each parameter and token forward, four backward, the table of tokens counted in.
        needed = 6 * sizes.parameters * sizes.batch * sizes.length / mesh.size
        print(
            f"useful arithmetic {needed / found.flops:.0%}, of the peak at most {needed / V5E.flops / found.seconds:.0%}"
        )
        print(f"staged and compiled in {seconds:.1f} s")
    draw(plans)


if __name__ == "__main__":
    main()
