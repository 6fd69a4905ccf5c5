"""The rules of `tools.release_check` for what a wheel has, and how it reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import release_check
from tools.release_check import CheckError, Report, SkipError, compare_wheels, find_breaches

SOURCES = ["effx/__init__.py", "effx/__init__.pyi", "effx/py.typed"]
WHEEL = [*SOURCES, "effx-0.1.0.dist-info/METADATA", "effx-0.1.0.dist-info/licenses/LICENSE"]


def test_a_wheel_of_the_sources_breaks_no_rule() -> None:
    """What git tracks of the package, and its metadata."""
    assert [*find_breaches(WHEEL, SOURCES)] == []


@pytest.mark.parametrize(
    ("name", "breach"),
    [
        ("tests/test_jit.py", "tests/test_jit.py: neither in effx/ nor in its dist-info/"),
        ("effx/__pycache__/jit.pyc", "effx/__pycache__/jit.pyc: a cache"),
        ("effx/tests/cases.py", "effx/tests/cases.py: a test"),
        ("effx/test_jit.py", "effx/test_jit.py: a test"),
        ("effx/notes.txt", "effx/notes.txt: not tracked by git"),
    ],
)
def test_what_does_not_belong_there(name: str, breach: str) -> None:
    """Tests, caches, other packages and stray files are named."""
    assert breach in [*find_breaches([*WHEEL, name], SOURCES)]


@pytest.mark.parametrize("name", ["effx/py.typed", "effx/__init__.pyi"])
def test_what_is_missing(name: str) -> None:
    """So is what type checkers need."""
    breaches = [*find_breaches([n for n in WHEEL if n != name], SOURCES)]
    assert any(breach.startswith(f"{name}: not there") for breach in breaches)


def test_wheels_are_compared_by_their_bytes() -> None:
    """A file of one wheel only differs, and so does one with other bytes."""
    assert compare_wheels({"a": b"1", "b": b"2", "c": b"3"}, {"a": b"1", "b": b"", "d": b"4"}) == [
        "b",
        "c",
        "d",
    ]


def test_sizes_have_a_limit(tmp_path: Path) -> None:
    """A file above its limit is an error that says both."""
    path = tmp_path / "effx.whl"
    path.write_bytes(bytes(2_000_000))
    assert release_check.check_size(path, 2_000_000) == "effx.whl: 2.00 MB, limit 2.0"
    with pytest.raises(CheckError, match=r"^effx\.whl: 2\.00 MB, limit 1\.0$"):
        release_check.check_size(path, 1_000_000)


def test_the_table_says_how_each_check_ended() -> None:
    """A row for each, with the output of what failed below."""

    def fail() -> str:
        raise CheckError("broken\nits output")

    def skip() -> str:
        raise SkipError("no interpreter")

    report = Report()
    assert report.check("good", lambda: "fine")
    assert not report.check("not here", skip)
    assert not report.check("bad", fail)
    assert report.has_failures
    lines = report.format_table().splitlines()
    assert [line.split()[0] for line in lines] == ["pass", "skip", "FAIL", "its"]


def test_what_is_skipped_is_no_failure() -> None:
    """A Python that is not here does not make the whole fail."""

    def skip() -> str:
        raise SkipError("no interpreter")

    report = Report()
    report.check("not here", skip)
    assert not report.has_failures


def test_requirements_have_the_projects_ranges() -> None:
    """What is installed beside the wheel comes from pyproject.toml."""
    assert release_check.read_requirement("jaxlib").startswith("jaxlib>=")
    assert release_check.read_requirement("mypy").startswith("mypy>=")
