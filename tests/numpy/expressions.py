"""Tables of expressions, and the comparison of what they give.

Never: imports effx; the tests say what is compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def words(text: str) -> list[str]:
    return text.split()


def rows(text: str) -> list[str]:
    """Expressions that are separated by semicolons."""
    return text.split("; ")


def leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple | list) else [x]


def agree(got: Any, want: Any, rtol: float = 3e-5, atol: float = 1e-5) -> None:
    """Compares number, shapes and values of results, by default to single precision."""
    results, expected = leaves(got), leaves(want)
    assert len(results) == len(expected)
    for a, b in zip(results, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol, atol)
