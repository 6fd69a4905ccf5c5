"""`x[ds(i, n)]`: slices whose start may be computed, against NumPy's slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import ds
from effx.errors import IndexingError

X = np.arange(60.0, dtype=np.float32).reshape(5, 4, 3)
LINE = np.arange(10)


def clamped(start: int, size: int, step: int, n: int) -> slice:
    """Returns the slice that a computed start means."""
    extent = max((size - 1) * step + 1, 0)
    first = min(max(start + n if start < 0 else start, 0), n - extent)
    return slice(first, first + extent, step)


@pytest.mark.parametrize("step", [None, 1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_reading_a_line(size: int, step: int | None) -> None:
    """Computed starts are moved inside, whether eager, jitted or mapped; numbers are those of a slice."""
    x = enp.asarray(LINE)
    k = step or 1
    starts = np.arange(-12, 13)
    jitted = effx.jit(lambda i: x[ds(i, size, step)])
    mapped = effx.vmap(jitted)(enp.asarray(starts))
    for row, i in enumerate(starts.tolist()):
        expected = LINE[clamped(i, size, k, 10)]
        if i % 5 == 0:
            np.testing.assert_array_equal(np.asarray(x[ds(enp.int32(i), size, step)]), expected)
            np.testing.assert_array_equal(np.asarray(jitted(i)), expected)
        np.testing.assert_array_equal(np.asarray(mapped[row]), expected)
        first = max(i + 10, 0) if i < 0 else i
        static = LINE[first : first + size * k : k]
        np.testing.assert_array_equal(np.asarray(x[ds(i, size, step)]), static)


INDICES: list[tuple[str, Callable[[Any], Any], Callable[[int], Any]]] = [
    ("all", lambda i: (ds(i, 2),), lambda i: (slice(i, i + 2),)),
    ("after a colon", lambda i: (slice(None), ds(i, 2)), lambda i: (slice(None), slice(i, i + 2))),
    ("two", lambda i: (ds(i, 2), ds(i, 1)), lambda i: (slice(i, i + 2), slice(i, i + 1))),
    ("beside an int", lambda i: (1, ds(i, 2)), lambda i: (1, slice(i, i + 2))),
    ("beside an array", lambda i: ([0, 2, 2], ds(i, 2)), lambda i: ([0, 2, 2], slice(i, i + 2))),
    ("between arrays", lambda i: ([0, 2], ds(i, 2), [1, 0]), lambda i: ([0, 2], slice(i, i + 2), [1, 0])),
    ("after an ellipsis", lambda i: (..., ds(i, 1)), lambda i: (..., slice(i, i + 1))),
    ("a new axis", lambda i: (None, ds(i, 2, 2)), lambda i: (None, slice(i, i + 3, 2))),
    ("beside slices", lambda i: (slice(4, 0, -2), ds(i, 2)), lambda i: (slice(4, 0, -2), slice(i, i + 2))),
]


@pytest.mark.parametrize("case", INDICES, ids=[c[0] for c in INDICES])
@pytest.mark.parametrize("i", [0, 1])
def test_reading_and_writing(case: Any, i: int) -> None:
    """Beside all other indices, with numbers and computed starts, under jit; derivatives of reading are writing."""
    _, ours, theirs = case
    x = enp.asarray(X)
    expected = X[theirs(i)]
    value = -np.arange(1.0, expected.size + 1, dtype=np.float32).reshape(expected.shape)
    written, added = X.copy(), X.copy()
    written[theirs(i)] = value
    np.add.at(added, theirs(i), value)
    for at in (i, enp.int32(i), enp.uint8(i)):
        np.testing.assert_array_equal(np.asarray(x[ours(at)]), expected)
        np.testing.assert_array_equal(np.asarray(x.at[ours(at)].get()), expected)
        np.testing.assert_array_equal(np.asarray(x.at[ours(at)].add(value)), added)
    np.testing.assert_array_equal(np.asarray(effx.jit(lambda a, k: a[ours(k)])(x, i)), expected)
    if case[0] != "beside an array":  # there the same element is written twice
        np.testing.assert_array_equal(
            np.asarray(effx.jit(lambda a, k: a.at[ours(k)].set(value))(x, i)), written
        )
    slope = effx.jit(effx.grad(lambda a, k: enp.sum(a[ours(k)] * value)))(x, i)
    weights = np.zeros_like(X)
    np.add.at(weights, theirs(i), value)
    np.testing.assert_array_equal(np.asarray(slope), weights)


def test_writing_outside() -> None:
    """What does not fit is not written; with a mode it is moved inside."""
    x = enp.zeros(6, "int32")
    put = effx.jit(lambda i: x.at[ds(i, 3)].set(7))
    assert put(5).tolist() == [0] * 6
    assert put(-3).tolist() == [0, 0, 0, 7, 7, 7]
    moved = effx.jit(lambda i: x.at[ds(i, 3)].set(7, mode="clip"))
    assert moved(5).tolist() == [0, 0, 0, 7, 7, 7]
    assert x.at[ds(4, 3)].set(7).tolist() == [0, 0, 0, 0, 7, 7]
    tripled = effx.jit(lambda i: (x + 1).at[ds(i, 2, 2)].apply(lambda v: v * 3))
    assert tripled(1).tolist() == [1, 3, 1, 3, 1, 1]


def test_in_loops_and_references() -> None:
    """A scan over blocks, and a block of a reference."""
    x = enp.asarray(LINE)
    _, sums = effx.lax.scan(lambda c, i: (c, enp.sum(x[ds(i * 2, 2)])), None, enp.arange(5))
    assert sums.tolist() == LINE.reshape(5, 2).sum(1).tolist()
    ref = effx.new_ref(x)
    ref[ds(enp.int32(3), 2)] = enp.zeros(2, x.dtype)
    assert ref[ds(2, 4)].tolist() == [2, 0, 0, 5]


def test_forms() -> None:
    """A size alone counts from 0, None is the whole axis."""
    x = enp.asarray(LINE)
    assert x[ds(3)].tolist() == [0, 1, 2]
    assert x[ds(None)].tolist() == LINE.tolist()
    assert ds(None) == slice(None)
    assert ds(None, stride=2) == slice(None, None, 2)
    assert x[ds(None, 3, 2)].tolist() == x[ds(0, 3, 2)].tolist()


ERRORS: list[tuple[Callable[[], object], str]] = [
    (lambda: ds(1, -2), "ds: size must be 0 or more and stride 1 or more, got -2 and 1"),
    (lambda: ds(1, 2, 0), "ds: size must be 0 or more and stride 1 or more, got 2 and 0"),
    (lambda: ds(1.5, 2), "ds: start must be an int or an integer array, got 1.5"),
    (
        lambda: ds(enp.ones(2, "int32"), 2),
        "ds: start must be an int or an integer array of rank 0, got i32[2]",
    ),
    (
        lambda: enp.ones((2, 5))[:, ds(enp.int32(0), 4, 2)],
        "getitem: 4 elements in steps of 2 do not fit axis 1 of f32[2,5] with size 5",
    ),
    (
        lambda: enp.ones(5).at[ds(enp.int32(0), 4)].get(mode="fill"),
        'at: a slice whose start is computed is read inside of the axis; use mode="clip"',
    ),
    (
        lambda: enp.ones(5).at[ds(enp.int32(0), 4)].set(0, mode="wrap"),
        'at: a slice whose start is computed does not wrap; use mode="clip" or an index array',
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[], object], message: str) -> None:
    """Whole texts."""
    with pytest.raises(IndexingError) as caught:
        call()
    assert caught.value.message == message


@pytest.mark.unguarded
def test_sizes_are_ints() -> None:
    """What type checkers refuse, too."""
    with pytest.raises(IndexingError) as caught:
        ds(1, 2.5)  # type: ignore[arg-type]  # refused
    assert caught.value.message == "ds: size and stride must be ints, got 2.5 and None"
