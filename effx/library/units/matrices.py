"""Units of what linear algebra computes."""

from fractions import Fraction

from effx.handling import Operation, ops
from effx.library.units.handler import Quantity, Units, perform_with_unit, require_plain_numbers, shared_unit
from effx.library.units.unit import ONE
from effx.tree import PyTree

# Results that hold factors with and without a unit in one matrix, a logarithm, and indices.
Units.rule(
    ops.Geqp3, ops.Geqrf, ops.Hessenberg, ops.HouseholderProduct, ops.Lu, ops.PivotsToPermutation, ops.Slogdet,
    ops.Tridiagonal,
)(require_plain_numbers)  # fmt: skip


@Units.rule(ops.Eig, ops.Eigh, ops.Schur, ops.Svd)
def _(op: Operation[tuple[PyTree, ...]], a: Quantity) -> tuple[Quantity, ...]:
    # The factor that is left after rotations comes first; rotations are plain.
    first, *rotations = perform_with_unit(op, (a,), ONE)
    return Quantity(first.value, a.unit), *rotations


@Units.rule(ops.Qr)
def _(op: ops.Qr, a: Quantity) -> tuple[Quantity, ...]:
    q, r, *order = perform_with_unit(op, (a,), ONE)
    return q, Quantity(r.value, a.unit), *order


@Units.rule(ops.Cholesky)
def _(op: ops.Cholesky, a: Quantity) -> Quantity:
    return Quantity(op(a.value), a.unit.to(Fraction(1, 2)))


@Units.rule(ops.Det)
def _(op: ops.Det, a: Quantity) -> Quantity:
    return Quantity(op(a.value), a.unit.to(a.value.shape[-1]))


@Units.rule(ops.Pinv)
def _(op: ops.Pinv, a: Quantity, cutoff: Quantity) -> Quantity:
    shared_unit("pinv: cutoff", cutoff, Quantity(cutoff.value, ONE))
    return Quantity(op(a.value, cutoff.value), ONE.times(a.unit, -1))


@Units.rule(ops.Solve, ops.TriangularSolve)
def _(op: ops.Solve | ops.TriangularSolve, a: Quantity, b: Quantity) -> Quantity:
    return Quantity(op(a.value, b.value), b.unit.times(a.unit, -1))


@Units.rule(ops.TridiagonalSolve)
def _(op: ops.TridiagonalSolve, *xs: Quantity) -> Quantity:
    *diagonals, b = xs
    return Quantity(op(*[x.value for x in xs]), b.unit.times(shared_unit(op.name, *diagonals), -1))
