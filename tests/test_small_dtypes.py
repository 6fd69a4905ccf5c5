"""Conversions of the dtypes of ml_dtypes, and float4_e2m1fn, which has no infinity and no NaN, in all that takes floats."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import dtypes as d
from effx import lax, random
from effx.array import Array
from effx.dtypes import DType
from effx.errors import DTypeError, ShapeError
from effx.handlers.oracle import evaluate
from effx.handlers.staging.stage import stage
from effx.ir.text import parse_program, print_program

F4 = d.float4_e2m1fn
# All values, in the order of their bits.
HOST: np.ndarray[Any, Any] = np.arange(16, dtype=np.uint8).view(F4)
X = enp.asarray(HOST)
WIDE = HOST.astype(np.float32)
SOURCES = [x for x in d.ALL if d.bits(x) <= 32 and not d.is_complex(x)]


def numbers(x: object) -> np.ndarray[Any, Any]:
    return np.asarray(np.asarray(x)).astype(np.float32)


def same(found: object, wanted: object) -> None:
    """Equal, signs of zeros included, whatever the dtypes; NaN has any sign."""
    x, y = numbers(found), numbers(wanted)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(np.signbit(x) & (x == x), np.signbit(y) & (y == y))


def all_values(dtype: DType) -> np.ndarray[Any, Any]:
    """Every value of a dtype of at most 8 bits, and for wider ones the ties, what is near them, and the ends."""
    if d.is_integer(dtype) or dtype == d.bool_:
        low, high = (0, 1) if dtype == d.bool_ else (int(d.iinfo(dtype).min), int(d.iinfo(dtype).max))
        return np.clip(np.arange(-260, 260), max(low, -260), min(high, 260)).astype(dtype)
    if d.bits(dtype) <= 8:
        return np.arange(2 ** d.bits(dtype), dtype=np.uint8).view(dtype)
    x = np.concatenate(
        [np.linspace(-8, 8, 257), [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-9, -1e-9, 3e4, -3e4]]
    )
    return np.concatenate(
        [x, *[np.nextafter(x.astype(np.float32), np.float32(way)) for way in (np.inf, -np.inf)]]
    )


@pytest.mark.parametrize("dtype", SOURCES, ids=lambda x: x.name)
def test_conversions_to_small_floats(dtype: DType) -> None:
    """To nearest, ties to even, and float4_e2m1fn saturates: as ml_dtypes converts."""
    host = all_values(dtype)
    x = enp.asarray(host)
    found = effx.jit(lambda v: [v.astype(t) for t in d.TINY_FLOATS])(x)
    for y, target in zip(found, d.TINY_FLOATS, strict=True):
        assert y.dtype == target
        wanted = host.astype(np.float32).astype(target)
        if target == F4:  # which has no NaN to become
            y, wanted = np.where(np.isnan(host.astype(np.float32)), 0, (numbers(y), numbers(wanted)))
        same(y, wanted)


@pytest.mark.parametrize("dtype", d.TINY_FLOATS, ids=lambda x: x.name)
def test_conversions_from_small_floats(dtype: DType) -> None:
    """To floats exactly or to nearest, to integers towards zero, of all values that these hold."""
    host = all_values(dtype)
    wide = host.astype(np.float64)
    targets = [t for t in SOURCES if t != dtype]
    for y, target in zip(
        effx.jit(lambda v: [v.astype(t) for t in targets])(enp.asarray(host)), targets, strict=True
    ):
        if d.is_integer(target):
            limits = d.iinfo(target)
            held = (np.trunc(wide) >= int(limits.min)) & (np.trunc(wide) <= int(limits.max))
            same(numbers(y)[held], np.trunc(wide)[held] + 0.0)
        elif target != F4:
            with np.errstate(over="ignore"):
                same(y, wide.astype(np.float32).astype(target))


RNG = np.random.default_rng(3)
OTHER = RNG.permutation(HOST)
OTHER_WIDE = OTHER.astype(np.float32)


def rounded(x: Any) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.asarray(x, np.float32).astype(F4)


FUNCTIONS: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = [
    ("add", lambda x, y: x + y, lambda x, y: rounded(x + y)),
    ("sub", lambda x, y: x - y, lambda x, y: rounded(x - y)),
    ("mul", lambda x, y: x * y, lambda x, y: rounded(x * y)),
    ("div", lambda x, y: x / enp.where(y == 0, 1, y), lambda x, y: rounded(x / np.where(y == 0, 1, y))),
    ("neg", lambda x, y: -x, lambda x, y: -x),
    ("abs", lambda x, y: abs(x), lambda x, y: abs(x)),
    ("weak scalar", lambda x, y: x + 1.5, lambda x, y: rounded(x + 1.5)),
    ("exp", lambda x, y: enp.exp(x), lambda x, y: rounded(np.exp(x))),
    ("floor", lambda x, y: enp.floor(x), lambda x, y: np.floor(x)),
    ("sign", lambda x, y: enp.sign(x), lambda x, y: np.sign(x)),
    ("signbit", lambda x, y: enp.signbit(x), lambda x, y: np.signbit(x)),
    ("maximum", lambda x, y: enp.maximum(x, y), lambda x, y: np.maximum(x, y)),
    ("minimum", lambda x, y: enp.minimum(x, y), lambda x, y: np.minimum(x, y)),
    ("clip", lambda x, y: enp.clip(x, -1, 1), lambda x, y: np.clip(x, -1, 1)),
    ("lt", lambda x, y: x < y, lambda x, y: x < y),
    ("ge", lambda x, y: x >= y, lambda x, y: x >= y),
    ("eq", lambda x, y: x == y, lambda x, y: x == y),
    ("ne", lambda x, y: x != y, lambda x, y: x != y),
    ("isnan", lambda x, y: enp.isnan(x), lambda x, y: np.isnan(x)),
    ("isinf", lambda x, y: enp.isinf(x), lambda x, y: np.isinf(x)),
    ("isposinf", lambda x, y: enp.isposinf(x), lambda x, y: np.isposinf(x)),
    ("isfinite", lambda x, y: enp.isfinite(x), lambda x, y: np.isfinite(x)),
    ("where", lambda x, y: enp.where(x > y, x, y), lambda x, y: np.where(x > y, x, y)),
    ("concatenate", lambda x, y: enp.concatenate([x, y]), lambda x, y: np.concatenate([x, y])),
    ("stack", lambda x, y: enp.stack([x, y], 1), lambda x, y: np.stack([x, y], 1)),
    ("roll", lambda x, y: enp.roll(x, 3), lambda x, y: np.roll(x, 3)),
    ("pad", lambda x, y: enp.pad(x, 1, constant_values=2), lambda x, y: np.pad(x, 1, constant_values=2)),
    ("slice", lambda x, y: x[3:13:2], lambda x, y: x[3:13:2]),
    ("gather", lambda x, y: x[enp.array([[1, 15], [7, 2]])], lambda x, y: x[np.array([[1, 15], [7, 2]])]),
    ("set", lambda x, y: x.at[2:5].set(y[:3]), lambda x, y: np.concatenate([x[:2], y[:3], x[5:]])),
    ("transpose", lambda x, y: x.reshape(2, 8).T, lambda x, y: x.reshape(2, 8).T),
    ("max", lambda x, y: x.max(), lambda x, y: x.max()),
    ("min", lambda x, y: x.reshape(4, 4).min(1), lambda x, y: x.reshape(4, 4).min(1)),
    ("max of small ones", lambda x, y: (-4 - abs(x)).max(), lambda x, y: -4.0),
    ("argmax", lambda x, y: y.argmax(), lambda x, y: y.argmax()),
    ("argmin", lambda x, y: y.reshape(4, 4).argmin(1), lambda x, y: y.reshape(4, 4).argmin(1)),
    ("cummax", lambda x, y: lax.cummax(y), lambda x, y: np.maximum.accumulate(y)),
    ("sum", lambda x, y: x.sum(dtype=np.float32), lambda x, y: x.sum()),
    ("sort", lambda x, y: enp.sort(y), lambda x, y: np.sort(y)),
    ("argsort", lambda x, y: enp.argsort(y), lambda x, y: np.argsort(y, kind="stable")),
    (
        "sort of two",
        lambda x, y: lax.sort((y, x), num_keys=2)[1],
        lambda x, y: x[np.lexsort([x, y])],
    ),
    ("top_k", lambda x, y: lax.top_k(y, 3)[0], lambda x, y: np.sort(y)[:-4:-1]),
    ("unique", lambda x, y: enp.unique(y, size=15), lambda x, y: np.unique(y)),
    ("searchsorted", lambda x, y: enp.searchsorted(enp.sort(x), y), lambda x, y: np.searchsorted(np.sort(x), y)),
    (
        "matmul",
        lambda x, y: enp.matmul(x.reshape(4, 4), y.reshape(4, 4), preferred_element_type=np.float32),
        lambda x, y: x.reshape(4, 4) @ y.reshape(4, 4),
    ),
    ("view", lambda x, y: x.view(enp.uint4), lambda x, y: np.arange(16)),
    ("view of bits", lambda x, y: enp.arange(16).astype(enp.int8).astype(enp.uint4).view(F4), lambda x, y: WIDE),
    ("scan", lambda x, y: lax.scan(lambda c, v: (v, c), x[0], x)[1], lambda x, y: np.roll(x, 1) * [0, *[1] * 15]),
    ("vmap", lambda x, y: effx.vmap(lambda a, b: a * b)(x, y), lambda x, y: rounded(x * y)),
    ("vmapped sort", lambda x, y: effx.vmap(enp.sort)(y.reshape(2, 8)), lambda x, y: np.sort(y.reshape(2, 8))),
    ("gradient", lambda x, y: effx.grad(lambda v: (v * y).sum())(x), lambda x, y: y),
]  # fmt: skip


@pytest.mark.parametrize(("name", "ours", "theirs"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_functions(name: str, ours: Callable[..., Array], theirs: Callable[..., Any]) -> None:
    """Values are those of float32, rounded; XLA does not keep the sign of every zero."""
    found = effx.jit(ours)(X, enp.asarray(OTHER))
    assert found.dtype in (F4, np.bool_, np.int32, np.float32, d.uint4)
    np.testing.assert_array_equal(numbers(found), numbers(theirs(WIDE, OTHER_WIDE)))


def test_what_it_is() -> None:
    numpy_zero: Any = np.zeros((), F4)[()]
    assert enp.float4_e2m1fn == F4 == enp.float4_e2m1fn(2.4).dtype
    assert enp.float4_e2m1fn(2.4) == 2.0
    assert isinstance(numpy_zero, enp.float4_e2m1fn)
    assert not isinstance(X[0], enp.float4_e2m1fn)
    assert (float(enp.finfo(F4).max), float(enp.finfo(F4).smallest_subnormal)) == (6.0, 0.5)
    assert enp.issubdtype(F4, np.floating)
    assert [d.has_nan(x) for x in (F4, d.float8_e4m3fn, d.float32)] == [False, True, True]
    assert [x.name for x in d.FLOATING if d.has_infinity(x)] == [
        "float8_e3m4", "float8_e4m3", "float8_e5m2", "bfloat16", "float16", "float32", "float64",
    ]  # fmt: skip
    assert enp.full(2, np.nan, F4).tolist() == [0, 0]
    assert enp.full(2, -np.inf, F4).tolist() == [-6, -6]
    assert enp.promote_types(F4, np.int8) == F4 == enp.promote_types(F4, float)
    with pytest.raises(
        DTypeError, match="promote: f4_e2m1fn and bf16 have no implicit promotion, convert with astype"
    ):
        X + enp.bfloat16(1)
    with pytest.raises(
        DTypeError,
        match="uniform: the dtype must have 8 bits or more, got float4_e2m1fn; draw others and convert them",
    ):
        random.uniform(random.key(0), (3,), F4)


def test_forms() -> None:
    """Text of arrays, of programs and of what XLA gets; copies and Python's numbers."""
    assert repr(X[:5]) == "Array([0. , 0.5, 1. , 1.5, 2. ], dtype=float4_e2m1fn)"
    assert f"{X[3]} {X[7]:.2f}" == "1.5 6.00"
    assert (X[3].item(), int(X[7]), X[8:10].tolist()) == (1.5, 6, [-0.0, -0.5])
    same(pickle.loads(pickle.dumps(X)), X)
    program = stage(
        lambda xs: [xs[0] * 1.5 + enp.float4_e2m1fn(4), xs[0].astype(np.int8)], [X.type], "f"
    ).program
    text = print_program(program)
    assert "f4_e2m1fn[16]" in text
    assert print_program(parse_program(text)) == text
    assert "tensor<16xf4E2M1FN>" in effx.jit(lambda v: v + 1).lower(X).as_text()


def test_files_of_numbers() -> None:
    """Files of NumPy's lose the dtype's name; the bits go through them."""
    file = io.BytesIO()
    enp.save(file, X.view(enp.uint4).astype(np.uint8))
    file.seek(0)
    same(enp.load(file).astype(enp.uint4).view(F4), X)


@pytest.mark.parametrize("dtype", [d.int2, d.int4, d.uint2, d.uint4], ids=lambda x: x.name)
def test_products_of_small_integers(dtype: DType) -> None:
    """Into wider dtypes, which XLA by itself refuses on the CPU."""
    limits = d.iinfo(dtype)
    wide = RNG.integers(int(limits.min), int(limits.max) + 1, (2, 3, 3)).astype(np.int32)
    x, y = [enp.asarray(v.astype(dtype)) for v in wide]
    for wanted in (np.int32, np.float32):
        same(lax.dot(x, y, preferred_element_type=wanted), wide[0] @ wide[1])


MIXED = [
    ("float8_e4m3fn", "float8_e5m2"), ("float8_e5m2fnuz", "float8_e8m0fnu"), ("float4_e2m1fn", "float16"),
    ("int4", "bfloat16"), ("int4", "int8"), ("uint2", "float8_e3m4"), ("int2", "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), MIXED)
def test_products_of_different_dtypes(left: str, right: str) -> None:
    """Exact where the result has a dtype of its own, with gradients of the operands' dtypes; else an error."""
    x, y = [
        (2.0 ** RNG.integers(0, 2, (3, 3)) if "e8m0" in n else RNG.integers(0 if n[0] == "u" else -1, 2, (3, 3)))
        .astype(np.float32)
        .astype(d.as_dtype(n))
        for n in (left, right)
    ]  # fmt: skip
    numbers_ = (((1,), (0,)), ((), ()))

    def multiply(a: Any, b: Any) -> Array:
        return lax.dot_general(a, b, numbers_, preferred_element_type=np.float32)

    want = x.astype(np.float32) @ y.astype(np.float32)
    functions: dict[str, Callable[[], Array]] = {
        "matmul": lambda: enp.matmul(x, y, preferred_element_type=np.float32),
        "dot": lambda: enp.dot(x, y, preferred_element_type=np.float32),
        "einsum": lambda: enp.einsum("ij,jk->ik", x, y, preferred_element_type=np.float32),
        "tensordot": lambda: enp.tensordot(x, y, 1, preferred_element_type=np.float32),
        "vecdot": lambda: enp.vecdot(x[:, None], y.T, preferred_element_type=np.float32),
        "dot_general": lambda: multiply(x, y),
    }
    for name, function in functions.items():
        found = function()
        assert found.dtype == np.float32, name
        same(abs(found), abs(want))
    slopes = effx.grad(lambda a, b: multiply(a, b).sum(), (0, 1), allow_int=True)(x, y)
    assert [s.dtype for s in slopes] == [d.tangent_dtype(v.dtype) for v in (x, y)]
    if d.is_floating(x.dtype):
        ones = np.ones((3, 3), np.float32)
        same(slopes[0], (ones @ y.astype(np.float32).T).astype(x.dtype))
    with pytest.raises(DTypeError, match="have no implicit promotion, convert with astype"):
        enp.matmul(x, y)


def test_scalars_times_arrays_in_a_preferred_dtype() -> None:
    found = enp.dot(np.int8(100), np.full(2, 100, np.int8), preferred_element_type=np.int32)
    assert found.dtype == np.int32
    assert found.tolist() == [10000, 10000]


@pytest.mark.parametrize("dtype", [d.bfloat16, F4, d.float8_e5m2, d.int4, d.uint2], ids=lambda x: x.name)
def test_lists_of_scalars(dtype: DType) -> None:
    """Scalars of these dtypes, of NumPy's and Python's numbers make arrays together."""
    one = enp.ones((), dtype)
    for given in ([one, one], [[one], [1]], [[one, dtype.type(1)], [np.asarray(one), True]]):
        x = enp.asarray(given)
        assert x.dtype == dtype
        same(x, np.ones(x.shape))
    assert enp.array([one, 2, 0], np.float32).tolist() == [1, 2, 0]
    with pytest.raises(ShapeError, match="array: the nested lists differ in length"):
        enp.array([[one, one], [one]])


@pytest.mark.parametrize("dtype", [d.int4, d.uint4, d.int2])
def test_bits_of_small_integers_in_numpy(dtype: DType) -> None:
    """The oracle counts the bits that a dtype has, not those of a wider one."""
    bits = d.bits(dtype)
    x = enp.array([1, 0], dtype)
    assert [int(n) for n in evaluate(lax.population_count, x)] == [1, 0]
    assert int(evaluate(lax.clz, x)[0]) == bits - 1
