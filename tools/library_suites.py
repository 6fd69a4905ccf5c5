"""Tests of JAX's libraries on effx: `python -m tools.library_suites FOLDER`, or `make test-suites SUITES=FOLDER`.

Some libraries ship their tests with their wheels. The others' stand in FOLDER, in checkouts named after them, at the tag of
the installed version: `FOLDER/equinox/tests`. What there is no checkout of is left out, and said to be. Nothing of a suite
is stored here but how its tests end with JAX, in `tools/library_suites.json`, written by the same command with `--record`
in an environment that has JAX and the libraries.

Each file of tests runs in a process of its own, with the settings of its library, beartype's checks among them. What fails
on effx alone must stand in `tools/library_suites_exceptions.txt`, each kind with a reason.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypedDict

from tools.expected_failures import compare_with_reasons, is_allowed, parse_reasons

RECORD = Path(__file__).with_suffix(".json")
EXCEPTIONS = Path(__file__).with_name("library_suites_exceptions.txt")
SECONDS_A_FILE = 900


class Suite(NamedTuple):
    """Where the tests of a library are.

    Attributes:
        distribution: its name for pip.
        folder: of the tests, in a checkout; None where the wheel ships them.
        pattern: of the names of files.
    """

    distribution: str
    folder: str | None = None
    pattern: str = "*_test.py"


SUITES = {
    "chex": Suite("chex"),
    "distrax": Suite("distrax"),
    "equinox": Suite("equinox", "tests", "test_*.py"),
    "flax": Suite("flax", "tests"),
    "folx": Suite("folx", "test", "test_*.py"),
    "haiku": Suite("dm-haiku"),
    "lineax": Suite("lineax", "tests", "test_*.py"),
    "mctx": Suite("mctx", "mctx/_src/tests"),
    "optax": Suite("optax"),
    "optimistix": Suite("optimistix", "tests", "test_*.py"),
    "quax": Suite("quax", "tests", "test_*.py"),
}


class FileOutcome(TypedDict):
    """How the tests of one file end: a number, and the names of those that do not pass.

    A file that does not load, or not end in time, is itself what fails: its only name is `*`.
    """

    passed: int
    failed: list[str]


class Recorded(TypedDict):
    """How the tests of a library end with JAX."""

    version: str
    files: dict[str, FileOutcome]


def list_files(name: str, checkouts: Path | None) -> tuple[Path, list[Path]] | None:
    """Returns the folder of a library's tests, and the files; None where they are not there."""
    suite = SUITES[name]
    if suite.folder is None:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return None
        root = Path(spec.origin).parent
    elif checkouts is None or not (checkouts / name / suite.folder).is_dir():
        return None
    else:
        root = checkouts / name / suite.folder
    return root, sorted(root.rglob(suite.pattern))


def run_file(file: Path, interpreter: Sequence[str], seconds: float = SECONDS_A_FILE) -> FileOutcome:
    """Runs the tests of one file in a process."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={report}", str(file)]
        # Python would look for modules in the current folder first, where a library's `types.py` may stand.
        command = [*interpreter, "-m", "pytest", *options]
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=seconds, cwd=folder)
        except subprocess.TimeoutExpired:
            return FileOutcome(passed=0, failed=["*"])
        if not report.exists():
            return FileOutcome(passed=0, failed=["*"])
        return read_report(report.read_text(encoding="utf-8"))


def read_report(text: str) -> FileOutcome:
    """Reads a report of pytest's in JUnit's form.

    >>> read_report('<s><testcase classname="a.T" name="f"/><testcase classname="a" name="g"><error/></testcase></s>')
    {'passed': 1, 'failed': ['g']}

    A file that does not load has one test without a class:

    >>> read_report('<s><testcase classname="" name="tests.test_a"><error/></testcase></s>')
    {'passed': 0, 'failed': ['*']}
    """
    passed, failed = 0, []
    for case in ET.fromstring(text).iter("testcase"):
        marks = {child.tag for child in case}
        place = str(case.get("classname"))
        if marks & {"failure", "error"}:
            holder = [part for part in place.split(".") if part[:1].isupper()]
            failed.append("::".join([*holder, str(case.get("name"))]) if place else "*")
        elif "skipped" not in marks:
            passed += 1
    return FileOutcome(passed=passed, failed=sorted(set(failed)))


def run_suite(
    name: str, checkouts: Path | None, interpreter: Sequence[str], workers: int, only: str = ""
) -> dict[str, FileOutcome] | None:
    """Runs the files of a library whose paths have `only` in them; returns how each ends, None where there are none."""
    suite = list_files(name, checkouts)
    if suite is None:
        return None
    root, files = suite
    files = [file for file in files if only in str(file.relative_to(root))]
    with ThreadPoolExecutor(workers) as pool:
        outcomes = pool.map(lambda file: run_file(file, interpreter), files)
        return {str(file.relative_to(root)): outcome for file, outcome in zip(files, outcomes, strict=True)}


def find_failing_alone(
    name: str, outcomes: dict[str, FileOutcome], recorded: dict[str, FileOutcome]
) -> list[str]:
    """Returns the tests that fail on effx and do not fail with JAX, `library/file::Class::test`.

    >>> now = {"a.py": FileOutcome(passed=1, failed=["f", "g"]), "b.py": FileOutcome(passed=0, failed=["*"])}
    >>> then = {"a.py": FileOutcome(passed=2, failed=["g"]), "b.py": FileOutcome(passed=3, failed=[])}
    >>> find_failing_alone("x", now, then)
    ['x/a.py::f', 'x/b.py::*']
    """
    alone = []
    for file, outcome in outcomes.items():
        with_jax = recorded.get(file, FileOutcome(passed=0, failed=[]))["failed"]
        if "*" not in with_jax:
            alone += [f"{name}/{file}::{test}" for test in outcome["failed"] if test not in with_jax]
    return alone


def count_passing(outcomes: dict[str, FileOutcome], recorded: dict[str, FileOutcome]) -> tuple[int, int]:
    """Returns how many of the tests that pass with JAX pass here, and how many pass with JAX.

    Files that were not run here, or that do not load or end with JAX, count on neither side.

    >>> then = {"a.py": FileOutcome(passed=3, failed=["h"]), "b.py": FileOutcome(passed=0, failed=["*"])}
    >>> count_passing({"a.py": FileOutcome(passed=2, failed=["f", "h"])}, then)
    (2, 3)
    """
    here = there = 0
    for file, outcome in outcomes.items():
        known = recorded.get(file)
        if known is not None and "*" not in known["failed"]:
            there += known["passed"]
            here += min(outcome["passed"], known["passed"])
    return here, there


def load_record() -> dict[str, Recorded]:
    """Returns how the tests end with JAX, by library."""
    record: dict[str, Recorded] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return record


def record_suite(name: str, outcomes: dict[str, FileOutcome]) -> None:
    """Stores how the tests of a library ended with JAX."""
    record = load_record()
    files = {**record[name]["files"], **outcomes} if name in record else outcomes
    record[name] = Recorded(version=importlib.metadata.version(SUITES[name].distribution), files=files)
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def report_suite(name: str, outcomes: dict[str, FileOutcome], reasons: dict[str, str]) -> list[str]:
    """Prints how the tests of a library ended beside JAX's; returns those that fail on effx alone without a reason."""
    known = load_record().get(name)
    if known is None:
        print(f"  with JAX it has not been run: no comparison ({RECORD.name})")
        return []
    version = importlib.metadata.version(SUITES[name].distribution)
    if version != known["version"]:
        print(f"  {version} is installed, with JAX {known['version']} was run")
    alone = find_failing_alone(name, outcomes, known["files"])
    here, there = count_passing(outcomes, known["files"])
    share = f", {100 * here / there:.1f} %" if there else ""
    print(f"  {here} of {there} that pass with JAX{share}; {len(alone)} fail on effx alone")
    for test in alone:
        reason = next((why for pattern, why in reasons.items() if is_allowed(test, [pattern])), "NO REASON")
        print(f"    {test}: {reason}")
    unneeded = compare_with_reasons(alone, {p: r for p, r in reasons.items() if p.startswith(f"{name}/")})[1]
    print(*[f"    does not fail any more: {p}" for p in unneeded], sep="\n", end="\n" if unneeded else "")
    return compare_with_reasons(alone, reasons)[0]


def main(arguments: Iterable[str]) -> int:
    """Runs the suites; returns 1 if something fails on effx alone without a reason."""
    parser = argparse.ArgumentParser(description="Tests of JAX's libraries on effx.")
    parser.add_argument(
        "folder", nargs="?", type=Path, help="has checkouts of the libraries whose wheels have no tests"
    )
    parser.add_argument("--library", action="append", choices=SUITES, help="one library; may be repeated")
    parser.add_argument("--only", default="", help="files whose paths have this in them")
    parser.add_argument("--record", action="store_true", help="with JAX: store how the tests end")
    parser.add_argument("--workers", type=int, default=2, help="files that run at a time")
    options = parser.parse_args(list(arguments))
    interpreter = [sys.executable, *([] if options.record else ["-m", "effx.compat"])]
    reasons = parse_reasons(EXCEPTIONS.read_text(encoding="utf-8"))
    unexpected: list[str] = []
    for name in options.library or SUITES:
        print(name, flush=True)
        start = time.monotonic()
        checkouts = options.folder.resolve() if options.folder else None
        outcomes = run_suite(name, checkouts, interpreter, options.workers, options.only)
        if outcomes is None:
            where = "its wheel" if SUITES[name].folder is None else f"{options.folder}/{name}"
            print(f"  left out: there are no tests in {where}")
            continue
        passed = sum([outcome["passed"] for outcome in outcomes.values()])
        failed = sum([len(outcome["failed"]) for outcome in outcomes.values()])
        print(f"  {len(outcomes)} files, {time.monotonic() - start:.0f} s: {passed} passed, {failed} did not")
        if options.record:
            record_suite(name, outcomes)
        else:
            unexpected += report_suite(name, outcomes, reasons)
    if not options.record:
        print(f"{len(unexpected)} fail on effx alone without a reason")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
