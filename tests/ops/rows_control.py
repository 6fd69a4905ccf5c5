"""Rows of the operations that hold programs, and of those that name or move a value."""

from __future__ import annotations

from typing import Any

import effx
import effx.numpy as enp
from effx import lax
from effx.effects import Operation
from effx.errors import DTypeError, ProgramError, ShapeError, ShardingError
from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Offload, Unpinned
from effx.ir.ops.collective import PSumShared
from effx.ir.ops.control import Cond, Scan, While
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.layout import ConstrainLayout
from effx.ir.ops.sharding import Constrain, Move, Release
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Program
from effx.ir.text import parse_program
from tests.ops.rows import ALL, FEW, Row, Sample, bf16, f32, f64, i32, of_kinds, over, refuses, t

PAIRS = (("f32", f32), ("f64", f64), ("bf16", bf16))


def program(text: str, name: str) -> Program:
    return parse_program(text.format(name))


SINE = "sine(a: {0}[3], b: {0}[]) {{\n  c: {0}[3] = sin a\n  d: {0}[3] = mul c b\n  return d, b\n}}"
SQUARE = "square(a: {0}[3], b: {0}[]) {{\n  c: {0}[3] = mul a a\n  d: {0}[] = mul b b\n  return c, d\n}}"
CONDS = {n: Cond((program(SINE, n), program(SQUARE, n))) for n, _ in PAIRS}
INDEX = (-1, 3)
MESH = (("i", 2), ("j", 3))

SMALL = "small(a: {0}[], b: {0}[]) {{\n  c: bool[] = lt b a\n  return c\n}}"
DOUBLE = (
    "double(a: {0}[], b: {0}[]) {{\n  c: {0}[] = mul b 2.0:{0}\n  d: {0}[] = add c 1.0:{0}\n  return d\n}}"
)
WHILES = {n: While(program(SMALL, n), program(DOUBLE, n), 1) for n, _ in PAIRS}

STEP = """
step(a: {0}[], b: {0}[2], c: {0}[]) {{
  d: {0}[2] = sin b
  e: {0}[2] = mul d a
  f: {0}[2] = add e c
  g: {0}[2] = mul f b
  return f, g
}}
"""
SCANS = {n: Scan(program(STEP, n), 3, 1, 1) for n, _ in PAIRS}


@effx.custom_jvp
def doubled(x: Any, y: Any) -> Any:
    return enp.sin(x) * y


@doubled.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return doubled(x, y), enp.cos(x) * y * dx + enp.sin(x) * dy


def first_op(f: Any, *args: Any) -> Operation[Any]:
    """The first operation of that kind in a staged function."""
    equations = effx.make_jaxpr(f)(*args).equations
    return next(e.op for e in equations if isinstance(e.op, CustomCall | LinearSolve | Root))


def solved(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(
        lambda x: a * x, b, lambda matvec, b: b / a, transpose_solve=lambda vecmat, b: b / a
    )


def rooted(a: Any) -> Any:
    return lax.custom_root(
        lambda x: x * x - a,
        a,
        lambda f, x: enp.sqrt(f(enp.zeros_like(x)) * -1.0),
        lambda g, y: y / g(enp.ones_like(y)),
    )


POSITIVE = (1, 2)

ROWS = [
    Row(
        Cond,
        tuple([Sample(CONDS[n], (t(i32), t(d, 3), t(d)), (INDEX, (-2, 2))) for n, d in PAIRS]),
        tolerance=4.0,
        invalid=(
            refuses(CONDS["f32"], t(f32), error=DTypeError, text="cond: the index must be i32[], got f32[]"),
            refuses(
                CONDS["f32"],
                t(i32),
                t(f32, 3),
                error=ProgramError,
                text="cond: branch 0, sine, takes (f32[3], f32[]), got (f32[3])",
            ),
            refuses(
                Cond((program(SINE, "f32"), program(SMALL, "f32"))),
                t(i32),
                t(f32, 3),
                t(f32),
                error=ProgramError,
                text="cond: branch 1, small, takes (f32[], f32[]), got (f32[3], f32[])",
            ),
        ),
    ),
    Row(
        While,
        tuple([Sample(WHILES[n], (t(d), t(d)), ((5, 9), (0, 1))) for n, d in PAIRS]),
        smooth=(),
        tolerance=4.0,
        invalid=(
            refuses(
                WHILES["f32"],
                t(f32),
                error=ProgramError,
                text="while: the condition, small, takes (f32[], f32[]), got (f32[])",
            ),
            refuses(
                While(program(SMALL, "f32"), program(SMALL, "f32"), 1),
                t(f32),
                t(f32),
                error=ProgramError,
                text="while: the body takes a carry of (f32[]), but gives (bool[])",
            ),
            refuses(
                While(program(DOUBLE, "f32"), program(DOUBLE, "f32"), 1),
                t(f32),
                t(f32),
                error=DTypeError,
                text="while: the condition's result must be boolean, got f32[]",
            ),
        ),
    ),
    Row(
        Scan,
        (
            *[Sample(SCANS[n], (t(d), t(d, 2), t(d, 3)), ((-1, 1),)) for n, d in PAIRS],
            Sample(Scan(SCANS["f64"].body, 3, 1, 1, True, 2), (t(f64), t(f64, 2), t(f64, 3)), ((-1, 1),)),
            Sample(Scan(SCANS["f32"].body, 0, 1, 1), (t(f32), t(f32, 2), t(f32, 0))),
        ),
        tolerance=8.0,
        invalid=(
            refuses(
                SCANS["f32"],
                t(f32),
                t(f32, 2),
                t(f32, 4),
                error=ShapeError,
                text="scan: an input must have a leading axis of 3, got f32[4]",
            ),
            refuses(
                SCANS["f32"],
                t(f32),
                t(f32, 3),
                t(f32, 3),
                error=ProgramError,
                text="scan: the body, step, takes (f32[], f32[2], f32[]), got (f32[], f32[3], f32[])",
            ),
            refuses(
                Scan(program(SMALL, "f32"), 3, 1, 1),
                t(f32),
                t(f32),
                error=ProgramError,
                text="scan: the body takes a carry of (f32[]), but gives (bool[])",
            ),
        ),
    ),
    Row(
        Checkpoint,
        tuple([Sample(Checkpoint(program(SINE, n)), (t(d, 3), t(d))) for n, d in PAIRS]),
        tolerance=4.0,
        invalid=(
            refuses(
                Checkpoint(program(SINE, "f32")),
                t(f32, 3),
                error=ProgramError,
                text="checkpoint: sine takes (f32[3], f32[]), got (f32[3])",
            ),
        ),
    ),
    *[
        Row(
            type(op),
            (*over(op, (2,), of=FEW), *over(op, (), of=[f32, f64])),
            linear=((),),
            exact=True,
            invalid=(
                refuses(
                    op,
                    t(f32),
                    t(f32),
                    error=ShapeError,
                    text=f"{op.name}: takes 1 operand, got 2: f32[], f32[]",
                ),
            ),
        )
        for op in (CheckpointName("hidden"), Offload("device", "pinned_host"), Unpinned())
    ],
    Row(
        Constrain,
        (
            *over(Constrain(MESH, ((0,), None)), (2, 3), of=ALL),
            *over(Constrain(MESH, ()), (), of=[f32]),
            *over(Constrain(MESH, ((1, 0),)), (0,), of=[f32]),
        ),
        invalid=(
            refuses(
                Constrain(MESH, ((1, 0),)),
                t(f32, 6, 2),
                error=ShardingError,
                text="with_sharding_constraint: f32[6,2] has 2 axes, but the constraint is for 1",
            ),
            refuses(
                Constrain(MESH, ((0,), None)),
                t(f32, 4),
                error=ShardingError,
                text="with_sharding_constraint: f32[4] has 1 axes, but the constraint is for 2",
            ),
        ),
    ),
    Row(
        ConstrainLayout,
        (
            *over(ConstrainLayout((1, 0)), (2, 3), of=ALL),
            *over(ConstrainLayout(()), (), of=[f32]),
            *over(ConstrainLayout((2, 0, 1)), (0, 1, 2), of=[f32]),
        ),
        linear=((),),
        exact=True,
        invalid=(
            refuses(
                ConstrainLayout((0,)),
                t(f32, 6, 2),
                error=ShapeError,
                text="with_layout_constraint: f32[6,2] has 2 axes, but the layout is for 1",
            ),
        ),
    ),
    Row(
        Release,
        (*over(Release(("i",)), (2, 3), of=ALL), *over(Release(("i", "j")), (), of=[f32])),
        invalid=(
            refuses(
                Release(("i",)),
                t(f32),
                t(f32),
                text="release: takes 1 operand, got 2: f32[], f32[]",
                error=ShapeError,
            ),
        ),
    ),
    Row(
        Move,
        (*over(Move(None), (2, 3), of=ALL), *over(Move(None), (), of=[f32])),
        invalid=(
            refuses(
                Move(None),
                t(f32),
                t(f32),
                text="device_put: takes 1 operand, got 2: f32[], f32[]",
                error=ShapeError,
            ),
        ),
    ),
    Row(
        CustomCall,
        (Sample(first_op(doubled, enp.ones(2), enp.ones(2)), (t(f32, 2), t(f32, 2))),),
        tolerance=4.0,
        invalid=(
            refuses(
                first_op(doubled, enp.ones(2), enp.ones(2)),
                t(f32, 2),
                error=ProgramError,
                text="custom_call: doubled takes (f32[2], f32[2]), got (f32[2])",
            ),
        ),
    ),
    Row(
        LinearSolve,
        (Sample(first_op(solved, enp.ones(2) * 2, enp.ones(2)), (t(f32, 2), t(f32, 2)), (POSITIVE,)),),
        tolerance=4.0,
    ),
    Row(Root, (Sample(first_op(rooted, enp.ones(2)), (t(f32, 2), t(f32, 2)), (POSITIVE,)),), tolerance=4.0),
    Row(
        PSumShared,
        (*over(PSumShared("i"), (2,), (2,), of=of_kinds("fc")),),
        linear=((0,),),
        invalid=(
            refuses(
                PSumShared("i"),
                t(i32),
                t(i32),
                error=DTypeError,
                text="psum_shared: operand must be floating or complex, got i32[]",
            ),
        ),
    ),
]
