"""The first product of a process whose program is on disk: when it is computed, without visible effects."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Under typeguard's hook effx's source is not effx's own, so no program is kept.
pytestmark = pytest.mark.unguarded

PROGRAM = """
import logging, sys, threading
import numpy as np
import effx, effx.numpy as enp
from effx.lower.runtime import warm_up
effx.config.update("log_compiles", True)
logging.basicConfig(format="%(name)s")
def f(x):
    return {body}
x = np.arange(6, dtype=np.float32).reshape(2, 3)
y = effx.jit(f)(x)
begun = int(warm_up._warm_up_started.locked())
for thread in threading.enumerate():
    if thread.name == "effx-wake":
        thread.join(60)
print(begun, np.asarray(y).tolist())
"""


def run(code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """Runs code from a file, as cached programs must be, with a cache of everything that is compiled."""
    file = cache.parent / "program.py"
    file.write_text(code)
    environment = {
        **os.environ,
        "EFFX_CACHE_DIR": str(cache),
        "EFFX_CACHE_MIN_COMPILE_SECONDS": "0",
        "EFFX_NUM_CPU_DEVICES": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, timeout=60, check=True
    )


@pytest.mark.parametrize(
    ("body", "result", "multiplies"),
    [
        ("x @ x.T + x[0, 0]", [[5.0, 14.0], [14.0, 50.0]], True),
        ("effx.vmap(lambda r: enp.dot(r, r))(x)", [5.0, 50.0], True),
        ("x * 2.0", [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]], False),
        ("enp.sum(x)", 15.0, False),
    ],
)
def test_when(tmp_path: Path, body: str, result: object, multiplies: bool) -> None:
    """Only where a program that multiplies was on disk; the product is stored there too, however quickly it was compiled."""
    cache = tmp_path / "cache"
    code = PROGRAM.replace("{body}", body)
    entries = []
    for begun in (False, multiplies, multiplies):
        done = run(code, cache)
        assert done.stdout == f"{int(begun)} {result}\n"
        entries.append(len(list(cache.iterdir())))
        if len(entries) > 1:
            assert done.stderr == ""  # nothing of the user's is compiled
    assert entries == [2, 2 + multiplies, 2 + multiplies]


def test_at_the_end(tmp_path: Path) -> None:
    """A call that finds its program when Python waits for no more threads starts none, and computes as any other."""
    code = """
import atexit, threading
import numpy as np
import effx
f = effx.jit(lambda x: x @ x)
def compute():
    print(float(f(np.ones((2, 2), np.float32))[0, 0]), "effx-wake" in started)
atexit.register(compute)
effx.jit(lambda x: x + 1)(1.0)
started, start = [], threading.Thread.start
def record_start(thread):
    start(thread)
    started.append(thread.name)
threading.Thread.start = record_start
"""
    cache = tmp_path / "cache"
    for _ in range(2):
        done = run(code, cache)
        assert (done.stdout, done.stderr) == ("2.0 False\n", "")
