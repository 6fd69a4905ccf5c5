"""JAX's libraries: `python -m benchmarks.libraries --jax PYTHON [--quick] [--only NAME] [--filter REGEX] [--check]`.

The jobs are in `compat/jobs/steps/`. Each process runs one: on effx, by effx.compat and this interpreter, or on JAX, by the
one that is given. A pair of processes lives at a time. They take their first steps in turns, and then later ones, in short
bursts, when they are told to by a pipe: what else the machine does is felt by both.

Never: imports what it measures, but in the processes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import final

import attrs

from benchmarks import report
from benchmarks.options import add_options
from benchmarks.startup import ENVIRONMENT
from benchmarks.timing import Sample, Thunk, calls_to_fill, once, turns

BUDGET_FIRST, BUDGET_STEP = 0.6, 1.02
ROOT = Path(__file__).resolve().parent.parent
JOBS = tuple(sorted([path.stem for path in (ROOT / "compat" / "jobs" / "steps").glob("*.py")]))
SETTINGS = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}


@final
@attrs.frozen
class Effort:
    """How much to measure.

    Attributes:
        pairs: processes of each library, one after the other; each gives one time to the first step.
        bursts: samples of a later step, in each process.
        least: seconds that a burst takes at least.
    """

    pairs: int
    bursts: int
    least: float


# --- in a process of its own ------------------------------------------------------------------------


def serve(job: str) -> None:
    """Run a job, whose libraries are loaded before the first answer: each order is a line, and so is each answer."""
    start: Callable[[], Thunk] = importlib.import_module(f"compat.jobs.steps.{job}").start
    finish: Callable[[object], object] = importlib.import_module("jax").block_until_ready
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    print(metadata.version("jax"), file=answers)
    step: Thunk = start
    for line in sys.stdin:
        order, value = line.split()
        if order == "first":
            began = time.perf_counter()
            step = start()
            finish(step())
            answer = time.perf_counter() - began
        elif order == "fill":
            finish(step())  # it may compile once more: its arguments are results now
            answer = calls_to_fill(step, finish, float(value))
        else:
            answer = once(step, finish, int(value))
        print(answer, file=answers)


# --- the process that tells them --------------------------------------------------------------------


class RemoteError(Exception):
    """The process of a library has failed."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(said)
        self.name = name


@final
class Remote:
    """A process that runs a job when it is told to."""

    def __init__(self, name: str, command: Sequence[str], job: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [*command, "-m", "benchmarks.libraries", "--serve", job],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, **SETTINGS},
            cwd=ROOT,
        )
        self.version = self.answer()

    def answer(self) -> str:
        """Wait for a line.

        Raises:
            RemoteError: the process has failed; with the last line of what it said.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, said = self.process.communicate()
            raise RemoteError(self.name, said.strip().rpartition("\n")[2])
        return line.strip()

    def ask(self, order: str, value: float = 0) -> float:
        """Give an order, and wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order} {value}\n")
        self.process.stdin.flush()
        return float(self.answer())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def rows(commands: Mapping[str, Sequence[str]], job: str, effort: Effort) -> list[report.Row]:
    """Measure a job: the time to its first step, and that of a later one.

    Args:
        commands: how each library's Python is called.
        job: its name.
        effort: how much to measure.
    """
    firsts: dict[str, list[float]] = {name: [] for name in commands}
    later: dict[str, list[float]] = {name: [] for name in commands}
    errors: dict[str, str] = {}
    order = list(commands)
    for _ in range(effort.pairs):
        remotes: dict[str, Remote] = {}
        try:
            remotes = {name: Remote(name, commands[name], job) for name in order}
            for name, remote in remotes.items():
                firsts[name].append(remote.ask("first"))
            for name, seconds in turns(bursts(remotes, effort.least), effort.bursts).items():
                later[name] += seconds
        except RemoteError as error:
            errors[error.name] = str(error)
            break
        finally:
            for remote in remotes.values():
                remote.close()
        order.reverse()
    title = job.replace("_", " ")
    return [
        report.Row(
            f"{title}: {what}",
            budget,
            1,
            {name: Sample(tuple(times)) for name, times in found.items() if not errors},
            errors,
        )
        for what, budget, found in (("first step", BUDGET_FIRST, firsts), ("step", BUDGET_STEP, later))
    ]


def bursts(remotes: Mapping[str, Remote], least: float) -> dict[str, Callable[[], float]]:
    """What asks each process for seconds a step, over as many steps as take `least` seconds there."""
    numbers = {name: remote.ask("fill", least) for name, remote in remotes.items()}

    def timer(name: str) -> Callable[[], float]:
        return lambda: remotes[name].ask("burst", int(numbers[name]))

    return {name: timer(name) for name in remotes}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.libraries", description="JAX's libraries on effx and on JAX"
    )
    parser.add_argument("--effx", default=sys.executable, metavar="PYTHON", help="has effx and the libraries")
    parser.add_argument("--jax", default=sys.executable, metavar="PYTHON", help="has JAX and the libraries")
    add_options(parser)
    parser.add_argument("--serve", choices=JOBS, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure, print, write JSON."""
    options = arguments()
    if options.serve:
        serve(options.serve)
        return 0
    commands = {"effx": [options.effx, "-m", "effx.compat"], "jax": [options.jax]}
    if options.only:
        commands = {options.only: commands[options.only]}
    effort = Effort(pairs=1, bursts=3, least=0.01) if options.quick else Effort(pairs=7, bursts=7, least=0.1)
    names = list(commands)
    print(report.header(names))
    measured: list[report.Row] = []
    for job in JOBS:
        if re.search(options.filter, job.replace("_", " ")) is None:
            continue
        for row in rows(commands, job, effort):
            measured.append(row)
            print(report.line(row, names), flush=True)
    report.write(measured, names, "libraries")
    print(f"\n{report.closing(measured)}")
    return 1 if options.check and report.failed(measured) else 0


if __name__ == "__main__":
    sys.exit(main())
