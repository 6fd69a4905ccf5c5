"""The command that runs libraries' own tests on effx: what it runs, counts and excuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import library_suites
from tools.expected_failures import parse_reasons
from tools.library_suites import FileOutcome, Recorded

PASSING = "def test_passes():\n    assert True\n"
FAILING = "class TestIt:\n    def test_fails(self):\n        assert False\n"


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    """A folder with a library's checkout of three files, of which one does not load."""
    folder = tmp_path / "quax" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(PASSING + FAILING, encoding="utf-8")
    (folder / "test_b.py").write_text("import no_such_module_at_all\n", encoding="utf-8")
    (folder / "sub").mkdir()
    (folder / "sub" / "test_c.py").write_text(PASSING, encoding="utf-8")
    (folder / "helpers.py").write_text("", encoding="utf-8")
    return tmp_path


def test_each_file_runs_by_itself(checkouts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are counted by file; what does not load fails as a whole."""
    monkeypatch.setattr(library_suites, "find_version", lambda _: "0.1")
    outcomes = library_suites.run_suite("quax", checkouts, [sys.executable], workers=1)
    assert outcomes == {
        "sub/test_c.py": {"passed": 1, "failed": []},
        "test_a.py": {"passed": 1, "failed": ["TestIt::test_fails"]},
        "test_b.py": {"passed": 0, "failed": ["*"]},
    }


def test_what_is_not_there_is_left_out(
    checkouts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A library without a checkout is named, and is no failure."""
    monkeypatch.setattr(library_suites, "find_version", lambda library: None if library == "folx" else "0.1")
    arguments = ["--library", "lineax", "--library", "folx"]
    assert library_suites.main([str(checkouts), *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "lineax",
        f"  left out: there are no tests in {checkouts.resolve()}/lineax/tests",
        "folx",
        "  left out: folx is not installed",
        "0 fail on effx alone without a reason",
    ]
    assert library_suites.main(arguments[:2]) == 0
    assert (
        "  left out: its tests are not in its wheel; give a folder with a checkout" in capsys.readouterr().out
    )


def test_a_file_that_does_not_end_fails(tmp_path: Path) -> None:
    """The time of a file is limited."""
    file = tmp_path / "test_slow.py"
    file.write_text("import time\n\ndef test_waits():\n    time.sleep(600)\n", encoding="utf-8")
    assert library_suites.run_file(file, [sys.executable], seconds=1) == {"passed": 0, "failed": ["*"]}


def test_failures_without_a_reason_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What fails with JAX too does not count; a reason excuses, one that nothing needs is reported."""
    record, exceptions = tmp_path / "record.json", tmp_path / "exceptions.txt"
    recorded: dict[str, Recorded] = {
        "quax": {"version": "0.1", "files": {"test_a.py": {"passed": 3, "failed": ["test_both"]}}}
    }
    record.write_text(json.dumps(recorded), encoding="utf-8")
    exceptions.write_text(
        "# a text\nquax/test_a.py::test_text\n\n# old\nquax/test_a.py::gone\nquax/test_z.py::other\n",
        encoding="utf-8",
    )
    outcome: dict[str, FileOutcome] = {
        "test_a.py": {"passed": 1, "failed": ["test_both", "test_new", "test_text"]},
        "test_new.py": {"passed": 1, "failed": ["test_it"]},
    }
    monkeypatch.setattr(library_suites, "RECORD", record)
    monkeypatch.setattr(library_suites, "EXCEPTIONS", exceptions)
    monkeypatch.setattr(library_suites, "run_suite", lambda *_: outcome)
    monkeypatch.setattr(library_suites, "find_version", lambda _: "0.2")
    assert library_suites.main(["--library", "quax"]) == 1
    out = capsys.readouterr().out
    assert "  0.2 is installed, with JAX 0.1 was run" in out
    assert "  1 of 3 that pass with JAX, 33.3 %; 2 fail on effx alone" in out
    assert "    quax/test_a.py::test_new: NO REASON" in out
    assert "    quax/test_a.py::test_text: a text" in out
    assert "  test_new.py has not been run with JAX" in out
    assert [line for line in out.splitlines() if "any more" in line] == [
        "    does not fail any more: quax/test_a.py::gone"
    ]
    assert out.endswith("1 fail on effx alone without a reason\n")


def test_recording_adds_to_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were not run again keep their outcome."""
    monkeypatch.setattr(library_suites, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(library_suites, "find_version", lambda _: "1.0")
    library_suites.record_suite("chex", {"a.py": {"passed": 1, "failed": []}})
    library_suites.record_suite("chex", {"b.py": {"passed": 2, "failed": ["f"]}})
    assert library_suites.load_record() == {
        "chex": {
            "version": "1.0",
            "files": {"a.py": {"passed": 1, "failed": []}, "b.py": {"passed": 2, "failed": ["f"]}},
        }
    }
    monkeypatch.setattr(library_suites, "find_version", lambda _: "2.0")
    library_suites.record_suite("chex", {"b.py": {"passed": 3, "failed": []}})
    assert library_suites.load_record()["chex"] == {
        "version": "2.0",
        "files": {"b.py": {"passed": 3, "failed": []}},
    }


def test_a_command_that_pytest_does_not_take_is_an_error(tmp_path: Path) -> None:
    """It says nothing about the tests."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n", encoding="utf-8")
    file = tmp_path / "test_a.py"
    file.write_text(PASSING, encoding="utf-8")
    with pytest.raises(RuntimeError, match="unrecognized arguments: --no-such-option"):
        library_suites.run_file(file, [sys.executable])


def test_each_exception_has_a_reason() -> None:
    """The reviewed list says of a known library why its tests fail."""
    reasons = parse_reasons(library_suites.EXCEPTIONS.read_text(encoding="utf-8"))
    assert all(reasons.values())
    assert {pattern.split("/")[0] for pattern in reasons} <= set(library_suites.SUITES)


def test_it_runs_without_effx() -> None:
    """With `--record` it runs where JAX is installed, and effx is not: it imports the standard library alone."""
    code = "import sys; sys.modules['effx'] = None; import tools.library_suites"
    root = Path(library_suites.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
