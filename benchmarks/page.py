"""Write docs/tables/benchmarks.md from what `make bench` has measured last.

python -m benchmarks.page        reads benchmarks/results/latest.json
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.report import RESULTS

PAGE = RESULTS.parent.parent / "docs" / "tables" / "benchmarks.md"

# What a row measures, by the last words of its title.
KINDS: dict[str, tuple[str, ...]] = {
    "Trace and lower": (
        "trace",
        "trace and lower",
        "trace and text",
        "stage",
        "stage and lower",
        "stage of grad",
    ),
    "First call": ("first call",),
    "Run": ("run", "step", "data-parallel step"),
    "Eager": ("eager", "grad", "vmap", "x * y", "x + 1.0", "sin(x)"),
}


def kind_of(title: str) -> str:
    """Returns the kind of a row.

    >>> kind_of("MLP gradient: first call"), kind_of("start-up: import")
    ('First call', 'Other')
    """
    last = title.rpartition(": ")[2]
    return next((kind for kind, words in KINDS.items() if last in words), "Other")


def geometric_mean(ratios: Sequence[float]) -> float:
    """Returns the geometric mean.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def show_time(microseconds: float | None) -> str:
    """Returns a time with three digits, in the unit that suits it.

    >>> show_time(4.2529), show_time(85607.42), show_time(None)
    ('4.25 µs', '85.6 ms', '')
    """
    if microseconds is None:
        return ""
    unit, factor = next(
        (u, f) for u, f in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)) if microseconds >= f or f == 1.0
    )
    return f"{microseconds / factor:.3g} {unit}"


def show_row(row: Mapping[str, Any]) -> str:
    """Returns a row of the table."""
    times, ratio = row["microseconds"], row["ratio"]
    if row["title"].endswith("KB"):
        shown = [f"{times[name]:,.0f} KB" for name in ("effx", "jax")]
    else:
        shown = [show_time(times[name]) for name in ("effx", "jax")]
    value = "" if ratio is None else f"{ratio['value']:.2f} ± {ratio['error']:.2f}"
    return f"| {row['title']} | {shown[0]} | {shown[1]} | {value} |"


def render(record: Mapping[str, Any]) -> str:
    """Returns the page."""
    rows: list[Mapping[str, Any]] = record["rows"]
    versions = record["versions"]
    by_kind: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in (*KINDS, "Other")}
    for row in rows:
        if row["ratio"] is not None:
            by_kind[kind_of(row["title"])].append(row)
    summary = [
        f"| {kind} | {len(of_kind)} | {geometric_mean([r['ratio']['value'] for r in of_kind]):.2f} | "
        f"{sum([r['ratio']['value'] > 1 + 2 * r['ratio']['error'] for r in of_kind])} |"
        for kind, of_kind in by_kind.items()
        if of_kind and kind != "Other"
    ]
    parts = [
        "# Benchmarks\n",
        (
            "This page is written by `python -m benchmarks.page` from the last `make bench`. effx and JAX ran in turns in "
            "one process; a time is the median, a ratio effx's over JAX's, so below 1 effx takes less.\n"
        ),
        (
            f"Measured on {record['date']}: {record['processor']}, {record['cores']} cores, Python {record['python']}, JAX "
            f"{versions['jax']}, jaxlib {versions['jaxlib']}, NumPy {versions['numpy']}.\n"
        ),
        "| | rows | geometric mean of the ratios | rows in which JAX takes less |",
        "|---|---|---|---|",
        *summary,
        "",
        (
            "Tracing and lowering are effx's own work; a first call is nearly all XLA's compilation, and a run XLA's "
            "program. Rows whose handlers JAX has not are compared with effx without them.\n"
        ),
    ]
    for kind, of_kind in by_kind.items():
        if of_kind:
            parts += [
                f"## {kind}\n",
                "| | effx | JAX | ratio |",
                "|---|---|---|---|",
                *map(show_row, of_kind),
                "",
            ]
    paragraphs = [
        part if part.startswith("|") else fill(part, 120) + "\n" * part.endswith("\n") for part in parts
    ]
    return "\n".join(paragraphs)


def main() -> None:
    """Writes the page."""
    record = json.loads(Path(RESULTS / "latest.json").read_text(encoding="utf-8"))
    PAGE.write_text(render(record), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
