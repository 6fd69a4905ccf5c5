"""The repository's own tools count and compare what they claim to.

Never: reads the real baseline; a person may be about to lower it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import report, timing
from tools import count_any, nanobind_signatures


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("from typing import Any", 0),
        ("x: Any", 1),
        ("import typing\nx: typing.Any", 1),
        ("x: 'list[Any]'", 1),
        ("def f(x: Any, *y: 'Any') -> dict[str, Any]: ...", 3),
        ("'Any word in a docstring'", 0),
    ],
)
def test_explicit_any_is_counted(source: str, number: int) -> None:
    """Annotations count, quoted ones too; imports and prose do not."""
    assert count_any.count(source) == number


def test_counts_are_by_dotted_module(tmp_path: Path) -> None:
    """A package's `__init__` counts under the package's name, and zero is left out."""
    package = tmp_path / "effx"
    (package / "ir").mkdir(parents=True)
    (package / "ir" / "__init__.py").write_text("x: Any\n")
    (package / "tree.py").write_text("x: Any\ny: Any\n")
    (package / "empty.py").write_text("x: int\n")
    assert count_any.measure(package) == {"effx.ir": 1, "effx.tree": 2}


def row(effx: tuple[float, ...], jax: tuple[float, ...], budget: float | None) -> report.Row:
    samples = {"effx": timing.Sample(effx), "jax": timing.Sample(jax)}
    return report.Row("row", budget, 1, samples, {})


def test_a_ratio_pairs_the_samples_of_a_round() -> None:
    """A machine that is slow for a whole round slows both libraries, and the ratio is unmoved."""
    assert row((1.0, 10.0, 1.0), (2.0, 20.0, 2.0), None).ratio == timing.Ratio(0.5, 0.0)


def test_verdicts() -> None:
    """A row passes at its budget, fails over it, and is near when the noise reaches down to it."""
    assert row((1.0, 1.0), (1.0, 1.0), 1.0).verdict == "PASS"
    assert row((2.0, 2.0), (1.0, 1.0), 1.0).verdict == "FAIL"
    assert row((0.9, 1.1, 1.2), (1.0, 1.0, 1.0), 1.0).verdict == "PASS within noise"
    assert row((2.0,), (1.0,), None).verdict == ""


def test_a_library_that_raised_counts_as_a_failure() -> None:
    """A benchmark that did not run is over its budget."""
    broken = report.Row("row", 1.0, 1, {}, {"effx": "NotImplementedError: sort"})
    assert broken.verdict == "ERROR"
    assert report.failed([broken])
    assert report.closing([broken]) == "budgets: 0 pass, 0 pass within noise, 0 fail, 1 did not run"


def parameters_of(definition: str) -> list[nanobind_signatures.Parameter]:
    node = ast.parse(definition + ": ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return nanobind_signatures.parameters(node.args)


@pytest.mark.parametrize(
    ("stub", "runtime", "agree"),
    [
        ("def f(x)", "def f(x)", True),
        ("def f(x)", "def f(x, y=1)", True),
        ("def f(x, /)", "def f(x)", True),
        ("def f(x)", "def f(x, /)", False),
        ("def f(x)", "def f(y)", False),
        ("def f(x=1)", "def f(x)", False),
        ("def f(x)", "def f(x, y)", False),
        ("def f(*, x)", "def f(x)", False),
    ],
)
def test_stub_parameters_fit_when_every_call_does(stub: str, runtime: str, agree: bool) -> None:
    """A stub may leave out what is optional, and may promise nothing that the function refuses."""
    assert nanobind_signatures.fits(parameters_of(stub), parameters_of(runtime)) is agree
