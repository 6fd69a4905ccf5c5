"""Rows of elementwise operations, comparisons, conversions and random bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from effx.effects import Operation
from effx.errors import DTypeError, ShapeError
from effx.families.incomplete import Betainc, BetaincGradA
from effx.ir.ops import convert as v
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Elementwise, describe_kinds
from effx.ir.ops.random import Threefry2x32
from effx.laws.samples import (
    anything,
    draw_bits,
    draw_by_kind,
    draw_from_interval,
    plain_operations,
    sample_of,
)
from tests.ops.rows import (
    BY_KIND,
    FEW,
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
    i32,
    i64,
    of_kinds,
    over,
    refuses,
    t,
    u8,
    u32,
)

UNARY_SHAPES = ((), (0,), (1,), (2, 3))
BINARY_SHAPES = (((), ()), ((3,), ()), ((), (2, 3)), ((0,), ()), ((1,), (1,)), ((2, 3), (2, 3)))


def first_of(kinds: str) -> str:
    return next(k for k in "fiubc" if k in kinds)


MAIN = {"f": f32, "i": i32, "u": u8, "b": b1, "c": c64}


def refused_kinds(op: Elementwise) -> list[Invalid]:
    """The operand of a kind that the operation does not take, and the wrong number of operands."""
    name, kinds, n = op.name, op.kinds, op.arity
    good = t(MAIN[first_of(kinds)], 3)
    found = [
        refuses(
            op,
            *[good] * (n + 1),
            error=ShapeError,
            text=f"{name}: takes {n} operand{'s' * (n != 1)}, got {n + 1}: {', '.join([repr(good)] * (n + 1))}",
        )
    ]
    for kind in "biufc":
        if kind not in kinds:
            bad = t(BY_KIND[kind][0], 2)
            found.append(
                refuses(
                    op,
                    *[bad] * n,
                    error=DTypeError,
                    text=f"{name}: operand must be {describe_kinds(kinds)}, got {bad!r}",
                )
            )
    return found


def row(op: Elementwise, samples: Sequence[Sample], more: Sequence[Invalid] = ()) -> Row:
    """The sample of the class, for an operation with operand types."""
    said = sample_of(type(op))
    return Row(
        type(op),
        tuple(samples),
        smooth=None if said.smooth else (),
        linear=said.linear,
        exact=said.exact,
        tolerance=said.tolerance,
        special=said.edges and op.arity < 3 and "f" in op.kinds,
        invalid=(*refused_kinds(op), *more),
    )


def unary(op: Elementwise) -> Row:
    main, domains = MAIN[first_of(op.kinds)], sample_of(type(op)).domains
    samples = [*over(op, (3,), of=of_kinds(op.kinds), domains=domains)]
    samples += [Sample(op, (t(main, *shape),), domains) for shape in UNARY_SHAPES]
    samples.append(Sample(op, (t(main, weak=True),), domains))
    return row(op, samples)


def binary(op: Elementwise) -> Row:
    main, domains = MAIN[first_of(op.kinds)], sample_of(type(op)).domains
    samples = [*over(op, (3,), (3,), of=of_kinds(op.kinds), domains=domains)]
    samples += [Sample(op, (t(main, *x), t(main, *y)), domains) for x, y in BINARY_SHAPES]
    samples.append(Sample(op, (t(main, 2), t(main, weak=True)), domains))
    samples.append(Sample(op, (t(main, weak=True), t(main, weak=True)), domains))
    if "f" in op.kinds:
        samples += [Sample(op, (t(f64, *x), t(f64, *y)), domains) for x, y in (((3,), ()), ((), (2, 3)))]
    invalid = [
        refuses(
            op,
            t(main, 2),
            t(main, 3),
            error=ShapeError,
            text=f"{op.name}: operand shapes differ: {t(main, 2)}, {t(main, 3)}; only rank-0 operands broadcast",
        ),
        refuses(
            op,
            t(main, 2),
            t(i8 if main != i8 else u8, 2),
            error=DTypeError,
            text=f"{op.name}: operand dtypes differ: operand 0 is {t(main, 2)}, operand 1 is {t(i8, 2)}",
        ),
    ]
    return row(op, samples, invalid)


ONE: tuple[tuple[int, ...], ...] = ((0,),)
JOINT: tuple[tuple[int, ...], ...] = ((),)

PLAIN = [*map(unary, plain_operations(1)), *map(binary, plain_operations(2))]
POWERS = (-2, -1, 0, 1, 3, 5)
POWER_DOMAINS = sample_of(e.IntegerPow).domains
OTHER = [
    Row(
        e.IntegerPow,
        tuple(
            [
                s
                for n in POWERS
                for s in over(e.IntegerPow(n), (3,), of=[f64, f32, bf16, c128], domains=POWER_DOMAINS)
            ]
            + [*over(e.IntegerPow(3), (3,), of=of_kinds("iufc"), domains=POWER_DOMAINS)]
            + [*over(e.IntegerPow(0), (2,), of=[i32, u8])]
            + [Sample(e.IntegerPow(2), (t(f32, *shape),)) for shape in UNARY_SHAPES]
        ),
        invalid=(
            refuses(
                e.IntegerPow(-1),
                t(i32, 2),
                error=DTypeError,
                text="integer_pow: integers have no negative powers: i32[2] to the power -1",
            ),
            refuses(
                e.IntegerPow(2),
                t(b1),
                error=DTypeError,
                text="integer_pow: operand must be integer, floating or complex, got bool[]",
            ),
        ),
    ),
    Row(
        e.Complex,
        tuple([Sample(e.Complex(), (t(d, *x), t(d, *y))) for d in (f32, f64) for x, y in BINARY_SHAPES]),
        linear=JOINT,
        exact=True,
        invalid=(
            refuses(
                e.Complex(),
                t(f16, 2),
                t(f16, 2),
                error=DTypeError,
                text="complex: operands must be f32 or f64, got f16[2], f16[2]",
            ),
            refuses(
                e.Complex(),
                t(i32),
                t(i32),
                error=DTypeError,
                text="complex: operand must be floating, got i32[]",
            ),
        ),
    ),
]


def selects(which: Any, cases: Sequence[tuple[int, ...]], of: Sequence[Any]) -> list[Sample]:
    return [Sample(e.Select(), (which, *[t(d, *s) for s in cases]), ((-1, 4), anything)) for d in of]


def ternary(op: Elementwise) -> Row:
    """One dtype and shape; rank-0 operands broadcast."""
    domains = sample_of(type(op)).domains
    samples = [*over(op, (3,), (3,), (3,), of=of_kinds(op.kinds), domains=domains)]
    samples += [
        Sample(op, (t(f64, *x), t(f64, *y), t(f64, *z)), domains)
        for x, y, z in (((3,), (), ()), ((), (2, 3), ()), ((), (), (0,)), ((), (), ()))
    ]
    return row(op, samples)


OTHER += [ternary(Betainc()), ternary(BetaincGradA())]

SELECT: Operation[Any] = e.Select()
OTHER += [
    Row(
        e.Select,
        (
            *selects(t(b1, 3), [(3,), (3,)], of_kinds("biufc")),
            *selects(t(b1), [(3,), (3,)], [f32, f64]),
            *selects(t(b1, 3), [(), (3,)], [f32, f64]),
            *selects(t(b1, 3), [(), ()], [f32, f64]),
            *selects(t(b1), [(), (0,)], [f32]),
            *selects(t(i32, 6), [(6,), (), (6,)], [f32, f64, c128, i8]),
            *selects(t(i32), [(2, 2), (2, 2), (), (2, 2)], [f32, f64]),
            *selects(t(i32, 3), [(3,)], [f32]),
            *selects(t(b1, 3), [(3,)], [f32]),
        ),
        linear=JOINT,
        exact=True,
        invalid=(
            refuses(
                SELECT,
                t(b1, 3),
                error=ShapeError,
                text="select: takes a predicate and at least one case, got bool[3]",
            ),
            refuses(
                SELECT,
                t(f32),
                t(f32),
                t(f32),
                error=DTypeError,
                text="select: the predicate must be boolean or signed integer, got f32[]",
            ),
            refuses(
                SELECT,
                t(b1),
                t(f32),
                t(f32),
                t(f32),
                error=ShapeError,
                text="select: a bool predicate chooses between 2 cases, got 3",
            ),
            refuses(
                SELECT,
                t(b1),
                t(f32),
                t(f16),
                error=DTypeError,
                text="select: dtypes of the cases differ: f32[], f16[]",
            ),
            refuses(
                SELECT,
                t(b1, 2),
                t(f32, 3),
                t(f32),
                error=ShapeError,
                text="select: operand shapes differ: bool[2], f32[3], f32[]; only rank-0 operands broadcast",
            ),
        ),
    ),
    Row(
        e.Clamp,
        (
            *over(
                e.Clamp(),
                (),
                (6,),
                (),
                of=of_kinds("biuf"),
                domains=[(-2, -1), anything, (1, 2)],
            ),
            *over(
                e.Clamp(),
                (6,),
                (6,),
                (6,),
                of=[f32, f64, i32],
                domains=[(-2, -1), anything, (1, 2)],
            ),
            *over(e.Clamp(), (), (6,), (6,), of=[f32, f64], domains=[(-2, -1), anything, (1, 2)]),
            *over(e.Clamp(), (), (), (), of=[f32, f64], domains=[(-2, -1), anything, (1, 2)]),
            *over(e.Clamp(), (), (0,), (), of=[f32]),
            Sample(e.Clamp(), (t(f32), t(f32, 2, weak=True), t(f32))),
        ),
        exact=True,
        invalid=(
            refuses(
                e.Clamp(),
                t(f32, 3),
                t(f32),
                t(f32),
                error=ShapeError,
                text="clamp: bounds must have x's shape or rank 0: low, x, high are f32[3], f32[], f32[]",
            ),
            refuses(
                e.Clamp(),
                t(c64),
                t(c64),
                t(c64),
                error=DTypeError,
                text="clamp: operand must be boolean, integer or floating, got c64[]",
            ),
            refuses(
                e.Clamp(),
                t(f32),
                t(f32),
                error=ShapeError,
                text="clamp: takes 3 operands, got 2: f32[], f32[]",
            ),
        ),
    ),
    Row(
        v.Convert,
        (
            *[
                s
                for target in of_kinds("biuf")
                for s in over(
                    v.Convert(target),
                    (4,),
                    of=[b1, i8, i32, u8, bf16, f32],
                    domains=[draw_by_kind(f=draw_from_interval(0, 9), i=draw_from_interval(0, 9))],
                )
            ],
            *[
                s
                for target in (c64, c128)
                for s in over(v.Convert(target), (4,), of=[b1, i32, f32, f64, c64, c128])
            ],
            *over(v.Convert(f64), (4,), of=[f64, f32]),
            *over(v.Convert(b1), (4,), of=[c64, f64]),
            *over(v.Convert(i64), (4,), of=[f64, u32], domains=[draw_by_kind(f=draw_from_interval(-9, 9))]),
            *over(v.Convert(f32, True), (), of=[i32, f32]),
            *over(v.Convert(i8), (4,), of=[f32], domains=[(-9, 9)]),
            *over(v.Convert(f32), (0,), of=[i32]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                v.Convert(f32),
                t(c64, 2),
                error=DTypeError,
                text="convert: c64[2] has an imaginary part, which float32 cannot hold; take real(x) first",
            ),
            refuses(v.Convert(f32), error=ShapeError, text="convert: takes 1 operand, got 0: "),
        ),
    ),
    Row(
        v.Bitcast,
        (
            *over(v.Bitcast(i32), (3,), of=[f32, u32, i32]),
            *over(v.Bitcast(f32), (3,), of=[i32], domains=[(1, 2**30)]),
            *over(v.Bitcast(u8), (3,), of=[f32, i32, i8, bf16, f64]),
            *over(v.Bitcast(u8), (), of=[f32]),
            *over(v.Bitcast(u32), (2, 4), of=[u8]),
            *over(v.Bitcast(f64), (2,), of=[i32], domains=[(1, 2**30)]),
            *over(v.Bitcast(u8), (0, 4), of=[f32]),
        ),
        exact=True,
        invalid=(
            refuses(
                v.Bitcast(f32),
                t(b1),
                error=DTypeError,
                text="bitcast: bool[] cannot be read as float32: bool and complex keep to themselves",
            ),
            refuses(
                v.Bitcast(f32),
                t(u8, 3),
                error=DTypeError,
                text="bitcast: reading u8[3] as float32 needs a last axis of size 4",
            ),
            refuses(
                v.Bitcast(f32),
                t(u8),
                error=DTypeError,
                text="bitcast: reading u8[] as float32 needs a last axis of size 4",
            ),
        ),
    ),
    Row(
        v.ReducePrecision,
        (
            *over(v.ReducePrecision(5, 10), (9,), of=of_kinds("f")),
            *over(v.ReducePrecision(8, 7), (9,), of=[f32, f64]),
            *over(v.ReducePrecision(3, 2), (9,), of=[f32], domains=[(-40, 40)]),
            *over(v.ReducePrecision(8, 7), (), of=[f32]),
            *over(v.ReducePrecision(8, 7), (0,), of=[f32]),
        ),
        smooth=(),  # the rule is the straight-through one: the slope of the identity
        exact=True,
        invalid=(
            refuses(
                v.ReducePrecision(0, 1),
                t(f32),
                error=DTypeError,
                text="reduce_precision: needs exponent_bits >= 1 and mantissa_bits >= 0, got 0 and 1",
            ),
            refuses(
                v.ReducePrecision(5, 10),
                t(i32),
                error=DTypeError,
                text="reduce_precision: operand must be floating, got i32[]",
            ),
        ),
    ),
    Row(
        v.OptimizationBarrier,
        (
            *[Sample(v.OptimizationBarrier(), (t(d, 3), t(i32), t(f64, 2))) for d in FEW],
            Sample(v.OptimizationBarrier(), (t(f32, 0),)),
            Sample(v.OptimizationBarrier(), (t(f32, weak=True),)),
        ),
        linear=JOINT,
        exact=True,
        invalid=(),
    ),
    Row(
        Threefry2x32,
        tuple(
            [
                Sample(Threefry2x32(), (t(u32, *k), t(u32, *k), t(u32, *x), t(u32, *x)), (draw_bits,))
                for k, x in (((), ()), ((), (5,)), ((3,), (3,)), ((2, 2), ()), ((), (0,)), ((1,), (1,)))
            ]
        ),
        exact=True,
        invalid=(
            refuses(
                Threefry2x32(),
                t(u32),
                t(u32),
                t(u32),
                error=ShapeError,
                text="threefry2x32: takes 4 operands, got 3: u32[], u32[], u32[]",
            ),
            refuses(
                Threefry2x32(),
                t(u32),
                t(u32),
                t(u32),
                t(i32),
                error=DTypeError,
                text="threefry2x32: operands must be u32, got u32[], u32[], u32[], i32[]",
            ),
            refuses(
                Threefry2x32(),
                t(u32),
                t(u32),
                t(u32, 2),
                t(u32, 3),
                error=ShapeError,
                text="threefry2x32: operand shapes differ: u32[], u32[], u32[2], u32[3]; only rank-0 operands broadcast",
            ),
        ),
    ),
]

ROWS = [*PLAIN, *OTHER]
