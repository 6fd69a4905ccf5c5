"""The classes `float32`, `int8` …: dtypes at run time, and the first parameter of `Array` in annotations.

To type checkers each is also the class of its call's result: an array of rank 0.

Never: subclass NumPy's scalar types; effx has arrays of rank 0 instead.
"""

from typing import TYPE_CHECKING

from effx import dtypes
from effx.dtypes import ComplexFloating, Floating, Integer, Narrow, Real
from effx.ir.values.array import ScalarType

__all__ = [
    "ScalarType",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
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
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

if TYPE_CHECKING:
    from effx.ir.values.array import (
        bfloat16,
        bool_,
        complex64,
        complex128,
        float8_e3m4,
        float8_e4m3,
        float8_e4m3b11fnuz,
        float8_e4m3fn,
        float8_e4m3fnuz,
        float8_e5m2,
        float8_e5m2fnuz,
        float8_e8m0fnu,
        float16,
        float32,
        float64,
        int2,
        int4,
        int8,
        int16,
        int32,
        int64,
        uint2,
        uint4,
        uint8,
        uint16,
        uint32,
        uint64,
    )
else:
    bool_ = ScalarType.of(dtypes.bool_, Real, Narrow)
    int2 = ScalarType.of(dtypes.int2, Integer, Narrow)
    int4 = ScalarType.of(dtypes.int4, Integer, Narrow)
    int8 = ScalarType.of(dtypes.int8, Integer, Narrow)
    int16 = ScalarType.of(dtypes.int16, Integer, Narrow)
    int32 = ScalarType.of(dtypes.int32, Integer, Narrow)
    int64 = ScalarType.of(dtypes.int64, Integer)
    uint2 = ScalarType.of(dtypes.uint2, Integer, Narrow)
    uint4 = ScalarType.of(dtypes.uint4, Integer, Narrow)
    uint8 = ScalarType.of(dtypes.uint8, Integer, Narrow)
    uint16 = ScalarType.of(dtypes.uint16, Integer, Narrow)
    uint32 = ScalarType.of(dtypes.uint32, Integer, Narrow)
    uint64 = ScalarType.of(dtypes.uint64, Integer)
    float8_e3m4 = ScalarType.of(dtypes.float8_e3m4, Floating, Narrow)
    float8_e4m3 = ScalarType.of(dtypes.float8_e4m3, Floating, Narrow)
    float8_e4m3b11fnuz = ScalarType.of(dtypes.float8_e4m3b11fnuz, Floating, Narrow)
    float8_e4m3fn = ScalarType.of(dtypes.float8_e4m3fn, Floating, Narrow)
    float8_e4m3fnuz = ScalarType.of(dtypes.float8_e4m3fnuz, Floating, Narrow)
    float8_e5m2 = ScalarType.of(dtypes.float8_e5m2, Floating, Narrow)
    float8_e5m2fnuz = ScalarType.of(dtypes.float8_e5m2fnuz, Floating, Narrow)
    float8_e8m0fnu = ScalarType.of(dtypes.float8_e8m0fnu, Floating, Narrow)
    bfloat16 = ScalarType.of(dtypes.bfloat16, Floating, Narrow)
    float16 = ScalarType.of(dtypes.float16, Floating, Narrow)
    float32 = ScalarType.of(dtypes.float32, Floating, Narrow)
    float64 = ScalarType.of(dtypes.float64, Floating)
    complex64 = ScalarType.of(dtypes.complex64, ComplexFloating, Narrow)
    complex128 = ScalarType.of(dtypes.complex128, ComplexFloating)
