"""First, second and mixed derivatives at special points are those of mpmath, in every mode and in both precisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.special_points import elementary, special
from tests.special_points.measure import Row, explain_difference, measure

ROWS: list[Row] = [*elementary.ROWS, *special.ROWS]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_derivatives(row: Row, dtype: str) -> None:
    cache: dict[Any, Any] = {}
    wrong = []
    points = [*row.points, *row.limits]
    for (order, mode), values in measure(row, dtype).items():
        for point, got in zip(points, np.broadcast_to(values, len(points)), strict=True):
            if row.reason(point, order) is None:
                difference = explain_difference(row, dtype, point, order, float(got), cache)
                if difference is not None:
                    wrong.append(f"at {point} by {order}, {mode}: {difference}")
    assert not wrong, "\n" + "\n".join(wrong)
