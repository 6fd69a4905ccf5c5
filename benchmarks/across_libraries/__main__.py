"""Command line: `python -m benchmarks.across_libraries [--filter REGEX] [--rounds N] [--libraries effx,numpy]`.

Each library has a process of its own, and they take turns, row by row and round by round. A library that is not installed
is left out. Results of all rows are written to benchmarks/results/across_libraries.json, and as a page to
docs/tables/across_libraries.md; those of some rows are printed alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from textwrap import fill
from typing import Any, final

from benchmarks.across_libraries.rows import LIBRARIES, Row, all_rows
from benchmarks.page import show_time
from benchmarks.report import RESULTS, describe_processor, versions

FILE = RESULTS / "across_libraries.json"
PAGE = RESULTS.parent.parent / "docs" / "tables" / "across_libraries.md"

ABOUT = (
    "This page is written by `make bench-peers`: the same calls in effx, JAX, PyTorch and NumPy or SciPy, each in a "
    "process of its own, in turns. Times are medians. The limit is the time in which all processors read and write in "
    "place the bytes that the call must move. A ratio is effx's time over the other's: below 1 effx takes less."
)


@final
class Worker:
    """A process that times one library."""

    def __init__(self, library: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.across_libraries.worker", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: str) -> dict[str, Any]:
        """Returns the answer to a title; a process that has ended is an error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(request, file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure_row(row: Row, workers: Mapping[str, Worker], rounds: int) -> dict[str, Any]:
    """Returns what each library took, in turns, and the limit by the memory's speed where there is one."""
    seconds: dict[str, list[float]] = {}
    errors: dict[str, str] = {}
    order = list(workers)
    for _ in range(rounds):
        for name in order:
            if name in errors:
                continue
            answer = workers[name].ask(row.title)
            if "error" in answer:
                errors[name] = answer["error"]
            else:
                seconds.setdefault(name, []).append(answer["seconds"])
        order.reverse()
    limit = None
    if row.moved is not None and "effx" in workers:
        limit = workers["effx"].ask(f"copy {row.moved}").get("seconds")
    return {"title": row.title, "seconds": seconds, "errors": errors, "limit": limit}


def ratio_of_effx(result: Mapping[str, Any], name: str) -> float | None:
    """Returns how long effx took in units of another library: the median over rounds."""
    seconds = result["seconds"]
    if name not in seconds or "effx" not in seconds:
        return None
    ratios: list[float] = [a / b for a, b in zip(seconds["effx"], seconds[name], strict=False)]
    return statistics.median(ratios)


def show_line(result: Mapping[str, Any], names: Sequence[str]) -> str:
    """Returns a row of the table in a terminal."""
    text = f"{result['title']:46}"
    for name in names:
        times = result["seconds"].get(name)
        text += f"{statistics.median(times) * 1e3:12.3f}" if times else f"{'-':>12}"
    text += f"{'':>10}" if result["limit"] is None else f"{result['limit'] * 1e3:10.3f}"
    for name in names[1:]:
        ratio = ratio_of_effx(result, name)
        text += f"{'':>8}" if ratio is None else f"{ratio:8.2f}"
    errors = [f"  {name}: {text}" for name, text in result["errors"].items() if text != "LookupError: none"]
    return text + "".join(errors)


def render_page(record: Mapping[str, Any]) -> str:
    """Returns the page."""
    names: list[str] = record["libraries"]
    shown = {"effx": "effx", "jax": "JAX", "torch": "PyTorch", "numpy": "NumPy, SciPy"}
    known = ", ".join(f"{shown[n].partition(',')[0]} {record['versions'][n]}" for n in names)
    heads = [shown[n] for n in names] + ["limit"] + [f"over {shown[n]}" for n in names[1:]]
    where = f"{record['processor']}, {record['cores']} cores, Python {record['python']}"
    lines = [
        "# Across libraries",
        fill(ABOUT, 120),
        fill(f"Measured on {record['date']}: {where}, {known}.", 120),
    ]
    table = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for result in record["rows"]:
        times = [result["seconds"].get(n) for n in names]
        cells = [show_time(statistics.median(t) * 1e6) if t else "" for t in times]
        ratios = [ratio_of_effx(result, n) for n in names[1:]]
        limit = "" if result["limit"] is None else show_time(result["limit"] * 1e6)
        table.append(
            f"| {result['title']} | "
            + " | ".join([*cells, limit, *["" if r is None else f"{r:.2f}" for r in ratios]])
            + " |"
        )
    return "\n\n".join([*lines, "\n".join(table)]) + "\n"


def main() -> None:
    """Measures, prints, and writes the results."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.across_libraries", description="effx and other libraries"
    )
    parser.add_argument(
        "--filter", default="", metavar="REGEX", help="only rows whose title matches; writes nothing"
    )
    parser.add_argument("--rounds", type=int, default=5, help="answers of each library")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="which, separated by commas")
    parser.add_argument("--no-page", action="store_true", help="print the table, and write nothing")
    options = parser.parse_args()
    asked = options.libraries.split(",")
    if unknown := [n for n in asked if n not in LIBRARIES]:
        parser.error(f"--libraries: got {', '.join(unknown)}, expected some of {', '.join(LIBRARIES)}")
    if "effx" not in asked:
        parser.error(
            f"--libraries: got {options.libraries}, expected effx among them, to which others are compared"
        )
    names = [n for n in LIBRARIES if n in asked and importlib.util.find_spec(n) is not None]
    print(
        f"{'ms':46}"
        + "".join(f"{n:>12}" for n in names)
        + f"{'limit':>10}"
        + "".join(f"{'/' + n:>8}" for n in names[1:])
    )
    workers: dict[str, Worker] = {name: Worker(name) for name in names}
    results = []
    try:
        for title, row in all_rows().items():
            if re.search(options.filter, title):
                result = measure_row(row, workers, options.rounds)
                results.append(result)
                print(show_line(result, names), flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    if options.no_page or options.filter:
        return
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": describe_processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "libraries": names,
        "versions": versions([*names, "jaxlib"]),
        "rows": results,
    }
    RESULTS.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(render_page(record), encoding="utf-8")


if __name__ == "__main__":
    main()
