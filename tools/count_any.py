"""Count explicit uses of `Any` in each module of effx and refuse growth over the committed baseline.

An unknown dtype or size of an array, `Array[Any, N]`, is no missing type, and not counted.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASELINE = Path(__file__).resolve().parent / "any_baseline.json"


def count(source: str) -> int:
    """Number of places in `source` that name `Any`, quoted annotations included, imports not.

    >>> count("from typing import Any\\ndef f(x: Any) -> 'list[Any]': ...")
    2
    >>> count("def f(x: Array[Any, *tuple[Any, ...]]) -> Scalar[Any]: ...")
    0
    """
    total = 0
    module = ast.parse(source)
    unknown = _parameters_of_arrays(module)
    for node in ast.walk(module):
        if node in unknown:
            continue
        match node:
            case ast.Name(id="Any") | ast.Attribute(value=ast.Name(id="typing" | "t"), attr="Any"):
                total += 1
            case ast.arg(annotation=ast.Constant(value=str(text))):
                total += _quoted(text)
            case ast.AnnAssign(annotation=ast.Constant(value=str(text))):
                total += _quoted(text)
            case ast.FunctionDef(returns=ast.Constant(value=str(text))):
                total += _quoted(text)
            case _:
                pass
    return total


def _parameters_of_arrays(module: ast.Module) -> set[ast.AST]:
    """The names `Any` that stand for a dtype, a size or a shape, and the defaults of type variables for these."""
    found: set[ast.AST] = set()
    for node in ast.walk(module):
        match node:
            case ast.Subscript(value=ast.Name(id="Array" | "Scalar" | "Box"), slice=inside):
                found.update(ast.walk(inside))
            case ast.Call(
                func=ast.Name(id="TypeVar" | "TypeVarTuple"),
                keywords=[*_, ast.keyword(arg="default", value=inside)],
            ):
                found.update(ast.walk(inside))
            case _:
                pass
    return found


def _quoted(annotation: str) -> int:
    try:
        return count(annotation)
    except SyntaxError:
        return 0


def measure(package: Path) -> dict[str, int]:
    """Counts by dotted module name; modules without `Any` are left out."""
    counts: dict[str, int] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        number = count(path.read_text(encoding="utf-8"))
        if number:
            counts[name] = number
    return counts


def main(arguments: list[str]) -> int:
    """Print the counts; with `--update`, write them down as the new baseline."""
    counts = measure(ROOT / "effx")
    for name, number in counts.items():
        print(f"{number:5d}  {name}")
    print(f"{sum(counts.values()):5d}  explicit Any in effx")
    if "--update" in arguments:
        BASELINE.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    baseline: dict[str, int] = json.loads(BASELINE.read_text(encoding="utf-8"))
    grown = {name: n for name, n in counts.items() if n > baseline.get(name, 0)}
    for name, number in grown.items():
        print(f"{name}: {number} explicit Any, the baseline allows {baseline.get(name, 0)}", file=sys.stderr)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
