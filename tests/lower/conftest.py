"""What tests of the caches on disk share."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A cache in force that keeps whatever is compiled."""
    from effx import flags
    from effx.lower.disk import cache_files

    path = tmp_path / "cache"
    cache_files._warned_texts.clear()
    with flags.cache_dir(str(path)), flags.cache_min_compile_seconds(0.0):
        yield path
