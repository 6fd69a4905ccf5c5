"""Products over groups of rows, and the approximate largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, ShapeError

RNG = np.random.default_rng(0)
Numbers = lax.RaggedDotDimensionNumbers


def by_rows(lhs: Any, rhs: Any, sizes: Any, offset: int = 0) -> Any:
    """The definition, one row after the other."""
    out = np.zeros((len(lhs), rhs.shape[-1]), np.result_type(lhs, rhs))
    ends = np.cumsum(sizes)
    for row in range(len(lhs)):
        group = int((ends <= row).sum()) - offset
        if 0 <= group < len(rhs) and row < ends[-1]:
            out[row] = lhs[row] @ rhs[group]
    return out


@pytest.mark.parametrize(
    "sizes", [(10, 0, 30, 10), (0, 0, 0, 0), (50, 0, 0, 0), (3, 4, 5, 6), (20, 20, 20, 20)]
)
def test_ragged_dot(sizes: tuple[int, ...]) -> None:
    """Groups of every kind: empty, whole, too few rows and too many."""
    lhs, rhs = RNG.normal(size=(50, 7)).astype(np.float32), RNG.normal(size=(4, 7, 5)).astype(np.float32)
    groups = np.asarray(sizes)
    want = by_rows(lhs, rhs, groups)
    np.testing.assert_allclose(ragged(lhs, rhs, groups), want, rtol=1e-5, atol=1e-5)
    (dlhs, drhs) = effx.jit(effx.grad(lambda a, b: (lax.ragged_dot(a, b, groups) ** 2).sum(), (0, 1)))(
        lhs, rhs
    )
    bounds = np.clip(np.concatenate([[0], np.cumsum(groups)]), 0, 50)
    for i in range(4):
        rows = slice(bounds[i], bounds[i + 1])
        np.testing.assert_allclose(drhs[i], lhs[rows].T @ (2 * want[rows]), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(dlhs[rows], 2 * want[rows] @ rhs[i].T, rtol=1e-4, atol=1e-4)


ragged = effx.jit(lax.ragged_dot)


def test_dtypes_and_offset() -> None:
    lhs, rhs = RNG.integers(-4, 5, (9, 2)), RNG.integers(-4, 5, (3, 2, 3))
    sizes = np.array([2, 3, 1], np.uint8)
    for dtype in ("int32", "bfloat16", "float16", "float32", "complex64"):
        found = lax.ragged_dot(lhs.astype(dtype), rhs.astype(dtype), sizes)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(np.asarray(found).astype(complex), by_rows(lhs, rhs, sizes))
    wide = lax.ragged_dot(lhs.astype(np.float16), rhs, sizes, preferred_element_type=np.float32)
    assert wide.dtype == np.float32
    for offset in (0, 1, 2):
        found = lax.ragged_dot(lhs, rhs[:1], sizes, group_offset=offset)
        np.testing.assert_array_equal(found, by_rows(lhs, rhs[:1], sizes, offset))


@pytest.mark.parametrize("axes", [(0, 0, 0), (0, None, 0), (0, None, None), (None, 0, None), (None, None, 0)])
def test_batches(axes: tuple[int | None, ...]) -> None:
    whole = RNG.normal(size=(3, 6, 2)), RNG.normal(size=(3, 2, 2, 3)), RNG.integers(0, 4, (3, 2))
    args = [x if a == 0 else x[0] for x, a in zip(whole, axes, strict=True)]
    found = effx.vmap(lax.ragged_dot, axes)(*args)
    for i in range(3):
        lhs, rhs, sizes = [x[i] if a == 0 else x for x, a in zip(args, axes, strict=True)]
        want = by_rows(lhs, rhs, sizes)
        np.testing.assert_allclose(found[i], want, rtol=1e-5, atol=1e-5)


def test_groups_along_a_free_axis() -> None:
    """With batch axes, and free axes before and after the groups' one."""
    lhs, rhs = RNG.normal(size=(2, 3, 6, 4, 5)), RNG.normal(size=(3, 2, 5, 7))
    sizes = RNG.integers(0, 3, (2, 3, 3))
    numbers = Numbers((((4,), (2,)), ((0,), (1,))), (2,), (0,))
    found = lax.ragged_dot_general(lhs, rhs, sizes, numbers)
    assert found.shape == (2, 3, 6, 4, 7)
    for b, x, y in np.ndindex(2, 3, 4):
        want = by_rows(lhs[b, x, :, y], rhs[:, b], sizes[b, x])
        np.testing.assert_allclose(found[b, x, :, y], want, rtol=1e-4, atol=1e-4)
    shared = lax.ragged_dot_general(lhs, rhs, sizes[0, 0], numbers)
    np.testing.assert_allclose(
        shared[1, 2, :, 3], by_rows(lhs[1, 2, :, 3], rhs[:, 1], sizes[0, 0]), rtol=1e-4, atol=1e-4
    )


def test_groups_along_a_contracted_axis() -> None:
    """Each is summed by itself, over the axes before and after; along a batch axis nothing changes."""
    lhs, rhs = RNG.normal(size=(2, 3, 6, 4)), RNG.normal(size=(2, 3, 6, 5))
    sizes = RNG.integers(0, 4, (2, 3, 2))
    numbers = Numbers((((1, 2), (1, 2)), ((0,), (0,))), (2,), ())
    found = lax.ragged_dot_general(lhs, rhs, sizes, numbers)
    assert found.shape == (2, 2, 4, 5)
    for b in range(2):
        want = np.zeros((2, 4, 5))
        for x in range(3):
            bounds = np.concatenate([[0], np.cumsum(sizes[b, x])])
            for g in range(2):
                rows = slice(bounds[g], bounds[g + 1])
                want[g] += lhs[b, x, rows].T @ rhs[b, x, rows]
        np.testing.assert_allclose(found[:, b], want, rtol=1e-4, atol=1e-4)
    by_batch = Numbers((((2,), (2,)), ((0, 1), (0, 1))), (1,), ())
    found = lax.ragged_dot_general(lhs, rhs, sizes[:, 0], by_batch)
    np.testing.assert_allclose(found, np.einsum("bxrk,bxrn->bxkn", lhs, rhs), rtol=1e-4, atol=1e-4)


L, R, S = np.ones((4, 2), np.float32), np.ones((3, 2, 5), np.float32), np.array([1, 2, 1])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: lax.ragged_dot(L, R[0], S),
            ShapeError,
            "ragged_dot: lhs must be [m, k] and rhs [g, k, n], got f32[4,2] and f32[2,5]",
        ),
        (
            lambda: lax.ragged_dot(L, R[:, :1], S),
            ShapeError,
            "ragged_dot: lhs must be [m, k] and rhs [g, k, n], got f32[4,2] and f32[3,1,5]",
        ),
        (
            lambda: lax.ragged_dot(L, R, S[:2]),
            ShapeError,
            "ragged_dot: rhs f32[3,2,5] must have a matrix for each of the 2 groups along axis 0, has 3",
        ),
        (
            lambda: lax.ragged_dot(L, R, S * 1.0),
            DTypeError,
            "ragged_dot: group_sizes must be integers, got f32[3]",
        ),
        (
            lambda: lax.ragged_dot(L, R, S[None]),
            ShapeError,
            "ragged_dot: group_sizes must be [g] or [g], got i32[1,3]",
        ),
        (
            lambda: lax.ragged_dot(L, R, S, group_offset=0.5),
            DTypeError,
            "ragged_dot: group_offset must be an integer scalar, got f32[]~",
        ),
        (
            lambda: lax.ragged_dot_general(L, L, S, Numbers((((0,), (0,)), ((), ())), (0,), (1,))),
            ShapeError,
            (
                "ragged_dot_general: rhs_group_dimensions must be one axis where the groups lie along a free axis of lhs, "
                "else none, got (1,)"
            ),
        ),
        (
            lambda: lax.ragged_dot_general(L, L, S, Numbers((((0,), (0,)), ((), ())), (0, 1), ())),
            ShapeError,
            "ragged_dot_general: lhs_ragged_dimensions must be one axis of f32[4,2], got (0, 1)",
        ),
        (
            lambda: lax.ragged_dot_general(
                L, L, S, Numbers((((0,), (0,)), ((), ())), (0,), ()), group_offset=1
            ),
            ShapeError,
            "ragged_dot_general: group_offset is for groups along a free axis of lhs, with a matrix each",
        ),
        (
            lambda: lax.ragged_dot_general(L, L, S, (((0,), (0,)), ((), ()))),  # type: ignore[arg-type]  # is refused
            ShapeError,
            "ragged_dot_general: ragged_dot_dimension_numbers must be RaggedDotDimensionNumbers, got tuple",
        ),
    ],
)
def test_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).split("\n")[0] == text


def test_approximate_extremes() -> None:
    """They are the exact ones: NaN as in sorting, equal ones in their order, the slope at the chosen elements."""
    x = RNG.normal(size=(3, 40)).astype(np.float32)
    order = np.argsort(-x, axis=1, kind="stable")[:, :5]
    values, places = lax.approx_max_k(x, 5)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    values, places = lax.approx_min_k(x, 2, 0)
    np.testing.assert_array_equal(places, np.argsort(x, axis=0)[:2])
    special = np.array([3, np.nan, 5, -np.inf, 3], np.float32)
    assert np.asarray(lax.approx_max_k(special, 5)[1]).tolist() == [1, 2, 0, 4, 3]
    assert np.asarray(lax.approx_min_k(special, 5)[1]).tolist() == [3, 0, 4, 2, 1]
    slope = effx.grad(lambda x: (lax.approx_max_k(x, 2)[0] * enp.array([1.0, 3.0])).sum())(np.arange(4.0))
    np.testing.assert_array_equal(slope, [0, 0, 3, 1])


def test_candidates() -> None:
    """For one part of several: more for a higher recall, fewer for a smaller part, all for an exact result."""
    x = np.arange(1000, dtype=np.float32)

    def count(recall: float, whole: int = -1) -> int:
        values, _ = lax.approx_max_k(x, 3, -1, recall, whole, aggregate_to_topk=False)
        np.testing.assert_array_equal(values, np.arange(999, 999 - len(values), -1))
        return len(values)

    assert [count(0.5), count(0.95), count(0.99), count(1.0)] == [3, 39, 199, 1000]
    assert count(0.99, 10000) == 20


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((np.arange(4), 1), DTypeError, "approx_max_k: the operand must be floating, got i32[4]"),
        ((L, 0), ShapeError, "approx_max_k: k must be from 1 to 2, the size of axis 1 of f32[4,2], got 0"),
        ((L, 1, 0, 1.5), ShapeError, "approx_max_k: recall_target must be above 0 and at most 1, got 1.5"),
        (
            (L, 1, 0, 0.5, 3),
            ShapeError,
            "approx_max_k: reduction_input_size_override must be -1 or at least 4, the size of axis 0 of f32[4,2], got 3",
        ),
    ],
)
def test_extremes_are_refused(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        lax.approx_max_k(*arguments)
    assert str(caught.value).split("\n")[0] == text
