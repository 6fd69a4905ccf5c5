"""What every page's doctest shares: eight devices, and a folder for the files that the page writes."""

from __future__ import annotations

import os

os.environ.setdefault("EFFX_NUM_CPU_DEVICES", "8")

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def work_in_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each page in an empty directory."""
    monkeypatch.chdir(tmp_path)
