"""Table 7: the time from the first call to its result in a process that others have gone before, with caches on disk.

The program is the gradient of six transformer layers. Each sample is a process of its own; the libraries take turns.

Never: imports what it measures.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Row
from benchmarks.startup import ENVIRONMENT
from benchmarks.timing import Sample

BUDGET_COLD, BUDGET_JAX = 0.15, 0.35
LAYERS = 6

# `{0}` is the library. Prints the seconds until the call returned, and until the result was there.
PROGRAM = """
import time
import numpy as np
import {0}, {0}.numpy as xp, {0}.nn as nn
WIDTH, HEADS = 64, 4
def normalize(x):
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
def split(x):
    length, width = x.shape
    return x.reshape(length, HEADS, width // HEADS).transpose(1, 0, 2)
def layer(block, x):
    h = normalize(x)
    q, k, v = split(h @ block["q"]), split(h @ block["k"]), split(h @ block["v"])
    weight = nn.softmax(q @ k.transpose(0, 2, 1) * (1.0 / q.shape[-1] ** 0.5))
    x = x + (weight @ v).transpose(1, 0, 2).reshape(*x.shape) @ block["out"]
    return x + nn.gelu(normalize(x) @ block["up"]) @ block["down"]
def loss(blocks, x):
    for block in blocks:
        x = layer(block, x)
    return xp.mean(x * x)
rng = np.random.default_rng(0)
def sample(*shape):
    return xp.asarray((rng.standard_normal(shape) / 8).astype("float32"))
shapes = dict.fromkeys(("q", "k", "v", "out"), (WIDTH, WIDTH))
shapes |= {{"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}}
blocks = [{{name: sample(*shape) for name, shape in shapes.items()}} for _ in range({1})]
x = sample(64, WIDTH).block_until_ready()
f = {0}.jit({0}.grad(loss))
start = time.perf_counter()
gradient = f(blocks, x)
called = time.perf_counter()
gradient[0]["q"].block_until_ready()
print(called - start, time.perf_counter() - start)
"""


def _settings(name: str, directory: Path) -> dict[str, str]:
    if name == "effx":
        return {"EFFX_CACHE_DIR": str(directory)}
    return {
        "JAX_COMPILATION_CACHE_DIR": str(directory),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }


def seconds(name: str, directory: Path) -> tuple[float, float]:
    """Seconds until the first call of a new process returned, and until its result was there."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name, LAYERS)],
        check=True,
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **_settings(name, directory), "TF_CPP_MIN_LOG_LEVEL": "1"},
        cwd=os.getcwd(),
    )
    called, ready = found.stdout.split()
    return float(called), float(ready)


def rows(names: Sequence[str], rounds: int) -> list[Row]:
    """Measures; where a row compares effx with itself, the columns are the second process and the first."""
    warm: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    cold: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            seconds(name, Path(place) / name)
        for i in range(rounds):
            for name in names:
                warm[name].append(seconds(name, Path(place) / name))
                cold[name].append(seconds(name, Path(place) / f"{name}-{i}"))

    def sample(times: Sequence[tuple[float, float]], which: int) -> Sample:
        return Sample(tuple([t[which] for t in times]))

    found = []
    for which, until, budgets in ((1, "result", (BUDGET_COLD, BUDGET_JAX)), (0, "return", (None, None))):
        if "effx" in names:
            own = {"effx": sample(warm["effx"], which), "jax": sample(cold["effx"], which)}
            found.append(Row(f"effx, second process and first: {until}", budgets[0], 1, own, {}))
        both = {name: sample(warm[name], which) for name in names}
        found.append(Row(f"second process: {until}", budgets[1], 1, both, {}))
    return found
