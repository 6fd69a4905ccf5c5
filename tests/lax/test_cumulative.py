"""Cumulative operations of every size at which their form changes, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import effx
from effx import dtypes, lax
from effx.laws.samples import Data

RNG = np.random.default_rng(5)
OPERATIONS: dict[str, tuple[Callable[..., effx.Array], np.ufunc]] = {
    "cumsum": (lax.cumsum, np.add),
    "cumprod": (lax.cumprod, np.multiply),
    "cummax": (lax.cummax, np.maximum),
    "cummin": (lax.cummin, np.minimum),
}


def integers(shape: tuple[int, ...], dtype: str) -> Data:
    """Small numbers; ones and minus ones only, so that products stay small too."""
    return (1 - 2 * RNG.integers(0, 2, shape)).astype(dtype)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("n", [1, 64, 65, 4095, 4096, 4097, 66_049, 70_001])
def test_sizes(name: str, n: int) -> None:
    """Forward and backward, exactly, around the sizes where blocks begin and where they do not fit."""
    x = integers((n,), "int32")
    f, ufunc = OPERATIONS[name]
    np.testing.assert_array_equal(f(x), ufunc.accumulate(x))
    np.testing.assert_array_equal(f(x, reverse=True), ufunc.accumulate(x[::-1])[::-1])


@pytest.mark.parametrize("shape", [(3, 5000), (5000, 3), (400, 300), (2, 999, 7), (1, 4, 3000), (6000, 1)])
def test_axes(shape: tuple[int, ...]) -> None:
    """Each axis, however many elements the others have."""
    x = integers(shape, "int32")
    for axis in range(x.ndim):
        np.testing.assert_array_equal(lax.cumsum(x, axis), np.cumsum(x, axis))
        np.testing.assert_array_equal(
            lax.cummax(x, axis, reverse=True), np.flip(np.maximum.accumulate(np.flip(x, axis), axis), axis)
        )


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "complex64", "bfloat16"])
def test_dtypes(dtype: str) -> None:
    """Results have the operand's dtype; sums stay small enough to be exact."""
    x = np.tile(np.array([1, 2, -3] if dtype != "uint16" else [1, 2, 0]), 2000)
    want = np.cumsum(x)
    got = lax.cumsum(x.astype(dtypes.bfloat16 if dtype == "bfloat16" else dtype))
    assert str(got.dtype) == dtype
    np.testing.assert_array_equal(np.asarray(got).real.astype(want.dtype), want)


def test_booleans_and_nan() -> None:
    """Maxima of truth values; a NaN stays from its place on."""
    x = np.zeros(5000, bool)
    x[3000] = True
    np.testing.assert_array_equal(lax.cummax(x), np.maximum.accumulate(x))
    y = RNG.normal(size=5000).astype(np.float32)
    y[4000] = np.nan
    np.testing.assert_array_equal(lax.cummin(y), np.minimum.accumulate(y))
    np.testing.assert_array_equal(np.isnan(lax.cumsum(y)), np.arange(5000) >= 4000)


def test_batches_and_derivatives() -> None:
    """A batch is a loop, and the derivative of sums is the sum from behind."""
    x = RNG.normal(size=(4, 5000)).astype(np.float32)
    np.testing.assert_allclose(effx.vmap(lax.cumsum)(x), np.cumsum(x, 1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(effx.vmap(lax.cumsum, 1, 1)(x.T), np.cumsum(x, 1).T, rtol=1e-3, atol=1e-3)
    slope = effx.grad(lambda v: (lax.cumsum(v) * x[1]).sum())(x[0])
    np.testing.assert_allclose(slope, np.cumsum(x[1][::-1])[::-1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 33])
def test_derivatives_of_products(n: int, reverse: bool) -> None:
    """Each running product's derivative by an element is the product of its other factors, zeros among them."""
    x = RNG.uniform(-2.0, 2.0, (n, 2))
    x[n // 3 : n // 3 + 2, 0] = 0.0
    order = slice(None, None, -1) if reverse else slice(None)
    expected = np.zeros((n, 2, n))
    for i in range(n):
        for j in range(i + 1):
            others = x[order][: i + 1].copy()
            others[j] = 1.0
            expected[i, :, j] = others.prod(0)

    def multiply(column: effx.Array) -> effx.Array:
        return lax.cumprod(column, 0, reverse)

    with effx.enable_x64():
        columns = effx.numpy.asarray(x)
        by_column = np.asarray(effx.vmap(effx.jacrev(multiply), 1, 1)(columns))
        forward = np.asarray(effx.vmap(effx.jacfwd(multiply), 1, 1)(columns))
    np.testing.assert_allclose(by_column[order][:, :, order], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(forward, by_column, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("sizes", "axis"), [("b, 7", 1), ("b, 700", 1), ("7, b", 1), ("b, 7", 0), ("700, b", 0)]
)
def test_symbolic_sizes(name: str, sizes: str, axis: int) -> None:
    """A size that is not known when the program is written, of the axis itself or of another one."""
    function, oracle = OPERATIONS[name]
    shape = effx.export.symbolic_shape(sizes)
    for reverse in (False, True):
        program = effx.export.export(effx.jit(lambda x, r=reverse: function(x, axis, r)))(
            effx.ShapeDtypeStruct(shape, np.float32)
        )
        x = integers(tuple([n if type(n) is int else 5 for n in shape]), "f4")
        order = (slice(None),) * axis + (slice(None, None, -1 if reverse else 1),)
        np.testing.assert_array_equal(program.call(x), oracle.accumulate(x[order], axis)[order])


def test_gradients_of_products_in_batches_of_symbolic_size() -> None:
    """The derivative is that of the batch whose size is known."""

    def total(x: effx.Array) -> effx.Array:
        return lax.cumprod(x, 1).sum()

    (b,) = effx.export.symbolic_shape("b")
    program = effx.export.export(effx.jit(effx.grad(total)))(effx.ShapeDtypeStruct((b, 6), np.float32))
    x = RNG.uniform(-1.0, 1.0, (4, 6)).astype(np.float32)
    np.testing.assert_allclose(program.call(x), effx.grad(total)(effx.numpy.asarray(x)), rtol=1e-5, atol=1e-5)
