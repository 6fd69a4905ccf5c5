"""Counts that come out of a division of floats, `5e5 // 128`, are counts; other floats are none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, random

KEY = random.key(0)
X = np.arange(6, dtype="f4")

COUNTS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda n: lax.scan(lambda c, _: (c + 1, c), 0, None, length=n)[1],
    "scan of arrays": lambda n: lax.scan(lambda c, x: (c + x, c), 0.0, X[:2], length=n)[1],
    "roll": lambda n: enp.roll(X, n),
    "roll by several": lambda n: enp.roll(X.reshape(2, 3), (n, 1), (0, 1)),
    "rot90": lambda n: enp.rot90(X.reshape(2, 3), n),
    "split": lambda n: enp.split(X, n),
    "array_split": lambda n: enp.array_split(X, n),
    "randint": lambda n: random.randint(KEY, (3,), 0, n),
    "choice": lambda n: random.choice(KEY, n, (3,)),
    "fold_in": lambda n: random.key_data(random.fold_in(KEY, n)),
}


@pytest.mark.unguarded
@pytest.mark.parametrize("name", COUNTS)
def test_whole_floats_are_counts(name: str) -> None:
    f = COUNTS[name]
    want = effx.tree.leaves(f(2))
    for count in (2.0, np.float32(2), np.float64(2)):
        for g in (f, lambda n: effx.jit(lambda: f(n))()):
            for x, y in zip(effx.tree.leaves(g(count)), want, strict=True):
                assert x.dtype == y.dtype
                np.testing.assert_array_equal(x, y)


@pytest.mark.unguarded
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("count", [2.5, np.inf, np.nan])
def test_other_floats_are_none(name: str, count: float) -> None:
    with pytest.raises(effx.errors.EffxError, match=r"must be an int|must be integers|an integer"):
        COUNTS[name](count)
