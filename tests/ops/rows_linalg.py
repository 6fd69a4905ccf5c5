"""Rows of factorisations and of solutions of linear systems."""

from __future__ import annotations

from typing import Any

from effx.effects import Operation
from effx.errors import DTypeError, ShapeError
from effx.families.linalg.cholesky import Cholesky
from effx.families.linalg.eigen import Eig, Eigh, Pinv, Svd
from effx.families.linalg.lu import Det, Lu, PivotsToPermutation, Slogdet, Solve
from effx.families.linalg.qr import Geqp3, Geqrf, HouseholderProduct, Qr
from effx.families.linalg.similarity import Hessenberg, Schur, Tridiagonal
from effx.families.linalg.triangular import TriangularSolve
from effx.families.linalg.tridiagonal import TridiagonalSolve
from effx.ir.types import Shape
from tests.ops.rows import Row, Sample, c64, c128, f16, f32, f64, i32, over, refuses, t

KERNEL = (f32, f64, c64, c128)
REAL = (f32, f64)


def of(op: Operation[Any], *shapes: Shape, dtypes: Any = KERNEL) -> tuple[Sample, ...]:
    """Samples from the operation's own domain."""
    return over(op, *shapes, of=dtypes, domains=(op.domain,))  # type: ignore[attr-defined]  # these have one


def not_square(op: Operation[Any], *more: Any) -> Any:
    what = f"{op.name}: {'a' if more else 'operand'} must"
    return (
        refuses(op, t(f32, 2, 3), *more, error=ShapeError, text=f"{what} be square in its last two axes, got f32[2,3]"),
        refuses(op, t(f32, 2), *more, error=ShapeError, text=f"{what} have at least two axes, got f32[2]"),
        refuses(op, t(f16, 2, 2), *more, error=DTypeError, text=f"{what} be f32, f64, c64 or c128, got f16[2,2]"),
    )  # fmt: skip


TRIANGULAR = [
    Row(
        TriangularSolve,
        (
            *of(TriangularSolve(), (3, 3), (3, 2)),
            *of(TriangularSolve(False, True, True), (3, 3), (2, 3), dtypes=[f64]),
            *of(TriangularSolve(True, False, True, True), (2, 3, 3), (2, 3, 1), dtypes=[c128]),
            *of(TriangularSolve(False, False, False, True), (3, 3), (2, 3), dtypes=[f64]),
            *of(TriangularSolve(), (0, 0), (0, 2), dtypes=[f32]),
            *of(TriangularSolve(), (1, 1), (1, 2), dtypes=[f32]),
        ),
        linear=((1,),),
        tolerance=30.0,
        invalid=(
            *not_square(TriangularSolve(), t(f32, 2, 2)),
            refuses(TriangularSolve(), t(f32, 2, 2), t(f64, 2, 2), error=DTypeError,
                text="triangular_solve: operand dtypes differ: a is f32[2,2], b is f64[2,2]"),
            refuses(TriangularSolve(), t(f32, 2, 2), t(f32, 3, 2, 2), error=ShapeError,
                text="triangular_solve: batch axes differ: a is f32[2,2], b is f32[3,2,2]"),
            refuses(TriangularSolve(), t(f32, 2, 2), t(f32, 3, 2), error=ShapeError,
                text="triangular_solve: axis 0 of b must have the size of a, 2: a is f32[2,2], b is f32[3,2]"),
        ),
    )
]  # fmt: skip

CHOLESKY = [
    Row(
        Cholesky,
        (
            *of(Cholesky(), (3, 3)),
            *of(Cholesky(), (2, 2, 2), dtypes=[f32]),
            *of(Cholesky(), (0, 0), dtypes=[f32]),
            *of(Cholesky(), (1, 1), dtypes=[f32]),
        ),
        tolerance=30.0,
        invalid=not_square(Cholesky()),
    )
]

LU = [
    Row(
        Lu,
        (
            *of(Lu(), (3, 3)),
            *of(Lu(), (2, 2, 3), dtypes=[c128]),
            *of(Lu(), (4, 2), dtypes=[f64]),
            *of(Lu(), (0, 3), dtypes=[f32]),
            *of(Lu(), (2, 0), dtypes=[f32]),
            *of(Lu(), (1, 1), dtypes=[f32]),
        ),
        tolerance=30.0,
        invalid=not_square(Lu())[1:],
    ),
    Row(
        PivotsToPermutation,
        (
            *of(PivotsToPermutation(4), (3,), dtypes=[i32]),
            *of(PivotsToPermutation(3), (2, 3), dtypes=[i32]),
            *of(PivotsToPermutation(2), (0,), dtypes=[i32]),
            *of(PivotsToPermutation(0), (0,), dtypes=[i32]),
        ),
        exact=True,
        invalid=(
            refuses(PivotsToPermutation(2), t(f32, 2), error=DTypeError,
                text="pivots_to_permutation: pivots must be i32, got f32[2]"),
            refuses(PivotsToPermutation(2), t(i32, 3), error=ShapeError,
                text="pivots_to_permutation: of 2 rows at most 2 have a pivot, got i32[3]"),
        ),
    ),
    Row(
        Solve,
        (
            *of(Solve(), (3, 3), (3, 2)),
            *of(Solve(), (2, 3, 3), (2, 3, 1), dtypes=[f32]),
            *of(Solve(), (0, 0), (0, 2), dtypes=[f32]),
            *of(Solve(), (1, 1), (1, 2), dtypes=[f32]),
        ),
        linear=((1,),),
        tolerance=30.0,
        invalid=(
            *not_square(Solve(), t(f32, 2, 2)),
            refuses(Solve(), t(f32, 2, 2), t(f64, 2, 2), error=DTypeError,
                text="solve: operand dtypes differ: a is f32[2,2], b is f64[2,2]"),
            refuses(Solve(), t(f32, 2, 2), t(f32, 3, 2), error=ShapeError,
                text="solve: batch axes and rows of a and b must be the same: a is f32[2,2], b is f32[3,2]"),
        ),
    ),
    Row(
        Slogdet,
        (
            *of(Slogdet(), (3, 3)),
            *of(Slogdet(), (2, 2, 2), dtypes=[f64]),
            *of(Slogdet(), (0, 0), dtypes=[f32]),
        ),
        tolerance=30.0,
        invalid=not_square(Slogdet()),
    ),
    Row(
        Det,
        (
            *of(Det(), (3, 3)),
            *of(Det(), (2, 2, 2), dtypes=[f64]),
            *of(Det(), (0, 0), dtypes=[f32]),
            *of(Det(), (1, 1), dtypes=[f64]),
        ),
        tolerance=30.0,
        invalid=not_square(Det()),
    ),
]  # fmt: skip

QR = [
    Row(
        Geqrf,
        (*of(Geqrf(), (3, 2)), *of(Geqrf(), (2, 2, 3), dtypes=[c128]), *of(Geqrf(), (0, 2), dtypes=[f32])),
        smooth=(),
        tolerance=30.0,
        invalid=not_square(Geqrf())[1:],
    ),
    Row(
        Geqp3,
        tuple([Sample(Geqp3(), (t(d, *s), t(i32, *s[:-2], s[-1])), (Geqp3.domain,))
            for d, s in [*[(d, (3, 2)) for d in KERNEL], (f64, (2, 2, 3)), (f32, (0, 2))]]),
        smooth=(),
        tolerance=30.0,
        invalid=(
            refuses(Geqp3(), t(f32, 2, 3), t(i32, 2), error=ShapeError,
                text="geqp3: the columns' order must be i32, one for each column of a f32[2,3], got i32[2]"),
        ),
    ),
    Row(
        HouseholderProduct,
        (
            *of(HouseholderProduct(), (3, 2), (2,)),
            *of(HouseholderProduct(), (2, 3, 3), (2, 1), dtypes=[c128]),
            *of(HouseholderProduct(), (2, 0), (0,), dtypes=[f32]),
        ),
        smooth=(),
        tolerance=30.0,
        invalid=(
            refuses(HouseholderProduct(), t(f32, 3, 2), t(f64, 2), error=DTypeError,
                text="householder_product: operand dtypes differ: a is f32[3,2], taus is f64[2]"),
            refuses(HouseholderProduct(), t(f32, 2, 3), t(f32, 2), error=ShapeError,
                text="householder_product: a must have at least as many rows as columns, got f32[2,3]"),
            refuses(HouseholderProduct(), t(f32, 3, 2), t(f32, 3), error=ShapeError,
                text="householder_product: taus must have a's batch axes and at most 2 entries: "
                "a is f32[3,2], taus is f32[3]"),
        ),
    ),
    Row(
        Qr,
        (
            *of(Qr(), (3, 2)),
            *of(Qr(), (2, 2, 3), dtypes=[c128]),
            *of(Qr(True), (3, 3), dtypes=[f64]),
            *of(Qr(pivoting=True), (3, 2), dtypes=[c128]),
            *of(Qr(pivoting=True), (2, 3), dtypes=[f64]),
            *of(Qr(True), (4, 2), dtypes=[f32]),
            *of(Qr(True, True), (4, 2), dtypes=[c64]),
            *of(Qr(True), (2, 0), dtypes=[f32]),
            *of(Qr(False, True), (2, 0, 3), dtypes=[f32]),
            *of(Qr(), (1, 1), dtypes=[f32]),
        ),
        tolerance=100.0,
        invalid=not_square(Qr())[1:],
    ),
]  # fmt: skip

EIGEN = [
    Row(
        Eigh,
        (
            *of(Eigh(), (3, 3), dtypes=REAL),
            *of(Eigh(False), (2, 3, 3), dtypes=[f64]),
            *of(Eigh(True, False), (3, 3)),
            *of(Eigh(False, False), (2, 2), dtypes=[c128]),
            *of(Eigh(), (0, 0), dtypes=[f32]),
            *of(Eigh(), (1, 1), dtypes=[f32]),
        ),
        tolerance=100.0,
        invalid=not_square(Eigh()),
    ),
    Row(
        Svd,
        (
            *of(Svd(), (3, 3), dtypes=REAL),
            *of(Svd(), (2, 4, 2), dtypes=[f64]),
            *of(Svd(driver="gesvd"), (2, 4), dtypes=[f64]),
            *of(Svd(True), (4, 2), dtypes=[f32]),
            *of(Svd(vectors=False), (2, 3), dtypes=[f32, c128]),
            *of(Svd(True), (2, 0, 2), dtypes=[f32]),
            *of(Svd(), (1, 1), dtypes=[f32]),
        ),
        tolerance=100.0,
        invalid=not_square(Svd())[1:],
    ),
    Row(
        Pinv,
        (
            *of(Pinv(), (3, 2), (), dtypes=REAL),
            *[Sample(Pinv(True), (t(c128, 2, 2), t(f64)), (Pinv.domain,))],
            *[Sample(Pinv(), (t(c64, 2, 3), t(f32)), (Pinv.domain,))],
        ),
        smooth=(0,),
        tolerance=100.0,
        invalid=(
            refuses(
                Pinv(),
                t(f32, 2),
                t(f32),
                error=ShapeError,
                text="pinv: a must have at least two axes, got f32[2]",
            ),
            refuses(
                Pinv(),
                t(f32, 3, 2, 2),
                t(f32),
                error=ShapeError,
                text="pinv: the cutoff must be f32[3] for a f32[3,2,2], got f32[]",
            ),
        ),
    ),
    Row(
        Eig,
        (
            *of(Eig(right=False), (3, 3)),
            *of(Eig(right=False), (2, 2, 2), dtypes=[f64]),
            *of(Eig(), (0, 0), dtypes=[f32]),
            *of(Eig(), (1, 1), dtypes=[f32]),
        ),
        tolerance=100.0,
        invalid=not_square(Eig()),
    ),
]

SIMILARITY = [
    Row(
        Schur,
        (
            *of(Schur(), (3, 3)),
            *of(Schur(False), (2, 2, 2), dtypes=[f64]),
            *of(Schur(), (0, 0), dtypes=[f32]),
        ),
        smooth=(),
        tolerance=300.0,
        invalid=not_square(Schur()),
    ),
    Row(
        Hessenberg,
        (
            *of(Hessenberg(), (3, 3)),
            *of(Hessenberg(), (2, 4, 4), dtypes=[f64]),
            *of(Hessenberg(), (0, 0), dtypes=[f32]),
            *of(Hessenberg(), (1, 1), dtypes=[f32]),
        ),
        smooth=(),
        tolerance=100.0,
        invalid=not_square(Hessenberg()),
    ),
    Row(
        Tridiagonal,
        (
            *of(Tridiagonal(), (3, 3)),
            *of(Tridiagonal(False), (2, 4, 4), dtypes=[f64]),
            *of(Tridiagonal(), (0, 0), dtypes=[f32]),
            *of(Tridiagonal(), (1, 1), dtypes=[f32]),
        ),
        smooth=(),
        tolerance=100.0,
        invalid=not_square(Tridiagonal()),
    ),
]

SMALL, LARGE = (-1.0, 1.0), (4.0, 5.0)
TRIDIAGONAL = [
    Row(
        TridiagonalSolve,
        (
            *over(TridiagonalSolve(), (3,), (3,), (3,), (3, 2), of=KERNEL, domains=(SMALL, LARGE, SMALL)),
            *over(TridiagonalSolve(), *[(2, 4)] * 3, (2, 4, 1), of=[f64], domains=(SMALL, LARGE, SMALL)),
            *over(TridiagonalSolve(), (1,), (1,), (1,), (1, 2), of=[f32], domains=(SMALL, LARGE, SMALL)),
            *over(TridiagonalSolve(), (2,), (2,), (2,), (2, 2), of=[f32], domains=(SMALL, LARGE, SMALL)),
            *over(TridiagonalSolve(), (0,), (0,), (0,), (0, 2), of=[f32]),
        ),
        linear=((3,),),
        tolerance=30.0,
        invalid=(
            refuses(
                TridiagonalSolve(),
                t(f32, 3),
                t(f32, 2),
                t(f32, 3),
                t(f32, 3, 1),
                error=ShapeError,
                text="tridiagonal_solve: diagonals must have b's dtype and shape without the last axis, "
                "got f32[3], f32[2], f32[3], f32[3,1]",
            ),
        ),
    )
]

ROWS = [*TRIANGULAR, *CHOLESKY, *LU, *QR, *EIGEN, *SIMILARITY, *TRIDIAGONAL]
