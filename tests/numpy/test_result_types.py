"""Dtypes and weak types of results: what the promotion rules of the peer give, stored.

Never: computes an expected dtype.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import EffxError

DTYPES: dict[str, object] = {
    "b1": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "u32": np.uint32,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "c64": np.complex64,
}  # fmt: skip
KINDS = ["b1", "i8", "u8", "i32", "f16", "bf16", "f32", "c64"]
PAIRS = [
    ("b1", "b1"), ("b1", "i8"), ("i8", "u8"), ("u8", "i32"), ("i32", "f16"), ("i8", "bf16"), ("f16", "bf16"),
    ("f32", "c64"), ("i8", "int"), ("u8", "float"), ("bf16", "int"), ("f16", "float"), ("f32", "float"),
    ("b1", "int"), ("int", "float"),
]  # fmt: skip

# For each argument the result's dtype, with "~" where it is weak, or "-" for an error. As in JAX 0.10, but that
# booleans are never weak, that a function keeps or drops weakness alike for all operands (JAX drops it in log2,
# hypot and a few more), that `round` takes booleans, and that complex numbers have no largest one.
UNARY = {  # for arguments of b1 i8 u8 i32 f16 bf16 f32 c64 int float
    "abs": "b1 i8 u8 i32 f16 bf16 f32 f32 i32~ f32~",
    "fabs": "f32 f32 f32 f32 f16 bf16 f32 - f32~ f32~",
    "negative": "- i8 u8 i32 f16 bf16 f32 c64 i32~ f32~",
    "positive": "b1 i8 u8 i32 f16 bf16 f32 c64 i32~ f32~",
    "sign": "- i8 u8 i32 f16 bf16 f32 c64 i32~ f32~",
    "square": "i32 i8 u8 i32 f16 bf16 f32 c64 i32~ f32~",
    "reciprocal": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "sqrt": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "cbrt": "f32 f32 f32 f32 f16 bf16 f32 - f32~ f32~",
    "exp": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "exp2": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "expm1": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "log": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "log2": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "log10": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "log1p": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "sin": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "arcsin": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "arccosh": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "tanh": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "floor": "b1 i8 u8 i32 f16 bf16 f32 - i32~ f32~",
    "ceil": "b1 i8 u8 i32 f16 bf16 f32 - i32~ f32~",
    "trunc": "b1 i8 u8 i32 f16 bf16 f32 - i32~ f32~",
    "rint": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "round": "b1 i8 u8 i32 f16 bf16 f32 c64 i32~ f32~",
    "real": "b1 i8 u8 i32 f16 bf16 f32 f32 i32~ f32~",
    "imag": "b1 i8 u8 i32 f16 bf16 f32 f32 i32~ f32~",
    "conj": "b1 i8 u8 i32 f16 bf16 f32 c64 i32~ f32~",
    "angle": "f32 f32 f32 f32 f16 bf16 f32 f32 f32 f32~",
    "sinc": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "degrees": "f32 f32 f32 f32 f16 bf16 f32 c64 f32~ f32~",
    "nan_to_num": "b1 i8 u8 i32 f16 bf16 f32 c64 i32~ f32",
    "isnan": "b1 b1 b1 b1 b1 b1 b1 b1 b1 b1",
    "isfinite": "b1 b1 b1 b1 b1 b1 b1 b1 b1 b1",
    "signbit": "b1 b1 b1 b1 b1 b1 b1 - b1 b1",
    "isposinf": "b1 b1 b1 b1 b1 b1 b1 - b1 b1",
    "logical_not": "b1 b1 b1 b1 b1 b1 b1 b1 b1 b1",
    "invert": "b1 i8 u8 i32 - - - - i32~ -",
}
# Pairs as in PAIRS.
BINARY = {
    "add": "b1 i8 i16 i32 f16 bf16 f32 c64 i8 f32~ bf16 f16 f32 i32~ f32~",
    "subtract": "- i8 i16 i32 f16 bf16 f32 c64 i8 f32~ bf16 f16 f32 i32~ f32~",
    "multiply": "b1 i8 i16 i32 f16 bf16 f32 c64 i8 f32~ bf16 f16 f32 i32~ f32~",
    "divide": "f32 f32 f32 f32 f16 bf16 f32 c64 f32 f32~ bf16 f16 f32 f32~ f32~",
    "floor_divide": "i32 i8 i16 i32 f16 bf16 f32 - i8 f32~ bf16 f16 f32 i32~ f32~",
    "remainder": "i32 i8 i16 i32 f16 bf16 f32 - i8 f32~ bf16 f16 f32 i32~ f32~",
    "fmod": "i32 i8 i16 i32 f16 bf16 f32 - i8 f32~ bf16 f16 f32 i32~ f32~",
    "power": "i32 i8 i16 i32 f16 bf16 f32 c64 i8 f32~ bf16 f16 f32 i32~ f32~",
    "float_power": "f32 f32 f32 f32 f16 bf16 f32 c64 f32 f32~ bf16 f16 f32 f32~ f32~",
    "maximum": "b1 i8 i16 i32 f16 bf16 f32 c64 i8 f32~ bf16 f16 f32 i32~ f32~",
    "fmax": "b1 i8 i16 i32 f16 bf16 f32 c64 i8 f32~ bf16 f16 f32 i32~ f32~",
    "arctan2": "f32 f32 f32 f32 f16 bf16 f32 - f32 f32~ bf16 f16 f32 f32~ f32~",
    "hypot": "f32 f32 f32 f32 f16 bf16 f32 - f32 f32~ bf16 f16 f32 f32~ f32~",
    "logaddexp": "f32 f32 f32 f32 f16 bf16 f32 c64 f32 f32~ bf16 f16 f32 f32~ f32~",
    "heaviside": "f32 f32 f32 f32 f16 bf16 f32 - f32 f32~ bf16 f16 f32 f32~ f32~",
    "copysign": "f32 f32 f32 f32 f16 bf16 f32 - f32 f32~ bf16 f16 f32 f32~ f32~",
    "nextafter": "f32 f32 f32 f32 f16 bf16 f32 - f32 f32~ bf16 f16 f32 f32~ f32~",
    "bitwise_and": "b1 i8 i16 i32 - - - - i8 - - - - i32~ -",
    "logical_or": "b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1",
    "left_shift": "i32 i8 i16 i32 - - - - i8 - - - - i32~ -",
    "right_shift": "i32 i8 i16 i32 - - - - i8 - - - - i32~ -",
    "equal": "b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1",
    "less": "b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1",
    "isclose": "b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1 b1",
}
REDUCING = {
    "sum": "i32 i32 u32 i32 f16 bf16 f32 c64",
    "prod": "i32 i32 u32 i32 f16 bf16 f32 c64",
    "max": "b1 i8 u8 i32 f16 bf16 f32 c64",
    "mean": "f32 f32 f32 f32 f16 bf16 f32 c64",
    "var": "f32 f32 f32 f32 f16 bf16 f32 f32",
    "std": "f32 f32 f32 f32 f16 bf16 f32 f32",
    "any": "b1 b1 b1 b1 b1 b1 b1 b1",
    "argmax": "i32 i32 i32 i32 i32 i32 i32 i32",
    "cumsum": "i32 i8 u8 i32 f16 bf16 f32 c64",
    "cumprod": "i32 i8 u8 i32 f16 bf16 f32 c64",
    "nansum": "i32 i32 u32 i32 f16 bf16 f32 c64",
    "nanmean": "f32 f32 f32 f32 f16 bf16 f32 c64",
    "nanmax": "b1 i8 u8 i32 f16 bf16 f32 c64",
    "median": "f32 f32 f32 f32 f16 bf16 f32 -",
    "ptp": "- i8 u8 i32 f16 bf16 f32 c64",
    "count_nonzero": "i32 i32 i32 i32 i32 i32 i32 i32",
    "diff": "b1 i8 u8 i32 f16 bf16 f32 c64",
}


def value(kind: str) -> object:
    if kind == "int":
        return 1
    if kind == "float":
        return 0.5
    return np.ones((2,), DTYPES[kind])  # type: ignore[call-overload]  # a scalar type


def code(name: str, *kinds: str) -> str:
    try:
        result = getattr(enp, name)(*[value(k) for k in kinds])
    except EffxError:
        return "-"
    names = [short for short, dtype in DTYPES.items() if result.dtype == dtype]
    return names[0] + ("~" if result.weak_type else "")


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    """A function of one number keeps, widens or refuses each dtype as its row says."""
    assert " ".join([code(name, kind) for kind in [*KINDS, "int", "float"]]) == UNARY[name]


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    """A function of two numbers promotes each pair of dtypes as its row says."""
    assert " ".join([code(name, *pair) for pair in PAIRS]) == BINARY[name]


@pytest.mark.parametrize("name", REDUCING)
def test_reducing(name: str) -> None:
    """A reduction widens integers and never gives a weak type."""
    assert " ".join([code(name, kind) for kind in KINDS]) == REDUCING[name]


@pytest.mark.parametrize("method", ["scan", "scan_unrolled", "sort", "compare_all"])
def test_places_are_small(method: str) -> None:
    """Places in a sorted vector are int32 where they fit, with 64-bit types too."""
    with effx.enable_x64(True):
        edges = enp.arange(4.0)
        for a in (edges, edges[:0], edges[::-1]):
            assert enp.searchsorted(a, 2.0, method=method).dtype == np.int32
            assert enp.digitize(edges, a, method=method).dtype == np.int32
