"""The jobs of `make bench-compat` run, on effx: a first step, and a few later ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.libraries import JOBS, Effort, rows

EFFX = {"effx": [sys.executable, "-m", "effx.compat"]}


@pytest.mark.parametrize("job", JOBS)
def test_job_takes_steps(job: str) -> None:
    first, later = rows(EFFX, job, Effort(pairs=1, bursts=2, least=0.0))
    assert (first.errors, later.errors) == ({}, {})
    assert len(first.samples["effx"].seconds) == 1
    assert len(later.samples["effx"].seconds) == 2
    assert 0 < later.samples["effx"].median < first.samples["effx"].median


def test_what_fails_is_part_of_the_row() -> None:
    broken = {"effx": [sys.executable, "-c", "raise ValueError('no such library')"]}
    first, _ = rows(broken, JOBS[0], Effort(pairs=1, bursts=1, least=0.0))
    assert first.errors == {"effx": "ValueError: no such library"}
    assert first.verdict == "ERROR"


def test_the_command_prints_a_table() -> None:
    root = Path(__file__).resolve().parents[2]
    command = [
        sys.executable,
        "-m",
        "benchmarks.libraries",
        "--only",
        "effx",
        "--quick",
        "--filter",
        "equinox",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    assert "equinox mlp: first step" in done.stdout
    assert "equinox mlp: step" in done.stdout
    assert "0 did not run" in done.stdout
