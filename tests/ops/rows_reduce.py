"""Rows of reductions, matrix products, sorting, collectives and calls."""

from __future__ import annotations

from effx.errors import DTypeError, ProgramError, ShapeError
from effx.families.sort import Sort
from effx.ir.ops import collective as k
from effx.ir.ops import reduce as r
from effx.ir.ops.control import Call
from effx.ir.ops.linalg import PRESETS, DotGeneral
from effx.ir.text import parse_program
from effx.laws.samples import anything, draw_nonzero
from tests.ops.rows import (
    ALL,
    FEW,
    REPLICAS,
    Invalid,
    Row,
    Sample,
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
    of_kinds,
    over,
    refuses,
    spaced,
    t,
    u8,
)

ONE: tuple[tuple[int, ...], ...] = ((0,),)
JOINT: tuple[tuple[int, ...], ...] = ((),)


def reduction(kind: type[r.Reduction], kinds: str, **rest: object) -> Row:
    domain = spaced if kind in (r.ReduceMax, r.ReduceMin) else draw_nonzero(0.5, 1.5)
    some = [d for d in (f32, f64) if "f" in kinds] or [i32]
    bad = {"biuf": c64, "iufc": b1, "biu": f32}[kinds]
    names = {
        "biuf": "boolean, integer or floating",
        "iufc": "integer, floating or complex",
        "biu": "boolean or integer",
    }[kinds]
    name = kind.name
    return Row(
        kind,
        (
            *over(kind((1,)), (2, 3), of=of_kinds(kinds), domains=[domain]),
            *over(kind((0, 2)), (2, 3, 2), of=some, domains=[domain]),
            *over(kind((0, 1)), (3, 2), of=some, domains=[domain]),
            *over(kind(()), (2,), of=some, domains=[domain]),
            *over(
                kind((0,)),
                (0, 2),
                of=[*some, *[d for d in (i32, b1, u8) if d in of_kinds(kinds)]],
                domains=[domain],
            ),
            *over(kind((0,)), (0,), of=some, domains=[domain]),
            Sample(kind((0,)), (t(some[0], 2, weak=True),), (domain,)),
        ),
        tolerance=4.0,
        invalid=(
            refuses(
                kind((0,)),
                t(bad, 2),
                error=DTypeError,
                text=f"{name}: operand must be {names}, got {t(bad, 2)}",
            ),
            refuses(
                kind((1,)),
                t(some[0], 2),
                error=ShapeError,
                text=f"{name}: axes 1 is out of range for {t(some[0], 2)}, which has 1 axes",
            ),
            refuses(
                kind((0, 0)), t(some[0], 2), error=ShapeError, text=f"{name}: axes (0, 0) repeat an axis"
            ),
        ),
        **rest,  # type: ignore[arg-type]  # fields of Row
    )


def cumulative(kind: type[r.Cumulative], kinds: str, **rest: object) -> Row:
    domain = spaced if kind in (r.CumMax, r.CumMin) else draw_nonzero(0.5, 1.5)
    return Row(
        kind,
        (
            *over(kind(0), (5,), of=of_kinds(kinds), domains=[domain]),
            *over(kind(1, True), (2, 4), of=[f32, f64, i32], domains=[domain]),
            *over(kind(0), (70, 1), of=[f32, i32], domains=[draw_nonzero(0.9, 1.1)]),
            *over(kind(0, True), (37,), of=[f32, f64], domains=[draw_nonzero(0.9, 1.1)]),
            *over(kind(0), (1,), of=[f32, f64], domains=[domain]),
            *over(kind(0), (0,), of=[f32], domains=[domain]),
        ),
        tolerance=8.0,
        invalid=(
            refuses(
                kind(1),
                t(f32, 2),
                error=ShapeError,
                text=f"{kind.name}: axis 1 is out of range for f32[2], which has 1 axes",
            ),
            Invalid(lambda: kind(True), TypeError, f"{kind.__name__}: axis must be an int, got True"),
        ),
        **rest,  # type: ignore[arg-type]  # fields of Row
    )


def arg_reduction(kind: type[r.ArgReduction]) -> Row:
    return Row(
        kind,
        (
            *over(kind(1, i32), (2, 5), of=of_kinds("biuf"), domains=[(-2, 2)]),
            *over(kind(0, i8), (4,), of=[f32, i32]),
            *over(kind(0, i64), (4, 2), of=[f64]),
            *over(kind(0, i32), (1, 2), of=[f32]),
            *over(kind(0, i32), (2, 0), of=[f32]),
        ),
        exact=True,
        invalid=(
            refuses(
                kind(0, i32),
                t(f32, 0),
                error=ShapeError,
                text=f"{kind.name}: axis 0 of f32[0] has no elements",
            ),
            refuses(
                kind(0, f32),
                t(f32, 2),
                error=DTypeError,
                text=f"{kind.name}: index_dtype must be an integer dtype, got float32",
            ),
            refuses(
                kind(0, i32),
                t(c64, 2),
                error=DTypeError,
                text=f"{kind.name}: operand must be boolean, integer or floating, got c64[2]",
            ),
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
            *over(
                DotGeneral((2, 0), (1, 3), (1,), (0,)), (2, 3, 4, 5), (3, 4, 5, 2), of=[f32, f64, c128, i32]
            ),
            *over(DotGeneral((0,), (2,), (2, 1), (0, 1)), (2, 3, 4), (4, 3, 2), of=[f32, f64]),
            *over(DotGeneral((1,), (0,)), (2, 0), (0, 2), of=[f32, f64]),
            *over(DotGeneral((1,), (1,), preferred=f32), (2, 3), (2, 3), of=[f16, bf16, i8]),
            *over(DotGeneral((1,), (1,), preferred=i32), (2, 3), (2, 3), of=[i8, u8, i16]),
            *over(DotGeneral((1,), (1,), precision=("HIGHEST", "HIGHEST")), (2, 3), (2, 3), of=[f32, f64]),
            *over(
                DotGeneral((1,), (0,), precision=PRESETS["F64_F64_F64"]), (2, 3), (3, 4), of=[i32, f32, f64]
            ),
            *over(
                DotGeneral((1,), (0,), precision=PRESETS["BF16_BF16_F32_X3"]), (2, 3), (3, 4), of=[f16, f32]
            ),
            Sample(DotGeneral((0,), (0,)), (t(f32, 2, weak=True), t(f32, 2, weak=True))),
        ),
        linear=((0,), (1,)),
        tolerance=4.0,
        invalid=(
            refuses(
                DotGeneral((1,), (0,)),
                t(f32, 3, 4),
                t(f32, 5, 6),
                error=ShapeError,
                text="dot_general: contracting sizes differ: lhs f32[3,4] axis 1 is 4, rhs f32[5,6] axis 0 is 5",
            ),
            refuses(
                DotGeneral((), (), (0,), (0,)),
                t(f32, 3),
                t(f32, 2),
                error=ShapeError,
                text="dot_general: batch sizes differ: lhs f32[3] axis 0 is 3, rhs f32[2] axis 0 is 2",
            ),
            refuses(
                DotGeneral((0,), ()),
                t(f32, 3),
                t(f32, 3),
                error=ShapeError,
                text="dot_general: contracting axes differ in number: lhs (0,), rhs ()",
            ),
            refuses(
                DotGeneral((0,), (0,)),
                t(f32, 3),
                t(f16, 3),
                error=DTypeError,
                text="dot_general: operand dtypes differ: lhs is f32[3], rhs is f16[3]",
            ),
            refuses(
                DotGeneral((1,), (0,)),
                t(f32, 3),
                t(f32, 3),
                error=ShapeError,
                text="dot_general: lhs axes 1 is out of range for f32[3], which has 1 axes",
            ),
            Invalid(
                lambda: DotGeneral((0,), (0,), precision=("LOW", "LOW")),
                ValueError,
                "DotGeneral: precision must be two of ('DEFAULT', 'HIGH', 'HIGHEST') or an algorithm, "
                "got ('LOW', 'LOW')",
            ),
            refuses(
                DotGeneral((0,), (0,), precision=PRESETS["F32_F32_F32"]),
                t(c128, 3),
                t(c128, 3),
                error=DTypeError,
                text="dot_general: lhs of a product by an algorithm must be integer or floating, got c128[3]",
            ),
            refuses(
                DotGeneral((0,), (0,), precision=PRESETS["ANY_F8_ANY_F8_F32"]),
                t(f32, 3),
                t(f32, 3),
                error=DTypeError,
                text="dot_general: the algorithm is for floats of 8 bits, got f32[3]",
            ),
        ),
    )
]

SORT = [
    Row(
        Sort,
        (
            *over(Sort(0), (6,), of=ALL),
            *over(
                Sort(1), (2, 4), of=[f64, f32], rest=(t(i32, 2, 4), t(f64, 2, 4)), domains=[spaced, anything]
            ),
            *over(
                Sort(0, num_keys=2),
                (7, 1),
                (7, 1),
                of=[f32, b1, c64, i8],
                rest=(t(f32, 7, 1),),
                domains=[(-1, 1)],
            ),
            *over(Sort(0), (4,), of=[f64], domains=[spaced]),
            *over(Sort(0), (0,), of=[f32]),
            *over(Sort(0), (1,), of=[f32]),
            Sample(Sort(0), (t(f32, 3, weak=True),)),
        ),
        exact=True,
        second=False,
        invalid=(
            refuses(
                Sort(0, num_keys=2),
                t(f32, 2),
                error=ShapeError,
                text="sort: num_keys must be between 1 and the number of operands, got 2 for f32[2]",
            ),
            refuses(
                Sort(0),
                t(f32, 2),
                t(f32, 3),
                error=ShapeError,
                text="sort: operand shapes differ: f32[2], f32[3]",
            ),
            refuses(
                Sort(0),
                t(f32),
                error=ShapeError,
                text="sort: axis 0 is out of range for f32[], which has 0 axes",
            ),
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
            refuses(
                k.PSum("i"),
                t(b1),
                error=DTypeError,
                text="psum: operand must be integer, floating or complex, got bool[]",
            ),
            refuses(k.PSum("i"), error=ShapeError, text="psum: takes 1 operand, got 0: "),
        ),
    ),
    *[
        Row(
            kind,
            over(kind("i"), (2,), of=of_kinds("biuf"), domains=[spaced]),
            exact=True,
            invalid=(
                refuses(
                    kind("i"),
                    t(c64),
                    error=DTypeError,
                    text=f"{kind.name}: operand must be boolean, integer or floating, got c64[]",
                ),
            ),
        )
        for kind in (k.PMax, k.PMin)
    ],
    Row(
        k.AxisIndex,
        (Sample(k.AxisIndex("i"), ()),),
        exact=True,
        invalid=(
            refuses(
                k.AxisIndex("i"), t(f32), error=ShapeError, text="axis_index: takes 0 operands, got 1: f32[]"
            ),
        ),
    ),
    Row(
        k.AllGather,
        (
            *over(k.AllGather("i", 0, REPLICAS), (2,), of=FEW),
            *over(k.AllGather("i", 1, REPLICAS), (2,), of=[f32, f64]),
            *over(k.AllGather("i", 0, REPLICAS, True), (2, 2), of=[f32, f64]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                k.AllGather("i", 0, 2, True),
                t(f32),
                error=ShapeError,
                text="all_gather: axis 0 is out of range for f32[], which has 0 axes",
            ),
            refuses(
                k.AllGather("i", 2, 2),
                t(f32, 3),
                error=ShapeError,
                text="all_gather: axis 2 is out of range for f32[3,2], which has 2 axes",
            ),
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
        tuple(
            [Sample(CALLS[name], (t(d, 3), t(d))) for name, d in (("f32", f32), ("f64", f64), ("bf16", bf16))]
        )
        + (Sample(Call(CALLS["f32"].program, inline=True), (t(f32, 3), t(f32))),),
        tolerance=4.0,
        invalid=(
            refuses(
                CALLS["f32"],
                t(f32, 3),
                error=ProgramError,
                text="call: body takes (f32[3], f32[]), got (f32[3])",
            ),
            refuses(
                CALLS["f32"],
                t(f64, 3),
                t(f64),
                error=ProgramError,
                text="call: body takes (f32[3], f32[]), got (f64[3], f64[])",
            ),
        ),
    )
]

ROWS = [*REDUCE, *LINALG, *SORT, *COLLECTIVE, *CONTROL]
