"""Groups of real processes on this machine, none of which outlives its test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from effx.distributed.launch import free_port
from tests.distributed.results import Ended

# XLA's collectives say that they are there, piece by piece and from threads of their own: in the middle of a line, too. So
# Python's output has a descriptor of its own, and theirs goes nowhere.
APART = "import os, sys\nsys.stdout = os.fdopen(os.dup(1), 'w', buffering=1)\nos.dup2(os.open(os.devnull, os.O_WRONLY), 1)\n"
Together = Callable[..., list[Ended]]


@pytest.fixture
def together() -> Iterator[Together]:
    """Runs code in several processes at a time: a number of them, or a mapping of variables for each."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, processes: int | list[dict[str, str]], timeout: float = 60) -> list[Ended]:
        port = free_port()
        each = [{}] * processes if isinstance(processes, int) else processes
        for k, variables in enumerate(each):
            environment = {
                **os.environ,
                "EFFX_NUM_CPU_DEVICES": "2",
                "EFFX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
                "EFFX_NUM_PROCESSES": str(len(each)),
                "EFFX_PROCESS_ID": str(k),
                **variables,
            }
            command = [sys.executable, "-c", APART + code]
            started.append(
                subprocess.Popen(
                    command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
        # All of them are read from: one that waits for its reader would keep the others waiting.
        found = []
        for process in started:
            out, error = process.communicate(timeout=timeout)
            found.append(Ended(process.returncode, out, error))
        return found

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
