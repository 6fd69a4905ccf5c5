"""Dtype objects such as `float32`: callable like NumPy's scalar types, usable wherever a dtype is taken.

Never: subclass NumPy's scalar types; effx has arrays of rank 0 instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.dtypes import DType
from effx.numpy.creation import array

if TYPE_CHECKING:
    from effx.array import Operand


@final
class ScalarType:
    """A dtype that makes arrays of itself when called.

    Attributes:
        dtype: the NumPy dtype.

    >>> float32(3), float32 == np.dtype("float32")
    (Array(3., dtype=float32), True)
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    @property
    def __name__(self) -> str:
        return self.dtype.name

    def __call__(self, x: Operand = 0) -> Array:
        """Converts a number or an array to this dtype."""
        return array(x, dtype=self.dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScalarType):
            return bool(self.dtype == other.dtype)
        try:
            return bool(self.dtype == other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"effx.numpy.{'bool_' if self.dtype.kind == 'b' else self.dtype.name}"

    def __reduce__(self) -> tuple[type[ScalarType], tuple[DType]]:
        return ScalarType, (self.dtype,)


bool_ = ScalarType(dtypes.bool_)
int2, uint2 = ScalarType(dtypes.int2), ScalarType(dtypes.uint2)
int4, uint4 = ScalarType(dtypes.int4), ScalarType(dtypes.uint4)
int8, uint8 = ScalarType(dtypes.int8), ScalarType(dtypes.uint8)
int16, uint16 = ScalarType(dtypes.int16), ScalarType(dtypes.uint16)
int32, uint32 = ScalarType(dtypes.int32), ScalarType(dtypes.uint32)
int64, uint64 = ScalarType(dtypes.int64), ScalarType(dtypes.uint64)
float8_e3m4 = ScalarType(dtypes.float8_e3m4)
float8_e4m3 = ScalarType(dtypes.float8_e4m3)
float8_e4m3b11fnuz = ScalarType(dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = ScalarType(dtypes.float8_e4m3fn)
float8_e4m3fnuz = ScalarType(dtypes.float8_e4m3fnuz)
float8_e5m2 = ScalarType(dtypes.float8_e5m2)
float8_e5m2fnuz = ScalarType(dtypes.float8_e5m2fnuz)
float8_e8m0fnu = ScalarType(dtypes.float8_e8m0fnu)
bfloat16, float16 = ScalarType(dtypes.bfloat16), ScalarType(dtypes.float16)
float32, float64 = ScalarType(dtypes.float32), ScalarType(dtypes.float64)
complex64, complex128 = ScalarType(dtypes.complex64), ScalarType(dtypes.complex128)
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
