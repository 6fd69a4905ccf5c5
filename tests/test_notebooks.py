"""Notebooks: those of the gallery run and agree with their oracles, and Jupyter shows what effx makes.

Skipped where there is no kernel to run them in, which the extra `test` brings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import effx
from tools.gallery import read_result
from tools.notebooks import GALLERY, join_text, list_notebooks, read_cells, run_cells

pytest.importorskip("ipykernel")
pytest.importorskip("nbclient")

INTERNAL = str(Path(effx.__file__).parent)

# Numbers that each notebook compares, as it prints them.
COMPARED = {
    "certified-digits": r"\d+ of 450 by effx, \d+ by NumPy",
    "eight-schools": r"mean of tau: \S+ by chains, \S+ on a grid",
    "neural-ode": r"gradient \[.+\], by differences of SciPy's solutions \[.+\]",
    "sparse-hessian": r"differs from the dense Hessian by at most \S+",
    "transformer-on-a-mesh": r"first loss: \S+ by eight devices, \S+ by NumPy",
}


def outputs_of(*cells: str, folder: Path) -> list[list[dict[str, Any]]]:
    return run_cells(list(cells), folder)


@pytest.mark.parametrize("path", list_notebooks(), ids=lambda path: path.stem)
def test_gallery(path: Path) -> None:
    """A notebook ends without an error, draws a picture, and prints what it compares; it asserts that the numbers agree."""
    cells = read_cells(path.read_text(encoding="utf-8"))
    outputs = [output for cell in run_cells(cells, path.parent) for output in cell]
    text = join_text(outputs)
    assert [o for o in outputs if o["output_type"] == "error"] == [], text
    assert any(["image/png" in o.get("data", {}) for o in outputs])
    assert re.search(COMPARED[path.stem], text), text
    assert read_result(path.stem, text)
    assert sum([cell.count("assert ") for cell in cells]) >= 1
    assert sum([o["output_type"] == "stream" and o["name"] == "stderr" for o in outputs]) == 0, text


def test_pages_of_the_gallery_are_notebooks() -> None:
    """Each but the index names its kernel, is in the index, and has no prompts, which doctest would run."""
    index = (GALLERY / "index.md").read_text(encoding="utf-8")
    for path in GALLERY.glob("*.md"):
        page = path.read_text(encoding="utf-8")
        assert ">>>" not in page
        if path.name != "index.md":
            assert page.startswith("---\njupytext:")
            assert "kernelspec:" in page
            assert f"\n{path.stem}\n" in index


def test_what_jupyter_shows(tmp_path: Path) -> None:
    """Arrays and programs are rich, prints of compiled functions are below the cell, and so is a bar."""
    array, program, printed, bar, loop = outputs_of(
        "import effx, effx.numpy as enp\nenp.arange(6.0).reshape(2, 3)",
        "effx.make_jaxpr(lambda x: enp.sin(x) * 2)(1.0)",
        "@effx.jit\ndef f(x):\n    effx.debug.print('x is {:.1f}', x)\n    return x * 2\ny = f(3.0)",
        "from effx.library import progress\n"
        "y = effx.jit(lambda x: progress.fori_loop(0, 500, lambda i, x: x + i, x, label='adding'))(0)",
        "from tqdm import tqdm\nfor _ in tqdm(range(3)):\n    f(1.0)",
        folder=tmp_path,
    )
    assert "<b>f32[2,3]</b>" in array[0]["data"]["text/html"]
    assert array[0]["data"]["text/plain"].startswith("Array([[0., 1., 2.],")
    assert "&lt;!DOCTYPE html&gt;" in program[0]["data"]["text/html"]
    assert "= sin a" in program[0]["data"]["text/plain"]
    assert join_text(printed) == "x is 3.0\n"
    assert "adding: 100%" in join_text(bar)
    assert "500/500" in join_text(bar)
    assert join_text(loop).count("x is 1.0") == 3


FAILING = {
    "jit": "effx.jit(f)(x)",
    "grad": "effx.grad(f)(x)",
    "vmap": "effx.vmap(effx.jit(f))(enp.ones((2, 3)))",
    "handler": "bounds(f, Interval(x, x))",
    "scan": "effx.lax.scan(lambda c, _: (f(c), None), x, length=2)",
}


def test_errors_have_the_lines_of_cells_and_none_of_effx(tmp_path: Path) -> None:
    """Whatever calls a function that is wrong, the traceback has its line, its cell by number, and no frame of effx."""
    defined = (
        "import effx, effx.numpy as enp\nfrom effx.library.intervals import Interval, bounds\nx = enp.ones(3)\n"
        "def f(x):\n    y = x + 1.0\n    return (y @ enp.ones(4)).sum()\n"
    )
    outputs = outputs_of(defined, *FAILING.values(), "x + enp.ones(4)", folder=tmp_path)
    assert outputs[0] == []
    for name, output in zip([*FAILING, "operator"], outputs[1:], strict=True):
        (error,) = output
        text = join_text([error])
        assert error["ename"] == "ShapeError", text
        assert INTERNAL not in text, (name, text)
        assert "effx/" not in text, (name, text)
        if name in FAILING:
            assert "----> 6     return (y @ enp.ones(4)).sum()" in text, (name, text)
            assert "at   In[1]:6 in f" in text, (name, text)


def test_errors_of_users_inside_compiled_functions(tmp_path: Path) -> None:
    """An error that is not effx's keeps its class, and has no frame of effx either."""
    (output,) = outputs_of(
        "import effx\n@effx.jit\ndef f(x):\n    raise ValueError('mine')\nf(1.0)", folder=tmp_path
    )
    text = join_text(output)
    assert "ValueError: mine" in text
    assert "----> 4     raise ValueError('mine')" in text
    assert INTERNAL not in text


def test_frames_of_effx_are_shown_on_demand(tmp_path: Path) -> None:
    """The setting `traceback_filtering` works in notebooks as elsewhere."""
    outputs = outputs_of(
        "import effx, effx.numpy as enp\neffx.config.update('traceback_filtering', False)",
        "enp.ones(3) + enp.ones(4)",
        folder=tmp_path,
    )
    assert INTERNAL in join_text(outputs[-1])
