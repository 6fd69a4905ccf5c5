"""What every page's doctest shares: files that a page writes are gone after the test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def work_in_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each page in an empty directory."""
    monkeypatch.chdir(tmp_path)
