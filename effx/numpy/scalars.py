"""Dtypes such as `float32`, which `effx.ir.values.scalars` defines, constants, and questions about dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from effx import dtypes
from effx.array import Array

# Each of these names would get lines of its own.
# fmt: off
# isort: off
from effx.ir.values.scalars import (
    bool_ as bool_, int2 as int2, int4 as int4, int8 as int8, int16 as int16, int32 as int32,
    int64 as int64, uint2 as uint2, uint4 as uint4, uint8 as uint8, uint16 as uint16, uint32 as uint32,
    uint64 as uint64, float8_e3m4 as float8_e3m4, float8_e4m3 as float8_e4m3,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz, float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz, float8_e5m2 as float8_e5m2, float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu, bfloat16 as bfloat16, float16 as float16, float32 as float32,
    float64 as float64, complex64 as complex64, complex128 as complex128,
    ScalarType as ScalarType,
)
# isort: on
# fmt: on
from effx.dtypes import DType
from effx.numpy.creation import array

__all__ = [
    "bfloat16",
    "bool_",
    "cdouble",
    "complex64",
    "complex128",
    "complex_",
    "complexfloating",
    "csingle",
    "double",
    "dtype",
    "e",
    "euler_gamma",
    "finfo",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "float_",
    "floating",
    "generic",
    "iinfo",
    "inexact",
    "inf",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "integer",
    "isdtype",
    "issubdtype",
    "nan",
    "ndarray",
    "newaxis",
    "number",
    "pi",
    "promote_types",
    "result_type",
    "signedinteger",
    "single",
    "uint",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
]  # fmt: skip

# Dtypes make arrays when called, by a function of this layer, which is above theirs.
ScalarType.make = staticmethod(array)

# The default dtypes: 64 bits, which become 32 unless enable_x64 is on.
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

dtype = np.dtype
# Kinds of dtypes, for issubdtype.
generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating

pi, e, euler_gamma = math.pi, math.e, 0.5772156649015329
inf, nan = math.inf, math.nan
newaxis = None
ndarray = Array

finfo, iinfo = dtypes.finfo, dtypes.iinfo
issubdtype, promote_types, result_type = dtypes.issubdtype, dtypes.promote_types, dtypes.result_type


def isdtype(
    dtype: dtypes.DTypeLike, kind: dtypes.DTypeLike | str | tuple[dtypes.DTypeLike | str, ...]
) -> bool:
    """Whether a dtype is of a kind, as the array API standard names kinds.

    Args:
        dtype: the dtype.
        kind: "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating", "numeric", another dtype, or a tuple of these.

    >>> isdtype(bfloat16, "real floating"), isdtype(int8, ("bool", "integral"))
    (True, True)
    """
    found = dtypes.as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(
        [
            _KINDS[k](found) if isinstance(k, str) and k in _KINDS else dtypes.as_dtype(k) == found
            for k in kinds
        ]
    )


_KINDS: Final[dict[str, Callable[[DType], bool]]] = {
    "bool": dtypes.is_bool,
    "signed integer": lambda d: dtypes.is_integer(d) and not dtypes.is_unsigned(d),
    "unsigned integer": dtypes.is_unsigned,
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_floating,
    "complex floating": dtypes.is_complex,
    "numeric": lambda d: not dtypes.is_bool(d),
}
