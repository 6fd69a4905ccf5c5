"""What type checkers accept and refuse: mypy line by line, basedpyright where it agrees, and at run time too."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from mypy import api

from tools import type_checkers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ACCEPTED = sorted((HERE / "accepted").glob("*.py"))
REJECTED = sorted((HERE / "rejected").glob("*.py"))
DOCUMENT = ROOT / "docs" / "typing.md"
GUIDE = ROOT / "docs" / "handlers.md"

EXPECTED = re.compile(r"# expect: (?P<codes>[a-z -]*[a-z])(?: \"(?P<text>.*)\")?$")
ERROR = re.compile(r"^(?P<path>.+?):(?P<line>\d+): error: (?P<text>.*)  \[(?P<code>[\w-]+)\]$")
DIFFERS = "# basedpyright: differs"
MARKED = re.compile(r"# (expect|missed): ")

Found = dict[tuple[str, int], list[tuple[str, str]]]


def snippets() -> list[str]:
    """The Python blocks of docs/typing.md."""
    return re.findall(
        r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The document's blocks as one module."""
    path = tmp_path_factory.mktemp("document") / "typing_document.py"
    path.write_text("\n".join(snippets()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the handlers' guide has its readers save."""
    program = re.search(
        r"^```python\n(import.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert program is not None
    path = tmp_path_factory.mktemp("guide") / "bounds.py"
    path.write_text(program[1], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def found(document: Path, guide: Path) -> Found:
    """The messages of one run of mypy for all files, by name and line."""
    # The cache of `make types` serves here: the same options, the same effx.
    arguments = ["--strict", "--no-error-summary", "--hide-error-context", "--no-pretty", "--no-color-output"]
    arguments += ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        out, err, _ = api.run([*arguments, *map(str, [*ACCEPTED, *REJECTED, document, guide])])
    finally:
        os.chdir(here)
    assert not err, err
    errors: Found = defaultdict(list)
    for line in out.splitlines():
        match = ERROR.match(line)
        if match:
            path = Path(match["path"])
            name = path.name if path.name == document.name else f"{path.parent.name}/{path.name}"
            errors[name, int(match["line"])].append((match["code"], match["text"]))
        else:
            assert ": error: " not in line, line
    return errors


def expectations() -> Iterator[tuple[str, int, list[str], str]]:
    for path in REJECTED:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = EXPECTED.search(line)
            assert bool(match) == ("# expect" in line), f"{path.name}:{number}: malformed expectation"
            if match:
                yield f"rejected/{path.name}", number, match["codes"].split(), match["text"] or ""


def test_there_are_enough_assertions() -> None:
    """Positive and negative assertions together are 120 at least, and a third of them negative."""
    positive = sum(path.read_text(encoding="utf-8").count("assert_type(") for path in ACCEPTED)
    negative = len(list(expectations()))
    assert positive + negative >= 120
    assert positive >= 80
    assert negative >= 40


def test_mypy_accepts_what_it_should(found: Found) -> None:
    """No error in accepted/."""
    assert [(where, what) for where, what in found.items() if where[0].startswith("accepted/")] == []


def test_mypy_refuses_what_it_should(found: Found) -> None:
    """Each expected error is there, with its code and its words, and there is no other."""
    expected = {(path, line): (sorted(codes), text) for path, line, codes, text in expectations()}
    given = {where: what for where, what in found.items() if where[0].startswith("rejected/")}
    problems = []
    for where in sorted(expected.keys() | given.keys()):
        codes, text = expected.get(where, ([], ""))
        got = given.get(where, [])
        if sorted([code for code, _ in got]) != codes or not all([text in words for _, words in got[:1]]):
            problems.append(f"{where[0]}:{where[1]}: expected {codes} {text!r}, got {got}")
    assert not problems, "\n".join(problems)


def test_programs_are_judged_as_recorded(found: Found) -> None:
    """The table's column of mypy is what mypy says, and the table in docs/typing.md is that of the record."""
    places = {(path.partition("/")[0], line) for path, line in found if path.endswith("/programs.py")}
    record = type_checkers.read_record()
    assert record["mypy"]["accepts"] == type_checkers.judge(places)
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == type_checkers.replace_table(text, type_checkers.write_table(record))


def test_each_mistake_is_one_program() -> None:
    """A program of rejected/programs.py has one line that is wrong, which mypy refuses or is said to miss."""
    lines = (HERE / "rejected" / "programs.py").read_text(encoding="utf-8").splitlines()
    for program in type_checkers.list_programs():
        if program.kind == "rejected":
            marks = [line for line in lines[program.first - 1 : program.last] if MARKED.search(line)]
            assert len(marks) == 1, program.name
    assert len([line for line in lines if "# missed: " in line]) <= 7


def test_document_is_checked(found: Found, document: Path) -> None:
    """The snippets of docs/typing.md type-check, but for the lines that say that they do not."""
    lines = document.read_text(encoding="utf-8").splitlines()
    wrong = {n for n, line in enumerate(lines, 1) if "# error" in line}
    assert len(snippets()) >= 5
    assert wrong
    assert {line for (name, line) in found if name == document.name} == wrong


def test_guide_keeps_its_promises(found: Found, guide: Path) -> None:
    """The guide's first transformation type-checks, and prints the guide's output."""
    assert not [line for (name, line) in found if name.endswith(guide.name)]
    said = re.search(
        r"^\$ python bounds.py\n(.*?)^\$ mypy", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert said is not None
    done = subprocess.run([sys.executable, str(guide)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == said[1]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"typing_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def claims() -> list[tuple[Path, str]]:
    """The functions without arguments of the accepted modules."""
    pattern = re.compile(r"^def (\w+)\(\) -> None:", re.MULTILINE)
    return [(path, name) for path in ACCEPTED for name in pattern.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("path", "name"), claims(), ids=lambda x: x.stem if isinstance(x, Path) else x)
def test_claims_hold_at_run_time(path: Path, name: str) -> None:
    """What type-checks also runs, and its shapes and dtypes are those that were claimed."""
    key = f"typing_{path.parent.name}_{path.stem}"
    module = sys.modules.get(key) or load(path)
    claim: Callable[[], None] = getattr(module, name)
    assert isinstance(claim, FunctionType)
    claim()


def test_document_runs(document: Path) -> None:
    """The snippets of docs/typing.md run, but for the lines that say that they are errors."""
    kept = [line for line in document.read_text(encoding="utf-8").splitlines() if "# error" not in line]
    path = document.with_name("typing_document_runs.py")
    path.write_text("\n".join(kept), encoding="utf-8")
    load(path)


def test_basedpyright_agrees() -> None:
    """basedpyright finds no error in accepted/, but in the lines that say that it differs."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "basedpyright",
            "--pythonpath",
            sys.executable,
            "--outputjson",
            "--level",
            "error",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(ACCEPTED)
    found = {
        (Path(d["file"]).name, d["range"]["start"]["line"] + 1): d["message"]
        for d in report["generalDiagnostics"]
        if d["severity"] == "error"
    }
    marked = {
        (path.name, number)
        for path in ACCEPTED
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if DIFFERS in line
    }
    assert {where: what for where, what in found.items() if where not in marked} == {}
    assert marked <= found.keys(), "marked as different, and no more"
