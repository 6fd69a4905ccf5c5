"""Rows of convolutions."""

from __future__ import annotations

import attrs

from effx.errors import DTypeError, ShapeError
from effx.families.convolution import Convolution
from tests.ops.rows import (
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
    over,
    refuses,
    t,
    u8,
)

IN_ORDER = (0, 1, 2)


def line(
    strides: int = 1,
    low: int = 0,
    high: int = 0,
    lhs_dilation: int = 1,
    rhs_dilation: int = 1,
    axes: tuple[tuple[int, ...], ...] = (IN_ORDER,) * 3,
    **rest: object,
) -> Convolution:
    """A convolution along one spatial axis."""
    return Convolution((strides,), (low,), (high,), (lhs_dilation,), (rhs_dilation,), *axes, **rest)  # type: ignore[arg-type]  # fields of Convolution


PLAIN = line(2, 1, 1)
MIXED = Convolution((1, 2), (0, 1), (1, 0), (1, 2), (2, 1), (0, 3, 2, 1), (2, 3, 1, 0), (3, 0, 1, 2))
SPACE = Convolution((1,) * 3, (0, 1, 0), (0, 0, 1), (1,) * 3, (1,) * 3, *((0, 1, 2, 3, 4),) * 3)
# Of one spatial axis, with the shapes of lhs and rhs.
LINES = [
    (line(3, 2, 0, 2, 2), (1, 1, 4), (1, 1, 2)),
    (line(1, -1, -1), (2, 1, 5), (1, 1, 2)),
    (line(2, -1, 3, 3, 1), (1, 2, 3), (2, 2, 3)),
    (line(1, 1, 0, feature_groups=2), (2, 4, 3), (4, 2, 2)),
    (line(2, 0, 1, 2, 1, feature_groups=3), (1, 3, 3), (3, 1, 2)),
    (line(1, 1, 0, batch_groups=2), (4, 2, 3), (4, 2, 2)),
    (line(2, 1, 1, 1, 2, ((1, 0, 2), (2, 0, 1), (2, 1, 0)), batch_groups=3), (2, 3, 4), (2, 2, 3)),
    (line(1, 0, 0), (1, 1, 1), (1, 1, 1)),
    (line(1, 0, 0), (1, 1, 1), (2, 1, 3)),
    (line(1, 2, 1), (2, 1, 0), (1, 1, 2)),
    (line(1, 1, 1), (0, 2, 3), (1, 2, 2)),
    (line(1, 1, 1), (1, 0, 3), (2, 0, 2)),
    (line(1, 1, 1), (1, 2, 3), (0, 2, 2)),
]
PREFERRED = line(1, 1, 0, preferred=f32)

ROWS = [
    Row(
        Convolution,
        (
            *over(PLAIN, (2, 2, 4), (3, 2, 3), of=[b1, i32, u8, f16, bf16, f32, f64, c64, c128]),
            *over(
                Convolution((), (), (), (), (), (0, 1), (1, 0), (1, 0)), (2, 3), (3, 2), of=[i32, f32, f64]
            ),
            *over(MIXED, (2, 3, 4, 2), (2, 2, 1, 2), of=[f32, f64]),
            *over(SPACE, (1, 1, 2, 2, 2), (1, 1, 2, 1, 2), of=[f32, f64]),
            *[Sample(op, (t(f64, *x), t(f64, *k))) for op, x, k in LINES],
            Sample(PREFERRED, (t(i8, 1, 2, 3), t(i8, 1, 2, 2))),
            Sample(PREFERRED, (t(bf16, 1, 2, 3), t(bf16, 1, 2, 2))),
            Sample(attrs.evolve(PLAIN, precision=("HIGHEST", "HIGH")), (t(f32, 1, 1, 3), t(f32, 1, 1, 2))),
            Sample(PLAIN, (t(f32, 1, 1, 3, weak=True), t(f32, 1, 1, 2, weak=True))),
            Sample(PLAIN, (t(f32, 1, 1, 3, weak=True), t(f32, 1, 1, 2))),
        ),
        linear=((0,), (1,)),
        tolerance=8.0,
        invalid=(
            refuses(
                PLAIN,
                t(f32, 1, 1, 3),
                t(f64, 1, 1, 3),
                error=DTypeError,
                text="convolution: operand dtypes differ: lhs is f32[1,1,3], rhs is f64[1,1,3]",
            ),
            refuses(
                PLAIN,
                t(f32, 1, 1, 3),
                t(f32, 1, 3),
                error=ShapeError,
                text="convolution: operands must have equal ranks of at least 2, got lhs f32[1,1,3] and rhs f32[1,3]",
            ),
            refuses(
                attrs.evolve(PLAIN, out_axes=(0, 0, 1)),
                t(f32, 1, 1, 3),
                t(f32, 1, 1, 3),
                error=ShapeError,
                text="convolution: result axes (0, 0, 1) must name each of the 3 axes once",
            ),
            refuses(
                attrs.evolve(PLAIN, low=(1, 1)),
                t(f32, 1, 1, 3),
                t(f32, 1, 1, 3),
                error=ShapeError,
                text="convolution: low must have one entry for each of the 1 spatial axes of lhs f32[1,1,3], got (1, 1)",
            ),
            refuses(
                line(0),
                t(f32, 1, 1, 3),
                t(f32, 1, 1, 3),
                error=ShapeError,
                text="convolution: strides must be at least 1, got (0,)",
            ),
            refuses(
                line(1, 0, 0, 1, -1),
                t(f32, 1, 1, 3),
                t(f32, 1, 1, 3),
                error=ShapeError,
                text="convolution: rhs_dilation must be at least 1, got (-1,)",
            ),
            refuses(
                line(feature_groups=2, batch_groups=2),
                t(f32, 2, 2, 3),
                t(f32, 4, 1, 3),
                error=ShapeError,
                text="convolution: feature_groups and batch_groups must be positive, and one of them 1, got 2 and 2",
            ),
            refuses(
                line(feature_groups=2),
                t(f32, 1, 3, 3),
                t(f32, 2, 1, 3),
                error=ShapeError,
                text="convolution: lhs f32[1,3,3] has 3 features, rhs f32[2,1,3] takes 1 in each of 2 groups",
            ),
            refuses(
                line(batch_groups=2),
                t(f32, 3, 1, 3),
                t(f32, 2, 1, 3),
                error=ShapeError,
                text="convolution: the batch of lhs f32[3,1,3], 3, does not divide into 2 groups",
            ),
            refuses(
                line(feature_groups=2),
                t(f32, 1, 2, 3),
                t(f32, 3, 1, 3),
                error=ShapeError,
                text="convolution: the result's features in rhs f32[3,1,3], 3, do not divide into 2 groups",
            ),
            refuses(
                line(),
                t(f32, 1, 1, 3),
                t(f32, 1, 1, 0),
                error=ShapeError,
                text="convolution: rhs must have elements along its spatial axes, got f32[1,1,0]",
            ),
            refuses(
                line(1, -3, -1),
                t(f32, 1, 1, 3),
                t(f32, 1, 1, 1),
                error=ShapeError,
                text="convolution: padding (-3, -1) cuts off more than spatial axis 0 of lhs f32[1,1,3] has",
            ),
            Invalid(lambda: line(low=1.5), TypeError, "Convolution: low must be a tuple of ints, got (1.5,)"),  # type: ignore[arg-type]  # is refused
        ),
    )
]
