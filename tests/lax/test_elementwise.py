"""Elementwise functions of lax against NumPy and SciPy, over dtypes and shapes.

Never: tests the derivatives, which are the operations' own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

import effx
from effx import lax
from effx.array import Array

Data = npt.NDArray[Any]

RNG = np.random.default_rng(0)
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (2, 3)]


def data(shape: tuple[int, ...], dtype: str, low: float, high: float) -> Data:
    values = RNG.uniform(low, high, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.uniform(low, high, shape)
    return values.astype(dtype)


# Function, reference, domain, dtypes besides f64 and f32.
UNARY: list[tuple[Callable[..., Array], Callable[[Data], Data], tuple[float, float], str]] = [
    (lax.neg, np.negative, (-9, 9), "i4 i1 c8"),
    (lax.sign, np.sign, (-9, 9), "i4"),
    (lax.floor, np.floor, (-9, 9), "f2"),
    (lax.ceil, np.ceil, (-9, 9), "f2"),
    (lax.square, np.square, (-9, 9), "i4 u1 c8"),
    (lax.abs, np.abs, (-9, 9), "i4 c8"),
    (lax.is_finite, np.isfinite, (-9, 9), "f2"),
    (lax.exp, np.exp, (-3, 3), "c8 f2"),
    (lax.exp2, np.exp2, (-3, 3), "f2"),
    (lax.expm1, np.expm1, (-3, 3), "c8"),
    (lax.log, np.log, (0.1, 9), "c8 f2"),
    (lax.log1p, np.log1p, (-0.9, 9), "c8"),
    (lax.sqrt, np.sqrt, (0, 9), "c8 f2"),
    (lax.rsqrt, lambda x: 1 / np.sqrt(x), (0.1, 9), "f2"),
    (lax.cbrt, np.cbrt, (-9, 9), ""),
    (lax.logistic, special.expit, (-5, 5), ""),
    (lax.sin, np.sin, (-9, 9), "c8"),
    (lax.cos, np.cos, (-9, 9), "c8"),
    (lax.tan, np.tan, (-1, 1), "c8"),
    (lax.asin, np.arcsin, (-1, 1), "c8"),
    (lax.acos, np.arccos, (-1, 1), "c8"),
    (lax.atan, np.arctan, (-9, 9), "c8"),
    (lax.sinh, np.sinh, (-3, 3), "c8"),
    (lax.cosh, np.cosh, (-3, 3), "c8"),
    (lax.tanh, np.tanh, (-3, 3), "c8"),
    (lax.asinh, np.arcsinh, (-9, 9), "c8"),
    (lax.acosh, np.arccosh, (1, 9), "c8"),
    (lax.atanh, np.arctanh, (-0.9, 0.9), "c8"),
    (lax.erf, special.erf, (-3, 3), ""),
    (lax.erfc, special.erfc, (-3, 9), ""),
    (lax.erf_inv, special.erfinv, (-0.99, 0.99), ""),
    (lax.round, lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), (-9, 9), "f2"),
]
RTOL = {"f8": 1e-12, "f4": 1e-5, "f2": 3e-3, "c8": 3e-5}


@pytest.mark.parametrize(("f", "reference", "domain", "more"), UNARY, ids=[row[0].__name__ for row in UNARY])
def test_unary(
    f: Callable[..., Array], reference: Callable[[Data], Data], domain: tuple[float, float], more: str
) -> None:
    with effx.enable_x64(True):
        for dtype in ["f8", "f4", *more.split()]:
            for shape in SHAPES if dtype == "f4" else SHAPES[3:4]:
                x = data(shape, dtype, *domain)
                y = f(x)
                want = np.asarray(reference(x))
                assert (y.shape, y.dtype) == (shape, want.dtype)
                np.testing.assert_allclose(y, want, RTOL.get(dtype, 0), RTOL.get(dtype, 0))
        x = data((3,), "f4", *domain)
        np.testing.assert_array_equal(effx.jit(f)(x), f(x))


BINARY: list[tuple[Callable[..., Array], Callable[[Data, Data], Data], tuple[float, float], str]] = [
    (lax.add, np.add, (-9, 9), "f4 f2 i4 u1 c8 bool"),
    (lax.sub, np.subtract, (-9, 9), "f4 i4 u1 c8"),
    (lax.mul, np.multiply, (-9, 9), "f4 i4 u1 c8 bool"),
    (lax.div, np.divide, (1, 9), "f4 c8"),
    (lax.div, lambda x, y: np.trunc(x / y).astype(x.dtype), (2, 99), "i4 u1"),
    (lax.rem, np.fmod, (1, 99), "f4 i4 u1"),
    (lax.max, np.maximum, (-9, 9), "f4 f2 i4 bool"),
    (lax.min, np.minimum, (-9, 9), "f4 f2 i4 bool"),
    (lax.pow, np.power, (0.5, 3), "f4 f8"),
    (lax.atan2, np.arctan2, (-9, 9), "f4 f8"),
    (lax.nextafter, np.nextafter, (-9, 9), "f4 f8"),
    (lax.bitwise_and, np.bitwise_and, (0, 99), "i4 u1 bool"),
    (lax.bitwise_or, np.bitwise_or, (0, 99), "i4 u1 bool"),
    (lax.bitwise_xor, np.bitwise_xor, (0, 99), "i4 u1 bool"),
    (lax.shift_left, np.left_shift, (0, 6), "i4 u1"),
    (lax.shift_right_arithmetic, np.right_shift, (0, 6), "i4"),
    (lax.shift_right_logical, np.right_shift, (0, 6), "u1 u4"),
    (lax.eq, np.equal, (0, 3), "i4 f4 c8 bool"),
    (lax.ne, np.not_equal, (0, 3), "i4 f4 c8 bool"),
    (lax.lt, np.less, (0, 3), "i4 f4 bool"),
    (lax.le, np.less_equal, (0, 3), "i4 f4"),
    (lax.gt, np.greater, (0, 3), "i4 f4"),
    (lax.ge, np.greater_equal, (0, 3), "i4 f4"),
]


@pytest.mark.parametrize(
    ("f", "reference", "domain", "kinds"),
    BINARY,
    ids=[f"{row[0].__name__}-{row[3].split()[0]}" for row in BINARY],
)
def test_binary(
    f: Callable[..., Array], reference: Callable[[Data, Data], Data], domain: tuple[float, float], kinds: str
) -> None:
    """Equal shapes, scalars on either side, and axes of size 1."""
    pairs = [
        ((2, 3), (2, 3)),
        ((), (2, 3)),
        ((2, 3), ()),
        ((2, 1), (1, 3)),
        ((), ()),
        ((0,), (0,)),
        ((1,), (4,)),
    ]
    with effx.enable_x64(True):
        for dtype in kinds.split():
            for s, t in pairs if dtype == kinds.split()[0] else pairs[:1]:
                x, y = data(s, dtype, *domain), data(t, dtype, *domain)
                z, want = f(x, y), np.asarray(reference(x, y))
                assert (z.shape, z.dtype) == (want.shape, want.dtype)
                np.testing.assert_allclose(z, want, RTOL.get(dtype, 0), RTOL.get(dtype, 0) / 10)


def test_bfloat16() -> None:
    x = np.array([1.5, 2.0], ml_dtypes.bfloat16)
    assert lax.add(x, x).dtype == ml_dtypes.bfloat16
    assert np.asarray(lax.mul(x, 2.0)).astype(np.float32).tolist() == [3.0, 4.0]


def test_signed_zeros_and_rounding() -> None:
    x = np.array([-0.5, 0.5, 1.5, 2.5, -2.5], np.float32)
    assert lax.round(x).tolist() == [-1.0, 1.0, 2.0, 3.0, -3.0]
    assert lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN).tolist() == [0.0, 0.0, 2.0, 2.0, -2.0]
    assert np.signbit(np.asarray(lax.neg(np.float32(0.0))))
    assert lax.div(np.int32(-7), np.int32(2)).tolist() == -3
    assert lax.rem(np.array([-7, 7]), np.array([2, -2])).tolist() == [-1, 1]


def test_counts_of_bits() -> None:
    x = np.array([0, 1, 255, 2**31], np.uint32)
    assert lax.population_count(x).tolist() == [0, 1, 8, 1]
    assert lax.clz(x).tolist() == [32, 31, 24, 0]
    assert lax.bitwise_not(np.array([True, False])).tolist() == [False, True]
    assert lax.shift_right_logical(np.int32(-1), np.int32(28)).tolist() == 15
    assert lax.shift_right_arithmetic(np.int32(-16), np.int32(2)).tolist() == -4


def test_complex_parts() -> None:
    z = np.array([1 + 2j, -3j], np.complex64)
    np.testing.assert_array_equal(lax.real(z), z.real)
    np.testing.assert_array_equal(lax.imag(z), z.imag)
    np.testing.assert_array_equal(lax.conj(z), z.conj())
    np.testing.assert_array_equal(lax.complex(lax.real(z), lax.imag(z)), z)
    assert lax.conj(np.float32(2.0)).dtype == np.complex64


def test_powers() -> None:
    x = np.array([-2.0, 0.0, 3.0], np.float32)
    assert lax.integer_pow(x, 3).tolist() == [-8, 0, 27]
    assert lax.integer_pow(np.array([2, 3]), 4).tolist() == [16, 81]
    assert lax.integer_pow(np.float32(2), -2).tolist() == 0.25
    assert lax.pow(x, 2).tolist() == [4, 0, 9]
    assert lax.pow(x, np.array([2, 3, 1])).tolist() == [4, 0, 3]
    # A constant power is differentiable at 0.
    assert float(effx.grad(lambda x: lax.pow(x, 1))(0.0)) == 1.0
    np.testing.assert_allclose(effx.grad(lambda y: lax.pow(2.0, y))(3.0), 8 * np.log(2), rtol=1e-6)


def test_selection() -> None:
    x = np.array([1.0, 2.0, 3.0], np.float32)
    assert lax.select(x > 1.5, x, -x).tolist() == [-1, 2, 3]
    assert lax.select(np.True_, x, -x).tolist() == [1, 2, 3]
    assert lax.select(x > 1.5, x, 0.0).tolist() == [0, 2, 3]
    assert lax.select_n(np.array([2, 0, 1]), x, x * 10, x * 100).tolist() == [100, 2, 30]
    assert lax.select_n(np.array([0, 1, 0], np.uint8), x, -x).tolist() == [1, -2, 3]
    assert lax.select_n(x > 1.5, x, -x).tolist() == [1, -2, -3]
    assert lax.clamp(1.5, x, 2.5).tolist() == [1.5, 2, 2.5]
    assert lax.clamp(x, x + 5, x + 1).tolist() == [2, 3, 4]
    z = [1 + 2j, 3 - 1j, 2 + 0j, complex(np.nan, 0)]
    low, high = np.complex64(1 + 3j), np.complex64(2 + 1j)
    found = lax.clamp(low, np.array(z, np.complex64), high)
    # NumPy's order of complex numbers, the real part first.
    np.testing.assert_array_equal(found, np.minimum(np.maximum(np.array(z, np.complex64), low), high))


@pytest.mark.parametrize(
    ("call", "dtype", "weak"),
    [
        (lambda: lax.add(np.ones(2, np.float32), 1), "float32", False),
        (lambda: lax.add(1, np.ones(2, np.int8)), "int8", False),
        (lambda: lax.mul(np.ones(2, np.complex64), 2.0), "complex64", False),
        (lambda: lax.add(1, 2), "int32", True),
        (lambda: lax.add(1, 2.0), "float32", True),
        (lambda: lax.max(np.float16(1), 2.0), "float16", False),
        (lambda: lax.exp(1), "float32", True),
        (lambda: lax.lt(np.ones(2, np.uint8), 3), "bool", False),
    ],
)
def test_python_numbers_adapt(call: Callable[[], Array], dtype: str, weak: bool) -> None:
    assert (call().dtype, call().weak_type) == (np.dtype(dtype), weak)


def test_transformations() -> None:
    x = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)

    def f(x: Any) -> Array:
        return lax.mul(lax.sin(x), lax.add(x, 1.0))

    np.testing.assert_allclose(effx.vmap(f)(x), np.sin(x) * (x + 1), rtol=1e-6)
    np.testing.assert_allclose(effx.jit(f)(x), np.sin(x) * (x + 1), rtol=1e-6)
    want = np.cos(x) * (x + 1) + np.sin(x)
    np.testing.assert_allclose(effx.grad(lambda x: lax.reduce_sum(f(x), (0, 1)))(x), want, rtol=1e-5)
    # An axis of size 1 that repeats gathers the derivatives of its copies.
    column = effx.grad(lambda c: lax.reduce_sum(lax.mul(c, x), (0, 1)))(np.ones((2, 1), np.float32))
    np.testing.assert_allclose(column, x.sum(1, keepdims=True), rtol=1e-6)
