"""Shapes, slices, gather and scatter, conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.errors import NoRuleError, ShapeError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def same(found: Array, want: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(want))
    assert found.shape == np.shape(want)


def test_making_arrays() -> None:
    same(lax.full((2, 3), 7), np.full((2, 3), 7))
    same(lax.full((), True), True)
    assert lax.full(3, 1.0, "bfloat16").shape == (3,)
    assert lax.full((0, 2), 1.0).shape == (0, 2)
    like = lax.full_like(np.ones((2, 1), np.int8), 5)
    assert (like.shape, like.dtype, like.weak_type) == ((2, 1), np.dtype(np.int8), False)
    assert lax.full_like(1.0, 2).weak_type
    assert lax.full_like(effx.ShapeDtypeStruct((3,), np.float16), 2.0).dtype == np.float16
    assert lax.full_like(X, 1, int, (2,)).dtype == np.int32
    same(lax.iota(float, 4), np.arange(4.0))
    same(lax.broadcasted_iota("uint8", (2, 3), 0), [[0] * 3, [1] * 3])


def test_changing_shapes() -> None:
    same(lax.broadcast(X[0, 0], (2, 3)), np.broadcast_to(X[0, 0], (2, 3, 4)))
    same(
        lax.broadcast_in_dim(X[:, :, :1], (2, 5, 3, 4), (0, 2, 3)),
        np.broadcast_to(X[:, None, :, :1], (2, 5, 3, 4)),
    )
    same(lax.reshape(X, (4, 6)), X.reshape(4, 6))
    same(lax.reshape(X, (24,), (2, 0, 1)), X.transpose(2, 0, 1).ravel())
    same(lax.transpose(X, (2, 0, 1)), X.transpose(2, 0, 1))
    same(lax.transpose(X, [0, 1, 2]), X)
    same(lax.rev(X, (0, 2)), X[::-1, :, ::-1])
    same(lax.squeeze(X[:, :1], (-2,)), X[:, 0])
    same(lax.expand_dims(X, (0, -1)), X[None, ..., None])
    same(lax.collapse(X, 0, 2), X.reshape(6, 4))
    same(lax.collapse(X, 1), X.reshape(2, 12))
    same(lax.collapse(X, -2, 3), X.reshape(2, 12))


def test_joining_and_cutting() -> None:
    same(lax.concatenate([X, X[:, :1]], 1), np.concatenate([X, X[:, :1]], 1))
    same(lax.concatenate([X], 0), X)
    same(lax.concatenate(X, 0), X.reshape(6, 4))
    for part, want in zip(lax.split(X, (1, 0, 3), 2), np.split(X, (1, 1), 2), strict=True):
        same(part, want)
    same(lax.slice(X, (0, 1, 0), (2, 3, 4), (1, 1, 2)), X[:, 1:3, ::2])
    same(lax.slice_in_dim(X, -2, None, axis=-1), X[..., -2:])
    same(lax.slice_in_dim(X, 0, 3, 2, 1), X[:, 0:3:2])
    same(lax.index_in_dim(X, -1, 1), X[:, -1:])
    same(lax.index_in_dim(X, 2, 2, keepdims=False), X[..., 2])


@pytest.mark.parametrize(
    ("config", "reference"),
    [
        ([(1, 2, 0)], [9, 0, 1, 2, 9, 9]),
        ([(0, 0, 1)], [0, 9, 1, 9, 2]),
        ([(-1, 1, 0)], [1, 2, 9]),
        ([(-1, -1, 2)], [9, 9, 1, 9, 9]),
        ([(-2, -1, 0)], []),
    ],
)
def test_pad(config: list[tuple[int, int, int]], reference: list[int]) -> None:
    same(lax.pad(np.arange(3), 9, config), np.asarray(reference, np.int32))


@pytest.mark.parametrize("start", [0, 1, 2, 9, -1, -3, -9])
def test_blocks_at_computed_starts(start: int) -> None:
    """A negative start counts from the end, then the start is bounded so that the block fits."""
    x = X[0]
    clamped = min(max(start + 4 if start < 0 else start, 0), 2)
    for given in (start, np.int8(start), effx.device_put(np.int32(start))):
        same(lax.dynamic_slice_in_dim(x, given, 2, 1), x[:, clamped : clamped + 2])
        same(lax.dynamic_slice(x, (0, given), (3, 2)), x[:, clamped : clamped + 2])
    same(lax.dynamic_slice(x, effx.device_put(np.array([0, start])), (3, 2)), x[:, clamped : clamped + 2])
    same(effx.jit(lambda i: lax.dynamic_slice_in_dim(x, i, 2, -1))(start), x[:, clamped : clamped + 2])
    plain = min(max(start, 0), 2)
    same(lax.dynamic_slice_in_dim(x, start, 2, 1, allow_negative_indices=False), x[:, plain : plain + 2])
    want = x.copy()
    want[:, clamped : clamped + 2] = 7
    same(lax.dynamic_update_slice_in_dim(x, np.full((3, 2), 7, np.float32), start, 1), want)
    same(lax.dynamic_update_slice(x, np.full((3, 2), 7, np.float32), (0, start)), want)


@pytest.mark.parametrize("index", [0, 3, -1, 5])
def test_single_indices(index: int) -> None:
    x, clamped = X[0], min(index % 4 if index < 0 else index, 3)
    same(lax.dynamic_index_in_dim(x, index, 1), x[:, clamped : clamped + 1])
    same(lax.dynamic_index_in_dim(x, np.uint8(index % 256), 1, keepdims=False), x[:, clamped])
    want = x.copy()
    want[:, clamped] = [1, 2, 3]
    row = np.array([1, 2, 3], np.float32)
    same(lax.dynamic_update_index_in_dim(x, row, index, 1), want)
    same(lax.dynamic_update_index_in_dim(x, row[:, None], index, -1), want)
    want[:, clamped] = 5
    same(
        lax.dynamic_update_index_in_dim(np.arange(4), 9, index, 0),
        np.where(np.arange(4) == clamped, 9, np.arange(4)),
    )


POINT = lax.GatherDimensionNumbers((), (0,), (0,))
ROW = lax.GatherDimensionNumbers((1,), (0,), (0,))


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int64"])
def test_gather_modes(dtype: str) -> None:
    x = np.array([5.0, 6.0, 7.0], np.float32)
    starts = np.array([[2], [0], [3], [100]]).astype(dtype)
    same(lax.gather(x, starts, POINT, (1,)), [7, 5, 7, 7])
    same(lax.gather(x, starts, POINT, (1,), mode="clip"), [7, 5, 7, 7])
    same(lax.gather(x, starts, POINT, (1,), mode="fill"), [7, 5, np.nan, np.nan])
    same(
        lax.gather(x, starts, POINT, (1,), mode=lax.GatherScatterMode.FILL_OR_DROP, fill_value=-1.0),
        [7, 5, -1, -1],
    )
    same(lax.gather(x, starts[:2], POINT, (1,), mode="promise_in_bounds", unique_indices=True), [7, 5])


def test_gather_of_rows_and_windows() -> None:
    starts = np.array([[-1], [0], [1], [5]])
    same(lax.gather(X, starts, lax.GatherDimensionNumbers((1, 2), (0,), (0,)), (1, 3, 4)), X[[0, 0, 1, 1]])
    filled = lax.gather(X[0], starts, ROW, (1, 4), mode="fill")
    same(filled, np.stack([np.full(4, np.nan), X[0, 0], X[0, 1], np.full(4, np.nan)]).astype(np.float32))
    windows = lax.gather(
        X[0, 0], np.array([[0], [2], [3]]), lax.GatherDimensionNumbers((1,), (), (0,)), (2,), mode="fill"
    )
    same(windows, np.array([[0, 1], [2, 3], [np.nan, np.nan]], np.float32))
    for dtype, fill in (("int8", -128), ("uint8", 255), ("bool", True)):
        y = lax.gather(np.zeros(2, dtype), np.array([[7]]), POINT, (1,), mode="fill")
        assert y.tolist() == [fill]


def test_gather_with_batches() -> None:
    indices = np.array([[[1], [3]], [[0], [2]], [[3], [3]]])
    numbers = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    found = lax.gather(X[0], indices, numbers, (1, 1), mode="fill")
    same(found, np.take_along_axis(X[0], indices[..., 0], 1))
    batched = effx.vmap(lambda x, i: lax.gather(x, i, POINT, (1,)))(X[0], indices)
    same(batched, np.take_along_axis(X[0], indices[..., 0], 1))


@pytest.mark.parametrize(
    ("name", "at", "want"),
    [
        ("scatter", [2, 0], [8.0, 2.0, 9.0]),
        ("scatter_add", [0, 0], [18.0, 2.0, 3.0]),
        ("scatter_sub", [0, 0], [-16.0, 2.0, 3.0]),
        ("scatter_mul", [0, 0], [72.0, 2.0, 3.0]),
        ("scatter_min", [1, 1], [1.0, 2.0, 3.0]),
        ("scatter_max", [1, 1], [1.0, 9.0, 3.0]),
    ],
)
def test_scatter(name: str, at: list[int], want: list[float]) -> None:
    """Updates out of range are dropped, or with "clip" put at the nearest index."""
    f = getattr(lax, name)
    x, updates = np.array([1.0, 2.0, 3.0], np.float32), np.array([9.0, 8.0], np.float32)
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    indices = np.array(at)[:, None]
    same(f(x, indices, updates, numbers), want)
    same(f(x, indices.astype(np.uint8), updates, numbers, mode="drop"), want)
    same(effx.jit(lambda x, u: f(x, indices, u, numbers))(x, updates), want)
    outside = np.array([[5], [-1]])
    same(f(x, outside, updates, numbers), x)
    near = f(x, np.array([[2], [0]]), updates, numbers)
    same(f(x, outside, updates, numbers, mode="clip"), near)


def test_scatter_of_windows() -> None:
    x = np.zeros((2, 5), np.float32)
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0, 1))
    update = np.array([[1, 2], [3, 4]], np.float32)
    same(lax.scatter_add(x, np.array([[0, 1], [1, 4]]), update, numbers), [[0, 1, 2, 0, 0], [0] * 5])
    same(
        lax.scatter_add(x, np.array([[0, 1], [1, 4]]), update, numbers, mode="clip"),
        [[0, 1, 2, 0, 0], [0, 0, 0, 3, 4]],
    )


def test_derivatives_of_gather_and_scatter() -> None:
    """Each is the other's transpose."""
    x, indices = np.arange(4.0, dtype=np.float32), np.array([[1], [1], [3]])
    weights = np.array([1.0, 10.0, 100.0], np.float32)
    ct = effx.grad(lambda x: (lax.gather(x, indices, POINT, (1,)) * weights).sum())(x)
    same(ct, [0, 11, 0, 100])
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    coefficients = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    ct = effx.grad(lambda u: (lax.scatter_add(x, indices, u, numbers) * coefficients).sum())(weights)
    same(ct, [2, 2, 4])


def test_conversions() -> None:
    x = np.array([-1.7, 0.0, 2.9], np.float32)
    same(lax.convert_element_type(x, int), [-1, 0, 2])
    same(lax.convert_element_type(x, bool), [True, False, True])
    same(lax.convert_element_type(np.array([1 + 2j]), float), [1.0])
    assert not lax.convert_element_type(1, int).weak_type
    same(lax.convert_element_type(2**100, np.float32), np.float32(2**100))
    same(lax.convert_element_type(-(2**70), complex), np.complex64(-(2**70)))
    with pytest.raises(OverflowError):
        lax.convert_element_type(2**100, int)
    assert not effx.make_jaxpr(lambda x: lax.broadcast(x, ()))(x).equations
    with effx.enable_x64(True):
        assert lax.convert_element_type(x, float).dtype == np.float64
    same(lax.bitcast_convert_type(x, "uint32"), x.view(np.uint32))
    same(lax.bitcast_convert_type(x, "uint8"), x.view(np.uint8).reshape(3, 4))
    same(lax.bitcast_convert_type(x.view(np.uint8).reshape(3, 4), "float32"), x)
    same(lax.reduce_precision(np.array([1.01, 3.3], np.float32), 5, 2), [1.0, 3.5])


def test_identities_of_trees() -> None:
    tree = {"a": X[0, 0], "b": (np.arange(2), 3.0)}
    again = lax.optimization_barrier(tree)
    same(again["a"], X[0, 0])
    assert lax.optimization_barrier(()) == ()
    assert lax.stop_gradient(tree)["b"][1] == 3.0
    f = lambda t: (lax.stop_gradient(t)["a"] * t["a"]).sum()  # noqa: E731
    same(effx.grad(f)({"a": X[0, 0]})["a"], X[0, 0])
    same(effx.grad(lambda x: (lax.optimization_barrier({"a": x})["a"] ** 2).sum())(X[0, 0]), 2 * X[0, 0])


def test_stacks_tiles_and_ranks() -> None:
    """They give what NumPy's functions give, at sizes 0 and 1 too, inside jit."""
    for shape in ((2, 3), (1, 2), (0, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for axis in (0, 1, -1):
            got = effx.jit(lambda v, axis=axis: lax.stack([v, 2 * v], axis))(x)
            np.testing.assert_array_equal(np.asarray(got), np.stack([x, 2 * x], axis))
            parts = lax.unstack(x, axis)
            assert [np.asarray(part).tolist() for part in parts] == [
                v.tolist() for v in np.moveaxis(x, axis, 0)
            ]
        for reps in ((2, 1), (1, 3), (0, 2)):
            got = effx.jit(lambda v, reps=reps: lax.tile(v, reps))(x)
            np.testing.assert_array_equal(np.asarray(got), np.tile(x, reps))
        assert lax.broadcast_to_rank(x, 4).shape == (1, 1, *shape)
        assert lax.broadcast_like(np.float32(2), x).shape == shape
    assert lax.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert lax.empty((2, 0), np.int8).shape == (2, 0)
    for call, text in (
        (lambda: lax.stack([]), "stack: takes at least one array"),
        (lambda: lax.unstack(np.float32(1)), r"unstack: axis 0 is out of range for the 0 axes of f32\[\]"),
        (
            lambda: lax.tile(np.zeros(2, np.float32), (1, 2)),
            r"tile: needs a repetition of at least 0 for each axis",
        ),
        (
            lambda: lax.broadcast_to_rank(np.zeros(2, np.float32), 0),
            r"broadcast_to_rank: f32\[2\] has more than 0 axes",
        ),
    ):
        with pytest.raises(ShapeError, match=text):
            call()


def test_slopes_of_scattered_products() -> None:
    """By the operand always; by the factors where no index is there twice, which must be promised."""
    x, u = enp.array([2.0, 3.0, 5.0]), enp.array([7.0, 11.0])
    twice = np.array([1, 1])

    def product(x: Array, u: Array, at: np.ndarray[Any, Any], unique: bool) -> Array:
        return x.at[at].multiply(u, unique_indices=unique).sum()

    assert effx.grad(product)(x, u, twice, False).tolist() == [1.0, 77.0, 1.0]
    assert effx.grad(product, 1)(x, u, np.array([2, 0]), True).tolist() == [5.0, 2.0]
    assert effx.grad(product, 1)(x, u[:1], np.array([2]), False).tolist() == [5.0]
    slopes = effx.grad(lambda u: effx.vmap(lambda v: x.at[1].multiply(v))(u).sum())(u)
    assert slopes.tolist() == [3.0, 3.0]
    with pytest.raises(NoRuleError) as caught:
        effx.grad(product, 1)(x, u, twice, False)
    assert caught.value.message == (
        "scatter: products have no derivative by their factors where indices may be equal; "
        "unique_indices=True promises that they are not"
    )
