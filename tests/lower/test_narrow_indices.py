"""Indices of 8 and 16 bits reach into axes that are longer than their dtype can count.

Never: looks at the text that is emitted; only what comes out counts.
"""

from __future__ import annotations

import numpy as np
import pytest

import effx.handlers.evaluate.handler
import effx.lower.text.stablehlo  # noqa: F401  # the outermost handler and its kernels
from effx.array import Array
from effx.array.promotion import to_host_array
from effx.effects import Operation
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.shape import DynamicSlice, DynamicUpdateSlice

SIZE = 1000
BLOCK = np.asarray([-1, -2], np.int32)


def perform(op: Operation[Array], *operands: np.ndarray) -> np.ndarray:
    return np.asarray(op(*[to_host_array(x) for x in operands]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32])
@pytest.mark.parametrize("at", [-128, -1, 0, 5, 127, 255, 998, 999])
def test_narrow_indices_reach_long_axes(dtype: type[np.integer], at: int) -> None:
    """XLA would clamp to a bound that wrapped around in the indices' dtype."""
    if not np.iinfo(dtype).min <= at <= np.iinfo(dtype).max:
        pytest.skip("the dtype does not hold the index")
    x, start = np.arange(SIZE, dtype=np.int32), np.asarray(at, dtype)
    clamped = min(max(at, 0), SIZE - 2)
    written = x.copy()
    written[clamped : clamped + 2] = BLOCK
    np.testing.assert_array_equal(perform(DynamicSlice((2,)), x, start), x[clamped : clamped + 2])
    np.testing.assert_array_equal(perform(DynamicUpdateSlice(), x, BLOCK, start), written)
    np.testing.assert_array_equal(
        perform(Gather((1,), (), (0,), (2,)), x, start.reshape(1, 1))[0], x[clamped : clamped + 2]
    )
    np.testing.assert_array_equal(
        perform(Scatter((1,), (), (0,), "set"), x, start.reshape(1, 1), BLOCK[None]),
        written if at == clamped else x,
    )
