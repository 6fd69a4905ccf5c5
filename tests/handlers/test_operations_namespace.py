"""`effx.handling.ops` has every operation class and trait, under names that do not move with the files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import effx.handling.ops as ops
from effx.effects import Operation
from effx.handling import operation_classes
from effx.ir.catalogue import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
# What stands between an operation class and `Operation` and is a matter of effx's own files.
OWN = {"PositiveBinary", "UnitIntervalElementwise"}


def find_bases(kind: type[Operation[object]]) -> set[str]:
    """Returns the names of the traits of an operation class that effx defines with its operations."""
    bases = [b for b in kind.__mro__[1:] if issubclass(b, Operation) and b.__module__.startswith(PACKAGES)]
    return {b.__name__ for b in bases if not b.__name__.startswith("_")}


def test_every_class_is_there() -> None:
    """Each concrete class has its own name there, and is the class itself."""
    for kind in operation_classes():
        assert getattr(ops, kind.__name__) is kind


def test_every_trait_is_there() -> None:
    """So have the traits, for rules of many operations at once."""
    traits = {name for kind in operation_classes() for name in find_bases(kind)} - OWN
    assert {"Elementwise", "Comparison", "Reduction", "Cumulative", "Collective", "HigherOrder"} < traits
    assert traits <= set(dir(ops))


def test_a_name_that_is_not_there() -> None:
    """What is no operation is an AttributeError."""
    with pytest.raises(AttributeError, match=r"^module 'effx\.handling\.ops' has no attribute 'Nothing'$"):
        ops.Nothing  # type: ignore[attr-defined]  # wrong on purpose  # noqa: B018


PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
PROGRAMS = [*sorted((ROOT / "effx/library").rglob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]


@pytest.mark.parametrize("path", [*PAGES, *PROGRAMS], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_library_import_it_from_there(path: Path) -> None:
    """Pages, examples and the library's handlers import no operation from the file where it stands."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        modules = [n.module or "" for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)]
    else:
        modules = re.findall(r"^(?:>>> |\.\.\. )?from (\S+) import", text, re.MULTILINE)
    assert [m for m in modules if m.startswith(PACKAGES)] == []
