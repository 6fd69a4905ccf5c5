"""Rows of reductions over windows."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from effx.errors import DTypeError, ShapeError
from effx.families import windows as w
from effx.ir.types import ArrayType
from effx.laws.samples import Data
from tests.ops.rows import Row, Sample, c64, f32, f64, i8, i32, of_kinds, over, refuses, spaced, t


def plain(kind: type[w.WindowReduction], *sizes: int, low: int = 0, high: int = 0) -> w.WindowReduction:
    """A window that moves by one element, with one padding for all axes."""
    n = len(sizes)
    return kind(sizes, (1,) * n, (low,) * n, (high,) * n, (1,) * n, (1,) * n)


def forms(kind: type[w.WindowReduction]) -> list[tuple[w.WindowReduction, tuple[int, ...]]]:
    return [
        (kind((2, 3), (2, 1), (1, 0), (0, 2), (1, 2), (2, 1)), (3, 3)),
        (kind((3,), (2,), (-1,), (2,), (1,), (1,)), (4,)),
        (kind((2,), (3,), (3,), (0,), (2,), (3,)), (4,)),
        (plain(kind, 1, 2, 1), (2, 3, 1)),
        (plain(kind, 2, low=3, high=2), (2,)),
        (plain(kind, 5), (3,)),
        (plain(kind, 1, low=-2, high=-2), (3,)),
        (plain(kind, 2, low=1, high=1), (0,)),
        (plain(kind), ()),
    ]


def labels(rng: np.random.Generator, type: ArrayType) -> Data:
    """Draws each integer once."""
    return rng.permutation(type.size).reshape(type.shape).astype(type.dtype)


def reduction(kind: type[w.WindowReduction], kinds: str, names: str, **rest: Any) -> Row:
    first = forms(kind)[0][0]
    name = kind.name
    bad = c64 if "c" not in kinds else of_kinds("b")[0]
    return Row(
        kind,
        (
            *over(*forms(kind)[0], of=[d for d in of_kinds(kinds) if d != f64], domains=[spaced]),
            *[s for op, shape in forms(kind) for s in over(op, shape, of=[f64], domains=[spaced])],
            Sample(plain(kind, 2, low=1), (t(f32, 3, weak=True),), (spaced,)),
        ),
        tolerance=4.0,
        invalid=(
            refuses(
                first,
                t(bad, 3, 3),
                error=DTypeError,
                text=f"{name}: operand must be {names}, got {t(bad, 3, 3)}",
            ),
            refuses(
                first,
                t(f32, 3),
                error=ShapeError,
                text=f"{name}: window must have one entry for each of the 1 axes of f32[3], got (2, 3)",
            ),
            refuses(
                plain(kind, 0),
                t(f32, 3),
                error=ShapeError,
                text=f"{name}: window must be at least 1, got (0,)",
            ),
            refuses(
                attrs.evolve(first, low=(1,)),
                t(f32, 3, 3),
                error=ShapeError,
                text=f"{name}: low must have one entry for each of the 2 axes of f32[3,3], got (1,)",
            ),
        ),
        **rest,
    )


def arg(kind: type[w.WindowArg]) -> Row:
    few = [d for d in of_kinds("biuf") if d != f64]
    return Row(
        kind,
        (
            *[Sample(op, (t(f64, *shape), t(i32, *shape)), (spaced, labels)) for op, shape in forms(kind)],
            *[Sample(forms(kind)[0][0], (t(d, 3, 3), t(i8, 3, 3)), ((-1, 1), labels)) for d in few],
            *[Sample(forms(kind)[0][0], (t(d, 3, 3), t(i8, 1, 3)), ((-1, 1), labels)) for d in few],
            Sample(plain(kind, 6, 6), (t(f64, 7, 8), t(i32, 7, 8)), (spaced, labels)),
        ),
        exact=True,
        invalid=(
            refuses(
                plain(kind, 2),
                t(f32, 3),
                t(f32, 3),
                error=DTypeError,
                text=f"{kind.name}: labels must be integers of the shape of x, f32[3], got f32[3]",
            ),
            refuses(
                plain(kind, 2),
                t(f32, 3),
                t(i32, 2),
                error=DTypeError,
                text=f"{kind.name}: labels must be integers of the shape of x, f32[3], got i32[2]",
            ),
        ),
    )


REAL = "boolean, integer or floating"
ROWS = [
    reduction(w.ReduceWindowSum, "iufc", "integer, floating or complex", linear=((0,),)),
    reduction(w.ReduceWindowMax, "biuf", REAL),
    reduction(w.ReduceWindowMin, "biuf", REAL),
    arg(w.WindowArgMax),
    arg(w.WindowArgMin),
]
