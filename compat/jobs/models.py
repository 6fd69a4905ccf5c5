"""The programs of docs/models.md, and what they print.

python compat/jobs/models.py        runs them all and rewrites what they print
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
EXAMPLE = re.compile(
    r"^## (?P<title>.+?)\n.*?^```python\n(?P<program>.*?)^```\n\n```text\n(?P<printed>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# A line of a library's moves with its release.
LINE = re.compile(r"(\.py):\d+")


class Example(NamedTuple):
    """A program of the page and what it prints."""

    title: str
    program: str
    printed: str


def examples(page: str) -> list[Example]:
    """Lists the examples of a page; each section has one.

    Raises:
        ValueError: a block of Python stands without what it prints.
    """
    found = [Example(*match.group("title", "program", "printed")) for match in EXAMPLE.finditer(page)]
    if len(found) != page.count("```python\n") or len(found) != page.count("\n## "):
        raise ValueError("each section needs one block of Python and, right after it, one of what it prints")
    return found


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program on effx, in a process of its own."""
    script = folder / "program.py"
    script.write_text(program, encoding="utf-8")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-m", "effx.compat", str(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)


def difference(printed: str, expected: str) -> str:
    """Says how two texts differ: in words, in whole numbers, or in others by more than a unit of the last place.

    >>> difference("8 bits: 0.013", "8 bits: 0.012")
    ''
    >>> difference("8 bits: 0.013", "8 bits: 0.011")
    "0.013 in place of 0.011 in '8 bits: 0.013'"
    """
    lines, wanted = [LINE.sub(r"\1", text).splitlines() for text in (printed, expected)]
    if len(lines) != len(wanted):
        return f"{len(lines)} lines in place of {len(wanted)}"
    for line, want in zip(lines, wanted, strict=True):
        if NUMBER.sub("0", line).split() != NUMBER.sub("0", want).split():
            return f"{line!r} in place of {want!r}"
        for a, b in zip(NUMBER.findall(line), NUMBER.findall(want), strict=True):
            decimals = len(b.partition(".")[2])
            unit = 1.01 * 10**-decimals if decimals else 0.0
            if abs(float(a) - float(b)) > unit:
                return f"{a} in place of {b} in {line!r}"
    return ""


def rewritten(page: str) -> str:
    """Returns the page with what its programs print now.

    Raises:
        RuntimeError: a program fails.
    """
    for title, program, printed in examples(page):
        with tempfile.TemporaryDirectory() as folder:
            done = run(program, Path(folder))
        if done.returncode:
            raise RuntimeError(f"{title}:\n{done.stderr}")
        before = f"{program}```\n\n```text\n"
        page = page.replace(f"{before}{printed}```", f"{before}{done.stdout}```")
    return page


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
