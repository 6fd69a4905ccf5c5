"""Tangents of the largest and smallest elements of windows, where windows hold padding only, ties or infinities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import effx
from effx import lax

INF = np.inf
Pairs = list[tuple[int, int]]
# window, strides, padding, base dilation, window dilation
WINDOWS: list[tuple[Sequence[int], Sequence[int], Pairs, Sequence[int], Sequence[int]]] = [
    ((3,), (1,), [(1, 1)], (1,), (1,)),
    ((2,), (1,), [(3, 3)], (1,), (1,)),
    ((2,), (1,), [(2, 2)], (3,), (1,)),
    ((3,), (1,), [(1, 1)], (2,), (2,)),
    ((2,), (2,), [(1, 2)], (2,), (3,)),
    ((2, 2), (1, 1), [(1, 1), (1, 0)], (1, 1), (1, 1)),
    ((2, 2), (2, 1), [(1, 1), (1, 0)], (2, 3), (1, 2)),
    ((1, 3), (1, 2), [(0, 0), (4, 4)], (1, 2), (1, 1)),
]
OPERANDS = {1: [np.array([1.0, -2.0, -INF, 5.0, -3.0]), np.array([2.0, 2.0, -INF, -INF, 2.0])]}
OPERANDS[2] = [np.array([[1.0, -2.0, 3.0], [4.0, -INF, 0.5]]), np.array([[0.0, 0.0, 0.0], [-INF, -INF, 1.0]])]


def choose_extremes(
    x: np.ndarray[Any, Any], largest: bool, shape: tuple[int, ...], case: tuple[Any, ...]
) -> np.ndarray[Any, Any]:
    """Returns the index in the flat operand of the first extreme element at each position, -1 where there is none."""
    window, strides, padding, base, between = case
    results = np.full(shape, -1)
    for position in np.ndindex(*shape):
        best = -1
        for offset in itertools.product(*[range(w) for w in window]):
            places = [
                p * s + o * d - low
                for p, s, o, d, (low, _) in zip(position, strides, offset, between, padding, strict=True)
            ]
            if any(i % b for i, b in zip(places, base, strict=True)):
                continue
            index = tuple([i // b for i, b in zip(places, base, strict=True)])
            if any(not 0 <= i < n for i, n in zip(index, x.shape, strict=True)):
                continue
            flat = int(np.ravel_multi_index(index, x.shape))
            if best < 0 or (x.flat[flat] > x.flat[best] if largest else x.flat[flat] < x.flat[best]):
                best = flat
        results[position] = best
    return results


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("case", WINDOWS)
def test_tangents_of_extremes(case: tuple[Any, ...], largest: bool) -> None:
    window, strides, padding, base, between = case
    operation, start = (lax.max, -INF) if largest else (lax.min, INF)

    def f(x: Any) -> Any:
        return lax.reduce_window(x, start, operation, window, strides, padding, base, between)

    for x in OPERANDS[len(window)]:
        x = (x if largest else -x).astype(np.float32)
        dx = np.arange(1.0, 1.0 + x.size, dtype=np.float32).reshape(x.shape)
        y, dy = effx.jit(lambda x, dx: effx.jvp(f, (x,), (dx,)))(x, dx)
        index = choose_extremes(x, largest, y.shape, case)
        np.testing.assert_array_equal(y, np.where(index < 0, start, x.flat[index]))
        np.testing.assert_array_equal(dy, np.where(index < 0, 0.0, dx.flat[index]))
        ct = np.arange(1.0, 1.0 + y.size, dtype=np.float32).reshape(y.shape)
        wanted = np.zeros(x.size)
        np.add.at(wanted, index[index >= 0], ct[index >= 0])
        np.testing.assert_array_equal(effx.vjp(f, x)[1](ct)[0], wanted.reshape(x.shape))
        twice = effx.vmap(lambda x, dx: effx.jvp(f, (x,), (dx,))[1], (None, 0))(x, np.stack([dx, -dx]))
        np.testing.assert_array_equal(twice, np.stack([dy, -np.asarray(dy)]))


def share_plainly(
    x: np.ndarray[Any, Any], ct: np.ndarray[Any, Any], case: tuple[Any, ...]
) -> np.ndarray[Any, Any]:
    """Returns the sums of the cotangents of the windows in which an element is the first extreme one, NaN before all."""
    window, strides, padding = case
    result = np.zeros(x.shape)
    for position in np.ndindex(*ct.shape):
        best: tuple[int, ...] | None = None
        for offset in itertools.product(*[range(w) for w in window]):
            at = tuple(
                [
                    p * s + o - low
                    for p, s, o, (low, _) in zip(position, strides, offset, padding, strict=True)
                ]
            )
            if any(not 0 <= i < n for i, n in zip(at, x.shape, strict=True)):
                continue
            if best is None or x[at] > x[best] or (np.isnan(x[at]) and not np.isnan(x[best])):
                best = at
        if best is not None:
            result[best] += ct[position]
    return result


POOLS: list[tuple[Sequence[int], Sequence[int], Pairs]] = [
    ((1, 2, 2, 1), (1, 2, 2, 1), [(0, 0)] * 4),
    ((1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (0, 1), (0, 0)]),
    ((1, 3, 3, 1), (1, 1, 1, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]),
    ((1, 2, 2, 1), (1, 3, 3, 1), [(0, 0), (-1, 2), (2, -1), (0, 0)]),
    ((1, 5, 5, 1), (1, 1, 1, 1), [(0, 0)] * 4),
    ((1, 6, 5, 1), (1, 2, 2, 1), [(0, 0)] * 4),
    ((1, 1, 3, 1), (1, 1, 2, 1), [(0, 0), (0, 0), (4, 4), (0, 0)]),
    ((1, 1, 2, 2), (1, 1, 2, 1), [(0, 0)] * 4),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, "bfloat16"])
@pytest.mark.parametrize("case", POOLS)
def test_cotangents_of_pools(case: tuple[Any, ...], dtype: Any) -> None:
    """With ties, zeros of both signs, infinities and NaN; batches too, and tangents by the same elements."""
    window, strides, padding = case
    rng = np.random.default_rng(0)
    with effx.enable_x64(dtype == np.float64):
        x = np.round(rng.normal(size=(2, 9, 7, 3)) * 2) / 2
        x.flat[[3, 40, 41]], x.flat[[10, 99]], x.flat[[20, 150]] = np.nan, -np.inf, -0.0
        operand = effx.numpy.asarray(x, dtype)

        def pool(x: Any) -> Any:
            return lax.reduce_window(x, -INF, lax.max, window, strides, padding)

        y, pull = effx.vjp(effx.jit(pool), operand)
        ct = rng.integers(-4, 5, y.shape).astype(float)
        want = share_plainly(x, ct, case)
        cotangent = effx.numpy.asarray(ct, dtype)
        np.testing.assert_array_equal(np.asarray(pull(cotangent)[0]).astype(float), want)

        def both(x: Any, c: Any) -> Any:
            return effx.vjp(pool, x)[1](c)[0]

        mapped = effx.jit(effx.vmap(both))(
            effx.numpy.stack([operand, -operand]), effx.numpy.stack([cotangent] * 2)
        )
        want_mapped = np.stack([want, share_plainly(-x, ct, case)])
        np.testing.assert_array_equal(np.asarray(mapped).astype(float), want_mapped)

        dx = rng.integers(-4, 5, x.shape).astype(float)
        tangent = effx.jit(lambda x, d: effx.jvp(pool, (x,), (d,))[1])(operand, effx.numpy.asarray(dx, dtype))
        assert float((np.asarray(tangent).astype(float) * ct).sum()) == float((want * dx).sum())
