"""effx.ops combines elements by the number of their segment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import ops
from effx.errors import ConcretizationError, DTypeError, IndexingError, ShapeError
from effx.lax import GatherScatterMode

COMBINE = {
    "segment_sum": (np.add, 0.0),
    "segment_prod": (np.multiply, 1.0),
    "segment_max": (np.maximum, -np.inf),
    "segment_min": (np.minimum, np.inf),
}
DATA = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
IDS = np.array([0, 3, -1, 3, 9, 2, 0])


MODES = "clip, fill, promise_in_bounds, one_hot, drop"


def looped(name: str, data: np.ndarray, ids: np.ndarray, count: int) -> np.ndarray:
    ufunc, start = COMBINE[name]
    out = np.full((count, *data.shape[1:]), start, np.float64)
    for row, i in zip(data, ids, strict=True):
        if 0 <= i < count:
            out[i] = ufunc(out[i], row)
    return out


@pytest.mark.parametrize("name", COMBINE)
def test_values(name: str) -> None:
    """Numbers out of bounds are left out, or clipped; neither groups nor promises change the result."""
    function = getattr(ops, name)
    want = looped(name, DATA, IDS, 5)
    for options in ({}, {"bucket_size": 3}, {"mode": "drop"}, {"mode": GatherScatterMode.ONE_HOT}):
        np.testing.assert_allclose(function(DATA, IDS, 5, **options), want, rtol=1e-6)
    np.testing.assert_allclose(function(DATA, IDS), looped(name, DATA, IDS, 10), rtol=1e-6)
    clipped = np.clip(IDS, 0, 4)
    want = looped(name, DATA, clipped, 5)
    np.testing.assert_allclose(function(DATA, IDS, 5, mode="clip"), want, rtol=1e-6)
    order = np.argsort(clipped, kind="stable")
    got = function(DATA[order], clipped[order], 5, indices_are_sorted=True, mode="promise_in_bounds")
    np.testing.assert_allclose(got, want, rtol=1e-6)
    places = np.random.default_rng(1).permutation(7)
    got = function(DATA, places, unique_indices=True)
    np.testing.assert_array_equal(got[places], DATA)
    assert "unique_indices = true" in effx.jit(
        lambda x: function(x, places, 7, indices_are_sorted=True, unique_indices=True)
    ).lower(DATA).as_text()  # fmt: skip


@pytest.mark.parametrize("name", COMBINE)
def test_dtypes_and_sizes(name: str) -> None:
    for dtype in ("f2", "i4", "u1"):
        x = np.array([3, 1, 2, 2], dtype)
        got = getattr(ops, name)(x, np.array([1, 1, 0, 0]))
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, looped(name, x, np.array([1, 1, 0, 0]), 2))
    empty = {"segment_max": -128, "segment_min": 127, "segment_prod": 1, "segment_sum": 0}[name]
    nothing = np.zeros(0, np.int8)
    assert getattr(ops, name)(nothing, np.zeros(0, int), 2).tolist() == [empty] * 2
    assert getattr(ops, name)(nothing, np.zeros(0, int)).shape == (0,)
    assert getattr(ops, name)(DATA, IDS, 0).shape == (0, 2)


def test_floats_without_infinity() -> None:
    """An empty segment's maximum is the dtype's lowest value, as float8_e4m3fn would read an infinity as NaN."""
    x = enp.array([2.0, 1.0], "float8_e4m3fn")
    assert ops.segment_max(x, np.array([1, 1]), 2).tolist() == [-448.0, 2.0]
    assert ops.segment_min(x, np.array([1, 1]), 2).tolist() == [448.0, 1.0]
    assert ops.segment_max(x.astype("float8_e5m2"), np.array([1, 1]), 2).tolist() == [-math.inf, 2.0]


def test_truth_values() -> None:
    x = np.array([True, False, False])
    assert ops.segment_max(x, np.array([0, 0, 1]), 3).tolist() == [True, False, False]
    assert ops.segment_min(x, np.array([0, 0, 1]), 3).tolist() == [False, False, True]
    with pytest.raises(DTypeError) as caught:
        ops.segment_sum(x, np.array([0, 0, 1]))
    assert str(caught.value).startswith(
        "segment_sum: takes numbers, got bool[3]; use segment_max or segment_min"
    )


def test_groups_round_less() -> None:
    x = np.full(100_000, 0.1, np.float32)
    ids = np.zeros(100_000, np.int32)
    exact = 0.1 * 100_000
    grouped = abs(float(ops.segment_sum(x, ids, 1, bucket_size=300)[0]) - exact)
    assert grouped < 0.1 < abs(float(ops.segment_sum(x, ids, 1)[0]) - exact)


@pytest.mark.parametrize("name", COMBINE)
def test_transformations(name: str) -> None:
    """Gradients are those of the loop, zero factors included; batch elements have numbers of their own."""
    function = getattr(ops, name)
    x = np.array([1.0, 2.0, 0.0, 3.0, 2.5, 2.0, 5.0])
    ids = np.array([0, 0, 1, 1, 2, 2, 2])
    with effx.enable_x64(True):

        def weighed(x: Any) -> Any:
            return (function(x, ids, 3) * np.array([1.0, 2.0, 3.0])).sum()

        slopes = effx.jit(effx.grad(weighed))(x)
        steps = np.eye(7) * 1e-6
        want = [float(weighed(x + h) - weighed(x - h)) / 2e-6 for h in steps]
        np.testing.assert_allclose(slopes, want, atol=1e-8, rtol=1e-8)
        if name == "segment_prod":  # with two factors 0 the second derivative is not
            many = np.array([3.0, 0.0, 0.0, 2.0])
            second = effx.hessian(lambda x: function(x, np.array([1, 0, 0, 0]), 2, mode="clip")[0])(many)
            np.testing.assert_array_equal(second, [[0, 0, 0, 0], [0, 0, 2, 0], [0, 2, 0, 0], [0, 0, 0, 0]])
    xs, many = np.stack([x, x + 1]), np.stack([ids, ids[::-1]])
    got = effx.vmap(lambda x, i: function(x, i, 3, bucket_size=2))(xs, many)
    np.testing.assert_allclose(got, [looped(name, a, i, 3) for a, i in zip(xs, many, strict=True)], rtol=1e-6)


def test_refused() -> None:
    rows: list[tuple[type[Exception], dict[str, Any], str]] = [
        (ShapeError, {"segment_ids": IDS[:2]},
         "segment_sum: segment_ids must number the elements of data's first axis, got i32[2] for f32[7,2]"),
        (DTypeError, {"segment_ids": DATA[:, 0]}, "segment_sum: segment_ids must be integers, got f32[7]"),
        (ShapeError, {"num_segments": -1}, "segment_sum: num_segments must not be negative, got -1"),
        (ShapeError, {"bucket_size": 0}, "segment_sum: bucket_size must be positive, got 0"),
        (IndexingError, {"mode": "no"}, f"segment_sum: mode must be one of {MODES}, got 'no'"),
    ]  # fmt: skip
    for kind, change, text in rows:
        with pytest.raises(kind) as caught:
            effx.ops.segment_sum(DATA, **{"segment_ids": IDS, **change})
        assert str(caught.value).partition("\n")[0] == text
    with pytest.raises(ConcretizationError) as caught:
        effx.jit(ops.segment_sum)(DATA, IDS)
    assert str(caught.value).partition("\n")[0] == (
        "segment_sum: num_segments must be given where the segment_ids i32[7] are abstract"
    )
