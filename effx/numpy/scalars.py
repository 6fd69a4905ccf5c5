"""Default dtypes, kinds of dtypes, constants, and questions about dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.dtypes import DType
from effx.errors import ArrayApiError, DTypeError
from effx.ir.values.array import complex64, complex128, float32, float64, int64, uint64

__all__ = [
    "cdouble",
    "complex_",
    "complexfloating",
    "csingle",
    "double",
    "dtype",
    "e",
    "euler_gamma",
    "finfo",
    "float_",
    "floating",
    "generic",
    "iinfo",
    "inexact",
    "inf",
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
    "unsignedinteger",
]  # fmt: skip

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
promote_types = dtypes.promote_types


def issubdtype(arg1: dtypes.DTypeLike, arg2: dtypes.DTypeLike) -> bool:
    """Whether a dtype is of a kind: `integer`, `floating`, `inexact` …, or another dtype.

    Unlike NumPy's, it counts the floats and integers of ml_dtypes in. Either side may be a kind.

    >>> from effx.numpy import bfloat16, int8
    >>> issubdtype(bfloat16, floating), issubdtype(floating, inexact), issubdtype(int8, "int16")
    (True, True, False)
    """
    return dtypes.issubdtype(arg1, arg2)


def result_type(*args: object) -> DType:
    """The dtype of an operation on these values, dtypes or scalar types.

    >>> result_type(np.float32(1), 2.0), result_type(3, 2.0), result_type("uint8", np.int8(1))
    (dtype('float32'), dtype('float32'), dtype('int16'))
    """
    return dtypes.result_type(*args)


def isdtype(
    dtype: dtypes.DTypeLike, kind: dtypes.DTypeLike | str | tuple[dtypes.DTypeLike | str, ...]
) -> bool:
    """Whether a dtype is of a kind, as the array API standard names kinds.

    Args:
        dtype: the dtype.
        kind: "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating", "numeric", another dtype, or a tuple of these.

    Raises:
        ArrayApiError: neither a kind nor a dtype.

    >>> from effx.numpy import bfloat16, int8
    >>> isdtype(bfloat16, "real floating"), isdtype(int8, ("bool", "integral"))
    (True, True)
    """
    given_dtype = dtypes.as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any([_is_of_kind(given_dtype, k) for k in kinds])


def _is_of_kind(given_dtype: DType, kind: dtypes.DTypeLike | str) -> bool:
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind](given_dtype)
    try:
        return dtypes.as_dtype(kind) == given_dtype
    except DTypeError:
        raise ArrayApiError(
            f"isdtype: kind must be one of {', '.join(KINDS)}, or a dtype, got {kind!r}"
        ) from None


KINDS: Final[dict[str, Callable[[DType], bool]]] = {
    "bool": dtypes.is_bool,
    "signed integer": lambda d: dtypes.is_integer(d) and not dtypes.is_unsigned(d),
    "unsigned integer": dtypes.is_unsigned,
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_floating,
    "complex floating": dtypes.is_complex,
    "numeric": lambda d: not dtypes.is_bool(d),
}
