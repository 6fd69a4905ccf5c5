"""What is promised of every shipped handler: no rule for control flow, public imports alone, lines that the guide states."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from effx.effects import Operation
from effx.handling import operation_classes
from effx.ir.ops.control import HigherOrder
from tools.shipped_handlers import PAGE, code_lines, modules, render, summary

MODULES = modules()
every_module = pytest.mark.parametrize("name", MODULES)

# What is needed beyond the rule, and why. Each entry must be in use.
CONTROL_FLOW: dict[tuple[str, str], str] = {
    (
        "checkify",
        "HigherOrder",
    ): "makes room in the state for what is checked inside, whose structure must not change there",
    ("cost", "HigherOrder"): "counts what is held in the place of the holder",
    (
        "padding.rules",
        "Scan",
    ): "runs as many steps as the padded array has, of which the last ones change nothing",
    ("padding.rules", "Call"): "performs the body of such a scan",
}
PUBLIC = frozenset(
    {
        "effx",
        "effx.handling",
        "effx.handling.ops",
        "effx.numpy",
        "effx.lax",
        "effx.errors",
        "effx.tree",
        "effx.random",
        "effx.nn",
    }
    | {"effx.dtypes", "effx.ad_checkpoint", "effx.checkpoint_policies", "effx.sharding", "effx.stages"}
    | {"effx.lazy"}  # which keeps old names of public classes
    # Symbolic sizes, which users have from effx.export, and what computes with them.
    | {
        "effx.ir.sizes.dimensions",
        "effx.ir.sizes.evaluation",
        "effx.ir.sizes.shape_text",
        "effx.ir.sizes.solving",
    }
)
NAMES = frozenset({"effx.ir.values.array.Operand"})  # what counts as an array where users write one
HOOKS = frozenset({"recur", "recursion", "recursions"})


def control_flow() -> frozenset[str]:
    """Names of the operations that hold programs."""
    kinds: list[type[Operation[object]]] = [k for k in operation_classes() if issubclass(k, HigherOrder)]
    return frozenset({"HigherOrder", *[k.__name__ for k in kinds]})


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def named(tree: ast.Module) -> Iterator[str]:
    """Names that a module uses or defines anywhere."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case _:
                pass


def imported(tree: ast.Module) -> Iterator[str]:
    """What a module imports of effx, in full."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                yield from [f"{module}.{alias.name}" for alias in names]
            case _:
                pass


def is_public(name: str) -> bool:
    module = name.rpartition(".")[0]
    return (
        name.split(".")[0] != "effx"
        or name in PUBLIC | NAMES
        or module in PUBLIC
        or name.startswith("effx.library.")
    )


def test_there_are_operations_that_hold_programs() -> None:
    """The list that the next test looks for has those that users write."""
    assert {"Call", "Cond", "While", "Scan", "ParallelMap", "Checkpoint", "CustomCall"} < control_flow()


@every_module
def test_no_rule_for_control_flow(name: str) -> None:
    """No module names an operation that holds programs, but for what is listed with its reason."""
    forbidden = control_flow() | HOOKS
    found = {n for n in named(parse(MODULES[name])) if n in forbidden}
    assert found == {n for module, n in CONTROL_FLOW if module == name}


@every_module
def test_imports_are_public(name: str) -> None:
    """A user could have written the module: it imports what users may import."""
    found = {n for n in imported(parse(MODULES[name])) if not is_public(n)}
    assert not found


def test_lines_are_counted() -> None:
    """Blank lines, comments and docstrings do not count; what stands on several lines counts for each."""
    source = '''"""Doc. More.

Never: x.
"""

import a  # why


def f(x):
    """Doc
    string."""
    # comment
    text = """one
    two"""
    return (
        x
    )
'''
    assert code_lines(source) == 1 + 1 + 2 + 3
    assert summary(source) == "Doc"


def test_page_is_fresh() -> None:
    """`python -m tools.shipped_handlers` writes the table."""
    assert PAGE.read_text(encoding="utf-8") == render()
