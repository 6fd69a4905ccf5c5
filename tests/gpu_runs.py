"""Tests on a GPU or TPU, `pytest -m gpu`: which run there, and what is excused.

They run with products in full precision, which elsewhere is the default.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
# What compares values with NumPy's or SciPy's, and calls of Python; not what reads text or asks for a CPU's own forms.
SELECTED = (
    "image", "lax", "nn", "numpy", "ops/test_values.py", "random", "refs", "scipy", "sharding/test_layouts.py",
    "special_points", "special_values", "test_callbacks.py",
)  # fmt: skip
DIFFERENCES = HERE / "gpu_differences.txt"


def is_for_gpu(path: Path) -> bool:
    """Says whether the tests of a file run on GPUs too."""
    return path.relative_to(HERE).as_posix().startswith(SELECTED)


def read_differences() -> dict[str, str]:
    """Returns the reasons for which tests may fail on an accelerator, by the start of their names.

    >>> next(iter(read_differences())).split("/")[0]
    'tests'
    """
    lines = [x for x in DIFFERENCES.read_text().splitlines() if x and not x.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def is_on_accelerator() -> bool:
    """Says whether the default device is a GPU or TPU; a test has imported effx."""
    effx: Any = sys.modules.get("effx")
    return effx is not None and effx.default_backend() != "cpu"


def excuse(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Makes a failure for the lack of devices, or one that is listed, a skipped test."""
    if not report.failed or call.excinfo is None or not is_on_accelerator():
        return
    reasons = [reason for name, reason in read_differences().items() if report.nodeid.startswith(name)]
    if call.excinfo.typename == "DeviceCountError":
        reasons.append("needs several devices")
    if reasons:
        report.outcome = "skipped"
        report.longrepr = (str(report.fspath), (report.location[1] or 0) + 1, f"Skipped: {reasons[0]}")
