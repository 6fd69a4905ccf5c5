"""StableHLO text of `linear_solve` and `root`: calls of their solvers."""

from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Atom, Var
from effx.lower.text.emit import Body, emits


@emits(LinearSolve)
def linear_solve(
    body: Body, op: LinearSolve, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> tuple[str, ...]:
    return body.call(op.solve, [body.name(a) for a in inputs])


@emits(Root)
def root(body: Body, op: Root, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> tuple[str, ...]:
    return body.call(op.solve, [body.name(a) for a in inputs])
