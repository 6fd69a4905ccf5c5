"""Reads the notebooks of `docs/gallery`, which are Markdown with `{code-cell}` blocks, and runs them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "gallery"
TIMEOUT = 300.0


def list_notebooks() -> list[Path]:
    """Returns the pages of the gallery that have code to run."""
    return [path for path in sorted(GALLERY.glob("*.md")) if read_cells(path.read_text(encoding="utf-8"))]


def read_cells(page: str) -> list[str]:
    """Returns the code of each cell of a page.

    >>> read_cells("Text.\\n\\n```{code-cell}\\n:tags: [remove-input]\\nx = 1\\n```\\n\\n```\\nno cell\\n```\\n")
    ['x = 1\\n']
    """
    blocks = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\A(:[\w-]+:[^\n]*\n)+", "", block) for block in blocks]


def run_cells(cells: list[str], folder: Path) -> list[list[dict[str, Any]]]:
    """Runs cells in a kernel of this Python, and returns the outputs of each cell, errors among them."""
    import nbformat  # here, since who only reads pages needs no kernel
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=TIMEOUT, resources=resources, allow_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("MPLBACKEND", None)  # the kernel has its own, which shows pictures below cells
    client.execute(env=environment)
    return [list(cell.outputs) for cell in notebook.cells]


def join_text(outputs: list[dict[str, Any]]) -> str:
    """Returns what a cell shows as plain text: what it prints, its value, and the message of its error."""
    parts = []
    for output in outputs:
        if output["output_type"] == "stream":
            parts.append(output["text"])
        elif output["output_type"] == "error":
            parts.append("\n".join(output["traceback"]))
        else:
            parts.append(output["data"].get("text/plain", "") + "\n")
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(parts))
