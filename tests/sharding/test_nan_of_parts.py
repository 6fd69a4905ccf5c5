"""Extreme elements of arrays whose parts lie on several devices: NaN wins, in whichever part and of however few it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.sharding import NamedSharding
from effx.sharding import PartitionSpec as P

FUNCTIONS = ("max", "min", "argmax", "argmin", "ptp")


def shard(x: Any, spec: P) -> Any:
    return effx.device_put(x, NamedSharding(effx.make_mesh((4,), ("a",)), spec))


@pytest.mark.parametrize("n", [4, 8, 32, 64, 512, 4096])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_vector(n: int, dtype: Any) -> None:
    with effx.enable_x64():
        for base in (np.zeros(n), np.arange(n) - n / 2):
            for k in (0, 1, n // 2, n - 1):
                x = base.astype(dtype)
                x[k] = np.nan
                y = shard(x, P("a"))
                for name in FUNCTIONS:
                    function = getattr(enp, name)
                    wanted = getattr(np, name)(x)
                    np.testing.assert_array_equal(function(y), wanted)
                    np.testing.assert_array_equal(effx.jit(function)(y), wanted)


@pytest.mark.parametrize("spec", [P("a"), P(None, "a"), P()])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows(spec: P, axis: int) -> None:
    """Of several NaN the first."""
    x = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    x[[1, 1, 1, 5, 6], [3, 17, 63, 40, 40]] = np.nan
    y = shard(x, spec)
    for name in FUNCTIONS:
        got = effx.jit(lambda v, name=name: getattr(enp, name)(v, axis))(y)
        np.testing.assert_array_equal(got, getattr(np, name)(x, axis))
