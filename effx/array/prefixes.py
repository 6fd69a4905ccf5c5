"""Combinations of all elements up to each index along an axis."""

from collections.abc import Callable

from effx.array import Array
from effx.array.shaping import concatenate, reshape, stack
from effx.ir.ops.shape import Slice

Combine = Callable[[list[Array], list[Array]], list[Array]]


def combine_prefixes(combine: Combine, arrays: list[Array], axes: list[int]) -> list[Array]:
    """Combines all elements up to each index: neighbours, then the prefixes of the pairs, and from these the others.

    It takes 2 log2(n) calls of `combine`, on slices of n/2, n/4, ... elements (Blelloch, "Prefix sums and their
    applications", 1990).

    Args:
        combine: combines slices of the arrays elementwise along the axes; associative.
        arrays: they have equal sizes along their axes.
        axes: one axis for each array.
    """
    n = arrays[0].type.shape[axes[0]]
    if n < 2:
        return arrays

    def every_second(parts: list[Array], start: int, stop: int) -> list[Array]:
        return [slice_axis(x, axis, start, stop, 2) for x, axis in zip(parts, axes, strict=True)]

    even = n - n % 2
    pairs = combine(every_second(arrays, 0, even), every_second(arrays, 1, even))
    # The prefix that ends at index 2k + 1 is that of the first k + 1 pairs.
    odd = combine_prefixes(combine, pairs, axes)
    first = [slice_axis(x, axis, 0, 1) for x, axis in zip(arrays, axes, strict=True)]
    if n == 2:
        return [concatenate((x, y), axis) for x, y, axis in zip(first, odd, axes, strict=True)]
    # The prefix that ends at index 2k is the one before it, combined with the element.
    before = [slice_axis(x, axis, 0, (n - 1) // 2) for x, axis in zip(odd, axes, strict=True)]
    between = combine(before, every_second(arrays, 2, n))
    return [
        _interleave(concatenate((x, y), axis), z, axis)
        for x, y, z, axis in zip(first, between, odd, axes, strict=True)
    ]


def slice_axis(x: Array, axis: int, start: int, stop: int, step: int = 1) -> Array:
    """Returns the elements from start to stop along one axis."""
    starts = tuple([start if i == axis else 0 for i in range(x.type.ndim)])
    stops = tuple([stop if i == axis else n for i, n in enumerate(x.type.shape)])
    steps = tuple([step if i == axis else 1 for i in range(x.type.ndim)])
    return Slice(starts, stops, steps)(x)


def _interleave(even: Array, odd: Array, axis: int) -> Array:
    """Returns even[0], odd[0], even[1], ... along an axis; there may be one more even than odd ones."""
    shape = odd.type.shape
    m = shape[axis]
    pairs = stack((slice_axis(even, axis, 0, m), odd), axis + 1)
    mixed = reshape(pairs, (*shape[:axis], 2 * m, *shape[axis + 1 :]))
    if even.type.shape[axis] == m:
        return mixed
    return concatenate((mixed, slice_axis(even, axis, m, m + 1)), axis)
