"""Elementwise functions of lax against NumPy and SciPy, over dtypes and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import effx
from effx import lax
from effx.array import Array
from effx.errors import DTypeError
from effx.ir.ops.base import Elementwise
from effx.ir.types import array_type
from effx.laws.samples import Data, draw_data, plain_operations, sample_of, values
from tests.ops.table import SLOW_TO_COMPILE

SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (2, 3)]
PAIRS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (2, 3)),
    ((), (2, 3)),
    ((2, 3), ()),
    ((2, 1), (1, 3)),
    ((), ()),
    ((0,), (0,)),
    ((1,), (4,)),
]
# The first dtype of a kind is tried in all shapes.
DTYPES = {"f": "f4 f8 f2", "i": "i4", "u": "u1", "c": "c8", "b": "bool"}
RTOL = {"f8": 1e-12, "f4": 1e-5, "f2": 3e-3, "c8": 3e-5}

UNARY, BINARY = [
    [op for op in plain_operations(arity) if sample_of(type(op)).public is not None] for arity in (1, 2)
]


def dtypes_of(op: Elementwise) -> list[str]:
    """The dtypes of the operation's kinds, the most usual one first."""
    return [dtype for kind in "fiubc" if kind in op.kinds for dtype in DTYPES[kind].split()]


def drawn(op: Elementwise, dtype: str, *shapes: tuple[int, ...]) -> list[Data]:
    types = [array_type(np.dtype(dtype), shape) for shape in shapes]
    return draw_data(sample_of(type(op)).domains, types, np.random.default_rng(len(op.name)))


def check(op: Elementwise, dtype: str, *shapes: tuple[int, ...]) -> None:
    """The public function gives the operation's values, of broadcast operands."""
    sample = sample_of(type(op))
    assert sample.public is not None
    operands = drawn(op, dtype, *shapes)
    y, want = sample.public(*operands), values(op, *np.broadcast_arrays(*operands))
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    tolerance = RTOL.get(dtype, 0.0) * sample.tolerance
    np.testing.assert_allclose(y, want, tolerance, tolerance / (10 if len(shapes) > 1 else 1))


@pytest.mark.parametrize("op", UNARY, ids=lambda op: str(op.name))
def test_unary(op: Elementwise) -> None:
    """In all dtypes and shapes, and under jit."""
    f = sample_of(type(op)).public
    assert f is not None
    main, *rest = dtypes_of(op)
    with effx.enable_x64(True):
        for shape in SHAPES:
            check(op, main, shape)
        for dtype in rest:
            check(op, dtype, (5,))
        (x,) = drawn(op, main, (5,))
        np.testing.assert_array_equal(effx.jit(f)(x), f(x))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: str(op.name))
def test_binary(op: Elementwise) -> None:
    """Equal shapes, scalars on either side, and axes of size 1."""
    main, *rest = dtypes_of(op)
    with effx.enable_x64(True):
        # XLA takes a second and more for each program of the slow ones.
        for pair in PAIRS[:2] if type(op) in SLOW_TO_COMPILE else PAIRS:
            check(op, main, *pair)
        for dtype in rest:
            check(op, dtype, (2, 3), (2, 3))


# What the reference computes with formulas of its own.
FORMULAS: dict[str, Callable[..., Any]] = {
    "logistic": special.expit,
    "erf": special.erf,
    "erfc": special.erfc,
    "erf_inv": special.erfinv,
    "rsqrt": lambda x: x**-0.5,
    "round_away_from_zero": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "population_count": lambda x: np.bitwise_count(x.view("u8")),
    "shift_left": lambda x, y: np.where(y < 64, np.left_shift(x, y % 64), 0),
}


@pytest.mark.parametrize(
    "op", [op for op in [*UNARY, *BINARY] if op.name in FORMULAS], ids=lambda op: str(op.name)
)
def test_reference(op: Elementwise) -> None:
    """The values that all these tests ask for are SciPy's."""
    with effx.enable_x64(True):
        operands = drawn(op, "f8" if "f" in op.kinds else "i8", *[(200,)] * op.arity)
        np.testing.assert_allclose(values(op, *operands), FORMULAS[op.name](*operands), rtol=1e-13)


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
        (lambda: lax.max(np.float16(1), 2.0), "float16", False),
        (lambda: lax.exp(1), "float32", True),
        (lambda: lax.lt(np.ones(2, np.uint8), 3), "bool", False),
    ],
)
def test_python_numbers_adapt(call: Callable[[], Array], dtype: str, weak: bool) -> None:
    assert (call().dtype, call().weak_type) == (np.dtype(dtype), weak)


def test_python_numbers_of_different_types() -> None:
    """Without an array they are refused as arrays of these types are: nothing promotes in lax."""
    for f in (lax.add, lax.mul, lax.div, lax.rem, lax.eq, lax.lt):
        with pytest.raises(DTypeError) as error:
            f(0, 2.0)
        assert error.value.message == (
            f"{f.__name__}: operand dtypes differ: operand 0 is i32[]~, operand 1 is f32[]~"
        )


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
