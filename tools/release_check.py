"""What a release has to pass: `make release-check`, or `python -m tools.release_check [--pythons 3.12,3.13]`.

It builds the sdist and the wheel into `dist/`, holds their contents to the rules below, and tries the wheel as a user has
it: in a fresh environment for each Python that is on this machine and that jaxlib has a wheel for, outside the checkout. A
table at the end says what passed, what failed and what was skipped, and why. It takes some 30 seconds for each Python.

The stubs of `stubs/jaxlib` are not in the wheel. Without them jaxlib's own objects (a device, say) are Any to users; the
programs of tests/typing/accepted pass `mypy --strict` as they do with them. With them in it, they would replace jaxlib's
types in programs that use jaxlib or JAX by themselves.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, Literal, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
# The wheel of 0.1.0 has 2.1 MB, all of it text. Half as much again is room to grow; what is above that is a data file, a
# build output or a test that slipped in. The sdist has the tests and pages too: 2.8 MB.
WHEEL_LIMIT: Final = 3_000_000
SDIST_LIMIT: Final = 4_500_000
CACHES: Final = {
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".import_linter_cache",
}
IN_SDIST: Final = {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "Makefile", "effx/version.py"}

PROGRAM: Final = """
import sys
import effx, effx.numpy as enp
assert effx.__file__.startswith(sys.prefix), effx.__file__
value, slope = effx.jit(effx.value_and_grad(lambda x: (enp.sin(x) * x).sum()))(enp.array([0.0, 1.0, 2.0]))
assert abs(float(value) - 2.660066) < 1e-5, value
assert abs(float(slope[1]) - 1.381773) < 1e-5, slope
print(effx.__version__)
"""
# A demo by its path, with the effx that the environment has.
DEMO: Final = """
import runpy, sys
import effx
assert effx.__file__.startswith(sys.prefix), effx.__file__
runpy.run_path(sys.argv[1], run_name="__main__")
"""
USER_PROGRAM: Final = """\
import effx
import effx.numpy as enp
def loss(w: effx.Array, x: effx.Array) -> effx.Array: return enp.sum(enp.tanh(x @ w) ** 2)
slope = effx.jit(effx.grad(loss))
reveal_type(slope(enp.ones(3), enp.ones((2, 3))))
"""
REVEALED: Final = re.compile(r'user_program\.py:5: note: Revealed type is "effx\.[\w.]*Array\[[^"]*\]"')

Outcome: TypeAlias = Literal["pass", "FAIL", "skip"]


class CheckError(Exception):
    """A check that failed, with what there is to read about it."""


class SkipError(Exception):
    """A check that cannot run here, with the reason."""


class Row(NamedTuple):
    """A line of the table."""

    name: str
    outcome: Outcome
    detail: str
    seconds: float


class Report:
    """Runs checks one after another, and remembers how each ended."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def check(self, name: str, run: Callable[[], str]) -> bool:
        """Runs a check, which returns a line for the table; whether it passed."""
        print(f"{name} …", flush=True)
        start = time.monotonic()
        outcome: Outcome
        try:
            outcome, detail = "pass", run()
        except SkipError as reason:
            outcome, detail = "skip", str(reason)
        except CheckError as failure:
            outcome, detail = "FAIL", str(failure)
        self.rows.append(Row(name, outcome, detail, time.monotonic() - start))
        return outcome == "pass"

    def format_table(self) -> str:
        """The table: a row for each check; what failed has its last lines below."""
        width = max(len(row.name) for row in self.rows)
        lines = []
        for row in self.rows:
            first, *rest = row.detail.splitlines() or [""]
            lines.append(f"{row.outcome}  {row.name:{width}}  {row.seconds:6.1f} s  {first}")
            lines += [f"        {line}" for line in rest[-20:]]
        return "\n".join(lines)

    @property
    def has_failures(self) -> bool:
        """Whether a check failed."""
        return any(row.outcome == "FAIL" for row in self.rows)


# --- commands -------------------------------------------------------------------------------------


def make_environment() -> dict[str, str]:
    """The environment variables of a user who has no checkout."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "MYPYPATH", "VIRTUAL_ENV")
    return {
        **{k: v for k, v in os.environ.items() if k not in hidden},
        "PYTHONNOUSERSITE": "1",
        "MPLBACKEND": "Agg",
    }


def run_command(*command: str | Path, cwd: Path) -> str:
    """Returns what a command printed.

    Raises:
        CheckError: its exit status is not 0.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=make_environment(),
        check=False,
    )
    if done.returncode != 0:
        raise CheckError(
            f"{command[-1]}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}".rstrip()
        )
    return done.stdout


def install(python: Path, *what: str | Path, cwd: Path) -> None:
    """Installs packages into the environment of an interpreter."""
    run_command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what, cwd=cwd)


# --- what is in a distribution --------------------------------------------------------------------


def read_wheel(path: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def find_breaches(names: Iterable[str], sources: Iterable[str]) -> Iterator[str]:
    """What a list of a wheel's files breaks of the rules.

    Args:
        names: the files in the wheel.
        sources: the files of `effx/` that are to be there, stubs and data among them, and no others.
    """
    files = {name for name in names if PurePosixPath(name).parts[0] == "effx"}
    expected = set(sources)
    for name in names:
        path = PurePosixPath(name)
        if path.parts[0] != "effx" and not re.fullmatch(r"effx-[^/]+\.dist-info", path.parts[0]):
            yield f"{name}: neither in effx/ nor in its dist-info/"
        if CACHES & set(path.parts) or path.suffix in {".pyc", ".pyo"}:
            yield f"{name}: a cache"
        if (
            "tests" in path.parts
            or path.name == "conftest.py"
            or re.fullmatch(r"test_(?!util).*\.py", path.name)
        ):
            yield f"{name}: a test"
    if "effx/py.typed" not in files:
        yield "effx/py.typed: not there, so type checkers pass over effx"
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        yield "LICENSE: not there"
    yield from (f"{name}: not there" for name in sorted(expected - files))
    yield from (f"{name}: not tracked by git" for name in sorted(files - expected))


def list_sources() -> list[str]:
    """The files of `effx/` that git tracks."""
    done = subprocess.run(["git", "ls-files", "effx"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout:
        raise CheckError("the sources are listed by git: run this in a checkout")
    return done.stdout.splitlines()


def read_version() -> str:
    """The version that `effx/version.py` states."""
    match = re.search(
        r'^__version__ = "(.+)"$', (ROOT / "effx/version.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    if match is None:
        raise CheckError("effx/version.py states no version")
    return match[1]


def check_size(path: Path, limit: int) -> str:
    """Holds the size of a file under a limit, in bytes."""
    size = path.stat().st_size
    text = f"{path.name}: {size / 1e6:.2f} MB, limit {limit / 1e6:.1f}"
    if size > limit:
        raise CheckError(text)
    return text


def check_wheel(path: Path) -> str:
    """Holds the wheel's files and metadata to the rules."""
    files = read_wheel(path)
    breaches = [*find_breaches(files, list_sources())]
    metadata = next(data for name, data in files.items() if name.endswith(".dist-info/METADATA")).decode()
    breaches += [
        f"METADATA: no line {line!r}"
        for line in (f"Version: {read_version()}", "Requires-Python: >=3.11", "Classifier: Typing :: Typed")
        if line not in metadata.splitlines()
    ]
    if breaches:
        raise CheckError("\n".join([f"{len(breaches)} breaches", *breaches]))
    count = {suffix: sum(name.endswith(suffix) for name in files) for suffix in (".py", ".pyi")}
    return f"{len(files)} files: {count['.py']} modules, {count['.pyi']} stubs, py.typed"


def check_sdist(path: Path) -> str:
    """Holds the files of the sdist to the rules."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    caches = [name for name in names if CACHES & set(PurePosixPath(name).parts)]
    if missing := IN_SDIST - names:
        raise CheckError(f"not there: {', '.join(sorted(missing))}")
    if caches:
        raise CheckError("\n".join(["caches", *sorted(caches)]))
    return f"{len(names)} files"


def compare_wheels(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """The files that only one of two wheels has, or that differ."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


# --- building -------------------------------------------------------------------------------------


def build(kind: Literal["sdist", "wheel"], source: Path, target: Path) -> Path:
    """Builds a distribution of a source folder into an empty target folder."""
    run_command(sys.executable, "-m", "build", f"--{kind}", "--outdir", target, source, cwd=source)
    (path,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return path


def build_all(report: Report, scratch: Path) -> Path | None:
    """Builds sdist and wheel and checks what is in them; returns the wheel, None where there is none."""
    shutil.rmtree(DIST, ignore_errors=True)
    for kind in ("sdist", "wheel"):
        if not report.check(f"build {kind}", lambda kind=kind: build(kind, ROOT, DIST).name):  # type: ignore[misc]
            return None
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")

    def check_descriptions() -> str:
        run_command(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=ROOT)
        return "README as the package's page"

    def check_second_wheel() -> str:
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch / "sdist", filter="data")
        (source,) = (scratch / "sdist").iterdir()
        second = build("wheel", source, scratch / "second")
        if differences := compare_wheels(read_wheel(wheel), read_wheel(second)):
            raise CheckError("\n".join([f"{len(differences)} files differ", *differences]))
        return "every file the same"

    report.check("twine check --strict", check_descriptions)
    report.check("size of the wheel", lambda: check_size(wheel, WHEEL_LIMIT))
    report.check("size of the sdist", lambda: check_size(sdist, SDIST_LIMIT))
    report.check("contents of the wheel", lambda: check_wheel(wheel))
    report.check("contents of the sdist", lambda: check_sdist(sdist))
    report.check("wheel from the sdist", check_second_wheel)
    return wheel


# --- as users have it -----------------------------------------------------------------------------


def find_interpreter(version: str) -> Path | None:
    """An interpreter of a version that runs: on the path, or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    candidates = [Path(on_path)] if on_path else []
    candidates += sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    for candidate in candidates:
        question = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([candidate, "-c", question], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def read_requirement(name: str) -> str:
    """The requirement of a package, with its range, that pyproject.toml states."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return next(str(text) for text in requirements if re.match(rf"{name}\b", text))


def try_wheel(report: Report, wheel: Path, version: str, folder: Path) -> None:
    """Installs the wheel for one Python in a fresh environment, and uses it there."""
    folder.mkdir()
    python = folder / "env" / "bin" / "python"

    def make() -> str:
        interpreter = find_interpreter(version)
        if interpreter is None:
            raise SkipError("no interpreter of this version is here")
        run_command(interpreter, "-m", "venv", folder / "env", cwd=folder)
        try:
            install(python, "--only-binary=:all:", read_requirement("jaxlib"), cwd=folder)
        except CheckError as failure:
            if "No matching distribution found for jaxlib" in str(failure):
                raise SkipError("jaxlib has no wheel for it") from None
            raise
        install(python, wheel, cwd=folder)
        return run_command(
            python, "-c", "import sys, jaxlib.version as v; print(sys.version.split()[0], 'jaxlib', v.__version__)",
            cwd=folder,
        ).strip()  # fmt: skip

    def compute() -> str:
        printed = run_command(python, "-c", PROGRAM, cwd=folder).strip()
        if printed != read_version():
            raise CheckError(f"the wheel says that it is effx {printed}, effx/version.py {read_version()}")
        return f"effx {printed}"

    def run_demo() -> str:
        install(python, f"{wheel}[examples]", cwd=folder)
        shutil.copy(ROOT / "examples" / "digits.py", folder)
        output = run_command(python, "-c", DEMO, folder / "digits.py", cwd=folder)
        accuracy = re.search(r"test accuracy ([\d.]+)%", output)
        if accuracy is None:
            raise CheckError(f"no line says the accuracy\n{output}")
        return accuracy[0]

    def check_types() -> str:
        install(python, read_requirement("mypy"), cwd=folder)
        (folder / "user_program.py").write_text(USER_PROGRAM, encoding="utf-8")
        output = run_command(python, "-m", "mypy", "--strict", "user_program.py", cwd=folder)
        if not REVEALED.search(output):
            raise CheckError(f"the type revealed is not an array\n{output}")
        return "grad of a function of arrays reveals an array"

    if report.check(f"{version}: install", make):
        report.check(f"{version}: jit(grad)", compute)
        report.check(f"{version}: the demo", run_demo)
        report.check(f"{version}: mypy --strict", check_types)


def main() -> int:
    """Runs all checks; the exit status is 1 where one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pythons", default=",".join(PYTHONS), help="versions to try the wheel with, by commas"
    )
    versions = parser.parse_args().pythons.split(",")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="effx-release-") as name:
        scratch = Path(name)
        wheel = build_all(report, scratch)
        if wheel is not None:
            for version in versions:
                try_wheel(report, wheel, version, scratch / version)
    print(f"\n{report.format_table()}")
    return int(report.has_failures)


if __name__ == "__main__":
    sys.exit(main())
