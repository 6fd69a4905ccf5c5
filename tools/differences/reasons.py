"""Why effx differs from JAX: patterns of expressions and differences, with a reason each, reviewed."""

import re

REASONS: list[tuple[str, str, str]] = []
"""A pattern of the whole expression, one that the difference contains, and the reason."""

_used: set[int] = set()


def find_reason(text: str, found: str) -> str | None:
    """Returns the reason for a difference; None if there is none yet."""
    for i, (expression, pattern, reason) in enumerate(REASONS):
        if re.fullmatch(expression, text) and re.search(pattern, found):
            _used.add(i)
            return reason
    return None


def unused_reasons() -> list[str]:
    """Returns the patterns of reasons for which no difference was found."""
    return [expression for i, (expression, _, _) in enumerate(REASONS) if i not in _used]
