"""Operations defined by an equation, not by its solver: `LinearSolve` and `Root`.

The solution is not checked.
"""

from collections.abc import Sequence
from typing import TypeVar, final

import attrs

from effx.errors import ProgramError
from effx.ir.ops.base import types_text
from effx.ir.ops.control import HigherOrder, types_match
from effx.ir.ops.groups import split_into
from effx.ir.program import Program
from effx.ir.types import ArrayType

T = TypeVar("T")


def _check_inputs(op: HigherOrder, role: str, program: Program, types: tuple[ArrayType, ...]) -> None:
    if not types_match(types, program.in_types):
        raise ProgramError(
            f"{op.name}: {role}, {program.name}, takes ({types_text(program.in_types)}), got ({types_text(types)})"
        )


def _check_outputs(op: HigherOrder, role: str, program: Program, types: tuple[ArrayType, ...]) -> None:
    if not types_match(program.out_types[: len(types)], types):
        raise ProgramError(
            f"{op.name}: {role}, {program.name}, must give ({types_text(types)}), gives ({types_text(program.out_types)})"
        )


class EquationSolution(HigherOrder):
    """Trait: finds an unknown from constants and an initial value, or right-hand side, of its types.

    Attributes:
        solve: from constants and initial value to the unknown and auxiliary results.
        constants: the number of constants.
    """

    __slots__ = ()
    solve: Program
    constants: int

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The constants and the initial value."""
        return self.solve.in_types

    def split_operands(self, operands: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """Splits the operands, or data of each, into constants and initial value."""
        constants, start = split_into(operands, self.constants)
        return constants, start

    @property
    def unknown_types(self) -> tuple[ArrayType, ...]:
        """The types of the unknown."""
        return tuple(self.split_operands(self.in_types)[1])


@final
@attrs.frozen
class LinearSolve(EquationSolution):
    """The x with A x = b. StableHLO: a call of the solver.

    Operands: constants, then b. Results: x, of b's types, then auxiliary results of the solver.

    Attributes:
        matvec: from constants and x to A x.
        solve: from constants and b to x and auxiliary results.
        transpose_matvec: from constants and y to A^T y; None to transpose `matvec`.
        transpose_solve: from constants and c to the y with A^T y = c and auxiliary results; None without a
            solver.
        constants: the number of constants.
    """

    matvec: Program
    solve: Program
    transpose_matvec: Program | None = None
    transpose_solve: Program | None = None
    constants: int = 0

    @property
    def programs(self) -> tuple[Program, ...]:
        """The solver, the linear function, and their transposes if given."""
        all_programs = (self.solve, self.matvec, self.transpose_matvec, self.transpose_solve)
        return tuple([p for p in all_programs if p is not None])

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The solver's result types."""
        unknown = self.unknown_types
        for program in self.programs:
            _check_inputs(self, "a program", program, types)
            _check_outputs(self, "a program", program, unknown)
        return self.solve.out_types


@final
@attrs.frozen
class Root(EquationSolution):
    """The x with f(x) = 0 that a solver finds. StableHLO: a call of the solver.

    Operands: constants, then the initial guess. Results: x, of the guess's types, then auxiliary results of
    the solver.

    Attributes:
        residual: from constants and x to f(x).
        solve: from constants and the guess to x and auxiliary results.
        matvec: from constants, x and v to f'(x) v.
        tangent_solve: from constants, x and b to the v with f'(x) v = b.
        transpose_solve: from constants, x and c to the w with f'(x)^T w = c; None without a solver.
        constants: the number of constants.
    """

    residual: Program
    solve: Program
    matvec: Program
    tangent_solve: Program
    transpose_solve: Program | None = None
    constants: int = 0

    @property
    def programs(self) -> tuple[Program, ...]:
        """The solver, f, its derivative, and the solvers of the linear systems."""
        all_programs = (self.solve, self.residual, self.matvec, self.tangent_solve, self.transpose_solve)
        return tuple([p for p in all_programs if p is not None])

    @property
    def linear(self) -> LinearSolve:
        """The linear solve with the derivative at x: its constants are the root's and x."""
        n = len(self.residual.in_types)
        return LinearSolve(self.matvec, self.tangent_solve, None, self.transpose_solve, n)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The solver's result types."""
        unknown = self.unknown_types
        for role, program in (("the solver", self.solve), ("the residual", self.residual)):
            _check_inputs(self, role, program, types)
            _check_outputs(self, role, program, unknown)
        self.linear.infer(*types, *unknown)
        return self.solve.out_types
