"""Prefix sums in blocks, at powers of two and beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.lower.text.stablehlo.reduce import CACHE_LINE, CACHE_SETS, _spread_over_cache

SHAPES: list[tuple[int, ...]] = [(n + beside,) for n in (512, 4096, 1 << 16) for beside in (-1, 0, 1)]
SHAPES += [(rows, n) for rows in (1, 17, 64) for n in (511, 512, 1024, 1025)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    """Along each axis, of integers, floats and complex numbers; reversed and under vmap too."""
    rng = np.random.RandomState(0)
    integers = rng.randint(-9, 9, shape).astype(np.int32)
    floats = rng.rand(*shape).astype(np.float32)
    for axis in range(len(shape)):
        total = effx.jit(lambda x, axis=axis: enp.cumsum(x, axis))
        np.testing.assert_array_equal(np.asarray(total(integers)), np.cumsum(integers, axis))
        np.testing.assert_allclose(np.asarray(total(floats)), np.cumsum(floats, axis), 2e-5)
        np.testing.assert_allclose(np.asarray(total(floats * 1j)), np.cumsum(floats * 1j, axis), 2e-5)
    behind = effx.lax.cummax(enp.asarray(integers), len(shape) - 1, reverse=True)
    np.testing.assert_array_equal(
        np.asarray(behind), np.maximum.accumulate(integers[..., ::-1], -1)[..., ::-1]
    )
    stacked = np.stack([integers, -integers])
    np.testing.assert_array_equal(
        np.asarray(effx.vmap(enp.cumsum)(stacked)), np.cumsum(stacked.reshape(2, -1), 1)
    )


@pytest.mark.parametrize("width", [1, 4, 8, 16, 400, 4096, 8192])
def test_blocks_share_no_sets_of_a_cache(width: int) -> None:
    """Unless what lies behind one element fills lines that do."""
    for length in (1, 2, 500, 512, 1024, 4096):
        spread = _spread_over_cache(length, width)
        assert length <= spread <= length + max(1, CACHE_LINE // width)
        assert math.gcd(spread * width, CACHE_SETS) <= max(CACHE_LINE, math.gcd(width, CACHE_SETS))
