"""Questions about dtypes themselves, which enable_x64 does not change; instances of dtypes; keys as NumPy arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import DTypeError

NAMES = (
    "bool",
    "int8",
    "int32",
    "int64",
    "uint8",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("second", ["int64", "float64", "complex128"])
def test_promote_types_keeps_64_bits(first: str, second: str) -> None:
    with effx.enable_x64():
        want = enp.promote_types(first, second)
    assert enp.promote_types(first, second) == enp.promote_types(second, first) == want
    # Where the kinds are the same NumPy agrees; elsewhere its floats are wider.
    if np.dtype(first).kind == np.dtype(second).kind:
        assert want == np.promote_types(first, second)


def test_promote_types_makes_no_64_bits() -> None:
    assert enp.promote_types("uint32", "int32") == "int32"
    with effx.enable_x64():
        assert enp.promote_types("uint32", "int32") == "int64"
    assert enp.promote_types(int, "uint8") == "uint8"
    assert enp.promote_types(int, int) == "int64"
    # Arrays are another matter: they have 32 bits.
    assert enp.result_type("int64", "int32") == "int32"


def test_instances() -> None:
    dtypes: tuple[Any, ...] = (enp.float32, enp.int8, enp.bool_, enp.complex64, enp.bfloat16)
    for dtype in dtypes:
        scalar = np.zeros((), dtype.dtype)[()]
        assert isinstance(scalar, dtype)
        assert not isinstance(dtype(0), dtype)
        assert not isinstance(np.float16(0), dtype)
    assert not isinstance(float("1"), enp.float32.dtype.type)


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("shape", [(), (2,), (0,)])
def test_keys_are_no_numbers(kind: str, shape: tuple[int, ...]) -> None:
    keys = effx.random.split(effx.random.key(0, impl=kind), shape) if shape else effx.random.key(0, impl=kind)
    conversions: dict[str, Callable[[Any], Any]] = {
        "numpy.asarray": np.asarray, "numpy.stack": lambda x: np.stack([x, x]), "x.tolist": lambda x: x.tolist(),
        "x.item": lambda x: x.item(), "x.tobytes": lambda x: x.tobytes(), "bytes": bytes,
    }  # fmt: skip
    for convert in conversions.values():
        with pytest.raises(
            DTypeError,
            match=r"an array of random keys has no NumPy form, got key<\w+>.*; effx.random.key_data",
        ):
            convert(keys)
    assert np.asarray(effx.random.key_data(keys)).dtype == np.uint32
    assert "key<" in repr(keys)
