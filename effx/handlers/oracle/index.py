"""Gather and scatter in NumPy, one start vector at a time.

Never: use NumPy's own fancy indexing, which wraps negative indices.
"""

from collections.abc import Callable

import numpy as np

from effx.handlers.oracle.handler import Data, round_to_dtype, rule, widen_floats
from effx.ir.ops.index import Gather, Scatter


def _start_vector(op: Gather | Scatter, ndim: int, indices: Data, batch_index: tuple[int, ...]) -> list[int]:
    """Returns the start along each axis of x from the vector at `batch_index`; 0 for axes without a start."""
    start = [0] * ndim
    for entry, axis in zip(indices[batch_index], op.start_index_map, strict=True):
        start[axis] = int(entry)
    for axis, batch in zip(op.operand_batch, op.indices_batch, strict=True):
        start[axis] = batch_index[batch]
    return start


def _window_index(
    ndim: int, window_dims: tuple[int, ...], batch_index: tuple[int, ...]
) -> tuple[int | slice, ...]:
    """Returns the index of the whole window of `batch_index`."""
    outer = iter(batch_index)
    return tuple([slice(None) if i in window_dims else next(outer) for i in range(ndim)])


@rule(Gather)
def gather(op: Gather, x: Data, indices: Data) -> Data:
    removed = op.collapsed + op.operand_batch
    window = [n for i, n in enumerate(op.slice_sizes) if i not in removed]
    batch = indices.shape[:-1]
    ndim = len(batch) + len(window)
    sizes, outer = iter(window), iter(batch)
    result = np.zeros([next(sizes) if i in op.offset_dims else next(outer) for i in range(ndim)], x.dtype)
    for batch_index in np.ndindex(batch):
        start = _start_vector(op, x.ndim, indices, batch_index)
        clamped = [min(max(i, 0), n - k) for i, n, k in zip(start, x.shape, op.slice_sizes, strict=True)]
        part = x[tuple([slice(i, i + k) for i, k in zip(clamped, op.slice_sizes, strict=True)])]
        result[_window_index(ndim, op.offset_dims, batch_index)] = part.reshape(window)
    return result


COMBINERS: dict[str, Callable[[Data, Data], Data]] = {
    "set": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@rule(Scatter)
def scatter(op: Scatter, x: Data, indices: Data, updates: Data) -> Data:
    # A window that is partly outside x is dropped as a whole. Of several "set" to one element
    # the last wins here.
    result = np.array(widen_floats(x))
    removed = op.inserted + op.operand_batch
    window = iter([updates.shape[i] for i in op.window_dims])
    sizes = [1 if i in removed else next(window) for i in range(x.ndim)]
    for batch_index in np.ndindex(indices.shape[:-1]):
        start = _start_vector(op, x.ndim, indices, batch_index)
        if not all(0 <= i <= n - k for i, n, k in zip(start, x.shape, sizes, strict=True)):
            continue
        target = tuple([slice(i, i + k) for i, k in zip(start, sizes, strict=True)])
        new = widen_floats(updates[_window_index(updates.ndim, op.window_dims, batch_index)]).reshape(sizes)
        result[target] = COMBINERS[op.combiner](result[target], new)
    return round_to_dtype(result, x.dtype)
