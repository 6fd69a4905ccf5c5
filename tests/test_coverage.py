"""docs/tables/coverage.md says what effx lacks of jax's names and parameters, and what it lacks does not grow."""

from __future__ import annotations

import doctest
import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import jax_coverage
from tools.jax_coverage import ABSENT, TO_DO, Item, Namespace

ROOT = Path(__file__).resolve().parent.parent


def test_page_is_fresh() -> None:
    """`python -m tools.jax_coverage` writes it, for one version of jax; jax is loaded in a process of its own."""
    of, *_ = jax_coverage.baseline(jax_coverage.PAGE.read_text(encoding="utf-8"))
    try:
        installed = importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        installed = "none"
    if installed != of:
        pytest.skip(f"the page is of jax {of}, installed is {installed}")
    done = subprocess.run(
        [sys.executable, "-m", "tools.jax_coverage", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_examples_of_the_tool() -> None:
    """The docstrings' examples hold."""
    done = doctest.testmod(jax_coverage)
    assert done.attempted > 0
    assert done.failed == 0


def plain(x: object, axis: int = 0) -> None: ...
def renamed(a: object, axis: int = 0) -> None: ...
def positional(x: object, axis: int = 0, /) -> None: ...
def keyword(x: object, *, axis: int = 0) -> None: ...
def moved(axis: int, x: object) -> None: ...
def other(x: object, axis: int = 1) -> None: ...
def short(x: object) -> None: ...
def longer(x: object, axis: int = 0, dtype: type = float) -> None: ...
def demanding(x: object, axis: int = 0, *, dtype: type) -> None: ...
def open_(*args: object, **kwargs: object) -> None: ...


@pytest.mark.parametrize(
    ("theirs", "ours", "gaps"),
    [
        (plain, plain, {}),
        (plain, longer, {}),
        (plain, renamed, {"f(x)": "called a"}),
        (
            plain,
            positional,
            {
                "f(x)": "positional only, there positional or keyword",
                "f(axis)": "positional only, there positional or keyword",
            },
        ),
        (plain, keyword, {"f(axis)": "keyword only, there positional or keyword"}),
        (
            plain,
            moved,
            {
                "f(x)": "at index 1, there at 0",
                "f(axis)": "at index 0, there at 1; required, there default 0",
            },
        ),
        (plain, other, {"f(axis)": "default 1, there default 0"}),
        (plain, short, {"f(axis)": "refused"}),
        (longer, plain, {"f(dtype)": "refused"}),
        (plain, demanding, {"f(dtype)": "required, there unknown"}),
        (
            longer,
            demanding,
            {"f(dtype)": "keyword only, there positional or keyword; required, there default float"},
        ),
        (plain, open_, {}),
        (open_, plain, {"f(**kwargs)": "refused"}),
        (open_, demanding, {"f(**kwargs)": "refused", "f(dtype)": "required, there unknown"}),
        (keyword, short, {"f(axis)": "refused"}),
        (
            positional,
            renamed,
            {"f(x)": "called a", "f(axis)": "positional or keyword, there positional only"},
        ),
    ],
)
def test_parameters_are_compared(
    theirs: Callable[..., None], ours: Callable[..., None], gaps: dict[str, str]
) -> None:
    """Name, kind, index and default of each parameter, and what ours alone requires."""
    found = jax_coverage.parameters("f", theirs, ours)
    assert {item.name: item.gap for item in found if item.gap} == gaps


class Theirs:
    def method(self, x: int) -> None: ...
    def __len__(self) -> int:
        return 0

    def _private(self) -> None: ...


class Ours:
    def method(self) -> None: ...


def test_classes_are_compared() -> None:
    """Methods, operators and methods' parameters, but for private ones."""
    found = jax_coverage.compare("jax.C", Theirs, Ours)
    assert [(item.name, item.gap) for item in found if item.gap] == [
        ("jax.C.", "has no __len__"),
        ("jax.C.method(x)", "refused"),
    ]


def test_namespace_objects_are_compared() -> None:
    """What has names only offers these."""
    found = jax_coverage.compare("jax.n", SimpleNamespace(a=1, b=2), SimpleNamespace(b=2))
    assert [(item.name, item.gap) for item in found] == [("jax.n", ""), ("jax.n.", "has no a")]


def test_none_is_a_value() -> None:
    """A name may stand for None, as newaxis does; only a name that is not there is missing."""
    assert list(jax_coverage.compare("jax.n", None, None)) == [Item("jax.n")]
    assert list(jax_coverage.compare("jax.n", None, ABSENT)) == [Item("jax.n", "missing")]


def test_public_names_of_modules(tmp_path: Path) -> None:
    """A module of functions offers what it defines and re-exports; one without offers all it has; `__all__` decides."""

    def names(source: str) -> set[str]:
        path = tmp_path / f"m{len(list(tmp_path.iterdir()))}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return jax_coverage.public_names(module)

    imports = "import math\nfrom math import sin, cos as cos\n_x = 1\ny, z = 1, 2\nw: int = 3\n"
    assert names(imports) == {"sin", "cos", "y", "z", "w"}
    assert names(imports + "def f(): ...\nclass C: ...\n") == {"cos", "y", "z", "w", "f", "C"}
    assert names(imports + "__all__ = ['y']\n_deprecations = {'old': ('is gone', None)}\n") == {"y", "old"}


GAPS = [
    Namespace("jax", [Item("jax.f"), Item("jax.g", "missing"), Item("jax.f(x)", "refused"), Item("jax.f(y)")])
]


def test_reasons_are_given_to_gaps() -> None:
    """A gap without a reason is to do; jax's own reason comes first."""
    (found,) = jax_coverage.explained(GAPS, {"jax.f(x)": "no"})
    assert [item.reason for item in found.items] == ["", TO_DO, "no", ""]
    (found,) = jax_coverage.explained([Namespace("jax", [Item("jax.g", "missing", "removed there")])], {})
    assert [item.reason for item in found.items] == ["removed there"]


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("jax.f", "the reason for 'jax.f' fits jax.f, which is there"),
        ("jax.f(?)", "the reason for 'jax.f(?)' fits jax.f(y), which is there"),
        ("jax.h", "reasons that fit nothing which is missing: jax.h"),
    ],
)
def test_reasons_for_what_is_there_are_refused(reason: str, message: str) -> None:
    """A reason must go when its gap is closed."""
    with pytest.raises(ValueError, match="reason") as raised:
        jax_coverage.explained(GAPS, {reason: "no"})
    assert str(raised.value) == message


def test_what_is_to_do_may_not_grow() -> None:
    """The page is the baseline."""
    now = jax_coverage.explained(GAPS, {})
    page = jax_coverage.render(now, "1.0")
    assert jax_coverage.baseline(page) == ("1.0", 1, 1)
    assert jax_coverage.grown(page, now) == ""
    more = [
        *now,
        Namespace("jax.lax", [Item("jax.lax.a", "missing", TO_DO), Item("jax.lax.b", "missing", "no")]),
    ]
    assert jax_coverage.grown(page, more) == "3 names and parameters are to do, coverage.md allows 2"
    assert jax_coverage.grown(jax_coverage.render(more, "1.0"), now) == ""


def test_the_page_lists_gaps_with_reasons() -> None:
    """A row for a namespace with its counts, and one for each gap; modules that are not compared stand apart."""
    page = jax_coverage.render(
        [*jax_coverage.explained(GAPS, {}), Namespace("jax.core", reason="theirs|")], "1.0"
    )
    assert page.partition("To do: ")[2] == (
        "1 names, 1 parameters and members.\n\n"
        "| namespace | names | there | with a reason | to do | parameters to do |\n|---|---|---|---|---|---|\n"
        "| `jax` | 2 | 1 | 0 | 1 | 1 |\n\n"
        "| not compared | why |\n|---|---|\n| `jax.core` | theirs\\| |\n\n"
        "## jax\n\n| name | here | why |\n|---|---|---|\n"
        "| `g` | missing | to do |\n| `f(x)` | refused | to do |\n"
    )
