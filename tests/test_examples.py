"""The examples run and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> str:
    """Standard output of a Python program that has to succeed."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# As `print` and formats write them: signs, and exponents with signs of their own, too.
NUMBER = r"([-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?)"


def numbers(pattern: str, output: str) -> list[float]:
    """The numbers that an output has where a pattern says `<number>`."""
    match = re.search(pattern.replace("<number>", NUMBER), output, re.MULTILINE)
    assert match is not None, output
    return [float(text) for text in match.groups()]


def number(pattern: str, output: str) -> float:
    """The only number of a pattern in an output."""
    (value,) = numbers(pattern, output)
    return value


@pytest.mark.parametrize("text", ["0.0e+00", "1.2e-07", "-3.5", "12", "95."])
def test_numbers_are_read(text: str) -> None:
    """A number is read as it is printed, whatever its sign and that of its exponent."""
    assert number(r"^differ by <number>$", f"losses\ndiffer by {text}\n") == float(text)


def test_digits() -> None:
    """The network reads more than 95% of the test digits, and the picture is saved."""
    output = run("examples/digits.py")
    assert number(r"test accuracy <number>%", output) > 95.0
    assert picture_of(output).stat().st_size > 10_000


def test_eight_schools() -> None:
    """Posterior means by Hamiltonian Monte Carlo are those of a sum over a grid."""
    output = run("examples/eight_schools.py", "--draws", "3000")
    for name, tolerance in (("mu", 0.4), ("tau", 0.5)):
        by_chain, on_grid = numbers(rf"^{name} +<number>, on a grid +<number>$", output)
        assert abs(by_chain - on_grid) < tolerance, name


def test_interval_bounds() -> None:
    """No output leaves its bounds, and shorter intervals have narrower ones; the README has the picture."""
    output = run("examples/interval_bounds.py")
    assert number(r"^mean squared error <number>$", output) < 0.03
    assert number(r"^outputs outside of their bounds: <number> of 4000$", output) == 0
    coarse, fine = (number(rf"^{n} intervals: bounds <number> wide", output) for n in (40, 320))
    assert fine < coarse / 5
    assert picture_of(output).stat().st_size > 10_000


def test_spirals() -> None:
    """Nearly all unseen points are classified right."""
    assert number(r"^accuracy on other points <number>%$", run("examples/spirals.py")) > 95.0


def test_data_and_tensor_parallel(tmp_path: Path) -> None:
    """Four processes with two devices each have the losses of one process with eight."""
    job = ("examples/data_and_tensor_parallel.py", "--steps", "6", "--blocks", "1")
    losses = str(tmp_path / "losses.txt")
    output = run(*job, "--losses", losses)
    assert "1 processes, 8 devices, mesh {'data': 4, 'model': 2}" in output
    assert number(r"^step 6: loss <number>", output) < 3.5 < number(r"^step 1: loss <number>", output)
    assert picture_of(output).stat().st_size > 5_000

    several = ("-m", "effx.distributed.launch", "-n", "4", "--devices-per-process", "2")
    output = run(*several, *job, "--same-as", losses)
    assert "[0] 4 processes, 8 devices, mesh {'data': 4, 'model': 2}" in output
    assert number(r"^\[0\] losses differ from .+ by at most <number>$", output) < 1e-5


def test_pipeline() -> None:
    """Four stages with eight blocks learn what the same network learns on one device."""
    output = run("examples/pipeline_shard_map.py", "--steps", "60", "--timed", "2")
    assert "mesh {'stage': 4, 'data': 2}; up, 8x64x256, lies on it so:" in output
    assert number(r"^losses differ from those without a pipeline by at most <number>$", output) < 1e-5
    assert number(r"^step 60: loss <number>", output) < 0.3 < number(r"^step 1: loss <number>", output)
    assert number(r"^test accuracy <number>%$", output) > 90.0
    assert number(r"^micro-batches 2: bubble <number>%, [\d.]+ ms a step$", output) == 60.0
    assert picture_of(output).stat().st_size > 10_000


def picture_of(output: str) -> Path:
    """The picture that a program says it has drawn."""
    found = re.search(r"^picture: (.+)$", output, re.MULTILINE)
    assert found is not None, output
    return ROOT / found[1]


def test_gaussian_process() -> None:
    """The kernel is fitted, and predictions are no worse than least squares and as sure as they say."""
    output = run("examples/gaussian_process.py", "--steps", "40")
    assert number(r"BFGS <number>$", output) < number(r"^cost <number>,", output) - 0.05
    assert number(r"patients <number> of", output) < 1.03 * number(r"squares <number>$", output)
    assert 88 < number(r"deviations <number>%", output) < 99
    assert picture_of(output).stat().st_size > 10_000


def test_transformer() -> None:
    """It learns what letters follow each other."""
    output = run("examples/transformer.py", "--steps", "200")
    assert number(r"^step 200: loss <number>", output) < 2.0 < number(r"^step 1: loss <number>", output)
    assert re.search(r"^said: data set[ -~]{80}$", output, re.MULTILINE)
    assert picture_of(output).stat().st_size > 10_000


def test_residual() -> None:
    """Nearly all digits are read after three passes."""
    output = run("examples/residual.py", "--epochs", "3")
    assert number(r"^test accuracy <number>%", output) > 95.0
    assert picture_of(output).stat().st_size > 10_000


def test_autoencoder() -> None:
    """Unseen pictures are far likelier than under a coin for each pixel."""
    output = run("examples/autoencoder.py", "--epochs", "15")
    assert number(r"unseen pictures <number> nats", output) > number(r"pixel <number>$", output) + 15
    assert picture_of(output).stat().st_size > 5_000


def test_neural_ode() -> None:
    """The moons are pulled apart."""
    output = run("examples/neural_ode.py", "--steps", "60")
    assert number(r"^accuracy on other points <number>%$", output) > 95.0
    assert picture_of(output).stat().st_size > 10_000


def test_plan() -> None:
    """A small step is planned on a mesh that is not there: the shares of its state are as large as shardings say."""
    output = run("examples/plan_7b.py", "--small", "--layers", "2", "--topology", "8x2", "--mesh", "8x2")
    assert "train on data 8 x model 2 of TPU v5e, for each device" in output
    # Ten bytes for each of 1.57 million parameters, in 16 parts but for the scales of norms, tokens, and a mask.
    assert 0.98e6 < 1e6 * number(r"arguments <number>MB", output) < 1.02e6
    assert 0 < number(r"^useful arithmetic <number>%", output) < 100
