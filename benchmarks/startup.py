"""Time to import, in processes of its own, less the time that an empty interpreter takes.

Never: imports what it measures.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.timing import Sample

# A lazy package could look fast by loading nothing; these touch what nearly every program uses.
TOUCH = (
    "import {0}; import {0}.numpy as xp; {0}.jit; {0}.grad; {0}.vmap; xp.asarray; xp.sin; xp.matmul; xp.sum"
)
FIRST_ARRAY = TOUCH + "; (xp.asarray([1.0, 2.0]) + 1.0).block_until_ready()"


# Installed packages come with their bytecode; effx is often run from its sources here, so
# Python must be free to keep what it compiled.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def process(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - start


def measure(names: Sequence[str], code: str, rounds: int) -> dict[str, Sample]:
    """Seconds that `code` takes with each library filled in, in turns."""
    for name in names:
        process(code.format(name))  # fills the caches of the file system and of compiled modules
    seconds: dict[str, list[float]] = {name: [] for name in names}
    order = list(names)
    for _ in range(rounds):
        empty = process("pass")
        for name in order:
            seconds[name].append(process(code.format(name)) - empty)
        order.reverse()
    return {name: Sample(tuple(times)) for name, times in seconds.items()}
