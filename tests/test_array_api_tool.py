"""The run of the array API standard's suite: its exceptions, and what it says of a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import array_api
from tools.expected_failures import parse_reasons

REPORT = """<testsuites><testsuite>
<testcase classname="array_api_tests.test_a" name="test_b[x -&gt; 1]"><failure/></testcase>
<testcase classname="array_api_tests.test_a" name="test_c"><error/></testcase>
<testcase classname="array_api_tests.test_a" name="test_d"><skipped/></testcase>
<testcase classname="array_api_tests.test_a.TestE" name="test_f"/>
</testsuite></testsuites>"""


def test_each_exception_has_a_reason() -> None:
    reasons = parse_reasons(array_api.EXCEPTIONS.read_text(encoding="utf-8"))
    assert len(reasons) > 10
    assert all(reasons.values())
    assert all([pattern.startswith("test_") and "::" in pattern for pattern in reasons])


def test_what_a_run_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = array_api.read_report(REPORT)
    assert outcome == array_api.Outcome(
        ["test_a.py::TestE::test_f"], ["test_a.py::test_b[x -> 1]", "test_a.py::test_c"]
    )
    exceptions = tmp_path / "exceptions.txt"
    exceptions.write_text("# why\ntest_a.py::test_b[*\ntest_a.py::test_gone\n")
    monkeypatch.setattr(array_api, "EXCEPTIONS", exceptions)
    monkeypatch.setattr(array_api, "run_suite", lambda folder, report: outcome)
    assert array_api.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == (
        "1 passed, 2 failed, 1 of these without a reason\n"
        "  fails without a reason: test_a.py::test_c\n"
        "  does not fail any more: test_a.py::test_gone\n"
    )
    exceptions.write_text("# why\ntest_a.py::test_*\n")
    assert array_api.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("1 passed, 2 failed, 0 of these without a reason\n")


def test_a_suite_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"array_api: the suite in .* wrote no report"):
        array_api.run_suite(tmp_path, tmp_path / "none" / "report.xml")
