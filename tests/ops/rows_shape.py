"""Rows of operations that move elements, of reductions, matrix products, sorting and collectives.

Never: holds a test.
"""

from __future__ import annotations

from effx.errors import DTypeError, ProgramError, ShapeError
from effx.ir.ops import collective as k
from effx.ir.ops import reduce as r
from effx.ir.ops import shape as s
from effx.ir.ops.control import Call
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.sort import Sort
from effx.ir.text import parse_program
from tests.ops.rows import (
    ALL,
    FEW,
    MEMBERS,
    Invalid,
    Row,
    Sample,
    anything,
    b1,
    bf16,
    c64,
    c128,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    interval,
    nonzero,
    of_kinds,
    over,
    refuses,
    spaced,
    t,
    u8,
    u32,
)

ONE: tuple[tuple[int, ...], ...] = ((0,),)
JOINT: tuple[tuple[int, ...], ...] = ((),)
STARTS = interval(-3, 6)

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
            refuses(s.BroadcastInDim((2, 3), (1, 0)), t(f32, 2, 3), error=ShapeError, text="broadcast_in_dim: dims must name one increasing axis for each axis of f32[2,3], got (1, 0)"),
            refuses(s.BroadcastInDim((2, 3), (1,)), t(f32, 2), error=ShapeError, text="broadcast_in_dim: axis 0 of f32[2] does not broadcast to axis 1 of shape [2, 3]"),
            Invalid(lambda: s.BroadcastInDim([2], ()), TypeError, "BroadcastInDim: shape must be a tuple of ints, got [2]"),  # type: ignore[arg-type]  # that is the point
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
            refuses(s.Reshape((4,)), t(f32, 2, 3), error=ShapeError, text="reshape: sizes differ: f32[2,3] has 6 elements, shape [4] has 4"),
            Invalid(lambda: s.Reshape((2.0,)), TypeError, "Reshape: shape must be a tuple of ints, got (2.0,)"),  # type: ignore[arg-type]  # that is the point
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
            refuses(s.Transpose((0, 0)), t(f32, 2, 3), error=ShapeError, text="transpose: perm (0, 0) is no permutation of the 2 axes of f32[2,3]"),
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
            refuses(s.Reverse((2,)), t(f32, 2, 3), error=ShapeError, text="reverse: axes 2 is out of range for f32[2,3], which has 2 axes"),
            refuses(s.Reverse((0, 0)), t(f32, 2, 3), error=ShapeError, text="reverse: axes (0, 0) repeat an axis"),
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
            refuses(s.Concatenate(0), error=ShapeError, text="concatenate: takes at least one operand, got none"),
            refuses(s.Concatenate(0), t(f32), error=ShapeError, text="concatenate: axis 0 is out of range for f32[], which has 0 axes"),
            refuses(s.Concatenate(0), t(f32, 2), t(i32, 2), error=DTypeError, text="concatenate: operand dtypes differ: operand 0 is f32[2], operand 1 is i32[2]"),
            refuses(s.Concatenate(0), t(f32, 2, 3), t(f32, 2, 4), error=ShapeError, text="concatenate: sizes differ off axis 0: operand 0 is f32[2,3], operand 1 is f32[2,4]"),
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
            refuses(s.Pad((0,), (0,), (0,)), t(f32, 2), t(f32, 1), error=ShapeError, text="pad: the padding value must be a scalar of x's dtype: x is f32[2], the value is f32[1]"),
            refuses(s.Pad((0,), (0,), (0,)), t(f32, 2, 2), t(f32), error=ShapeError, text="pad: low, high and interior must have one entry for each axis of f32[2,2]"),
            refuses(s.Pad((0,), (0,), (-1,)), t(f32, 2), t(f32), error=ShapeError, text="pad: interior amounts must not be negative, got (-1,)"),
            refuses(s.Pad((-2,), (-1,), (0,)), t(f32, 2), t(f32), error=ShapeError, text="pad: low (-2,) and high (-1,) take away more than f32[2] has"),
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
            refuses(s.Slice((0,), (1,), (1,)), t(f32, 2, 3), error=ShapeError, text="slice: start, limit and strides must have one entry for each axis of f32[2,3]"),
            refuses(s.Slice((1,), (4,), (1,)), t(f32, 3), error=ShapeError, text="slice: axis 0 of f32[3] has no slice from 1 to 4 in steps of 1"),
            refuses(s.Slice((0,), (3,), (0,)), t(f32, 3), error=ShapeError, text="slice: axis 0 of f32[3] has no slice from 0 to 3 in steps of 0"),
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
            refuses(s.DynamicSlice((2,)), t(f32, 3), error=ShapeError, text="dynamic_slice: needs a rank-0 start for each axis of f32[3], got "),
            refuses(s.DynamicSlice((2,)), t(f32, 3), t(f32), error=DTypeError, text="dynamic_slice: a start index must be signed or unsigned, got f32[]"),
            refuses(s.DynamicSlice((1, 1)), t(f32, 3, 3), t(i32), t(i8), error=DTypeError, text="dynamic_slice: start indices must have one dtype, got i32[], i8[]"),
            refuses(s.DynamicSlice((4,)), t(f32, 3), t(i32), error=ShapeError, text="dynamic_slice: a block of sizes [4] does not fit into f32[3]"),
            refuses(s.DynamicSlice((4,)), error=ShapeError, text="dynamic_slice: takes x and the starts, got no operands"),
        ),
    ),
    Row(
        s.DynamicUpdateSlice,
        (
            *over(s.DynamicUpdateSlice(), (4, 3), (2, 2), of=ALL, rest=(t(i32), t(i32)), domains=[anything, anything, STARTS]),
            *over(s.DynamicUpdateSlice(), (4,), (0,), of=[f32, f64], rest=(t(u8),), domains=[anything, anything, STARTS]),
            *over(s.DynamicUpdateSlice(), (), (), of=[f32]),
        ),
        linear=JOINT,
        exact=True,
        invalid=(
            refuses(s.DynamicUpdateSlice(), t(f32, 3), error=ShapeError, text="dynamic_update_slice: takes x, the block and the starts, got f32[3]"),
            refuses(s.DynamicUpdateSlice(), t(f32, 3), t(f16, 2), t(i32), error=DTypeError, text="dynamic_update_slice: dtypes differ: x is f32[3], the block is f16[2]"),
            refuses(s.DynamicUpdateSlice(), t(f32, 3), t(f32, 4), t(i32), error=ShapeError, text="dynamic_update_slice: the block f32[4] does not fit into x f32[3]"),
        ),
    ),
    Row(
        s.Iota,
        tuple([Sample(s.Iota(t(d, 2, 3), i), ()) for d in of_kinds("iufc") for i in (0, 1)])
        + tuple([Sample(s.Iota(t(f32, *shape), 0), ()) for shape in ((0,), (1,), (4,))])
        + (Sample(s.Iota(t(f32, 2, weak=True), 0), ()),),
        exact=True,
        invalid=(
            refuses(s.Iota(t(b1, 2), 0), error=DTypeError, text="iota: the dtype must be signed or unsigned or floating or complex, got bool[2]"),
            refuses(s.Iota(t(f32, 2), 1), error=ShapeError, text="iota: axis 1 is out of range for f32[2], which has 1 axes"),
            refuses(s.Iota(t(f32, 2), 0), t(f32), error=ShapeError, text="iota: takes 0 operands, got 1: f32[]"),
        ),
    ),
]


def reduction(kind: type[r.Reduction], kinds: str, **rest: object) -> Row:
    domain = spaced if kind in (r.ReduceMax, r.ReduceMin) else nonzero(0.5, 1.5)
    some = [d for d in (f32, f64) if "f" in kinds] or [i32]
    bad = {"biuf": c64, "iufc": b1, "biu": f32}[kinds]
    names = {"biuf": "bool or signed or unsigned or floating", "iufc": "signed or unsigned or floating or complex", "biu": "bool or signed or unsigned"}[kinds]
    name = kind.name
    return Row(
        kind,
        (
            *over(kind((1,)), (2, 3), of=of_kinds(kinds), domains=[domain]),
            *over(kind((0, 2)), (2, 3, 2), of=some, domains=[domain]),
            *over(kind((0, 1)), (3, 2), of=some, domains=[domain]),
            *over(kind(()), (2,), of=some, domains=[domain]),
            *over(kind((0,)), (0, 2), of=[*some, *[d for d in (i32, b1, u8) if d in of_kinds(kinds)]], domains=[domain]),
            *over(kind((0,)), (0,), of=some, domains=[domain]),
            Sample(kind((0,)), (t(some[0], 2, weak=True),), (domain,)),
        ),
        tolerance=4.0,
        invalid=(
            refuses(kind((0,)), t(bad, 2), error=DTypeError, text=f"{name}: operand must be {names}, got {t(bad, 2)}"),
            refuses(kind((1,)), t(some[0], 2), error=ShapeError, text=f"{name}: axes 1 is out of range for {t(some[0], 2)}, which has 1 axes"),
            refuses(kind((0, 0)), t(some[0], 2), error=ShapeError, text=f"{name}: axes (0, 0) repeat an axis"),
        ),
        **rest,  # type: ignore[arg-type]  # fields of Row
    )


def cumulative(kind: type[r.Cumulative], kinds: str, **rest: object) -> Row:
    domain = spaced if kind in (r.CumMax, r.CumMin) else nonzero(0.5, 1.5)
    return Row(
        kind,
        (
            *over(kind(0), (5,), of=of_kinds(kinds), domains=[domain]),
            *over(kind(1, True), (2, 4), of=[f32, f64, i32], domains=[domain]),
            *over(kind(0), (70, 1), of=[f32, i32], domains=[nonzero(0.9, 1.1)]),
            *over(kind(0, True), (37,), of=[f32, f64], domains=[nonzero(0.9, 1.1)]),
            *over(kind(0), (1,), of=[f32, f64], domains=[domain]),
            *over(kind(0), (0,), of=[f32], domains=[domain]),
        ),
        tolerance=8.0,
        invalid=(
            refuses(kind(1), t(f32, 2), error=ShapeError, text=f"{kind.name}: axis 1 is out of range for f32[2], which has 1 axes"),
            Invalid(lambda: kind(True), TypeError, f"{kind.__name__}: axis must be an int, got True"),
        ),
        **rest,  # type: ignore[arg-type]  # fields of Row
    )


def arg_reduction(kind: type[r.ArgReduction]) -> Row:
    return Row(
        kind,
        (
            *over(kind(1, i32), (2, 5), of=of_kinds("biuf"), domains=[interval(-2, 2)]),
            *over(kind(0, i8), (4,), of=[f32, i32]),
            *over(kind(0, i64), (4, 2), of=[f64]),
            *over(kind(0, i32), (1, 2), of=[f32]),
            *over(kind(0, i32), (2, 0), of=[f32]),
        ),
        exact=True,
        invalid=(
            refuses(kind(0, i32), t(f32, 0), error=ShapeError, text=f"{kind.name}: axis 0 of f32[0] has no elements"),
            refuses(kind(0, f32), t(f32, 2), error=DTypeError, text=f"{kind.name}: index_dtype must be an integer dtype, got float32"),
            refuses(kind(0, i32), t(c64, 2), error=DTypeError, text=f"{kind.name}: operand must be bool or signed or unsigned or floating, got c64[2]"),
        ),
    )


REDUCE = [
    reduction(r.ReduceSum, "iufc", linear=ONE),
    reduction(r.ReduceProd, "iufc"),
    reduction(r.ReduceMax, "biuf"),
    reduction(r.ReduceMin, "biuf"),
    reduction(r.ReduceAnd, "biu"),
    reduction(r.ReduceOr, "biu"),
    reduction(r.ReduceXor, "biu"),
    arg_reduction(r.ArgMax),
    arg_reduction(r.ArgMin),
    cumulative(r.CumSum, "iufc", linear=ONE),
    cumulative(r.CumProd, "iufc"),
    cumulative(r.CumMax, "biuf"),
    cumulative(r.CumMin, "biuf"),
]

LINALG = [
    Row(
        DotGeneral,
        (
            *over(DotGeneral((1,), (0,)), (2, 3), (3, 4), of=ALL),
            *over(DotGeneral((0,), (0,)), (3,), (3,), of=[f32, f64]),
            *over(DotGeneral((), ()), (2,), (), of=[f32, f64]),
            *over(DotGeneral((2, 0), (1, 3), (1,), (0,)), (2, 3, 4, 5), (3, 4, 5, 2), of=[f32, f64, c128, i32]),
            *over(DotGeneral((0,), (2,), (2, 1), (0, 1)), (2, 3, 4), (4, 3, 2), of=[f32, f64]),
            *over(DotGeneral((1,), (0,)), (2, 0), (0, 2), of=[f32, f64]),
            *over(DotGeneral((1,), (1,), preferred=f32), (2, 3), (2, 3), of=[f16, bf16, i8]),
            *over(DotGeneral((1,), (1,), preferred=i32), (2, 3), (2, 3), of=[i8, u8, i16]),
            *over(DotGeneral((1,), (1,), precision=("HIGHEST", "HIGHEST")), (2, 3), (2, 3), of=[f32, f64]),
            Sample(DotGeneral((0,), (0,)), (t(f32, 2, weak=True), t(f32, 2, weak=True))),
        ),
        linear=((0,), (1,)),
        tolerance=4.0,
        invalid=(
            refuses(DotGeneral((1,), (0,)), t(f32, 3, 4), t(f32, 5, 6), error=ShapeError, text="dot_general: contracting sizes differ: lhs f32[3,4] axis 1 is 4, rhs f32[5,6] axis 0 is 5"),
            refuses(DotGeneral((), (), (0,), (0,)), t(f32, 3), t(f32, 2), error=ShapeError, text="dot_general: batch sizes differ: lhs f32[3] axis 0 is 3, rhs f32[2] axis 0 is 2"),
            refuses(DotGeneral((0,), ()), t(f32, 3), t(f32, 3), error=ShapeError, text="dot_general: contracting axes differ in number: lhs (0,), rhs ()"),
            refuses(DotGeneral((0,), (0,)), t(f32, 3), t(f16, 3), error=DTypeError, text="dot_general: operand dtypes differ: lhs is f32[3], rhs is f16[3]"),
            refuses(DotGeneral((1,), (0,)), t(f32, 3), t(f32, 3), error=ShapeError, text="dot_general: lhs axes 1 is out of range for f32[3], which has 1 axes"),
            Invalid(lambda: DotGeneral((0,), (0,), precision=("LOW", "LOW")), ValueError, "'precision' must be in ('DEFAULT', 'HIGH', 'HIGHEST') (got 'LOW')"),
        ),
    )
]

SORT = [
    Row(
        Sort,
        (
            *over(Sort(0), (6,), of=ALL),
            *over(Sort(1), (2, 4), of=[f64, f32], rest=(t(i32, 2, 4), t(f64, 2, 4)), domains=[spaced, anything]),
            *over(Sort(0, num_keys=2), (7, 1), (7, 1), of=[f32, b1, c64, i8], rest=(t(f32, 7, 1),), domains=[interval(-1, 1)]),
            *over(Sort(0), (4,), of=[f64], domains=[spaced]),
            *over(Sort(0), (0,), of=[f32]),
            *over(Sort(0), (1,), of=[f32]),
            Sample(Sort(0), (t(f32, 3, weak=True),)),
        ),
        exact=True,
        second=False,
        invalid=(
            refuses(Sort(0, num_keys=2), t(f32, 2), error=ShapeError, text="sort: num_keys must be between 1 and the number of operands, got 2 for f32[2]"),
            refuses(Sort(0), t(f32, 2), t(f32, 3), error=ShapeError, text="sort: operand shapes differ: f32[2], f32[3]"),
            refuses(Sort(0), t(f32), error=ShapeError, text="sort: axis 0 is out of range for f32[], which has 0 axes"),
        ),
    )
]

COLLECTIVE = [
    Row(
        k.PSum,
        over(k.PSum("i"), (2,), of=of_kinds("iufc")),
        linear=ONE,
        tolerance=4.0,
        invalid=(
            refuses(k.PSum("i"), t(b1), error=DTypeError, text="psum: operand must be signed or unsigned or floating or complex, got bool[]"),
            refuses(k.PSum("i"), error=ShapeError, text="psum: takes 1 operand, got 0: "),
        ),
    ),
    *[
        Row(
            kind,
            over(kind("i"), (2,), of=of_kinds("biuf"), domains=[spaced]),
            exact=True,
            invalid=(
                refuses(kind("i"), t(c64), error=DTypeError, text=f"{kind.name}: operand must be bool or signed or unsigned or floating, got c64[]"),
            ),
        )
        for kind in (k.PMax, k.PMin)
    ],
    Row(
        k.AxisIndex,
        (Sample(k.AxisIndex("i"), ()),),
        exact=True,
        invalid=(refuses(k.AxisIndex("i"), t(f32), error=ShapeError, text="axis_index: takes 0 operands, got 1: f32[]"),),
    ),
    Row(
        k.AllGather,
        (
            *over(k.AllGather("i", 0, MEMBERS), (2,), of=FEW),
            *over(k.AllGather("i", 1, MEMBERS), (2,), of=[f32, f64]),
            *over(k.AllGather("i", 0, MEMBERS, True), (2, 2), of=[f32, f64]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(k.AllGather("i", 0, 2, True), t(f32), error=ShapeError, text="all_gather: axis 0 is out of range for f32[], which has 0 axes"),
            refuses(k.AllGather("i", 2, 2), t(f32, 3), error=ShapeError, text="all_gather: axis 2 is out of range for f32[3,2], which has 2 axes"),
        ),
    ),
]

BODY = """
inner(a: {0}[3]) {{
  b: {0}[3] = sin a
  return b
}}

body(a: {0}[3], b: {0}[]) {{
  c: {0}[3] = mul a b
  d: {0}[3] = call[program=@inner] c
  e: {0}[] = reduce_sum[axes=(0,)] d
  return d, e, a
}}
"""
CALLS = {name: Call(parse_program(BODY.format(name))) for name in ("f32", "f64", "bf16")}
CONTROL = [
    Row(
        Call,
        tuple([Sample(CALLS[name], (t(d, 3), t(d))) for name, d in (("f32", f32), ("f64", f64), ("bf16", bf16))])
        + (Sample(Call(CALLS["f32"].program, inline=True), (t(f32, 3), t(f32))),),
        tolerance=4.0,
        invalid=(
            refuses(CALLS["f32"], t(f32, 3), error=ProgramError, text="call: body takes (f32[3], f32[]), got (f32[3])"),
            refuses(CALLS["f32"], t(f64, 3), t(f64), error=ProgramError, text="call: body takes (f32[3], f32[]), got (f64[3], f64[])"),
        ),
    )
]

ROWS = [*SHAPE, *REDUCE, *LINALG, *SORT, *COLLECTIVE, *CONTROL]
__all__ = ["ROWS", "u32"]
