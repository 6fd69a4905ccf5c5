"""The classes `float32`, `int8` …: dtypes at run time, and the first parameter of `Array` in annotations.

To type checkers each is also the class of its call's result: an array of rank 0.

Never: subclass NumPy's scalar types; effx has arrays of rank 0 instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from effx import dtypes
from effx.array.parameters import DT
from effx.array.values import Array, Operand
from effx.dtypes import (
    ComplexFloating,
    DType,
    Floating,
    Integer,
    Narrow,
    Real,
    Scalar,
)  # fmt: skip
from effx.errors import TransformError

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


def _unset(x: Operand, dtype: DType) -> Array:
    raise TransformError("scalars: nothing makes arrays yet; import effx.numpy first")


class ScalarType(type):
    """The metaclass of the dtype classes, which are callable like NumPy's scalar types and equal to the
    dtype.

    Attributes:
        dtype: the NumPy dtype.

    >>> import numpy as np
    >>> from effx.numpy import float32
    >>> float32(3), float32 == np.dtype("float32"), isinstance(float32(3), float32)
    (Array(3., dtype=float32), True, True)
    """

    dtype: DType
    # effx.numpy.creation.array, which is above this layer and registers itself here.
    make: Callable[[Operand, DType], Array] = staticmethod(_unset)

    @classmethod
    def of(cls, dtype: DType, *kinds: type[Scalar]) -> ScalarType:
        """Returns the class for a dtype."""
        name = "bool_" if dtype.kind == "b" else dtype.name
        return cls(name, kinds, {"dtype": dtype, "__module__": __name__, "__slots__": ()})

    if not TYPE_CHECKING:  # checkers read the classes below instead

        def __call__(cls, x=0):
            """Converts a number or an array to this dtype."""
            return ScalarType.make(x, cls.dtype)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Array) and not x.type.shape and x.type.dtype == cls.dtype

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, ScalarType):
            return cls is other
        try:
            return bool(cls.dtype == other)
        except TypeError:
            return False

    def __hash__(cls) -> int:
        return hash(cls.dtype)

    def __repr__(cls) -> str:
        return f"effx.numpy.{cls.__name__}"


if TYPE_CHECKING:

    class _Scalar(Array[DT, *tuple[()]], metaclass=ScalarType):
        dtype: DType  # for the metaclass too

        def __init__(self, x: Operand = 0) -> None: ...

    class bool_(_Scalar["bool_"], Real, Narrow): ...

    class int2(_Scalar["int2"], Integer, Narrow): ...

    class int4(_Scalar["int4"], Integer, Narrow): ...

    class int8(_Scalar["int8"], Integer, Narrow): ...

    class int16(_Scalar["int16"], Integer, Narrow): ...

    class int32(_Scalar["int32"], Integer, Narrow): ...

    class int64(_Scalar["int64"], Integer): ...

    class uint2(_Scalar["uint2"], Integer, Narrow): ...

    class uint4(_Scalar["uint4"], Integer, Narrow): ...

    class uint8(_Scalar["uint8"], Integer, Narrow): ...

    class uint16(_Scalar["uint16"], Integer, Narrow): ...

    class uint32(_Scalar["uint32"], Integer, Narrow): ...

    class uint64(_Scalar["uint64"], Integer): ...

    class float8_e3m4(_Scalar["float8_e3m4"], Floating, Narrow): ...

    class float8_e4m3(_Scalar["float8_e4m3"], Floating, Narrow): ...

    class float8_e4m3b11fnuz(_Scalar["float8_e4m3b11fnuz"], Floating, Narrow): ...

    class float8_e4m3fn(_Scalar["float8_e4m3fn"], Floating, Narrow): ...

    class float8_e4m3fnuz(_Scalar["float8_e4m3fnuz"], Floating, Narrow): ...

    class float8_e5m2(_Scalar["float8_e5m2"], Floating, Narrow): ...

    class float8_e5m2fnuz(_Scalar["float8_e5m2fnuz"], Floating, Narrow): ...

    class float8_e8m0fnu(_Scalar["float8_e8m0fnu"], Floating, Narrow): ...

    class bfloat16(_Scalar["bfloat16"], Floating, Narrow): ...

    class float16(_Scalar["float16"], Floating, Narrow): ...

    class float32(_Scalar["float32"], Floating, Narrow): ...

    class float64(_Scalar["float64"], Floating): ...

    class complex64(_Scalar["complex64"], ComplexFloating, Narrow): ...

    class complex128(_Scalar["complex128"], ComplexFloating): ...
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
