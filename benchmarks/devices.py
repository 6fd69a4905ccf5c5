"""Table 8: eight devices, for which one CPU passes: calls of jitted functions, and steps of data-parallel training.

Both libraries run in one process of this table's own, since how many devices a CPU has is said before it starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import attrs
import numpy as np

from benchmarks.cases import Case
from benchmarks.measure import measure
from benchmarks.peers import Peer, Tree, Value, load
from benchmarks.programs import one_hot, perceptron_loss, sample, weights
from benchmarks.report import Row
from benchmarks.startup import ENVIRONMENT
from benchmarks.timing import Effort, Sample, Thunk

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


def step(peer: Peer) -> Callable[..., tuple[Tree, Value]]:
    """A step of gradient descent for a multi-layer perceptron."""
    loss = perceptron_loss(peer)

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


def training(donated: bool) -> Callable[[Peer], Thunk]:
    def prepare(peer: Peer) -> Thunk:
        layers, x, target = step_arguments(peer)
        f = peer.api.jit(step(peer), donate_argnums=(0,)) if donated else peer.api.jit(step(peer))

        def thunk() -> Value:
            nonlocal layers
            value: Value
            layers, value = f(layers, x, target)
            return value

        return thunk

    return prepare


def lower(peer: Peer) -> Thunk:
    arguments = step_arguments(peer)
    return lambda: peer.lower(step(peer), *arguments)


CASES = (
    Case("8 devices", "call", call(1), 1.0),
    Case("8 devices", "call with 20 arrays", call(20), 1.0),
    Case("8 devices", "data-parallel step", training(donated=False), 1.02),
    Case("8 devices", "data-parallel step, donated", training(donated=True), 1.02),
    Case("8 devices", "data-parallel step: trace and lower", lower, 0.15),
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
    effort = Effort(rounds, least)
    found = [measure(case, libraries, effort) for case in CASES if case.title in titles]
    print(json.dumps([attrs.asdict(row) for row in found]))


if __name__ == "__main__":
    main()
