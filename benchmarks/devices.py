"""Table 8: eight devices, for which one CPU passes: calls of jitted functions, and steps of training, by shard_map too.

Both libraries run in one process of this table's own, since how many devices a CPU has is said before it starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from benchmarks.cases import Case
from benchmarks.measure import measure
from benchmarks.peers import Function, Peer, Tree, Value, load
from benchmarks.programs import Layers, one_hot, perceptron_loss, sample, weights
from benchmarks.report import Row
from benchmarks.startup import ENVIRONMENT
from benchmarks.timing import Effort, Sample, Thunk

Loss: TypeAlias = Callable[[Layers, Value, Value], Value]
COUNT = 8
SETTINGS = {
    "EFFX_NUM_CPU_DEVICES": str(COUNT),
    "XLA_FLAGS": f"--xla_force_host_platform_device_count={COUNT}",
    "TF_CPP_MIN_LOG_LEVEL": "1",
}


def placers(peer: Peer) -> tuple[Callable[[Tree], Tree], Callable[[Tree], Tree]]:
    """Two functions that put arrays on all devices: cut along the first axis, and whole."""
    parts = peer.sharding
    mesh = parts.Mesh(np.array(peer.api.devices(), object), ("data",))
    rows = parts.NamedSharding(mesh, parts.PartitionSpec("data"))
    whole = parts.NamedSharding(mesh, parts.PartitionSpec())
    return lambda x: peer.api.device_put(x, rows), lambda x: peer.api.device_put(x, whole)


def call(arrays: int) -> Callable[[Peer], Thunk]:
    """A call whose computing is nothing, with as many arguments and results."""

    def prepare(peer: Peer) -> Thunk:
        cut, _ = placers(peer)
        xs = [cut(sample(i, 2 * COUNT, 2)) for i in range(arrays)]
        f = peer.api.jit(lambda xs: [x + 1.0 for x in xs])
        return lambda: f(xs)

    return prepare


def step(peer: Peer, loss: Loss) -> Callable[..., tuple[Tree, Value]]:
    """A step of gradient descent for a multi-layer perceptron."""

    def f(layers: Tree, x: Value, target: Value) -> tuple[Tree, Value]:
        value, slopes = peer.api.value_and_grad(loss)(layers, x, target)
        moved = [
            tuple([p - 0.01 * g for p, g in zip(layer, slope, strict=True)])
            for layer, slope in zip(layers, slopes, strict=True)
        ]
        return moved, value

    return f


def step_arguments(peer: Peer) -> tuple[Tree, Value, Value]:
    cut, whole = placers(peer)
    return whole(weights(peer, 64, 256, 256, 10)), cut(sample(1, 256, 64)), cut(one_hot(2, 256, 10))


def stepping(f: Function, layers: Layers, x: Value, target: Value) -> Thunk:
    """What takes one step of training after another."""

    def thunk() -> Value:
        nonlocal layers
        value: Value
        layers, value = f(layers, x, target)
        return value

    return thunk


def training(donated: bool) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        layers, x, target = step_arguments(peer)
        f = step(peer, perceptron_loss(peer))
        f = peer.api.jit(f, donate_argnums=(0,)) if donated else peer.api.jit(f)

        return stepping(f, layers, x, target)

    return prepare


def lower(peer: Peer) -> Thunk:
    arguments = step_arguments(peer)
    return lambda: peer.lower(step(peer, perceptron_loss(peer)), *arguments)


def mapped_loss(peer: Peer, model: int) -> Loss:
    """The mean over "data" of what a device finds for its part of the batch.

    Where several devices share a copy of the weights, the first layer is cut by its outputs and the second by its inputs, so
    that one sum over "model" is enough (Shoeybi et al., "Megatron-LM", 2019).
    """
    own, lax = perceptron_loss(peer), peer.lax

    def loss(layers: Layers, x: Value, target: Value) -> Value:
        if model > 1:
            (w0, b0), (w1, b1), *layers = layers
            x = peer.nn.relu(lax.psum(peer.nn.relu(x @ w0 + b0) @ w1, "model") + b1)
        return lax.pmean(own(layers, x, target), "data")

    return loss


def mapped(peer: Peer, model: int) -> tuple[Callable[[], Function], tuple[Tree, ...]]:
    """What makes a step of shard_map, another function each time, and its arguments."""
    parts = peer.sharding
    spec = parts.PartitionSpec
    devices = np.array(peer.api.devices(), object)
    mesh = parts.Mesh(devices, ("data",))
    whole, rows = spec(), spec("data")
    cuts = [(whole, whole)] * 3
    if model > 1:
        mesh = parts.Mesh(devices.reshape(COUNT // model, model), ("data", "model"))
        cuts = [(spec(None, "model"), spec("model")), (spec("model"), whole), (whole, whole)]

    def put(x: Tree, cut: object) -> Tree:
        return peer.api.device_put(x, parts.NamedSharding(mesh, cut))

    def fresh() -> Function:
        f = step(peer, mapped_loss(peer, model))
        return peer.api.shard_map(f, mesh=mesh, in_specs=(cuts, rows, rows), out_specs=(cuts, whole))

    layers = [
        (put(w, cut_w), put(b, cut_b))
        for (w, b), (cut_w, cut_b) in zip(weights(peer, 64, 256, 256, 10), cuts, strict=True)
    ]
    return fresh, (layers, put(sample(1, 256, 64), rows), put(one_hot(2, 256, 10), rows))


def mapped_training(model: int) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        fresh, (layers, x, target) = mapped(peer, model)
        f = peer.api.jit(fresh())

        return stepping(f, layers, x, target)

    return prepare


def mapped_lower(model: int) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        fresh, arguments = mapped(peer, model)
        return lambda: peer.lower(fresh(), *arguments)

    return prepare


CASES = (
    Case("8 devices", "call", call(1), 1.0),
    Case("8 devices", "call with 20 arrays", call(20), 1.0),
    Case("8 devices", "data-parallel step", training(donated=False), 1.02),
    Case("8 devices", "data-parallel step, donated", training(donated=True), 1.02),
    Case("8 devices", "data-parallel step: trace and lower", lower, 0.15),
    Case("8 devices", "shard_map 8: step", mapped_training(1), 1.02),
    Case("8 devices", "shard_map 8: trace and lower", mapped_lower(1), 0.15),
    Case("8 devices", "shard_map 4 x 2: step", mapped_training(2), 1.02),
    Case("8 devices", "shard_map 4 x 2: trace and lower", mapped_lower(2), 0.15),
)


def rows(names: Sequence[str], titles: Sequence[str], rounds: int, least: float) -> list[Row]:
    """Measures in a process that has the devices."""
    order = json.dumps([list(names), list(titles), rounds, least])
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.devices", order],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **SETTINGS},
        cwd=os.getcwd(),
    )
    made: list[Row] = []
    for row in json.loads(found.stdout.splitlines()[-1]):
        samples = {name: Sample(tuple(s["seconds"])) for name, s in row.pop("samples").items()}
        made.append(Row(**row, samples=samples))
    return made


def main() -> None:
    """Measures in this process, and prints the rows as JSON."""
    names, titles, rounds, least = json.loads(sys.argv[1])
    libraries = [load(name) for name in names]
    # What wakes eight threads for nothing takes as long as they take to wake: its ratios need many rounds.
    efforts = {case.title: Effort(rounds * (6 if ": call" in case.title else 1), least) for case in CASES}
    found = [measure(case, libraries, efforts[case.title]) for case in CASES if case.title in titles]
    print(json.dumps([attrs.asdict(row) for row in found]))


if __name__ == "__main__":
    main()
