"""Sharing arrays with other libraries through DLPack, without copying."""

from effx import dtypes
from effx.dtypes import DTypeLike
from effx.lower.placement.concrete import from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Returns whether arrays of a dtype can be shared: numbers and booleans of 8 bits or more.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("int4")
    (True, False)
    """
    canonical = dtypes.as_dtype(dtype)
    return not dtypes.is_key(canonical) and canonical.name in _SUPPORTED_NAMES


_SUPPORTED_NAMES = frozenset(
    ["bool", "bfloat16"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    + ["float16", "float32", "float64", "complex64", "complex128"]
    + ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"]
    + ["float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
)


def __dir__() -> list[str]:
    return sorted(__all__)
