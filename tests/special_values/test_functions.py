"""Values of special functions and distributions at 0, tiny, near their zeros, at poles, in tails and at infinity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx.laws.portable.points.values import DISTRIBUTIONS, FUNCTIONS, ValueRow, count_errors
from effx.scipy import special, stats

DTYPES: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float64)]


def check_values(function: Callable[..., Any], row: ValueRow, dtype: np.dtype[Any]) -> None:
    """Compares a function with the row's oracle, under jit and as one batch."""
    points, want = row.points(dtype), row.find_truth(dtype)
    with effx.enable_x64(dtype.itemsize == 8):
        result = effx.jit(function)(*points)
    got = np.asarray(result if row.part is None else result[row.part])
    assert got.dtype == dtype
    ratio = count_errors(row, points, got, want)
    worst = np.argsort(-ratio)[:6]
    lines = [
        f"{[float(p[i]) for p in points]}: {got[i]}, not {want[i]}, {ratio[i]:.3g}"
        for i in worst
        if ratio[i] > 1
    ]
    assert not lines, f"{row.name}, {dtype}: {(ratio > 1).sum()} of {ratio.size} are wrong:\n" + "\n".join(
        lines
    )


# Other functions have no cases by magnitude, so 64 bits tell nothing more of them.
CASES = (
    "gamma",
    "gammaln",
    "digamma",
    "zeta",
    "polygamma",
    "betaln",
    "beta",
    "gammainc",
    "gammaincc",
    "betainc",
    "kl_div",
)
SPECIAL = [
    pytest.param(row, dtype, marks=() if dtype.itemsize == 4 or row.name in CASES else pytest.mark.deep)
    for row in FUNCTIONS
    for dtype in DTYPES
]


@pytest.mark.parametrize(
    ("row", "dtype"), SPECIAL, ids=lambda x: f"{x.name}-{len(x.grids)}" if isinstance(x, ValueRow) else str(x)
)
def test_special_functions(row: ValueRow, dtype: np.dtype[Any]) -> None:
    check_values(getattr(special, row.name), row, dtype)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("row", DISTRIBUTIONS, ids=lambda row: row.name)
def test_distributions(row: ValueRow, dtype: np.dtype[Any]) -> None:
    distribution, function = row.name.split(".")
    check_values(getattr(getattr(stats, distribution), function), row, dtype)
