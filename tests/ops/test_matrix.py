"""Every handler has a treatment of every operation, and docs/tables/operations.md lists it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from effx.ir.catalogue import operation_classes
from effx.ir.ops.base import Binary, Elementwise, Unary
from tests.ops.table import BY_KIND
from tools.operation_matrix import PAGE, TABLES, cell, render


@pytest.mark.parametrize("column", TABLES)
def test_no_cell_is_empty(column: str) -> None:
    """Add a rule, or a reason in tools/operation_matrix.py."""
    assert [kind.name for kind in operation_classes() if not cell(column, kind)] == []


@pytest.mark.parametrize("column", ["StableHLO", "jvp", "reference"])
def test_elementwise_operations_say_what_they_are(column: str) -> None:
    """By a declaration, a rule, a trait or a decomposition; declare what is missing in the class."""
    kinds = [kind for kind in operation_classes() if issubclass(kind, Unary | Binary)]
    cells = {kind.name: cell(column, kind) for kind in kinds}
    assert {name: text for name, text in cells.items() if not text or text.startswith("none")} == {}


@pytest.mark.parametrize(
    ("column", "declares"),
    [
        ("StableHLO", lambda kind: kind.stablehlo != ""),
        ("jvp", lambda kind: kind.tangent is not Elementwise.tangent),
        (
            "jvp",
            lambda kind: issubclass(kind, Binary) and kind.tangent_by_first is not Binary.tangent_by_first,
        ),
        ("reference", lambda kind: kind.reference is not Elementwise.reference),
    ],
)
def test_no_rule_hides_a_declaration(column: str, declares: Callable[[type[Elementwise]], bool]) -> None:
    """What stands in a class stands nowhere else."""
    kinds = [kind for kind in operation_classes() if issubclass(kind, Elementwise) and declares(kind)]
    assert kinds
    assert [kind.name for kind in kinds if cell(column, kind) == "rule"] == []


def test_linear_operations_have_a_transpose() -> None:
    """What the table calls linear in some operand may be met in a linear program."""
    linear = [row.kind for row in BY_KIND.values() if row.linear]
    assert [kind.name for kind in linear if cell("transpose", kind).startswith("none")] == []


def test_page_is_fresh() -> None:
    """`python -m tools.operation_matrix` writes it."""
    assert PAGE.read_text(encoding="utf-8") == render()
