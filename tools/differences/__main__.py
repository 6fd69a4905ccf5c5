"""Prints where effx and JAX differ without a reason in `reasons.py`: `make differences`.

python -m tools.differences --jax PYTHON [--every N] [--all] [NAME=VALUE ...]

Each library evaluates the expressions of `expressions.py` in a process of its own. `--jax` is a Python with JAX; by
default this one. `--every N` takes every N-th expression. `--all` prints differences with a reason too. Settings such as
`numpy_dtype_promotion=strict` hold for both libraries.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.differences.compare import difference
from tools.differences.reasons import find_reason, unused_reasons

ROOT = Path(__file__).resolve().parent.parent.parent


def run_both(jax_python: str, options: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the results of both libraries, ours first."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for library, python in (("effx", sys.executable), ("jax", jax_python)):
            target = Path(folder, f"{library}.json")
            command = [python, "-m", "tools.differences.evaluate", library, str(target), *options]
            jobs.append((target, subprocess.Popen(command, cwd=ROOT)))
        for _, job in jobs:
            if job.wait():
                raise SystemExit(f"differences: {' '.join(map(str, job.args))} failed with {job.returncode}")  # type: ignore[arg-type]  # a list
        ours, theirs = [json.loads(target.read_text()) for target, _ in jobs]
    return ours, theirs


def main() -> None:
    """Runs both, and prints what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jax", default=sys.executable, help="a Python that has JAX")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    arguments = parser.parse_args()
    ours, theirs = run_both(arguments.jax, [f"every={arguments.every}", *arguments.settings])
    unexplained, explained = 0, 0
    for text, result in ours.items():
        found = difference(result, theirs[text])
        if found is None:
            continue
        reason = find_reason(text, found)
        unexplained += reason is None
        explained += reason is not None
        if reason is None or arguments.all:
            print(f"{text}\n    {found}" + (f"\n    because {reason}" if reason else ""))
    print(f"{len(ours)} expressions: {explained} differences with a reason, {unexplained} without")
    if arguments.every == 1 and not arguments.settings:
        for pattern in unused_reasons():
            print(f"no difference is left for the reason of {pattern!r}")
            unexplained += 1
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
