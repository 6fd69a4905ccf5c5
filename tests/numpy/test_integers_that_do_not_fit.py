"""Integers of 64 bits that 32 cannot hold, without enable_x64: an error, never the lower bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError

LARGE = 2**40
I32, F32, C64 = (effx.ShapeDtypeStruct((), dtype) for dtype in ("int32", "float32", "complex64"))


def call_back(value: Any, result: effx.ShapeDtypeStruct) -> Callable[[], Any]:
    return lambda: effx.jit(lambda x: effx.pure_callback(lambda _: value, result, x))(1.0)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "callback": (call_back(np.int64(LARGE), I32), r"pure_callback: result of <lambda>: 1099511627776 of i64 does not fit"),
    "callback, unsigned": (call_back(np.uint64(2**32), effx.ShapeDtypeStruct((), "uint32")), "4294967296 of u64"),
    "callback, float": (call_back(np.float64(1e300), F32), "finite numbers that are infinite as f32"),
    "callback, complex": (call_back(np.complex128(1e300j), C64), "finite numbers that are infinite as c64"),
    "callback, eager": (
        lambda: effx.pure_callback(lambda _: np.int64(-LARGE), I32, 1.0),
        "-1099511627776 of i64 does not fit into i32, which it becomes without enable_x64",
    ),
    "jit": (lambda: effx.jit(lambda x: x + 0)(np.int64(2**32 + 5)), "jit: 4294967301 of i64 does not fit"),
    "jit of an array": (lambda: effx.jit(lambda x: x + 0)(np.array([1, 2**32 + 5])), "jit: 4294967301 of i64"),
    "operand": (lambda: enp.ones(2, "int32") + np.array([0, LARGE]), "1099511627776 of i64 does not fit"),
    "function": (lambda: enp.sin(np.array([LARGE])), "1099511627776 of i64 does not fit"),
    "closed over": (lambda: effx.jit(lambda x: x + np.array([LARGE]))(1), "1099511627776 of i64 does not fit"),
    "asarray": (lambda: enp.asarray(np.array([LARGE])), "array: 1099511627776 of i64 does not fit"),
    "array": (lambda: enp.array(np.array([LARGE])), "array: 1099511627776 of i64 does not fit"),
    "device_put": (lambda: effx.device_put(np.array([LARGE])), "device_put: 1099511627776 of i64"),
    "arange": (lambda: enp.arange(2**31 - 2, 2**31 + 3), "arange: python int 2147483650 is out of bounds for i32"),
    "arange in jit": (lambda: effx.jit(lambda: enp.arange(2**31 - 2, 2**31 + 3))(), "arange: python int 2147483650"),
    "arange downwards": (lambda: enp.arange(0, -(2**31) - 3, -2), "arange: python int -2147483650"),
    "full": (lambda: enp.full(2, LARGE), "full: python int 1099511627776 is out of bounds for i32"),
    "full, 0-d": (lambda: enp.full((), LARGE), "full: python int 1099511627776"),
    "full in jit": (lambda: effx.jit(lambda: enp.full(2, LARGE))(), "full: python int 1099511627776"),
    "full of u8": (lambda: enp.full(2, 300, "uint8"), "full: python int 300 is out of bounds for u8"),
    "full_like": (lambda: enp.full_like(enp.ones(2, "int8"), -129), "full_like: python int -129 is out of bounds for i8"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refuses(name: str) -> None:
    compute, message = CASES[name]
    with pytest.raises(OverflowError, match=message):
        compute()


def test_what_fits_is_kept() -> None:
    ends = np.array([-(2**31), 2**31 - 1])
    for x in (ends, ends[:0], ends.astype("u8")[1:]):
        np.testing.assert_array_equal(enp.asarray(x), x)
        np.testing.assert_array_equal(effx.jit(lambda x: x)(x), x)
    assert enp.asarray(np.array([2**32 - 1], "u8")).tolist() == [2**32 - 1]
    assert enp.arange(2**31 - 3, 2**31).tolist() == [2**31 - 3, 2**31 - 2, 2**31 - 1]
    assert enp.arange(5, 2**32, 2**32).dtype == "int32"
    assert call_back(np.float64(1.5), F32)() == 1.5
    assert call_back(np.float64(np.inf), F32)() == np.inf
    assert np.isnan(call_back(np.float64(np.nan), F32)())
    with effx.enable_x64():
        assert enp.asarray(np.array([LARGE])).tolist() == [LARGE]
        assert call_back(np.int64(LARGE), effx.ShapeDtypeStruct((), "int64"))() == LARGE


def test_requested_dtypes_wrap_like_numpys() -> None:
    assert enp.asarray(np.array([300]), "uint8").tolist() == [44]
    assert lax.convert_element_type(np.array([300]), "uint8").tolist() == [44]


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_dtypes_of_less_than_a_byte(dtype: str) -> None:
    info = enp.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    everything = list(range(low, high + 1))
    numbers = np.asarray(enp.arange(low, high, dtype=dtype)).astype("i4")
    np.testing.assert_array_equal(numbers, everything[:-1])
    np.testing.assert_array_equal(np.asarray(enp.array(everything, dtype)).astype("i4"), everything)
    assert int(enp.full(2, high, dtype)[1]) == high
    segments = effx.ops.segment_max(enp.array(everything, dtype), np.zeros(len(everything), int), 2)
    assert [int(x) for x in segments] == [high, low]
    calls: list[Callable[[], object]] = [
        lambda: enp.arange(0, high + 2, dtype=dtype),
        lambda: enp.array(high + 1, dtype),
        lambda: enp.array([[0, low - 1]], dtype),
        lambda: enp.full((2,), high + 1, dtype),
    ]
    for too_large in calls:
        with pytest.raises(OverflowError, match=r"python int .* is out of bounds for"):
            too_large()


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for compute in (
        enp.asarray,
        enp.array,
        enp.sin,
        effx.device_put,
        lambda x: enp.ones(2) + x,
        effx.jit(enp.sin),
    ):
        with pytest.raises(DTypeError, match=r"a masked array of NumPy has no counterpart|got masked_array"):
            compute(masked)
