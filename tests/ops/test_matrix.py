"""Every handler has a treatment of every operation, and docs/operations.md lists it."""

from __future__ import annotations

import pytest

from effx.ir.catalogue import operation_classes
from tests.ops.table import BY_KIND
from tools.operation_matrix import PAGE, TABLES, cell, render


@pytest.mark.parametrize("column", TABLES)
def test_no_cell_is_empty(column: str) -> None:
    """Add a rule, or a reason in tools/operation_matrix.py."""
    assert [kind.name for kind in operation_classes() if not cell(column, kind)] == []


def test_linear_operations_have_a_transpose() -> None:
    """What the table calls linear in some operand may be met in a linear program."""
    linear = [row.kind for row in BY_KIND.values() if row.linear]
    assert [kind.name for kind in linear if cell("transpose", kind).startswith("none")] == []


def test_page_is_fresh() -> None:
    """`python -m tools.operation_matrix` writes it."""
    assert PAGE.read_text(encoding="utf-8") == render()
