"""Arrays: dtypes and sizes that type checkers follow."""

from typing import Any, assert_type

import numpy as np
from typing_extensions import TypeVar

import effx.numpy as enp
from effx import Array, Scalar, Size, dtypes


class K(Size): ...


class M(Size): ...


class N(Size): ...


F = TypeVar("F", bound=dtypes.Floating)
Rows = TypeVar("Rows")

VECTOR = enp.ones(N(3), enp.float32)
MATRIX = enp.ones((M(2), N(3)), enp.float32)
INTEGERS = enp.ones(N(3), enp.int32)
COMPLEX = enp.ones(N(3), enp.complex64)
UNKNOWN: Array = enp.asarray([1.0, 2.0, 3.0])


def creation() -> None:
    assert_type(VECTOR, Array[enp.float32, N])
    assert_type(MATRIX, Array[enp.float32, M, N])
    assert_type(enp.zeros((K(1), M(2), N(3)), enp.bfloat16), Array[enp.bfloat16, K, M, N])
    assert_type(enp.zeros((), enp.int8), Scalar[enp.int8])
    assert_type(enp.zeros((2, 3), enp.float16), Array[enp.float16, Any, Any])
    assert_type(enp.zeros(3, enp.bool_), Array[enp.bool_, Any])
    assert_type(enp.zeros((2, 3)), Array)
    # 64-bit dtypes are 32-bit ones unless enable_x64 is on.
    assert_type(enp.zeros((2, 3), enp.float64), Array)
    assert_type(enp.zeros((2, 3), np.float32), Array)
    assert_type(enp.zeros_like(MATRIX), Array[enp.float32, M, N])
    assert_type(enp.ones_like(MATRIX, enp.int32), Array[enp.int32, M, N])
    assert enp.zeros((M(2), N(3)), enp.float32).shape == (2, 3)


def scalars() -> None:
    one: Scalar[enp.float32] = enp.float32(1)
    assert_type(one + 1.0, Scalar[enp.float32])
    assert isinstance(np.float32(1), enp.float32)
    assert enp.float32 == np.dtype("float32")
    assert enp.float32.dtype == np.float32


def unary() -> None:
    assert_type(enp.sin(VECTOR), Array[enp.float32, N])
    assert_type(enp.exp(MATRIX), Array[enp.float32, M, N])
    assert_type(enp.sin(COMPLEX), Array[enp.complex64, N])
    # Integers become floats, of a width that a flag decides.
    assert_type(enp.sin(INTEGERS), Array)
    assert_type(enp.sin(0.5), Array)
    assert_type(enp.sin(UNKNOWN), Array)
    assert_type(enp.floor(MATRIX), Array[enp.float32, M, N])
    assert_type(enp.square(INTEGERS), Array[enp.int32, N])
    assert_type(enp.abs(VECTOR), Array[enp.float32, N])
    assert_type(enp.abs(COMPLEX), Array)
    assert_type(enp.isnan(MATRIX), Array[enp.bool_, *tuple[Any, ...]])
    assert_type(-VECTOR, Array[enp.float32, N])
    assert_type(abs(VECTOR), Array[enp.float32, N])
    assert_type(abs(COMPLEX), Array[Any, N])
    assert_type(COMPLEX.conj(), Array[enp.complex64, N])
    assert_type(VECTOR.copy(), Array[enp.float32, N])
    assert_type(round(VECTOR), Array[Any, N])
    assert_type(round(VECTOR, 1), Array[enp.float32, N])
    assert enp.sin(VECTOR).dtype == np.float32
    assert enp.sin(VECTOR).shape == (3,)
    assert abs(COMPLEX).dtype == np.float32


def operators() -> None:
    assert_type(VECTOR + VECTOR, Array[enp.float32, N])
    assert_type(VECTOR * 2, Array[enp.float32, N])
    assert_type(VECTOR * 2.5, Array[enp.float32, N])
    assert_type(2.5 - VECTOR, Array[enp.float32, N])
    assert_type(1 / VECTOR, Array[enp.float32, N])
    assert_type(VECTOR / VECTOR, Array[enp.float32, N])
    assert_type(VECTOR**2, Array[enp.float32, N])
    assert_type(VECTOR + VECTOR.sum(), Array[enp.float32, N])
    assert_type(INTEGERS + 1, Array[enp.int32, N])
    assert_type(INTEGERS // INTEGERS, Array[enp.int32, N])
    # A float makes them floats of a width that a flag decides, and division of integers is true division.
    assert_type(INTEGERS + 1.5, Array)
    assert_type(INTEGERS / 2, Array)
    # Other dtypes promote, other sizes broadcast: both are seen when the function is traced.
    assert_type(VECTOR + INTEGERS, Array)
    assert_type(MATRIX + VECTOR, Array)
    assert_type(VECTOR + UNKNOWN, Array)  # basedpyright: differs
    assert_type(UNKNOWN + VECTOR, Array)
    assert (VECTOR + 2.5).dtype == np.float32
    assert (MATRIX + VECTOR).shape == (2, 3)


def comparisons() -> None:
    assert_type(VECTOR > 0, Array[enp.bool_, N])
    assert_type(VECTOR == VECTOR, Array[enp.bool_, N])
    top = MATRIX.max()
    assert_type(MATRIX <= top, Array[enp.bool_, M, N])  # noqa: SIM300
    assert_type(~(VECTOR > 0), Array[enp.bool_, N])
    assert_type((VECTOR > 0) & (VECTOR < 2), Array[enp.bool_, N])
    assert (VECTOR > 0).dtype == np.bool_


def products() -> None:
    wide = enp.ones((N(3), K(1)), enp.float32)
    assert_type(MATRIX @ wide, Array[enp.float32, M, K])
    assert_type(MATRIX @ VECTOR, Array[enp.float32, M])
    assert_type(VECTOR @ wide, Array[enp.float32, K])
    assert_type(VECTOR @ VECTOR, Scalar[enp.float32])
    assert_type(enp.dot(MATRIX, wide), Array[enp.float32, M, K])
    assert_type(enp.matmul(MATRIX, VECTOR), Array[enp.float32, M])
    assert_type(enp.dot(VECTOR, VECTOR), Scalar[enp.float32])
    assert_type(MATRIX.T, Array[enp.float32, N, M])
    assert_type(MATRIX.mT, Array[enp.float32, N, M])
    assert_type(VECTOR.T, Array[enp.float32, N])
    assert_type(MATRIX.T @ MATRIX, Array[enp.float32, N, N])
    assert MATRIX.T.shape == (3, 2)
    assert (MATRIX @ wide).shape == (2, 1)


def reductions() -> None:
    assert_type(VECTOR.sum(), Scalar[enp.float32])
    assert_type(MATRIX.mean(), Scalar[enp.float32])
    assert_type(INTEGERS.sum(), Scalar[Any])
    assert_type(INTEGERS.max(), Scalar[enp.int32])
    assert_type(MATRIX.any(), Scalar[enp.bool_])
    assert_type(MATRIX.argmax(), Scalar[Any])
    assert_type(MATRIX.std(), Scalar[enp.float32])
    assert_type(MATRIX.sum(axis=0), Array)
    assert_type(MATRIX.sum(keepdims=True), Array)
    assert_type(enp.sum(MATRIX), Scalar[enp.float32])
    assert_type(enp.mean(VECTOR), Scalar[enp.float32])
    assert_type(enp.max(INTEGERS), Scalar[enp.int32])
    assert_type(enp.sum(MATRIX, axis=0), Array)
    assert MATRIX.mean().shape == ()


def indexing() -> None:
    assert_type(MATRIX[0], Array[enp.float32, N])
    assert_type(MATRIX[0][1], Scalar[enp.float32])
    assert_type(MATRIX[0, 1], Array[enp.float32, *tuple[Any, ...]])
    assert_type(MATRIX[:1], Array[enp.float32, *tuple[Any, ...]])
    assert_type(UNKNOWN[0], Array)
    assert_type(list(MATRIX), list[Array[enp.float32, N]])
    assert_type(MATRIX.at[0].set(1.0), Array[enp.float32, M, N])
    assert MATRIX[0].shape == (3,)


def conversions() -> None:
    assert_type(VECTOR.astype(enp.bfloat16), Array[enp.bfloat16, N])
    assert_type(INTEGERS.astype(enp.float32), Array[enp.float32, N])
    assert_type(VECTOR.astype("int8"), Array[Any, N])
    assert_type(VECTOR.astype(enp.float64), Array[Any, N])
    assert_type(MATRIX.reshape(3, 2), Array[enp.float32, *tuple[Any, ...]])
    assert_type(MATRIX.ravel(), Array[enp.float32, Any])
    assert VECTOR.astype(enp.bfloat16).dtype == enp.bfloat16


def normalize(x: Array[F, Rows]) -> Array[F, Rows]:
    """A function for all floating dtypes and all vectors."""
    return x / x.sum()


def generic_functions() -> None:
    assert_type(normalize(VECTOR), Array[enp.float32, N])
    assert_type(normalize(UNKNOWN), Array[Any, Any])
    known: Array[enp.float32, N] = UNKNOWN  # what is unknown goes anywhere
    anything: Array = known
    assert_type(anything, Array)
    assert normalize(VECTOR).shape == (3,)
