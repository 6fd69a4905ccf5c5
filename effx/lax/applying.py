"""Gather elements at index arrays, and apply functions to elements in place."""

from collections.abc import Callable, Sequence

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.errors import DTypeError, IndexingError, ShapeError
from effx.ir.types import Shape
from effx.ir.values.scalars import scalar
from effx.lax.control.closures import check_callable
from effx.lax.control.loops import while_loop
from effx.lax.index import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    gather,
    scatter_add,
)
from effx.lax.operands import int_tuple, resolve_axis
from effx.lax.shape import concatenate, expand_dims

__all__ = ["index_take", "scatter_apply"]

ZERO, ONE = scalar(0, dtypes.int32), scalar(1, dtypes.int32)


def index_take(src: Operand, idxs: Sequence[Operand], axes: Sequence[int]) -> Array:
    """Collects the slices at pairs, triples, … of indices along some axes; indices count modulo the axis' size.

    Args:
        src: of any dtype and shape.
        idxs: for each of the axes integers `[n]`.
        axes: distinct axes of src; negative ones count from the end.

    Returns:
        An array of n slices: `[n, *the other axes]`.

    Raises:
        ShapeError: axes are out of range or repeat, or indices are not `[n]`.
        DTypeError: indices are no integers.
        IndexingError: there is not one array of indices for each axis, or an axis has no elements.

    >>> import numpy as np
    >>> index_take(np.arange(6).reshape(2, 3), (np.array([0, -1]), np.array([1, 2])), (0, 1))
    Array([1, 5], dtype=int32)
    """
    x = as_operand(src)
    t = x.type
    places = tuple([resolve_axis(a, t) for a in int_tuple("axes", axes)])
    if len(set(places)) != len(places):
        raise ShapeError(f"index_take: axes {tuple(axes)} repeat an axis")
    if not places or len(idxs) != len(places):
        raise IndexingError(
            f"index_take: needs as many arrays of indices as axes, at least one, got {len(idxs)} for {len(places)} axes"
        )
    rows: list[Array] = []
    for axis, indices in zip(places, idxs, strict=True):
        row = as_operand(indices)
        if row.type.kind not in "iu":
            raise DTypeError(f"index_take: indices must be integers, got {row.type!r}")
        if row.type.ndim != 1 or (rows and row.type.shape[0] != rows[0].type.shape[0]):
            raise ShapeError(
                f"index_take: indices must be arrays with one axis, of one size, got {row.type!r}"
            )
        if not t.shape[axis] and row.type.size:
            raise IndexingError(f"index_take: axis {axis} of {t!r} has no elements")
        rows.append(expand_dims(_modulo(row, t.shape[axis]), (1,)))
    sizes = [1 if a in places else n for a, n in enumerate(t.shape)]
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, t.ndim - len(places) + 1)),
        collapsed_slice_dims=tuple(sorted(places)),
        start_index_map=places,
    )
    return gather(x, concatenate(rows, 1), numbers, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def _modulo(x: Array, size: int) -> Array:
    return arithmetic.remainder(as_int32(x), max(size, 1))


def as_int32(x: Array) -> Array:
    """Returns indices as int32s; 64-bit ones stay."""
    return x if dtypes.bits(x.type.dtype) > 32 else convert(x, dtypes.int32)


def scatter_apply(
    operand: Operand,
    scatter_indices: Operand,
    func: Callable[[Array], Array],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Shape = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Returns an array with a function applied to the elements at computed indices, as often as they are indexed.

    The function is applied to the whole array, and its results are selected at the indices; without
    `unique_indices` in a loop, which has no derivative in reverse mode.

    Args:
        operand: of any dtype and shape.
        scatter_indices: integers `[*b, k]`: vectors of k starts.
        func: elementwise; keeps the dtype and the shape.
        dimension_numbers: the roles of the axes.
        update_shape: the shape that updates would have: axes `*b`, and those of a window.
        indices_are_sorted, unique_indices: promises, for speed.
        mode: for windows out of range: "drop" (the default), "clip" or "promise_in_bounds".

    Returns:
        An array of the operand's type.

    Raises:
        DTypeError: the indices are not integers, or the function's results have another dtype.
        ShapeError: shapes and dimension numbers do not fit, or the function's results have another shape.
        IndexingError: `mode` is unknown.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> indices = np.array([[0], [2], [0]])
    >>> scatter_apply(np.array([5, 6, 7], np.int32), indices, lambda x: x * 10, numbers, update_shape=(3,))
    Array([500,   6,  70], dtype=int32)
    """
    check_callable("func", func)
    x = as_operand(operand)
    counts = scatter_add(
        broadcast_to(ZERO, x.type.shape),
        scatter_indices,
        broadcast_to(ONE, tuple(update_shape)),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )

    def applied(value: Array) -> Array:
        result = as_operand(func(value))
        if result.type.dtype != x.type.dtype:
            raise DTypeError(
                f"scatter_apply: func must keep the dtype of {x.type!r}, but returns {result.type!r}"
            )
        if result.type.shape != x.type.shape:
            raise ShapeError(
                f"scatter_apply: func must keep the shape of {x.type!r}, but returns {result.type!r}"
            )
        return result

    if unique_indices:
        return arithmetic.where(counts > 0, applied(x), x)

    def applied_again(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        done, value = carry
        return done + 1, arithmetic.where(counts > done, applied(value), value)

    return while_loop(lambda carry: (counts > carry[0]).any(), applied_again, (ZERO, x))[1]
