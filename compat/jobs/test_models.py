"""Handlers on other people's models: each program of docs/models.md prints what the page says, and its own checks hold.

Each runs in a process of its own, of an environment where no jax is installed: `make test-compat`.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # as it is where a job runs

from models import PAGE, Example, difference, examples, run

EXAMPLES = examples(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title.replace(" ", "_"))
def test_example(example: Example, tmp_path: Path) -> None:
    done = run(example.program, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not difference(done.stdout, example.printed), done.stdout


@pytest.mark.parametrize(
    ("printed", "expected", "said"),
    [
        ("a 1.50\n", "a 1.51\n", ""),
        ("a 1.50\n", "a 1.53\n", "1.50 in place of 1.53 in 'a 1.50'"),
        ("a 2\n", "a 3\n", "2 in place of 3 in 'a 2'"),
        ("a nan\n", "a 3\n", "'a nan' in place of 'a 3'"),
        ("b 2\n", "a 2\n", "'b 2' in place of 'a 2'"),
        ("a\n", "a\nb\n", "1 lines in place of 2"),
        ("at f.py:12\n", "at f.py:13\n", ""),
    ],
)
def test_difference(printed: str, expected: str, said: str) -> None:
    """What is compared can differ."""
    assert difference(printed, expected) == said


def test_a_program_needs_what_it_prints() -> None:
    with pytest.raises(ValueError, match="each section needs one block of Python"):
        examples("## One\n\n```python\nprint(1)\n```\n")
