"""The gallery's page has all programs and notebooks, as they are; what was measured stays until it is measured again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.gallery import PAGE, PICTURES, RESULTS, describe, list_programs, read_result
from tools.notebooks import read_cells

PROGRAMS = list_programs()


def test_all_have_a_result() -> None:
    """No program is without a result, and no result without a program."""
    assert sorted(path.stem for path in PROGRAMS) == sorted(RESULTS)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_page_has_the_program(program: Path) -> None:
    """Its line says what the program is, and has its picture, its result and its time."""
    rows = [
        r
        for r in PAGE.read_text(encoding="utf-8").splitlines()
        if f"{program.name}`: " in r or f"]({program.name})" in r
    ]
    assert len(rows) == 1, f"{PAGE.name} is stale: run `python -m tools.gallery`"
    picture, text, result, seconds = [cell.strip() for cell in rows[0].strip("|").split("|")]
    assert describe(program) in text
    assert f"(../images/gallery/{program.stem}.png)" in picture
    assert result
    assert "{}" not in result
    assert re.fullmatch(r"\d+ s", seconds)


def test_pictures_are_small() -> None:
    """Each program has its picture, no other is there, and all load at once."""
    assert sorted(path.stem for path in PICTURES.iterdir()) == sorted(RESULTS)
    assert max(path.stat().st_size for path in PICTURES.iterdir()) <= 40_000


def test_a_missing_result_is_an_error() -> None:
    """A program that prints something else is not on the page with an empty result."""
    with pytest.raises(SystemExit, match="residual: no result like"):
        read_result("residual", "test accuracy was good\n")


def test_cells_are_read() -> None:
    """Only cells are code, without their options."""
    page = "```{code-cell}\n:tags: [x]\na = 1\n\nb = 2\n```\n\n```python\nc = 3\n```\n```{code-cell} ipython3\nd\n```\n"
    assert read_cells(page) == ["a = 1\n\nb = 2\n", "d\n"]
