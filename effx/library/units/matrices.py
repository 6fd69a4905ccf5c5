"""Units of what linear algebra computes."""

from fractions import Fraction

from effx.families.linalg.cholesky import Cholesky
from effx.families.linalg.eigen import Eig, Eigh, Pinv, Svd
from effx.families.linalg.lu import Det, Lu, PivotsToPermutation, Slogdet, Solve
from effx.families.linalg.qr import Geqp3, Geqrf, HouseholderProduct, Qr
from effx.families.linalg.similarity import Hessenberg, Schur, Tridiagonal
from effx.families.linalg.triangular import TriangularSolve
from effx.families.linalg.tridiagonal import TridiagonalSolve
from effx.handling import Operation
from effx.library.units.handler import Quantity, Units, perform_with_unit, require_plain_numbers, shared_unit
from effx.library.units.unit import ONE
from effx.tree import PyTree

# Results that hold factors with and without a unit in one matrix, a logarithm, and indices.
Units.rule(Geqp3, Geqrf, Hessenberg, HouseholderProduct, Lu, PivotsToPermutation, Slogdet, Tridiagonal)(
    require_plain_numbers
)


@Units.rule(Eig, Eigh, Schur, Svd)
def _(op: Operation[tuple[PyTree, ...]], a: Quantity) -> tuple[Quantity, ...]:
    # The factor that is left after rotations comes first; rotations are plain.
    first, *rotations = perform_with_unit(op, (a,), ONE)
    return Quantity(first.value, a.unit), *rotations


@Units.rule(Qr)
def _(op: Qr, a: Quantity) -> tuple[Quantity, ...]:
    q, r, *order = perform_with_unit(op, (a,), ONE)
    return q, Quantity(r.value, a.unit), *order


@Units.rule(Cholesky)
def _(op: Cholesky, a: Quantity) -> Quantity:
    return Quantity(op(a.value), a.unit.to(Fraction(1, 2)))


@Units.rule(Det)
def _(op: Det, a: Quantity) -> Quantity:
    return Quantity(op(a.value), a.unit.to(a.value.shape[-1]))


@Units.rule(Pinv)
def _(op: Pinv, a: Quantity, cutoff: Quantity) -> Quantity:
    shared_unit("pinv: cutoff", cutoff, Quantity(cutoff.value, ONE))
    return Quantity(op(a.value, cutoff.value), ONE.times(a.unit, -1))


@Units.rule(Solve, TriangularSolve)
def _(op: Solve | TriangularSolve, a: Quantity, b: Quantity) -> Quantity:
    return Quantity(op(a.value, b.value), b.unit.times(a.unit, -1))


@Units.rule(TridiagonalSolve)
def _(op: TridiagonalSolve, *xs: Quantity) -> Quantity:
    *diagonals, b = xs
    return Quantity(op(*[x.value for x in xs]), b.unit.times(shared_unit(op.name, *diagonals), -1))
