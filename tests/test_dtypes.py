"""Dtypes: canonical forms, names, queries and the promotion lattice, against a table made with JAX 0.12."""

from __future__ import annotations

import enum
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import Array, lax
from effx import dtypes as d
from effx.dtypes import DType, DTypeLike, promote
from effx.errors import DTypeError, OptionError, TypePromotionError
from effx.flags import enable_x64, numpy_dtype_promotion

X64 = """\
     bool  u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i*    f*    c*
bool bool  u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i64*  f64*  c128*
u8   u8    u8    u16   u32   u64   i16   i16   i32   i64   bf16  f16   f32   f64   c64   c128  u8    f64*  c128*
u16  u16   u16   u16   u32   u64   i32   i32   i32   i64   bf16  f16   f32   f64   c64   c128  u16   f64*  c128*
u32  u32   u32   u32   u32   u64   i64   i64   i64   i64   bf16  f16   f32   f64   c64   c128  u32   f64*  c128*
u64  u64   u64   u64   u64   u64   f64*  f64*  f64*  f64*  bf16  f16   f32   f64   c64   c128  u64   f64*  c128*
i8   i8    i16   i32   i64   f64*  i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i8    f64*  c128*
i16  i16   i16   i32   i64   f64*  i16   i16   i32   i64   bf16  f16   f32   f64   c64   c128  i16   f64*  c128*
i32  i32   i32   i32   i64   f64*  i32   i32   i32   i64   bf16  f16   f32   f64   c64   c128  i32   f64*  c128*
i64  i64   i64   i64   i64   f64*  i64   i64   i64   i64   bf16  f16   f32   f64   c64   c128  i64   f64*  c128*
bf16 bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  f32   f32   f64   c64   c128  bf16  bf16  c64
f16  f16   f16   f16   f16   f16   f16   f16   f16   f16   f32   f16   f32   f64   c64   c128  f16   f16   c64
f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64   c64   c128  f32   f32   c64
f64  f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   c128  c128  f64   f64   c128
c64  c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c128  c64   c128  c64   c64   c64
c128 c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128
i*   i64*  u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i64*  f64*  c128*
f*   f64*  f64*  f64*  f64*  f64*  f64*  f64*  f64*  f64*  bf16  f16   f32   f64   c64   c128  f64*  f64*  c128*
c*   c128* c128* c128* c128* c128* c128* c128* c128* c128* c64   c64   c64   c128  c64   c128  c128* c128* c128*
"""
X32 = """\
     bool  u8    u16   u32   i8    i16   i32   bf16  f16   f32   c64   i*    f*    c*
bool bool  u8    u16   u32   i8    i16   i32   bf16  f16   f32   c64   i32*  f32*  c64*
u8   u8    u8    u16   u32   i16   i16   i32   bf16  f16   f32   c64   u8    f32*  c64*
u16  u16   u16   u16   u32   i32   i32   i32   bf16  f16   f32   c64   u16   f32*  c64*
u32  u32   u32   u32   u32   i32   i32   i32   bf16  f16   f32   c64   u32   f32*  c64*
i8   i8    i16   i32   i32   i8    i16   i32   bf16  f16   f32   c64   i8    f32*  c64*
i16  i16   i16   i32   i32   i16   i16   i32   bf16  f16   f32   c64   i16   f32*  c64*
i32  i32   i32   i32   i32   i32   i32   i32   bf16  f16   f32   c64   i32   f32*  c64*
bf16 bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  f32   f32   c64   bf16  bf16  c64
f16  f16   f16   f16   f16   f16   f16   f16   f32   f16   f32   c64   f16   f16   c64
f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   c64   f32   f32   c64
c64  c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64
i*   i32*  u8    u16   u32   i8    i16   i32   bf16  f16   f32   c64   i32*  f32*  c64*
f*   f32*  f32*  f32*  f32*  f32*  f32*  f32*  bf16  f16   f32   c64   f32*  f32*  c64*
c*   c64*  c64*  c64*  c64*  c64*  c64*  c64*  c64   c64   c64   c64   c64*  c64*  c64*
"""


def node(name: str, x64: bool) -> tuple[DType, bool]:
    python_type: dict[str, type[object]] = {"i*": int, "f*": float, "c*": complex}
    if name in python_type:
        with enable_x64(x64):
            return d.scalar_dtype(python_type[name])
    return d.from_short_name(name.removesuffix("*")), name.endswith("*")


def cells(table: str) -> list[tuple[str, str, str]]:
    head, *rows = [line.split() for line in table.splitlines()]
    return [(row[0], column, cell) for row in rows for column, cell in zip(head, row[1:], strict=True)]


@pytest.mark.parametrize("x64", [True, False])
def test_promotion_table(x64: bool) -> None:
    found = cells(X64 if x64 else X32)
    assert len(found) == (18**2 if x64 else 14**2)
    with enable_x64(x64):
        for a, b, expected in found:
            assert promote(*node(a, x64), *node(b, x64)) == node(expected, x64), (a, b)
            assert d.result_type(node(a, x64)[0], node(b, x64)[0]) is not None


def test_64_bit_dtypes_promote_as_32_bit_by_default() -> None:
    assert promote(d.int64, False, d.float64, False) == (d.float32, False)
    assert promote(d.uint64, False, d.int8, False) == (d.int32, False)
    with enable_x64(True):
        assert promote(d.uint64, False, d.int8, False) == (d.float64, True)
        assert promote(d.int64, False, d.float64, False) == (d.float64, False)


def test_two_weak_values_give_the_default_of_their_kind() -> None:
    assert promote(d.int8, True, d.int16, True) == (d.int32, True)
    assert promote(d.uint8, True, d.uint16, True) == (d.uint32, True)
    assert promote(d.bfloat16, True, d.int16, True) == (d.float32, True)
    assert promote(d.bool_, False, d.int32, True) == (d.int32, True)


SMALL = [*d.TINY_FLOATS, d.int2, d.int4, d.uint2, d.uint4]


def test_small_dtypes_promote_with_themselves_and_with_what_is_below() -> None:
    for small in SMALL:
        assert promote(small, False, small, False) == (small, False)
        assert promote(d.bool_, False, small, False) == (small, False)
        assert promote(small, False, d.int32, True) == (small, False)
        with pytest.raises(DTypeError, match="have no implicit promotion"):
            promote(small, False, d.float32, False)
    assert promote(d.float8_e4m3fn, False, d.int32, False) == (d.float8_e4m3fn, False)


def test_types_that_do_not_promote_are_errors() -> None:
    with pytest.raises(DTypeError) as error:
        promote(d.int4, False, d.float32, True)
    assert error.value.args[0].startswith(
        "promote: i4 and f32 (weak) have no implicit promotion, convert with astype"
    )
    with pytest.raises(
        DTypeError, match="promote: float0, the dtype of tangents of integers, takes no part in arithmetic"
    ):
        promote(d.float32, False, d.float0, False)


def test_strict_promotion() -> None:
    with numpy_dtype_promotion("strict"):
        assert promote(d.float32, False, d.float32, False) == (d.float32, False)
        assert promote(d.bfloat16, False, d.int32, True) == (d.bfloat16, False)
        assert promote(d.int32, True, d.float32, True) == (d.float32, True)
        pairs: list[tuple[DTypeLike, DTypeLike]] = [
            ("int32", "int64"), ("bool", "int8"), ("float16", "float32"), ("int32", float), (bool, int),
        ]  # fmt: skip
        for a, b in pairs:
            with enable_x64(True), pytest.raises(DTypeError, match="with numpy_dtype_promotion='strict'"):
                d.promote_types(a, b)


kinds = st.sampled_from(
    [*d.ALL[:1], *d.SIGNED[2:], *d.UNSIGNED[2:], *d.FLOATING[len(d.TINY_FLOATS) :], *d.COMPLEX]
)
weak = st.sampled_from([(d.int64, True), (d.float64, True), (d.complex128, True)])
operands = st.one_of(kinds.map(lambda dtype: (dtype, False)), weak)


@given(operands, operands, st.booleans(), st.sampled_from(["standard", "strict"]))
def test_promotion_is_commutative(a: tuple[DType, bool], b: tuple[DType, bool], x64: bool, mode: str) -> None:
    def attempt(a: tuple[DType, bool], b: tuple[DType, bool]) -> tuple[DType, bool] | None:
        try:
            return promote(*a, *b)
        except DTypeError:
            return None

    with enable_x64(x64), numpy_dtype_promotion("strict" if mode == "strict" else "standard"):
        assert attempt(a, b) == attempt(b, a)


@given(operands, st.booleans())
def test_promotion_is_idempotent(a: tuple[DType, bool], x64: bool) -> None:
    with enable_x64(x64):
        assert promote(*a, *a) == (d.canonicalize(a[0]), a[1])


@given(operands, operands, operands)
def test_promotion_is_associative_with_64_bits(
    a: tuple[DType, bool], b: tuple[DType, bool], c: tuple[DType, bool]
) -> None:
    with enable_x64(True):
        assert promote(*promote(*a, *b), *c) == promote(*a, *promote(*b, *c))


@given(kinds, kinds)
def test_a_promotion_holds_both(a: DType, b: DType) -> None:
    """Promoting the result again with either dtype changes nothing."""
    with enable_x64(True):
        both = promote(a, False, b, False)
        assert promote(*both, a, False) == both


class Colour(enum.IntEnum):
    RED = 1


class Value:
    def __init__(self, dtype: DType, weak_type: bool) -> None:
        self.dtype = dtype
        self.weak_type = weak_type


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "uint32"])
@pytest.mark.parametrize("number", [-1, 300, -(2**31), 2**31 - 1])
def test_python_ints_take_the_bits_of_a_narrower_dtype(dtype: str, number: int) -> None:
    """What fits int32 wraps, as in JAX and as an argument of a jitted function does."""
    x = enp.ones(2, dtype)
    given = np.asarray(number).astype(dtype)
    functions: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda n: x * n, np.ones(2, dtype) * given),
        (lambda n: n - x, given - np.ones(2, dtype)),
        (lambda n: enp.where(x > 0, n, x), np.broadcast_to(given, (2,))),
        (lambda n: x.at[0].set(n), np.array([given, 1], dtype)),
        (lambda n: enp.pad(x, (1, 0), constant_values=n), np.array([given, 1, 1], dtype)),
    ]
    for f, expected in functions:
        assert f(number).dtype == dtype
        np.testing.assert_array_equal(f(number), expected)
        np.testing.assert_array_equal(effx.jit(lambda f=f: f(number))(), expected)
    for f, expected in functions[:3]:
        np.testing.assert_array_equal(effx.jit(f)(number), expected)
    with pytest.raises(OverflowError, match="python int 4294967296 is out of bounds for i32"):
        functions[0][0](2**32)


def test_result_type() -> None:
    assert d.result_type(1, 2.0) == d.float32
    assert d.result_type(np.int8(1), 2) == d.int8
    assert d.result_type(np.float64(1), 1) == d.float32
    assert d.result_type(np.zeros(2, np.int8), np.zeros(2, np.uint8)) == d.int16
    assert d.result_type("bfloat16", 1.0, Colour.RED, True) == d.bfloat16
    assert d.result_type(int) == d.int32
    assert d.result_type(Value(d.float32, True), d.bfloat16) == d.bfloat16
    assert d.result_type_and_weak(Value(d.float32, True), 1, 2) == (d.float32, True)
    with enable_x64(True):
        # All three at once: u64 and i16 alone would join at a weak float.
        values = (Value(d.int16, True), Value(d.uint64, True), Value(d.int32, False))
        assert d.result_type_and_weak(*values) == (d.int32, False)
        assert d.result_type(1) == d.int64


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "result_type: got no arguments, expected at least one value or dtype"),
        (([1],), "result_type: got a value of type list, expected an array, scalar or dtype"),
        (("f4", {}), "result_type: got a value of type dict, expected an array, scalar or dtype"),
    ],
)
def test_result_type_of_nothing_sensible(args: tuple[object, ...], text: str) -> None:
    with pytest.raises(DTypeError) as error:
        d.result_type(*args)
    assert error.value.args[0].split("\n")[0] == text


@pytest.mark.parametrize(
    ("like", "narrow", "wide"),
    [
        (bool, d.bool_, d.bool_),
        (int, d.int32, d.int64),
        (float, d.float32, d.float64),
        (complex, d.complex64, d.complex128),
        ("uint64", d.uint32, d.uint64),
        (np.float64, d.float32, d.float64),
        (np.dtype(">f8"), d.float32, d.float64),
        (np.longlong, d.int32, d.int64),
        (ml_dtypes.bfloat16, d.bfloat16, d.bfloat16),
        ("int4", d.int4, d.int4),
        (np.zeros(3, np.int64), d.int32, d.int64),
        (d.float0, d.float0, d.float0),
    ],
)
def test_canonicalize(like: DTypeLike, narrow: DType, wide: DType) -> None:
    for _ in range(2):  # the second time from the cache
        assert d.canonicalize(like) is narrow
        with enable_x64(True):
            assert d.canonicalize(like) is wide
    assert d.as_dtype(like) is wide


@pytest.mark.parametrize(
    "like", [object, "S3", "datetime64[s]", np.longdouble, np.dtype([("a", "f4")]), None, 3]
)
def test_unsupported_dtypes(like: DTypeLike) -> None:
    with pytest.raises(DTypeError) as error:
        d.canonicalize(like)
    said = error.value.args[0]
    assert said.startswith("canonicalize: got ")
    assert "expected a bool, integer, float or complex dtype of at most 64 bits a component" in said


def test_names() -> None:
    short = (
        "bool i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64 f4_e2m1fn f8_e3m4 f8_e4m3 f8_e4m3b11fnuz f8_e4m3fn "
        "f8_e4m3fnuz f8_e5m2 f8_e5m2fnuz f8_e8m0fnu bf16 f16 f32 f64 c64 c128"
    )
    mlir = (
        "i1 i2 i4 i8 i16 i32 i64 ui2 ui4 ui8 ui16 ui32 ui64 f4E2M1FN f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN "
        "f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU bf16 f16 f32 f64 complex<f32> complex<f64>"
    )
    assert [d.short_name(x) for x in d.ALL] == short.split()
    assert [d.mlir_name(x) for x in d.ALL] == mlir.split()
    assert [d.from_short_name(name) for name in short.split()] == list(d.ALL)
    assert (d.short_name(d.float0), d.mlir_name(d.float0)) == ("float0", "i1")
    with pytest.raises(DTypeError, match="from_short_name: got 'f31', expected one of bool, i2"):
        d.from_short_name("f31")
    with pytest.raises(DTypeError):
        d.short_name(np.dtype("U3"))


def test_bits() -> None:
    assert [d.bits(x) for x in (d.bool_, d.uint2, d.int4, d.float4_e2m1fn, d.float8_e5m2, d.bfloat16, d.complex128)] == [
        1, 2, 4, 4, 8, 16, 128,
    ]  # fmt: skip


@given(st.sampled_from(d.ALL))
def test_every_dtype_is_of_one_kind(dtype: DType) -> None:
    assert [d.is_bool(dtype), d.is_integer(dtype), d.is_floating(dtype), d.is_complex(dtype)].count(True) == 1
    assert d.is_inexact(dtype) == (d.is_floating(dtype) or d.is_complex(dtype))
    assert d.is_signed(dtype) == (not d.is_bool(dtype) and not d.is_unsigned(dtype))
    assert d.tangent_dtype(dtype) == (dtype if d.is_inexact(dtype) else d.float0)
    assert d.is_complex(d.complex_dtype(dtype))
    assert not d.is_complex(d.real_dtype(dtype))


def test_real_and_complex() -> None:
    assert [d.complex_dtype(x) for x in (d.int32, d.float32, d.float64, d.complex64)] == [
        d.complex64, d.complex64, d.complex128, d.complex64,
    ]  # fmt: skip
    assert [d.real_dtype(x) for x in (d.complex64, d.complex128, d.int8)] == [d.float32, d.float64, d.int8]


@pytest.mark.unguarded  # ml_dtypes gives NumPy's finfo for NumPy's dtypes, whatever its annotation says
def test_limits() -> None:
    assert float(d.finfo("bfloat16").max) == 3.3895313892515355e38
    assert float(d.finfo(d.complex64).eps) == 2.0**-23
    assert float(d.finfo(float).eps) == 2.0**-52
    for dtype in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn"):
        info = d.finfo(dtype)
        one, least = np.ones((), d.as_dtype(dtype)), np.asarray(info.tiny, d.as_dtype(dtype))
        assert float(one + np.asarray(info.eps, one.dtype)) == 1 + 2.0**info.machep > 1
        assert float(one - np.asarray(info.epsneg, one.dtype)) == 1 - 2.0**info.negep < 1
        assert float(least) == float(info.smallest_normal) == 2.0**info.minexp
        assert info.iexp == info.nexp == info.bits - 1 - info.nmant
        assert issubclass(d.finfo, np.finfo)
    assert (d.iinfo("int4").min, d.iinfo(np.uint8).max) == (-8, 255)
    with pytest.raises(DTypeError, match="finfo: got int32, expected a float or complex dtype"):
        d.finfo(d.int32)
    with pytest.raises(DTypeError, match="iinfo: got float32, expected an integer dtype"):
        d.iinfo(d.float32)


def test_issubdtype() -> None:
    abstract = [
        np.generic,
        np.number,
        np.integer,
        np.signedinteger,
        np.inexact,
        np.floating,
        np.complexfloating,
    ]
    for dtype, kind in itertools.product([d.int8, d.uint32, d.float32, d.complex64, d.bool_], abstract):
        assert d.issubdtype(dtype, kind) == np.issubdtype(dtype, kind)
    assert d.issubdtype(d.bfloat16, np.floating)
    assert d.issubdtype(d.uint4, np.unsignedinteger)
    assert d.issubdtype(np.floating, np.number)
    assert not d.issubdtype(np.floating, np.integer)
    assert d.issubdtype("float32", np.float32)
    assert not d.issubdtype("float32", float)


def test_result_type_of_none() -> None:
    """It is the default floating dtype, as in NumPy."""
    assert d.result_type(None) == d.result_type(None, 1) == d.float32
    with enable_x64(True):
        assert d.result_type(None) == np.result_type(None)
    assert not enp.iscomplexobj(None)


def test_scalar_dtype() -> None:
    assert d.scalar_dtype(bool) == (d.bool_, False)
    assert d.scalar_dtype(complex) == (d.complex64, True)
    with pytest.raises(DTypeError, match="scalar_dtype: got str, expected bool, int, float or complex"):
        d.scalar_dtype(str)


def test_a_dtype_that_is_not_enabled_warns_where_it_is_asked_for() -> None:
    """Once for each line; Python's types and data ask for no width."""
    text = (
        "dtype float64 is not enabled and becomes float32; effx.config.update('enable_x64', True) or "
        "EFFX_ENABLE_X64=1 enables 64 bits"
    )
    x = enp.ones(3)
    asks: list[Callable[[], Array]] = [
        lambda: enp.zeros(3, "float64"),
        lambda: enp.array([1.0], np.float64),
        lambda: x.astype(enp.float64),
        lambda: enp.full(3, 1, "float64"),
        lambda: enp.linspace(0, 1, 3, dtype="float64"),
        lambda: x.sum(dtype="float64"),
        lambda: lax.convert_element_type(x, "float64"),
        lambda: effx.random.uniform(effx.random.key(0), (3,), "float64"),
    ]
    for ask in asks:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            results = [ask() for _ in range(3)]
        assert all([r.dtype == np.float32 for r in results])
        assert [(str(w.message), w.filename.endswith("test_dtypes.py"), w.lineno) for w in caught] == [
            (text, True, ask.__code__.co_firstlineno)
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            enp.zeros(3, float).dtype
            == enp.array(np.ones(3)).dtype
            == enp.ones(3, int).sum(dtype=float).dtype
        )
        with effx.enable_x64():
            assert enp.zeros(3, "float64").dtype == np.float64


SMALL_FLOATS = [
    "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16",
]  # fmt: skip


@pytest.mark.parametrize("name", [*SMALL_FLOATS, "int2", "int4", "uint2", "uint4"])
def test_small_dtypes_against_numpy(name: str) -> None:
    """Arrays of NumPy's foreign dtypes can be put, read, printed, compared, and sorted, NaN last."""
    if not hasattr(d, name):
        pytest.skip("this ml_dtypes does not have the dtype")
    dtype = np.dtype(getattr(ml_dtypes, name))
    floating = "float" in name
    if floating:
        host = np.asarray([0.5, 2, 0.25, 1, 4, 0.5] if "e8m0" in name else [0.5, -2, 0, 1, -0.25, 3], dtype)
    else:
        low, high = int(d.iinfo(dtype).min), int(d.iinfo(dtype).max)
        host = np.asarray([1, low, high, 0, 1, high - 1], dtype)
    wide: np.ndarray[Any, Any] = host.astype(np.float32 if floating else np.int8)
    x = enp.asarray(host)
    shown = np.array2string(wide, separator=", ", prefix="Array(")
    assert repr(x) in (f"Array({shown}, dtype={name})", f"Array({shown},\n      dtype={name})")
    assert str(x) == str(wide)
    for result, wanted in {
        "put": (x, wide),
        "computed": (enp.concatenate([x, x]), np.concatenate([wide, wide])),
        "jitted": (effx.jit(lambda v: v[::-1])(x), wide[::-1]),
        "max": (enp.max(x), np.max(wide)),
        "min": (enp.min(x), np.min(wide)),
        "argmax": (enp.argmax(x), np.argmax(wide)),
        "argmin": (enp.argmin(x), np.argmin(wide)),
        "sort": (enp.sort(x), np.sort(wide)),
        "argsort": (enp.argsort(x), np.argsort(wide, kind="stable")),
        "cummax": (effx.lax.cummax(x), np.maximum.accumulate(wide)),
    }.values():
        np.testing.assert_array_equal(np.asarray(result).astype(np.float32), wanted)
    if name != "float8_e8m0fnu":  # has no zero to begin a sum with
        total = np.asarray(enp.cumsum(x[2:4], dtype=dtype)).astype(np.float32)
        np.testing.assert_array_equal(total, np.cumsum(wide[2:4]).astype(dtype).astype(np.float32))
    if floating and d.has_nan(dtype):
        with_nan = host.copy()
        with_nan[3] = np.nan
        y = enp.asarray(with_nan)
        np.testing.assert_array_equal(
            np.asarray(enp.sort(y)).astype(np.float32), np.sort(with_nan.astype(np.float32))
        )
        assert np.isnan(np.asarray(enp.max(y)).astype(np.float32))
        assert (int(enp.argmax(y)), int(enp.argmin(y))) == (3, 3)


@pytest.mark.parametrize("name", ["float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e8m0fnu", "float8_e5m2fnuz"])
def test_small_floats_sort_in_their_whole_range(name: str) -> None:
    """All 256 values of a float8 type, backwards."""
    host = np.arange(256, dtype=np.uint8)[::-1].copy().view(getattr(ml_dtypes, name))
    np.testing.assert_array_equal(
        np.asarray(enp.sort(enp.asarray(host))).astype(np.float32), np.sort(host.astype(np.float32))
    )


def test_names_of_jax_dtypes() -> None:
    """Canonical dtypes with and without keys, sizes in memory, Python's types of numbers, weakness."""
    key = effx.random.key(0)
    assert d.canonicalize_dtype("float64") == d.canonicalize_dtype(None) == d.float32
    assert d.canonicalize_dtype(key.dtype, allow_extended_dtype=True) == key.dtype
    assert [d.itemsize_bits(x) for x in (bool, "uint2", "float4_e2m1fn", d.bfloat16, int)] == [
        8,
        2,
        4,
        16,
        64,
    ]
    numbers: list[object] = [True, np.uint8(3), enp.ones(2, enp.float4_e2m1fn), enp.ones(2, "complex64")]
    assert [d.scalar_type_of(x) for x in numbers] == [bool, int, float, complex]
    assert d.result_type(3, 2.0, return_weak_type_flag=True) == (d.float32, True)
    assert d.result_type(enp.ones(1), 2.0, return_weak_type_flag=True) == (d.float32, False)
    assert enp.result_type(3, 2.0) == d.float32
    assert enp.issubdtype(arg1=np.int8, arg2=np.integer)
    assert d.issubdtype(a=np.int8, b=np.integer)
    assert int(d.iinfo(int_type="int8").max) == 127
    wrong: list[tuple[Callable[[], object], str]] = [
        (
            lambda: d.canonicalize_dtype(key.dtype),
            "canonicalize_dtype: got key<fry>, a dtype of random keys, without allow_extended_dtype",
        ),
        (lambda: d.itemsize_bits(d.float0), "itemsize_bits: got float0, expected a dtype of numbers"),
        (lambda: d.scalar_type_of("f4"), "scalar_type_of: got 'f4', expected an array or a number"),
        (lambda: d.scalar_type_of(key), "scalar_type_of: got an array of key<fry>, expected one of numbers"),
    ]
    for call, text in wrong:
        with pytest.raises(DTypeError) as error:
            call()
        assert error.value.message == text
    with pytest.raises(TypePromotionError, match="promote: i4 and f32 have no implicit promotion"):
        enp.ones(2, "int4") + enp.ones(2)
    assert issubclass(TypePromotionError, ValueError)


PYTHON_KINDS = {"int64": 1, "uint64": 1, "float64": 1.0, "complex128": 1j}


@pytest.mark.parametrize("name", PYTHON_KINDS)
def test_requested_64_bits_are_allowed(name: str) -> None:
    """Under explicit_x64_dtypes("allow") a requested dtype is given, and joins as it does under enable_x64."""
    number = PYTHON_KINDS[name]
    with effx.explicit_x64_dtypes("allow"):
        x = enp.arange(3, dtype=name) if name != "complex128" else enp.zeros(3, name)
        made = (
            x, enp.zeros(3, name), enp.ones(3).astype(name), enp.array([1, 2], dtype=name), getattr(enp, name)(3),
            effx.jit(lambda: enp.full(2, 1, name))(), lax.convert_element_type(1, name), x + number, x * x, x[0],
            x + enp.int8(1) if name != "uint64" else x + enp.uint8(1), enp.sum(x), enp.cumsum(x), enp.prod(x),
            effx.jit(lambda x: x + 1)(x), enp.where(x == 1, x, 0), effx.vmap(lambda x: x + 1)(x),
        )  # fmt: skip
        assert [y.dtype.name for y in made] == [name] * len(made)
        assert enp.result_type(name) == enp.result_type(x) == enp.result_type(x, x, 1) == name
        assert enp.sin(x).dtype == ("complex128" if name == "complex128" else "float64")
        default = [enp.asarray(np.ones(3, name)), enp.zeros(3, type(number)), enp.asarray(number)]
        assert [y.dtype for y in default] == [d.canonicalize(t) for t in (name, type(number), type(number))]
        wide = 2**40 if name != "float64" else 1e300
        if name != "complex128":
            assert enp.asarray(wide, dtype=name).item() == wide
            held = np.array(wide, name)
            assert [f(held).item() for f in (lambda x: enp.array(x, name), getattr(enp, name))] == [wide] * 2
            assert enp.array(held[None], name).tolist() == [wide]


def test_the_table_of_allowed_64_bits() -> None:
    """Strong dtypes of 64 bits join as under enable_x64, and all others as without it."""
    kinds = [t for t in d.ALL if t not in d.TINY_FLOATS and t not in (d.int2, d.int4, d.uint2, d.uint4)]
    for a, b in itertools.product(kinds, kinds):
        with enable_x64(any(t.itemsize == 8 * (1 + (t.kind == "c")) and t.kind != "b" for t in (a, b))):
            expected, weak = promote(a, False, b, False)
        with effx.explicit_x64_dtypes("allow"):
            assert promote(a, False, b, False) == (d.canonicalize(expected) if weak else expected, weak), (
                a,
                b,
            )


def test_requested_64_bits_are_refused() -> None:
    """Under explicit_x64_dtypes("error") a request is a ValueError, and what requests no width is no request."""
    with effx.explicit_x64_dtypes("error"):
        for call in (
            lambda: enp.zeros(3, "float64"), lambda: enp.ones(3).astype("float64"), lambda: enp.float64(1),
            lambda: effx.random.normal(effx.random.key(0), dtype="float64"),
        ):  # fmt: skip
            with pytest.raises(OptionError) as error:
                call()
            assert str(error.value).partition("\n")[0] == (
                "dtype float64 is not enabled, and explicit_x64_dtypes is 'error'; effx.config.update('enable_x64', "
                "True) or EFFX_ENABLE_X64=1 enables 64 bits"
            )
        assert enp.zeros(3, float).dtype == enp.asarray(np.ones(3)).dtype == "float32"
    with enable_x64(), effx.explicit_x64_dtypes("error"):
        assert enp.zeros(3, "float64").dtype == "float64"


NAMED = [
    (name, getattr(d, name))
    for name in ("float6_e2m3fn", "float6_e3m2fn", "int1", "uint1")
    if hasattr(d, name)
]


@pytest.mark.parametrize(("name", "dtype"), NAMED)
def test_dtypes_without_arrays(name: str, dtype: DType) -> None:
    """They have a name, bits, limits, kinds and promotions, and every way to an array of them is refused."""
    kind = np.floating if "float" in name else np.signedinteger if name == "int1" else np.unsignedinteger
    assert d.canonicalize(name) == d.as_dtype(dtype) == getattr(enp, name) == dtype
    assert d.itemsize_bits(dtype) == (6 if "float" in name else 1)
    assert all(d.issubdtype(dtype, k) for k in (kind, np.number, np.generic, dtype))
    assert not any(d.issubdtype(dtype, k) for k in (np.complexfloating, np.bool_, "float32"))
    limits = d.finfo(dtype) if "float" in name else d.iinfo(dtype)
    assert (float(limits.min), float(limits.max)) == {
        "float6_e2m3fn": (-7.5, 7.5), "float6_e3m2fn": (-28.0, 28.0), "int1": (-1.0, 0.0), "uint1": (0.0, 1.0)
    }[name]  # fmt: skip
    for strict in ("standard", "strict"):
        with numpy_dtype_promotion(strict):
            assert d.promote_types(dtype, dtype) == d.promote_types(dtype, int) == dtype
            with pytest.raises(TypePromotionError):
                d.promote_types(dtype, "float32")
    assert effx.ShapeDtypeStruct((3,), dtype).dtype == dtype
    makers: list[Callable[[], Array]] = [
        lambda: enp.zeros(3, dtype), lambda: getattr(enp, name)(1), lambda: enp.ones(3).astype(name),
        lambda: enp.asarray(np.zeros(3, dtype)), lambda: lax.convert_element_type(1, name),
    ]  # fmt: skip
    for make in makers:
        with pytest.raises(DTypeError) as error:
            make()
        assert error.value.message == (
            f"array_type: there are no arrays of {name}, which XLA does not compute with; use a wider dtype"
        )
