"""Every law of the registry, on effx itself.

Never: states a law; effx/laws/areas does.
"""

from __future__ import annotations

import pytest

import effx
from effx.laws import LAWS


@pytest.mark.parametrize("name", LAWS)
def test_law(name: str) -> None:
    """Holds for drawn cases; a failure prints the smallest that was found as a program to paste."""
    LAWS[name].run()


def test_parallel_laws_have_devices() -> None:
    """With fewer the laws of pmap would hold of nothing."""
    assert effx.local_device_count() >= 4
