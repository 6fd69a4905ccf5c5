"""Histograms: how many samples, or how much weight, each bin holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic, reducing, shaping
from effx.array.promotion import as_operand, convert, promote_dtypes, refuse_mixed_dtypes
from effx.errors import DTypeError, ShapeError
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.lax.operands import check_int
from effx.numpy.creation import asarray, make_filled
from effx.numpy.ranges import linspace
from effx.numpy.reductions import diff
from effx.numpy.sorting import searchsorted
from effx.transforms.placement.meshes import reshard_as
from effx.transforms.placement.out_sharding import OutSharding

if TYPE_CHECKING:
    from effx.array import Operand

    Bins = int | str | Array | np.ndarray[tuple[int, ...], np.dtype[np.generic]] | Sequence[Operand]

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def histogram_bin_edges(
    a: Operand, bins: Bins = 10, range: Sequence[Operand] | None = None, weights: Operand | None = None
) -> Array:
    """The edges of the bins of a histogram.

    Args:
        a: the samples.
        bins: how many bins of one width, or the edges themselves.
        range: the first and the last edge; by default the least and the largest sample.
        weights: permitted for NumPy's sake; edges do not depend on them.

    Returns:
        `[bins + 1]` edges.

    Raises:
        DTypeError: `bins` is a string: NumPy's estimators of a width depend on the values.

    >>> histogram_bin_edges(asarray([0.0, 4.0]), 2).tolist()
    [0.0, 2.0, 4.0]
    """
    if isinstance(bins, str):
        raise DTypeError(
            f"histogram_bin_edges: bins must be an int or edges, got {bins!r}: its number would depend on values"
        )
    edges = asarray(bins)
    x = shaping.reshape(arithmetic.to_inexact(as_operand(a)), -1)
    if edges.type.ndim:
        return arithmetic.to_inexact(edges) if edges.type.kind == "f" else convert(edges, x.type.dtype)
    if range is None:
        low, high = (x.min(), x.max()) if 0 not in x.type.shape else (as_operand(0.0), as_operand(1.0))
    else:
        low, high = [as_operand(end) for end in range]
    flat = low == high
    low, high = arithmetic.where(flat, low - 0.5, low), arithmetic.where(flat, high + 0.5, high)
    return linspace(low, high, check_int("bins", bins) + 1, dtype=x.type.dtype)


def histogram(
    a: Operand,
    bins: Bins = 10,
    range: Sequence[Operand] | None = None,
    weights: Operand | None = None,
    density: bool | None = None,
    out_sharding: OutSharding = None,
) -> tuple[Array, Array]:
    """How many samples each bin holds.

    Args:
        a: the samples, of any shape.
        bins: how many bins of one width, or the edges. A bin holds its lower edge; the last holds both.
        range: the first and the last edge; by default the least and the largest sample.
        weights: of each sample, in the shape of `a`.
        density: True for the density: the sum of densities times widths is 1.
        out_sharding: the sharding of the counts; by default inferred from the operands'.

    Returns:
        `[bins]` counts or sums of weights, both floating; and `[bins + 1]` edges.

    Raises:
        ShapeError: weights of another shape.

    >>> [x.tolist() for x in histogram(asarray([0.0, 1.0, 1.5, 4.0]), 2)]
    [[3.0, 1.0], [0.0, 2.0, 4.0]]
    """
    refuse_mixed_dtypes(a, weights)
    if out_sharding is not None:
        with allow_unresolved(True):
            counts, edges = histogram(a, bins, range, weights, density)
        return reshard_as("histogram", counts, out_sharding), edges
    x = as_operand(a)
    edges = histogram_bin_edges(x, bins, range)
    flat, edges = promote_dtypes(shaping.reshape(arithmetic.to_inexact(x), -1), edges)
    if weights is None:
        weight = make_filled(flat.type.shape, 1, flat.type.dtype)
    else:
        of = as_operand(weights)
        if of.type.shape != x.type.shape:
            raise ShapeError(f"histogram: weights {of.type!r} must have the shape of {x.type!r}")
        weight = shaping.reshape(arithmetic.to_inexact(of), -1)
    counts = _sum_by_bin(weight, (_bin_indices(flat, edges),), (edges.type.size - 1,))
    if density:
        counts = counts / reducing.sum(counts) / diff(edges)
    return counts, edges


def _bin_indices(x: Array, edges: Array) -> Array:
    """The bin of each sample; the number of bins for those outside."""
    n = edges.type.size - 1
    at = convert(searchsorted(edges, x, side="right"), dtypes.int32) - 1
    at = arithmetic.where(x == edges[-1], n - 1, at)
    return arithmetic.where((at < 0) | (x != x), n, at)


def _sum_by_bin(weights: Array, bins: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    """The sum of the weights in each bin; those outside are left out."""
    return make_filled(shape, 0, weights.type.dtype).at[bins].add(weights, mode="drop")


def histogram2d(
    x: Operand,
    y: Operand,
    bins: Bins = 10,
    range: Sequence[Sequence[Operand] | None] | None = None,
    weights: Operand | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many points of the plane each rectangle holds.

    Args:
        x, y: `[n]` coordinates.
        bins: how many, or the edges, of both axes; or a pair with one of these for each axis.
        range: a pair of ends for each axis.
        weights: `[n]` weights.
        density: True for the density.

    Returns:
        `[bins_x, bins_y]` counts, and the edges of both axes.

    >>> histogram2d(asarray([0.0, 1.0]), asarray([0.0, 1.0]), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    first, second = promote_dtypes(as_operand(x), as_operand(y))
    if first.type.ndim != 1 or first.type.shape != second.type.shape:
        raise ShapeError(
            f"histogram2d: x and y must be vectors of one size, got {first.type!r} and {second.type!r}"
        )
    if not isinstance(bins, int | str) and len(bins) not in (1, 2):
        bins = [asarray(bins)] * 2
    counts, edges = histogramdd(shaping.stack([first, second], 1), bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Operand | Sequence[Operand],
    bins: Bins = 10,
    range: Sequence[Sequence[Operand] | None] | None = None,
    weights: Operand | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many points each box of a grid holds.

    Args:
        sample: `[n, d]` points, or d vectors of coordinates.
        bins: how many, for all axes; or for each axis how many, or the edges.
        range: for each axis a pair of ends, or None.
        weights: `[n]` weights.
        density: True for the density: the sum of densities times volumes is 1.

    Returns:
        `[bins_1, ..., bins_d]` counts, integers without weights and density, and a list of the edges of each axis.

    Raises:
        ShapeError: points, weights, bins or ranges of another shape.

    >>> counts, edges = histogramdd(asarray([[0.0], [1.0], [1.0]]), 2)
    >>> counts.tolist()
    [1, 2]
    """
    if isinstance(sample, Sequence):
        points = shaping.stack(promote_dtypes(*[as_operand(c) for c in sample]), 1)
    else:
        points = as_operand(sample)
    if points.type.ndim != 2:
        raise ShapeError(f"histogramdd: takes [n, d] points, got {points.type!r}")
    points = arithmetic.to_inexact(points)
    n, d = points.type.shape
    each: list[Bins] = [bins] * d if isinstance(bins, int | str) else [*bins]
    ends = [None] * d if range is None else list(range)
    if len(each) != d or len(ends) != d:
        raise ShapeError(f"histogramdd: {d} axes need {d} bins and ranges, got {len(each)} and {len(ends)}")
    integer = dtypes.canonicalize(int)
    weight = make_filled((n,), 1, integer) if weights is None else as_operand(weights)
    if weight.type.shape != (n,):
        raise ShapeError(f"histogramdd: weights {weight.type!r} must have the shape [{n}]")
    columns = list(shaping.moveaxis(points, 1, 0)) if d else []
    edges = [histogram_bin_edges(c, b, r) for c, b, r in zip(columns, each, ends, strict=True)]
    shape = tuple([e.type.size - 1 for e in edges])
    index = tuple([_bin_indices(*promote_dtypes(c, e)) for c, e in zip(columns, edges, strict=True)])
    counts = _sum_by_bin(weight, index, shape)
    if density:
        counts = arithmetic.to_inexact(counts)
        counts = counts / reducing.sum(counts)
        for i, e in enumerate(edges):
            counts = counts / shaping.reshape(diff(e), (-1,) + (1,) * (d - i - 1))
    return counts, edges
