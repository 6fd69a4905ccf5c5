"""The examples run and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> str:
    """Standard output of a Python program that has to succeed."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_digits() -> None:
    """The network reads more than 95% of the test digits, and the picture is saved."""
    output = run("examples/digits.py")
    accuracy = re.search(r"test accuracy ([\d.]+)%", output)
    assert accuracy is not None
    assert float(accuracy[1]) > 95.0
    picture = re.search(r"^picture: (.+)$", output, re.MULTILINE)
    assert picture is not None
    assert (ROOT / picture[1]).stat().st_size > 10_000


def test_eight_schools() -> None:
    """Posterior means by Hamiltonian Monte Carlo are those of a sum over a grid."""
    output = run("examples/eight_schools.py", "--draws", "3000")
    for name, tolerance in (("mu", 0.4), ("tau", 0.5)):
        found = re.search(rf"^{name} +([\d.]+), on a grid +([\d.]+)$", output, re.MULTILINE)
        assert found is not None
        assert abs(float(found[1]) - float(found[2])) < tolerance, name


def number(pattern: str, output: str) -> float:
    """The number that stands at the group of a pattern in an output."""
    found = re.search(pattern, output, re.MULTILINE)
    assert found is not None, output
    return float(found[1])


def test_spirals() -> None:
    """Nearly all unseen points are told apart."""
    assert number(r"^accuracy on other points ([\d.]+)%$", run("examples/spirals.py")) > 95.0


def test_gaussian_process() -> None:
    """The fitted kernel is likelier, and the mean runs close to the curve."""
    output = run("examples/gaussian_process.py")
    assert number(r"fitted (-?[\d.]+)$", output) > number(r"^log-likelihood (-?[\d.]+),", output)
    assert number(r"^furthest ([\d.]+)$", output) < 0.25


def test_transformer() -> None:
    """It learns the letters, and goes on with words of the sentence."""
    output = run("examples/transformer.py")
    assert number(r"after 800 steps ([\d.]+)$", output) < 0.4
    assert "said: to be" in output
