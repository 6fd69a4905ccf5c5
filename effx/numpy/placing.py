"""Arrays with elements replaced, inserted, chosen or deleted, by index or by mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from effx import dtypes
from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.indexing import iota_along_axis
from effx.array.promotion import (
    as_operand,
    broadcast_arrays,
    broadcast_to,
    convert,
    promote_dtypes,
    to_host_array,
)
from effx.array.reducing import refuse_out
from effx.array.shaping import normalize_axes, normalize_axis
from effx.errors import (
    ConcretizationError,
    DTypeError,
    IndexingError,
    OptionError,
    ShapeError,
    name_user_call,
)
from effx.numpy.creation import asarray, returnable_operand
from effx.numpy.joining import concatenate
from effx.numpy.known import bound_indices, known_data
from effx.numpy.sorting import argsort

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["block", "choose", "fill_diagonal", "insert", "place", "put", "put_along_axis", "trim_zeros"]


def _refuse_in_place(inplace: bool) -> None:
    if inplace:
        raise TypeError(
            f"{name_user_call()}: arrays are immutable; pass inplace=False and use the array that is returned"
        )


def fill_diagonal(a: Operand, val: Operand, wrap: bool = False, *, inplace: bool = True) -> Array:
    """The array with other elements on its diagonal.

    Args:
        a: of at least two axes; of one size, if there are more than two.
        val: a number, or the elements, repeated as often as needed.
        wrap: True to start a new diagonal after each `n + 1` rows of a tall matrix.
        inplace: must be False: arrays are immutable.

    Raises:
        ShapeError: an array that has no diagonal.
        TypeError: `inplace` is not False.

    >>> fill_diagonal(np.zeros((2, 2)), 1, inplace=False).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    _refuse_in_place(inplace)
    x, values = returnable_operand(a), as_operand(val)
    t = x.type
    if t.ndim < 2 or (t.ndim > 2 and len(set(t.shape)) != 1):
        raise ShapeError(f"fill_diagonal: takes a matrix, or axes of one size, got {t!r}")
    step = t.shape[1] + 1 if t.ndim == 2 else sum([t.shape[0] ** i for i in range(t.ndim)])
    end = t.size if wrap or t.ndim > 2 else min(t.size, t.shape[1] ** 2)
    indices = np.arange(0, end, step)
    if not indices.size or 0 in values.type.shape:
        return x
    flat = shaping.reshape(values, -1)
    chosen = flat if flat.type.size == 1 else flat[to_host_array(np.arange(indices.size) % flat.type.size)]
    written = shaping.reshape(x, -1).at[to_host_array(indices)].set(chosen)
    return shaping.reshape(written, t.shape)


def put(a: Operand, ind: Operand, v: Operand, mode: str | None = None, *, inplace: bool = True) -> Array:
    """The array with other elements at indices among all elements as one axis.

    Args:
        a: the array.
        ind: integers; negative ones count from the end.
        v: the elements, repeated as often as needed.
        mode: outside the bounds: "clip" (the default) writes to the nearest element, "wrap" counts modulo the
            size, "drop" writes nothing.
        inplace: must be False: arrays are immutable.

    Raises:
        TypeError: `inplace` is not False.
        DTypeError: another mode.

    >>> put(np.zeros(3), np.array([0, 2]), np.array([1.0, 2.0]), inplace=False).tolist()
    [1.0, 0.0, 2.0]
    """
    _refuse_in_place(inplace)
    x = returnable_operand(a)
    indices = shaping.reshape(as_operand(ind), -1)
    values = shaping.reshape(as_operand(v), -1)
    n, count = x.type.size, indices.type.size
    if mode not in (None, "clip", "wrap", "drop"):
        raise OptionError(f"put: mode must be 'clip', 'wrap' or 'drop', got {mode!r}")
    if not n or not count or 0 in values.type.shape:
        return x
    chosen = values[to_host_array(np.arange(count) % values.type.size)]
    if mode == "wrap":
        indices = arithmetic.remainder(indices, n)
    elif mode != "drop":
        indices = arithmetic.clip(arithmetic.where(indices < 0, indices + n, indices), 0, n - 1)
    return shaping.reshape(shaping.reshape(x, -1).at[indices].set(chosen, mode="drop"), x.type.shape)


def put_along_axis(
    arr: Operand,
    indices: Operand,
    values: Operand,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """The array with other elements along one axis, by an array of indices that is aligned with the other axes.

    Args:
        arr: the array.
        indices: integers, of as many axes.
        values: the elements; they broadcast to the shape of `indices`.
        axis: None for all elements as one axis.
        inplace: must be False: arrays are immutable.
        mode: as for `.at[]`.

    Raises:
        TypeError: `inplace` is not False.
        ShapeError: indices of another number of axes.

    >>> put_along_axis(np.zeros((2, 2)), np.array([[1], [0]]), 5.0, 1, inplace=False).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    _refuse_in_place(inplace)
    x, at = returnable_operand(arr), as_operand(indices)
    if axis is None:
        if at.type.ndim != 1:
            raise ShapeError(f"put_along_axis: without an axis, indices must be a vector, got {at.type!r}")
        flat = put_along_axis(shaping.reshape(x, -1), at, values, 0, False, mode=mode)
        return shaping.reshape(flat, x.type.shape)
    if at.type.ndim != x.type.ndim:
        raise ShapeError(f"put_along_axis: indices {at.type!r} must have as many axes as {x.type!r}")
    along = normalize_axis(axis, x.type.ndim, x.type)
    sizes = [n if i != along else 1 for i, n in enumerate(x.type.shape)]
    shape = tuple([m if n == 1 else n for n, m in zip(sizes, at.type.shape, strict=True)])
    at = broadcast_to(at, shape)
    index = [at if i == along else iota_along_axis(shape, i) for i in range(x.type.ndim)]
    return x.at[tuple(index)].set(as_operand(values), mode=mode)


def place(arr: Operand, mask: Operand, vals: Operand, *, inplace: bool = True) -> Array:
    """The array with other elements where a mask is true: the k-th of them at the k-th true element.

    Args:
        arr: the array.
        mask: booleans, as many as elements.
        vals: the elements, repeated as often as needed.
        inplace: must be False: arrays are immutable.

    Raises:
        TypeError: `inplace` is not False.
        ShapeError: a mask of another size, or no elements to write.

    >>> place(np.zeros(3), np.array([True, False, True]), np.array([1.0, 2.0]), inplace=False).tolist()
    [1.0, 0.0, 2.0]
    """
    _refuse_in_place(inplace)
    x, where, values = returnable_operand(arr), as_operand(mask), as_operand(vals)
    if where.type.size != x.type.size:
        raise ShapeError(f"place: a mask {where.type!r} does not fit {x.type!r}")
    if 0 in x.type.shape:
        return x
    values = shaping.reshape(values, -1)
    if 0 in values.type.shape:
        raise ShapeError("place: there are no elements to write")
    where = shaping.reshape(where if where.type.kind == "b" else where != 0, x.type.shape)
    rank = shaping.reshape(reducing.cumsum(shaping.reshape(where, -1)) - 1, x.type.shape)
    chosen = indexing.take(values, arithmetic.remainder(rank, values.type.size), 0, "clip")
    return arithmetic.where(where, convert(chosen, x.type.dtype), x)


def insert(
    arr: Operand, obj: Operand | slice | Sequence[int], values: Operand, axis: int | None = None
) -> Array:
    """The array with elements inserted before indices of an axis.

    Args:
        arr: the array.
        obj: an int, a slice, or integers: the indices before which to insert, in the array as it is.
        values: what to insert; it broadcasts.
        axis: None for all elements as one axis.

    Raises:
        IndexingError: an index outside the axis.

    >>> insert(np.arange(3), 1, 9).tolist()
    [0, 9, 1, 2]
    """
    x, new = returnable_operand(arr), returnable_operand(values)
    x, along = shaping.flatten_without_axis(x, axis)
    n = x.type.shape[along]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(n))
    at = returnable_operand(asarray(obj))
    if at.type.ndim > 1 or (at.type.kind not in "iu" and at.type.size):
        raise IndexingError(f"insert: indices must be an int or a vector of integers, got {at.type!r}")
    try:
        known = at.host("insert(obj=x)")
    except ConcretizationError:  # traced indices are trusted
        known = np.zeros(0)
    if ((known < -n) | (known > n)).any():
        raise IndexingError(f"insert: index {obj!r} is outside axis {along} of {x.type!r}")
    if not at.type.ndim:  # all values before one index
        new = shaping.reshape(new, (1,) * (x.type.ndim - new.type.ndim) + new.type.shape)
        new = shaping.moveaxis(new, 0, along)
    count = at.type.size if at.type.ndim else new.type.shape[along]
    new = broadcast_to(new, tuple([count if i == along else m for i, m in enumerate(x.type.shape)]))
    at = broadcast_to(convert(at, dtypes.int32), (count,))
    at = arithmetic.where(at < 0, at + n, at)
    # A stable sort: a new element comes before the old one at its index.
    order = argsort(shaping.concatenate([at, iota_along_axis((n,), 0)], 0))
    both = shaping.concatenate([convert(new, x.type.dtype), x], along)
    return indexing.take(both, order, along, "clip")


def choose(a: Operand, choices: Array | Sequence[Operand], out: None = None, mode: str = "raise") -> Array:
    """Elements of several arrays: at each position, that of the array with the index in `a`.

    Args:
        a: the indices of arrays, integers.
        choices: the arrays, or one whose first axis counts them; they broadcast against `a`.
        out: not supported.
        mode: of an index outside: "raise", which needs concrete indices, "clip" or "wrap".

    Raises:
        IndexingError: an index outside, with mode "raise".
        ConcretizationError: traced indices, with mode "raise".

    >>> choose(np.array([1, 0]), [np.array([1, 2]), np.array([3, 4])]).tolist()
    [3, 2]
    """
    refuse_out(out)
    at = as_operand(a)
    if at.type.kind not in "iu":
        raise DTypeError(f"choose: indices must be integers, got {at.type!r}")
    parts = [as_operand(c) for c in choices]
    if not parts:
        raise ShapeError("choose: there is nothing to choose from")
    if mode not in ("raise", "clip", "wrap"):
        raise OptionError(f"choose: mode must be 'raise', 'clip' or 'wrap', got {mode!r}")
    at = bound_indices(at, len(parts), mode, "choice array", f"outside the {len(parts)} choices")
    at, *parts = broadcast_arrays([at, *promote_dtypes(*parts)], False, checks_ranks=False)
    return indexing.take_along_axis(shaping.stack(parts, 0), shaping.expand_dims(at, 0), 0, "clip")[0]


def trim_zeros(filt: Operand, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """The array without zeros at the ends of its axes; it must be concrete. A scalar, without axes, is returned.

    Args:
        filt: the array.
        trim: where: "f" at the front, "b" at the back, "fb" at both.
        axis: one axis or several; None for all.

    Raises:
        ConcretizationError: the array is abstract.
        DTypeError: another `trim`.

    >>> trim_zeros(np.array([0, 0, 1, 0, 2, 0])).tolist()
    [1, 0, 2]
    """
    x = returnable_operand(filt)
    where = str(trim).lower()
    if where not in ("f", "b", "fb", "bf"):
        raise OptionError(f"trim_zeros: trim must be 'f', 'b' or 'fb', got {trim!r}")
    if not x.type.ndim:
        return x
    data = known_data(x, "how many zeros the abstract {} has is not known while it is traced")
    nonzero_indices: tuple[np.ndarray[Any, Any], ...] = np.nonzero(data)
    index = [slice(None)] * x.type.ndim
    for i in normalize_axes(axis, x.type):
        low, high = (
            (int(np.min(nonzero_indices[i])), int(np.max(nonzero_indices[i])) + 1)
            if nonzero_indices[i].size
            else (0, 0)
        )
        index[i] = slice(low if "f" in where else None, high if "b" in where or not high else None)
    return x[tuple(index)]


def block(arrays: Any) -> Array:
    """An array put together from blocks in nested lists: the innermost along the last axis, and so on outwards.

    Args:
        arrays: lists of one depth everywhere, of arrays or numbers.

    Raises:
        ShapeError: lists of different depths, or an empty one.

    >>> block([[np.ones((1, 1)), np.zeros((1, 1))], [np.zeros((1, 1)), np.ones((1, 1))]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def depth(x: Any) -> int:
        if not isinstance(x, list):
            return 0
        depths = {depth(part) for part in x}
        if len(depths) != 1:
            raise ShapeError(
                "block: lists must be nested to one depth" if depths else "block: a list must not be empty"
            )
        return depths.pop() + 1

    levels = depth(arrays)

    def leaves(x: Any) -> list[Array]:
        return (
            [leaf for part in x for leaf in leaves(part)] if isinstance(x, list) else [returnable_operand(x)]
        )

    ndim = max([levels, *[x.type.ndim for x in leaves(arrays)]])

    def joined(x: Any, level: int) -> Array:
        if isinstance(x, list):
            return concatenate([joined(part, level - 1) for part in x], ndim - level)
        leaf = returnable_operand(x)
        return shaping.reshape(leaf, (1,) * (ndim - leaf.type.ndim) + leaf.type.shape)

    return joined(arrays, levels)
