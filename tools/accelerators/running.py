"""Runs the functions on the accelerator that is here: their values against those of a CPU, and their times beside JAX's.

python -m tools.accelerators.running [--workers N] [--jax] [--only WORD] [--report FILE]

Workers share the accelerator: they compile side by side, and while one of them is timed all others wait. JAX runs in
processes of its own, since two libraries in one cannot both start the plugin.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import ml_dtypes  # noqa: F401  # gives NumPy the names of short dtypes
import numpy as np

from tools.accelerators.functions import FUNCTIONS, Function, Library, Shape

__all__ = ["Outcome", "relative_error"]

# Products of float32 in bfloat16 or TF32, the platforms' default, are that far from float32's.
LIMIT = 2e-2
REPEATS = 20


class Outcome(TypedDict, total=False):
    """What became of a function: an error's text, or numbers."""

    error: str
    difference: float
    microseconds: float


def draw(shape: Shape, seed: int) -> Any:
    """Draws an operand: numbers between 0.1 and 0.9 for vectors, small integers, and normal numbers for matrices, whose
    products with vectors of length 1 have that length again.
    """
    rng = np.random.default_rng(seed)
    if shape.dtype == "uint32":
        return rng.integers(0, 2**32, shape.shape, np.uint32)
    largest = {"bool": 2, "int4": 8}.get(shape.dtype, 100)
    if shape.dtype.startswith(("int", "bool")):
        return rng.integers(0, largest, shape.shape).astype(shape.dtype)
    if len(shape.shape) < 2:
        data = rng.uniform(0.1, 0.9, shape.shape)
    else:
        data = rng.normal(size=shape.shape) / np.sqrt(shape.shape[-2])
    if shape.dtype.startswith("complex"):
        data = data + 1j * data[::-1]
    return data.astype(shape.dtype)


def relative_error(x: Any, y: Any, agreement: str) -> float:
    """Returns the largest difference of two results, relative to the largest number; infinite where NaN differs.

    >>> relative_error([1.0, 2.0], [1.0, 1.0], "values")
    1.0
    """
    a, b = [np.asarray(v) for v in (x, y)]
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if agreement == "shapes" or not a.size:
        return 0.0
    wide: Any = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    if agreement == "sizes":
        a, b = np.abs(a), np.abs(b)
    finite = np.isfinite(a) & np.isfinite(b)
    same = np.where(finite, True, (a == b) | (np.isnan(a) & np.isnan(b)))
    if not same.all():
        return float("inf")
    scale = np.abs(b[finite]).max(initial=0.0) or 1.0
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0) / scale)


@contextlib.contextmanager
def hold(lock: Path, alone: bool) -> Iterator[None]:
    """Holds the lock on the accelerator: with other workers while something compiles, alone while it is timed."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def measure(call: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """Returns the microseconds of a call: the least mean of three runs of calls that do not wait for one another."""
    times: list[float] = []
    wait(call())
    for _ in range(3):
        started = time.perf_counter()
        result = None
        for _ in range(REPEATS):
            result = call()
        wait(result)
        times.append((time.perf_counter() - started) / REPEATS * 1e6)
    return min(times)


def run_function(function: Function, library: Library, lock: Path) -> Outcome:
    """Runs one function on the accelerator; with effx on the CPU too, for the difference."""
    api = library.api
    operands = [draw(s, i) for i, s in enumerate(function.operands)]

    def prepare(device: Any) -> Callable[[], Any]:
        placed = [api.device_put(x, device) for x in operands]
        compiled = api.jit(lambda *xs: function.apply(library, *xs))
        return lambda: compiled(*placed)

    outcome: Outcome = {}
    try:
        with hold(lock, alone=False):
            call = prepare(api.devices()[0])
            result = api.block_until_ready(call())
            if library.name == "effx":
                leaves = api.tree_util.tree_leaves
                pairs = zip(leaves(result), leaves(prepare(api.devices("cpu")[0])()), strict=True)
                outcome["difference"] = max([relative_error(x, y, function.agreement) for x, y in pairs])
        with hold(lock, alone=True):
            outcome["microseconds"] = measure(call, api.block_until_ready)
    except Exception as error:  # noqa: BLE001 - the report shows every error
        outcome["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    return outcome


def run_share(name: str, share: int, shares: int, only: str, target: Path) -> None:
    """Runs every `shares`-th function, beginning with number `share`, and writes the outcomes as they come."""
    library = Library(name)
    outcomes: dict[str, Outcome] = {}
    chosen = [f for f in FUNCTIONS if only in f.name and not f.axes]
    for function in chosen[share::shares]:
        outcomes[function.name] = run_function(function, library, target.parent / "lock")
        target.write_text(json.dumps(outcomes), encoding="utf-8")


def run_all(library: str, workers: int, only: str) -> tuple[dict[str, Outcome], list[int]]:
    """Runs the functions with one library in several processes; returns the outcomes and the processes' exit codes."""
    with tempfile.TemporaryDirectory() as folder:
        targets = [Path(folder, f"{i}.json") for i in range(workers)]
        command = [
            sys.executable,
            "-m",
            "tools.accelerators.running",
            "--workers",
            str(workers),
            "--only",
            only,
        ]
        jobs = [
            subprocess.Popen([*command, "--share", library, str(i), str(target)])
            for i, target in enumerate(targets)
        ]
        codes = [job.wait() for job in jobs]
        parts = [json.loads(t.read_text(encoding="utf-8")) if t.exists() else {} for t in targets]
    return {f.name: part[f.name] for f in FUNCTIONS for part in parts if f.name in part}, codes


def format_report(ours: dict[str, Outcome], theirs: dict[str, Outcome]) -> str:
    """Returns the report: a line for each function, and what failed or was slower."""
    lines = [f"{'':42}{'difference':>12}{'effx us':>12}{'jax us':>12}{'ratio':>8}"]
    ratios: list[float] = []
    failures = 0
    for name, outcome in ours.items():
        rival = theirs.get(name, {})
        time_of_ours, time_of_theirs = outcome.get("microseconds"), rival.get("microseconds")
        difference = outcome.get("difference", float("nan"))
        line = f"{name:42}{difference:12.1e}"
        line += "".join(
            [f"{t:12,.0f}" if t is not None else f"{'':12}" for t in (time_of_ours, time_of_theirs)]
        )
        if time_of_ours is not None and time_of_theirs is not None:
            ratios.append(time_of_ours / time_of_theirs)
            line += f"{ratios[-1]:8.2f}"
        is_bad = "error" in outcome or not difference <= LIMIT
        failures += is_bad
        lines.append(line + ("  FAIL" if is_bad else ""))
        lines += [
            f"    {library}: {o['error']}"
            for library, o in (("effx", outcome), ("jax", rival))
            if "error" in o
        ]
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
    lines.append(f"{len(ours)} functions, {failures} failures, geometric mean of the ratios {mean:.3f}")
    return "\n".join(lines)


def main() -> None:
    """Starts the workers, and prints their report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--jax", action="store_true", help="time JAX too")
    parser.add_argument("--only", default="", help="run functions with this word in their name")
    parser.add_argument("--report", type=Path, help="write the report here as well")
    parser.add_argument("--share", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if options.share:
        library, share, target = options.share
        run_share(library, int(share), options.workers, options.only, Path(target))
        return
    ours, codes = run_all("effx", options.workers, options.only)
    theirs, jax_codes = run_all("jax", options.workers, options.only) if options.jax else ({}, [])
    import effx

    head = f"effx {effx.__version__}, Python {platform.python_version()}, {effx.devices()[0].device_kind}"
    tail = f"exit codes of the workers: {codes + jax_codes}"
    report = f"{head}\n{format_report(ours, theirs)}\n{tail}"
    print(report)
    if options.report is not None:
        options.report.write_text(report + "\n", encoding="utf-8")
    raise SystemExit(any(codes) or "FAIL" in report)


if __name__ == "__main__":
    main()
