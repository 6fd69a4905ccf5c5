"""What libraries' sources ask of jax and effx has not: `python -m effx.compat compat/jobs/asks.py [package …]`.

Names in full, with how often each is asked for and where first. It reads sources and runs none of them, so that a name under
`if` for another version of JAX is on the list too; without `-m effx.compat` it is JAX's own list, of such names.
"""

import ast
import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

PACKAGES = (
    "blackjax", "chex", "diffrax", "distrax", "equinox", "flax", "haiku", "jaxopt", "jaxtyping", "lineax", "numpyro",
    "optax", "optimistix", "orbax.checkpoint", "tensorflow_probability.substrates.jax",
    "tensorflow_probability.python.internal.backend.jax",
)  # fmt: skip


def asked(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names in full of jax that a module mentions, and the lines."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.split(".")[0] == "jax":
                        known[alias.asname or "jax"] = alias.name if alias.asname else "jax"
                        yield alias.name, node.lineno
            case ast.ImportFrom(module=str(module), names=names, level=0) if module.split(".")[0] == "jax":
                for alias in names:
                    known[alias.asname or alias.name] = f"{module}.{alias.name}"
                    yield f"{module}.{alias.name}", node.lineno
    for node in ast.walk(tree):
        parts: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in known:
            yield ".".join([known[inner.id], *parts]), node.lineno


def missing(name: str) -> str:
    """Returns the first part of a name that is not there, or ""."""
    value: object = importlib.import_module("jax")
    full = "jax"
    for part in name.split(".")[1:]:
        full += f".{part}"
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError):
            try:
                value = importlib.import_module(full)
            except ImportError:
                return full
        if isinstance(value, type) or not (full in sys.modules or hasattr(value, "__path__")):
            return ""  # what objects have is not looked into
    return ""


def main(packages: list[str]) -> None:
    """Prints for each package what is missing."""
    for package in packages or PACKAGES:
        spec = find_spec(package.split(".")[0])
        if spec is None or not spec.submodule_search_locations:
            print(f"{package}: not installed")
            continue
        root = Path(spec.submodule_search_locations[0], *package.split(".")[1:])
        counts: Counter[str] = Counter()
        first: dict[str, str] = {}
        for path in sorted(root.rglob("*.py")):
            if path.name.endswith("_test.py") or {"tests", "testing", "test"} & set(path.parts):
                continue
            for name, line in asked(ast.parse(path.read_text(encoding="utf-8"))):
                lacking = missing(name)
                if lacking:
                    counts[lacking] += 1
                    first.setdefault(lacking, f"{path.relative_to(root)}:{line}")
        print(f"{package}: {len(counts)} names, asked for {counts.total()} times")
        for name, number in counts.most_common():
            print(f"  {name:50} {number:3}  {first[name]}")


if __name__ == "__main__":
    main(sys.argv[1:])
