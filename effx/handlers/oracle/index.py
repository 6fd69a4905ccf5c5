"""Gather and scatter in NumPy: one start vector after the other.

Never: use NumPy's own fancy indexing, which wraps negative indices.
"""

from collections.abc import Callable

import numpy as np

from effx.handlers.oracle.handler import Data, narrow, rule, wide
from effx.ir.ops.index import Gather, Scatter


def _starts(op: Gather | Scatter, ndim: int, indices: Data, place: tuple[int, ...]) -> list[int]:
    """The start along each axis of x from the vector at index `place`; 0 for axes without one."""
    start = [0] * ndim
    for entry, axis in zip(indices[place], op.start_index_map, strict=True):
        start[axis] = int(entry)
    for axis, batch in zip(op.operand_batch, op.indices_batch, strict=True):
        start[axis] = place[batch]
    return start


def _position(ndim: int, window_dims: tuple[int, ...], place: tuple[int, ...]) -> tuple[int | slice, ...]:
    """The index of the whole window of `place`."""
    outer = iter(place)
    return tuple([slice(None) if i in window_dims else next(outer) for i in range(ndim)])


@rule(Gather)
def gather(op: Gather, x: Data, indices: Data) -> Data:
    removed = op.collapsed + op.operand_batch
    window = [n for i, n in enumerate(op.slice_sizes) if i not in removed]
    batch = indices.shape[:-1]
    ndim = len(batch) + len(window)
    sizes, outer = iter(window), iter(batch)
    result = np.zeros([next(sizes) if i in op.offset_dims else next(outer) for i in range(ndim)], x.dtype)
    for place in np.ndindex(batch):
        start = _starts(op, x.ndim, indices, place)
        clamped = [min(max(i, 0), n - k) for i, n, k in zip(start, x.shape, op.slice_sizes, strict=True)]
        part = x[tuple([slice(i, i + k) for i, k in zip(clamped, op.slice_sizes, strict=True)])]
        result[_position(ndim, op.offset_dims, place)] = part.reshape(window)
    return result


COMBINE: dict[str, Callable[[Data, Data], Data]] = {
    "set": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@rule(Scatter)
def scatter(op: Scatter, x: Data, indices: Data, updates: Data) -> Data:
    # A window that lies outside x in part is dropped as a whole. Of several "set" to one place
    # the last wins here.
    result = np.array(wide(x))
    removed = op.inserted + op.operand_batch
    window = iter([updates.shape[i] for i in op.window_dims])
    sizes = [1 if i in removed else next(window) for i in range(x.ndim)]
    for place in np.ndindex(indices.shape[:-1]):
        start = _starts(op, x.ndim, indices, place)
        if not all(0 <= i <= n - k for i, n, k in zip(start, x.shape, sizes, strict=True)):
            continue
        target = tuple([slice(i, i + k) for i, k in zip(start, sizes, strict=True)])
        new = wide(updates[_position(updates.ndim, op.window_dims, place)]).reshape(sizes)
        result[target] = COMBINE[op.combiner](result[target], new)
    return narrow(result, x.dtype)
