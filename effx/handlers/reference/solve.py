"""Solutions of equations on the host: what the solver gives.

Never: stage.
"""

from collections.abc import Sequence

from effx.array import Array
from effx.handlers.reference.control import runs
from effx.handlers.stage import run_program
from effx.ir.ops.solve import LinearSolve, Root


@runs(LinearSolve)
def linear_solve(op: LinearSolve, operands: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(run_program(op.solve, operands))


@runs(Root)
def root(op: Root, operands: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(run_program(op.solve, operands))
