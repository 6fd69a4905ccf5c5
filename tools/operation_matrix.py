"""Renders the matrix operations x handlers, `docs/tables/operations.md`, from the handlers' rule tables.

python -m tools.operation_matrix        writes the page
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import effx.lower.text.stablehlo  # noqa: F401  # registers the rules
from effx.effects import RuleTable
from effx.families.linalg.qr import Geqp3, Geqrf, HouseholderProduct
from effx.families.linalg.similarity import Hessenberg, Schur, Tridiagonal
from effx.families.platform import PlatformIndex
from effx.handlers import transpose
from effx.handlers.jvp import JVP
from effx.handlers.linear.partial_eval import splitters
from effx.handlers.oracle import Reference
from effx.handlers.recursion import PayloadHandler
from effx.handlers.vmap import Vmap
from effx.ir.catalogue import Kind, operation_classes
from effx.ir.ops.base import Linear
from effx.ir.ops.collective import Collective
from effx.ir.ops.control import HigherOrder
from effx.lower.text import emit
from tools.accelerators.operations import RECORD

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tables" / "operations.md"

TABLES: dict[str, RuleTable[Any]] = {
    "StableHLO": emit.rules,
    "jvp": JVP.rules,
    "transpose": transpose.handler.rules,
    "vmap": Vmap.rules,
    "reference": Reference.rules,
}

HEAD = """# Operations and handlers

What each handler makes of each operation. This page is written by `python -m tools.operation_matrix` from
the handlers' rule tables, and a test fails when it is stale or when a cell is empty. The last two columns say of which
operations a sample was compiled for an H100 and a TPU v5e (`python -m tools.accelerators.operations`), and why others were
not.

| cell | meaning |
|---|---|
| declared | what the operation's class says: its StableHLO, its derivative, its NumPy function |
| rule | a rule for this operation; in the column StableHLO possibly for some platforms only |
| by T | the rule of the trait or base class T |
| decomposition | expressed by other operations |
| recursion | the program that the operation holds is handled, operation by operation |
| none: why | refused, with the reason |

linearize is jvp under a recorder, which takes every operation. Of those that hold programs, SPLIT are
split into a known and a linear part; others are recorded whole.

"""


STEPS: dict[Kind, str] = {
    **dict.fromkeys((Geqrf, Geqp3, HouseholderProduct), "none: a step of qr, which has a rule"),
    **dict.fromkeys((Hessenberg, Schur), "none: a step of what eig computes, which has a rule"),
    Tridiagonal: "none: a step of eigh, which has a rule",
    PlatformIndex: "none: it has no operand",
}


def _no_transpose(kind: Kind) -> str:
    return "" if issubclass(kind, Linear) else "none: not linear"


# Why a handler has no rule, where that is how it should be.
REASONS: dict[str, Callable[[Kind], str]] = {
    "StableHLO": lambda kind: "none: vmap or pmap takes it before" if issubclass(kind, Collective) else "",
    "transpose": _no_transpose,
    "jvp": lambda kind: STEPS.get(kind, ""),
    "vmap": lambda kind: STEPS.get(kind, "") if kind is PlatformIndex else "",
}


def cell(column: str, kind: Kind) -> str:
    """Returns what a handler does with an operation; "" if nothing is known."""
    table = TABLES[column]
    goes_inside = column == "reference" or (
        column in ("jvp", "vmap") and PayloadHandler.recursions.origin(kind)
    )
    if issubclass(kind, HigherOrder) and table.origin(kind) is None and goes_inside:
        return "recursion"
    if column == "reference" and issubclass(kind, Collective):
        return "none: the host has no axes"
    origin = table.origin(kind)
    if column == "StableHLO" and origin is None:
        own = [p for p in emit.PLATFORMS if emit.rules_for(p).origin(kind) is kind]
        if own:
            return f"rule for {', '.join(own)}"
    if origin is kind:
        return "rule" if kind in table.own_rules() else "declared"
    if origin is not None:
        return f"by {origin.__name__}"
    if kind.can_decompose():
        return "decomposition"
    reason = REASONS.get(column)
    return "" if reason is None else reason(kind)


ACCELERATORS = {"cuda": "H100", "tpu": "v5e"}


def accelerator_cell(platform: str, kind: Kind, outcomes: dict[str, dict[str, str]]) -> str:
    """Returns whether a sample of an operation was compiled for a platform, or why it was not."""
    reason = outcomes.get(platform, {}).get(kind.name)
    if reason is None:
        return "none: no sample of it was compiled"
    if kind.name == "parallel_map":
        return "none: it takes several devices, and a sample is compiled for one"
    # The class of the error stands before its text.
    return "compiled" if reason == "" else f"none: {reason.partition(': ')[2].replace('|', '/')}"


def render() -> str:
    """Returns the page."""
    outcomes = json.loads(RECORD.read_text(encoding="utf-8"))
    sections: dict[str, list[str]] = {}
    for kind in operation_classes():
        cells = " | ".join(
            [
                *[cell(column, kind) for column in TABLES],
                *[accelerator_cell(platform, kind, outcomes) for platform in ACCELERATORS],
            ]
        )
        sections.setdefault(kind.__module__.rpartition(".")[2], []).append(f"| `{kind.name}` | {cells} |")
    columns = [*TABLES, *ACCELERATORS.values()]
    head = f"| operation | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}"
    split = [k.name for k in operation_classes() if issubclass(k, HigherOrder) and splitters.find(k)]
    return (
        HEAD.replace("SPLIT", ", ".join(split))
        + "\n\n".join([f"## {family}\n\n{head}\n" + "\n".join(rows) for family, rows in sections.items()])
        + "\n"
    )


def main() -> None:
    """Writes the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
