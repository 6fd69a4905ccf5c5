"""Rows of operations that move elements."""

from __future__ import annotations

from typing import cast

from effx.errors import DTypeError, ShapeError
from effx.ir.ops import shape as s
from effx.ir.ops.sizes import SizeValue
from effx.ir.types import Shape
from effx.laws.samples import anything
from tests.ops.rows import (
    ALL,
    Invalid,
    Row,
    Sample,
    b1,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    of_kinds,
    over,
    refuses,
    t,
    u8,
)

ONE: tuple[tuple[int, ...], ...] = ((0,),)
JOINT: tuple[tuple[int, ...], ...] = ((),)
STARTS = (-3, 6)

SHAPE = [
    Row(
        s.BroadcastInDim,
        (
            *over(s.BroadcastInDim((2, 3, 4), (0, 2)), (2, 4), of=ALL),
            *over(s.BroadcastInDim((2, 3), (0, 1)), (1, 3), of=[f32, f64]),
            *over(s.BroadcastInDim((2, 3), ()), (), of=[f32, f64, b1]),
            *over(s.BroadcastInDim((0, 3), (1,)), (3,), of=[f32, f64]),
            *over(s.BroadcastInDim((), ()), (), of=[f32]),
            Sample(s.BroadcastInDim((2,), ()), (t(f32, weak=True),)),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                s.BroadcastInDim((2, 3), (1, 0)),
                t(f32, 2, 3),
                error=ShapeError,
                text="broadcast_in_dim: dims must name one increasing axis for each axis of f32[2,3], got (1, 0)",
            ),
            refuses(
                s.BroadcastInDim((2, 3), (1,)),
                t(f32, 2),
                error=ShapeError,
                text="broadcast_in_dim: axis 0 of f32[2] does not broadcast to axis 1 of shape [2, 3]",
            ),
            Invalid(
                lambda: s.BroadcastInDim(cast("Shape", [2]), ()),
                TypeError,
                "BroadcastInDim: shape must be a tuple of ints, got [2]",
            ),
        ),
    ),
    Row(
        s.Reshape,
        (
            *over(s.Reshape((3, 2)), (6,), of=ALL),
            *over(s.Reshape(()), (1, 1), of=[f32, f64]),
            *over(s.Reshape((0, 5)), (2, 0), of=[f32, f64]),
            Sample(s.Reshape((1,)), (t(f32, weak=True),)),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                s.Reshape((4,)),
                t(f32, 2, 3),
                error=ShapeError,
                text="reshape: sizes differ: f32[2,3] has 6 elements, shape [4] has 4",
            ),
            Invalid(
                lambda: s.Reshape(cast("Shape", (2.0,))),
                TypeError,
                "Reshape: shape must be a tuple of ints, got (2.0,)",
            ),
        ),
    ),
    Row(
        s.Transpose,
        (
            *over(s.Transpose((2, 0, 1)), (2, 3, 4), of=ALL),
            *over(s.Transpose(()), (), of=[f32, f64]),
            *over(s.Transpose((1, 0)), (0, 3), of=[f32, f64]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                s.Transpose((0, 0)),
                t(f32, 2, 3),
                error=ShapeError,
                text="transpose: perm (0, 0) is no permutation of the 2 axes of f32[2,3]",
            ),
        ),
    ),
    Row(
        s.Reverse,
        (
            *over(s.Reverse((0, 2)), (2, 3, 4), of=ALL),
            *over(s.Reverse(()), (2,), of=[f32, f64]),
            *over(s.Reverse((0,)), (0,), of=[f32]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                s.Reverse((2,)),
                t(f32, 2, 3),
                error=ShapeError,
                text="reverse: axes 2 is out of range for f32[2,3], which has 2 axes",
            ),
            refuses(
                s.Reverse((0, 0)), t(f32, 2, 3), error=ShapeError, text="reverse: axes (0, 0) repeat an axis"
            ),
        ),
    ),
    Row(
        s.Concatenate,
        (
            *over(s.Concatenate(1), (2, 3), (2, 1), of=ALL),
            *over(s.Concatenate(0), (2,), (0,), (3,), of=[f32, f64]),
            *over(s.Concatenate(0), (2,), of=[f32, f64]),
            Sample(s.Concatenate(0), (t(f32, 1, weak=True), t(f32, 1, weak=True))),
            Sample(s.Concatenate(0), (t(f32, 1, weak=True), t(f32, 1))),
        ),
        linear=JOINT,
        exact=True,
        invalid=(
            refuses(
                s.Concatenate(0), error=ShapeError, text="concatenate: takes at least one operand, got none"
            ),
            refuses(
                s.Concatenate(0),
                t(f32),
                error=ShapeError,
                text="concatenate: axis 0 is out of range for f32[], which has 0 axes",
            ),
            refuses(
                s.Concatenate(0),
                t(f32, 2),
                t(i32, 2),
                error=DTypeError,
                text="concatenate: operand dtypes differ: operand 0 is f32[2], operand 1 is i32[2]",
            ),
            refuses(
                s.Concatenate(0),
                t(f32, 2, 3),
                t(f32, 2, 4),
                error=ShapeError,
                text="concatenate: sizes differ off axis 0: operand 0 is f32[2,3], operand 1 is f32[2,4]",
            ),
        ),
    ),
    Row(
        s.Pad,
        (
            *over(s.Pad((1, -1), (0, 2), (0, 1)), (2, 3), (), of=ALL),
            *over(s.Pad((2,), (-1,), (2,)), (3,), (), of=[f32, f64]),
            *over(s.Pad((-2,), (1,), (1,)), (3,), (), of=[f32, f64]),
            *over(s.Pad((0,), (2,), (3,)), (0,), (), of=[f32, f64]),
            *over(s.Pad((), (), ()), (), (), of=[f32]),
        ),
        linear=JOINT,
        exact=True,
        invalid=(
            refuses(
                s.Pad((0,), (0,), (0,)),
                t(f32, 2),
                t(f32, 1),
                error=ShapeError,
                text="pad: the padding value must be a scalar of x's dtype: x is f32[2], the value is f32[1]",
            ),
            refuses(
                s.Pad((0,), (0,), (0,)),
                t(f32, 2, 2),
                t(f32),
                error=ShapeError,
                text="pad: low, high and interior must have one entry for each axis of f32[2,2]",
            ),
            refuses(
                s.Pad((0,), (0,), (-1,)),
                t(f32, 2),
                t(f32),
                error=ShapeError,
                text="pad: interior amounts must not be negative, got (-1,)",
            ),
            refuses(
                s.Pad((-2,), (-1,), (0,)),
                t(f32, 2),
                t(f32),
                error=ShapeError,
                text="pad: low (-2,) and high (-1,) take away more than f32[2] has",
            ),
        ),
    ),
    Row(
        s.Slice,
        (
            *over(s.Slice((1, 0), (4, 3), (2, 1)), (5, 3), of=ALL),
            *over(s.Slice((1,), (7,), (3,)), (8,), of=[f32, f64]),
            *over(s.Slice((1,), (1,), (1,)), (2,), of=[f32, f64]),
            *over(s.Slice((), (), ()), (), of=[f32]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                s.Slice((0,), (1,), (1,)),
                t(f32, 2, 3),
                error=ShapeError,
                text="slice: start, limit and strides must have one entry for each axis of f32[2,3]",
            ),
            refuses(
                s.Slice((1,), (4,), (1,)),
                t(f32, 3),
                error=ShapeError,
                text="slice: axis 0 of f32[3] has no slice from 1 to 4 in steps of 1",
            ),
            refuses(
                s.Slice((0,), (3,), (0,)),
                t(f32, 3),
                error=ShapeError,
                text="slice: axis 0 of f32[3] has no slice from 0 to 3 in steps of 0",
            ),
        ),
    ),
    Row(
        s.DynamicSlice,
        (
            *over(s.DynamicSlice((2, 2)), (4, 3), of=ALL, rest=(t(i32), t(i32)), domains=[anything, STARTS]),
            *over(s.DynamicSlice((2,)), (4,), of=[f32, f64], rest=(t(u8),), domains=[anything, STARTS]),
            *over(s.DynamicSlice((2,)), (4,), of=[f32], rest=(t(i64),), domains=[anything, STARTS]),
            *over(s.DynamicSlice((0,)), (4,), of=[f32, f64], rest=(t(i8),), domains=[anything, STARTS]),
            *over(s.DynamicSlice(()), (), of=[f32]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                s.DynamicSlice((2,)),
                t(f32, 3),
                error=ShapeError,
                text="dynamic_slice: needs a rank-0 start for each axis of f32[3], got ",
            ),
            refuses(
                s.DynamicSlice((2,)),
                t(f32, 3),
                t(f32),
                error=DTypeError,
                text="dynamic_slice: a start index must be integer, got f32[]",
            ),
            refuses(
                s.DynamicSlice((1, 1)),
                t(f32, 3, 3),
                t(i32),
                t(i8),
                error=DTypeError,
                text="dynamic_slice: start indices must have one dtype, got i32[], i8[]",
            ),
            refuses(
                s.DynamicSlice((4,)),
                t(f32, 3),
                t(i32),
                error=ShapeError,
                text="dynamic_slice: a block of sizes [4] does not fit into f32[3]",
            ),
            refuses(
                s.DynamicSlice((4,)),
                error=ShapeError,
                text="dynamic_slice: takes x and the starts, got no operands",
            ),
        ),
    ),
    Row(
        s.DynamicUpdateSlice,
        (
            *over(
                s.DynamicUpdateSlice(),
                (4, 3),
                (2, 2),
                of=ALL,
                rest=(t(i32), t(i32)),
                domains=[anything, anything, STARTS],
            ),
            *over(
                s.DynamicUpdateSlice(),
                (4,),
                (0,),
                of=[f32, f64],
                rest=(t(u8),),
                domains=[anything, anything, STARTS],
            ),
            *over(s.DynamicUpdateSlice(), (), (), of=[f32]),
        ),
        linear=JOINT,
        exact=True,
        invalid=(
            refuses(
                s.DynamicUpdateSlice(),
                t(f32, 3),
                error=ShapeError,
                text="dynamic_update_slice: takes x, the block and the starts, got f32[3]",
            ),
            refuses(
                s.DynamicUpdateSlice(),
                t(f32, 3),
                t(f16, 2),
                t(i32),
                error=DTypeError,
                text="dynamic_update_slice: dtypes differ: x is f32[3], the block is f16[2]",
            ),
            refuses(
                s.DynamicUpdateSlice(),
                t(f32, 3),
                t(f32, 4),
                t(i32),
                error=ShapeError,
                text="dynamic_update_slice: the block f32[4] does not fit into x f32[3]",
            ),
        ),
    ),
    Row(
        SizeValue,
        tuple([Sample(SizeValue(n), ()) for n in (0, 1, 7)]),
        exact=True,
        invalid=(
            refuses(SizeValue(3), t(f32), error=ShapeError, text="size: takes 0 operands, got 1: f32[]"),
        ),
    ),
    Row(
        s.Iota,
        tuple([Sample(s.Iota(t(d, 2, 3), i), ()) for d in of_kinds("iufc") for i in (0, 1)])
        + tuple([Sample(s.Iota(t(f32, *shape), 0), ()) for shape in ((0,), (1,), (4,))])
        + (Sample(s.Iota(t(f32, 2, weak=True), 0), ()),),
        exact=True,
        invalid=(
            refuses(
                s.Iota(t(b1, 2), 0),
                error=DTypeError,
                text="iota: the dtype must be integer, floating or complex, got bool[2]",
            ),
            refuses(
                s.Iota(t(f32, 2), 1),
                error=ShapeError,
                text="iota: axis 1 is out of range for f32[2], which has 1 axes",
            ),
            refuses(
                s.Iota(t(f32, 2), 0), t(f32), error=ShapeError, text="iota: takes 0 operands, got 1: f32[]"
            ),
        ),
    ),
]

ROWS = SHAPE
