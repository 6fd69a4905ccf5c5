"""Rows of XLA's own generators."""

from __future__ import annotations

import numpy as np

from effx.errors import DTypeError, ShapeError
from effx.families.bit_generators import RngBitGenerator, RngUniform
from effx.ir.types import ArrayType
from effx.laws.samples import Data, draw_bits
from tests.ops.rows import Row, Sample, f32, f64, i32, refuses, t, u8, u16, u32, u64


def three(rng: np.random.Generator, type: ArrayType) -> Data:
    """The same bound everywhere, so that a draw is certain."""
    return np.full(type.shape, 3, type.dtype)


PHILOX, FRY = "PHILOX", "THREE_FRY"
ROWS = [
    Row(
        RngBitGenerator,
        tuple(
            Sample(RngBitGenerator(shape, dtype, algorithm), (state,), (draw_bits,))
            for shape, dtype, algorithm, state in (
                ((3,), u32, PHILOX, t(u32, 4)),
                ((2, 3), u8, FRY, t(u32, 4)),
                ((3, 2), u16, PHILOX, t(u32, 4)),
                ((5,), u64, FRY, t(u64, 2)),
                ((3, 1), u64, PHILOX, t(u32, 4)),
                ((), u32, FRY, t(u32, 4)),
                ((0, 2), u32, PHILOX, t(u32, 4)),
            )
        ),
        exact=True,
        invalid=(
            refuses(
                RngBitGenerator((2,), u32),
                t(u32, 2),
                error=DTypeError,
                text="rng_bit_generator: the state must be u32[4] or u64[2], got u32[2]",
            ),
            refuses(
                RngBitGenerator((2,), i32),
                t(u32, 4),
                error=DTypeError,
                text="rng_bit_generator: the dtype must be an unsigned integer of 8 to 64 bits, got int32",
            ),
        ),
    ),
    Row(
        RngUniform,
        tuple(
            Sample(RngUniform(shape), (t(d), t(d)), (three,))
            for shape, d in (((3,), f32), ((2, 2), f64), ((), f32), ((0,), f32))
        ),
        smooth=(),
        exact=True,
        invalid=(
            refuses(
                RngUniform((2,)),
                t(f32),
                t(f64),
                error=DTypeError,
                text="rng_uniform: the bounds must have one dtype, got f32[], f64[]",
            ),
            refuses(
                RngUniform((2,)),
                t(f32, 1),
                t(f32),
                error=ShapeError,
                text="rng_uniform: the bounds must be scalars, got f32[1], f32[]",
            ),
        ),
    ),
]
