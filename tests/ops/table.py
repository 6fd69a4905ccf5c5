"""The table of operations: a row for every operation class, and the samples that the laws run over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from effx.families.gamma import Polygamma, Zeta
from effx.families.incomplete import Betainc, BetaincGradA, Igamma, Igammac, IgammaGradA, RandomGammaGrad
from tests.ops import (
    rows_control,
    rows_convolution,
    rows_elementwise,
    rows_fourier,
    rows_index,
    rows_linalg,
    rows_marked,
    rows_parallel,
    rows_random,
    rows_reduce,
    rows_shape,
    rows_windows,
)
from tests.ops.rows import Row, Sample, c128, f64

ROWS: list[Row] = [
    *rows_elementwise.ROWS,
    *rows_shape.ROWS,
    *rows_reduce.ROWS,
    *rows_index.ROWS,
    *rows_fourier.ROWS,
    *rows_linalg.ROWS,
    *rows_convolution.ROWS,
    *rows_windows.ROWS,
    *rows_parallel.ROWS,
    *rows_control.ROWS,
    *rows_marked.ROWS,
    *rows_random.ROWS,
]
BY_KIND = {row.kind: row for row in ROWS}


Case = tuple[Row, Sample]
CASES: list[Case] = [(row, sample) for row in ROWS for sample in row.samples]


# XLA takes a second and more for a program of one of these, in each dtype and shape anew.
SLOW_TO_COMPILE = (Igamma, Igammac, IgammaGradA, RandomGammaGrad, Betainc, BetaincGradA, Polygamma, Zeta)


def name(case: Case) -> str:
    return str(case[1])


def as_parameter(case: Case, is_deep: bool) -> Any:
    """Returns a parameter of tests, marked if its test runs in deep runs only."""
    return pytest.param(case, marks=pytest.mark.deep if is_deep else (), id=name(case))


def leave_repeats_to_deep_runs(cases: Iterable[Case]) -> list[Any]:
    """Returns parameters of tests: of what is slow to compile, one sample for each dtype, the others marked as deep."""
    seen: set[tuple[object, ...]] = set()
    parameters = []
    for row, sample in cases:
        key = (row.kind, *[x.dtype for x in sample.types])
        parameters.append(as_parameter((row, sample), row.kind in SLOW_TO_COMPILE and key in seen))
        seen.add(key)
    return parameters


# What derivatives are checked on: all inexact types are 64-bit, so that differences have digits.
WIDE: list[Case] = [
    (row, sample)
    for row, sample in CASES
    if row.active(sample)
    and all(x.dtype in (f64, c128) for x in [*sample.types, *sample.inferred()] if x.kind in "fc")
]
