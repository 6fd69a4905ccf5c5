"""Gather and scatter, in StableHLO's general form with the index vector on the last axis."""

from typing import final

import attrs

from effx import dtypes
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.base import ArrayOperation, Structural, check_arity, check_axes, check_int_tuple, check_kind
from effx.ir.types import ArrayType, Shape

COMBINERS = ("set", "add", "mul", "min", "max")


@final
@attrs.frozen
class Gather(ArrayOperation, Structural):
    """Collects slices of x at computed starts. StableHLO: gather.

    Operands: x and `indices`, an integer array whose last axis holds one start vector. A start is
    clamped so that its slice lies inside x.

    Attributes:
        offset_dims: the result's axes that run along a slice, increasing.
        collapsed: axes of x with slice size 1 that are left out of the slice.
        start_index_map: for each entry of a start vector the axis of x it is for.
        slice_sizes: the slice's size along each axis of x.
        operand_batch, indices_batch: batch axes of x and of indices.
        sorted, unique: promises about the start vectors.
        drops: True if a start that was clamped passes no cotangent to x.
    """

    offset_dims: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    collapsed: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    start_index_map: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    slice_sizes: Shape = attrs.field(validator=check_int_tuple)
    operand_batch: tuple[int, ...] = attrs.field(default=(), validator=check_int_tuple)
    indices_batch: tuple[int, ...] = attrs.field(default=(), validator=check_int_tuple)
    sorted: bool = False
    unique: bool = False
    drops: bool = False

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x; the axes of indices but the last, and the slice's axes at `offset_dims`."""
        check_arity(self, types, 2)
        x, indices = types
        check_kind(self, indices, "iu", "indices")
        check_axes(self, self.collapsed + self.operand_batch, x, "collapsed axes")
        check_axes(self, self.start_index_map, x, "start_index_map")
        if indices.ndim == 0 or indices.shape[-1] != len(self.start_index_map):
            raise ShapeError(
                f"gather: the last axis of indices must hold {len(self.start_index_map)} starts, got {indices!r}"
            )
        if len(self.slice_sizes) != x.ndim or any(
            not 0 <= s <= n for s, n in zip(self.slice_sizes, x.shape, strict=True)
        ):
            raise ShapeError(f"gather: a slice of sizes {list(self.slice_sizes)} does not fit into {x!r}")
        check_batch(self, x, indices, self.operand_batch, self.indices_batch)
        removed = self.collapsed + self.operand_batch
        if any(self.slice_sizes[i] > 1 for i in removed):
            raise ShapeError(f"gather: collapsed axes need slice size 1, got sizes {list(self.slice_sizes)}")
        window = [s for i, s in enumerate(self.slice_sizes) if i not in removed]
        if len(window) != len(self.offset_dims):
            raise ShapeError(f"gather: {len(self.offset_dims)} offset_dims for a slice of {len(window)} axes")
        return x.with_shape(interleave(indices.shape[:-1], window, self.offset_dims))


@final
@attrs.frozen
class Scatter(ArrayOperation):
    """Combines x with updates at computed starts. StableHLO: scatter.

    Operands: x, `indices` (as in Gather), `updates`. An update that does not lie inside x is dropped.

    Attributes:
        window_dims: the axes of updates that run along a window, increasing.
        inserted: axes of x of window size 1 that updates do not have.
        start_index_map: for each entry of a start vector the axis of x it is for.
        combiner: "set", "add", "mul", "min" or "max"; with "set" and equal starts the winner is unspecified.
        operand_batch, indices_batch: batch axes of x and of indices.
        sorted, unique: promises about the start vectors.
    """

    window_dims: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    inserted: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    start_index_map: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    combiner: str = attrs.field(validator=attrs.validators.in_(COMBINERS))
    operand_batch: tuple[int, ...] = attrs.field(default=(), validator=check_int_tuple)
    indices_batch: tuple[int, ...] = attrs.field(default=(), validator=check_int_tuple)
    sorted: bool = False
    unique: bool = False

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of x."""
        check_arity(self, types, 3)
        x, indices, updates = types
        check_kind(self, indices, "iu", "indices")
        if updates.dtype != x.dtype:
            raise DTypeError(f"scatter: dtypes differ: x is {x!r}, updates are {updates!r}")
        if self.combiner != "set" or not dtypes.is_key(x.dtype):
            check_kind(self, x, "biuf" if self.combiner in ("min", "max") else "biufc", "x")
        check_axes(self, self.inserted + self.operand_batch, x, "inserted axes")
        check_axes(self, self.start_index_map, x, "start_index_map")
        check_axes(self, self.window_dims, updates, "window_dims")
        if indices.ndim == 0 or indices.shape[-1] != len(self.start_index_map):
            raise ShapeError(
                f"scatter: the last axis of indices must hold {len(self.start_index_map)} starts, got {indices!r}"
            )
        check_batch(self, x, indices, self.operand_batch, self.indices_batch)
        window = [updates.shape[i] for i in self.window_dims]
        scattered = [n for i, n in enumerate(updates.shape) if i not in self.window_dims]
        window_axes = [n for i, n in enumerate(x.shape) if i not in self.inserted + self.operand_batch]
        if (
            len(window) != len(window_axes)
            or any(w > n for w, n in zip(window, window_axes, strict=True))
            or tuple(scattered) != indices.shape[:-1]
        ):
            raise ShapeError(f"scatter: updates {updates!r} fit neither x {x!r} nor indices {indices!r}")
        return x


def check_batch(
    op: ArrayOperation,
    x: ArrayType,
    indices: ArrayType,
    operand_batch: tuple[int, ...],
    indices_batch: tuple[int, ...],
) -> None:
    """Raises a ShapeError unless the batch axes of x and indices agree pairwise."""
    check_axes(op, indices_batch, indices.with_shape(indices.shape[:-1]), "indices_batch")
    if len(operand_batch) != len(indices_batch) or any(
        x.shape[i] != indices.shape[j] for i, j in zip(operand_batch, indices_batch, strict=True)
    ):
        raise ShapeError(
            f"{op.name}: batch axes {operand_batch} of {x!r} and {indices_batch} of {indices!r} differ"
        )


def interleave(batch: Shape, window: list[int], offset_dims: tuple[int, ...]) -> Shape:
    """Returns the shape with `window` sizes at `offset_dims` and `batch` sizes elsewhere, in order."""
    ndim = len(batch) + len(window)
    if any(not 0 <= d < ndim for d in offset_dims):
        raise ShapeError(f"gather: offset_dims {offset_dims} are out of range for a result of {ndim} axes")
    inner, outer = iter(window), iter(batch)
    return tuple([next(inner) if i in offset_dims else next(outer) for i in range(ndim)])
