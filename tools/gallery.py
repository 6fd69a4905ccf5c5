"""Writes the page of the gallery, `docs/gallery/index.md`, and its small pictures: what each program shows and takes.

python -m tools.gallery        runs all programs of `examples/` and all notebooks, and rewrites the page

Times and results are those of the run. Each program runs alone, in a process of its own, so they contain the start of Python
and all compilation. Pictures are those that the programs draw, made small.
"""

from __future__ import annotations

import ast
import base64
import datetime as dt
import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from benchmarks.report import describe_processor
from tools.notebooks import GALLERY, ROOT, join_text, list_notebooks, read_cells, run_cells

EXAMPLES = ROOT / "examples"
PICTURES = ROOT / "docs" / "images" / "gallery"
PAGE = GALLERY / "index.md"
WIDTH, HEIGHT = 240, 150

# For each program the line of its output that has the result, and how the page says it.
RESULTS = {
    "autoencoder": (
        r"bound on unseen pictures (\S+) nats, .* pixel (\S+)$",
        "likelihood of an unseen picture at least {} nats; of a coin for each pixel {}",
    ),
    "certified-digits": (
        r"^certified at radius (\S+): (\d+) of (\d+) by effx, (\d+) by NumPy$",
        "certified at radius {}: {} of {} digits; {} by NumPy",
    ),
    "data_and_tensor_parallel": (
        r"^step (\d+): loss (\S+)\n(?!step)",
        "loss after {} steps {} nats a letter",
    ),
    "digits": (r"^test accuracy (\S+)% after (\d+) steps$", "{} % of the test digits after {} steps"),
    "eight-schools": (
        r"^posterior mean of mu: (\S+) by chains, (\S+) on a grid$",
        "posterior mean of mu {}; {} by a sum over a grid",
    ),
    "eight_schools": (r"^mu +(\S+), on a grid +(\S+)$", "posterior mean of mu {}; {} by a sum over a grid"),
    "gaussian_process": (
        r"unseen patients (\S+) of the deviation, of least squares (\S+)$",
        "error {} deviations; of least squares {}",
    ),
    "interval_bounds": (r"^(outputs outside of their bounds: \d+ of \d+)$", "{}"),
    "neural-ode": (
        r"^end points differ from SciPy's by at most (\S+)$",
        "end points differ from SciPy's by at most {}",
    ),
    "neural_ode": (r"^accuracy on other points (\S+)%$", "{} % of unseen points"),
    "pipeline_shard_map": (
        r"^losses differ from those without a pipeline by at most (\S+)$",
        "losses differ from one device's by at most {}",
    ),
    "plan_7b": (
        r"model 4 of TPU(?:.*\n)+?at least (\S+ \w+) a run, bound by (\w+)$",
        "on 64 x 4 devices a step takes at least {}, bound by {}",
    ),
    "residual": (r"^test accuracy (\S+)%", "{} % of the test digits"),
    "sparse-hessian": (
        r"^ *(576) unknowns: (\d+) products(?:.*\n)+?differs from the Hessian by hand by at most (\S+)$",
        "{} unknowns by {} products; differs from the Hessian by hand by at most {}",
    ),
    "spirals": (r"^accuracy on other points (\S+)%$", "{} % of unseen points"),
    "transformer": (r"^step (\d+): loss (\S+),.*\n(?!step)", "loss after {} steps {} nats a letter"),
    "transformer-on-a-mesh": (
        r"losses of one device differ by at most (\S+)\n(?:.*\n)+?first loss: (\S+) by eight devices, (\S+) by NumPy$",
        "losses differ from one device's by at most {}; first loss {}, {} by NumPy",
    ),
}
HEAD = """# Gallery

Notebooks, with text beside the code, and programs of the folder `examples/`, to be run as `python examples/digits.py`.
`python -m tools.gallery` wrote this page: it ran all of them on {date}, one after the other, on {machine} with
Python {python}. Times are those of whole processes, from the start of Python to the end. In the minute before the first,
other programs kept {load:.1f} cores busy.

```{{toctree}}
:hidden:
{toctree}
```
"""


class Run(NamedTuple):
    """What a program printed, the picture that it drew, and how many seconds it took."""

    output: str
    picture: bytes
    seconds: float


def list_programs() -> list[Path]:
    """Returns the notebooks, and the programs of `examples/`."""
    return [*list_notebooks(), *sorted(EXAMPLES.glob("*.py"))]


def describe(path: Path) -> str:
    """Returns the title of a notebook, or what the first line of a program's docstring says."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        return title[1] if title is not None else path.stem
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0].rstrip(".")


def read_result(name: str, output: str) -> str:
    """Returns the result that a program has printed, as the page says it.

    Raises:
        SystemExit: it is not in the output.

    >>> read_result("residual", "epoch 1: loss 0.5\\ntest accuracy 97.25%, misread 3 of 450\\n")
    '97.25 % of the test digits'
    """
    pattern, text = RESULTS[name]
    match = re.search(pattern, output, re.MULTILINE)
    if match is None:
        raise SystemExit(f"{name}: no result like {pattern!r} in what it printed:\n{output}")
    return text.format(*match.groups())


def run_example(path: Path) -> Run:
    """Runs a program of `examples/`."""
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )
    seconds = time.perf_counter() - start
    picture = re.search(r"^picture: (.+)$", done.stdout, re.MULTILINE)
    if done.returncode or picture is None:
        raise SystemExit(f"{path.name} failed, or drew nothing:\n{done.stdout}{done.stderr}")
    return Run(done.stdout, (ROOT / picture[1]).read_bytes(), seconds)


def run_notebook(path: Path) -> Run:
    """Runs a notebook; its picture is the last one that it shows."""
    start = time.perf_counter()
    cells = run_cells(read_cells(path.read_text(encoding="utf-8")), path.parent)
    seconds = time.perf_counter() - start
    outputs = [output for cell in cells for output in cell]
    text = join_text(outputs)
    pictures = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    if not pictures or any([o["output_type"] == "error" for o in outputs]):
        raise SystemExit(f"{path.name} failed, or drew nothing:\n{text}")
    return Run(text, base64.b64decode(pictures[-1]), seconds)


def shrink_picture(picture: bytes) -> bytes:
    """Returns a small PNG of a picture, of 64 colours on white."""
    image = Image.open(io.BytesIO(picture)).convert("RGBA")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image)
    page.thumbnail((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    small = io.BytesIO()
    page.convert("RGB").quantize(64).save(small, "PNG", optimize=True)
    return small.getvalue()


def name_machine() -> str:
    """Returns the kind and number of this machine's cores."""
    return f"{os.cpu_count()} cores of {describe_processor() or 'an unknown processor'}"


def write_row(path: Path, run: Run) -> str:
    """Returns a program's line in the table of the page."""
    name = path.stem
    link = f"[{describe(path)}]({path.name})" if path.suffix == ".md" else f"`{path.name}`: {describe(path)}"
    picture = f"![{name}](../images/gallery/{name}.png)"
    return f"| {picture} | {link} | {read_result(name, run.output)} | {run.seconds:.0f} s |"


def write_page(rows: dict[Path, str], load: float) -> str:
    """Returns the page, from each program's line, and the number of busy cores before the first ran."""
    toctree = "\n".join([path.stem for path in rows if path.suffix == ".md"])
    date = dt.datetime.now(dt.UTC).date().isoformat()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    parts = [HEAD.format(date=date, load=load, machine=name_machine(), python=python, toctree=toctree)]
    for title, suffix in (("Notebooks", ".md"), ("Programs", ".py")):
        lines = [row for path, row in rows.items() if path.suffix == suffix]
        parts += [f"## {title}\n", "| | | result | time |\n|---|---|---|---|\n" + "\n".join(lines) + "\n"]
    return "\n".join(parts)


def main() -> None:
    """Runs all programs, and writes the page and the pictures."""
    PICTURES.mkdir(exist_ok=True)
    load = os.getloadavg()[0]
    rows = {}
    for path in list_programs():
        run = run_notebook(path) if path.suffix == ".md" else run_example(path)
        rows[path] = write_row(path, run)
        (PICTURES / f"{path.stem}.png").write_bytes(shrink_picture(run.picture))
        print(f"{path.name}: {read_result(path.stem, run.output)}, {run.seconds:.1f} s")
    PAGE.write_text(write_page(rows, load), encoding="utf-8")


if __name__ == "__main__":
    main()
