"""Rows of Fourier transforms."""

from __future__ import annotations

from effx.errors import DTypeError, ShapeError
from effx.families.fft import Fft
from tests.ops.rows import Invalid, Row, Sample, bf16, c64, c128, f32, f64, over, refuses, t

COMPLEX = [
    Sample(op, (t(d, *shape),))
    for kind in ("FFT", "IFFT")
    for op, shape in [
        (Fft(kind, (4,)), (4,)),
        (Fft(kind, (3,)), (2, 3)),
        (Fft(kind, (1,)), (2, 1)),
        (Fft(kind, (2, 3)), (2, 2, 3)),
        (Fft(kind, (2, 1, 3)), (2, 1, 3)),
        (Fft(kind, (2,)), (0, 2)),
    ]
    for d in (c64, c128)
]
SIZES = [((4,), ()), ((5,), (2,)), ((1,), (2,)), ((2, 3), (2,)), ((3, 2, 4), ()), ((2,), (0,))]
TO_HALF = [s for n, batch in SIZES for s in over(Fft("RFFT", n), (*batch, *n), of=[f32, f64])]
FROM_HALF = [
    s for n, batch in SIZES for s in over(Fft("IRFFT", n), (*batch, *n[:-1], n[-1] // 2 + 1), of=[c64, c128])
]

ROWS = [
    Row(
        Fft,
        (*COMPLEX, *TO_HALF, *FROM_HALF),
        linear=((0,),),
        tolerance=8.0,
        invalid=(
            refuses(
                Fft("FFT", (3,)), t(f32, 3), error=DTypeError, text="fft: operand must be complex, got f32[3]"
            ),
            refuses(
                Fft("RFFT", (3,)),
                t(c64, 3),
                error=DTypeError,
                text="fft: operand must be floating, got c64[3]",
            ),
            refuses(
                Fft("RFFT", (3,)),
                t(bf16, 3),
                error=DTypeError,
                text="fft: takes numbers of 32 or 64 bits, got bf16[3]",
            ),
            refuses(
                Fft("FFT", (4,)),
                t(c64, 2, 3),
                error=ShapeError,
                text="fft: FFT of lengths [4] takes [..., 4], got c64[2,3]",
            ),
            refuses(
                Fft("IRFFT", (4,)),
                t(c64, 4),
                error=ShapeError,
                text="fft: IRFFT of lengths [4] takes [..., 3], got c64[4]",
            ),
            refuses(
                Fft("FFT", (2, 3)),
                t(c64, 3),
                error=ShapeError,
                text="fft: FFT of lengths [2, 3] takes [..., 2, 3], got c64[3]",
            ),
            refuses(
                Fft("FFT", (1, 1, 1, 1)),
                t(c64, 1, 1, 1, 1),
                error=ShapeError,
                text="fft: transforms along 1 to 3 axes, got lengths (1, 1, 1, 1)",
            ),
            refuses(
                Fft("FFT", (0,)),
                t(c64, 0),
                error=ShapeError,
                text="fft: lengths must be positive, got (0,)",
            ),
            refuses(
                Fft("FFT", (2,)),
                t(c64, 2),
                t(c64, 2),
                error=ShapeError,
                text="fft: takes 1 operand, got 2: c64[2], c64[2]",
            ),
            Invalid(
                lambda: Fft("DCT", (2,)),
                ValueError,
                "'kind' must be in ('FFT', 'IFFT', 'RFFT', 'IRFFT') (got 'DCT')",
            ),
            Invalid(lambda: Fft("FFT", 2), TypeError, "Fft: lengths must be a tuple of ints, got 2"),  # type: ignore[arg-type]  # is refused
        ),
    )
]
