"""NumPy indexing: `x[...]`, `x.at[...]`, take.

An index is first normalised to one entry for each axis of x: a static slice, or an integer array. Reading
slices, then gathers; writing is one scatter whose windows are the unit-step slices. Negative indices count
from the end. Out of bounds, reading by an array clips the index, take fills, writing drops; `mode=` overrides
this.

Reading and writing by index are one file, since they share one plan of the index.

Never: wait for a device, except for boolean masks, whose number of true elements is a size of the result.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import index as as_int
from typing import Any, cast, final

import attrs
import numpy as np

from effx import dtypes, ports
from effx.array import arithmetic
from effx.array.promotion import (
    as_operand,
    as_operand_or_list,
    broadcast_shapes,
    broadcast_to,
    convert,
    promote_dtypes,
    refuse_mixed_dtypes,
    to_host_array,
    zeros,
)
from effx.array.shaping import (
    concatenate,
    expand_dims,
    flatten_without_axis,
    moveaxis,
    normalize_axis,
    reshape,
    size_vector,
    stack,
)
from effx.array.windows import Window
from effx.dtypes import DType
from effx.errors import (
    ConcretizationError,
    DTypeError,
    IndexingError,
    NonConcreteBooleanIndexError,
    ShapeError,
    name_user_call,
)
from effx.flags import check_static_indices
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.shape import DynamicSlice, Iota, Reverse, Slice
from effx.ir.sizes.dimensions import as_size, is_symbolic
from effx.ir.sizes.division import maximum, minimum
from effx.ir.types import ArrayType, Shape, array_type
from effx.ir.values.array import Array, HostData, Index, Operand
from effx.ir.values.scalars import int_range, scalar

MODES = ("promise_in_bounds", "clip", "fill", "drop", "wrap")


@final
@attrs.frozen
class ResolvedSlice:
    """A slice with its bounds resolved: `size` elements from `start`, which is computed where it is an array, in steps of
    `step`.
    """

    start: int | Array
    size: int
    step: int

    def is_full(self, n: int) -> bool:
        """Returns whether the slice takes all of an axis of size n in order."""
        if isinstance(self.start, Array):
            return False
        return self.start == 0 and self.size == n and (self.step == 1 or (type(n) is int and n <= 1))


# A slice, an int, or an integer array.
Entry = Any


@final
@attrs.define
class IndexPlan:
    """A normalised index.

    Attributes:
        shape: x's shape with new axes of size 1 for `None`.
        entries: for each of these axes a ResolvedSlice, an int, or an integer array.
        gap: the axis before which there is an Ellipsis for no axes; it still separates advanced indices.
    """

    shape: Shape
    entries: list[Entry]
    gap: int | None = None

    def arrays(self) -> list[int]:
        """The axes indexed by arrays, or by ints beside an array: NumPy's advanced indices."""
        if not any(not isinstance(e, ResolvedSlice | int) for e in self.entries):
            return []
        return [i for i, e in enumerate(self.entries) if not isinstance(e, ResolvedSlice)]

    def are_adjacent(self, advanced: list[int]) -> bool:
        """Returns whether advanced indices are adjacent; their axes then stay in position."""
        first, last = advanced[0], advanced[-1]
        parted = self.gap is not None and first < self.gap <= last
        return advanced == list(range(first, last + 1)) and not parted


@final
@attrs.frozen
class MaskIndices:
    """The indices along one axis at which a boolean mask is true.

    Attributes:
        indices: the indices of the true elements.
        mask: the mask's type.
        size: the axis's size; None for the axis that a scalar mask adds.
    """

    indices: Array
    mask: ArrayType
    size: int | None


@final
@attrs.frozen
class IndexingMode:
    """The treatment of indices in `x.at[i]`.

    Attributes:
        mode: the treatment of indices out of bounds; None refuses such ints, and drops or clips elements of arrays.
        ordered: the promise that indices are sorted.
        unique: the promise that no index repeats.
        wraps: negative indices count from the end; otherwise they are out of bounds.
    """

    mode: str | None = None
    ordered: bool = False
    unique: bool = False
    wraps: bool = True

    def __attrs_post_init__(self) -> None:
        if self.mode not in (None, *MODES):
            raise IndexingError(f"at: mode must be one of {', '.join(MODES)}, got {self.mode!r}")


def plan_index(
    x: Array, index: Index, mode: str | None = None, wraps: bool = True, is_written: bool = False
) -> IndexPlan:
    """Resolves an index to one entry for each axis.

    Args:
        x: the array.
        index: as users write it.
        mode: the treatment of ints out of range; None for that of `check_static_indices`: they are refused, or read the
            nearest element and write nothing.
        wraps: False for negative indices that are out of range.
        is_written: whether the elements are written.

    Raises:
        IndexingError: too many entries, an int out of range, a mask of another shape, or something that is no
            index.
    """
    t = x.type
    expanded: list[Any] = []
    for part in index if isinstance(index, tuple) else [index]:
        if isinstance(part, list | tuple) and isinstance(index, tuple):
            part = _join_list(part) if len(part) else np.zeros(0, np.int32)
        if isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
            raise IndexingError(
                f"getitem: an index must be an int, slice, None, Ellipsis or array, got {part!r}; "
                f"convert it to an array first"
            )
        if isinstance(part, bool | np.bool_):
            part = to_host_array(np.asarray(part))
        if isinstance(part, np.ndarray) and part.ndim == 0 and part.dtype.kind in "iu":
            part = int(part)
        if isinstance(part, Array | np.ndarray):
            array = as_operand(part)
            if array.type.kind == "b":
                expanded += _nonzero_indices(array)
                continue
            if array.type.kind not in "iu":
                raise IndexingError(f"getitem: an index array must be integer or boolean, got {array.type!r}")
            part = array
        expanded.append(part)
    ellipses = [i for i, p in enumerate(expanded) if p is Ellipsis]
    if len(ellipses) > 1:
        raise IndexingError("getitem: an index may hold one Ellipsis (...) only")
    added = [p is None or (type(p) is MaskIndices and p.size is None) for p in expanded]
    consumed = len(expanded) - len(ellipses) - sum(added)
    if consumed > t.ndim:
        raise IndexingError(f"getitem: {consumed} indices for the {t.ndim} axes of {t!r}")
    fill = [slice(None)] * (t.ndim - consumed)
    if ellipses:
        expanded[ellipses[0] : ellipses[0] + 1] = fill
    else:
        expanded += fill
    shape: list[int] = []
    entries: list[Entry] = []
    axis = 0
    for part in expanded:
        if part is None or (type(part) is MaskIndices and part.size is None):
            shape.append(1)
            entries.append(ResolvedSlice(0, 1, 1) if part is None else part.indices)
            continue
        n = t.shape[axis]
        shape.append(n)
        entries.append(_resolve_entry(part, n, axis, x, mode=mode, wraps=wraps, is_written=is_written))
        axis += 1
    return IndexPlan(tuple(shape), entries, ellipses[0] if ellipses and not fill else None)


def _join_list(part: "Sequence[object]") -> "HostData | Array":
    """Returns a list in an index as an array; one that holds abstract values is joined by operations."""
    if not any([isinstance(x, Array) and x.frame is not None for x in _leaves(part)]):
        return np.asarray(part)
    return stack(
        [_join_list(x) if isinstance(x, list | tuple) else as_operand(cast("Operand", x)) for x in part]
    )


def _leaves(part: "Sequence[object]") -> "Iterator[object]":
    for x in part:
        if isinstance(x, list | tuple):
            yield from _leaves(x)
        else:
            yield x


def _resolve_entry(
    part: Any, n: int, axis: int, x: Array, *, mode: str | None, wraps: bool, is_written: bool
) -> Entry:
    if isinstance(part, MaskIndices):
        if part.size not in (n, 0):  # as in NumPy, a mask of size 0 takes nothing of an axis of any size
            raise IndexingError(
                f"getitem: the mask {part.mask!r} does not fit {x.type!r}: axis {axis} has size {n}, "
                f"the mask {part.size} there"
            )
        return part.indices
    if isinstance(part, slice):
        if any([is_symbolic(k) for k in (n, part.start, part.stop, part.step)]):
            return _resolve_symbolic_slice(part, n)
        try:
            start, stop, step = part.indices(n)
        except ConcretizationError as error:
            raise _unknown_bounds_error(part) from error
        except TypeError:
            raise IndexingError(f"getitem: slice bounds must be ints or None, got {part!r}") from None
        return ResolvedSlice(start, len(range(start, stop, step)), step)
    if isinstance(part, Window):
        return _resolve_window(part, n, axis, x, mode)
    if isinstance(part, Array):
        return part if wraps or is_written else _keep_indices_negative(part, n)
    try:
        position = as_int(part)
    except TypeError:
        raise IndexingError(
            f"getitem: an index must be an int, slice, None, Ellipsis or array, got {part!r}"
        ) from None
    if (-n if wraps else 0) <= position < n or (mode == "wrap" and n):
        return position % n
    if mode is None:
        if check_static_indices.value:
            raise IndexingError(
                f"getitem: index {position} is out of range for axis {axis} of {x.type!r} with size {n}"
            )
        # As an array would be: `checkify` sees that it is out of range.
        limits = np.iinfo(np.int32)
        return to_host_array(np.asarray(min(max(position, int(limits.min)), int(limits.max)), np.int32))
    if mode == "clip" and n:
        return 0 if position < 0 else n - 1
    return to_host_array(
        np.asarray(n if position >= 0 else -n - 1)
    )  # out of range like the int, and no larger than n


def _resolve_window(part: Window, n: int, axis: int, x: Array, mode: str | None) -> ResolvedSlice:
    start, step = part.start, part.stride
    if not isinstance(start, Array):
        first = max(start + n, 0) if start < 0 else start
        return ResolvedSlice(min(first, n), len(range(first, min(first + part.size * step, n), step)), step)
    if mode == "wrap":
        raise IndexingError(
            'at: a slice whose start is computed does not wrap; use mode="clip" or an index array'
        )
    extent = max((part.size - 1) * step + 1, 0)
    if extent > n:
        raise IndexingError(
            f"getitem: {part.size} elements in steps of {step} do not fit axis {axis} of {x.type!r} with size {n}"
        )
    return ResolvedSlice(_index_array(start, n, "clip"), part.size, step)


def _resolve_symbolic_slice(part: slice, n: int) -> ResolvedSlice:
    """Resolves a slice where it or the axis is symbolic, by Python's rules."""
    try:
        step = 1 if part.step is None else as_int(part.step)
        first, last = (0, n) if step > 0 else (n - 1, -1)
        low, high = (0, n) if step > 0 else (-1, n - 1)
        start = first if part.start is None else _resolve_bound(as_size(part.start), n, low, high)
        stop = last if part.stop is None else _resolve_bound(as_size(part.stop), n, low, high)
    except ConcretizationError as error:
        raise _unknown_bounds_error(part) from error
    except TypeError:
        raise IndexingError(f"getitem: slice bounds must be ints or None, got {part!r}") from None
    count = -((start - stop) // step) if step > 0 else -((stop - start) // -step)
    return ResolvedSlice(start, maximum(count, 0), step)


def _unknown_bounds_error(part: slice) -> IndexingError:
    return IndexingError(
        f"getitem: slice bounds decide the result's shape and must be known while tracing, got {part!r}; use ds(start, "
        f"size) or lax.dynamic_slice where the size is fixed, or effx.numpy.where"
    )


def _resolve_bound(position: int, n: int, low: int, high: int) -> int:
    """Returns a bound counted from the start, and not outside of the axis."""
    nonnegative = position + n if position < 0 else position
    return minimum(maximum(nonnegative, low), high)


def _nonzero_indices(mask: Array) -> list[MaskIndices]:
    try:
        data = mask.host("x[mask]")
    except ConcretizationError as error:
        raise NonConcreteBooleanIndexError(
            f"x[mask]: the shape would depend on the values of the abstract mask {mask.type!r}; "
            f"use effx.numpy.where(mask, x, y), or x.at[mask].set(y) with a scalar y"
        ) from error
    if mask.type.ndim == 0:
        return [MaskIndices(to_host_array(np.zeros(int(data), np.int32)), mask.type, None)]
    indices = [to_host_array(i.astype(np.int32)) for i in data.nonzero()]
    return [MaskIndices(i, mask.type, n) for i, n in zip(indices, mask.type.shape, strict=True)]


def getitem(x: Array, index: Index) -> Array:
    """Reads `x[index]`."""
    t = x.type
    # A fast path for iteration and x[i].
    if type(index) is int and t.shape and -(n := t.shape[0]) <= index < n:
        row = index % n
        rest = t.shape[1:]
        zeros = (0,) * len(rest)
        return reshape(Slice((row, *zeros), (row + 1, *rest), (1,) * t.ndim)(x), rest)
    return read_plan(x, plan_index(x, index), "promise_in_bounds", None)


def read_plan(
    x: Array,
    plan: IndexPlan,
    mode: str,
    fill_value: Operand | None,
    ordered: bool = False,
    unique: bool = False,
) -> Array:
    """Reads the elements of a plan, whose indices the caller may promise to be sorted or unique."""
    advanced = plan.arrays()
    if len(advanced) == 1:
        (axis,) = advanced
        progression = _find_progression(plan.entries[axis], plan.shape[axis])
        if progression is not None:
            entries = [*plan.entries[:axis], progression, *plan.entries[axis + 1 :]]
            plan, advanced = IndexPlan(plan.shape, entries, plan.gap), []
    x = _read_slices(*_read_windows(reshape(x, plan.shape), plan, mode), advanced)
    if not advanced:
        remaining_sizes = [
            n for n, e in zip(x.type.shape, plan.entries, strict=True) if isinstance(e, ResolvedSlice)
        ]
        return reshape(x, remaining_sizes)
    arrays = [_index_array(plan.entries[a], plan.shape[a], mode) for a in advanced]
    if all(not a.type.shape for a in arrays) and mode in ("clip", "promise_in_bounds"):
        return _read_block(x, advanced, arrays)
    shape = broadcast_shapes(*[a.type.shape for a in arrays])
    insertion_axis = advanced[0] if plan.are_adjacent(advanced) else 0
    starts = concatenate([expand_dims(broadcast_to(a, shape), -1) for a in _convert_to_widest(arrays)], -1)
    window = x.type.ndim - len(advanced)
    offset_dims = tuple(
        [i for i in range(window + len(shape)) if not insertion_axis <= i < insertion_axis + len(shape)]
    )
    sizes = tuple([1 if i in advanced else n for i, n in enumerate(x.type.shape)])
    if any(n == 0 for i, n in enumerate(x.type.shape) if i in advanced):
        remaining_sizes = [n for i, n in enumerate(x.type.shape) if i not in advanced]
        return _empty_result(
            x,
            (*remaining_sizes[:insertion_axis], *shape, *remaining_sizes[insertion_axis:]),
            mode,
            fill_value,
        )
    # Without a mode, indices out of range are clipped, but pass no cotangent to the nearest element; as in
    # JAX.
    # Clamped starts would be equal where unique ones were promised; under "fill" their cotangents are zero.
    drops = mode == "promise_in_bounds" or (mode == "fill" and unique)
    axes = tuple(advanced)
    gather = Gather(offset_dims, axes, axes, sizes, sorted=ordered, unique=unique, drops=drops)
    result = gather(x, starts)
    if mode != "fill":
        return result
    limits = [plan.shape[a] for a in advanced]
    if all([_is_in_bounds(a, n) for a, n in zip(arrays, limits, strict=True)]):
        return result
    inside = _in_bounds_mask(arrays, limits, shape)
    inside = reshape(
        inside, (*(1 for _ in range(insertion_axis)), *shape, *(1 for _ in range(window - insertion_axis)))
    )
    return arithmetic.where(
        broadcast_to(inside, result.type.shape), result, resolve_fill_value(x.type, fill_value)
    )


def _empty_result(x: Array, shape: Shape, mode: str, fill_value: Operand | None) -> Array:
    """Returns the result for an axis of size 0, where every index is out of bounds."""
    if mode != "fill" and 0 not in shape:
        raise IndexingError(f"getitem: cannot index an axis of size 0 of {x.type!r}")
    return broadcast_to(resolve_fill_value(x.type, fill_value), shape)


def resolve_fill_value(t: ArrayType, value: Operand | None) -> Array:
    """Returns what reading out of bounds gives in an array of a type: a scalar of the type's dtype.

    Args:
        t: the type of the array that is read.
        value: None for NaN, the smallest signed or the largest unsigned integer, True, or a key of ones.

    Raises:
        ShapeError: `value` has axes.
        DTypeError: it is a number, and the array holds random keys.
    """
    if value is None:
        return _default_fill(t)
    if dtypes.is_key(t.dtype) and not isinstance(value, Array):
        raise DTypeError(f"{name_user_call()}: fill_value of {t!r} must be a key, got {value!r}")
    if isinstance(value, int | float | complex):
        return scalar(value, t.dtype, t.weak)
    fill = as_operand(value)
    if fill.type.ndim:
        raise ShapeError(f"{name_user_call()}: fill_value must be a scalar, got {fill.type!r}")
    return convert(fill, t.dtype, t.weak)


def _default_fill(t: ArrayType) -> Array:
    dtype = t.dtype
    if t.kind in "fc":
        return scalar(float("nan"), dtype, t.weak)
    if t.kind == "b":
        return scalar(True, dtype, t.weak)
    if t.kind == "V":
        return to_host_array(np.full(dtype.itemsize, 255, np.uint8).view(dtype).reshape(()), dtype)
    info = dtypes.iinfo(dtype)
    return scalar(int(info.min) if t.kind == "i" else int(info.max), dtype, t.weak)


def _read_windows(x: Array, plan: IndexPlan, mode: str) -> tuple[Array, IndexPlan]:
    """Slices blocks with computed starts; returns them with the plan for the rest."""
    starts = {
        i: e.start
        for i, e in enumerate(plan.entries)
        if isinstance(e, ResolvedSlice) and isinstance(e.start, Array)
    }
    if not starts:
        return x, plan
    if mode == "fill":
        raise IndexingError('at: a slice whose start is computed is read inside of the axis; use mode="clip"')
    sizes, entries = list(plan.shape), list(plan.entries)
    for i in starts:
        e = entries[i]
        sizes[i] = max((e.size - 1) * e.step + 1, 0)
        entries[i] = ResolvedSlice(0, e.size, e.step)
    wide = dict(zip(starts, _convert_to_widest(list(starts.values())), strict=True))
    zero = scalar(0, next(iter(wide.values())).type.dtype)
    start_indices = [wide.get(i, zero) for i in range(len(sizes))]
    return DynamicSlice(tuple(sizes))(x, *start_indices), IndexPlan(tuple(sizes), entries, plan.gap)


def _read_slices(x: Array, plan: IndexPlan, advanced: list[int]) -> Array:
    start, limit, strides, flips = [], [], [], []
    for axis, (n, e) in enumerate(zip(plan.shape, plan.entries, strict=True)):
        if axis in advanced:
            first, last, step = 0, n, 1
        elif isinstance(e, ResolvedSlice):
            assert not isinstance(e.start, Array)  # these blocks are sliced already
            first, last, step = e.start, e.start + e.step * (e.size - 1) + 1, e.step
            if e.size == 0:
                first, last, step = 0, 0, 1
            elif step < 0:
                flips.append(axis)
                first, last, step = e.start + e.step * (e.size - 1), e.start + 1, -step
        else:
            first, last, step = e, e + 1, 1
        start.append(first)
        limit.append(last)
        strides.append(step)
    if limit != list(plan.shape) or any([n != 0 for n in start]) or any([s != 1 for s in strides]):
        x = Slice(tuple(start), tuple(limit), tuple(strides))(x)
    return Reverse(tuple(flips))(x) if flips else x


def _read_block(x: Array, advanced: list[int], arrays: "list[Array]") -> Array:
    # All index arrays are scalars: one block at computed starts.
    arrays = _convert_to_widest(arrays)
    dtype = arrays[0].type.dtype
    zero = scalar(0, dtype)
    starts: list[Array] = [zero] * x.type.ndim
    sizes = list(x.type.shape)
    for axis, a in zip(advanced, arrays, strict=True):
        starts[axis] = a
        if sizes[axis] == 0:
            raise IndexingError(f"getitem: cannot index an axis of size 0 of {x.type!r}")
        sizes[axis] = 1
    block = DynamicSlice(tuple(sizes))(x, *starts)
    return reshape(block, tuple([n for i, n in enumerate(sizes) if i not in advanced]))


def _index_array(entry: Any, n: int, mode: str, wraps: bool = True) -> Array:
    """Returns an index as a signed array, negative ones counted from the end unless they are out of bounds."""
    from effx.ir.values.boxes import HostArray

    array: Array = as_operand(entry)
    t = array.type
    if type(array) is HostArray and not is_symbolic(n):
        data = np.asarray(array.value)
        if mode == "wrap":
            data = np.mod(data, np.asarray(n).astype(np.promote_types(data.dtype, np.min_scalar_type(n))))
        dtype = np.int32 if n < 2**31 else np.int64
        counted = (
            np.where(data < 0, data + np.asarray(n, np.int64), data) if t.kind == "i" and wraps else data
        )
        # What the dtype cannot hold becomes its largest or smallest value, which is out of range too.
        limits = np.iinfo(dtype)
        bottom = 0 if counted.dtype.kind == "u" else limits.min
        top = min(int(limits.max), int(dtypes.iinfo(counted.dtype).max))
        return to_host_array(np.clip(counted, bottom, top).astype(dtype))
    if t.kind == "u":
        wide = dtypes.int32 if is_symbolic(n) or n < 2**31 else dtypes.canonicalize(dtypes.int64)
        if dtypes.bits(t.dtype) >= dtypes.bits(wide):
            top = int(dtypes.iinfo(wide).max)
            array = arithmetic.remainder(array, n) if mode == "wrap" else arithmetic.minimum(array, top)
        array = convert(array, wide)
    elif dtypes.bits(t.dtype) < 32:
        array = convert(array, dtypes.int32)
    if mode == "wrap":
        return arithmetic.remainder(array, n)
    return array if t.kind == "u" or not wraps else arithmetic.where(array < 0, array + n, array)


def _keep_indices_negative(index: Array, n: int) -> Array:
    """Returns indices that stay negative when negative ones count from the end of n elements."""
    if index.type.kind == "u":
        return index
    (wide,) = _convert_to_widest([index], dtypes.int32)
    return arithmetic.where(wide < 0, wide - n, wide)


def _convert_to_widest(indices: "Sequence[Array]", least: dtypes.DType = dtypes.int8) -> list[Array]:
    """Converts signed indices to the widest of their dtypes, or to a wider one: users do not promote by indexing."""
    dtype = max([least, *[a.type.dtype for a in indices]], key=dtypes.bits)
    return [convert(a, dtype) for a in indices]


def _is_in_bounds(index: Array, n: int) -> bool:
    """Returns whether all elements of an index are known and from 0 to below n."""
    from effx.ir.values.boxes import HostArray

    if type(index) is not HostArray or is_symbolic(n):
        return False
    data = np.asarray(index.value)
    return not data.size or bool(data.min() >= 0 and data.max() < n)


def _find_progression(entry: Entry, n: int) -> ResolvedSlice | None:
    """Returns the slice that reads the same elements as known indices of one axis which are equally far apart.

    A slice is read in a fraction of a gather's time, and its transpose is a pad, no scatter.
    """
    from effx.ir.values.boxes import HostArray

    if isinstance(entry, int | ResolvedSlice) or is_symbolic(n):
        return None
    array = as_operand(entry)
    if type(array) is not HostArray or array.type.ndim != 1 or array.type.kind not in "iu":
        return None
    data = np.asarray(array.value)
    if data.size < 2:
        return None
    first, last = int(data[0]), int(data[-1])
    start = first + n if first < 0 else first
    step, remainder = divmod(last - first, data.size - 1)
    if remainder or not step or not 0 <= start < n or not 0 <= start + last - first < n:
        return None
    # Signs that differ would count from different ends.
    if (first < 0) != (last < 0) or not np.array_equal(data, np.arange(first, last + np.sign(step), step)):
        return None
    return ResolvedSlice(start, data.size, step)


def _in_bounds_mask(arrays: "Sequence[Array]", sizes: Sequence[int], shape: Shape) -> Array:
    inside: Array | None = None
    for a, n in zip(arrays, sizes, strict=True):
        test = (a >= 0) & (a < n)
        inside = test if inside is None else inside & test
    assert inside is not None
    return broadcast_to(inside, shape)


def _as_update(value: Operand, dtype: DType) -> Array:
    """Returns a value as an array; an int that only the target's dtype can hold, 2**32 - 1 say, is of that dtype."""
    if type(value) is int and dtypes.is_integer(dtype):
        low, high = int_range(dtype)
        if low <= value <= high:
            return scalar(value, dtype)
    return as_operand_or_list(value, "at")


def update_at(x: Array, index: Index, value: Operand, combiner: str, how: IndexingMode) -> Array:
    """Returns x with `value` combined at `index`."""
    mode, t = how.mode, x.type
    update = _as_update(value, t.dtype)
    if combiner == "set":
        refuse_mixed_dtypes(x, update)
        joint = t.dtype
    else:
        joint = promote_dtypes(x, update)[0].type.dtype
    if joint != t.dtype:  # 0.9 is added to an int before the truncation
        exact = update_at(convert(x, joint), index, update, combiner, how)
        return convert(exact, t.dtype, t.weak)
    masked = _write_mask(x, index, update, combiner)
    if masked is not None:
        return masked
    update = convert(update, t.dtype)
    plan = plan_index(x, index, mode, how.wraps, is_written=True)
    advanced = plan.arrays()
    lookup = "wrap" if mode == "wrap" else "drop"
    arrays = {a: _index_array(plan.entries[a], plan.shape[a], lookup, how.wraps) for a in advanced}
    batch = broadcast_shapes(*[a.type.shape for a in arrays.values()]) if arrays else ()

    # The axes of x[index], in order: None stands for the index arrays' axes.
    order: list[int | None] = [i for i, e in enumerate(plan.entries) if isinstance(e, ResolvedSlice)]
    if advanced:
        before = sum(1 for i in order if i is not None and i < advanced[0])
        order.insert(before if plan.are_adjacent(advanced) else 0, None)

    shape: list[int] = []
    window_dims: list[int] = []
    scattered: list[int] = []  # sizes of the index array's axes
    place_of: dict[int | None, int] = {}
    for axis in order:
        if axis is None:
            place_of[None] = len(scattered)
            shape += batch
            scattered += batch
            continue
        e = plan.entries[axis]
        if e.step == 1 or e.size <= 1:
            window_dims.append(len(shape))
        else:
            place_of[axis] = len(scattered)
            scattered.append(e.size)
        shape.append(e.size)
    update = broadcast_to(_drop_leading_ones(update, len(shape)), tuple(shape))
    if update.type.size == 0 or t.size == 0:
        return x

    columns: list[Array] = []
    mapped: list[int] = []
    inserted: list[int] = []
    rank = len(scattered)
    for axis, (n, e) in enumerate(zip(plan.shape, plan.entries, strict=True)):
        if axis in arrays:
            a, ndim = arrays[axis], arrays[axis].type.ndim
            leading_ones = place_of[None] + len(batch) - ndim
            columns.append(
                reshape(a, (1,) * leading_ones + a.type.shape + (1,) * (rank - leading_ones - ndim))
            )
            inserted.append(axis)
        elif isinstance(e, ResolvedSlice):
            if axis in place_of:
                data = to_host_array(np.arange(e.size, dtype=np.int32) * e.step)
                leading_ones = place_of[axis]
                columns.append(
                    reshape(
                        _slice_positions(e, data),
                        (1,) * leading_ones + (e.size,) + (1,) * (rank - leading_ones - 1),
                    )
                )
                inserted.append(axis)
            elif e.is_full(n):
                continue
            else:
                columns.append(_slice_positions(e, to_host_array(np.zeros((1,) * rank, np.int32))))
        else:
            columns.append(to_host_array(np.full((1,) * rank, e, np.int32)))
            inserted.append(axis)
        mapped.append(axis)
    target = reshape(x, plan.shape)
    if not columns:
        starts: Array = to_host_array(np.zeros((*scattered, 0), np.int32))
    else:
        parts = [broadcast_to(c, tuple(scattered)) for c in _convert_to_widest(columns)]
        starts = concatenate([expand_dims(part, -1) for part in parts], -1)
    if mode == "clip":
        window = {
            axis: plan.entries[axis].size
            for axis in mapped
            if isinstance(plan.entries[axis], ResolvedSlice) and axis not in place_of
        }
        sizes = [plan.shape[a] - window.get(a, 1) for a in mapped]
        starts = arithmetic.clip(starts, 0, size_vector(sizes, starts.type.dtype, starts.type.ndim))
    # Slices alone name no element twice. Told so, a scatter's transpose need not find who wrote last.
    slices = [e for e in plan.entries if isinstance(e, ResolvedSlice)]
    apart = not arrays and all([not isinstance(e.start, Array) for e in slices])
    ascending = apart and all([e.step > 0 for e in slices])
    op = Scatter(
        tuple(window_dims),
        tuple(inserted),
        tuple(mapped),
        combiner,
        unique=how.unique or apart,
        sorted=how.ordered or ascending,
    )
    return reshape(op(target, starts, update), t.shape)


def _slice_positions(e: ResolvedSlice, steps: Array) -> Array:
    """Returns the positions of a slice's elements by their number of steps behind its start."""
    if isinstance(e.start, Array):
        return e.start + steps
    return to_host_array(np.asarray(steps.host("at")) + np.int32(e.start))


def _drop_leading_ones(update: Array, ndim: int) -> Array:
    shape = update.type.shape
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    return reshape(update, shape)


_COMBINE: "dict[str, Callable[[Array, Array], Array]]" = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "min": arithmetic.minimum,
    "max": arithmetic.maximum,
    "set": lambda x, y: y,
}


def _write_mask(x: Array, index: Index, update: Array, combiner: str) -> Array | None:
    # x.at[mask].set(scalar) needs no shape that depends on values: it is a select.
    if not isinstance(index, Array | np.ndarray) or index.dtype != np.dtype(bool):
        return None
    mask = as_operand(index)
    t = x.type
    leading = t.shape[: mask.type.ndim]
    if len(leading) < mask.type.ndim or any(
        [m not in (n, 0) for m, n in zip(mask.type.shape, leading, strict=True)]
    ):
        raise IndexingError(f"at: the mask {mask.type!r} does not have the leading shape of {t!r}")
    if mask.type.shape != leading:
        return x  # the mask of an axis has size 0 and takes nothing
    if update.type.shape[: max(update.type.ndim - (t.ndim - mask.type.ndim), 0)] not in ((), (1,)):
        return None
    mask = reshape(mask, mask.type.shape + (1,) * (t.ndim - mask.type.ndim))
    update = convert(broadcast_to(_drop_leading_ones(update, t.ndim), t.shape), t.dtype)
    return arithmetic.where(broadcast_to(mask, t.shape), _COMBINE[combiner](x, update), x)


def subtract_at(x: Array, index: Index, value: Operand, how: IndexingMode) -> Array:
    """Subtracts values from the indexed elements, as often as they are indexed."""
    # Negated in the joint dtype: what is unsigned has no negative.
    amount = promote_dtypes(x, as_operand_or_list(value, "at"))[1]
    return update_at(x, index, arithmetic.negative(amount), "add", how)


def divide_at(x: Array, index: Index, value: Operand, how: IndexingMode) -> Array:
    """Divides the indexed elements by values, as often as they are indexed."""
    ones = broadcast_to(scalar(1, x.type.dtype), x.type.shape)
    return arithmetic.true_divide(x, update_at(ones, index, value, "mul", how))


def power_at(x: Array, index: Index, value: Operand, how: IndexingMode) -> Array:
    """Raises the indexed elements to values, as often as they are indexed."""
    exponent = as_operand_or_list(value, "at")
    dtype = promote_dtypes(x, exponent)[0].type.dtype
    ones = broadcast_to(scalar(1, dtype), x.type.shape)
    exponents = update_at(ones, index, exponent, "mul", how)
    return convert(arithmetic.power(x, exponents), x.type.dtype, x.type.weak)


def apply_at(x: Array, index: Index, function: Callable[[Array], Array], how: IndexingMode) -> Array:
    """Applies an elementwise function to the indexed elements, to each as often as it is indexed."""
    if how.unique or not plan_index(x, index, how.mode, how.wraps, is_written=True).arrays():
        return update_at(x, index, function(get_at(x, index, how)), "set", how)
    zero = scalar(0, dtypes.int32)
    counts = update_at(broadcast_to(zero, x.type.shape), index, 1, "add", how)
    result: Array = ports.loops.loops.while_loop(
        lambda carry: (counts > carry[0]).any(),
        lambda carry: (
            carry[0] + 1,
            arithmetic.where(counts > carry[0], convert(function(carry[1]), x.type.dtype), carry[1]),
        ),
        (zero, x),
    )[1]
    return result


def get_at(x: Array, index: Index, how: IndexingMode, fill_value: Operand | None = None) -> Array:
    """Reads `x[index]` with a mode for indices out of bounds."""
    chosen = "fill" if how.mode in ("drop", "fill") else how.mode or "promise_in_bounds"
    plan = plan_index(x, index, chosen if how.mode else None, how.wraps)
    return read_plan(x, plan, chosen, fill_value, how.ordered, how.unique)


def _clamp_negative_indices(index: Array) -> Array:
    """Returns indices with 0 for negative ones."""
    from effx.ir.values.boxes import HostArray

    if type(index) is HostArray:
        return to_host_array(np.maximum(np.asarray(index.value), 0))
    return index if index.type.kind == "u" else arithmetic.maximum(index, 0)


def take(
    x: Array,
    indices: Operand,
    axis: int | None = None,
    mode: str | None = None,
    fill_value: Operand | None = None,
    *,
    ordered: bool = False,
    unique: bool = False,
) -> Array:
    """Reads elements along an axis by index; `mode` is "fill" (the default), "clip" or "wrap".

    With "clip" no index counts from the end.
    """
    if mode not in (None, *MODES):
        raise IndexingError(f"take: mode must be 'fill', 'clip' or 'wrap', got {mode!r}")
    x, resolved_axis = flatten_without_axis(x, axis)
    which = as_operand(indices)
    if which.type.kind not in "iu":
        raise IndexingError(f"take: indices must be integers, got {which.type!r}")
    if mode == "clip":
        which = _clamp_negative_indices(which)
    if which.type.size and x.type.shape[resolved_axis] == 0:
        raise IndexingError(f"take: axis {resolved_axis} of {x.type!r} has no element to take")
    plan = IndexPlan(x.type.shape, [ResolvedSlice(0, n, 1) for n in x.type.shape])
    plan.entries[resolved_axis] = which
    return read_plan(x, plan, mode or "fill", fill_value, ordered, unique)


def take_along_axis(
    x: Array,
    indices: Operand,
    axis: int | None,
    mode: str | None = None,
    fill_value: Operand | None = None,
    wrap_negative: bool = True,
) -> Array:
    """Reads `x[..., indices[..., k], ...]` along one axis, aligned in the others."""
    if mode == "one_hot":  # what a product with a one-hot matrix gives: zeros out of bounds
        mode, fill_value = "fill", 0
    if mode not in (None, *MODES):
        raise IndexingError(
            f"take_along_axis: mode must be 'fill', 'clip', 'wrap' or 'one_hot', got {mode!r}"
        )
    which = as_operand(indices)
    if which.type.kind not in "iu":
        raise DTypeError(f"take_along_axis: indices must be integers, got {which.type!r}")
    if axis is None:
        x, axis = reshape(x, -1), 0
    t = x.type
    if which.type.ndim != t.ndim:
        raise ShapeError(
            f"take_along_axis: x {t!r} and indices {which.type!r} differ in their number of axes"
        )
    resolved_axis = normalize_axis(axis, t.ndim, t)
    # Move the axis last, make all others batch axes.
    moved, moved_indices = moveaxis(x, resolved_axis, -1), moveaxis(which, resolved_axis, -1)
    batch = broadcast_shapes(moved.type.shape[:-1], moved_indices.type.shape[:-1])
    moved = broadcast_to(moved, (*batch, moved.type.shape[-1]))
    moved_indices = broadcast_to(moved_indices, (*batch, moved_indices.type.shape[-1]))
    k, n = len(batch), moved.type.shape[-1]
    if moved.type.size == 0:
        return moveaxis(
            _empty_result(x, moved_indices.type.shape, mode or "fill", fill_value), -1, resolved_axis
        )
    if not wrap_negative:
        moved_indices = _keep_indices_negative(moved_indices, n)
    starts = _index_array(moved_indices, n, mode or "fill")
    axes = tuple(range(k))
    op = Gather((), (k,), (k,), (1,) * (k + 1), axes, axes)
    result = op(moved, expand_dims(starts, -1))
    if mode in (None, "fill"):
        result = arithmetic.where(
            (starts >= 0) & (starts < n), result, resolve_fill_value(x.type, fill_value)
        )
    return moveaxis(result, -1, resolved_axis)


def gather_along_axis(x: Array, index: Array, axis: int) -> Array:
    """Reads x at computed indices along one axis, the other axes side by side."""
    if 0 in x.type.shape:
        return zeros(x.type.with_shape(index.type.shape))  # a gather takes one element at least
    axes = tuple([i for i in range(x.type.ndim) if i != axis])
    starts = expand_dims(index, -1)
    return Gather((), (axis,), (axis,), (1,) * x.type.ndim, axes, axes)(x, starts)


def diagonal(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as a new last axis."""
    t = x.type
    a, b = normalize_axis(axis1, t.ndim, t), normalize_axis(axis2, t.ndim, t)
    if a == b:
        raise ShapeError(f"diagonal: needs two different axes of {t!r}, got {axis1} and {axis2}")
    moved = moveaxis(x, (a, b), (-2, -1))
    rows, columns = moved.type.shape[-2:]
    size = maximum(0, minimum(rows, columns - offset) if offset >= 0 else minimum(rows + offset, columns))
    i, j = [count_up(size, max(start, 0)) for start in (-offset, offset)]
    return getitem(moved, (Ellipsis, i, j))


def count_up(size: int, start: int = 0) -> Array:
    """Returns `start`, `start + 1`, … as i32: a constant, or an iota where the size is symbolic."""
    if is_symbolic(size):
        return Iota(array_type(dtypes.int32, (size,)), 0)() + start
    return to_host_array(np.arange(start, start + size, dtype=np.int32))


def iota_along_axis(shape: Shape, axis: int) -> Array:
    """Counts along an axis, in the default integer dtype."""
    return Iota(array_type(dtypes.canonicalize(dtypes.int64), shape), axis)()
