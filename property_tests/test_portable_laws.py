"""Every portable law, on effx itself, as an adapter's user runs it.

Never: states a law; effx/laws/portable does.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

from effx.laws.portable import PORTABLE_LAWS, of_effx


@pytest.mark.parametrize("name", PORTABLE_LAWS)
def test_law(name: str) -> None:
    """Holds for cases of all sources; a failure prints the smallest program that was found."""
    verdict = PORTABLE_LAWS[name].run(of_effx(), None, max(4, settings().max_examples // 8))
    assert verdict.failure is None, f"{verdict.failure.message}\n\n{verdict.failure.program}"
    assert verdict.held
