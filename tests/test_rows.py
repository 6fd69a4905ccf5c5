"""Each public function is in a table or a test: a name that nothing calls fails.

What counts is read from the tests' syntax, not from their text: an attribute that resolves to the namespace through the
file's imports, one in an expression of a table (`xp.name`), or a name in a table of a file that looks names up.
"""

from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NewType

import pytest

from effx.laws.samples import sample_of
from tests.lax import test_elementwise as elementwise
from tests.numpy.functions import BINARY, UNARY

TESTS = Path(__file__).parent
NAMESPACES = (
    "effx.debug",
    "effx.example_libraries.optimizers",
    "effx.example_libraries.stax",
    "effx.experimental.ode",
    "effx.experimental.sparse",
    "effx.ffi",
    "effx.flatten_util",
    "effx.image",
    "effx.numpy",
    "effx.numpy.fft",
    "effx.numpy.linalg",
    "effx.lax",
    "effx.lax.linalg",
    "effx.nn",
    "effx.nn.initializers",
    "effx.ops",
    "effx.random",
    "effx.scipy.cluster.vq",
    "effx.scipy.fft",
    "effx.scipy.integrate",
    "effx.scipy.interpolate",
    "effx.scipy.linalg",
    "effx.scipy.ndimage",
    "effx.scipy.optimize",
    "effx.scipy.signal",
    "effx.scipy.sparse.linalg",
    "effx.scipy.spatial.transform",
    "effx.scipy.special",
    "effx.scipy.stats",
)
NO_FUNCTION = (type, NewType, types.ModuleType, types.GenericAlias, type(Literal[0]))
# Elementwise operations and functions are found by their classes and signatures, and are in no table by name.
FOUND = {f"effx.numpy.{name}" for name in (*UNARY, *BINARY)}
OF_OPERATIONS = {id(sample_of(type(op)).public) for op in (*elementwise.UNARY, *elementwise.BINARY)}


def public(namespace: str) -> list[str]:
    """The functions of a namespace."""
    module = importlib.import_module(namespace)
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == namespace
    ]
    functions = [name for name in names if callable(getattr(module, name))]
    return [name for name in functions if not isinstance(getattr(module, name), NO_FUNCTION)]


def imported(tree: ast.AST) -> dict[str, str]:
    """What the names that a file imports stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def dotted(node: ast.AST, known: dict[str, str]) -> str:
    """The full name that an expression of names and dots stands for; "" for any other."""
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = dotted(node.value, known)
        return f"{base}.{node.attr}" if base else ""
    return ""


def expressions(text: str) -> Iterator[ast.AST]:
    """The expressions of a row of a table."""
    for part in text.split("; "):
        try:
            yield ast.parse(part.strip(), mode="eval")
        except (SyntaxError, ValueError):
            continue


def mentioned(path: Path) -> set[str]:
    """Full names that a file of tests uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known = imported(tree)
    # What the tables of expressions call the namespaces.
    package = "effx.scipy" if "scipy" in path.parts else "effx.numpy"
    tables = {"xp": "effx.numpy", "la": f"{package}.linalg"}
    found: set[str] = set()
    words: set[str] = set()
    looked_up: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            found.add(dotted(node, known))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            looked_up.add(dotted(node.args[0], known))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.update(node.value.split())
            if "xp." in node.value or "la." in node.value:
                for expression in expressions(node.value):
                    found |= {dotted(inner, tables) for inner in ast.walk(expression)}
    return found | {f"{namespace}.{word}" for namespace in looked_up for word in words}


@pytest.fixture(scope="module")
def called() -> set[str]:
    """Full names that any test uses."""
    files = [path for path in TESTS.rglob("*.py") if "typing" not in path.parts]
    return FOUND.union(*[mentioned(path) for path in files])


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_function_has_a_row(namespace: str, called: set[str]) -> None:
    """Another name of a function that has a row needs none."""
    module = importlib.import_module(namespace)
    rows = OF_OPERATIONS | {
        id(getattr(module, name)) for name in public(namespace) if f"{namespace}.{name}" in called
    }
    lacking = [name for name in public(namespace) if id(getattr(module, name)) not in rows]
    assert not lacking, f"functions of {namespace} without a row: {', '.join(lacking)}"


def test_a_name_without_a_row_is_noticed(tmp_path: Path) -> None:
    """Comments, docstrings and names of other modules do not count."""
    path = tmp_path / "sample.py"
    path.write_text(
        '"""lax.sin of xp"""\nimport numpy as enp\nfrom effx import lax\nimport effx.nn as network\n'
        "# lax.cos\nenp.tan(1)\nlax.exp(1)\nTABLE = [network.relu]\nROWS = rows('xp.sum(A); xp.fft.fft(A)')\n"
        "getattr(lax, name)(2)\nNAMES = words('erf log')\n"
    )
    names = {name for name in mentioned(path) if name.startswith("effx")}
    assert {"effx.lax.exp", "effx.nn.relu", "effx.numpy.sum", "effx.numpy.fft.fft", "effx.lax.erf"} <= names
    assert not names & {"effx.lax.sin", "effx.lax.cos", "effx.numpy.tan", "effx.numpy.linalg"}
