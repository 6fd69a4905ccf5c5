"""Prints where effx and JAX differ without a reason in `reasons.py`: `make differences`.

python -m tools.differences --jax PYTHON [--every N] [--keep FILE] [--all] [NAME=VALUE ...]

Each library evaluates the expressions of `expressions.py` in a process of its own. `--jax` is a Python with JAX; by
default this one. `--every N` takes every N-th expression. `--keep FILE` keeps JAX's results, and takes them from there if
the file is. `--all` prints differences with a reason too. Settings such as
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


def run_both(
    jax_python: str, options: Sequence[str], jax_results: Path | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the results of both libraries, ours first.

    Args:
        jax_python: a Python that has JAX. options: of `evaluate`.
        jax_results: where JAX's results are kept; None for nowhere.
    """
    with tempfile.TemporaryDirectory() as folder:
        targets = Path(folder, "effx.json"), jax_results or Path(folder, "jax.json")
        jobs: list[tuple[list[str], subprocess.Popen[bytes]]] = []
        for library, python, target in zip(
            ("effx", "jax"), (sys.executable, jax_python), targets, strict=True
        ):
            if not target.exists():
                command = [
                    python,
                    "-m",
                    "tools.differences.evaluate",
                    library,
                    str(target.resolve()),
                    *options,
                ]
                jobs.append((command, subprocess.Popen(command, cwd=ROOT)))
        for command, job in jobs:
            if job.wait():
                raise SystemExit(f"differences: {' '.join(command)} failed with {job.returncode}")
        ours, theirs = [json.loads(target.read_text()) for target in targets]
    return ours, theirs


def main() -> None:
    """Runs both, and prints what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jax", default=sys.executable, help="a Python that has JAX")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    arguments = parser.parse_args()
    ours, theirs = run_both(arguments.jax, [f"every={arguments.every}", *arguments.settings], arguments.keep)
    unexplained, explained = 0, 0
    for text, result in ours.items():
        what_differs = difference(result, theirs[text])
        if what_differs is None:
            continue
        reason = find_reason(text, what_differs)
        unexplained += reason is None
        explained += reason is not None
        if reason is None or arguments.all:
            print(f"{text}\n    {what_differs}" + (f"\n    because {reason}" if reason else ""))
    print(f"{len(ours)} expressions: {explained} differences with a reason, {unexplained} without")
    if arguments.every == 1 and not arguments.settings:
        for pattern in unused_reasons():
            print(f"no difference is left for the reason of {pattern!r}")
            unexplained += 1
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
