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
USAGE_ERROR = 4  # pytest's


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

    A file that does not load, crashes or does not end in time is itself what fails: its only name is `*`.
    """

    passed: int
    failed: list[str]


class Recorded(TypedDict):
    """How the tests of a library end with JAX."""

    version: str
    files: dict[str, FileOutcome]


def list_files(library: str, checkouts: Path | None) -> tuple[Path, list[Path]]:
    """Returns the folder of a library's tests, and the files.

    Raises:
        FileNotFoundError: the library, or its tests, are not there.
    """
    suite = SUITES[library]
    if find_version(library) is None:
        raise FileNotFoundError(f"{suite.distribution} is not installed")
    if suite.folder is None:
        origin = getattr(importlib.util.find_spec(library), "origin", None)
        root = Path(str(origin)).parent
    elif checkouts is None:
        raise FileNotFoundError("its tests are not in its wheel; give a folder with a checkout")
    else:
        root = checkouts / library / suite.folder
    files = sorted(root.rglob(suite.pattern))
    if not files:
        raise FileNotFoundError(f"there are no tests in {root}")
    return root, files


def find_version(library: str) -> str | None:
    """Returns the version of a library; None where it is not installed."""
    try:
        return importlib.metadata.version(SUITES[library].distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def run_file(file: Path, python: Sequence[str], seconds: float = SECONDS_A_FILE) -> FileOutcome:
    """Runs the tests of one file in a process.

    Args:
        file: the file. python: the command of the interpreter. seconds: after which the process is ended.

    Raises:
        RuntimeError: pytest does not take the command, since a plugin is missing, say.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # One process, also where a library's settings ask for several; several files run at a time already.
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", f"--junitxml={report}", str(file)]
        # Python would look for modules in the current folder first, where a library's `types.py` may stand.
        command = [*python, "-m", "pytest", *options]
        try:
            ended = subprocess.run(command, capture_output=True, check=False, timeout=seconds, cwd=folder)
        except subprocess.TimeoutExpired:
            return FileOutcome(passed=0, failed=["*"])
        if ended.returncode == USAGE_ERROR or b"No module named pytest" in ended.stderr:
            raise RuntimeError(f"{' '.join(command)}: {ended.stderr.decode()[-500:]}")
        if not report.exists():
            return FileOutcome(passed=0, failed=["*"])
        return read_report(report.read_text(encoding="utf-8"), file.stem)


def read_report(text: str, module: str) -> FileOutcome:
    """Reads a report of pytest's in JUnit's form about the tests of a module.

    >>> case = '<testcase classname="t.a.T" name="{}">{}</testcase>'
    >>> read_report(f"<s>{case.format('f', '')}{case.format('g', '<error/>')}</s>", "a")
    {'passed': 1, 'failed': ['T::g']}

    A file that does not load has one test without a class:

    >>> read_report('<s><testcase classname="" name="tests.a"><error/></testcase></s>', "a")
    {'passed': 0, 'failed': ['*']}
    """
    passed, failed = 0, []
    for case in ET.fromstring(text).iter("testcase"):
        marks = {child.tag for child in case}
        parts = str(case.get("classname")).split(".")
        if marks & {"failure", "error"}:
            classes = parts[parts.index(module) + 1 :] if module in parts else []
            failed.append("::".join([*classes, str(case.get("name"))]) if parts != [""] else "*")
        elif "skipped" not in marks:
            passed += 1
    return FileOutcome(passed=passed, failed=sorted(set(failed)))


def run_suite(
    library: str, checkouts: Path | None, python: Sequence[str], workers: int, only: str = ""
) -> dict[str, FileOutcome]:
    """Runs the files of a library whose paths have `only` in them; returns how each ends.

    Raises:
        FileNotFoundError: the library, or its tests, are not there.
    """
    root, files = list_files(library, checkouts)
    chosen = [file for file in files if only in str(file.relative_to(root))]
    with ThreadPoolExecutor(workers) as pool:
        outcomes = pool.map(lambda file: run_file(file, python), chosen)
        return {str(file.relative_to(root)): outcome for file, outcome in zip(chosen, outcomes, strict=True)}


def find_lone_failures(outcome: FileOutcome, with_jax: FileOutcome) -> list[str]:
    """Returns the tests of a file that fail on effx and do not fail with JAX; none where the file fails there as a whole.

    >>> now, then = FileOutcome(passed=1, failed=["f", "g"]), FileOutcome(passed=2, failed=["g"])
    >>> find_lone_failures(now, then), find_lone_failures(now, FileOutcome(passed=0, failed=["*"]))
    (['f'], [])
    """
    if "*" in with_jax["failed"]:
        return []
    return [test for test in outcome["failed"] if test not in with_jax["failed"]]


def count_passing(outcome: FileOutcome, with_jax: FileOutcome) -> tuple[int, int]:
    """Returns how many of the tests of a file that pass with JAX pass here, and how many pass with JAX.

    >>> then = FileOutcome(passed=3, failed=["h"])
    >>> count_passing(FileOutcome(passed=3, failed=["f"]), then), count_passing(FileOutcome(passed=0, failed=["*"]), then)
    ((2, 3), (0, 3))
    """
    there = with_jax["passed"]
    lone = find_lone_failures(outcome, with_jax)
    return 0 if lone == ["*"] else max(there - len(lone), 0), there


def load_record() -> dict[str, Recorded]:
    """Returns how the tests end with JAX, by library."""
    record: dict[str, Recorded] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return record


def record_suite(library: str, outcomes: dict[str, FileOutcome]) -> None:
    """Stores how tests of a library ended with JAX; files of the same version that were not run again keep theirs."""
    record, version = load_record(), str(find_version(library))
    known = record.get(library)
    kept = known["files"] if known is not None and known["version"] == version else {}
    record[library] = Recorded(version=version, files={**kept, **outcomes})
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def report_suite(library: str, outcomes: dict[str, FileOutcome], reasons: dict[str, str]) -> list[str]:
    """Prints how the tests of a library ended beside JAX's; returns those that fail on effx alone without a reason.

    What has not been run with JAX is named, and compared with nothing.
    """
    known = load_record().get(library)
    if known is None:
        print(f"  it has not been run with JAX: no comparison ({RECORD.name})")
        return []
    if find_version(library) != known["version"]:
        print(f"  {find_version(library)} is installed, with JAX {known['version']} was run")
    here = there = 0
    alone: list[str] = []
    for file, outcome in outcomes.items():
        with_jax = known["files"].get(file)
        if with_jax is None:
            print(f"  {file} has not been run with JAX")
            continue
        alone += [f"{library}/{file}::{test}" for test in find_lone_failures(outcome, with_jax)]
        counts = count_passing(outcome, with_jax)
        here, there = here + counts[0], there + counts[1]
    share = f", {100 * here / there:.1f} %" if there else ""
    print(f"  {here} of {there} that pass with JAX{share}; {len(alone)} fail on effx alone")
    ran = {f"{library}/{file}" for file in outcomes}
    unexpected, unneeded = compare_with_reasons(
        alone, {pattern: why for pattern, why in reasons.items() if pattern.split("::")[0] in ran}
    )
    for test in alone:
        reason = next((why for pattern, why in reasons.items() if is_allowed(test, [pattern])), "NO REASON")
        print(f"    {test}: {reason}")
    for pattern in unneeded:
        print(f"    does not fail any more: {pattern}")
    return unexpected


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
    python = [sys.executable, *([] if options.record else ["-m", "effx.compat"])]
    checkouts = options.folder.resolve() if options.folder else None
    reasons = parse_reasons(EXCEPTIONS.read_text(encoding="utf-8"))
    unexpected: list[str] = []
    for library in options.library or SUITES:
        print(library, flush=True)
        start = time.monotonic()
        try:
            outcomes = run_suite(library, checkouts, python, options.workers, options.only)
        except FileNotFoundError as error:
            print(f"  left out: {error}")
            continue
        passed = sum([outcome["passed"] for outcome in outcomes.values()])
        failed = sum([len(outcome["failed"]) for outcome in outcomes.values()])
        print(f"  {len(outcomes)} files, {time.monotonic() - start:.0f} s: {passed} passed, {failed} did not")
        if options.record:
            record_suite(library, outcomes)
        else:
            unexpected += report_suite(library, outcomes, reasons)
    if not options.record:
        print(f"{len(unexpected)} fail on effx alone without a reason")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
