"""Arrays stored as elements with coordinates: batch axes, then sparse axes, then dense axes.

    data: [*batch, nse, *dense], indices: i32[*batch, nse, n_sparse]

Elements whose coordinates are out of bounds are padding: they represent no element. The sizes of batch and dense axes
are those of the arrays, so that vmap over an array with batch axes takes one away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self, TypeVar, cast

import numpy as np

import effx.numpy as enp
from effx.array import Array, Operand
from effx.errors import DTypeError, ShapeError
from effx.experimental.sparse.base import JAXSparse
from effx.transforms.jit.jit import jit

Shape = tuple[int, ...]


class CoordinateArray(JAXSparse):
    """Elements with coordinates; `BCOO` without its operators."""

    data: Array
    indices: Array
    indices_sorted: bool
    unique_indices: bool
    _sparse_shape: Shape

    def __init__(
        self,
        args: tuple[Operand, Operand],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        data, indices = enp.asarray(args[0]), enp.asarray(args[1])
        name, sizes = type(self).__name__, tuple(map(int, shape))
        if indices.dtype.kind not in "iu":
            raise DTypeError(f"{name}: indices must be integers, got {indices.type!r}")
        if indices.ndim < 2:
            raise ShapeError(f"{name}: indices must have axes [*batch, nse, n_sparse], got {indices.type!r}")
        n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
        batch, dense = sizes[:n_batch], sizes[n_batch + n_sparse :]
        fits = (
            len(sizes) >= n_batch + n_sparse
            and data.ndim == n_batch + 1 + len(dense)
            and data.shape[n_batch] == indices.shape[-2]
            and data.shape[n_batch + 1 :] == dense
            and all([a in (1, n) for x in (data, indices) for a, n in zip(x.shape, batch, strict=False)])
        )
        if not fits:
            raise ShapeError(
                f"{name}: data {data.type!r} and indices {indices.type!r} do not fit shape {sizes}"
            )
        if np.broadcast_shapes(data.shape[:n_batch], indices.shape[:n_batch]) != batch:
            data = enp.broadcast_to(data, batch + data.shape[n_batch:])
        self.data, self.indices, self._sparse_shape = data, indices, sizes[n_batch : n_batch + n_sparse]
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""
        return len(self._sparse_shape)

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - 1 - self.n_batch

    @property
    def nse(self) -> int:
        """The number of stored elements of each batch element."""
        return int(self.indices.shape[-2])

    @property
    def batch_shape(self) -> Shape:
        """The sizes of the batch axes."""
        n = self.n_batch
        return tuple(np.broadcast_shapes(self.data.shape[:n], self.indices.shape[:n]))

    @property
    def sparse_shape(self) -> Shape:
        """The sizes of the sparse axes."""
        return self._sparse_shape

    @property
    def dense_shape(self) -> Shape:
        """The sizes of the dense axes."""
        return tuple(self.data.shape[self.n_batch + 1 :])

    @property
    def shape(self) -> Shape:
        """Of the array that is stood for."""
        return self.batch_shape + self.sparse_shape + self.dense_shape

    def tree_flatten(self) -> tuple[tuple[Array, ...], tuple[Shape, bool, bool]]:
        """Returns data and indices, and what is static."""
        return (self.data, self.indices), (self._sparse_shape, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, aux_data: object, children: Sequence[Array]) -> Self:
        """Returns what `tree_flatten` took apart; the children need not be arrays."""
        new = object.__new__(cls)
        new.data, new.indices = children
        static = cast("tuple[Shape, bool, bool]", aux_data)
        new._sparse_shape, new.indices_sorted, new.unique_indices = static
        return new

    def with_entries(
        self,
        data: Array,
        indices: Array,
        sparse: Sequence[int],
        *,
        ordered: bool = False,
        unique: bool = False,
    ) -> Self:
        """Returns an array of this class with these elements; batch and dense axes are those of `data`."""
        return self.tree_unflatten((tuple(sparse), ordered, unique), (data, indices))

    def with_data(self, data: Array) -> Self:
        """Returns an array with these elements at the same coordinates."""
        return self.tree_unflatten(self.tree_flatten()[1], (data, self.indices))

    def clean(self) -> tuple[Array, Array]:
        """Returns data and indices of one batch axis, [p, nse, *dense] and i32[p, nse, n_sparse]: padding has
        coordinates one past the end, all of them, and elements 0.
        """
        return _clean_entries(self.data, self.indices, self.batch_shape, self.sparse_shape)

    def entries(self) -> tuple[Array, Array]:
        """Returns what `clean` returns, with all batch axes."""
        data, indices = self.clean()
        batch = self.batch_shape
        return data.reshape(batch + data.shape[1:]), indices.reshape(batch + indices.shape[1:])


M = TypeVar("M", bound=CoordinateArray)


@jit(static_argnames=("batch", "sizes"), inline=True)
def _clean_entries(data: Array, indices: Array, batch: Shape, sizes: Shape) -> tuple[Array, Array]:
    n = len(batch)
    count = math.prod(batch)
    x = enp.broadcast_to(data, batch + data.shape[n:]).reshape((count, *data.shape[n:]))
    at = enp.broadcast_to(indices, batch + indices.shape[n:]).reshape((count, *indices.shape[n:]))
    ends = np.asarray(sizes, at.dtype)
    inside = ((at >= 0) & (at < ends)).all(-1)
    return enp.where(append_unit_axes(inside, x.ndim), x, enp.zeros((), x.dtype)), enp.where(
        inside[..., None], at, ends
    )


def append_unit_axes(x: Array, ndim: int) -> Array:
    """Returns `x` with axes of size 1 behind its own, so that it has `ndim`."""
    return x.reshape(x.shape + (1,) * (ndim - x.ndim))


def batch_and_coordinates(indices: Array) -> tuple[Array, ...]:
    """Returns the batch numbers and the coordinates i32[p, nse] along each axis."""
    numbers = enp.arange(indices.shape[0], dtype=indices.dtype)[:, None]
    numbers = enp.broadcast_to(numbers, indices.shape[:2])
    return (numbers, *[indices[..., k] for k in range(indices.shape[-1])])
