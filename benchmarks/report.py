"""Rows of results, as a table to read and as JSON for machines."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias, final

import attrs

from benchmarks.timing import Ratio, Sample, compare

Verdict: TypeAlias = Literal["PASS", "PASS within noise", "FAIL", "ERROR", ""]
RESULTS = Path(__file__).resolve().parent / "results"


@final
@attrs.frozen
class Row:
    """What was measured for one case."""

    title: str
    budget: float | None
    units: int
    samples: Mapping[str, Sample]
    errors: Mapping[str, str]

    @property
    def ratio(self) -> Ratio | None:
        if "effx" in self.samples and "jax" in self.samples:
            return compare(self.samples["effx"], self.samples["jax"])
        return None

    @property
    def verdict(self) -> Verdict:
        if self.errors:
            return "ERROR"
        ratio = self.ratio
        if ratio is None or self.budget is None:
            return ""
        if ratio.value <= self.budget:
            return "PASS"
        return "PASS within noise" if ratio.value - 2 * ratio.error <= self.budget else "FAIL"

    def microseconds(self, name: str) -> float | None:
        """Median time of one unit."""
        sample = self.samples.get(name)
        return None if sample is None else sample.median / self.units * 1e6


def header(names: Sequence[str]) -> str:
    columns = "".join(f"{name + ' us':>13}" for name in names)
    return f"{'':44}{columns}{'ratio':>9}{'':8}{'budget':>8}"


def line(row: Row, names: Sequence[str]) -> str:
    """One row of a table."""
    text = f"{row.title:44}"
    for name in names:
        time = row.microseconds(name)
        text += f"{'-':>13}" if time is None else f"{time:13,.2f}"
    ratio = row.ratio
    text += f"{'':17}" if ratio is None else f"{ratio.value:9.3f} ±{ratio.error:5.3f} "
    text += f"{'':8}" if row.budget is None else f"{row.budget:8.2f}"
    text += f"  {row.verdict}"
    return (text + tell_errors(row)).rstrip()


def tell_errors(row: Row) -> str:
    """What the libraries raised."""
    return "".join([f"  {name}: {error}" for name, error in row.errors.items()])


def versions(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def closing(rows: Sequence[Row]) -> str:
    """The last line: how many rows kept their budget."""
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("PASS", "FAIL", "ERROR")}
    near = sum(row.verdict == "PASS within noise" for row in rows)
    return (
        f"budgets: {count['PASS']} pass, {near} pass within noise, {count['FAIL']} fail, "
        f"{count['ERROR']} did not run"
    )


def failed(rows: Sequence[Row]) -> bool:
    return any(row.verdict in ("FAIL", "ERROR") for row in rows)


def describe_processor() -> str:
    """The processor's name, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def write(rows: Sequence[Row], names: Sequence[str], file: str = "latest") -> Path:
    """Write everything measured to benchmarks/results/, by default to latest.json."""
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": describe_processor(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": versions([*names, "jaxlib", "numpy"]),
        "rows": [
            {
                "title": row.title,
                "budget": row.budget,
                "units": row.units,
                "microseconds": {name: row.microseconds(name) for name in names},
                "ratio": None if row.ratio is None else attrs.asdict(row.ratio),
                "verdict": row.verdict,
                "errors": dict(row.errors),
                "seconds": {name: list(sample.seconds) for name, sample in row.samples.items()},
            }
            for row in rows
        ],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{file}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path
