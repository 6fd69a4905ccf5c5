"""Types that C++ cannot tell apart, since devices store them alike: what ran before does not change what runs now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, permutations
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.handling import ops
from effx.ir.values.scalars import scalar

# Of rank 0; all are stored as a bool.
VALUES: dict[str, Callable[[], Any]] = {
    "float0": lambda: enp.asarray(np.zeros((), effx.float0)),
    "weak bool": lambda: scalar(True, enp.bool_.dtype, True),
    "weak bool on a device": lambda: lax.reshape(scalar(True, enp.bool_.dtype, True), ()),
    "bool": lambda: enp.asarray(np.bool_(True)),
}
SIZES: Iterator[int] = count(7)  # a size for each test, so that none has run before


@pytest.mark.parametrize("names", list(permutations(VALUES, 2)), ids="-".join)
def test_operations_and_functions(names: tuple[str, str]) -> None:
    """In operations that have run so often that C++ runs them, and in jitted functions."""
    size = next(SIZES)
    broadcast = ops.BroadcastInDim((size,), ())
    for runs in (broadcast, effx.jit(lambda x: ops.BroadcastInDim((size,), ())(x))):
        for _ in range(20):
            runs(enp.float32(1.0))
        for name in names:
            x = VALUES[name]()
            for _ in range(3):
                y = runs(x)
                assert (y.shape, y.dtype) == ((size,), x.dtype)
                if x.dtype == np.bool_:
                    np.testing.assert_array_equal(y, np.ones(size, bool))


def test_python_bools_beside_float0() -> None:
    """Python's own are no arrays for C++: they keep its path, and meet no float0."""
    f = effx.jit(lambda x: (x, 1.0))
    for x in (np.zeros((), effx.float0), True, np.zeros((), effx.float0), True):
        for _ in range(3):
            y = f(enp.asarray(x) if isinstance(x, np.ndarray) else x)[0]
            assert y.dtype == (effx.float0 if isinstance(x, np.ndarray) else np.bool_)
