"""Writes the signature and the documentation of every public name, to compare two states of the tree.

python -m tools.signatures FILE           writes them as `help` shows them, and types as mypy infers them
python -m tools.signatures --compare OLD NEW   prints what is gone, new or different
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import effx

# Modules that are no part of the public surface: what stands there may change between versions.
INTERNAL = (
    "ir.",
    "lower",
    "handlers",
    "tracing",
    "program_cache",
    "transforms",
    "array",
    "families",
    "compat.",
)


def find_namespaces() -> Iterator[ModuleType]:
    """Yields effx and every public module below it that says what it exports."""
    yield effx
    for info in sorted(pkgutil.walk_packages(effx.__path__, "effx."), key=lambda info: info.name):
        path = info.name.removeprefix("effx.")
        if path.startswith(INTERNAL) or "._" in info.name or "__main__" in info.name:
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:
            continue  # needs a library that is not installed
        if hasattr(module, "__all__"):
            yield module


def describe_signature(value: object) -> str:
    """Returns a callable's signature as `help` shows it, without the modules of annotations; "" for other values."""
    try:
        text = str(inspect.signature(value))  # type: ignore[arg-type]  # refused below where it is no callable
    except (TypeError, ValueError):
        return ""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"[\w.]+\.(?=\w)", "", text.replace("'", ""))


def describe(name: str, value: object) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields a public name and the public members of a class, each with signature and documentation."""
    yield (
        name,
        {
            "kind": type(value).__name__,
            "signature": describe_signature(value),
            "doc": inspect.getdoc(value) or "",
        },
    )
    if inspect.isclass(value) and value.__module__.startswith("effx"):
        for member in sorted(vars(value)):
            if not member.startswith("_") or member == "__call__":
                attribute = inspect.getattr_static(value, member)
                attribute = getattr(attribute, "__func__", attribute)
                yield (
                    f"{name}.{member}",
                    {"signature": describe_signature(attribute), "doc": inspect.getdoc(attribute) or ""},
                )


def infer_types(names: list[str]) -> dict[str, str]:
    """Returns the type of each name, as mypy reveals it."""
    modules = sorted({name.rpartition(".")[0] for name in names})
    lines = [f"import {module}" for module in modules] + [f"reveal_type({name})" for name in names]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "revealed.py"
        path.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    types: dict[str, str] = {}
    for match in re.finditer(r"revealed\.py:(\d+): (?:note: Revealed type is (.*)|error: (.*))", output):
        line = int(match[1]) - len(modules) - 1
        if line >= 0:
            types[names[line]] = match[2] or f"error: {match[3]}"
    return types


def write_snapshot(path: Path) -> None:
    """Writes all signatures as JSON."""
    warnings.simplefilter("ignore")
    entries: dict[str, dict[str, str]] = {}
    public: list[str] = []
    for module in find_namespaces():
        for name in sorted(module.__all__):
            full_name = f"{module.__name__}.{name}"
            public.append(full_name)
            entries.update(describe(full_name, getattr(module, name)))
    for name, text in infer_types(public).items():
        entries[name]["type"] = text
    path.write_text(json.dumps(entries, indent=1, sort_keys=True))
    print(f"{len(public)} public names, {len(entries)} with members of classes")


def compare(old: Path, new: Path) -> int:
    """Prints the differences of two snapshots; returns how many there are."""
    before, after = json.loads(old.read_text()), json.loads(new.read_text())
    count = 0
    for name in sorted(before.keys() | after.keys()):
        if name not in after or name not in before:
            print(f"{'gone' if name in before else 'new'}: {name}")
            count += name in before
            continue
        for key in sorted(before[name].keys() | after[name].keys()):
            was, now = before[name].get(key, ""), after[name].get(key, "")
            if was != now:
                count += 1
                print(f"{name}: {key}\n  - {was}\n  + {now}")
    print(f"{count} differences")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="signatures", description=__doc__)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    if options.compare:
        return min(compare(*options.files), 1)
    write_snapshot(options.files[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
