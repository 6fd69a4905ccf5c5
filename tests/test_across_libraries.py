"""The benchmark across libraries: its rows compute the same, its processes answer, its page has a line for each row."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.across_libraries import __main__ as command
from benchmarks.across_libraries.rows import Library, all_rows
from benchmarks.across_libraries.worker import prepare_call

ROWS = all_rows()
OF_NUMPY = [title for title, row in ROWS.items() if row.numpy is not None]
OF_TORCH = [title for title, row in ROWS.items() if row.torch is not None]


def results_of(value: Any) -> list[Any]:
    """Results of several parts are tuples of one class or another."""
    return list(value) if isinstance(value, tuple) else [value]


def compare(title: str, other: Library) -> None:
    """Signs of factors and the order of equal elements are the libraries' own."""
    ours, theirs = [results_of(prepare_call(library, ROWS[title])()) for library in ("effx", other)]
    for place, (x, y) in enumerate(zip(ours, theirs, strict=False)):
        x, y = np.asarray(x), np.asarray(y)
        if title.startswith("qr"):
            x, y = np.abs(x), np.abs(y)
        if title.startswith("argsort") or (title.startswith("top") and place == 1):
            data = ROWS[title].arguments()[0]
            x, y = [np.take_along_axis(data, indices, -1) for indices in (x, y)]
        if title.startswith("median") and other == "torch":
            continue  # the lower of the two in the middle
        np.testing.assert_allclose(x, y, 2e-3, 2e-3 * max(1e-6, float(np.abs(y).max())))


@pytest.mark.parametrize("title", OF_NUMPY)
def test_rows_compute_what_numpy_computes(title: str) -> None:
    compare(title, "numpy")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize("title", OF_TORCH)
def test_rows_compute_what_torch_computes(title: str) -> None:
    compare(title, "torch")


def test_a_process_answers_and_lives_on_after_errors() -> None:
    requests = "eager: 60 operations on 16 numbers\nno such row\ncopy 4096\ntop 10 of rows of 256 x 10,000\n"
    answers: list[dict[str, Any]] = []
    for library in ("effx", "numpy"):
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.across_libraries.worker", library],
            input=requests,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        answers += map(json.loads, result.stdout.splitlines())
    assert [sorted(a) for a in answers] == [
        ["seconds"], ["error"], ["seconds"], ["seconds"], ["seconds"], ["error"], ["seconds"], ["error"],
    ]  # fmt: skip
    assert answers[1]["error"] == "KeyError: 'no such row'"
    assert answers[7]["error"] == "LookupError: none"


def test_the_page_has_a_line_for_each_row() -> None:
    record = {
        "date": "2026-11-28", "processor": "P", "cores": 2, "python": "3.12.1", "libraries": ["effx", "numpy"],
        "versions": {"effx": "0.1.0", "numpy": "2.5"},
        "rows": [
            {"title": "a", "seconds": {"effx": [1e-3, 3e-3], "numpy": [2e-3, 2e-3]}, "errors": {}, "limit": 5e-4},
            {"title": "b", "seconds": {"effx": [1e-6]}, "errors": {"numpy": "LookupError: none"}, "limit": None},
        ],
    }  # fmt: skip
    page = command.render_page(record).splitlines()
    assert page[-4:] == [
        "| | effx | NumPy, SciPy | limit | over NumPy, SciPy |",
        "|---|---|---|---|---|",
        "| a | 2 ms | 2 ms | 500 µs | 1.00 |",
        "| b | 1 µs |  |  |  |",
    ]
    assert "effx 0.1.0, NumPy 2.5" in " ".join(page)


def test_unknown_libraries_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["across_libraries", "--libraries", "effx,cupy"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--libraries: got cupy, expected some of effx, jax, torch, numpy" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["across_libraries", "--libraries", "numpy"])
    with pytest.raises(SystemExit):
        command.main()
    assert "expected effx among them" in capsys.readouterr().err


def test_some_rows_do_not_replace_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And effx comes first, whatever the order on the command line."""
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(command, "FILE", tmp_path / "results.json")
    flags = ["--libraries", "numpy,effx", "--filter", "^eager", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["across_libraries", *flags])
    command.main()
    assert capsys.readouterr().out.split()[:5] == ["ms", "effx", "numpy", "limit", "/numpy"]
    assert not list(tmp_path.iterdir())
