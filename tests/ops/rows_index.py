"""Rows of gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from effx.dtypes import DType
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.index import COMBINERS, Gather, Scatter
from effx.ir.types import ArrayType, Shape
from effx.laws.samples import Data, anything, draw_nonzero
from tests.ops.rows import (
    ALL,
    Invalid,
    Row,
    Sample,
    bf16,
    c64,
    c128,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    refuses,
    t,
    u8,
)

STARTS = (-2, 6)  # beyond both ends of all axes below


def distinct(rng: np.random.Generator, type: ArrayType) -> Data:
    """Draws different starts for the start vectors, so that "set" has one winner."""
    count = type.size // type.shape[-1] if type.shape[-1] else type.size
    first = rng.permutation(max(count, 1) + 2)[:count] - (0 if type.kind == "u" else 1)
    rest = rng.integers(0, 3, (count, max(type.shape[-1] - 1, 0)))
    return (
        np.concatenate([first[:, None], rest], 1)[:, : type.shape[-1]].reshape(type.shape).astype(type.dtype)
    )


def gathers(op: Gather, x: Shape, indices: ArrayType, of: Sequence[DType]) -> list[Sample]:
    return [Sample(op, (t(d, *x), indices), (anything, STARTS)) for d in of]


GATHER = Row(
    Gather,
    (
        *gathers(Gather((1,), (0,), (0,), (1, 4)), (5, 4), t(i32, 3, 1), ALL),
        *gathers(Gather((0, 2), (1,), (0, 1), (2, 1, 3)), (5, 4, 3), t(i32, 2, 2), [f32, f64, i8]),
        *gathers(Gather((), (0, 1), (1, 0), (1, 1)), (5, 4), t(i32, 2), [f32, f64]),
        *gathers(Gather((), (), (), ()), (), t(i32, 2, 0), [f32, f64]),
        *gathers(Gather((0,), (), (0,), (2,)), (5,), t(u8, 2, 3, 1), [f32, f64, c64]),
        *gathers(Gather((0,), (), (0,), (2,)), (5,), t(i8, 3, 1), [f32]),
        *gathers(Gather((0,), (), (0,), (2,)), (5,), t(i64, 3, 1), [f32]),
        *gathers(Gather((1,), (2,), (2,), (1, 2, 1), (0,), (1,)), (3, 2, 4), t(i32, 2, 3, 1), [f32, f64]),
        *gathers(Gather((), (1,), (1,), (1, 1, 1), (0, 2), (1, 0)), (3, 4, 2), t(i32, 2, 3, 1), [f32, f64]),
        *gathers(Gather((0,), (), (0,), (0,)), (3,), t(i32, 1), [f32]),
        *gathers(Gather((1,), (0,), (0,), (1, 4)), (5, 4), t(i32, 0, 1), [f32, f64]),
    ),
    linear=((0,),),
    exact=True,
    invalid=(
        refuses(
            Gather((), (0,), (0,), (1,)),
            t(f32, 3),
            t(f32, 1),
            error=DTypeError,
            text="gather: indices must be integer, got f32[1]",
        ),
        refuses(
            Gather((), (0,), (0,), (1,)),
            t(f32, 3),
            t(i32, 2),
            error=ShapeError,
            text="gather: the last axis of indices must hold 1 starts, got i32[2]",
        ),
        refuses(
            Gather((), (0,), (0,), (4,)),
            t(f32, 3),
            t(i32, 1),
            error=ShapeError,
            text="gather: a slice of sizes [4] does not fit into f32[3]",
        ),
        refuses(
            Gather((), (0,), (0,), (2,)),
            t(f32, 3),
            t(i32, 1),
            error=ShapeError,
            text="gather: collapsed axes need slice size 1, got sizes [2]",
        ),
        refuses(
            Gather((), (), (0,), (1,)),
            t(f32, 3),
            t(i32, 1),
            error=ShapeError,
            text="gather: 0 offset_dims for a slice of 1 axes",
        ),
        refuses(
            Gather((5,), (), (0,), (1,)),
            t(f32, 3),
            t(i32, 1),
            error=ShapeError,
            text="gather: offset_dims (5,) are out of range for a result of 1 axes",
        ),
        refuses(
            Gather((), (1,), (1,), (1, 1), (0,), (0,)),
            t(f32, 3, 4),
            t(i32, 2, 1),
            error=ShapeError,
            text="gather: batch axes (0,) of f32[3,4] and (0,) of i32[2,1] differ",
        ),
    ),
)


def scatters(op: Scatter, x: Shape, indices: ArrayType, updates: Shape, of: Sequence[DType]) -> list[Sample]:
    values = draw_nonzero(0.5, 1.5) if op.combiner == "mul" else anything
    # Equal starts multiply or replace more than once, where a derivative is not one number.
    starts = distinct if op.combiner in ("set", "mul") else STARTS
    return [Sample(op, (t(d, *x), indices, t(d, *updates)), (values, starts, values)) for d in of]


def of_combiner(how: str) -> list[DType]:
    return [d for d in ALL if how not in ("min", "max") or d.kind != "c"]


SCATTER = Row(
    Scatter,
    (
        *[
            s
            for how in COMBINERS
            for s in scatters(
                Scatter((1,), (0,), (0,), how, unique=how == "mul"),
                (5, 4),
                t(i32, 3, 1),
                (3, 4),
                of_combiner(how),
            )
        ],
        *[
            s
            for how in COMBINERS
            for s in scatters(
                Scatter((), (0,), (0,), how, unique=how == "mul"),
                (4,),
                t(i32, 3, 1),
                (3,),
                [f32, f64, i32, bf16],
            )
        ],
        *scatters(Scatter((0, 2), (1,), (0, 1), "add"), (5, 4, 3), t(i32, 2, 2), (2, 2, 3), [f32, f64]),
        *scatters(Scatter((), (0, 1), (1, 0), "set"), (5, 4), t(i32, 2), (), [f32, f64]),
        *scatters(Scatter((), (), (), "add"), (), t(i32, 0), (), [f32, f64]),
        *scatters(Scatter((), (), (), "add"), (), t(i32, 2, 0), (2,), [f32, f64]),
        *scatters(
            Scatter((1,), (2,), (2,), "add", (0,), (1,)),
            (3, 2, 4),
            t(i32, 2, 3, 1),
            (2, 2, 3),
            [f32, f64, c128],
        ),
        *scatters(Scatter((1,), (), (0,), "add"), (5,), t(u8, 3, 1), (3, 2), [f32, f64]),
        *scatters(Scatter((1,), (), (0,), "set", unique=True), (5,), t(i8, 2, 1), (2, 1), [f32, f64]),
        *scatters(Scatter((1,), (0,), (0,), "add"), (5, 4), t(i32, 0, 1), (0, 4), [f32, f64]),
    ),
    linear=(),
    tolerance=4.0,
    invalid=(
        refuses(
            Scatter((), (0,), (0,), "add"),
            t(f32, 3),
            t(f32, 1),
            t(f32),
            error=DTypeError,
            text="scatter: indices must be integer, got f32[1]",
        ),
        refuses(
            Scatter((), (0,), (0,), "add"),
            t(f32, 3),
            t(i32, 1),
            t(f16),
            error=DTypeError,
            text="scatter: dtypes differ: x is f32[3], updates are f16[]",
        ),
        refuses(
            Scatter((), (0,), (0,), "max"),
            t(c64, 3),
            t(i32, 1),
            t(c64),
            error=DTypeError,
            text="scatter: x must be boolean, integer or floating, got c64[3]",
        ),
        refuses(
            Scatter((), (0,), (0,), "add"),
            t(f32, 3),
            t(i32, 2),
            t(f32),
            error=ShapeError,
            text="scatter: the last axis of indices must hold 1 starts, got i32[2]",
        ),
        refuses(
            Scatter((), (0,), (0,), "add"),
            t(f32, 3),
            t(i32, 2, 1),
            t(f32, 3),
            error=ShapeError,
            text="scatter: updates f32[3] fit neither x f32[3] nor indices i32[2,1]",
        ),
        Invalid(
            lambda: Scatter((), (0,), (0,), "sub"),
            ValueError,
            "'combiner' must be in ('set', 'add', 'mul', 'min', 'max') (got 'sub')",
        ),
    ),
)

ROWS = [GATHER, SCATTER]
