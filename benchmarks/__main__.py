"""Command line of the benchmarks: `python -m benchmarks [--quick] [--only NAME] [--filter REGEX] [--check] [--sweep]`."""

from __future__ import annotations

import os

# Before either library starts: quiet logs.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from benchmarks import (
    devices,
    functions,
    handlers,
    loops,
    operations,
    peers,
    programs,
    report,
    scale,
    second_process,
    startup,
    sweep,
)
from benchmarks.measure import measure
from benchmarks.options import add_options
from benchmarks.peers import Peer
from benchmarks.timing import Effort, Sample, interleave


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="effx against JAX, with budgets")
    add_options(parser)
    parser.add_argument("--sweep", action="store_true", help="only the sweep over all functions of arrays")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write JSON."""
    options = arguments()
    names = [options.only] if options.only else ["effx", "jax"]
    rows: list[report.Row] = []

    def show(row: report.Row, columns: Sequence[str] = names) -> None:
        rows.append(row)
        print(report.line(row, columns), flush=True)

    def wanted(title: str) -> bool:
        return re.search(options.filter, title) is not None

    print(", ".join(f"{name} {version}" for name, version in report.versions([*names, "jaxlib"]).items()))
    if options.sweep:
        return sweep.print_sweep(options, [peers.load(name) for name in names])
    print(f"\nTable 1: per operation\n{report.header(names)}")
    imports = (("import", startup.TOUCH, 0.45), ("import and first array", startup.FIRST_ARRAY, None))
    for name, code, budget in imports:
        title = f"start-up: {name}"
        if wanted(title):
            show(import_row(title, names, code, budget, rounds=3 if options.quick else 9))

    libraries = [peers.load(name) for name in names]
    fast = Effort(rounds=5, least=0.01) if options.quick else Effort(rounds=21, least=0.03)
    brief = Effort(rounds=3, least=0.01) if options.quick else Effort(rounds=7, least=0.02)
    slow = Effort(rounds=2, least=0.0) if options.quick else Effort(rounds=5, least=0.0)
    for case in operations.cases(options.quick):
        if wanted(case.title):
            show(measure(case, libraries, fast))
    print(f"\nTable 2: programs\n{report.header(names)}")
    for case in programs.cases():
        if wanted(case.title):
            show(measure(case, libraries, slow if case.slow else fast))
    print(f"\nTable 3: loops\n{report.header(names)}")
    for case in loops.cases():
        if wanted(case.title):
            show(measure(case, libraries, slow if case.slow else fast))
    for title, peak in loops.memory():
        if wanted(title):
            show(memory_row(title, libraries, peak))

    print(f"\nTable 4: large programs\n{report.header(names)}")
    for case in scale.cases(options.quick):
        if wanted(case.title):
            show(measure(case, libraries, slow))
    for title, peak in scale.memory(options.quick):
        if wanted(title):
            show(memory_row(title, libraries, peak, scale.BUDGET))

    if "effx" in names:
        print(f"\nTable 5: handlers, against effx without\n{report.header(['handled', 'plain'])}")
        for pair in handlers.pairs(peers.load("effx"), options.quick):
            if wanted(pair.title):
                thunks = {"effx": pair.handled, "jax": pair.plain}
                samples = interleave(thunks, dict.fromkeys(thunks, lambda _: None), fast)
                show(report.Row(pair.title, pair.budget, pair.units, samples, {}), ["effx", "jax"])

    print(f"\nTable 6: functions\n{report.header(names)}")
    for case in functions.cases(options.quick):
        if wanted(case.title):
            show(measure(case, libraries, Effort(rounds=3, least=0.0) if case.slow else brief))

    print(f"\nTable 7: caches on disk\n{report.header(names)}")
    if wanted("second process"):
        for row in second_process.rows(names, rounds=2 if options.quick else 7):
            show(row)

    print(f"\nTable 8: several devices\n{report.header(names)}")
    titles = [case.title for case in devices.CASES if wanted(case.title)]
    if titles:
        for row in devices.rows(names, titles, fast.rounds, fast.least):
            show(row)

    report.write(rows, names)
    print(f"\n{report.closing(rows)}")
    return 1 if options.check and report.failed(rows) else 0


def memory_row(
    title: str, libraries: Sequence[Peer], peak: Callable[[Peer], int], budget: float = 1.0
) -> report.Row:
    """A row of kilobytes, written as the others' microseconds are."""
    samples: dict[str, Sample] = {}
    errors: dict[str, str] = {}
    for peer in libraries:
        try:
            samples[peer.name] = Sample((peak(peer) / 1024 / 1e6,))
        except Exception as error:  # noqa: BLE001  whatever it is, it is this row's result
            errors[peer.name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return report.Row(title, budget, 1, samples, errors)


def import_row(title: str, names: Sequence[str], code: str, budget: float | None, rounds: int) -> report.Row:
    samples: dict[str, Sample] = {}
    errors: dict[str, str] = {}
    try:
        samples = startup.measure(names, code, rounds)
    except Exception as error:  # noqa: BLE001  the row shows it
        errors["start-up"] = type(error).__name__
    return report.Row(title, budget, 1, samples, errors)


if __name__ == "__main__":
    sys.exit(main())
