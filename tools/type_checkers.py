"""Runs type checkers over tests/typing/{accepted,rejected}/programs.py, and writes the table in docs/typing.md.

python -m tools.type_checkers [--bin FOLDER]   runs the checkers that are in FOLDER or beside Python, records what they say
python -m tools.type_checkers --table          writes the table from the record alone

A program is one function. A checker accepts it if it finds no error in its lines. The column of JAX is mypy's on the same
programs with `effx` read as `jax`; it needs jax beside Python. Checkers that are not there keep what was recorded.
"""

from __future__ import annotations

import argparse
import ast
import datetime as dt
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict

ROOT = Path(__file__).resolve().parent.parent
TYPING = ROOT / "tests" / "typing"
RECORD = ROOT / "tools" / "type_checkers.json"
DOCUMENT = ROOT / "docs" / "typing.md"
BEGIN, END = "<!-- table: python -m tools.type_checkers -->", "<!-- end of table -->"
COLUMNS = ("mypy", "pyright", "basedpyright", "ty", "pyrefly", "mypy on JAX")
KINDS = ("accepted", "rejected")
# How ty and pyrefly write an error with --output-format=concise and min-text; mypy writes the first form too.
LINE = re.compile(
    r"^(?:(?:ERROR|error)\s+)?(?P<path>[^\s:]+\.py):(?P<line>\d+)(?::\d+(?:-[\d:]+)?)?: ?(?P<text>.*)$"
)

Lines = set[tuple[str, int]]


class Program(NamedTuple):
    """A function of a file of programs, with its first and last line."""

    kind: str
    name: str
    title: str
    first: int
    last: int


class Column(TypedDict):
    """What one checker said: its version, the day, and the programs that it accepts."""

    version: str
    date: str
    accepts: list[str]


def list_programs() -> Iterator[Program]:
    """Yields the programs in the order of their files."""
    for kind in KINDS:
        module = ast.parse((TYPING / kind / "programs.py").read_text(encoding="utf-8"))
        for node in module.body:
            title = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if title and isinstance(node, ast.FunctionDef):
                yield Program(kind, f"{kind}.{node.name}", title, node.lineno, node.end_lineno or node.lineno)


def read_lines(output: str) -> Lines:
    """Returns the places of the errors in a checker's text, by the name of the kind and the line."""
    found: Lines = set()
    for line in output.splitlines():
        match = LINE.match(line.strip())
        if match and not match["text"].startswith(("note:", "warning")):
            found.add((Path(match["path"]).stem, int(match["line"])))
    return found


def read_pyright(output: str) -> Lines:
    """Returns the places of the errors in pyright's JSON."""
    return {
        (Path(d["file"]).stem, d["range"]["start"]["line"] + 1)
        for d in json.loads(output)["generalDiagnostics"]
        if d["severity"] == "error"
    }


def copy_programs(folder: Path, package: str) -> list[str]:
    """Writes the programs into a folder, as files named after their kinds, with `effx` read as another package."""
    files = []
    for kind in KINDS:
        text = (TYPING / kind / "programs.py").read_text(encoding="utf-8")
        (folder / f"{kind}.py").write_text(re.sub(r"\beffx\b", package, text), encoding="utf-8")
        files.append(f"{kind}.py")
    return files


def run_checker(command: list[str], folder: Path, read: Callable[[str], Lines]) -> Lines:
    """Runs a checker in a folder and returns the places of its errors."""
    path = os.pathsep.join([str(ROOT / "stubs"), str(ROOT)])
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"MYPYPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return read(done.stdout)


def write_settings(folder: Path) -> None:
    """Writes the settings by which pyright and basedpyright find effx; each runs in its own default mode but standard."""
    settings = {
        "include": ["."],
        "extraPaths": [str(ROOT / "stubs"), str(ROOT)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
        "reportMissingTypeStubs": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")


def find_command(name: str, folder: str | None) -> str | None:
    """Returns a checker's path: in a folder, or beside Python."""
    for place in filter(None, (folder, str(Path(sys.executable).parent))):
        if found := shutil.which(name, path=place):
            return found
    return None


def read_version(command: str) -> str:
    """Returns the number of a checker's version."""
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\d+\.\d+[\w.]*", done.stdout)
    return match[0] if match else "?"


def check_column(column: str, command: str) -> Lines:
    """Runs the checker of a column over the programs and returns the places of its errors."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = copy_programs(folder, "jax" if column == "mypy on JAX" else "effx")
        python = sys.executable
        paths = [str(ROOT / "stubs"), str(ROOT)]
        match column:
            case "mypy":
                options = [
                    "--strict",
                    "--no-pretty",
                    "--no-error-summary",
                    "--cache-dir",
                    str(ROOT / ".mypy_cache"),
                ]
                options += ["--config-file", str(ROOT / "pyproject.toml"), "--python-executable", python]
                return run_checker([command, *options, *files], folder, read_lines)
            case "mypy on JAX":
                options = ["--strict", "--no-pretty", "--no-error-summary", "--python-executable", python]
                options += ["--config-file", os.devnull, "--cache-dir", str(ROOT / ".mypy_cache" / "jax")]
                return run_checker([command, *options, *files], folder, read_lines)
            case "ty":
                options = [
                    "check",
                    "--output-format",
                    "concise",
                    "--python",
                    python,
                    "--python-version",
                    "3.11",
                ]
                options += [word for path in paths for word in ("--extra-search-path", path)]
                return run_checker([command, *options, *files], folder, read_lines)
            case "pyrefly":
                options = [
                    "check",
                    "--preset",
                    "default",
                    "--output-format",
                    "min-text",
                    "--python-interpreter-path",
                    python,
                ]
                options += [word for path in paths for word in ("--search-path", path)]
                return run_checker([command, *options, *files], folder, read_lines)
            case _:
                write_settings(folder)
                return run_checker([command, "--pythonpath", python, "--outputjson"], folder, read_pyright)


def judge(found: Lines) -> list[str]:
    """Returns the programs in whose lines there is no error."""
    return [
        p.name for p in list_programs() if not any((p.kind, n) in found for n in range(p.first, p.last + 1))
    ]


def read_record() -> dict[str, Column]:
    """Returns what was recorded of each checker."""
    record: dict[str, Column] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return record


def write_table(record: dict[str, Column]) -> str:
    """Returns the table: for each program whether a checker is right about it, and how many it is right about."""
    columns = [name for name in COLUMNS if name in record]
    programs = list(list_programs())

    def is_right(column: str, p: Program) -> bool:
        return (p.name in record[column]["accepts"]) == (p.kind == "accepted")

    def row(title: str, cells: list[str]) -> str:
        return f"| {title} | {' | '.join(cells)} |"

    lines = [row("", columns), "|---" * (len(columns) + 1) + "|"]
    for kind, verb in (("accepted", "right programs: accepted"), ("rejected", "mistakes: refused")):
        those = [p for p in programs if p.kind == kind]
        lines.append(
            row(f"**{verb}**", [f"**{sum(is_right(c, p) for p in those)} of {len(those)}**" for c in columns])
        )
        lines += [
            row(p.title.replace("|", "\\|"), ["✓" if is_right(c, p) else "–" for c in columns]) for p in those
        ]
    versions = ", ".join([f"{c} {record[c]['version']} ({record[c]['date']})" for c in columns])
    return "\n".join([BEGIN, *lines, "", f"Versions: {versions}.", END])


def replace_table(document: str, table: str) -> str:
    """Returns the document with another table."""
    before, _, rest = document.partition(BEGIN)
    return before + table + rest.partition(END)[2]


def main() -> None:
    """Runs the checkers that are there and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", help="a folder with the commands of checkers")
    parser.add_argument("--only", nargs="*", default=COLUMNS, choices=COLUMNS, help="the columns to run")
    parser.add_argument("--table", action="store_true", help="write the table, run nothing")
    given = parser.parse_args()
    record = read_record()
    for column in () if given.table else given.only:
        command = find_command(column.partition(" ")[0], given.bin)
        if command is None:
            print(f"{column}: not installed, its column stays as it was")
            continue
        version = read_version(command)
        if column == "mypy on JAX":
            version += f" on jax {importlib.metadata.version('jax')}"
        accepts = judge(check_column(column, command))
        record[column] = {
            "version": version,
            "date": f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}",
            "accepts": accepts,
        }
        print(f"{column}: accepts {len(accepts)}")
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replace_table(text, write_table(record)), encoding="utf-8")


if __name__ == "__main__":
    main()
