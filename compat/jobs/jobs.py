"""The jobs, how each is run, and what it said."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
JOBS = sorted([path.name.removesuffix("_job.py") for path in HERE.glob("*_job.py")])


def said(output: str) -> dict[str, list[float]]:
    """Returns all numbers that a job said."""
    found: dict[str, list[float]] = {}
    for line in output.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def run(job: str, *before: str) -> subprocess.CompletedProcess[str]:
    """Runs a job in a process of its own.

    Args:
        job: its name.
        before: what stands between `python` and its file.
    """
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, *before, str(HERE / f"{job}_job.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
