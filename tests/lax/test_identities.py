"""The number that changes nothing may be written for arrays of all dtypes: `reduce_window(x, -inf, max, …)` of integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError

CASES: list[tuple[Any, float, Callable[..., Any]]] = [
    (lax.add, 0.0, np.sum), (lax.mul, 1.0, np.prod), (lax.max, -np.inf, np.max), (lax.min, np.inf, np.min),
]  # fmt: skip


@pytest.mark.parametrize(
    "dtype", ["int8", "int32", "uint8", "float16", "bfloat16", "float32", "float8_e4m3fn"]
)
@pytest.mark.parametrize(("function", "identity", "oracle"), CASES, ids=["add", "mul", "max", "min"])
def test_identities_of_another_dtype(
    function: Any, identity: float, oracle: Callable[..., Any], dtype: str
) -> None:
    """It becomes the lowest or highest value of the dtype, which is finite where the dtype has no infinity."""
    x = enp.array([[3, 1, 2], [1, 2, 1]], dtype)
    host = np.asarray(x).astype("f4")
    for number in (identity, np.float32(identity), enp.float32(identity)):
        reduce = partial(lax.reduce, init_values=number, computation=function, dimensions=(1,))
        rows = effx.vmap(partial(lax.reduce, init_values=number, computation=function, dimensions=(0,)))
        for f in (reduce, effx.jit(reduce), rows):
            y: Any = f(x)
            assert y.dtype == dtype
            np.testing.assert_array_equal(np.asarray(y).astype("f4"), oracle(host, 1))
        windows = lax.reduce_window(x, number, function, (1, 2), (1, 1), "VALID")
        assert windows.dtype == dtype
        pairs = np.stack([host[:, :-1], host[:, 1:]])
        np.testing.assert_array_equal(np.asarray(windows).astype("f4"), oracle(pairs, 0))


def test_identities_of_padding() -> None:
    """What is beyond the ends changes nothing in the dtype of the operand."""
    x = np.array([[-5, -7]], "i4")
    y = lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 1), "SAME")
    np.testing.assert_array_equal(y, [[-5, -7]])
    empty = lax.reduce(np.zeros((2, 0), "i4"), -np.inf, lax.max, (1,))
    np.testing.assert_array_equal(empty, [np.iinfo("i4").min] * 2)


@pytest.mark.parametrize("number", [1.5, 2.0, np.inf])
def test_other_numbers_of_another_dtype_are_refused(number: float) -> None:
    with pytest.raises(DTypeError, match="dtypes differ: the operand is i32"):
        lax.reduce(np.ones(2, "i4"), number, lax.add, (0,))
    with pytest.raises(DTypeError, match="dtypes differ: the operand is i32"):
        lax.reduce_window(np.ones(2, "i4"), number, lax.max, (2,), (1,), "VALID")
