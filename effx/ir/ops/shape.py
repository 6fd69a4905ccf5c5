"""Operations that move, repeat or slice elements."""

from typing import final

import attrs

from effx.errors import DTypeError, ShapeError
from effx.ir.ops.base import (
    ArrayOperation,
    Linear,
    Structural,
    check_arity,
    check_axes,
    check_axis,
    check_int,
    check_int_tuple,
    check_kind,
    types_text,
)
from effx.ir.types import ArrayType, Shape


@final
@attrs.frozen
class BroadcastInDim(ArrayOperation, Linear, Structural):
    """Repeats x along new axes and along axes of size 1. StableHLO: broadcast_in_dim.

    Attributes:
        shape: the result's shape.
        dims: for each axis of x the axis of the result it becomes, increasing.
    """

    shape: Shape = attrs.field(validator=check_int_tuple)
    dims: tuple[int, ...] = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x with the new shape."""
        check_arity(self, types, 1)
        t = types[0]
        if len(self.dims) != t.ndim or list(self.dims) != sorted(set(self.dims)):
            raise ShapeError(
                f"broadcast_in_dim: dims must name one increasing axis for each axis of {t!r}, got {self.dims}"
            )
        for axis, dim in enumerate(self.dims):
            if not 0 <= dim < len(self.shape) or t.shape[axis] not in (1, self.shape[dim]):
                raise ShapeError(
                    f"broadcast_in_dim: axis {axis} of {t!r} does not broadcast to axis {dim} of shape {list(self.shape)}"
                )
        return t.with_shape(self.shape)


@final
@attrs.frozen
class Reshape(ArrayOperation, Linear, Structural):
    """The same elements in row-major order under another shape. StableHLO: reshape.

    Attributes:
        shape: the result's shape, of the same size.
    """

    shape: Shape = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x with the new shape."""
        check_arity(self, types, 1)
        result = types[0].with_shape(self.shape)
        if result.size != types[0].size:
            raise ShapeError(
                f"reshape: sizes differ: {types[0]!r} has {types[0].size} elements, "
                f"shape {list(self.shape)} has {result.size}"
            )
        return result


@final
@attrs.frozen
class Transpose(ArrayOperation, Linear, Structural):
    """Permutes the axes. StableHLO: transpose.

    Attributes:
        perm: axis `perm[i]` of x becomes axis i.
    """

    perm: tuple[int, ...] = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x with the permuted shape."""
        check_arity(self, types, 1)
        t = types[0]
        if sorted(self.perm) != list(range(t.ndim)):
            raise ShapeError(f"transpose: perm {self.perm} is no permutation of the {t.ndim} axes of {t!r}")
        return t.with_shape(tuple([t.shape[p] for p in self.perm]))


@final
@attrs.frozen
class Reverse(ArrayOperation, Linear, Structural):
    """Reverses the order along some axes. StableHLO: reverse.

    Attributes:
        axes: the axes to reverse.
    """

    axes: tuple[int, ...] = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of x."""
        check_arity(self, types, 1)
        check_axes(self, self.axes, types[0])
        return types[0]


@final
@attrs.frozen
class Concatenate(ArrayOperation, Linear, Structural):
    """Joins the operands along an axis. StableHLO: concatenate.

    Attributes:
        axis: the axis to join; all other sizes are equal.
    """

    axis: int = attrs.field(validator=check_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operands' dtype; the size along `axis` is the sum."""
        if not types:
            raise ShapeError("concatenate: takes at least one operand, got none")
        first = types[0]
        check_axis(self, self.axis, first)
        size = 0
        for position, t in enumerate(types):
            if t.dtype != first.dtype:
                raise DTypeError(
                    f"concatenate: operand dtypes differ: operand 0 is {first!r}, operand {position} is {t!r}"
                )
            if t.ndim != first.ndim or any(
                t.shape[i] != first.shape[i] for i in range(t.ndim) if i != self.axis
            ):
                raise ShapeError(
                    f"concatenate: sizes differ off axis {self.axis}: operand 0 is {first!r}, operand {position} is {t!r}"
                )
            size += t.shape[self.axis]
        shape = first.shape[: self.axis] + (size,) + first.shape[self.axis + 1 :]
        result = first.with_shape(shape)
        return result if all([t.weak for t in types]) else result.strong()


@final
@attrs.frozen
class Pad(ArrayOperation, Linear):
    """Adds (with negative amounts removes) elements at the edges and between elements. StableHLO: pad.

    Operands: x and the rank-0 padding value of its dtype.

    Attributes:
        low, high: amounts at the start and end of each axis, possibly negative.
        interior: amounts between two elements, not negative.
    """

    low: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    high: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    interior: tuple[int, ...] = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x with the padded shape."""
        check_arity(self, types, 2)
        t, value = types
        if value.shape or value.dtype != t.dtype:
            raise ShapeError(
                f"pad: the padding value must be a scalar of x's dtype: x is {t!r}, the value is {value!r}"
            )
        if not len(self.low) == len(self.high) == len(self.interior) == t.ndim:
            raise ShapeError(f"pad: low, high and interior must have one entry for each axis of {t!r}")
        if any([i < 0 for i in self.interior]):
            raise ShapeError(f"pad: interior amounts must not be negative, got {self.interior}")
        sizes = [
            low + high + n + max(n - 1, 0) * inner
            for n, low, high, inner in zip(t.shape, self.low, self.high, self.interior, strict=True)
        ]
        if any([n < 0 for n in sizes]):
            raise ShapeError(f"pad: low {self.low} and high {self.high} take away more than {t!r} has")
        return t.with_shape(tuple(sizes))


@final
@attrs.frozen
class Slice(ArrayOperation, Linear, Structural):
    """Slices the elements from `start` up to `limit` in steps of `strides`. StableHLO: slice.

    Attributes:
        start, limit, strides: one entry for each axis; `0 <= start <= limit <= size`, stride at least 1.
    """

    start: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    limit: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    strides: tuple[int, ...] = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x with the shape of the slice."""
        check_arity(self, types, 1)
        t = types[0]
        if not len(self.start) == len(self.limit) == len(self.strides) == t.ndim:
            raise ShapeError(f"slice: start, limit and strides must have one entry for each axis of {t!r}")
        sizes = []
        for axis, (n, a, b, s) in enumerate(zip(t.shape, self.start, self.limit, self.strides, strict=True)):
            if not (0 <= a <= b <= n and s >= 1):
                raise ShapeError(f"slice: axis {axis} of {t!r} has no slice from {a} to {b} in steps of {s}")
            sizes.append(-(-(b - a) // s))
        return t.with_shape(tuple(sizes))


@final
@attrs.frozen
class DynamicSlice(ArrayOperation, Structural):
    """Slices a block of fixed size at computed starts. StableHLO: dynamic_slice.

    Operands: x, then one rank-0 integer start for each axis. Starts are clamped so that the block fits.

    Attributes:
        sizes: the block's sizes.
    """

    sizes: tuple[int, ...] = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x with the block's shape."""
        if not types:
            raise ShapeError("dynamic_slice: takes x and the starts, got no operands")
        t = types[0]
        _check_starts(self, t, types[1:])
        if len(self.sizes) != t.ndim or any(
            [not 0 <= s <= n for s, n in zip(self.sizes, t.shape, strict=True)]
        ):
            raise ShapeError(f"dynamic_slice: a block of sizes {list(self.sizes)} does not fit into {t!r}")
        return t.with_shape(self.sizes)


@final
@attrs.frozen
class DynamicUpdateSlice(ArrayOperation, Structural):
    """Replaces a block of x at computed starts. StableHLO: dynamic_update_slice.

    Operands: x, the block, then one rank-0 integer start for each axis, clamped so that the block fits.
    """

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of x."""
        if len(types) < 2:
            raise ShapeError(
                f"dynamic_update_slice: takes x, the block and the starts, got {types_text(types)}"
            )
        t, update = types[:2]
        _check_starts(self, t, types[2:])
        if update.dtype != t.dtype:
            raise DTypeError(f"dynamic_update_slice: dtypes differ: x is {t!r}, the block is {update!r}")
        if update.ndim != t.ndim or any([s > n for s, n in zip(update.shape, t.shape, strict=True)]):
            raise ShapeError(f"dynamic_update_slice: the block {update!r} does not fit into x {t!r}")
        return t if update.weak else t.strong()


def _check_starts(op: ArrayOperation, t: ArrayType, starts: tuple[ArrayType, ...]) -> None:
    if len(starts) != t.ndim or any([s.shape for s in starts]):
        raise ShapeError(f"{op.name}: needs a rank-0 start for each axis of {t!r}, got {types_text(starts)}")
    for s in starts:
        check_kind(op, s, "iu", "a start index")
        if s.dtype != starts[0].dtype:
            raise DTypeError(f"{op.name}: start indices must have one dtype, got {types_text(starts)}")


@final
@attrs.frozen
class Iota(ArrayOperation):
    """Counts 0, 1, 2, … along an axis; no operands. StableHLO: iota.

    Attributes:
        type: the result's type.
        axis: the axis to count along.
    """

    type: ArrayType
    axis: int = attrs.field(validator=check_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type parameter."""
        check_arity(self, types, 0)
        check_axis(self, self.axis, self.type)
        check_kind(self, self.type, "iufc", "the dtype")
        return self.type
