"""Values of special functions and distributions at 0, tiny, near their zeros, at poles, in tails and at infinity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx.scipy import special, stats
from tests.special_values.table import DISTRIBUTIONS, FUNCTIONS, Precise, Row

DTYPES: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float64)]


def count_errors(row: Row, points: list[Any], got: Any, want: Any) -> Any:
    """The errors in units of what is allowed: above 1 is too much. Subnormal numbers may be 0."""
    info = np.finfo(got.dtype)
    allowed = row.ulps[info.bits == 64]
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        size = np.maximum(np.abs(rounded), max(row.floor, float(info.tiny)))
        if row.by_exponent:
            allowed = allowed * (1 + np.abs(np.log(np.maximum(size, info.tiny).astype(np.float64))) / 4)
        error = np.abs(got.astype(np.float64) - want) / np.spacing(np.minimum(size, info.max)).astype(
            np.float64
        )
        same = (got == rounded) | (np.isnan(got) & np.isnan(want))
        # Of numbers next to the smallest normal one, an intermediate result may be subnormal, and 0.
        flushed = (np.abs(want) < 16 * info.tiny) & (np.abs(got) < 16 * info.tiny)
        # Next to the largest number, an intermediate result may overflow.
        overflown = np.isinf(got) & (np.abs(want) > 0.25 * info.max) & (np.sign(got) == np.sign(want))
        ratio = np.where(same | flushed | overflown, 0.0, error / np.maximum(allowed, 1e-9))
    ratio[np.isnan(ratio)] = np.inf
    for excuse in row.excuses:
        applies = excuse.applies(*[np.asarray(p, np.float64) for p in points])
        assert applies.any(), f"{row.name}: nothing is left out because {excuse.reason}"
        ratio = np.where(applies, 0.0, ratio)
    return ratio


def check_values(function: Callable[..., Any], row: Row, dtype: np.dtype[Any]) -> None:
    """Compares a function with the row's oracle, under jit and as one batch."""
    points = row.points(dtype)
    with np.errstate(all="ignore"):
        # Of 32 bits, SciPy's values are right to the last bit, and much faster.
        oracle = (
            row.oracle.otherwise if isinstance(row.oracle, Precise) and dtype.itemsize == 4 else row.oracle
        )
        want = np.asarray(oracle(*[p.astype(np.float64) for p in points]), np.float64)
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
    ("row", "dtype"), SPECIAL, ids=lambda x: f"{x.name}-{len(x.grids)}" if isinstance(x, Row) else str(x)
)
def test_special_functions(row: Row, dtype: np.dtype[Any]) -> None:
    check_values(getattr(special, row.name), row, dtype)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("row", DISTRIBUTIONS, ids=lambda row: row.name)
def test_distributions(row: Row, dtype: np.dtype[Any]) -> None:
    distribution, function = row.name.split(".")
    check_values(getattr(getattr(stats, distribution), function), row, dtype)
