"""Move elements in NumPy for operations on shapes: for the oracle, and for first calls."""

from collections.abc import Sequence

import numpy as np

from effx.ir.ops.shape import BroadcastInDim
from effx.ir.values.described import HostData


def broadcast_view(op: BroadcastInDim, x: HostData) -> HostData:
    """Returns a view of x with the operation's shape."""
    sizes = [1] * len(op.shape)
    for n, dim in zip(x.shape, op.dims, strict=True):
        sizes[dim] = n
    return np.broadcast_to(x.reshape(sizes), op.shape)


def block_slices(x: HostData, starts: Sequence[HostData], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Returns the slices of a block of x, with starts clamped so that it fits."""
    first = [min(max(int(i), 0), n - k) for i, n, k in zip(starts, x.shape, sizes, strict=True)]
    return tuple([slice(i, i + k) for i, k in zip(first, sizes, strict=True)])
