"""Tilings: which axes of a grid of devices shard each array axis, by number and not by name."""

import math
from typing import TypeAlias, final

import attrs
import numpy as np
from jaxlib._hlo import HloSharding, OpSharding_Type

from effx.ir.types import Shape

__all__ = ["Index", "Tiling", "leading_tiling", "tiling_from_hlo"]

# The index of a device's shard in the whole array.
Index: TypeAlias = tuple[slice, ...]


@final
@attrs.frozen
class Tiling:
    """The sharding of an array along the axes of a grid of devices, by number and not by name.

    Attributes:
        sizes: the grid's sizes, the last axis fastest.
        dims: for each array axis the axes of the grid that it is sharded over, the coarsest first.
        unreduced: the axes of the grid along which devices have the terms of a sum.
    """

    sizes: tuple[int, ...]
    dims: tuple[tuple[int, ...], ...]
    unreduced: tuple[int, ...] = ()

    @property
    def parts(self) -> tuple[int, ...]:
        """The number of parts of each array axis."""
        return tuple([math.prod([self.sizes[a] for a in axes]) for axes in self.dims])

    def coordinates(self, k: int) -> tuple[int, ...]:
        """Returns the k-th device's coordinates in the grid."""
        return tuple(map(int, np.unravel_index(k, self.sizes))) if self.sizes else ()

    def index(self, k: int, shape: Shape) -> Index:
        """Returns the index of the k-th device's shard in an array of this shape."""
        at = self.coordinates(k)
        slices: list[slice] = []
        for n, axes, parts in zip(shape, self.dims, self.parts, strict=True):
            if parts == 1:
                slices.append(slice(None))
                continue
            block = 0
            for a in axes:
                block = block * self.sizes[a] + at[a]
            slices.append(slice(block * (n // parts), (block + 1) * (n // parts)))
        return tuple(slices)

    def replica(self, k: int) -> int:
        """Counts the devices before the k-th that hold the same part."""
        cutting = {*[a for axes in self.dims for a in axes], *self.unreduced}
        count = 0
        for a, i in enumerate(self.coordinates(k)):
            if a not in cutting:
                count = count * self.sizes[a] + i
        return count

    def hlo(self) -> HloSharding:
        """Returns XLA's form of the sharding."""
        terms = math.prod([self.sizes[a] for a in self.unreduced])
        if terms == 1 and all([n == 1 for n in self.parts]):
            return HloSharding.replicate()
        cutting = [a for axes in self.dims for a in axes]
        replicated_axes = [a for a in range(len(self.sizes)) if a not in (*cutting, *self.unreduced)]
        copies = math.prod([self.sizes[a] for a in replicated_axes])
        groups = [(OpSharding_Type.UNREDUCED, terms), (OpSharding_Type.REPLICATED, copies)]
        subgroups = [(kind, n) for kind, n in groups if n > 1]
        dims = [*self.parts, *[n for _, n in subgroups]]
        order = [*cutting, *self.unreduced, *replicated_axes]
        return HloSharding.iota_tile(dims, self.sizes, order, [kind for kind, _ in subgroups])

    def is_like(self, other: "Tiling") -> bool:
        """Says whether both shard alike."""
        return self == other or bool(self.hlo() == other.hlo())


def leading_tiling(grid: tuple[int, ...], cuts: tuple[int, ...], ndim: int) -> Tiling:
    """Returns the tiling of an array whose first axes are each sharded along one axis of a grid."""
    return Tiling(grid, (*[(a,) for a in cuts], *[()] * (ndim - len(cuts))))


def tiling_from_hlo(hlo_sharding: HloSharding, sizes: tuple[int, ...], ndim: int) -> Tiling | None:
    """Returns XLA's sharding as a tiling over a grid; None where it is not along the grid's axes.

    Args:
        hlo_sharding: XLA's sharding.
        sizes: the grid's sizes; its devices are numbered in its own order.
        ndim: the number of the array's axes.
    """
    # A result without a requested sharding has none in the text: XLA reports it after compiling.
    if hlo_sharding.is_replicated() or hlo_sharding.is_unknown() or math.prod(sizes) == 1:
        return Tiling(sizes, ((),) * ndim)
    if hlo_sharding.is_unreduced():
        return Tiling(sizes, ((),) * ndim, tuple(range(len(sizes))))
    # For each position in the grid its block along each array axis.
    blocks = hlo_sharding.tile_assignment_dimensions()
    order = np.asarray(hlo_sharding.tile_assignment_devices())
    at = np.empty((order.size, len(blocks)), np.int64)
    at[order] = np.stack(np.unravel_index(np.arange(order.size), blocks), axis=-1)
    at = at.reshape(*sizes, len(blocks))
    first = at[(0,) * len(sizes)]
    dims: list[tuple[int, ...]] = []
    for d in range(ndim):
        steps: list[tuple[int, int]] = []
        for a, n in enumerate(sizes):
            if n > 1:
                along = tuple([int(b == a) for b in range(len(sizes))])
                step = int(at[along][d] - first[d])
                if step:
                    steps.append((-step, a))  # the coarsest first
        dims.append(tuple([a for _, a in sorted(steps)]))
    tiling = Tiling(sizes, tuple(dims), _unreduced_axes(hlo_sharding, at, ndim))
    return tiling if tiling.hlo() == hlo_sharding else None


def _unreduced_axes(
    hlo_sharding: HloSharding, positions: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", ndim: int
) -> tuple[int, ...]:
    """Returns the axes of a grid along which the position in the block of the terms of a sum changes."""
    kinds = hlo_sharding.subgroup_types()
    if OpSharding_Type.UNREDUCED not in kinds:
        return ()
    block = ndim + kinds.index(OpSharding_Type.UNREDUCED)
    sizes = positions.shape[:-1]
    first = positions[(0,) * len(sizes)]
    axes = []
    for a, n in enumerate(sizes):
        along = tuple([int(b == a) for b in range(len(sizes))])
        if n > 1 and positions[along][block] != first[block]:
            axes.append(a)
    return tuple(axes)
