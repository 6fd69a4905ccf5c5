"""Dtypes: canonical forms, names, queries, and the promotion lattice with weak types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, overload

import ml_dtypes
import numpy as np

from effx.errors import DTypeError, OptionError, name_user_call, user_passed_operands, warn_user
from effx.errors import TypePromotionError as TypePromotionError
from effx.flags import enable_x64, explicit_x64_dtypes, numpy_dtype_promotion

DType: TypeAlias = np.dtype[Any]
"""A NumPy dtype, those of ml_dtypes included."""


class SupportsDType(Protocol):
    """Anything with a dtype: arrays, array types, effx's scalar types."""

    @property
    def dtype(self) -> DType: ...


class Scalar:
    """The base of `effx.numpy`'s dtype classes (`float32` …), for annotations."""


class Narrow(Scalar):
    """A dtype that does not depend on the `enable_x64` flag: no component has 64 bits."""


class Real(Scalar):
    """A dtype of real numbers, bool included."""


class Integer(Real):
    """A signed or unsigned integer."""


class Inexact(Scalar):
    """A floating or complex dtype."""


class Floating(Real, Inexact):
    """A real floating dtype, those of ml_dtypes included."""


class ComplexFloating(Inexact):
    """A complex dtype."""


DTypeLike: TypeAlias = DType | type[object] | str | SupportsDType


def _scalar_class_dtype(scalar: type[object]) -> DType:
    return np.dtype(cast("type[np.generic]", scalar))


bool_: Final[DType] = np.dtype(np.bool_)
int2: Final[DType] = _scalar_class_dtype(ml_dtypes.int2)
int4: Final[DType] = _scalar_class_dtype(ml_dtypes.int4)
int8: Final[DType] = np.dtype(np.int8)
int16: Final[DType] = np.dtype(np.int16)
int32: Final[DType] = np.dtype(np.int32)
int64: Final[DType] = np.dtype(np.int64)
uint2: Final[DType] = _scalar_class_dtype(ml_dtypes.uint2)
uint4: Final[DType] = _scalar_class_dtype(ml_dtypes.uint4)
uint8: Final[DType] = np.dtype(np.uint8)
uint16: Final[DType] = np.dtype(np.uint16)
uint32: Final[DType] = np.dtype(np.uint32)
uint64: Final[DType] = np.dtype(np.uint64)
float4_e2m1fn: Final[DType] = _scalar_class_dtype(ml_dtypes.float4_e2m1fn)
float8_e3m4: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e3m4)
float8_e4m3: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e4m3fnuz)
float8_e5m2: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e5m2)
float8_e5m2fnuz: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu: Final[DType] = _scalar_class_dtype(ml_dtypes.float8_e8m0fnu)
bfloat16: Final[DType] = _scalar_class_dtype(ml_dtypes.bfloat16)
float16: Final[DType] = np.dtype(np.float16)
float32: Final[DType] = np.dtype(np.float32)
float64: Final[DType] = np.dtype(np.float64)
complex64: Final[DType] = np.dtype(np.complex64)
complex128: Final[DType] = np.dtype(np.complex128)
float6_e2m3fn: Final[DType] = _scalar_class_dtype(ml_dtypes.float6_e2m3fn)
float6_e3m2fn: Final[DType] = _scalar_class_dtype(ml_dtypes.float6_e3m2fn)
has_int1: Final = hasattr(ml_dtypes, "int1")
"""Whether there are int1 and uint1: ml_dtypes has them from 0.6 on."""
_NAMED_INTEGERS: Final[tuple[DType, ...]] = (
    (_scalar_class_dtype(ml_dtypes.int1), _scalar_class_dtype(ml_dtypes.uint1)) if has_int1 else ()
)
if has_int1:
    int1, uint1 = _NAMED_INTEGERS
float0: Final[DType] = np.dtype([("float0", np.void, 0)])
"""The dtype of the tangents of integers and booleans, of no bytes."""


class extended(np.generic):
    """The kind of dtypes that NumPy lacks: those of random keys.

    >>> import effx
    >>> key = effx.random.key(0)
    >>> effx.dtypes.issubdtype(key.dtype, effx.dtypes.extended)
    True
    >>> effx.dtypes.issubdtype(effx.dtypes.float32, effx.dtypes.extended)
    False
    """


class prng_key(extended, np.void):  # type: ignore[misc]  # the stubs seal a base that np.record has too
    """The kind of the dtypes of random keys, `issubdtype(key.dtype, prng_key)`, and what `key.dtype.type` is.

    >>> import effx
    >>> effx.dtypes.issubdtype(effx.random.key(0).dtype, effx.dtypes.prng_key)
    True
    """


def _key_dtype(name: str, words: int) -> DType:
    return np.dtype((prng_key, [(f"key<{name}>", np.uint32, (words,))]))


KEYS: Final[dict[str, DType]] = {
    "threefry2x32": _key_dtype("fry", 2),
    "rbg": _key_dtype("rbg", 4),
    "unsafe_rbg": _key_dtype("urbg", 4),
}
"""The dtypes of random keys by the name of their generator: an element is a key, stored as its words."""

SIGNED: Final = (int2, int4, int8, int16, int32, int64)
UNSIGNED: Final = (uint2, uint4, uint8, uint16, uint32, uint64)
FLOAT8: Final = (
    float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn,
    float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu,
)  # fmt: skip
TINY_FLOATS: Final = (float4_e2m1fn, *FLOAT8)
FLOATING: Final = (*TINY_FLOATS, bfloat16, float16, float32, float64)
COMPLEX: Final = (complex64, complex128)
ALL: Final = (bool_, *SIGNED, *UNSIGNED, *FLOATING, *COMPLEX)
"""Every dtype that a value may have, except float0."""

NAMED: Final = (float6_e2m3fn, float6_e3m2fn, *_NAMED_INTEGERS)
"""Dtypes that have a name, limits and promotions, and no arrays: XLA does not compute with them on all devices."""

_SUB_BYTE: Final = frozenset((int2, int4, uint2, uint4, float4_e2m1fn))

OWN: Final[dict[DType, DType]] = {d: d for d in (*ALL, *NAMED, *KEYS.values())}
"""The unique object for each dtype, by any equal one."""

_BITS: Final[dict[DType, int]] = {
    **{d: d.itemsize * 8 for d in ALL},
    **{d: d.itemsize * 8 for d in KEYS.values()},
    bool_: 1, int2: 2, uint2: 2, int4: 4, uint4: 4, float4_e2m1fn: 4, float0: 0,
    float6_e2m3fn: 6, float6_e3m2fn: 6, **dict.fromkeys(_NAMED_INTEGERS, 1),
}  # fmt: skip


def _make_short_name(dtype: DType) -> str:
    if dtype in TINY_FLOATS or dtype in NAMED[:2]:
        return dtype.name.replace("float", "f")
    special = {"bool": "bool", "bfloat16": "bf16"}.get(dtype.name)
    return special or f"{dtype.name[0]}{_BITS[dtype]}"


def _make_mlir_name(dtype: DType) -> str:
    if dtype in SIGNED:
        return f"i{_BITS[dtype]}"
    if dtype in UNSIGNED:
        return f"ui{_BITS[dtype]}"
    if dtype in TINY_FLOATS:
        width, _, layout = _make_short_name(dtype).partition("_")
        return width + layout.upper()
    if dtype in COMPLEX:
        return f"complex<f{_BITS[dtype] // 2}>"
    return "i1" if dtype == bool_ else _make_short_name(dtype)


_KEY_NAMES: Final[dict[DType, str]] = {d: str((d.names or ())[0]) for d in KEYS.values()}
_SHORT: Final[dict[DType, str]] = {
    **{d: _make_short_name(d) for d in (*ALL, *NAMED)},
    **_KEY_NAMES,
    float0: "float0",
}
_FROM_SHORT: Final[dict[str, DType]] = {name: d for d, name in _SHORT.items()}
# XLA has no float0: it sees the smallest type there is.
# A key is an element as wide as its words together, so that operations that move elements move keys too.
# Only `bitcast` and XLA's generators distinguish keys, and jaxlib's C++ sees only their storage.
_STORAGE: Final[dict[DType, DType]] = {
    **{d: uint64 if d.itemsize == 8 else complex128 for d in KEYS.values()},
    float0: bool_,
}
_MLIR: Final[dict[DType, str]] = {
    **{d: _make_mlir_name(d) for d in ALL},
    **{d: _make_mlir_name(storage) for d, storage in _STORAGE.items()},
}
_NARROW: Final[dict[DType, DType]] = {
    int64: int32, uint64: uint32, float64: float32, complex128: complex64,
}  # fmt: skip
_EXPECTED: Final = "expected a bool, integer, float or complex dtype of at most 64 bits a component"


# Keyed by the flag, then by what the user wrote. Python's equality between dtype-likes
# (np.dtype("f4") == "float32" == np.float32) never equates two that mean different dtypes.
_CANONICAL: Final[dict[bool, dict[object, DType]]] = {False: {}, True: {}}


_NARROWED_DTYPES: Final = frozenset(_NARROW.values())


def canonicalize(dtype: DTypeLike) -> DType:
    """The dtype that effx uses for what a user wrote: native, and 32-bit unless `enable_x64` is on.

    Args:
        dtype: a NumPy or ml_dtypes dtype, a scalar type, a Python type (`bool`, `int`, `float`,
            `complex`), a name, or anything with a `dtype`.

    Raises:
        DTypeError: it is no dtype, or one that effx does not support.

    >>> canonicalize(float), canonicalize("int64"), canonicalize("bfloat16")
    (dtype('float32'), dtype('int32'), dtype(bfloat16))
    """
    x64 = enable_x64.value
    try:
        canonical = _CANONICAL[x64].get(dtype)
    except TypeError:  # unhashable, such as an array
        canonical = None
    if canonical is None:
        native = as_dtype(dtype)
        canonical = native if x64 else _NARROW.get(native, native)
        if isinstance(dtype, (np.dtype, type, str)):
            _CANONICAL[x64][dtype] = canonical
    return canonical


def canonicalize_dtype(dtype: DTypeLike | None, allow_extended_dtype: bool = False) -> DType:
    """The dtype that effx uses for what a user wrote: native, and 32-bit unless `enable_x64` is on.

    Args:
        dtype: as of `canonicalize`; None for that of a Python float, as NumPy has it.
        allow_extended_dtype: whether it may be a dtype of random keys.

    Raises:
        DTypeError: it is no dtype, or one that effx does not support.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    canonical = canonicalize(float if dtype is None else dtype)
    if is_key(canonical) and not allow_extended_dtype:
        raise DTypeError(
            f"canonicalize_dtype: got {short_name(canonical)}, a dtype of random keys, without allow_extended_dtype"
        )
    return canonical


def canonicalize_requested(dtype: DTypeLike) -> DType:
    """The dtype that effx uses for a requested dtype; what a request for 64 bits does says `explicit_x64_dtypes`.

    Python's types request no width. Unless 64 bits are allowed, the dtype is narrower, which is a warning at the user's
    line or an error.

    Raises:
        OptionError: 64 bits are requested, `enable_x64` is off and `explicit_x64_dtypes` is "error".

    >>> canonicalize_requested(int), canonicalize_requested("float16")
    (dtype('int32'), dtype('float16'))
    """
    canonical = canonicalize(dtype)
    if canonical in _NARROWED_DTYPES and dtype is not int and dtype is not float and dtype is not complex:
        wide = as_dtype(dtype)
        if wide != canonical:
            mode = explicit_x64_dtypes.value
            if mode == "allow":
                return wide
            how = "effx.config.update('enable_x64', True) or EFFX_ENABLE_X64=1 enables 64 bits"
            if mode == "error":
                raise OptionError(
                    f"dtype {wide.name} is not enabled, and explicit_x64_dtypes is 'error'; {how}"
                )
            warn_user(f"dtype {wide.name} is not enabled and becomes {canonical.name}; {how}")
    return canonical


def keeps_64_bits(dtype: DType) -> bool:
    """Whether a value's dtype has 64 bits a component, and results that follow from it have them too.

    Without `enable_x64` arrays have 64 bits only if they were requested under `explicit_x64_dtypes("allow")`, and keep
    them as long as it holds.

    >>> with explicit_x64_dtypes("allow"):
    ...     keeps_64_bits(float64), keeps_64_bits(float32)
    (True, False)
    >>> keeps_64_bits(float64)
    False
    """
    return dtype in _NARROW and (enable_x64.value or explicit_x64_dtypes.value == "allow")


def narrow_described(dtype: DTypeLike) -> DType:
    """Returns the dtype of the arrays that something with this dtype describes: 64 bits only where these are kept.

    >>> narrow_described("float64"), narrow_described("int8")
    (dtype('float32'), dtype('int8'))
    """
    native = as_dtype(dtype)
    return native if keeps_64_bits(native) else canonicalize(native)


def as_dtype(dtype: DTypeLike) -> DType:
    """Like `canonicalize`, but 64-bit dtypes are unchanged, regardless of the `enable_x64` flag.

    >>> as_dtype(float), as_dtype(">i8")
    (dtype('float64'), dtype('int64'))
    """
    numpy_dtype = _numpy_dtype(dtype)
    if numpy_dtype in _SHORT:
        return _FROM_SHORT[_SHORT[numpy_dtype]]  # the one object we use for it: promotion compares by `is`
    native = numpy_dtype.newbyteorder("=")
    if native in _SHORT:
        return _FROM_SHORT[_SHORT[native]]
    raise DTypeError(f"{name_user_call()}: got {numpy_dtype}, {_EXPECTED}")


def _numpy_dtype(dtype: DTypeLike) -> DType:
    if isinstance(dtype, np.dtype):
        return dtype
    inner: object = getattr(dtype, "dtype", None)
    if isinstance(inner, np.dtype):
        return inner
    # NumPy reads None as float64 and any class as object; both hide mistakes.
    if isinstance(dtype, (str, type)):
        try:
            return np.dtype(cast("str", dtype))
        except TypeError:
            pass
    raise DTypeError(f"{name_user_call()}: got {dtype!r}, {_EXPECTED}")


def short_name(dtype: DType) -> str:
    """The name in printed types: `f32`, `bf16`, `i8`, `u64`, `bool`, `c64`, `float0`.

    >>> short_name(np.dtype("uint8")), short_name(bfloat16)
    ('u8', 'bf16')
    """
    try:
        return _SHORT[dtype]
    except KeyError:
        return _SHORT[as_dtype(dtype)]


def from_short_name(name: str) -> DType:
    """The dtype of a short name.

    >>> from_short_name("c64")
    dtype('complex64')
    """
    try:
        return _FROM_SHORT[name]
    except KeyError:
        names = ", ".join(_FROM_SHORT)
        raise DTypeError(f"from_short_name: got {name!r}, expected one of {names}") from None


def mlir_name(dtype: DType) -> str:
    """The element type in StableHLO text; float0 is written as `i1`.

    >>> mlir_name(bool_), mlir_name(uint32), mlir_name(complex64), mlir_name(float8_e4m3fn)
    ('i1', 'ui32', 'complex<f32>', 'f8E4M3FN')
    """
    try:
        return _MLIR[dtype]
    except KeyError:
        return _MLIR[as_dtype(dtype)]


def bits(dtype: DType) -> int:
    """How many bits a value takes; 1 for bool.

    >>> bits(int4), bits(complex64)
    (4, 64)
    """
    try:
        return _BITS[dtype]
    except KeyError:
        return _BITS[as_dtype(dtype)]


_IS_SIGNED_INTEGER: Final = frozenset((*SIGNED, *_NAMED_INTEGERS[:1]))
_IS_UNSIGNED: Final = frozenset((*UNSIGNED, *_NAMED_INTEGERS[1:]))
_IS_INTEGER: Final = _IS_SIGNED_INTEGER | _IS_UNSIGNED
_IS_FLOATING: Final = frozenset((*FLOATING, float6_e2m3fn, float6_e3m2fn))
_IS_COMPLEX: Final = frozenset(COMPLEX)
_WITHOUT_INFINITY: Final = frozenset(d for d in _IS_FLOATING if np.asarray(np.inf, d) != np.inf)
_IS_INEXACT: Final = _IS_FLOATING | _IS_COMPLEX
_IS_SIGNED: Final = _IS_SIGNED_INTEGER | _IS_INEXACT


def itemsize_bits(dtype: DTypeLike) -> int:
    """How many bits an element takes in memory; 8 for bool.

    Raises:
        DTypeError: it is no dtype of numbers.

    >>> itemsize_bits("int4"), itemsize_bits(bool), itemsize_bits("complex64")
    (4, 8, 64)
    """
    canonical = as_dtype(dtype)
    if canonical not in _ALL:
        raise DTypeError(f"itemsize_bits: got {short_name(canonical)}, expected a dtype of numbers")
    return 8 if canonical == bool_ else _BITS[canonical]


def is_bool(dtype: DType) -> bool:
    """Whether the dtype is bool.

    >>> is_bool(bool_)
    True
    """
    return dtype == bool_


def is_integer(dtype: DType) -> bool:
    """Whether the dtype is a signed or unsigned integer; bool is not.

    >>> is_integer(uint8), is_integer(bool_)
    (True, False)
    """
    return dtype in _IS_INTEGER


def is_unsigned(dtype: DType) -> bool:
    """Whether the dtype is an unsigned integer.

    >>> is_unsigned(uint8), is_unsigned(bool_)
    (True, False)
    """
    return dtype in _IS_UNSIGNED


def is_signed(dtype: DType) -> bool:
    """Whether the dtype has negative values: signed integers, floats, complex numbers.

    >>> is_signed(float32), is_signed(uint8)
    (True, False)
    """
    return dtype in _IS_SIGNED


def is_floating(dtype: DType) -> bool:
    """Whether the dtype is a real floating-point type, those of ml_dtypes included.

    >>> is_floating(bfloat16), is_floating(complex64)
    (True, False)
    """
    return dtype in _IS_FLOATING


def has_infinity(dtype: DType) -> bool:
    """Whether a floating or complex dtype has infinities: float4 and most float8 types have none.

    >>> has_infinity(float8_e5m2), has_infinity(float8_e4m3fn)
    (True, False)
    """
    return dtype not in _WITHOUT_INFINITY


def has_nan(dtype: DType) -> bool:
    """Whether a floating or complex dtype has NaN: all but those of 4 and 6 bits.

    >>> has_nan(float8_e4m3fn), has_nan(float4_e2m1fn)
    (True, False)
    """
    return dtype not in (float4_e2m1fn, float6_e2m3fn, float6_e3m2fn)


def is_complex(dtype: DType) -> bool:
    """Whether the dtype is complex.

    >>> is_complex(complex64)
    True
    """
    return dtype in _IS_COMPLEX


def is_inexact(dtype: DType) -> bool:
    """Whether the dtype is floating-point or complex, so that derivatives exist.

    >>> is_inexact(bfloat16), is_inexact(int32)
    (True, False)
    """
    return dtype in _IS_INEXACT


def is_key(dtype: DType) -> bool:
    """Whether the dtype is one of random keys.

    >>> is_key(KEYS["rbg"]), is_key(uint32)
    (True, False)
    """
    return dtype in _KEY_NAMES


def is_stored_as_other(dtype: DType) -> bool:
    """Whether devices store the dtype's elements as those of another: random keys and float0.

    >>> is_stored_as_other(KEYS["rbg"]), is_stored_as_other(float0), is_stored_as_other(uint32)
    (True, True, False)
    """
    return dtype in _STORAGE


def storage(dtype: DType) -> DType:
    """The dtype in which devices store random keys, numbers as wide as a key, and float0, False.

    >>> storage(KEYS["threefry2x32"]), storage(float0)
    (dtype('uint64'), dtype('bool'))
    """
    return _STORAGE[dtype]


def real_dtype(dtype: DType) -> DType:
    """The dtype of a number's real part: complex64 gives float32, real dtypes give themselves.

    >>> real_dtype(complex64), real_dtype(int8)
    (dtype('float32'), dtype('int8'))
    """
    if dtype == complex64:
        return float32
    return float64 if dtype == complex128 else dtype


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype that holds a dtype's values: float64 gives complex128, smaller ones complex64.

    >>> complex_dtype(bfloat16), complex_dtype(complex64)
    (dtype('complex64'), dtype('complex64'))
    """
    if dtype in _IS_COMPLEX:
        return dtype
    return complex128 if dtype == float64 else complex64


_SIGNED_OF_WIDTH: Final = {4: int4, 8: int8, 16: int16, 32: int32, 64: int64}


def is_sub_byte(dtype: DType) -> bool:
    """Whether several numbers of the dtype fit into a byte.

    >>> is_sub_byte(int4), is_sub_byte(bool_)
    (True, False)
    """
    return dtype in _SUB_BYTE


def bits_dtype(dtype: DType) -> DType:
    """Returns the signed integer dtype with as many bits as a dtype of 4, 8, 16, 32 or 64.

    >>> bits_dtype(bfloat16)
    dtype('int16')
    """
    return _SIGNED_OF_WIDTH[bits(dtype)]


def tangent_dtype(dtype: DType) -> DType:
    """The dtype of tangents: a float or complex dtype itself, float0 for the others.

    >>> tangent_dtype(float32), tangent_dtype(int32) is float0
    (dtype('float32'), True)
    """
    return dtype if dtype in _IS_INEXACT else float0


class finfo(np.finfo[np.floating]):
    """Machine limits of a float dtype, or of a complex dtype's parts; NumPy's object, and ml_dtypes's for its dtypes.

    Args:
        dtype: float or complex.

    Raises:
        DTypeError: it is neither.

    >>> float(finfo(bfloat16).eps), float(finfo(float32).tiny) == 2.0**-126
    (0.0078125, True)
    """

    def __new__(cls, dtype: DTypeLike) -> np.finfo[np.floating]:  # type: ignore[misc]  # what is made is no finfo of ours
        """Returns the limits."""
        real = real_dtype(as_dtype(dtype))
        if real not in _IS_FLOATING:
            raise DTypeError(f"finfo: got {real}, expected a float or complex dtype")
        return ml_dtypes.finfo(real)  # type: ignore[no-untyped-call]  # ml_dtypes leaves __new__ untyped


def iinfo(int_type: DTypeLike) -> ml_dtypes.iinfo:
    """Machine limits of an integer dtype.

    >>> iinfo(int4).max
    7
    """
    canonical = as_dtype(int_type)
    if canonical not in _IS_INTEGER:
        raise DTypeError(f"iinfo: got {canonical}, expected an integer dtype")
    return ml_dtypes.iinfo(canonical)  # type: ignore[no-untyped-call]  # ml_dtypes leaves __init__ untyped


_ABSTRACT: Final[tuple[tuple[type[object], frozenset[DType]], ...]] = (
    (np.generic, frozenset((*ALL, *NAMED, *KEYS.values()))),
    (np.number, _IS_INTEGER | _IS_INEXACT),
    (np.integer, _IS_INTEGER),
    (np.signedinteger, _IS_SIGNED_INTEGER),
    (np.unsignedinteger, _IS_UNSIGNED),
    (np.inexact, _IS_INEXACT),
    (np.floating, _IS_FLOATING),
    (np.complexfloating, _IS_COMPLEX),
    (extended, frozenset(KEYS.values())),
    (prng_key, frozenset(KEYS.values())),
)
_MEMBERS: Final[dict[type[object], frozenset[DType]]] = dict(_ABSTRACT)


def issubdtype(a: DTypeLike, b: DTypeLike) -> bool:
    """Whether a dtype is of a kind: `np.integer`, `np.floating`, `np.inexact` …, or another dtype.

    Unlike NumPy's, it includes the floats and integers of ml_dtypes. Either side may be a kind.

    >>> issubdtype(bfloat16, np.floating), issubdtype(np.floating, np.inexact), issubdtype(int8, int16)
    (True, True, False)
    """
    members = _MEMBERS.get(b) if isinstance(b, type) else None
    if isinstance(a, type) and a in _MEMBERS:
        return members is not None and _MEMBERS[a] <= members
    canonical = as_dtype(a)
    return canonical == as_dtype(b) if members is None else canonical in members


# Promotion. The lattice of JAX's documentation: a value may be used at any type above its own, and the
# promotion of two types is their least upper bound. `i* f* c*` are the weak types of Python scalars.
# Small floats sit above f* and below nothing, so that only an explicit cast mixes them with others.
_ABOVE: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("i*",),
    "i*": ("u8", "i8", "i2", "i4", "u2", "u4", *(_SHORT[d] for d in _NAMED_INTEGERS)),
    "u8": ("u16", "i16"), "u16": ("u32", "i32"), "u32": ("u64", "i64"), "u64": ("f*",),
    "i8": ("i16",), "i16": ("i32",), "i32": ("i64",), "i64": ("f*",),
    "f*": ("bf16", "f16", "c*", *(_SHORT[d] for d in (*TINY_FLOATS, float6_e2m3fn, float6_e3m2fn))),
    "bf16": ("f32",), "f16": ("f32",), "f32": ("f64", "c64"), "f64": ("c128",),
    "c*": ("c64",), "c64": ("c128",),
}  # fmt: skip
# With numpy_dtype_promotion="strict" only Python scalars promote, and only upwards in kind.
_STRICT_ABOVE: Final[dict[str, tuple[str, ...]]] = {
    "i*": ("f*", *(_SHORT[d] for d in _IS_INTEGER)),
    "f*": ("c*", *(_SHORT[d] for d in _IS_FLOATING)),
    "c*": ("c64", "c128"),
}


def _upper_sets(above: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    def upper(node: str) -> frozenset[str]:
        return frozenset({node}).union(*(upper(n) for n in above.get(node, ())))

    return {node: upper(node) for node in ("i*", "f*", "c*", *_FROM_SHORT)}


_UPPER: Final = _upper_sets(_ABOVE)
_STRICT_UPPER: Final = _upper_sets(_STRICT_ABOVE)


def _least_upper_bound(upper: dict[str, frozenset[str]], nodes: Iterable[str]) -> str | None:
    """The least node above all of them, if there is one."""
    shared = frozenset.intersection(*(upper[node] for node in nodes))
    # The least element is the one that all the others are above.
    return next((node for node in shared if upper[node] >= shared), None)


_Key: TypeAlias = tuple[DType, bool, DType, bool]
_PROMOTED: Final[dict[bool, dict[_Key, tuple[DType, bool]]]] = {False: {}, True: {}}
_STRICT: Final[dict[bool, dict[_Key, tuple[DType, bool]]]] = {False: {}, True: {}}


def promote(a: DType, a_weak: bool, b: DType, b_weak: bool) -> tuple[DType, bool]:
    """The dtype and weakness of an operation on two dtypes.

    Raises:
        DTypeError: the two have no implicit promotion (small integers and floats, and with
            `numpy_dtype_promotion="strict"` any two different dtypes without weak types).

    >>> promote(int32, False, float32, True)
    (dtype('float32'), True)
    >>> promote(bfloat16, False, float16, False)
    (dtype('float32'), False)
    """
    key = (a, a_weak, b, b_weak)
    x64 = enable_x64.value
    # A strong dtype promotes to itself in either mode, so the second flag is read for the others only.
    strict = (a is not b or (a_weak and b_weak)) and numpy_dtype_promotion.value == "strict"
    table = (_STRICT if strict else _PROMOTED)[x64]
    promoted = table.get(key)
    if promoted is None:
        promoted, is_excused = _promote_or_excuse(((a, a_weak), (b, b_weak)), x64, strict)
        # What 64 bits become without `enable_x64` depends on another flag, which is read for them alone.
        if not is_excused and (x64 or not (a in _NARROW or b in _NARROW)):
            table[key] = promoted
    return promoted


def _promote_or_excuse(
    args: Sequence[tuple[DType, bool]], x64: bool, strict: bool
) -> tuple[tuple[DType, bool], bool]:
    """Returns the promoted dtype, and whether it is the standard one because effx's own code promotes, not the user's."""
    try:
        return _promote(args, x64, strict), False
    except TypePromotionError:
        if not strict or user_passed_operands():
            raise
    return _promote(args, x64, False), True


def _promote(args: Sequence[tuple[DType, bool]], x64: bool, strict: bool) -> tuple[DType, bool]:
    for dtype, _ in args:
        if dtype in _KEY_NAMES:
            raise DTypeError(
                f"promote: {short_name(dtype)} is a dtype of random keys, which take no part in arithmetic"
            )
        if dtype == float0:
            raise DTypeError(
                "promote: float0, the dtype of tangents of integers, takes no part in arithmetic; make zeros of the "
                "same shape of another dtype"
            )
        if dtype not in _ALL:
            raise DTypeError(f"promote: got {as_dtype(dtype)}, expected a dtype that promotes")
    # Narrow before the join as well as after it: u64 and i8 join at f*, but as u32 and i8 at i64.
    narrow = {} if x64 or any([not weak and keeps_64_bits(dtype) for dtype, weak in args]) else _NARROW
    args = [(narrow.get(dtype, dtype), weak) for dtype, weak in args]
    upper = _STRICT_UPPER if strict else _UPPER
    all_weak = all(weak for _, weak in args)
    if all_weak and not strict:
        # Weak values alone join like strong ones, and the join then gives the default of its kind:
        # unsigned stays unsigned so, and u64 with i64 becomes a float.
        node = _least_upper_bound(upper, [_SHORT[dtype] for dtype, _ in args])
    else:
        node = _least_upper_bound(upper, [_lattice_node(dtype, weak) for dtype, weak in args])
    if node is None:
        mode = " with numpy_dtype_promotion='strict'" if strict else ""
        operand_text = " and ".join(_SHORT[dtype] + " (weak)" * weak for dtype, weak in args)
        raise TypePromotionError(
            f"promote: {operand_text} have no implicit promotion{mode}, convert with astype"
        )
    if node in _WEAK_NODES:
        narrow = {} if x64 else _NARROW  # the default width of its kind
        promoted, weak = _WEAK_NODES[node], True
    else:
        promoted, weak = _FROM_SHORT[node], all_weak
        if weak:
            promoted = (
                uint64
                if promoted in _IS_UNSIGNED
                else _WEAK_NODES.get(_lattice_node(promoted, True), promoted)
            )
    return narrow.get(promoted, promoted), weak


_ALL: Final = frozenset((*ALL, *NAMED))
_WEAK_NODES: Final[dict[str, DType]] = {"i*": int64, "f*": float64, "c*": complex128}


def _lattice_node(dtype: DType, weak: bool) -> str:
    """The lattice node of a value; bool is never weak."""
    if weak and dtype in _IS_INTEGER:
        return "i*"
    if weak and dtype in _IS_FLOATING:
        return "f*"
    return "c*" if weak and dtype in _IS_COMPLEX else _SHORT[dtype]


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """The dtype that two dtypes promote to; Python types are weak.

    This asks about dtypes, not about arrays: 64 bits remain 64 bits without `enable_x64` too, but come from none of 32.

    >>> promote_types("int8", "uint8"), promote_types(int, "uint8"), promote_types("int64", "int32")
    (dtype('int16'), dtype('uint8'), dtype('int64'))
    """
    first, second = [
        _SCALARS[True][x] if isinstance(x, type) and x in _SCALARS[True] else (as_dtype(x), False)
        for x in (a, b)
    ]
    wide = enable_x64.value or first[0] in _NARROW or second[0] in _NARROW
    return _promote((first, second), wide, numpy_dtype_promotion.value == "strict" and first != second)[0]


_SCALARS: Final[dict[bool, dict[object, tuple[DType, bool]]]] = {
    x64: {
        bool: (bool_, False),
        int: (int64 if x64 else int32, True),
        float: (float64 if x64 else float32, True),
        complex: (complex128 if x64 else complex64, True),
    }
    for x64 in (False, True)
}


def scalar_dtype(python_type: type[object]) -> tuple[DType, bool]:
    """The dtype of a Python scalar, and whether it is weak: all but bool are.

    >>> scalar_dtype(float), scalar_dtype(bool)
    ((dtype('float32'), True), (dtype('bool'), False))
    """
    try:
        return _SCALARS[enable_x64.value][python_type]
    except KeyError:
        raise DTypeError(
            f"scalar_dtype: got {python_type.__name__}, expected bool, int, float or complex"
        ) from None


def _keep_or_narrow(dtype: DType) -> DType:
    return dtype if keeps_64_bits(dtype) else canonicalize(dtype)


def weak_dtype(value: object) -> tuple[DType, bool]:
    """The dtype and weak type of a value or dtype-like, as `result_type` uses them for each argument.

    >>> weak_dtype(1), weak_dtype(np.float32(1)), weak_dtype("int8")
    ((dtype('int32'), True), (dtype('float32'), False), (dtype('int8'), False))
    """
    scalars = _SCALARS[enable_x64.value]
    scalar = scalars.get(type(value))
    if scalar is not None:
        return scalar
    if isinstance(value, (np.dtype, str)):
        return _keep_or_narrow(as_dtype(value)), False
    if isinstance(value, type):
        return scalars.get(value) or (_keep_or_narrow(as_dtype(value)), False)
    if isinstance(dtype := getattr(value, "dtype", None), np.dtype):
        weak = getattr(value, "weak_type", None)  # what has none is NumPy's, whose 64 bits nobody requested
        return canonicalize(dtype) if weak is None else _keep_or_narrow(as_dtype(dtype)), weak is True
    for python_type in (bool, int, float, complex):  # subclasses, such as IntEnum
        if isinstance(value, python_type):
            return scalars[python_type]
    raise DTypeError(
        f"result_type: got a value of type {type(value).__name__}, expected an array, scalar or dtype"
    )


def scalar_type_of(x: object) -> type[bool | int | float | complex]:
    """The Python number type of an array's elements, or of a number.

    Raises:
        DTypeError: it is no array of numbers, and no number.

    >>> scalar_type_of(np.int8(3)), scalar_type_of(1.0)
    (<class 'int'>, <class 'float'>)
    """
    if isinstance(x, (np.dtype, str, type)):
        raise DTypeError(f"scalar_type_of: got {x!r}, expected an array or a number")
    canonical, _ = weak_dtype(x)
    if canonical not in _ALL:
        raise DTypeError(f"scalar_type_of: got an array of {short_name(canonical)}, expected one of numbers")
    if is_bool(canonical):
        return bool
    if is_integer(canonical):
        return int
    return complex if is_complex(canonical) else float


@overload
def result_type(*args: object, return_weak_type_flag: Literal[False] = False) -> DType: ...
@overload
def result_type(*args: object, return_weak_type_flag: Literal[True]) -> tuple[DType, bool]: ...
def result_type(*args: object, return_weak_type_flag: bool = False) -> DType | tuple[DType, bool]:
    """The dtype of an operation on these values, dtypes or scalar types.

    Args:
        args: one or more of them; None is the default floating dtype.
        return_weak_type_flag: True for a pair of the dtype and whether it is weak.

    >>> result_type(np.float32(1), 2.0), result_type(3, 2.0), result_type("uint8", np.int8(1))
    (dtype('float32'), dtype('float32'), dtype('int16'))
    >>> result_type(3, 2.0, return_weak_type_flag=True)
    (dtype('float32'), True)
    """
    promoted = result_type_and_weak(*args)
    return promoted if return_weak_type_flag else promoted[0]


def result_type_and_weak(*args: object) -> tuple[DType, bool]:
    """Like `result_type`, with the weakness of the result.

    >>> result_type_and_weak(3, 2.0)
    (dtype('float32'), True)
    """
    if not args:
        raise DTypeError("result_type: got no arguments, expected at least one value or dtype")
    args = tuple([float64 if x is None else x for x in args])
    if len(args) == 1:
        return weak_dtype(args[0])
    if len(args) == 2:
        return promote(*weak_dtype(args[0]), *weak_dtype(args[1]))
    # All at once and not pair by pair: what two weak values give alone differs from what they give
    # next to a strong one.
    strict = numpy_dtype_promotion.value == "strict"
    pairs = tuple(dict.fromkeys(map(weak_dtype, args)))
    return pairs[0] if len(pairs) == 1 else _promote_or_excuse(pairs, enable_x64.value, strict)[0]
