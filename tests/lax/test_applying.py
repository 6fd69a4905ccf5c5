"""Elements at index arrays, functions applied in place, polynomials, and what turns values into arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, IndexingError, ShapeError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
NUMBERS = lax.ScatterDimensionNumbers((), (0,), (0,))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8"])
def test_index_take(dtype: str) -> None:
    """Slices at tuples of indices, in front; indices count modulo the size."""
    i, j = np.array([0, 5, 2], dtype), np.array([1, 1, 7], dtype)
    np.testing.assert_array_equal(lax.index_take(X, (i,), (2,)), X[:, :, i % 4].transpose(2, 0, 1))
    np.testing.assert_array_equal(lax.index_take(X, (i, j), (-1, 0)), X[j % 2, :, i % 4])
    np.testing.assert_array_equal(
        effx.jit(lambda x: lax.index_take(x, (i,), (1,)))(X), X[:, i % 3].swapaxes(0, 1)
    )
    slope = effx.grad(lambda x: lax.index_take(x, (i,), (0,)).sum())(X)
    np.testing.assert_array_equal(slope[:, 0, 0], [2, 1])
    assert lax.index_take(X, (i[:0],), (0,)).shape == (0, 3, 4)
    np.testing.assert_array_equal(lax.index_take(X, (np.array([-1]),), (0,)), X[-1:])


def test_scatter_apply() -> None:
    """As often as an element is indexed; out of range not at all, or clipped."""
    x, indices = np.arange(4.0, dtype=np.float32), np.array([[1], [1], [3], [9]])

    def applied(x: Any, **rest: Any) -> Any:
        return lax.scatter_apply(x, indices, lambda v: v * 2 + 1, NUMBERS, update_shape=(4,), **rest)

    np.testing.assert_array_equal(applied(x), [0, 7, 2, 7])
    np.testing.assert_array_equal(effx.jit(applied)(x), [0, 7, 2, 7])
    np.testing.assert_array_equal(applied(x, mode="clip"), [0, 7, 2, 15])
    np.testing.assert_array_equal(effx.vmap(applied)(np.stack([x, x + 1])), [[0, 7, 2, 7], [1, 11, 3, 9]])
    once = effx.grad(lambda x: applied(x, unique_indices=True).sum())
    np.testing.assert_array_equal(once(x), [1, 2, 1, 2])
    assert effx.jvp(applied, (x,), (np.ones_like(x),))[1].tolist() == [1, 4, 1, 2]


def test_one_hot_mode() -> None:
    """Out of range is nothing: zeros are read, and nothing is written."""
    gathered = lax.GatherDimensionNumbers((), (0,), (0,))
    x, indices = np.arange(1.0, 5.0, dtype=np.float32), np.array([[1], [9], [-1]])
    np.testing.assert_array_equal(lax.gather(x, indices, gathered, (1,), mode="one_hot"), [2, 0, 0])
    added = lax.scatter_add(x, indices, np.ones(3, np.float32), NUMBERS, mode=lax.GatherScatterMode.ONE_HOT)
    np.testing.assert_array_equal(added, [1, 3, 3, 4])
    mode = lax.GatherScatterMode
    assert [mode.from_any(m) for m in ("drop", None, mode.CLIP)] == [
        mode.FILL_OR_DROP,
        mode.FILL_OR_DROP,
        mode.CLIP,
    ]


@pytest.mark.parametrize("degree", [0, 1, 5, 12])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_polynomial(degree: int, dtype: str) -> None:
    """Values, with scalars and arrays; written out and as a loop."""
    x = np.array([-1, 0, 2]).astype(dtype)
    terms = [k - 3 for k in range(degree + 1)]
    want = np.polyval(terms[::-1], x)
    for unroll in (None, 2, 20):
        found = lax.polynomial(x, terms, unroll=unroll)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, want, rtol=1e-5)
    rows = np.stack([np.asarray(terms, dtype)] * 3, 1)
    np.testing.assert_allclose(lax.polynomial(x, rows), want, rtol=1e-5)
    np.testing.assert_allclose(
        lax.polynomial(x[:, None], [np.ones((1, 2), dtype), 1]), np.stack([1 + x] * 2, 1)
    )


@pytest.mark.parametrize("unroll", [None, 2])
def test_derivatives_of_polynomials(unroll: int | None) -> None:
    """In x of any order, a polynomial again; in the terms, the powers."""
    terms, x = [float(k) - 2 for k in range(6)], 0.7
    one = np.polynomial.Polynomial(terms)

    def f(x: Any) -> Any:
        return lax.polynomial(x, terms, unroll=unroll)

    assert float(effx.grad(f)(x)) == pytest.approx(one.deriv()(x), rel=1e-5)
    assert float(effx.grad(effx.grad(f))(x)) == pytest.approx(one.deriv(2)(x), rel=1e-5)
    assert float(effx.jvp(effx.grad(f), (x,), (1.0,))[1]) == pytest.approx(one.deriv(2)(x), rel=1e-5)
    powers = effx.grad(lambda c: lax.polynomial(x, c, unroll=unroll))(terms)
    np.testing.assert_allclose(np.asarray(powers), x ** np.arange(6), rtol=1e-5)
    np.testing.assert_allclose(effx.vmap(f)(np.array([x, 1.0])), one(np.array([x, 1.0])), rtol=1e-5)
    assert float(effx.grad(lambda x: lax.polynomial(x, [enp.float32(np.inf), 2.0]))(x)) == 2.0
    assert float(effx.grad(lambda x: lax.polynomial(x, [3.0]))(x)) == 0.0
    assert float(lax.polynomial(x, [])) == 0.0


def test_values_as_arrays() -> None:
    """A shape, a dtype, a staged number; a product in another dtype; an order that equal elements need not keep."""
    np.testing.assert_array_equal(lax.shape_as_value((2, 3)), [2, 3])
    empty = lax.shape_as_value(())
    assert empty.shape == (0,)
    assert empty.dtype == np.int32
    given = (1, 1.5, True, 1j, np.float64(1), np.arange(2), "int8", float, np.int16, enp.ones(2, "bfloat16"))
    names = [
        "int32",
        "float32",
        "bool",
        "complex64",
        "float32",
        "int32",
        "int8",
        "float32",
        "int16",
        "bfloat16",
    ]
    assert [lax.dtype(x).name for x in given] == names
    assert float(lax.stage(3.0)) == 3.0
    assert [e.op.name for e in effx.make_jaxpr(lambda: lax.stage(3.0))().equations] == ["copy"]
    assert int(lax.mul(np.int8(100), np.int8(2), out_dtype=np.int32)) == 200
    assert lax.mul(np.int8(3), np.float32(2), out_dtype="bfloat16").dtype.name == "bfloat16"
    values, places = lax.top_k(np.array([3, 9, 5]), 2, is_stable=False)
    assert (np.asarray(values).tolist(), np.asarray(places).tolist()) == ([9, 5], [1, 2])
    assert (
        "is_stable = false"
        in effx.jit(lambda x: lax.top_k(x, 1, is_stable=False)).lower(np.arange(3)).as_text()
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: lax.index_take(X, (np.array([0]),), (0, 1)),
            IndexingError,
            "index_take: needs as many arrays of indices as axes, at least one, got 1 for 2 axes",
        ),
        (
            lambda: lax.index_take(X, (np.array([0.5]),), (0,)),
            DTypeError,
            "index_take: indices must be integers, got f32[1]",
        ),
        (
            lambda: lax.index_take(X, (np.array([[0]]),), (0,)),
            ShapeError,
            "index_take: indices must be arrays with one axis, of one size, got i32[1,1]",
        ),
        (
            lambda: lax.index_take(X, (np.array([0]),) * 2, (1, 1)),
            ShapeError,
            "index_take: axes (1, 1) repeat an axis",
        ),
        (
            lambda: lax.index_take(X[:0], (np.array([0]),), (0,)),
            IndexingError,
            "index_take: axis 0 of f32[0,3,4] has no elements",
        ),
        (
            lambda: lax.scatter_apply(X[0, 0], np.array([[0]]), lambda x: x > 0, NUMBERS, update_shape=(1,)),
            DTypeError,
            "scatter_apply: func must keep the dtype of f32[4], but returns bool[4]",
        ),
        (
            lambda: lax.scatter_apply(X[0, 0], np.array([[0]]), lambda x: x[:1], NUMBERS, update_shape=(1,)),
            ShapeError,
            "scatter_apply: func must keep the shape of f32[4], but returns f32[1]",
        ),
        (
            lambda: lax.polynomial(X, [X[0]]),
            ShapeError,
            "polynomial: operands must be scalars or of one rank, got the ranks [2, 3]",
        ),
        (
            lambda: lax.polynomial(X, [1.0], unroll=-1),
            ShapeError,
            "polynomial: unroll must not be negative, got -1",
        ),
        (
            lambda: lax.dtype([1]),
            DTypeError,
            "dtype: expected an array, number, dtype or scalar type, got [1] of type list",
        ),
        (
            lambda: lax.GatherScatterMode.from_any("wrap"),
            IndexingError,
            "GatherScatterMode.from_any: mode must be one of clip, fill, promise_in_bounds, one_hot, drop, got 'wrap'",
        ),
    ],
)
def test_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).split("\n")[0] == text
