"""The tests that libraries ship, on effx or on JAX: `python compat/jobs/suites.py {effx,jax} library …`.

Each file runs in a process of its own, for five minutes at most. What passed and failed is kept in `suites.json`; of both
sides together it says what fails on effx alone. It takes half an hour a side, so nothing runs it but people.
"""

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

from jobs import HERE

KEPT = HERE / "suites.json"
BEFORE = {"effx": ["-m", "effx.compat"], "jax": []}
LIMIT = 300

Found = dict[str, list[str]]


def files(library: str) -> list[Path]:
    """Returns the test files of a library that is installed."""
    spec = find_spec(library)
    assert spec is not None, f"{library} is not installed"
    assert spec.origin is not None
    return sorted(Path(spec.origin).parent.rglob("*_test.py"))


def run(side: str, file: Path) -> Found:
    """Runs one file, and returns its tests by how they ended; a file that does not end in time counts as one."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(file)]
        command = [sys.executable, *BEFORE[side], "-m", "pytest", *options]
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=LIMIT, cwd=folder)
        except subprocess.TimeoutExpired:
            return {"late": [file.name]}
        return ended(report, file.name) if report.exists() else {"failed": [file.name]}


def ended(report: Path, file: str) -> Found:
    """Reads how the tests of a file ended."""
    found: Found = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        marks = {child.tag for child in case}
        how = "failed" if marks & {"failure", "error"} else "skipped" if "skipped" in marks else "passed"
        found.setdefault(how, []).append(f"{file}::{case.get('name')}")
    return found


def main(side: str, libraries: list[str]) -> int:
    """Runs the tests of libraries and keeps how they ended; with both sides there, says what fails on effx alone."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for library in libraries:
        total: Found = {}
        for file in files(library):
            for how, tests in run(side, file).items():
                total.setdefault(how, []).extend(tests)
        of = kept.setdefault(library, {})
        of[side] = {
            how: len(tests) if how in ("passed", "skipped") else tests for how, tests in total.items()
        }
        print(library, {how: len(tests) for how, tests in total.items()})
        if of.keys() >= BEFORE.keys():
            there = {*of["jax"].get("failed", []), *of["jax"].get("late", [])}
            print("  on effx alone:", *sorted({*of["effx"].get("failed", [])} - there), sep="\n    ")
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
