"""The array API standard's own tests on `effx.numpy`: `python -m tools.array_api FOLDER`, or `make test-array-api`.

FOLDER is a checkout of https://github.com/data-apis/array-api-tests with its submodule; without one, the pinned commit is
cloned. What fails must stand in `tools/array_api_exceptions.txt`, each kind with a reason; what stands there and passes is
reported too. Nothing of the suite is stored here. It takes three minutes.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

from tools.expected_failures import compare_with_reasons, parse_reasons

COMMIT = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
ADDRESS = "https://github.com/data-apis/array-api-tests"
EXCEPTIONS = Path(__file__).with_name("array_api_exceptions.txt")
MAX_EXAMPLES = 20


class Outcome(NamedTuple):
    """How the suite ended.

    Attributes:
        passed, failed: the tests, `test_searching_functions.py::test_repeat`.
    """

    passed: list[str]
    failed: list[str]


def clone_suite(folder: Path) -> Path:
    """Clones the suite at the pinned commit, with the standard's text that it reads."""
    commands = [
        ["git", "clone", "--quiet", ADDRESS, str(folder)],
        ["git", "-C", str(folder), "checkout", "--quiet", COMMIT],
        ["git", "-C", str(folder), "submodule", "update", "--init", "--quiet"],
    ]
    for command in commands:
        subprocess.run(command, check=True)
    return folder


def run_suite(folder: Path, report: Path) -> Outcome:
    """Runs the suite in 64 bits, with the same examples each time.

    Raises:
        RuntimeError: it wrote no report.
    """
    root = str(Path(__file__).resolve().parents[1])
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "effx.numpy",
        "EFFX_ENABLE_X64": "1",
        "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    options = ["-q", "-p", "no:cacheprovider", f"--max-examples={MAX_EXAMPLES}"]
    options += ["--derandomize", "--disable-deadline"]
    command = [sys.executable, "-m", "pytest", "array_api_tests", *options, f"--junitxml={report}"]
    subprocess.run(command, cwd=folder, env=environment, check=False)
    if not report.exists():
        raise RuntimeError(f"array_api: the suite in {folder} wrote no report")
    return read_report(report.read_text(encoding="utf-8"))


def read_report(text: str) -> Outcome:
    """Reads a report of pytest's in JUnit's form.

    >>> read_report('<s><testcase classname="tests.test_a" name="test_b"/></s>')
    Outcome(passed=['test_a.py::test_b'], failed=[])
    """
    passed: list[str] = []
    failed: list[str] = []
    for case in ET.fromstring(text).iter("testcase"):
        marks = {child.tag for child in case}
        parts = str(case.get("classname")).split(".")
        file = next(i for i, part in enumerate(parts) if part.startswith("test_"))
        test = "::".join([f"{parts[file]}.py", *parts[file + 1 :], str(case.get("name"))])
        if marks & {"failure", "error"}:
            failed.append(test)
        elif "skipped" not in marks:
            passed.append(test)
    return Outcome(passed, failed)


def main(arguments: list[str]) -> int:
    """Runs the suite; returns 1 if something fails without a reason."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments[0]).resolve() if arguments else clone_suite(Path(temporary) / "suite")
        outcome = run_suite(folder, Path(temporary) / "report.xml")
    reasons = parse_reasons(EXCEPTIONS.read_text(encoding="utf-8"))
    unexpected, unneeded = compare_with_reasons(outcome.failed, reasons)
    print(
        f"{len(outcome.passed)} passed, {len(outcome.failed)} failed, {len(unexpected)} of these without a reason"
    )
    print(*[f"  fails without a reason: {t}" for t in unexpected], sep="\n")
    print(*[f"  does not fail any more: {p}" for p in unneeded], sep="\n")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
